/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/audit_sink.h - who let an agent do what: a record of its tool calls and of decisions about
 * them.
 *
 *   cay_audit_sink_file()       one JSON object a line
 *   cay_audit_sink_new()        to a function of yours
 *   cay_audit_sink_http()       POSTed, with a spool
 *   cay_audit_sink_also()       to one more, in order
 *   cay_audit_sink_workspace()  a file in the sandbox
 *   cay_audit_sink_free()
 *
 * Put it into cay_run_config.ledger. Each event is an object with version (1), event_id, seq (1, 2,
 * … of the ledger), time (wall clock, ms), run, trace_id, agent, actor, event, and
 *
 *   run       state: started, completed, interrupted, failed, cancelled; reason
 *   approval  tool, call_id, verdict: asked, approved, rejected
 *   tool      tool, call_id, span_id, inside (called by code), ms, outcome: ok, failed, refused;
 *             reason; hosted: the endpoint ran it; with cay_audit_sink_output() what it answered
 *   operation  op: process.start, file.write, …; call_id, span_id (the call's), sandbox, process,
 * ms, timeout_ms, bytes, outcome, reason, retryable; exit_code when a command has ended
 * (process.wait, shell.run); port, and where it is reached (server.port, server.address); with
 * cay_audit_sink_detail() command or shell, path and user: which may hold what a model was told
 * handoff to
 *
 * What was said, arguments of tools and contents are in none, and output is in none unless
 * cay_audit_sink_output() asks for it. Events are written one by one, as they happen, in order; a
 * sink that fails is counted and, with `strict`, ends the run with its error: nothing more is done
 * that nobody wrote down.
 */
#pragma once
#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_audit_sink cay_audit_sink;
typedef struct cay_audit_sink_ops {
    size_t size;
    int (*write)(void *self, const char *json, cay_err *err);
    void (*close)(void *self); /* or NULL */
} cay_audit_sink_ops;

/* Takes self. NULL when sink->size is none: then self stays the caller's. */
CAY_API cay_audit_sink *cay_audit_sink_new(const cay_audit_sink_ops *sink, void *self, bool strict);
CAY_API int cay_audit_sink_file(const char *path, bool strict, cay_audit_sink **out,
                                cay_err *err); /* appended to; made with mode 0600 */
/* Each event is POSTed as it happens. What cannot be delivered waits in `spool` and goes first with
 * the next event; without a spool it is lost. */
typedef struct cay_audit_sink_http_spec {
    size_t size;
    const char *url;
    const char *const *headers; /* "Name: value", NULL-terminated, or NULL; a value env:NAME or
                                   file:PATH is read there */
    const char *key; /* "env:NAME", "file:PATH" or NULL: sent as a bearer token, over https:// or to
                        this machine only */
    const char *spool; /* a file (0600, at most 64 MiB), or NULL. Of one sink at a time, which holds
                          a lock beside it: CAY_EBUSY "ledger_spool" */
    bool later;        /* a thread sends them and no call waits; then nothing of it can be strict.
                          cay_audit_sink_free() waits for it, 10 s at most */
} cay_audit_sink_http_spec;
CAY_API int cay_audit_sink_http(const cay_audit_sink_http_spec *spec, bool strict,
                                cay_audit_sink **out, cay_err *err);
/* In the workspace of the agent that acts, logs/events-SANDBOX.jsonl; what happened before it had
 * one is written then. Whoever is inside can change it: a help for them, no proof. */
CAY_API cay_audit_sink *cay_audit_sink_workspace(bool strict);
/* What is written to a is written to other behind it, whose own `strict` and detail count; it goes
 * with a. Before the first run. */
CAY_API void cay_audit_sink_also(cay_audit_sink *a, cay_audit_sink *other);
CAY_API void cay_audit_sink_detail(cay_audit_sink *a, bool on);
CAY_API void cay_audit_sink_output(
    cay_audit_sink *a,
    bool on); /* what tools answered, 8,000 bytes of each: what commands printed is among it */
CAY_API uint64_t cay_audit_sink_lost(const cay_audit_sink *a);
CAY_API void cay_audit_sink_free(cay_audit_sink *a);

#ifdef __cplusplus
}
#endif
