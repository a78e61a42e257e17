/* SPDX-License-Identifier: Apache-2.0 */
#include "clone.h"
#include <base/base.h>
#include <base/fault.h>
#include <proto/keeper.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define FREEZE_MS                                                                                  \
    5000 /* a process in the kernel comes to rest when its call ends, or is not waited for */
#define GUESS_MS 100
#define LOOK_US                                                                                    \
    50 /* cgroup.events tells who waits for it up to 10 ms late; who reads it again knows at once  \
        */

static int set_failure(clone_answer *a, int code, int sys, const char *reason, const char *msg)
{
    a->code = code;
    a->sys = sys;
    CAY_COPY(a->reason, reason);
    CAY_COPY(a->msg, msg);
    return code;
}

typedef struct packet {
    cay_msg h;
    union {
        cay_m_boxinfo box;
        cay_m_error error;
        char bytes[512];
    };
} packet;

static int call_keeper(uint16_t type, const char *id, uint64_t flags, packet *r, int *fd,
                       clone_answer *a)
{
    struct {
        cay_msg h;
        cay_m_box m;
    } q = { { CAY_MSG_MAGIC, CAY_MSG_VERSION, type, 0, 0 }, { .a = flags } };
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    CAY_COPY(q.m.id, id);
    memset(r, 0, sizeof *r);
    ssize_t n = -1;
    if (cay__fd_send(CLONE_KEEPER, &q, sizeof q, NULL, 0, 0) >= 0)
        n = cay__fd_recv(CLONE_KEEPER, r, sizeof *r, fds, &nfds, 0);
    if (n < (ssize_t)sizeof r->h || r->h.magic != CAY_MSG_MAGIC)
        return set_failure(a, CAY_EUPSTREAM, n < 0 ? errno : 0, "peer_died",
                           "the keeper died while the sandbox was to stand still");
    CAY_EACH_OF(it, fds, nfds)
        if (fd && *fd < 0)
            *fd = *it;
        else
            close(*it);
    if (r->h.type != CAY_MSG_ERROR)
        return 0;
    r->error.reason[sizeof r->error.reason - 1] = r->error.msg[sizeof r->error.msg - 1] = 0;
    return set_failure(a, r->error.code < 0 ? r->error.code : CAY_EUPSTREAM, r->error.sys,
                       r->error.reason, r->error.msg);
}

static bool is_frozen(int events)
{
    char buf[256];
    ssize_t n = pread(events, buf, sizeof buf - 1, 0);
    if (n <= 0)
        return false;
    buf[n] = 0;
    return strstr(buf, "frozen 1");
}

static int await_frozen(const clone_hold *h, clone_answer *a)
{
    int64_t since = cay__now_ms();
    /* "frozen 1" is not the last word: of a group that has processes and groups below, as ours is
     * where init has no leaf of its own, the kernel says so when either all of the one or all of
     * the other are (Linux 6.18). So each process is looked at. */
    for (; !is_frozen(h->events) || !all_frozen(h->init, cay__now_ms() > since + GUESS_MS);
         usleep(LOOK_US))
        if (cay__now_ms() > since + FREEZE_MS)
            return set_failure(
                a, CAY_EBUSY, 0, "freeze_timeout",
                "a process of the sandbox did not come to rest within 5 s; try again");
    return 0;
}

static int start_guard(clone_hold *h, clone_answer *a)
{
    int sv[2], sys = 0;
    char said[5];
    if (!guard_prepare() || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
        return set_failure(a, CAY_ESYS, errno, "", "guard");
    CAY_FAULT("clone.guard.start");
    h->guard_pid = fork();
    if (h->guard_pid == 0) {
        close(sv[0]);
        close(CLONE_KEEPER); /* whose end is ours to tell */
        close(CLONE_ANSWER);
        guard_main(sv[1], h->init);
    }
    close(sv[1]);
    h->guard = sv[0];
    if (h->guard_pid < 0)
        return set_failure(a, CAY_ESYS, errno, "", "guard");
    if (recv(h->guard, said, sizeof said, 0) != sizeof said)
        return set_failure(a, CAY_EBUSY, 0, "stop_failed",
                           "the process that stops the sandbox's processes was killed; try again");
    if (said[0] == 'y')
        return 0;
    memcpy(&sys, said + 1, sizeof sys);
    if (sys == ETIMEDOUT)
        return set_failure(a, CAY_EBUSY, sys, "freeze_timeout",
                           "a process of the sandbox could not be stopped within 5 s; try again");
    return set_failure(a, CAY_EGONE, sys, "sandbox_gone",
                       "the sandbox ended while it was being stopped");
}

int hold_begin(clone_hold *h, const char *id, bool stop, clone_answer *a)
{
    packet r;
    *h = (clone_hold){ .events = -1, .guard = -1, .since_us = cay__now_us() };
    CAY_FAULT("clone.hold.ask");
    int rc = call_keeper(CAY_MSG_FREEZE, id, stop ? CAY_FREEZE_STOP : 0, &r, &h->events, a);
    if (rc < 0)
        return rc;
    CAY_FAULT("clone.hold.asked");
    h->init = r.box.pid;
    if (h->init <= 0)
        return set_failure(a, CAY_EUPSTREAM, 0, "protocol",
                           "the keeper did not say which process is the sandbox's first");
    if (h->events >= 0)
        rc = await_frozen(h, a);
    else
        rc = start_guard(h, a);
    CAY_FAULT("clone.hold.still");
    return rc;
}

/* A keeper that died has let go, or the next one has: then nobody knows what was written meanwhile.
 * And a signal, other than a freezer, is not the last word. */
bool hold_still(const clone_hold *h)
{
    struct pollfd p[2] = { { CLONE_KEEPER, POLLIN, 0 }, { h->guard, POLLIN, 0 } };
    return poll(p, h->guard >= 0 ? 2 : 1, 0) == 0 &&
           (h->events >= 0 ? is_frozen(h->events) : guard_kept(h->init));
}

void hold_end(clone_hold *h, const char *id)
{
    packet r;
    clone_answer ignored;
    if (h->guard >= 0) {
        cay__close_fd(&h->guard);
        while (h->guard_pid > 0 && waitpid(h->guard_pid, NULL, 0) < 0 && errno == EINTR)
            ;
        guard_release(); /* it was killed: then what it stopped is ours to continue */
    }
    CAY_FAULT("clone.hold.end");
    if (h->init)
        call_keeper(CAY_MSG_THAW, id, 0, &r, NULL, &ignored);
    h->until_us = cay__now_us();
    h->init = 0;
    cay__close_fd(&h->events);
}
