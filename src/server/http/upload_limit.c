/* SPDX-License-Identifier: Apache-2.0 */
#include "limits.h"
#include "connection.h"
#include <base/base.h>

typedef struct entry {
    struct entry *next;
    struct cay__uploads *all;
    cay__conn *c; /* of one that waits */
    char tenant[64];
} entry;

struct cay__uploads {
    pthread_mutex_t lock;
    unsigned most;
    entry *at_work;
    entry *line, **last;
};

struct cay__uploads *cay__uploads_new(unsigned workers)
{
    struct cay__uploads *u = cay__alloc(sizeof *u);
    pthread_mutex_init(&u->lock, NULL);
    u->most = CAY_MAX(workers / 4, 1u);
    u->last = &u->line;
    return u;
}

void cay__uploads_free(struct cay__uploads *u)
{
    if (!u)
        return;
    pthread_mutex_destroy(&u->lock);
    free(u);
}

/* The first of that tenant in line, out of it. */
static entry *call_next(struct cay__uploads *u, const char *tenant)
{
    for (entry **at = &u->line, *e; (e = *at); at = &e->next) {
        if (strcmp(e->tenant, tenant) != 0)
            continue;
        *at = e->next;
        if (!*at)
            u->last = at;
        return e;
    }
    return NULL;
}

/* Its place is the next one's. */
static void release_upload(void *arg)
{
    entry *e = arg, *next;
    struct cay__uploads *u = e->all;
    pthread_mutex_lock(&u->lock);
    entry **at = &u->at_work;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if ((next = call_next(u, e->tenant))) {
        next->next = u->at_work;
        u->at_work = next;
    }
    pthread_mutex_unlock(&u->lock);
    free(e);
    if (!next)
        return;
    cay__conn *c = next->c;
    cay__req_defer(c->req, release_upload, next);
    c->req->reply->turn = true;
    if (cay__worker_pool_give(c->lane->server->pool, c))
        return;
    cay_err err = CAY_ERR_INIT;
    cay_fail_why(&err, CAY_EBUSY, "overloaded",
                 "too many requests are waiting already: try again soon");
    err.retry = CAY_RETRY_YES;
    err.retry_after_ms = 1000;
    cay__route_fail(c->req, &err);
    cay__lane_post(c);
}

bool cay__uploads_enter(cay__req *r)
{
    struct cay__uploads *u = r->server->uploads;
    entry *e = cay__alloc(sizeof *e);
    unsigned n = 0;
    e->all = u;
    e->c = r->conn;
    CAY_COPY(e->tenant, r->who.tenant);
    pthread_mutex_lock(&u->lock);
    for (const entry *o = u->at_work; o; o = o->next)
        n += !strcmp(o->tenant, e->tenant);
    bool now = n < u->most;
    if (now) {
        e->next = u->at_work;
        u->at_work = e;
    } else {
        *u->last = e;
        u->last = &e->next;
    }
    pthread_mutex_unlock(&u->lock);
    if (now)
        cay__req_defer(r, release_upload, e);
    return now;
}
