/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/audit.h - events of a run for its audit. Without one every call does nothing.
 */
#pragma once
#include "run.h"
#include <cay/audit_sink.h>
#include <pthread.h>

enum { CAY__EVENT_MAX = 64 << 10, CAY__EVENT_OUTPUT = 8000 };
struct cay_audit_sink {
    cay_audit_sink_ops sink;
    int (*inside)(void *self, cay_run *r, const char *json,
                  cay_err *err); /* instead of the sink's, for one that needs the run */
    void *self;
    bool strict, detail, output;
    uint64_t lost, seq;
    cay_audit_sink *next;
    pthread_mutex_t lock;
};

/* Takes more: what the event has besides time, run, agent, actor and its name; its "detail" and its
 * "output" are for those only who want them. Negative only when it could not be written and must
 * be. */
int cay__audit_sink(cay_run *r, const char *event, json_t *more, cay_err *err);
bool cay__audit_sink_detail(const cay_run *r); /* commands and paths are wanted */

/* What a tool call does in its sandbox, for the audit, as it happens.
 * Commands and paths only with cay_audit_sink_detail(). */

typedef struct cay__watched cay__watched;

/* Makes `call` tell us, and pass it on to whoever it told before. span: the call's, or "". NULL,
 * and nothing costs anything, where there is no audit. */
cay__watched *cay__watched_begin(cay_run *r, const char *call_id, const char *span, cay_call *call);
/* Negative when the audit could not be written and must be. */
int cay__watched_end(cay__watched *w, cay_err *err);
