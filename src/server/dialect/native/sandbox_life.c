/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a sandbox: paused, resumed, ended, branched, taken back. */
#include "native.h"

typedef int change(cay_sandbox *sb, const cay_call *call, cay_err *err);

static int carry_out(cay__req *r, change *fn, cay_err *err)
{
    CAY_TRY(cay__req_body(r, NULL, err));
    CAY_TRY(fn(r->sb, &r->call, err));
    return cay__on_sandbox_get(r, err);
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
    CAY_TRY(cay_sandbox_remove(r->sb, &r->call, err));
    return cay__reply_done(r);
}

int cay__on_sandbox_extend(cay__req *r, cay_err *err)
{
    cay__extend_body b = { 0 };
    CAY_TRY(cay__req_body(r, &b, err));
    if (!b.ttl_ms && !b.idle_ms)
        return cay_fail_why(err, CAY_EINVAL, "field_missing", "ttl_ms or idle_ms is needed");
    CAY_TRY(cay_sandbox_extend(r->sb, &r->call, b.ttl_ms, b.idle_ms, err));
    return cay__on_sandbox_get(r, err);
}

int cay__on_sandbox_patch(cay__req *r, cay_err *err)
{
    cay__sandbox_patch b = { .words = { .size = sizeof b.words } };
    CAY_TRY(cay__req_body(r, &b, err));
    if (b.time.ttl_ms || b.time.idle_ms) /* first: it may be refused */
        CAY_TRY(cay_sandbox_extend(r->sb, &r->call, b.time.ttl_ms, b.time.idle_ms, err));
    if (b.words.name || b.words.labels || b.words.metadata)
        CAY_TRY(cay_sandbox_update(r->sb, &r->call, &b.words, err));
    return cay__on_sandbox_get(r, err);
}

static int on_fork(cay_sandbox *sb, void *arg)
{
    cay__items *l = arg;
    CAY_AUTOPTR(cay_info) info = NULL;
    CAY_TRY(cay_sandbox_describe(sb, &l->r->call, &info, NULL));
    return cay__items_add(l, info);
}

int cay__on_sandbox_fork(cay__req *r, cay_err *err)
{
    cay_fork f = { .size = sizeof f };
    CAY_TRY(cay__req_body(r, &f, err));
    f.once = cay__req_once(r);
    cay__items l = cay__items_of(r);
    return cay__items_finish(
        &l, cay_client_fork(r->client, &r->call, cay_sandbox_id(r->sb), &f, on_fork, &l, err), err);
}

int cay__on_sandbox_undo(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    cay__undo_body b = { NULL };
    CAY_TRY(cay__req_body(r, &b, err));
    CAY_TRY(cay_sandbox_undo(r->sb, &r->call, b.to, &s, err));
    return cay__reply_object(r, s);
}

static bool look_at_state(cay__waiter *w, const cay_call *call, cay__buf *answer)
{
    CAY_AUTOPTR(cay_info) info = NULL;
    /* A keeper that is just being replaced answers nothing, and that is no end of the sandbox. */
    int rc = cay_sandbox_describe(w->sb, call, &info, NULL);
    if (rc == 0)
        w->last = info->state;
    else if (rc == CAY_ENOENT || rc == CAY_EGONE)
        w->last = CAY_GONE;
    cay__buf_fmt(answer, "{\"state\":\"%s\"}", cay_state_name(w->last));
    return w->last == CAY_STOPPED || w->last == CAY_GONE || w->last == CAY_DAMAGED;
}

int cay__on_sandbox_wait(cay__req *r, cay_err *err)
{
    cay__wait_query q = { .timeout_ms = 30000 };
    CAY_TRY(cay__req_asked(r, &q, err));
    return cay__native_wait(r, &(cay__waiter){ .look = look_at_state, .last = CAY_RUNNING }, &q,
                            500, err);
}
