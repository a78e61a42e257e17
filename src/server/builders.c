/* SPDX-License-Identifier: Apache-2.0 */
#include "background.h"
#include <server/dialect/e2b/builder.h>
#include <base/base.h>
#include <cay/build.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

/* Three for all, one more than a tenant gets: however long its builds take, those of others go on.
 * While all three are at work there is one more for each tenant that has none (the queue sees to
 * that: CAY_JOB_SHARED_MAX), so that several who act together do not keep another waiting either:
 * it takes 15 tenants to hold all of them. */
enum {
    COMMON = CAY_JOB_SHARED_MAX,
    MOST = 16,
    LOOK_MS = 500,
    STACK = 1 << 20,
    SMALL_STACK = 64 << 10
};

/* What the queue has for builders: each does one that is due, 1, or finds none, 0. In each it is
 * the turn of the tenant who waited longest. */
static int (*const kinds[])(cay_client *client, const cay_call *call, const char *owner,
                            cay_err *err) = { cay_build_run_next, e2b_build_work };

typedef struct builder {
    cay__builders *all;
    pthread_t thread;
    bool there;
    _Atomic bool ended;       /* by itself: there was nothing more to do */
    _Atomic int64_t since_ms; /* when it went to the queue, from which it comes back at once if that
                                 has nothing; 0: it waits */
} builder;

struct cay__builders {
    cay_client *client;
    builder one[MOST];
    pthread_t watch;
    bool watching;
    int stop; /* readable: end */
    int bell; /* readable: there may be something to do */
    char owner[32];
};

static bool run_due_build(builder *me, size_t turn)
{
    const cay_call call = { .size = sizeof call, .cancel_fd = me->all->stop, .actor = "builder" };
    bool did = false;
    me->since_ms = cay__now_ms();
    for (size_t i = 0; i < CAY_LEN(kinds) && !did; i++) /* after each another kind is asked first */
        did = kinds[(turn + i) % CAY_LEN(kinds)](me->all->client, &call, me->all->owner, NULL) > 0;
    me->since_ms = 0;
    return did;
}

static void *run_builder(void *arg)
{
    builder *me = arg;
    cay__builders *b = me->all;
    bool common = me < b->one + COMMON;
    struct pollfd p[] = { { .fd = b->stop, .events = POLLIN },
                          { .fd = b->bell, .events = POLLIN } };
    eventfd_t rung;
    for (size_t turn = 0;; turn++) {
        bool did = run_due_build(me, turn);
        if (!did && !common)
            break;
        int wait_ms = LOOK_MS;
        if (did)
            wait_ms = 0;
        if (poll(p, common ? 2 : 1, wait_ms) <= 0)
            continue;
        if (p[0].revents)
            break;
        (void)!eventfd_read(b->bell, &rung);
    }
    me->ended = true;
    return NULL;
}

static int start_builder(cay__builders *b, builder *one)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    one->all = b;
    one->ended = false;
    int e = pthread_create(&one->thread, &attr, run_builder, one);
    one->there = e == 0;
    pthread_attr_destroy(&attr);
    return e;
}

static bool all_at_work(const cay__builders *b)
{
    CAY_EACH_OF(it, b->one, COMMON)
        if (!it->since_ms || cay__now_ms() - it->since_ms < LOOK_MS)
            return false;
    return true;
}

static void *watch_builders(void *arg)
{
    cay__builders *b = arg;
    struct pollfd p = { .fd = b->stop, .events = POLLIN };
    while (poll(&p, 1, LOOK_MS) <= 0) {
        builder *room = NULL;
        for (builder *one = b->one + COMMON; one < b->one + MOST; one++) {
            if (one->there && one->ended) {
                pthread_join(one->thread, NULL);
                one->there = false;
            }
            if (!one->there)
                room = one;
        }
        if (room && all_at_work(b))
            start_builder(b, room); /* one that finds nothing ends at once */
    }
    return NULL;
}

int cay__builders_start(cay_client *client, cay__builders **out, cay_err *err)
{
    cay__builders *b = cay__alloc(sizeof *b);
    pthread_attr_t attr;
    b->client = client;
    b->stop = eventfd(0, EFD_CLOEXEC);
    b->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    e2b_build_sweep(client);
    CAY_FORMAT(b->owner, "builder:%d", (int)getpid());
    int e = 0;
    if (b->stop < 0 || b->bell < 0)
        e = errno;
    for (size_t i = 0; i < COMMON && !e; i++)
        e = start_builder(b, &b->one[i]);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SMALL_STACK);
    if (!e)
        e = pthread_create(&b->watch, &attr, watch_builders, b);
    b->watching = !e;
    pthread_attr_destroy(&attr);
    if (e) {
        cay__builders_stop(b);
        errno = e;
        return cay_fail_sys(err, "start the builders");
    }
    *out = b;
    return 0;
}

void cay__builders_wake(cay__builders *b)
{
    (void)!eventfd_write(b->bell, COMMON);
}

void cay__builders_stop(cay__builders *b)
{
    if (!b)
        return;
    if (b->stop >= 0)
        (void)!eventfd_write(b->stop, 1);
    if (b->watching)
        pthread_join(b->watch, NULL);
    CAY_EACH_OF(it, b->one, MOST)
        if (it->there)
            pthread_join(it->thread, NULL);
    cay__close_fd(&b->stop);
    cay__close_fd(&b->bell);
    free(b);
}
