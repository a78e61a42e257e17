/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/telemetry.h - what the server reports of its work: spans and metrics.
 *
 * Each request, and each operation on a sandbox below it, has a span that goes to a collector
 * (OTLP/HTTP) or a file. Spans wait in memory, at most 8,192, and a thread of their own sends them
 * each second; what does not fit is counted and lost, never waited for. They hold names, ids and
 * times: no path, argument, output or key.
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

/* Counts of what was answered, for Prometheus. */

struct cay__metrics *cay__metrics_new(void);
void cay__metrics_free(struct cay__metrics *m);
/* A request was answered. Any thread; a few additions. */
void cay__metrics_request(struct cay__metrics *m, const cay__dialect *d, const cay__route *route,
                          int status, uint64_t bytes, int64_t us);
int cay__on_metrics(cay__req *r, cay_err *err); /* metrics_page.c */
void cay__metrics_print(const struct cay__metrics *m, cay__buf *out);
