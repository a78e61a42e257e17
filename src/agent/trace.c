/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"
#include <base/fd.h>
#include <base/str.h>
#include <cay/trace.h>
#include <fcntl.h>
#include <net/traceparent.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { QUEUE_MAX = 8192, BATCH = 256, OBJECT_MAX = 64 << 10 };

struct cay_tracer {
    const cay_trace_sink *sink;
    void                 *self;
    pthread_mutex_t       lock; /* of what follows, and of the sink */
    char                 *queue[QUEUE_MAX];
    size_t                n;
    uint64_t              lost;
};

struct cay__span {
    cay_run   *run;
    cay__span *up;
    char       id[32], started[40];
    char       parent[CAY__TRACEPARENT + 1]; /* what a tool's work is told of whom it works for */
    json_t    *data;
};

/* Of a run; its root is a span without a place in the output. */
typedef struct trace {
    cay__span   root;
    cay__span  *open; /* the innermost */
    cay_tracer *tracer;
    char        id[48];
} trace;

static void time_text(struct timespec ts, char buf[40])
{
    struct tm tm;
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(buf, 24, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + n, 40 - n, ".%06ld+00:00", ts.tv_nsec / 1000);
}

static void now_text(char buf[40])
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    time_text(ts, buf);
}

static void hex_id(char *dst, size_t cap, const char *prefix, size_t bytes)
{
    uint8_t r[16];
    size_t n = (size_t)snprintf(dst, cap, "%s", prefix);
    cay__random(r, bytes);
    for (size_t i = 0; i < bytes && n + 3 <= cap; i++)
        n += (size_t)snprintf(dst + n, cap - n, "%02x", r[i]);
}

/* ------------------------------------------------------------------ the queue */

cay_tracer *cay_tracer_new(const cay_trace_sink *sink, void *self)
{
    cay_tracer *t = cay__alloc(sizeof *t);
    t->sink = sink;
    t->self = self;
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

/* With the lock held. */
static int flush(cay_tracer *t, cay_err *err)
{
    size_t n = t->n;
    if (!n)
        return 0;
    int rc = t->sink->write(t->self, (const char *const *)t->queue, n, err);
    if (rc < 0)
        t->lost += n;
    for (size_t i = 0; i < n; i++)
        free(t->queue[i]);
    t->n = 0;
    return rc;
}

int cay_tracer_flush(cay_tracer *t, cay_err *err)
{
    pthread_mutex_lock(&t->lock);
    int rc = flush(t, err);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

uint64_t cay_tracer_lost(const cay_tracer *t)
{
    return t->lost;
}

void cay_tracer_free(cay_tracer *t)
{
    if (!t)
        return;
    cay_tracer_flush(t, NULL);
    if (t->sink->close)
        t->sink->close(t->self);
    free(t);
}

/* Takes text. */
static void queue(cay_tracer *t, char *text)
{
    pthread_mutex_lock(&t->lock);
    if (text && t->n < QUEUE_MAX)
        t->queue[t->n++] = CAY_STEAL(text);
    else
        t->lost++;
    if (t->n >= BATCH)
        flush(t, NULL);
    pthread_mutex_unlock(&t->lock);
    free(text);
}

static void put(cay_tracer *t, json_t *object)
{
    char *text = cay__json_text(object, OBJECT_MAX);
    json_decref(object);
    queue(t, text);
}

void cay_tracer_put(cay_tracer *t, const char *object)
{
    queue(t, strlen(object) > OBJECT_MAX ? NULL : cay__strdup(object));
}

/* ------------------------------------------------------------------ spans */

void cay__trace_begin(cay_run *r)
{
    if (!r->conf->tracer)
        return;
    trace *t = cay__alloc(sizeof *t);
    t->tracer = r->conf->tracer;
    t->open = &t->root;
    hex_id(t->id, sizeof t->id, "trace_", 16);
    r->span = &t->root;
    t->root.run = r;
    json_t *o = json_pack("{s:s, s:s, s:s, s:s?, s:n}", "object", "trace", "id", t->id, "workflow_name", r->conf->workflow ? r->conf->workflow : "Agent workflow",
                          "group_id", r->conf->group_id, "metadata");
    if (o)
        put(t->tracer, o);
}

static trace *trace_of(const cay_run *r)
{
    return (trace *)r->span;
}

const char *cay__trace_id(const cay_run *r)
{
    return r->span ? trace_of(r)->id : NULL;
}

cay__span *cay__span_begin(cay_run *r, const char *kind, const char *name)
{
    trace *t = trace_of(r);
    if (!t)
        return NULL;
    cay__span *s = cay__alloc(sizeof *s);
    s->run = r;
    s->up = t->open;
    t->open = s;
    hex_id(s->id, sizeof s->id, "span_", 12);
    now_text(s->started);
    s->data = json_pack("{s:s, s:s, s:{}}", "type", kind, "name", name, "data");
    if (!s->data)
        s->data = json_object();
    return s;
}

void cay__span_beside(cay__span *s)
{
    if (s)
        trace_of(s->run)->open = s->up;
}

void cay__span_data(cay__span *s, const char *key, json_t *value)
{
    if (s)
        json_object_set_new(s->data, key, value);
    else
        json_decref(value);
}

void cay__span_end(cay__span *s, const cay_err *fault)
{
    char ended[40];
    if (!s)
        return;
    trace *t = trace_of(s->run);
    now_text(ended);
    json_t *error = fault ? json_pack("{s:s, s:{s:s, s:s}}", "message", fault->msg, "data", "error_code", fault->reason, "error_type", cay_code_name(fault->code)) : json_null();
    json_t *o = json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s, s:O, s:o}", "object", "trace.span", "id", s->id, "trace_id", t->id, "parent_id",
                          s->up == &t->root ? NULL : s->up->id, "started_at", s->started, "ended_at", ended, "span_data", s->data, "error",
                          error ? error : json_null());
    if (o)
        put(t->tracer, o);
    for (cay__span *p = t->open; p != &t->root; p = p->up)
        if (p == s) { /* those inside that nobody ended are forgotten with it */
            t->open = s->up;
            break;
        }
    json_decref(s->data);
    free(s);
}

