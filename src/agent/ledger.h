/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/ledger.h - events of a run for its audit. Without one every call does nothing.
 */
#pragma once
#include "run.h"

/* Takes more: what the event has besides time, run, agent, actor and its name. Negative only when it could not be written and must be. */
int cay__ledger(cay_run *r, const char *event, json_t *more, cay_err *err);
bool cay__ledger_detail(const cay_run *r); /* commands and paths are wanted */
