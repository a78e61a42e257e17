/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of one run: a stack on its own thread, told when they end to its tracer and to its result.
 */
#include "trace.h"
#include <cay/trace.h>
#include <net/traceparent.h>
#include <assert.h>
#include <pthread.h>
#include <cay/sdk.h>
#include <time.h>

enum { SHEET_MAX = 4 << 20, CONTENT_MAX = 16 << 10 };

struct cay__span {
    cay_run *run;
    cay__span *up;
    char id[32], parent[32], started[40];
    char caller[CAY__TRACEPARENT + 1]; /* what a tool's work is told of whom it works for */
    json_t *data, *into; /* into: where what is known of it goes; of custom ones that is a place of
                            its own in data */
    const char *
        word; /* of the sandbox's operations: the SDK's, so that a failure has its names; or NULL */
    bool quiet; /* what its failures say may name files and commands */
    void (*on_op)(void *arg, const cay_op *op); /* who is told of operations besides, or NULL */
    void *on_op_arg;
};

/* What the result tells: shared with the runs of agents that are called as tools. */
typedef struct sheet {
    pthread_mutex_t lock;
    cay__buf spans; /* objects between commas */
    uint64_t left_out;
} sheet;

/* Of a run; its root is a span without a place in the output, or the call that the run is. */
typedef struct trace {
    cay__span root;
    cay__span *open; /* the innermost */
    cay__span *task;
    cay_tracer *tracer; /* or NULL */
    sheet *sheet, own;
    bool content;
    char id[48];
} trace;

static void time_text(struct timespec ts, char buf[40])
{
    struct tm tm;
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(buf, 24, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + n, 40 - n, ".%06ld+00:00", ts.tv_nsec / 1000);
}

int64_t cay__trace_time(const char *text)
{
    struct tm tm = { 0 };
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (rest)
        return (int64_t)timegm(&tm) * 1000000 + (*rest == '.' ? strtol(rest + 1, NULL, 10) : 0);
    return 0;
}

static void now_text(char buf[40])
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    time_text(ts, buf);
}

static void clock_text(int64_t ns, char buf[40])
{
    time_text((struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 }, buf);
}

static void hex_id(char *dst, size_t cap, const char *prefix, size_t bytes)
{
    uint8_t r[16];
    size_t n = (size_t)snprintf(dst, cap, "%s", prefix);
    cay__random(r, bytes);
    assert(n + 2 * bytes < cap);
    cay__hex_put(dst + n, r, bytes);
}

static trace *trace_of(const cay_run *r)
{
    return (trace *)r->span;
}

const char *cay__trace_id(const cay_run *r)
{
    if (r->span)
        return trace_of(r)->id;
    return NULL;
}

const char *cay__span_id(const cay__span *s)
{
    if (s)
        return s->id;
    return "";
}

/* Takes object. Any thread. */
static void write_object(const trace *t, json_t *object, bool span)
{
    CAY_AUTOJSON *own = object;
    CAY_AUTOFREE char *text = cay__json_text(own, CAY__TRACE_OBJECT);
    if (t->tracer)
        cay_tracer_put(t->tracer, text);
    if (!span)
        return;
    sheet *s = t->sheet;
    size_t n = strlen(CAY_OR(text, ""));
    pthread_mutex_lock(&s->lock);
    if (!n || s->spans.len + n + 2 > SHEET_MAX)
        s->left_out++;
    else
        cay__buf_fmt(&s->spans, "%s%s", CAY_TEXT_IF(s->spans.len, ","), text);
    pthread_mutex_unlock(&s->lock);
}

static json_t *trace_object(const cay_run *r, const char *id)
{
    return json_pack("{s:s, s:s, s:s, s:s?, s:n}", "object", "trace", "id", id, "workflow_name",
                     CAY_OR(r->conf->workflow, "Agent workflow"), "group_id", r->conf->group_id,
                     "metadata");
}

/* For r. What is `over` it, if anything, is told where that is told, and below `parent`. */
static trace *create_trace(cay_run *r, const trace *over, const cay__span *parent)
{
    trace *t = cay__alloc(sizeof *t);
    t->tracer = r->conf->tracer;
    t->content = r->conf->trace_content;
    t->open = &t->root;
    t->own = (sheet){ .lock = PTHREAD_MUTEX_INITIALIZER, .spans = CAY__BUF(SHEET_MAX) };
    t->sheet = &t->own;
    r->span = &t->root;
    t->root.run = r;
    if (over) {
        t->tracer = over->tracer;
        t->sheet = over->sheet;
        CAY_COPY(t->id, over->id);
        CAY_COPY(t->root.id, parent->id);
    }
    return t;
}

