/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever writes to a kernel writes alone: a long request goes to its process in pieces, between which there is nothing of another's. Only those who
 * ask the same kernel wait for each other, so that one that does not read holds back nobody else.
 */
#include "e2b.h"
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { LONGEST_MS = 30000 };

typedef struct writer {
    struct writer *next;
    const char    *id; /* of the process */
} writer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  left = PTHREAD_COND_INITIALIZER;
static writer         *writers; /* all there are, one of each kernel */

static writer **find(const char *id)
{
    writer **p = &writers;
    while (*p && strcmp((*p)->id, id))
        p = &(*p)->next;
    return p;
}

static bool enter(writer *w, const cay_call *call)
{
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t now = until.tv_sec * 1000LL + until.tv_nsec / 1000000, at = now + LONGEST_MS;
    if (call->deadline_ms && call->deadline_ms < at)
        at = call->deadline_ms;
    until = (struct timespec){ .tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000 };
    pthread_mutex_lock(&lock);
    while (*find(w->id) && rc == 0)
        rc = pthread_cond_clockwait(&left, &lock, CLOCK_MONOTONIC, &until);
    writer **p = find(w->id);
    bool mine = !*p;
    if (mine)
        *p = w;
    pthread_mutex_unlock(&lock);
    return mine;
}

int e2b_kernel_write(cay_proc *p, const cay_call *call, const char *lines, size_t len, cay_err *err)
{
    writer w = { .id = cay_proc_id(p) };
    if (!enter(&w, call))
        return cay_fail_why(err, CAY_EBUSY, "stdin_busy", "the context does not take what was asked of it before; try again, or restart it");
    int rc = cay_proc_write(p, call, lines, len, err);
    pthread_mutex_lock(&lock);
    *find(w.id) = w.next;
    pthread_cond_broadcast(&left);
    pthread_mutex_unlock(&lock);
    return rc;
}
