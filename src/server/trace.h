/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/trace.h - a span for each request and for each operation on a sandbox below it, to a
 * collector (OTLP/HTTP) or a file.
 *
 * Spans wait in memory, at most 8,192, and a thread of their own sends them each second; what does
 * not fit is counted and lost, never waited for. They hold names, ids and times: no path, argument,
 * output or key.
 */
#pragma once
#include <server/http/server.h>

struct cay__tracing;
/* From --otlp, --trace and the variables of OpenTelemetry; *out NULL when nobody asks for spans. */
int cay__tracing_open(const cay__conf *conf, struct cay__tracing **out, cay_err *err);
void cay__tracing_close(struct cay__tracing *t); /* sends what is left; NULL is fine */
uint64_t cay__tracing_lost(struct cay__tracing *t);
void cay__trace_begin(cay__req *r); /* before its handler: r->call carries the trace on */
void cay__trace_end(cay__req *r);   /* all of it was answered */