void cay__trace_beside(cay__span *s, cay_run *view)
{
    view->span = NULL;
    if (!s)
        return;
    const trace *over = trace_of(s->run);
    trace_of(s->run)->open = s->up; /* what begins there is beside it, not below */
    create_trace(view, over, s);
}

void cay__trace_joined(cay_run *view)
{
    free(CAY_STEAL(view->span));
}

void cay__run_trace_begin(cay_run *r)
{
    const trace *over = r->conf->over_;
    if (!over && !r->conf->tracer && !r->conf->trace)
        return;
    trace *t = create_trace(r, over, CAY_IF(over, over->open));
    if (over)
        return;
    hex_id(t->id, sizeof t->id, "trace_", 16);
    json_t *o = trace_object(r, t->id);
    if (o && t->tracer && cay__tracer_watches(t->tracer))
        cay__tracer_start(t->tracer, o);
    if (o)
        write_object(t, o, false);
    t->task = cay__span_begin(r, "task", CAY_OR(r->conf->workflow, "Agent workflow"));
}

char *cay__run_trace_end(cay_run *r, const cay_err *fault)
{
    trace *t = trace_of(r);
    if (!t)
        return NULL;
    cay__span_usage(t->task, &r->usage);
    cay__span_end(t->task, fault);
    r->span = NULL;
    if (t->sheet != &t->own) { /* the outer run tells */
        free(t);
        return NULL;
    }
    if (t->tracer)
        cay_tracer_flush(t->tracer, NULL);
    cay__buf b = CAY__BUF(SHEET_MAX + 8192);
    CAY_AUTOJSON *head = trace_object(r, t->id);
    json_t *name = json_object_get(head, "workflow_name"),
           *group = json_object_get(head, "group_id");
    CAY_AUTOJSON *first =
        json_pack("{s:s, s:O?, s:O?, s:I}", "trace_id", t->id, "workflow_name", name, "group_id",
                  group, "left_out", (json_int_t)t->own.left_out);
    CAY_AUTOFREE char *text = cay__json_plain(first, 8000);
    if (text)
        cay__buf_fmt(&b, "%.*s,\"spans\":[%s]}", (int)strlen(text) - 1, text,
                     CAY_OR(t->own.spans.data, ""));
    cay__buf_clear(&t->own.spans);
    free(t);
    if (!b.full && b.data)
        return b.data;
    cay__buf_clear(&b);
    return NULL;
}

static json_t *span_object(const trace *t, const cay__span *s, const char *ended, json_t *error)
{
    return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s?, s:O, s:o}", "object", "trace.span", "id",
                     s->id, "trace_id", t->id, "parent_id", cay__text_or(s->parent, NULL),
                     "started_at", s->started, "ended_at", ended, "span_data", s->data, "error",
                     CAY_OR(error, json_null()));
}

cay__span *cay__span_begin(cay_run *r, const char *kind, const char *name)
{
    trace *t = trace_of(r);
    if (!t)
        return NULL;
    cay__span *s = cay__alloc(sizeof *s);
    s->run = r;
    s->up = t->open;
    CAY_COPY(s->parent, t->open->id);
    t->open = s;
    hex_id(s->id, sizeof s->id, "span_", 12);
    now_text(s->started);
    s->data = json_pack("{s:s, s:s, s:{}}", "type", kind, "name", name, "data");
    if (!s->data)
        s->data = json_pack("{s:s, s:s, s:{}}", "type", kind, "name", "?",
                            "data"); /* a name that is no text */
    if (strcmp(kind, "custom"))
        s->into = s->data;
    else
        s->into = json_object_get(s->data, "data");
    s->quiet = !strcmp(kind, "function");
    if (t->tracer && cay__tracer_watches(t->tracer)) {
        CAY_AUTOJSON *o = span_object(t, s, NULL, NULL);
        if (o)
            cay__tracer_start(t->tracer, o);
    }
    return s;
}

