/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a sandbox: paused, resumed, ended, branched, taken back. */
#include "native.h"
#include <base/base.h>
#include <cay/snapshot.h>
#include <time.h>

CAY_DEFINE_AUTO(cay_snapshot, cay_snapshot_free)

typedef int change(cay_sandbox *sb, const cay_call *call, cay_err *err);

static int carry_out(cay__req *r, change *fn, cay_err *err)
{
    cay_sandbox *sb;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_body(r, NULL, err));
    CAY_TRY(fn(sb, &r->call, err));
    return cay__reply_sandbox(r, sb, err);
}

int cay__on_sandbox_kill(cay__req *r, cay_err *err)
{
    return carry_out(r, cay_sandbox_kill, err);
}

int cay__on_sandbox_pause(cay__req *r, cay_err *err)
{
    return carry_out(r, cay_sandbox_pause, err);
}

int cay__on_sandbox_resume(cay__req *r, cay_err *err)
{
    return carry_out(r, cay_sandbox_resume, err);
}

int cay__on_sandbox_delete(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay_sandbox_remove(sb, &r->call, err));
    return cay__reply_done(r);
}

int cay__on_sandbox_extend(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay__extend_body b = { 0 };
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_body(r, &b, err));
    if (!b.ttl_ms && !b.idle_ms)
        return cay_fail_why(err, CAY_EINVAL, "field_missing", "ttl_ms or idle_ms is needed");
    CAY_TRY(cay_sandbox_extend(sb, &r->call, b.ttl_ms, b.idle_ms, err));
    return cay__reply_sandbox(r, sb, err);
}

int cay__on_sandbox_patch(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay__sandbox_patch b = { .words = { .size = sizeof b.words } };
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_body(r, &b, err));
    if (b.time.ttl_ms || b.time.idle_ms) /* first: it may be refused */
        CAY_TRY(cay_sandbox_extend(sb, &r->call, b.time.ttl_ms, b.time.idle_ms, err));
    if (b.words.name || b.words.labels || b.words.metadata)
        CAY_TRY(cay_sandbox_update(sb, &r->call, &b.words, err));
    return cay__reply_sandbox(r, sb, err);
}

static int on_fork(cay_sandbox *sb, void *arg)
{
    cay__items *l = arg;
    cay_info *info = NULL;
    CAY_TRY(cay_sandbox_describe(sb, &l->r->call, &info, NULL));
    int rc = cay__items_add(l, info);
    cay_info_free(info);
    return rc;
}

int cay__on_sandbox_fork(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay__items l;
    cay_fork f = { .size = sizeof f };
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_body(r, &f, err));
    f.once = cay__req_once(r);
    cay__items_begin(&l, r);
    return cay__items_finish(
        &l, cay_client_fork(r->client, &r->call, cay_sandbox_id(sb), &f, on_fork, &l, err), err);
}

int cay__on_sandbox_undo(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    cay__undo_body b = { NULL };
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_body(r, &b, err));
    CAY_TRY(cay_sandbox_undo(sb, &r->call, b.to, &s, err));
    return cay__reply_object(r, s);
}

/* Waits on the loop for events of the sandbox, and looks at it on a worker. */
typedef struct waiter {
    cay_sandbox *sb;
    cay_events *ev;
    int64_t end_ms;
    cay_state last; /* as it was seen */
} waiter;

static int wait_work(cay__pump *p, cay__buf *out)
{
    waiter *w = p->self;
    cay_call call = { .size = sizeof call, .deadline_ms = cay__native_now() + 10000 };
    cay_info *info = NULL;
    cay__native_drain(w->ev);
    /* A keeper that is just being replaced answers nothing, and that is no end of the sandbox. */
    int rc = cay_sandbox_describe(w->sb, &call, &info, NULL);
    if (rc == 0)
        w->last = info->state;
    else if (rc == CAY_ENOENT || rc == CAY_EGONE)
        w->last = CAY_GONE;
    cay_info_free(info);
    cay_state s = w->last;
    if (s != CAY_STOPPED && s != CAY_GONE && s != CAY_DAMAGED && cay__native_now() < w->end_ms)
        return CAY__PUMP_ON;
    cay__buf_fmt(out, "{\"state\":\"%s\"}", cay_state_name(s));
    return CAY__PUMP_END;
}

static int wait_pull(cay__pump *p, unsigned ready, cay__buf *out)
{
    const waiter *w = p->self;
    if (ready || cay__native_now() >= w->end_ms)
        return CAY__PUMP_WORK;
    return CAY__PUMP_ON;
}

/* The server ends: the time is over, too. */
static int wait_last(cay__pump *p, cay__buf *out)
{
    waiter *w = p->self;
    w->end_ms = 0;
    return CAY__PUMP_WORK;
}

static void wait_close(cay__pump *p)
{
    waiter *w = p->self;
    cay_events_close(w->ev);
    cay_sandbox_unref(w->sb);
    free(w);
}

int cay__on_sandbox_wait(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay_events *ev;
    cay__wait_query q = { .timeout_ms = 30000 };
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_asked(r, &q, err));
    CAY_TRY(cay_client_events(r->client, cay_sandbox_id(sb), &ev, err));
    waiter *w = cay__alloc(sizeof *w);
    *w = (waiter){ .sb = cay_sandbox_ref(sb),
                   .ev = ev,
                   .end_ms = cay__native_now() + (int64_t)q.timeout_ms,
                   .last = CAY_RUNNING };
    cay__pump p = { .fd = { cay_events_fd(ev), -1, -1 },
                    .beat_ms = 500,
                    .self = w,
                    .pull = wait_pull,
                    .work = wait_work,
                    .last = wait_last,
                    .close = wait_close };
    CAY_AUTOBUF now = CAY__BUF(256);
    if (wait_work(&p, &now) == CAY__PUMP_END) { /* it has stopped already */
        wait_close(&p);
        return cay__reply(r, 200, "application/json", now.data, now.len);
    }
    return cay__reply_pump(r, 200, "application/json", &p);
}
