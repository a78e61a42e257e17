/* SPDX-License-Identifier: Apache-2.0 */
/* The workers: threads with small stacks that wait for providers, so that lanes never do. They come
 * as they are needed and go when they are not. */
#include "connection.h"
#include <base/base.h>
#include <sys/eventfd.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STACK = 2 << 20 };
#else
enum { STACK = 256 << 10 };
#endif
enum { QUEUE = 1024, IDLE_S = 20, STAY = 2 };

typedef struct cay__worker {
    struct cay__worker_pool *pool;
    pthread_mutex_t lock; /* of conn and the bell */
    cay__conn *conn;      /* what it works for */
    int cancel;           /* readable: its peer hung up */
    bool alive;
} cay__worker;

struct cay__worker_pool {
    pthread_mutex_t lock;
    pthread_cond_t some, none;
    cay__conn *queue[QUEUE];
    size_t head, waiting;
    unsigned max, threads, idle;
    bool stop;
    cay__worker
        workers[]; /* stay where they are, so that a lane can ring one that has just gone on */
};

static void work_for(cay__worker *w, cay__conn *c)
{
    pthread_mutex_lock(&w->lock);
    w->conn = c;
    pthread_mutex_unlock(&w->lock);
    c->worker = w;
    if (c->gone)
        cay__worker_pool_cancel(w, c);
    bool stream = cay__stream_wants_work(c), ours = true;
    if (stream) {
        cay__stream_work(c);
    } else {
        c->req->call.cancel_fd = w->cancel;
        ours = cay__route_run(c->req);
    }
    pthread_mutex_lock(&w->lock);
    w->conn = NULL;
    if (ours) /* else another worker may have it by now */
        c->worker = NULL;
    eventfd_t n;
    eventfd_read(w->cancel, &n);
    pthread_mutex_unlock(&w->lock);
    if (stream)
        cay__lane_post(c);
    else if (ours)
        cay__conn_worked(c);
}

/* False when nothing came for long, or the end did. */
static bool next_job(struct cay__worker_pool *p, cay__conn **out)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_S;
    p->idle++;
    while (!p->waiting && !p->stop)
        if (pthread_cond_clockwait(&p->some, &p->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT &&
            !p->waiting && p->threads > STAY)
            break;
        else if (!p->waiting && p->threads <= STAY)
            until.tv_sec += IDLE_S;
    p->idle--;
    if (!p->waiting)
        return false;
    *out = p->queue[p->head];
    p->head = (p->head + 1) % QUEUE;
    p->waiting--;
    return true;
}

static void *run_worker(void *arg)
{
    cay__worker *w = arg;
    struct cay__worker_pool *p = w->pool;
    cay__conn *c;
    pthread_mutex_lock(&p->lock);
    while (next_job(p, &c)) {
        pthread_mutex_unlock(&p->lock);
        work_for(w, c);
        pthread_mutex_lock(&p->lock);
    }
    w->alive = false;
    p->threads--;
    pthread_cond_signal(&p->none);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* With the lock held. */
static bool start_worker(struct cay__worker_pool *p)
{
    pthread_attr_t attr;
    pthread_t t;
    cay__worker *w = p->workers;
    while (w->alive)
        w++; /* there is one: threads < max */
    if (w->cancel < 0 && (w->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        return false;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    w->alive = pthread_create(&t, &attr, run_worker, w) == 0;
    pthread_attr_destroy(&attr);
    p->threads += w->alive;
    return w->alive;
}

bool cay__worker_pool_give(struct cay__worker_pool *p, cay__conn *c)
{
    pthread_mutex_lock(&p->lock);
    bool room = p->waiting < QUEUE && !p->stop;
    if (room && p->waiting >= p->idle && p->threads < p->max && !start_worker(p) && !p->threads)
        room = false;
    if (room) {
        p->queue[(p->head + p->waiting) % QUEUE] = c;
        p->waiting++;
        pthread_cond_signal(&p->some);
    }
    pthread_mutex_unlock(&p->lock);
    return room;
}

void cay__worker_pool_cancel(cay__worker *w, cay__conn *c)
{
    pthread_mutex_lock(&w->lock);
    if (w->conn == c)
        eventfd_write(w->cancel, 1);
    pthread_mutex_unlock(&w->lock);
}

size_t cay__worker_pool_waiting(struct cay__worker_pool *p)
{
    pthread_mutex_lock(&p->lock);
    size_t n = p->waiting;
    pthread_mutex_unlock(&p->lock);
    return n;
}

struct cay__worker_pool *cay__worker_pool_new(unsigned max)
{
    struct cay__worker_pool *p = cay__alloc(sizeof *p + max * sizeof p->workers[0]);
    p->max = max;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->some, NULL);
    pthread_cond_init(&p->none, NULL);
    for (unsigned i = 0; i < max; i++) {
        p->workers[i] = (cay__worker){ .pool = p, .cancel = -1 };
        pthread_mutex_init(&p->workers[i].lock, NULL);
    }
    return p;
}

void cay__worker_pool_free(struct cay__worker_pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->some);
    while (p->threads)
        pthread_cond_wait(&p->none, &p->lock);
    pthread_mutex_unlock(&p->lock);
    CAY_EACH_OF(worker, p->workers, p->max)
        cay__close_fd(&worker->cancel);
    free(p);
}
