/* SPDX-License-Identifier: Apache-2.0 */
/* Memories that are made while the program goes on: one thread for a capability, which ends when
 * there is nothing more to do. */
#include "memory.h"
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

typedef struct cay__later cay__later;
struct cay__later {
    cay_sandbox *sb;
    char *root, *user;
    cay_model *model;
    bool owned;
    cay__later *next;
};

void cay__memory_tell(cay__memory *m, const char *phase, unsigned done, unsigned total,
                      const cay_err *why)
{
    cay_memory_progress p = { .size = sizeof p,
                              .phase = phase,
                              .done = done,
                              .total = total,
                              .reason = CAY_TEXT_IF(why, why->reason) };
    if (!m->o.progress)
        return;
    pthread_mutex_lock(&m->lock);
    p.usage = m->usage;
    pthread_mutex_unlock(&m->lock);
    m->o.progress(m->o.progress_arg, &p);
}

static void make_memories(cay__memory *m, const cay__later *l)
{
    unsigned made = 0;
    cay_err err = CAY_ERR_INIT;
    const cay_call call = { .size = sizeof call, .cancel_fd = m->stop };
    const cay__memory_at at = {
        .m = m, .sb = l->sb, .call = &call, .root = l->root, .user = l->user
    };
    int rc = cay__memory_make(&at, l->model, &made, &err);
    int kept = cay__memory_keep(&at, CAY_IF(rc == 0, &err));
    if (rc >= 0)
        rc = kept;
    pthread_mutex_lock(&m->lock);
    if (rc < 0 && !m->late.code)
        m->late = err;
    pthread_mutex_unlock(&m->lock);
    if (l->owned)
        cay_sandbox_remove(l->sb, NULL, NULL);
    cay__memory_tell(m, rc < 0 ? "failed" : "done", made, made, CAY_IF(rc < 0, &err));
}

static void *run_worker(void *arg)
{
    cay__memory *m = arg;
    for (;;) {
        pthread_mutex_lock(&m->lock);
        cay__later *l = m->later;
        if (l) {
            m->later = l->next;
        } else {
            m->busy = false;
            pthread_cond_broadcast(&m->idle);
        }
        pthread_mutex_unlock(&m->lock);
        if (!l)
            return NULL;
        make_memories(m, l);
        cay_sandbox_unref(l->sb);
        free(l->root);
        free(l->user);
        free(l);
    }
}

/* Called with the lock. A thread that cannot be had is no reason to lose what was learnt: then it
 * is done here. */
static bool start_worker(cay__memory *m)
{
    sigset_t all, old;
    pthread_attr_t attr;
    if (!m->stop)
        m->stop = eventfd(0, EFD_CLOEXEC);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's */
    m->busy = pthread_create(&m->thread, &attr, run_worker, m) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return m->busy;
}

void cay__memory_later(cay__memory *m, cay_sandbox *sb, const char *root, const char *user,
                       cay_model *model, bool owned)
{
    cay__later *l = cay__alloc(sizeof *l);
    *l = (cay__later){ .sb = cay_sandbox_ref(sb),
                       .root = cay__strdup(root),
                       .user = cay__strdup_if(user),
                       .model = model,
                       .owned = owned };
    pthread_mutex_lock(&m->lock);
    CAY_APPEND(m->later, l);
    bool alone = m->busy || start_worker(m);
    pthread_mutex_unlock(&m->lock);
    if (!alone)
        run_worker(m);
}

static bool is_busy(cay__memory *m)
{
    const struct timespec until = cay__memory_step();
    pthread_mutex_lock(&m->lock);
    if (m->busy)
        pthread_cond_timedwait(&m->idle, &m->lock, &until);
    bool busy = m->busy;
    pthread_mutex_unlock(&m->lock);
    return busy;
}

int cay_memory_wait(cay_capability *memory, const cay_call *call, cay_err *err)
{
    cay__memory *m;
    int rc = 0;
    CAY_TRY(cay__memory_of(memory, &m, err));
    while (is_busy(m))
        if (rc == 0 && (rc = cay__call_check(call, "making memories", err)) < 0)
            eventfd_write(m->stop, 1);
    pthread_mutex_lock(&m->lock);
    if (rc < 0) { /* what comes later is not meant */
        eventfd_t n;
        eventfd_read(m->stop, &n);
    } else if (m->late.code) {
        rc = m->late.code;
        if (err)
            *err = m->late;
    }
    m->late = (cay_err)CAY_ERR_INIT;
    pthread_mutex_unlock(&m->lock);
    return rc;
}

void cay__memory_later_end(cay__memory *m)
{
    while (is_busy(m))
        ;
    if (m->stop > 0)
        close(m->stop);
}
