/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/trace.h - what a run did and how long it took, as spans.
 *
 *   cay_tracer_file()     one JSON object a line
 *   cay_tracer_http()     to a collector: OTLP, or the Agents SDK's ingest form
 *   cay_tracer_console()  a tree for people
 *   cay_tracer_new()      to a function of yours
 *   cay_tracer_also()     to two places at once
 *   cay_tracer_process()  look at each, change it, keep it back
 *   cay_tracer_put()      an object of your own
 *   cay_tracer_free()     sends what is left
 *
 * A trace has an id "trace_…" and spans "span_…": task (the run), agent, turn, response (the
 * Responses API) or generation (other models), function, handoff, guardrail, mcp_tools, and custom
 * ones for the sandbox (sandbox.prepare_agent, create_session, resume_session, start, stop,
 * shutdown, cleanup, cleanup_sessions) and for what is done in it: sandbox.exec, write_stdin, read,
 * write, view_image, running, resolve_exposed_port, persist_workspace, hydrate_workspace, memory.…,
 * and by our own names what the SDKs have no word for (process.start, file.stat). Agents used as
 * tools are below the call. Spans hold names and counts; what was said, commands and output are in
 * none, unless cay_run_config.trace_content asks for it. Spans wait in memory, at most 8,192, and
 * are sent together: at the end of a run, or when 256 have gathered; to a file and to a collector
 * also every 5 s, as the next one comes. After a failure nothing is tried for 5 s, then 10, at most
 * a minute, but at the end of a run. cay_run_result.trace has them all, too.
 */
#pragma once
#include <cay/agent.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_trace_sink {
    size_t size;
    /* JSON objects; CAY_ERR of any kind is counted, and what was to be sent is lost. */
    int (*write)(void *self, const char *const *objects, size_t n, cay_err *err);
    void (*close)(void *self); /* or NULL */
} cay_trace_sink;

/* Takes self. NULL when sink->size is none: then self stays the caller's. */
CAY_API cay_tracer *cay_tracer_new(const cay_trace_sink *sink, void *self);
CAY_API int cay_tracer_file(const char *path, cay_tracer **out,
                            cay_err *err); /* appended to; made with mode 0600 */
typedef struct cay_tracer_http_spec {
    size_t size;
    const char *url;
    bool otlp;                  /* OTLP/HTTP JSON; else {"data": [trace and span objects]} */
    const char *const *headers; /* NULL-terminated, or NULL */
    const char *key;            /* "env:NAME" or NULL: sent as a bearer token */
} cay_tracer_http_spec;
CAY_API int cay_tracer_http(const cay_tracer_http_spec *spec, cay_tracer **out, cay_err *err);
CAY_API cay_tracer *cay_tracer_console(
    int fd); /* written when a run is over; fd stays the caller's */
/* Whatever is put into t is put into other as well, which goes with t. Before the first run. */
CAY_API void cay_tracer_also(cay_tracer *t, cay_tracer *other);

/* Called in the order in which they were added, before anything is queued, on the thread whose span
 * it is: several at once are possible. */
typedef struct cay_trace_processor {
    size_t size;
    void (*start)(
        void *self,
        const char *object); /* a trace or span begins: the object without its end; or NULL */
    /* One is over. False: it is not passed on. *instead (malloc'ed) is passed on in its place. Or
     * NULL. */
    bool (*end)(void *self, const char *object, char **instead);
    void (*close)(void *self); /* or NULL */
} cay_trace_processor;
CAY_API void cay_tracer_process(cay_tracer *t, const cay_trace_processor *p,
                                void *self); /* takes self; before the first run */
/* One more object, as a line of JSON: {"object": "trace.span", "id", "trace_id", "parent_id",
 * "started_at", "ended_at", "span_data": {"type", "name", "data": {…}}, "error"}. It is copied.
 * Members of data become attributes of OTLP. Any thread. */
CAY_API void cay_tracer_put(cay_tracer *t, const char *object);
CAY_API int cay_tracer_flush(cay_tracer *t, cay_err *err);
CAY_API uint64_t cay_tracer_lost(const cay_tracer *t); /* objects that could not be kept or sent */
CAY_API void cay_tracer_free(cay_tracer *t);

/* A span of your own below the run's: "sandbox." and name. End it with what failed, or NULL. */
typedef struct cay_span cay_span;
CAY_API cay_span *cay_sandbox_span(cay_run *run, const char *name);
CAY_API void cay_span_end(cay_span *s, const cay_err *fault);

#ifdef __cplusplus
}
#endif
