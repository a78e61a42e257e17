/* SPDX-License-Identifier: Apache-2.0 */
#include "builders.h"
#include "dialect/e2b/builder.h"
#include <base/base.h>
#include <base/fd.h>
#include <cay/build.h>
#include <cay/jobs.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>

/* One more than a tenant gets: however long its builds take, those of others go on. */
enum { THREADS = CAY_TASK_TURN_MOST + 1, LOOK_MS = 500, STACK = 1 << 20 };

/* What the queue has for builders: each does one that is due, 1, or finds none, 0. In each it is the turn of the tenant who waited longest. */
static int (*const kinds[])(cay_service *svc, const cay_call *call, const char *owner, cay_err *err) = { cay_build_work, e2b_build_work };

struct cay__builders {
    cay_service *svc;
    pthread_t    thread[THREADS];
    size_t       n;
    int          stop; /* readable: end */
    int          bell; /* readable: there may be something to do */
    char         owner[32];
};

static void *run(void *arg)
{
    cay__builders *b = arg;
    struct pollfd p[] = { { .fd = b->stop, .events = POLLIN }, { .fd = b->bell, .events = POLLIN } };
    eventfd_t rung;
    for (size_t turn = 0;; turn++) { /* after each another kind is asked first */
        const cay_call call = { .size = sizeof call, .cancel_fd = b->stop, .actor = "builder" };
        bool worked = false;
        for (size_t i = 0; i < CAY_LEN(kinds) && !worked; i++)
            worked = kinds[(turn + i) % CAY_LEN(kinds)](b->svc, &call, b->owner, NULL) > 0;
        if (poll(p, CAY_LEN(p), worked ? 0 : LOOK_MS) <= 0)
            continue;
        if (p[0].revents)
            return NULL;
        (void)!eventfd_read(b->bell, &rung);
    }
}

int cay__builders_start(cay_service *svc, cay__builders **out, cay_err *err)
{
    cay__builders *b = cay__alloc(sizeof *b);
    pthread_attr_t attr;
    b->svc = svc;
    b->stop = eventfd(0, EFD_CLOEXEC);
    b->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    e2b_build_sweep(svc);
    snprintf(b->owner, sizeof b->owner, "builder:%d", (int)getpid());
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    int e = b->stop < 0 || b->bell < 0 ? errno : 0;
    while (!e && b->n < THREADS && !(e = pthread_create(&b->thread[b->n], &attr, run, b)))
        b->n++;
    pthread_attr_destroy(&attr);
    if (e) {
        cay__builders_stop(b);
        errno = e;
        return cay_fail_sys(err, CAY_ESYS, "start the builders");
    }
    *out = b;
    return 0;
}

void cay__builders_wake(cay__builders *b)
{
    (void)!eventfd_write(b->bell, THREADS);
}

void cay__builders_stop(cay__builders *b)
{
    if (!b)
        return;
    if (b->stop >= 0)
        (void)!eventfd_write(b->stop, 1);
    while (b->n)
        pthread_join(b->thread[--b->n], NULL);
    cay__close_fd(&b->stop);
    cay__close_fd(&b->bell);
    free(b);
}