cay__span *cay__span_model(cay_run *r, const cay_model *m)
{
    bool ours = !strcmp(cay__text_or(cay_model_kind(m)->name, ""), "responses");
    return cay__span_begin(r, ours ? "response" : "generation", cay_model_name(m));
}

void cay__span_data(cay__span *s, const char *key, json_t *value)
{
    if (s)
        json_object_set_new(s->into, key, value);
    else
        json_decref(value);
}

void cay__span_content(cay__span *s, const char *key, const char *text)
{
    if (!s || !text || !trace_of(s->run)->content)
        return;
    cay__span_data(s, key, cay__text_cut(text, CONTENT_MAX));
}

void cay__span_usage(cay__span *s, const cay_tokens *u)
{
    if (s)
        cay__span_data(s, "usage", cay__tokens_json(u));
}

/* What failed. Where the message may name files and commands, what kind of failure it was is told,
 * and no more. */
static json_t *error_of(const cay_err *fault, bool quiet)
{
    char text[80];
    CAY_FORMAT(text, "%s%s%s", cay_code_name(fault->code), CAY_TEXT_IF(*fault->reason, " "),
               fault->reason);
    return json_pack("{s:s, s:{s:s, s:s}}", "message", quiet ? text : fault->msg, "data",
                     "error_code", fault->reason, "error_type", cay_code_name(fault->code));
}

/* By the SDK's names. What is one operation to a tool is another one's to its table of errors. */
static void put_fault(json_t *data, const cay_err *fault, const char *word)
{
    static const char *const as[][2] = {
        { "view_image", "read" },          { "write_stdin", "exec" },
        { "memory.read_summary", "read" }, { "memory.read_file", "read" },
        { "memory.write_file", "write" },  { "memory.append_jsonl", "write" }
    };
    CAY_EACH(row, as)
        if (word && !strcmp((*row)[0], word)) {
            word = (*row)[1];
            break;
        }
    cay_sdk_error e = cay_sdk_error_of(fault, word);
    cay__json_put(data, "error.type", e.name);
    cay__json_put(data, "error_type", e.name);
    cay__json_put(data, "error_code", e.code);
    json_object_set_new(data, "error_retryable",
                        e.retry ? json_boolean(e.retry == CAY_RETRY_YES) : json_null());
}

void cay__span_end(cay__span *s, const cay_err *fault)
{
    char ended[40];
    if (!s)
        return;
    trace *t = trace_of(s->run);
    now_text(ended);
    if (fault && s->word)
        put_fault(s->into, fault, s->word);
    json_t *o = span_object(t, s, ended, CAY_IF(fault, error_of(fault, s->quiet && !t->content)));
    if (o)
        write_object(t, o, true);
    for (cay__span *p = t->open; p != &t->root; p = p->up)
        if (p == s) { /* those inside that nobody ended are forgotten with it */
            t->open = s->up;
            break;
        }
    json_decref(s->data);
    free(s);
}

int cay__span_close(cay__span *s, int rc, const cay_err *why)
{
    cay__span_end(s, CAY_IF(rc < 0, why));
    return rc;
}

/* The SDK's word for an operation, where it has one. */
static const char *sdk_word(const char *name)
{
    static const char *const words[][2] = { { "process.run", "exec" },
                                            { "shell.run", "exec" },
                                            { "file.read", "read" },
                                            { "file.write", "write" },
                                            { "port.connect", "resolve_exposed_port" },
                                            { "port.endpoint", "resolve_exposed_port" },
                                            { "sandbox.describe", "running" },
                                            { "sandbox.snapshot", "persist_workspace" },
                                            { "snapshot.export", "persist_workspace" },
                                            { "snapshot.import", "hydrate_workspace" },
                                            { "sandbox.undo", "hydrate_workspace" },
                                            { "sandbox.restore", "hydrate_workspace" } };
    CAY_EACH(row, words)
        if (!strcmp((*row)[0], name))
            return (*row)[1];
    return NULL;
}

static void put_sandbox(json_t *data, const cay__seat *seat, const char *word, const char *id)
{
    cay__json_put(data, "sandbox.session.id", id);
    cay__json_put(data, "session_id", id);
    if (word)
        cay__json_put(data, "sandbox.operation", word);
    if (seat && *seat->backend)
        cay__json_put(data, "sandbox.backend", seat->backend);
}

