/* SPDX-License-Identifier: Apache-2.0 */
/* Handles on boxes, and what is asked of one. */
#include "box.h"
#include <base/base.h>
#include <base/fault.h>

#define SAME_US 2000 /* between attach and status of one question */

cay__nbox *cay__nbox_new(cay__native *n, const char *id)
{
    cay__nbox *b = cay__alloc(sizeof *b);
    b->n = n;
    b->owner = -1;
    cay__served_open(&b->base, id, &n->link);
    return b;
}

void cay__nbox_release(void *box)
{
    cay__nbox *b = box;
    cay__sessions_close(&b->base.sessions);
    cay__nbox_disown(b);
    free(b->wish);
    free(b->layers);
    free(b);
}

/* LIST answers with any number of boxes and END. fn's non-zero return ends it. */
static int list_boxes(cay__native *n, const cay_call *call, const char *prefix,
                      int (*fn)(const cay_m_boxinfo *, void *), void *arg, cay_err *err)
{
    cay_m_box m = cay__link_of(prefix);
    cay__reply r = { 0 };
    CAY_AUTOFD sock = -1;
    CAY_TRY(cay__link_begin(&n->link, call, CAY__LINK_ASK(CAY_MSG_LIST, m), &r, &sock, err));
    while (r.type == CAY_MSG_BOX) {
        r.box.id[sizeof r.box.id - 1] = r.box.reason[sizeof r.box.reason - 1] = 0;
        int rc = fn(&r.box, arg);
        if (rc)
            return CAY_MIN(rc, 0);
        CAY_TRY(cay__link_died(&n->link, cay__link_next(sock, call, CAY_MSG_BOX, &r, err), err));
    }
    cay__link_give(&n->link, CAY_STEAL_FD(sock));
    return 0;
}

static int on_look(const cay_m_boxinfo *info, void *arg)
{
    cay__look *l = arg;
    l->info = *info;
    l->n++;
    return 0;
}

/* A keeper that dies in the middle of its answer has said nothing. */
int cay__nbox_look_up(cay__native *n, const cay_call *call, const char *id, cay__look *l,
                      cay_err *err)
{
    int rc = 0;
    for (int i = 0; i < 4; i++) {
        cay_err e = CAY_ERR_INIT;
        *l = (cay__look){ .n = 0 };
        rc = list_boxes(n, call, id, on_look, l, &e);
        cay__err_pass(rc, &e, err);
        if (rc == 0 || !cay_err_is(&e, CAY_REASON_PEER_DIED))
            break;
    }
    return rc;
}

static int check_running(const cay__look *l, const char *id, cay_err *err)
{
    if (l->n && l->info.state != CAY_STOPPED)
        return 0;
    const char *why = l->info.reason;
    if (!*why)
        why = "not_running";
    return cay_fail_why(err, CAY_EGONE, why, "sandbox %s does not run", id);
}

int cay__nbox_seen(cay__native *n, const cay__look *l, const char *id, cay__nbox **out,
                   cay_err *err)
{
    CAY_TRY(check_running(l, id, err));
    cay__nbox *b = cay__nbox_new(n, l->info.id);
    b->info = l->info;
    b->seen_us = cay__now_us();
    *out = b;
    return 0;
}

int cay__nbox_attach(cay__native *n, const cay_call *call, const char *id, cay__nbox **out,
                     cay_err *err)
{
    cay__look l = { .n = 0 };
    CAY_TRY(cay__native_meet(n, call, err));
    CAY_TRY(cay__nbox_look_up(n, call, id, &l, err));
    return cay__nbox_seen(n, &l, id, out, err);
}

/* Its default user is looked up with the first command: who made it is told which one is missing.
 */
static int name_user(const cay__nbox *b, const cay_spawn *spec, int rc, cay_err *err)
{
    if (rc < 0 && err && !spec->user && b->user[0] && cay__err_of_user(err))
        return cay_wrap(err, rc, "user %.60s", b->user);
    return rc;
}

int cay__nbox_spawn(void *box, const cay_call *call, const cay_spawn *spec, void **proc,
                    cay_err *err)
{
    cay__nbox *b = box;
    if (!b->wish)
        return name_user(b, spec, cay__served_spawn(b, call, spec, proc, err), err);
    CAY_FAULT("client.run.send");
    b->n->link.ahead =
        CAY__LINK_ASK(CAY_MSG_CREATE, b->wish->m, .tail = b->wish->tail, .tail_len = b->wish->len);
    int rc = cay__served_spawn(b, call, spec, proc, err);
    b->n->link.ahead = NULL;
    rc = cay__native_explain(b->n, rc, err);
    CAY_FAULT("client.run.answered");
    CAY_TRY(
        name_user(b, spec, rc, err)); /* one that was made nevertheless ends with our connection */
    cay__nbox_own(b, fcntl(cay__proc_conn(*proc), F_DUPFD_CLOEXEC, 3));
    free(CAY_STEAL(b->wish));
    return 0;
}

