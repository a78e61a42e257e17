/* SPDX-License-Identifier: Apache-2.0 */
#include "limits.h"
#include "connection.h"
#include <base/base.h>

typedef struct member {
    struct member *next;
    struct cay__crowd *crowd;
    char tenant[64];
} member;

struct cay__crowd {
    pthread_mutex_t lock;
    member *first; /* as many as there are workers at most */
};

struct cay__crowd *cay__crowd_new(void)
{
    struct cay__crowd *c = cay__alloc(sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

void cay__crowd_free(struct cay__crowd *c)
{
    if (!c)
        return;
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void leave_crowd(void *arg)
{
    member *m = arg, **at;
    struct cay__crowd *c = m->crowd;
    pthread_mutex_lock(&c->lock);
    for (at = &c->first; *at != m;)
        at = &(*at)->next;
    *at = m->next;
    pthread_mutex_unlock(&c->lock);
    free(m);
}

int cay__crowd_enter(cay__req *r, const char *what, cay_err *err)
{
    return cay__crowd_enter_of(r, r->who.tenant, CAY__CROWD_MOST, what, err);
}

int cay__crowd_enter_of(cay__req *r, const char *tenant, unsigned most, const char *what,
                        cay_err *err)
{
    struct cay__crowd *c = r->server->crowd;
    member *m = cay__alloc(sizeof *m);
    unsigned n = 0;
    m->crowd = c;
    CAY_COPY(m->tenant, tenant);
    pthread_mutex_lock(&c->lock);
    for (const member *o = c->first; o; o = o->next)
        n += !strcmp(o->tenant, m->tenant);
    if (n < most) {
        m->next = c->first;
        c->first = m;
    }
    pthread_mutex_unlock(&c->lock);
    if (n < most) {
        cay__req_defer(r, leave_crowd, m);
        return 0;
    }
    free(m);
    cay_fail_why(err, CAY_ERATE, "too_many_at_once",
                 "%u imports, uploads, exports and reads of stopped sandboxes of tenant %s are "
                 "under way, which is the most: %s when one has ended",
                 n, tenant, what);
    err->retry = CAY_RETRY_YES;
    err->retry_after_ms = 2000;
    CAY_FORMAT(err->detail, "{\"queue\":%u,\"most\":%u}", n, most);
    return CAY_ERATE;
}
