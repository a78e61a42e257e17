/* SPDX-License-Identifier: Apache-2.0 */
#include "local.h"
#include <poll.h>
#include <sys/file.h>

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
        CAY_COPY(m.reason, "killed");
    return cay__local_meta_write(b->dir, &m, err);
}

int cay__local_stop(void *box, const cay_call *call, cay_err *err)
{
    local_box *b = box;
    CAY_AUTOFD sock = -1;
    int rc = cay__local_reach(b, &sock, err);
    if (rc == 0) {
        cay__close_fd(&sock);
        rc = cay__served_ask(b, call, CAY_MSG_STOP, NULL, err);
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
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "sandbox %s is gone", b->base.id);
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
    if (m.state != CAY_STOPPED && cay__local_reach(b, &sock, NULL) == 0 &&
        cay__link_call(&b->link, call, CAY__LINK_ASK(CAY_MSG_HELLO, hello), &r, NULL) == 0)
        out->pid = r.hello.pid;
    return 0;
}

int cay__local_wait(void *box, const cay_call *call, cay_state *state, cay_err *err)
{
    local_box *b = box;
    for (;;) {
        cay_box_status st = { .size = sizeof st };
        int rc = cay__local_status(b, call, &st, err);
        if (rc == 0 && st.state != CAY_STOPPED)
            rc = cay__served_ask(b, call, CAY_MSG_BOX_WAIT, NULL, err);
        else if (rc == CAY_EGONE || rc == 0) {
            *state = CAY_STOPPED;
            if (rc < 0)
                *state = CAY_GONE;
            return 0;
        }
        if (rc < 0 && rc != CAY_ESTATE && rc != CAY_EGONE)
            return rc;
        CAY_TRY(cay__call_check(call, "wait", err));
    }
}
