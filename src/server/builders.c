/* SPDX-License-Identifier: Apache-2.0 */
#include "builders.h"
#include <base/base.h>
#include <base/fd.h>
#include <cay/build.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>

enum { THREADS = 2, LOOK_MS = 500, STACK = 1 << 20 };

struct cay__builders {
    cay_service *svc;
    pthread_t    thread[THREADS];
    size_t       n;
    int          stop; /* readable: end */
    char         owner[32];
};

static void *run(void *arg)
{
    cay__builders *b = arg;
    struct pollfd p = { .fd = b->stop, .events = POLLIN };
    int rc;
    do {
        cay_call call = { .size = sizeof call, .cancel_fd = b->stop, .actor = "builder" };
        rc = cay_build_work(b->svc, &call, b->owner, NULL);
    } while (poll(&p, 1, rc > 0 ? 0 : LOOK_MS) <= 0);
    return NULL;
}

int cay__builders_start(cay_service *svc, cay__builders **out, cay_err *err)
{
    cay__builders *b = cay__alloc(sizeof *b);
    pthread_attr_t attr;
    b->svc = svc;
    b->stop = eventfd(0, EFD_CLOEXEC);
    snprintf(b->owner, sizeof b->owner, "builder:%d", (int)getpid());
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    int e = b->stop < 0 ? errno : 0;
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

void cay__builders_stop(cay__builders *b)
{
    if (!b)
        return;
    if (b->stop >= 0)
        (void)!eventfd_write(b->stop, 1);
    while (b->n)
        pthread_join(b->thread[--b->n], NULL);
    cay__close_fd(&b->stop);
    free(b);
}
