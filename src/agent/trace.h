/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/trace.h - spans of a run. Without a tracer every call does nothing.
 */
#pragma once
#include "run.h"

typedef struct cay__span cay__span;

void       cay__trace_begin(cay_run *r);
void       cay__trace_end(cay_run *r, const cay_err *fault);
const char *cay__trace_id(const cay_run *r); /* or NULL */
/* A span below the one that is open; kind: agent, generation, function, handoff, guardrail, custom. */
cay__span *cay__span_begin(cay_run *r, const char *kind, const char *name);
void       cay__span_beside(cay__span *s); /* others begin beside it, not below */
void       cay__span_data(cay__span *s, const char *key, json_t *value); /* takes value */
void       cay__span_end(cay__span *s, const cay_err *fault);
/* What is done under the call is told as spans below s, and another server is told of whom it works for. As long as s lives. */
void       cay__span_call(cay__span *s, cay_call *call);
