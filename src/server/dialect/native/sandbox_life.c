/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a sandbox: paused, resumed, ended, branched, taken back. */
#include "native.h"
#include <base/base.h>
#include <cay/snapshot.h>
#include <stdio.h>
#include <time.h>

CAY_DEFINE_AUTO(cay_snapshot, cay_snapshot_free)

typedef int change(cay_sandbox *sb, const cay_call *call, cay_err *err);

/* A body is not needed, but what is sent has to be an object that says nothing. */
static const cay__shape nothing_shape = { "Nothing", NULL, 0, 0, "no member" };

static int carry_out(cay__req *r, change *fn, cay_err *err)
{
    cay_sandbox *sb;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &nothing_shape, NULL, err));
    CAY_TRY(fn(sb, &r->call, err));
    return cay__reply_sandbox(r, 200, sb, err);
}

const cay__doc cay__doc_sandbox_kill = {
    "killSandbox", "sandboxes", "end its processes, keep the files", .body = &nothing_shape,
    .answers = { { 200, &cay__sandbox_shape }, { 400 }, { 404 } }
};
int cay__on_sandbox_kill(cay__req *r, cay_err *err)
{
    return carry_out(r, cay_sandbox_kill, err);
}

const cay__doc cay__doc_sandbox_pause = {
    "pauseSandbox", "sandboxes", "freeze it, processes intact", .body = &nothing_shape,
    .answers = { { 200, &cay__sandbox_shape }, { 400 }, { 404 }, { 409 } }
};
int cay__on_sandbox_pause(cay__req *r, cay_err *err)
{
    return carry_out(r, cay_sandbox_pause, err);
}

const cay__doc cay__doc_sandbox_resume = {
    "resumeSandbox", "sandboxes", "go on, or start again", .body = &nothing_shape,
    .answers = { { 200, &cay__sandbox_shape }, { 400 }, { 404 } }
};
int cay__on_sandbox_resume(cay__req *r, cay_err *err)
{
    return carry_out(r, cay_sandbox_resume, err);
}

const cay__doc cay__doc_sandbox_delete = { "deleteSandbox", "sandboxes",
                                           "stop it and forget it, with its files",
                                           .answers = { { 204 }, { 404 } } };
int cay__on_sandbox_delete(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay_sandbox_remove(sb, &r->call, err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

typedef struct extend_body {
    uint64_t ttl_ms, idle_ms;
} extend_body;
static const cay__field extend_fields[] = {
    { "ttl_ms", CAY__F_LIMIT, offsetof(extend_body, ttl_ms), .about = "time left, from now" },
    { "idle_ms", CAY__F_LIMIT, offsetof(extend_body, idle_ms) },
};
static const cay__shape extend_shape =
    CAY__SHAPE("Extend", extend_body, extend_fields, "what is left out stays as it is");

const cay__doc cay__doc_sandbox_extend = {
    "extendSandbox", "sandboxes", "move its deadlines", .body = &extend_shape,
    .answers = { { 200, &cay__sandbox_shape }, { 400 }, { 404 }, { 409 } }
};
int cay__on_sandbox_extend(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    extend_body b = { 0 };
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &extend_shape, &b, err));
    if (!b.ttl_ms && !b.idle_ms)
        return cay_fail_why(err, CAY_EINVAL, "field_missing", "ttl_ms or idle_ms is needed");
    CAY_TRY(cay_sandbox_extend(sb, &r->call, b.ttl_ms, b.idle_ms, err));
    return cay__reply_sandbox(r, 200, sb, err);
}

typedef struct patch_body {
    cay_update words;
    extend_body time;
} patch_body;
static const cay__field patch_fields[] = {
    { "name", CAY__F_STR, offsetof(patch_body, words.name) },
    { "labels", CAY__F_PAIRS, offsetof(patch_body, words.labels),
      .about = "all of them, instead of those it has" },
    { "metadata", CAY__F_JSON, offsetof(patch_body, words.metadata), .max = 1 << 20 },
    { "ttl_ms", CAY__F_LIMIT, offsetof(patch_body, time.ttl_ms), .about = "time left, from now" },
    { "idle_ms", CAY__F_LIMIT, offsetof(patch_body, time.idle_ms) },
};
static const cay__shape patch_shape =
    CAY__SHAPE("SandboxPatch", patch_body, patch_fields, "what is left out stays as it is");

const cay__doc cay__doc_sandbox_patch = {
    "patchSandbox", "sandboxes", "change what may change", .body = &patch_shape,
    .answers = { { 200, &cay__sandbox_shape }, { 400 }, { 404 }, { 409 } }
};
int cay__on_sandbox_patch(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    patch_body b = { .words = { .size = sizeof b.words } };
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &patch_shape, &b, err));
    if (b.time.ttl_ms || b.time.idle_ms) /* first: it may be refused */
        CAY_TRY(cay_sandbox_extend(sb, &r->call, b.time.ttl_ms, b.time.idle_ms, err));
    if (b.words.name || b.words.labels || b.words.metadata)
        CAY_TRY(cay_sandbox_update(sb, &r->call, &b.words, err));
    return cay__reply_sandbox(r, 200, sb, err);
}

