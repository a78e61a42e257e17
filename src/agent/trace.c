/* SPDX-License-Identifier: Apache-2.0 */
/* Where spans go: a queue with its processors, and what takes them out of it together. */
#include "trace.h"
#include <cay/trace.h>
#include <pthread.h>

enum { QUEUE_MAX = 8192, BATCH = 256, PAUSE_MAX = 60000 };

typedef struct processor {
    cay_trace_processor ops;
    void *self;
} processor;

struct cay_tracer {
    cay_trace_sink sink;
    void *self;
    pthread_mutex_t lock; /* of what follows, and of the sink */
    char *queue[QUEUE_MAX];
    size_t n;
    uint64_t lost;
    int64_t every, sent;  /* how often in ms, and when last; 0: only with the end of a run, or when
                             much has gathered */
    int64_t pause, until; /* after a failure nothing is tried for so long, until then: whoever is
                             away does not hold up a run again and again */
    cay_tracer *also;
    processor *processors;
    size_t nprocessors;
};

cay_tracer *cay_tracer_new(const cay_trace_sink *sink, void *self)
{
    cay_tracer *t = cay__alloc(sizeof *t);
    if (!sink || cay__spec_take(&t->sink, sizeof t->sink, sink, "cay_trace_sink", NULL) < 0) {
        free(t);
        return NULL;
    }
    t->self = self;
    t->sent = cay__now_ms();
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

/* With the lock held. */
static int flush_queue(cay_tracer *t, cay_err *err)
{
    size_t n = t->n;
    if (!n)
        return 0;
    int rc = t->sink.write(t->self, (const char *const *)t->queue, n, err);
    if (rc < 0)
        t->lost += n;
    t->sent = cay__now_ms();
    if (rc >= 0)
        t->pause = 0;
    else if (t->pause)
        t->pause = CAY_MIN(2 * t->pause, PAUSE_MAX);
    else
        t->pause = CAY__TRACE_EVERY;
    t->until = t->sent + t->pause;
    CAY_EACH_OF(it, t->queue, n)
        free(*it);
    t->n = 0;
    return rc;
}

int cay_tracer_flush(cay_tracer *t, cay_err *err)
{
    int all = 0;
    for (; t; t = t->also) {
        pthread_mutex_lock(&t->lock);
        int rc = flush_queue(t, all < 0 ? NULL : err);
        pthread_mutex_unlock(&t->lock);
        if (all >= 0)
            all = rc;
    }
    return all;
}

uint64_t cay_tracer_lost(const cay_tracer *t)
{
    uint64_t n = 0;
    for (; t; t = t->also)
        n += t->lost;
    return n;
}

void cay_tracer_free(cay_tracer *t)
{
    if (!t)
        return;
    cay_tracer_flush(t, NULL);
    for (cay_tracer *next; t; t = next) {
        next = t->also;
        CAY_EACH_OF(it, t->processors, t->nprocessors)
            if (it->ops.close)
                it->ops.close(it->self);
        if (t->sink.close)
            t->sink.close(t->self);
        free(t->processors);
        free(t);
    }
}

void cay__tracer_every(cay_tracer *t, int64_t ms)
{
    t->every = ms;
}

/* With the lock held. */
static bool is_due(const cay_tracer *t)
{
    if (t->n < BATCH && !t->every)
        return false;
    int64_t now = cay__now_ms();
    return now >= t->until && (t->n >= BATCH || now >= t->sent + t->every);
}

/* Takes text. */
static void queue_text(cay_tracer *t, char *text)
{
    pthread_mutex_lock(&t->lock);
    if (text && t->n < QUEUE_MAX)
        t->queue[t->n++] = CAY_STEAL(text);
    else
        t->lost++;
    if (is_due(t))
        flush_queue(t, NULL);
    pthread_mutex_unlock(&t->lock);
    free(text);
}

/* Takes text; what its processors leave of it, or NULL. */
static char *process_text(const cay_tracer *t, char *text)
{
    for (size_t i = 0; text && i < t->nprocessors; i++) {
        const processor *p = &t->processors[i];
        CAY_AUTOFREE char *instead = NULL;
        bool keep = !p->ops.end || p->ops.end(p->self, text, &instead);
        if (keep && !instead)
            continue;
        free(text);
        text = CAY_IF(keep, CAY_STEAL(instead));
    }
    return text;
}

void cay_tracer_put(cay_tracer *t, const char *object)
{
    bool fits = object && strlen(object) <= CAY__TRACE_OBJECT;
    for (; t; t = t->also) {
        char *text = CAY_IF(fits, process_text(t, cay__strdup(object)));
        if (text || !fits)
            queue_text(t, text);
    }
}

void cay__tracer_start(cay_tracer *t, const json_t *object)
{
    CAY_AUTOFREE char *text = NULL;
    for (; t; t = t->also)
        CAY_EACH_OF(it, t->processors, t->nprocessors) {
            if (!it->ops.start)
                continue;
            if (!text)
                text = cay__json_text(object, CAY__TRACE_OBJECT);
            if (text)
                it->ops.start(it->self, text);
        }
}

bool cay__tracer_watches(const cay_tracer *t)
{
    for (; t; t = t->also)
        if (t->nprocessors)
            return true;
    return false;
}

void cay_tracer_also(cay_tracer *t, cay_tracer *other)
{
    while (t->also)
        t = t->also;
    t->also = other;
}

void cay_tracer_process(cay_tracer *t, const cay_trace_processor *p, void *self)
{
    CAY_GROW(t->processors, t->nprocessors);
    processor *new = &t->processors[t->nprocessors];
    new->self = self;
    if (p && cay__spec_take(&new->ops, sizeof new->ops, p, "cay_trace_processor", NULL) == 0)
        t->nprocessors++;
}

static int file_write(void *self, const char *const *objects, size_t n, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(QUEUE_MAX * (size_t)CAY__TRACE_OBJECT);
    CAY_EACH_OF(object, objects, n)
        cay__buf_fmt(&b, "%s\n", *object);
    if (cay__fd_write_all(*(int *)self, b.data, b.len))
        return 0;
    return cay_fail_sys(err, "trace file");
}

static void file_close(void *self)
{
    close(*(int *)self);
    free(self);
}

static const cay_trace_sink file_sink = { .size = sizeof file_sink,
                                          .write = file_write,
                                          .close = file_close };

int cay_tracer_file(const char *path, cay_tracer **out, cay_err *err)
{
    CAY_AUTOFD fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return cay_fail_sys(err, "trace file %.200s", path);
    int *own = cay__alloc(sizeof *own);
    *own = CAY_STEAL_FD(fd);
    *out = cay_tracer_new(&file_sink, own);
    cay__tracer_every(*out, CAY__TRACE_EVERY);
    return 0;
}
