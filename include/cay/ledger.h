/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/ledger.h - who let an agent do what: a record of its tool calls and of decisions about them.
 *
 *   cay_ledger_file()  one JSON object a line      cay_ledger_new()  to a function of yours      cay_ledger_free()
 *
 * Put it into cay_run_config.ledger. Each event is an object with time (wall clock, ms), run, agent, actor, event, and
 *
 *   run        state: started, completed, interrupted, failed, cancelled; reason
 *   approval   tool, call_id, verdict: asked, approved, rejected
 *   tool       tool, call_id, inside (called by code), ms, outcome: ok, failed, refused; reason
 *   operation  op: process.start, file.write, …; call_id, sandbox, process, ms, bytes, outcome, reason; with cay_ledger_detail()
 *              command or shell, path and user: which may hold what a model was told
 *   handoff    to
 *
 * What was said, arguments of tools, output and contents are in none. Events are written one by one, as they happen, in order; a sink that fails is counted
 * and, with `strict`, ends the run with its error: nothing more is done that nobody wrote down.
 */
#pragma once
#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_ledger cay_ledger;
typedef struct cay_ledger_sink {
    size_t size;
    int  (*write)(void *self, const char *json, cay_err *err);
    void (*close)(void *self); /* or NULL */
} cay_ledger_sink;

/* Takes self. NULL when sink->size is none: then self stays the caller's. */
CAY_API cay_ledger *cay_ledger_new(const cay_ledger_sink *sink, void *self, bool strict);
CAY_API int  cay_ledger_file(const char *path, bool strict, cay_ledger **out, cay_err *err); /* appended to; made with mode 0600 */
CAY_API void cay_ledger_detail(cay_ledger *a, bool on);
CAY_API uint64_t cay_ledger_lost(const cay_ledger *a);
CAY_API void cay_ledger_free(cay_ledger *a);

#ifdef __cplusplus
}
#endif