/* On whatever thread the tool works: nothing of the run is touched. */
static void on_op(void *arg, const cay_op *op)
{
    const cay__span *s = arg;
    const trace *t = trace_of(s->run);
    char id[32], from[40], to[40], fault[80] = "";
    hex_id(id, sizeof id, "span_", 12);
    time_text((struct timespec){ .tv_sec = op->began_ns / 1000000000, .tv_nsec = op->began_ns % 1000000000 }, from);
    time_text((struct timespec){ .tv_sec = op->ended_ns / 1000000000, .tv_nsec = op->ended_ns % 1000000000 }, to);
    if (op->fault) /* its message may name files and commands */
        snprintf(fault, sizeof fault, "%s %s", cay_code_name(op->fault->code), op->fault->reason);
    json_t *error = *fault ? json_pack("{s:s, s:n}", "message", fault, "data") : json_null();
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s, s:{s:s, s:s}}, s:o}", "object", "trace.span", "id", id, "trace_id", t->id, "parent_id", s->id, "started_at",
                          from, "ended_at", to, "span_data", "type", "custom", "name", op->name, "data", "cay.sandbox", op->sandbox, "cay.process", op->process, "error",
                          error ? error : json_null());
    if (o)
        put(t->tracer, o);
}

void cay__span_call(cay__span *s, cay_call *call)
{
    cay__traceparent p = { .sampled = true };
    if (!s)
        return;
    snprintf(p.trace, sizeof p.trace, "%.32s", trace_of(s->run)->id + strlen("trace_"));
    snprintf(p.span, sizeof p.span, "%.16s", s->id + strlen("span_"));
    cay__traceparent_write(&p, s->parent);
    call->trace = s->parent;
    call->tell = on_op;
    call->tell_arg = s;
}

void cay__trace_end(cay_run *r, const cay_err *fault)
{
    trace *t = trace_of(r);
    (void)fault;
    if (!t)
        return;
    cay_tracer_flush(t->tracer, NULL);
    free(t);
    r->span = NULL;
}

cay_span *cay_sandbox_span(cay_run *run, const char *name)
{
    char whole[128];
    snprintf(whole, sizeof whole, "sandbox.%.110s", name);
    return (cay_span *)cay__span_begin(run, "custom", whole);
}

void cay_span_end(cay_span *s, const cay_err *fault)
{
    cay__span_end((cay__span *)s, fault);
}

/* ------------------------------------------------------------------ to a file */

static int file_write(void *self, const char *const *objects, size_t n, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(QUEUE_MAX * (size_t)OBJECT_MAX);
    for (size_t i = 0; i < n; i++)
        cay__buf_fmt(&b, "%s\n", objects[i]);
    return cay__fd_write_all(*(int *)self, b.data, b.len) ? 0 : cay_fail_sys(err, CAY_ESYS, "trace file");
}

static void file_close(void *self)
{
    close(*(int *)self);
    free(self);
}

static const cay_trace_sink file_sink = { .size = sizeof file_sink, .write = file_write, .close = file_close };

int cay_tracer_file(const char *path, cay_tracer **out, cay_err *err)
{
    CAY_AUTOFD fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return cay_fail_sys(err, CAY_ESYS, "trace file %.200s", path);
    int *own = cay__alloc(sizeof *own);
    *own = CAY_STEAL_FD(fd);
    *out = cay_tracer_new(&file_sink, own);
    return 0;
}
