/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/model_hooks.h - what a tool call does in its sandbox, for the audit, as it happens.
 * Commands and paths only with cay_audit_sink_detail().
 */
#pragma once
#include "run.h"

typedef struct cay__watched cay__watched;

/* Makes `call` tell us, and pass it on to whoever it told before. span: the call's, or "". NULL,
 * and nothing costs anything, where there is no audit. */
cay__watched *cay__watched_begin(cay_run *r, const char *call_id, const char *span, cay_call *call);
/* Negative when the audit could not be written and must be. */
int cay__watched_end(cay__watched *w, cay_err *err);