static void put_exit(json_t *data, int code) /* by both of the SDK's names */
{
    cay__json_put_int(data, "exit_code", code);
    cay__json_put_int(data, "process.exit.code", code);
}

/* Where a port is reached. An address of another machine is nobody's business who reads traces. */
static void put_server(json_t *data, const cay_op *op)
{
    const cay_endpoint *e = op->endpoint;
    cay__json_put_int(data, "server.port", e ? e->host_port : op->port);
    if (e &&
        (!strncmp(e->host, "127.", 4) || !strcmp(e->host, "::1") || !strcmp(e->host, "localhost")))
        cay__json_put(data, "server.address", e->host);
}

/* That a file or a process is not there answers who looks for it. */
static const cay_err *counts_as_fault(const cay_op *op)
{
    bool looks = !strcmp(op->name, "file.stat") || !strcmp(op->name, "process.attach");
    if (looks && op->fault && op->fault->code == CAY_ENOENT)
        return NULL;
    return op->fault;
}

/* On whatever thread the tool works: nothing of the run is touched. */
static void on_op(void *arg, const cay_op *op)
{
    const cay__span *s = arg;
    const trace *t = trace_of(s->run);
    const cay_err *fault = counts_as_fault(op);
    const char *word = sdk_word(op->name);
    char id[32], name[64], from[40], to[40];
    hex_id(id, sizeof id, "span_", 12);
    clock_text(op->began_ns, from);
    clock_text(op->ended_ns, to);
    CAY_FORMAT(name, "%s%s", CAY_TEXT_IF(word, "sandbox."), CAY_OR(word, op->name));
    json_t *data = json_pack("{s:s, s:s, s:s}", "cay.operation", op->name, "cay.sandbox",
                             op->sandbox, "cay.process", op->process);
    put_sandbox(data, s->run->seat, word, op->sandbox);
    if (op->exit_code)
        put_exit(data, *op->exit_code);
    if (op->port)
        put_server(data, op);
    if (op->alive)
        json_object_set_new(data, "alive", json_boolean(*op->alive));
    if (fault)
        put_fault(data, fault, CAY_OR(word, CAY_IF(!strncmp(op->name, "process.", 8), "exec")));
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s, s:o}, s:o}", "object",
                          "trace.span", "id", id, "trace_id", t->id, "parent_id", s->id,
                          "started_at", from, "ended_at", to, "span_data", "type", "custom", "name",
                          name, "data", data, "error", fault ? error_of(fault, true) : json_null());
    if (o)
        write_object(t, o, true);
    if (s->on_op)
        s->on_op(s->on_op_arg, op);
}

cay__span *cay__span_seat(cay_run *r, const cay__seat *seat, const char *word)
{
    cay__span *s = (cay__span *)cay_sandbox_span(r, word);
    if (!s)
        return NULL;
    s->word = word;
    s->quiet = true;
    put_sandbox(s->into, seat, word, CAY_TEXT_IF(seat->sb, cay_sandbox_id(seat->sb)));
    return s;
}

cay__span *cay__span_sandbox(cay_run *r, const char *word)
{
    if (r)
        return cay__span_seat(r, r->seat, word);
    return NULL;
}

void cay__span_exit(cay__span *s, int code)
{
    if (s)
        put_exit(s->into, code);
}

void cay__span_call(cay__span *s, cay_call *call)
{
    cay__traceparent p = { .sampled = true };
    if (!s)
        return;
    CAY_FORMAT(p.trace, "%.32s", trace_of(s->run)->id + strlen("trace_"));
    CAY_FORMAT(p.span, "%.16s", s->id + strlen("span_"));
    cay__traceparent_write(&p, s->caller);
    call->trace = s->caller;
    /* Who was told before is told besides; of spans only the innermost tells. */
    const cay__span *over = CAY_IF(call->on_op == on_op, call->on_op_arg);
    s->on_op = over ? over->on_op : call->on_op;
    s->on_op_arg = over ? over->on_op_arg : call->on_op_arg;
    call->on_op = on_op;
    call->on_op_arg = s;
}

cay_span *cay_sandbox_span(cay_run *run, const char *name)
{
    char whole[128];
    CAY_FORMAT(whole, "sandbox.%.110s", name);
    return (cay_span *)cay__span_begin(run, "custom", whole);
}

void cay_span_end(cay_span *s, const cay_err *fault)
{
    cay__span_end((cay__span *)s, fault);
}
