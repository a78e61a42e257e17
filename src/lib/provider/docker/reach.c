/* SPDX-License-Identifier: Apache-2.0 */
/* The way to pid 1 of a container: a socket in a directory that both see. */
#include "box.h"
#include <base/mutant.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { UP_MS = 20000, STEP_MS = 3, DOOR_MS = 500 };

int cay__docker_engine(const cay__docker *d, cay__engine **out, cay_err *err)
{
    if (!d->engine && err)
        *err = d->engine_err;
    if (!d->engine)
        return d->engine_err.code;
    *out = d->engine;
    return 0;
}

/* A socket whose queue is full makes connect(2) wait, and a false one's stays full: who has the
 * time tries again. */
static int connect_socket(int fd, int at)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    CAY_FORMAT(a.sun_path, "/proc/self/fd/%d", at);
    if (!CAY__MUTANT("docker-queue"))
        cay__fd_nonblock(fd, true);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0 || !cay__fd_nonblock(fd, false))
        return -1;
    return 0;
}

/* What is in the socket's place is looked at all the same, a link is not followed, and who listens
 * is judged. */
int cay__docker_reach(cay__docker_box *b, int *sock, int *pid, cay_err *err)
{
    struct ucred peer = { 0 };
    struct stat st;
    CAY_AUTOFD at = openat(b->ctl, "sock", O_PATH | O_NOFOLLOW | O_CLOEXEC);
    CAY_AUTOFD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CAY_TRY_SYS(fd, err, "socket");
    *pid = 0;
    if (at < 0 || fstat(at, &st) < 0 || !S_ISSOCK(st.st_mode) || connect_socket(fd, at) < 0) {
        if (at >= 0 && errno == EAGAIN)
            *pid = -1;
        else
            *pid = 0;
        return cay_fail_why(err, CAY_EGONE, "not_running", "nobody answers in the container of %s",
                            b->base.id);
    }
    if (!cay__sock_peer(fd, &peer) || peer.pid <= 0)
        return cay_fail_why(
            err, CAY_EUPSTREAM, "peer_false",
            "who answers for %s is not within sight; run cay in the engine's own pid namespace",
            b->base.id);
    *pid = peer.pid;
    *sock = CAY_STEAL_FD(fd);
    return 0;
}

static int why_not(cay__docker_box *b, const cay_call *call, cay_err *err);

int cay__docker_ready(void *arg, cay_err *err)
{
    cay__docker_box *b = arg;
    local_meta m;
    if (b->walls.far) /* who is frozen would not answer, and what pid 1 writes down is not seen from
                         here */
        return why_not(b, NULL, err);
    if (cay__local_meta_read(b->ctl, &m, NULL) == 0 && m.state == CAY_PAUSED)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_paused",
                            "the sandbox is paused; try: cay resume %s", b->base.id);
    return 0;
}

/* Nobody answers: is it paused, stopped, gone, or not up yet? 0: it is about to come. */
static int why_not(cay__docker_box *b, const cay_call *call, cay_err *err)
{
    cay__docker_view v;
    CAY_TRY(cay__docker_look(b, call, &v, NULL, err));
    if (v.state == CAY_PAUSED)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_paused",
                            "the sandbox is paused; try: cay resume %s", b->base.id);
    if (v.state == CAY_STOPPED)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_stopped",
                            "sandbox %s is stopped; try: cay resume %s", b->base.id, b->base.id);
    return 0;
}

/* The one that the engine says is its first process, and nobody else. */
int cay__docker_judge(cay__docker_box *b, const cay_call *call, int pid, cay_err *err)
{
    cay__docker_view v;
    if (pid == atomic_load(&b->pid))
        return 0;
    CAY_TRY(cay__docker_look(b, call, &v, NULL,
                             err)); /* it may have been started anew behind our back */
    if (v.pid != pid)
        return cay_fail_why(
            err, CAY_EUPSTREAM, "peer_false",
            "who answers for %s is not the first process of its container; remove it", b->base.id);
    atomic_store(&b->pid, pid);
    return cay__docker_note(b, v.container, err);
}

int cay__docker_dial(void *arg, const cay_call *call, int *sock, cay_err *err)
{
    cay__docker_box *b = arg;
    if (b->walls.far) {
        int rc = cay__docker_far_dial(b, call, sock, err);
        if (rc == CAY_ENOENT || rc == CAY_ESTATE)
            CAY_TRY(why_not(b, call, err));
        return rc;
    }
    int64_t now = cay__now_ms(), until = now + UP_MS, ask = now + 250, opened = 0;
    CAY_AUTOFD door = -1;
    for (bool first = true;; first = false) {
        CAY_AUTOFD fd = -1;
        int pid = 0, rc = cay__docker_reach(b, &fd, &pid, err);
        if (rc == 0)
            rc = cay__docker_judge(b, call, pid, err);
        if (rc == 0)
            *sock = CAY_STEAL_FD(fd);
        if (rc != CAY_EGONE)
            return rc;
        now = cay__now_ms();
        /* A pid that we know should answer at once; one that is being started gets a moment before
         * the engine is asked. */
        if (first ? atomic_load(&b->pid) != 0 : now >= ask) {
            CAY_TRY(why_not(b, call, err));
            ask = now + 250;
        }
        if (now >= until)
            return cay_fail_why(err, CAY_ETIMEOUT, "init_unreachable",
                                "the container of %s runs and its pid 1 does not answer; is the "
                                "engine in a machine of its own? then give option transport=engine",
                                b->base.id);
        CAY_TRY(cay__call_check(call, "reach the container", err));
        if (pid == 0 && now - opened > DOOR_MS) { /* it waits to be let in; another client's door
                                                     may have taken the place of ours */
            cay__close_fd(&door);
            CAY_TRY(cay__docker_door(b, &door, err));
            opened = now;
        }
        if (door >= 0)
            cay__docker_door_wait(b, call, door, STEP_MS);
        else
            poll(NULL, 0, STEP_MS);
    }
}
