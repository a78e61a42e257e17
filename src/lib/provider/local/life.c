/* SPDX-License-Identifier: Apache-2.0 */
#include "local.h"
#include <base/call.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

static int call_box(local_box *b, const cay_call *call, uint16_t type, uint64_t a, uint64_t c,
                    cay__reply *out, cay_err *err)
{
    return cay__link_box(&b->link, b->id, call, type, a, c, out, err);
}

int cay__local_pause(void *box, const cay_call *call, cay_err *err)
{
    return call_box(box, call, CAY_MSG_PAUSE, 0, 0, NULL, err);
}

int cay__local_resume(void *box, const cay_call *call, cay_err *err)
{
    return call_box(box, call, CAY_MSG_RESUME, 0, 0, NULL, err);
}

int cay__local_extend(void *box, const cay_call *call, uint64_t ttl_ms, uint64_t idle_ms,
                      cay_err *err)
{
    return call_box(box, call, CAY_MSG_EXTEND, ttl_ms, idle_ms, NULL, err);
}

/* cay-local answers and then lets go of its lock; the box is free when that is done. */
static int until_unlocked(local_box *b, const cay_call *call, cay_err *err)
{
    CAY_AUTOFD lock = openat(b->dir, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    while (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0) {
        CAY_TRY(cay__call_check(call, "stop", err));
        poll(NULL, 0, 2);
    }
    return 0;
}

/* Without cay-local there is no process, but maybe a record that says otherwise. */
static int mark_stopped(local_box *b, cay_err *err)
{
    local_meta m;
    CAY_TRY(cay__local_meta_read(b->dir, &m, err));
    if (m.state == CAY_STOPPED && strcmp(m.reason, "reboot") != 0)
        return 0;
    m.state = CAY_STOPPED;
    if (!m.reason[0])
        cay__str_copy(m.reason, sizeof m.reason, "killed");
    return cay__local_meta_write(b->dir, &m, err);
}

int cay__local_stop(void *box, const cay_call *call, cay_err *err)
{
    local_box *b = box;
    int sock = -1;
    int rc = cay__local_reach(b, &sock, err);
    if (rc == 0) {
        cay__close_fd(&sock);
        rc = call_box(b, call, CAY_MSG_STOP, 0, 0, NULL, err);
    }
    if (rc < 0 && rc != CAY_EGONE && rc != CAY_ESTATE)
        return rc;
    CAY_TRY(until_unlocked(b, call, err));
    return mark_stopped(b, err);
}

int cay__local_status(void *box, const cay_call *call, cay_box_status *out, cay_err *err)
{
    local_box *b = box;
    local_meta m;
    CAY_AUTOFD sock = -1;
    cay__reply r = { 0 };
    int rc = cay__local_meta_read(b->dir, &m, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "sandbox %s is gone", b->id);
    CAY_TRY(rc);
    memcpy(b->reason, m.reason, sizeof b->reason);
    *out = (cay_box_status){ .size = sizeof *out,
                             .state = (cay_state)m.state,
                             .reason = b->reason,
                             .level = b->l->kind->level,
                             .deadline_ms = cay__local_deadline_ms(&m),
                             .idle_ms = m.idle_ms,
                             .path = b->shown,
                             .network = b->l->kind->level == CAY_LEVEL_NONE ? "all" : "off" };
    out->walls = b->l->kind->layers(&out->nwalls);
    cay_m_hello hello = { .version = CAY_MSG_VERSION };
    cay__link_ask ask = { .type = CAY_MSG_HELLO, .body = &hello, .len = sizeof hello };
    if (m.state != CAY_STOPPED && cay__local_reach(b, &sock, NULL) == 0 &&
        cay__link_call(&b->link, call, &ask, &r, NULL) == 0)
        out->pid = r.hello.pid;
    return 0;
}

int cay__local_usage(void *box, const cay_call *call, cay_usage *out, cay_err *err)
{
    cay__reply r = { 0 };
    CAY_TRY(call_box(box, call, CAY_MSG_USAGE, 0, 0, &r, err));
    *out = (cay_usage){ .size = sizeof *out,
                        .cpu_us = r.usage.cpu_us,
                        .memory = r.usage.memory,
                        .pids = r.usage.pids };
    return 0;
}

int cay__local_wait(void *box, const cay_call *call, cay_state *state, cay_err *err)
{
    local_box *b = box;
    for (;;) {
        cay_box_status st = { .size = sizeof st };
        int rc = cay__local_status(b, call, &st, err);
        if (rc == 0 && st.state != CAY_STOPPED)
            rc = call_box(b, call, CAY_MSG_BOX_WAIT, 0, 0, NULL, err);
        else if (rc == CAY_EGONE || rc == 0) {
            if (rc == 0)
                *state = CAY_STOPPED;
            else
                *state = CAY_GONE;
            return 0;
        }
        if (rc < 0 && rc != CAY_ESTATE && rc != CAY_EGONE)
            return rc;
        CAY_TRY(cay__call_check(call, "wait", err));
    }
}
