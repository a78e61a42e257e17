/* SPDX-License-Identifier: Apache-2.0 */
#include "background.h"
#include <base/base.h>
#include <cay/access.h>
#include <cay/build.h>
#include <cay/jobs.h>
#include <cay/pool.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

enum {
    LEASE_MS = 90000,
    CALL_MS = 60000, /* what a job may take is well within its lease */
    LOOK_MS = 500,   /* another program may have left one */
    SWEEP_MS = 60000,
    KEEP_MS = 86400000,
    SETTLE_MS = 5000, /* snapshots are brought to the disk, and what changed in them is counted, as
                         often at most */
    GC_MS = 3600000,  /* what nobody has is looked for each hour, by one of all servers */
};

struct cay__controller {
    cay_client *client;
    pthread_t thread;
    int stop; /* readable: end */
    char owner[32];
};

/* Each may come twice: what is so already is fine, and what is gone as well. */
static int with_box(cay_client *client, const cay_call *call, const cay_job *t,
                    int (*fn)(cay_sandbox *, const cay_call *, cay_err *), cay_err *err)
{
    cay_sandbox *sb = NULL;
    int rc = cay_client_find_of(client, call, t->tenant, t->subject, &sb, err);
    if (rc == 0)
        rc = fn(sb, call, err);
    if (sb)
        cay_sandbox_unref(sb);
    if (rc == CAY_ENOENT || rc == CAY_EGONE)
        return 0;
    return rc;
}

/* One that is stopped needs no pause. */
static int pause_box(cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    int rc = cay_sandbox_pause(sb, call, err);
    if (rc == CAY_ESTATE)
        return 0;
    return rc;
}

static int run_pause_job(cay_client *client, const cay_call *call, const cay_job *t, cay_err *err)
{
    return with_box(client, call, t, pause_box, err);
}

static int run_kill_job(cay_client *client, const cay_call *call, const cay_job *t, cay_err *err)
{
    return with_box(client, call, t, cay_sandbox_kill, err);
}

static int run_remove_job(cay_client *client, const cay_call *call, const cay_job *t, cay_err *err)
{
    return with_box(client, call, t, cay_sandbox_remove, err);
}

static int run_settle_job(cay_client *client, const cay_call *call, const cay_job *t, cay_err *err)
{
    return cay_client_maintain(client, call, err);
}

static int run_gc_job(cay_client *client, const cay_call *call, const cay_job *t, cay_err *err)
{
    CAY_TRY(cay_client_gc(client, call, NULL, err));
    return cay_build_gc(client, call, NULL, err);
}

static int do_net_end(cay_client *client, const cay_call *call, const cay_job *t, cay_err *err)
{
    cay_sandbox *sb = NULL;
    int rc = cay_client_find_of(client, call, t->tenant, t->subject, &sb, err);
    if (rc == 0)
        rc = cay__net_end(sb, call, t, err);
    if (sb)
        cay_sandbox_unref(sb);
    if (rc == CAY_ENOENT || rc == CAY_EGONE)
        return 0;
    return rc;
}

static int run_warm_job(cay_client *client, const cay_call *call, const cay_job *t, cay_err *err)
{
    return cay_pool_fill(client, call, t->subject, err);
}

static const struct {
    const char *kind;
    int (*fn)(cay_client *client, const cay_call *call, const cay_job *t, cay_err *err);
} work[] = {
    { "pause", run_pause_job },      { "kill", run_kill_job }, { "remove", run_remove_job },
    { "settle", run_settle_job },    { "gc", run_gc_job },     { CAY__NET_END, do_net_end },
    { CAY_POOL_TASK, run_warm_job },
};

static int run_job(cay_client *client, const cay_call *call, const cay_job *t, cay_err *err)
{
    CAY_EACH(it, work)
        if (!strcmp(it->kind, t->kind))
            return it->fn(client, call, t, err);
    return cay_fail(err, CAY_EINVAL, "nobody knows how to do %s", t->kind);
}