int cay__nbox_destroy(void *box, const cay_call *call, cay_err *err)
{
    cay__nbox *b = box;
    cay_err e = CAY_ERR_INIT;
    cay__sessions_drop(&b->base.sessions);
    CAY_FAULT("client.destroy.send");
    int rc = cay__served_ask(b, call, CAY_MSG_DESTROY, NULL, &e);
    if (rc == 0 || rc == CAY_ENOENT) {
        cay__nbox_release(b);
        return 0;
    }
    return cay__err_pass(rc, &e, err);
}

int cay__nbox_stop(void *box, const cay_call *call, cay_err *err)
{
    cay__nbox *b = box;
    cay_err e = CAY_ERR_INIT;
    cay__sessions_drop(&b->base.sessions);
    CAY_FAULT("client.stop.send");
    int rc = cay__served_ask(b, call, CAY_MSG_STOP, NULL, &e);
    if (rc == CAY_ENOENT) /* asked twice because the first answer was lost, or it ended by itself */
        return 0;
    return cay__err_pass(rc, &e, err);
}

static int add_usage(const cay_proc_info *i, void *arg)
{
    cay_usage *u = arg;
    u->cpu_us += i->cpu_us;
    u->memory += i->rss;
    u->pids++;
    return 0;
}

int cay__nbox_usage(void *box, const cay_call *call, cay_usage *out, cay_err *err)
{
    cay__nbox *b = box;
    cay__reply r = { 0 };
    CAY_TRY(cay__served_ask(b, call, CAY_MSG_USAGE, &r, err));
    *out = (cay_usage){ .size = sizeof *out,
                        .cpu_us = r.usage.cpu_us,
                        .memory = r.usage.memory,
                        .memory_peak = r.usage.memory_peak,
                        .pids = r.usage.pids,
                        .disk = r.usage.disk,
                        .inodes = r.usage.inodes,
                        .oom_kills = r.usage.oom_kills,
                        .pids_hits = r.usage.pids_hits };
    /* No group counts: the processes that are there now, and what those that ended used. */
    if (!(b->n->hello.features & CAY_FEAT_MEMORY))
        return cay__nf_ps(b, call, add_usage, out, err);
    return 0;
}

int cay__nbox_wait(void *box, const cay_call *call, cay_state *state, cay_err *err)
{
    cay__reply r = { 0 };
    cay_err e = CAY_ERR_INIT;
    int rc = cay__served_ask(box, call, CAY_MSG_BOX_WAIT, &r, &e);
    if (rc == CAY_ENOENT) {
        *state = CAY_STOPPED;
        return 0;
    }
    if (rc < 0)
        return cay__err_pass(rc, &e, err);
    *state = (cay_state)r.box.state;
    return 0;
}

cay_box_status cay__native_status(const cay__native *n, const cay_m_boxinfo *i)
{
    return (cay_box_status){ .size = sizeof(cay_box_status),
                             .state = (cay_state)i->state,
                             .reason = i->reason,
                             .level = (cay_level)n->hello.level,
                             .deadline_ms = i->deadline_ms,
                             .idle_ms = i->idle_ms,
                             .pid = i->pid,
                             .path = "" };
}

int cay__nbox_status(void *box, const cay_call *call, cay_box_status *out, cay_err *err)
{
    cay__nbox *b = box;
    cay__look l = { .n = 1, .info = b->info };
    /* Whoever looks for a sandbox attaches and asks: one answer is enough for both. */
    int64_t seen = __atomic_exchange_n(&b->seen_us, 0, __ATOMIC_RELAXED);
    if (!seen || cay__now_us() - seen > SAME_US)
        CAY_TRY(cay__nbox_look_up(b->n, call, b->base.id, &l, err));
    CAY_TRY(check_running(&l, b->base.id, err));
    CAY_TRY(cay__native_meet(b->n, call, err));
    b->info = l.info;
    cay_wall *layers = __atomic_load_n(&b->layers, __ATOMIC_ACQUIRE);
    if (!layers) { /* several threads may ask at once: the first one's stay, and all of them are the
                      same */
        cay_wall *fresh = cay__alloc(sizeof *fresh * CAY__WALLS_MAX);
        __atomic_store_n(&b->nlayers,
                         cay__native_box_walls(&b->n->hello, l.info.flags, fresh, CAY__WALLS_MAX),
                         __ATOMIC_RELAXED);
        if (!__atomic_compare_exchange_n(&b->layers, &layers, fresh, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE))
            free(fresh);
    }
    *out = cay__native_status(b->n, &b->info);
    out->walls = b->layers;
    out->nwalls = b->nlayers;
    return 0;
}

/* The keeper, not the sandbox, says which network the socket has to be of. */
int cay__nbox_connect(void *box, const cay_call *call, uint16_t port, int *fd, cay_err *err)
{
    cay__nbox *b = box;
    cay__look l = { .n = 0 };
    CAY_TRY(cay__nbox_look_up(b->n, call, b->base.id, &l, err));
    b->base.sessions.netns = l.info.cookie; /* 0 when it is not there */
    return cay__nf_connect(b, call, port, fd, err);
}

const cay_provider_ops cay__native_hot = { CAY__NATIVE_HOT };
