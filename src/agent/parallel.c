/* SPDX-License-Identifier: Apache-2.0 */
/* A few things at once, and nothing left running when it is over. */
#include "run.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { THREADS_MAX = 64 };

typedef struct work {
    size_t n;
    atomic_size_t next;
    void (*fn)(void *arg, size_t i);
    void *arg;
} work;

static void *run_jobs(void *arg)
{
    work *w = arg;
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;)
        w->fn(w->arg, i);
    return NULL;
}

void cay__beside(size_t n, unsigned most, void (*fn)(void *arg, size_t i), void *arg)
{
    work w = { .n = n, .fn = fn, .arg = arg };
    pthread_t threads[THREADS_MAX];
    size_t made = 0, want = CAY_MIN(CAY_MIN((size_t)most, n), (size_t)THREADS_MAX);
    sigset_t all, old;
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (made + 1 < want && !pthread_create(&threads[made], NULL, run_jobs, &w))
        made++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    run_jobs(&w); /* this thread is one of them, so that it works without any other as well */
    for (size_t i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
}