static const cay__field fork_fields[] = {
    { "count", CAY__F_SIZE, offsetof(cay_fork, n), .min = 1, .max = 1000, .about = "how many; 1" },
    { "name", CAY__F_STR, offsetof(cay_fork, name), .about = "of the first; others get -2, -3, …" },
    { "labels", CAY__F_PAIRS, offsetof(cay_fork, labels), .about = "instead of those it has" },
    { "ttl_ms", CAY__F_U64, offsetof(cay_fork, ttl_ms) },
};
static const cay__shape fork_shape =
    CAY__SHAPE("Fork", cay_fork, fork_fields, "several ways on from one point");

static int on_fork(cay_sandbox *sb, void *arg)
{
    cay__items *l = arg;
    cay_info *info = NULL;
    CAY_TRY(cay_sandbox_describe(sb, &l->r->call, &info, NULL));
    int rc = cay__items_sandbox(l, info);
    cay_info_free(info);
    return rc;
}

const cay__doc cay__doc_sandbox_fork = {
    "forkSandbox", "sandboxes", "several from one: all or none", .body = &fork_shape,
    .answers = { { 201, &cay__sandbox_shape, .list = true }, { 400 }, { 404 } }
};
int cay__on_sandbox_fork(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay__items l;
    cay_fork f = { .size = sizeof f };
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &fork_shape, &f, err));
    f.once = cay__req_once(r);
    cay__items_begin(&l, r, &cay__sandbox_shape);
    int rc = cay_client_fork(r->client, &r->call, cay_sandbox_id(sb), &f, on_fork, &l, err);
    if (rc < 0) {
        cay__items_drop(&l);
        return rc;
    }
    return cay__items_reply(&l, 201, err);
}

#define SNAP(name, kind)                                                                           \
    {                                                                                              \
#name, kind, offsetof(cay_snapshot, name)                                                  \
    }
static const cay__field snapshot_fields[] = {
    SNAP(id, CAY__F_STR),
    SNAP(sandbox, CAY__F_STR),
    SNAP(parent, CAY__F_STR),
    SNAP(label, CAY__F_STR),
    SNAP(method, CAY__F_STR),
    SNAP(provider, CAY__F_STR),
    { "template", CAY__F_STR, offsetof(cay_snapshot, template_) },
    SNAP(digest, CAY__F_STR),
    SNAP(durable, CAY__F_BOOL),
    SNAP(maybe_incomplete, CAY__F_BOOL),
    SNAP(automatic, CAY__F_BOOL),
    SNAP(created_ms, CAY__F_I64),
    SNAP(bytes, CAY__F_U64),
    SNAP(files, CAY__F_U64),
    SNAP(frozen_us, CAY__F_U64),
    SNAP(total_us, CAY__F_U64),
    SNAP(depth, CAY__F_SIZE),
    SNAP(users, CAY__F_SIZE),
    { "metadata", CAY__F_JSON, offsetof(cay_snapshot, metadata), CAY__F_MAYBE },
};
const cay__shape cay__snapshot_shape =
    CAY__SHAPE("Snapshot", cay_snapshot, snapshot_fields, "a workspace that is kept");

typedef struct undo_body {
    const char *to;
} undo_body;
static const cay__field undo_fields[] = { { "to", CAY__F_STR, offsetof(undo_body, to),
                                            .about = "a snapshot; without it the last one" } };
static const cay__shape undo_shape = CAY__SHAPE("Undo", undo_body, undo_fields, "the way back");

const cay__doc cay__doc_sandbox_undo = {
    "undoSandbox", "sandboxes", "back to a snapshot: processes end, what was written since goes",
    .body = &undo_shape, .answers = { { 200, &cay__snapshot_shape }, { 400 }, { 404 }, { 409 } }
};
int cay__on_sandbox_undo(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    undo_body b = { NULL };
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &undo_shape, &b, err));
    CAY_TRY(cay_sandbox_undo(sb, &r->call, b.to, &s, err));
    return cay__reply_shape(r, 200, &cay__snapshot_shape, s);
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
    (void)out;
    if (ready || cay__native_now() >= w->end_ms)
        return CAY__PUMP_WORK;
    return CAY__PUMP_ON;
}

/* The server ends: the time is over, too. */
static int wait_last(cay__pump *p, cay__buf *out)
{
    waiter *w = p->self;
    (void)out;
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

static const cay__query wait_query[] = { { "timeout_ms", "integer", "at most 600000; 30000" },
                                         { NULL } };
typedef struct waited {
    const char *state;
} waited;
static const cay__field waited_fields[] = { { "state", CAY__F_STR, offsetof(waited, state),
                                              .about = "as it is by then" } };
static const cay__shape waited_shape = CAY__SHAPE("Waited", waited, waited_fields, NULL);

const cay__doc cay__doc_sandbox_wait = { "waitSandbox", "sandboxes",
                                         "until it is stopped or gone, or the time is over",
                                         .query = wait_query,
                                         .answers = { { 200, &waited_shape }, { 400 }, { 404 } } };
int cay__on_sandbox_wait(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay_events *ev;
    uint64_t ms;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_number(r, "timeout_ms", 30000, 600000, &ms, err));
    CAY_TRY(cay_client_events(r->client, cay_sandbox_id(sb), &ev, err));
    waiter *w = cay__alloc(sizeof *w);
    *w = (waiter){ .sb = cay_sandbox_ref(sb),
                   .ev = ev,
                   .end_ms = cay__native_now() + (int64_t)ms,
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