int cay__controller_step(cay_client *client, const cay_call *call, const char *owner,
                         uint32_t *wait_ms, cay_err *err)
{
    const char *kinds[CAY_LEN(work) + 1] = { NULL };
    cay_job *t = NULL;
    cay_err why = CAY_ERR_INIT;
    for (size_t i = 0; i < CAY_LEN(work); i++)
        kinds[i] = work[i].kind;
    int rc = cay_job_claim(client, kinds, owner, LEASE_MS, &t, &why);
    if (rc < 0) {
        *wait_ms = why.retry_after_ms;
        if (rc != CAY_ENOENT && err)
            *err = why;
        if (rc == CAY_ENOENT)
            return 0;
        return rc;
    }
    rc = run_job(client, call, t, &why);
    if (rc == 0)
        rc = cay_job_done(client, t, err);
    else if (rc == CAY_ECANCELED) /* this server ends: the next one may have it at once */
        rc = cay_job_renew(client, t, 1, err);
    else
        rc = cay_job_fail(client, t, why.msg, err);
    cay_job_free(t);
    if (rc < 0 && rc != CAY_ESTATE)
        return rc;
    return 1; /* canceled meanwhile: it is what somebody wanted */
}

static void sweep_store(cay_client *client, const cay_call *call)
{
    cay_idempotency_sweep(client, NULL);
    cay_key_sweep(client, cay__clock_ms() - KEEP_MS, NULL);
    cay_key_flush_usage(client, false, NULL);
    cay_job_sweep(client, cay__clock_ms() - KEEP_MS, NULL, NULL);
    cay_client_maintain(client, call, NULL);
    /* One waits at any time: it is put again only after it was done. */
    cay_job gc = {
        .size = sizeof gc, .kind = "gc", .key = "hourly", .due_ms = cay__clock_ms() + GC_MS
    };
    cay_job_put(client, &gc, CAY_JOB_KEEP, NULL, NULL);
}

static void *run_thread(void *arg)
{
    cay__controller *c = arg;
    int64_t swept = cay__now_ms(), settled = swept;
    struct pollfd p = { .fd = c->stop, .events = POLLIN };
    uint32_t wait = 0;
    do {
        cay_call call = { .size = sizeof call,
                          .deadline_ms = cay__now_ms() + CALL_MS,
                          .cancel_fd = c->stop,
                          .actor = "controller" };
        cay_pool_schedule(c->client, NULL);
        int rc = cay__controller_step(c->client, &call, c->owner, &wait, NULL);
        if (cay__now_ms() - swept >= SWEEP_MS) {
            sweep_store(c->client, &call);
            swept = settled = cay__now_ms();
        } else if (cay__now_ms() - settled >= SETTLE_MS) {
            if (cay_client_needs_maintenance(c->client))
                cay_client_maintain(c->client, &call, NULL);
            settled = cay__now_ms();
        }
        if (rc > 0)
            wait = 0;
        else if (rc < 0 || !wait)
            wait = LOOK_MS;
        else
            wait = CAY_MIN(wait, (uint32_t)LOOK_MS);
    } while (poll(&p, 1, (int)wait) <= 0);
    cay_key_flush_usage(c->client, true, NULL);
    return NULL;
}

int cay__controller_start(cay_client *client, cay__controller **out, cay_err *err)
{
    cay__controller *c = cay__alloc(sizeof *c);
    pthread_attr_t small;
    c->client = client;
    c->stop = eventfd(0, EFD_CLOEXEC);
    CAY_FORMAT(c->owner, "server:%d", (int)getpid());
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    int e;
    if (c->stop < 0)
        e = errno;
    else
        e = pthread_create(&c->thread, &small, run_thread, c);
    pthread_attr_destroy(&small);
    if (e) {
        cay__close_fd(&c->stop);
        free(c);
        errno = e;
        return cay_fail_sys(err, "start the controller");
    }
    *out = c;
    return 0;
}

void cay__controller_stop(cay__controller *c)
{
    if (!c)
        return;
    (void)!eventfd_write(c->stop, 1);
    pthread_join(c->thread, NULL);
    cay__close_fd(&c->stop);
    free(c);
}
