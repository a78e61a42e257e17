/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/trace.h - spans of a run (span.c) and where they go (trace.c, trace_http.c,
 * trace_console.c). In a run that is not traced every call does nothing.
 */
#pragma once
#include "run.h"

enum { CAY__TRACE_OBJECT = 64 << 10, CAY__TRACE_EVERY = 5000 };

typedef struct cay__span cay__span;

void cay__run_trace_begin(cay_run *r);
/* Ends the run's span and sends what is left; the trace for its result, malloc'ed, or NULL. */
char *cay__run_trace_end(cay_run *r, const cay_err *fault);
const char *cay__trace_id(const cay_run *r);  /* or NULL */
const char *cay__span_id(const cay__span *s); /* "" for none */
/* A span below the one that is open; kind: agent, turn, function, handoff, guardrail, mcp_tools,
 * custom. */
cay__span *cay__span_begin(cay_run *r, const char *kind, const char *name);
/* One request to a model: "response" where it speaks the Responses API, else "generation". */
cay__span *cay__span_model(cay_run *r, const cay_model *m);
/* s goes on on another thread, for which the run is `view`, a copy: what begins there is below s,
 * and what begins here is beside it. Until _joined(), called before s ends. */
void cay__trace_beside(cay__span *s, cay_run *view);
void cay__trace_joined(cay_run *view);
void cay__span_data(cay__span *s, const char *key, json_t *value); /* takes value */
/* What was said, if the run wants it told; cut to 16 KiB. text may be NULL. */
void cay__span_content(cay__span *s, const char *key, const char *text);
void cay__span_usage(cay__span *s, const cay_tokens *u);
void cay__span_end(cay__span *s, const cay_err *fault);
/* Ends it with what came of it, which is told; returns rc. */
int cay__span_close(cay__span *s, int rc, const cay_err *why);
/* One operation of the SDK's in the agent's sandbox, "sandbox.WORD", with what those have; r may be
 * NULL. word lives as long. */
cay__span *cay__span_sandbox(cay_run *r, const char *word);
cay__span *cay__span_seat(cay_run *r, const cay__seat *seat,
                          const char *word); /* of another agent's */
void cay__span_exit(cay__span *s, int code); /* of a command that ended */
/* What is done under the call is told as spans below s, and another server is told of whom it works
 * for. As long as s lives. */
void cay__span_call(cay__span *s, cay_call *call);

/* trace.c: one begins; does anybody want to know that. */
void cay__tracer_start(cay_tracer *t, const json_t *object);
bool cay__tracer_watches(const cay_tracer *t);
/* What waits is sent so often in ms, by whoever adds to it: one can look at a run that lasts. */
void cay__tracer_every(cay_tracer *t, int64_t ms);
/* span.c: "2026-01-31T12:00:00.123456+00:00" as microseconds since 1970, 0 for what is none. */
int64_t cay__trace_time(const char *text);
