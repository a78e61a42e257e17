/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots while processes run: cay-clone does it, in a process of its own (helper/clone/clone.h).
 */
#include "root_helper.h"
#include "native.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/path.h>
#include <proto/clone.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

enum { ABOVE = 40, AGAIN_MS = 10000 };

int cay__native_program(const char *path, const char *const argv[], char *const env[],
                        const int *fds, int first, size_t n, pid_t *pid)
{
    posix_spawn_file_actions_t acts;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int high[4] = { -1, -1, -1, -1 }, rc = 0;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&acts);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    /* By way of numbers that none of them has: dup2 onto itself would leave close-on-exec. */
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (fds[i] < 0)
            continue;
        high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, ABOVE);
        if (high[i] < 0)
            rc = errno;
        else
            rc = posix_spawn_file_actions_adddup2(&acts, high[i], first + (int)i);
    }
    if (rc == 0)
        rc = posix_spawnp(pid, path, &acts, &attr, (char *const *)argv, env);
    CAY_EACH(it, high)
        cay__close_fd(it);
    posix_spawn_file_actions_destroy(&acts);
    posix_spawnattr_destroy(&attr);
    return rc;
}

/* A late or canceled call ends it: it takes back what it began, and the sandbox goes on. */
static int await_clone(int fd, int pid, const cay_call *call, clone_answer *a, cay_err *err)
{
    int rc = cay__call_wait(call, fd, POLLIN, "snapshot", err);
    if (rc < 0)
        kill(pid, SIGTERM);
    ssize_t n = cay__fd_read_all(fd, a, sizeof *a);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (rc == 0 && n != sizeof *a)
        return cay_fail_why(
            err, CAY_EUPSTREAM, "clone_died",
            "cay-clone ended before it had the snapshot; what it began is not used");
    return rc;
}

/* The same by root: closing the leash is what ends it early. */
static int once_by_hand(cay__nbox *b, const cay_call *call, const cay_snap *spec, clone_answer *a,
                        cay_err *err)
{
    hand_ask ask = { .verb = HAND_CLONE, .op = spec->how == CAY_SNAP_STOP };
    CAY_AUTOFD in = -1, out = -1, leash = -1;
    int fds[2];
    CAY_COPY(ask.name, b->base.id);
    CAY_COPY(ask.more, spec->layer);
    CAY_TRY_SYS(pipe2(fds, O_CLOEXEC), err, "start cay-clone");
    in = fds[0];
    out = fds[1];
    CAY_TRY(cay__hand_ask(b->n->home_fd, call, &ask, &out, 1, NULL, NULL, &leash, err));
    cay__close_fd(&out);
    int rc = cay__call_wait(call, in, POLLIN, "snapshot", err);
    if (rc == 0 && cay__fd_read_all(in, a, sizeof *a) != sizeof *a)
        rc = cay_fail_why(err, CAY_EUPSTREAM, "clone_died",
                          "cay-clone ended before it had the snapshot; what it began is not used");
    cay__hand_let_go(&leash);
    return rc;
}

static int try_clone(cay__nbox *b, const cay_call *call, const cay_snap *spec, const char *program,
                     clone_answer *a, cay_err *err)
{
    const char *argv[] = { "cay-clone", b->base.id, spec->layer,
                           CAY_IF(spec->how == CAY_SNAP_STOP, "--stop"), NULL };
    CAY_AUTOFD keeper = -1, user = -1, in = -1, out = -1;
    int fds[2], pid;
    if (cay__hand_there(b->n->home_fd))
        return once_by_hand(b, call, spec, a, err);
    CAY_TRY(cay__native_userns(b->n->home, b->n->libexec, call, &user, err));
    CAY_TRY(b->n->link.dial(b->n->link.arg, call, &keeper, err));
    CAY_TRY_SYS(pipe2(fds, O_CLOEXEC), err, "start cay-clone");
    in = fds[0];
    out = fds[1];
    errno = cay__native_program(program, argv, environ, (int[]){ b->n->home_fd, keeper, out, user },
                                CLONE_HOME, 4, &pid);
    if (errno)
        return cay_fail_sys(err, "start %s", program);
    cay__close_fd(&out);
    cay__close_fd(&keeper); /* its end is how the keeper learns of cay-clone's */
    return await_clone(in, pid, call, a, err);
}

static int as_error(clone_answer *a, cay_err *err)
{
    a->reason[sizeof a->reason - 1] = a->msg[sizeof a->msg - 1] = 0;
    int code = CAY_EUPSTREAM;
    if (a->code < 0 && a->code >= CAY_ESYS)
        code = a->code;
    cay_fail_why(err, code, a->reason, "snapshot: %s", a->msg);
    if (err)
        err->sys = a->sys;
    return code;
}

static bool worth_another(const clone_answer *a)
{
    cay_reason reason = cay_reason_of(a->reason);
    return reason == CAY_REASON_PEER_DIED || reason == CAY_REASON_SNAPSHOT_INTERRUPTED ||
           reason == CAY_REASON_SANDBOX_ADOPTING;
}

int cay__nbox_clone(cay__nbox *b, const cay_call *call, const cay_snap *spec, cay_snapped *out,
                    cay_err *err)
{
    char program[PATH_MAX];
    clone_answer a;
    CAY_TRY(cay__libexec_find(b->n->libexec, "cay-clone", program, sizeof program, err));
    /* A keeper that dies in the middle lets everything go: then once more, with the next one. */
    for (int64_t end = cay__now_ms() + AGAIN_MS;;) {
        memset(&a, 0, sizeof a);
        CAY_TRY(try_clone(b, call, spec, program, &a, err));
        if (a.code == 0)
            break;
        int rc = as_error(&a, err);
        if (!worth_another(&a) || cay__now_ms() > end)
            return rc;
        CAY_TRY(cay__call_check(call, "snapshot", err));
        usleep(10000);
    }
    a.method[sizeof a.method - 1] = 0;
    static const char *const methods[] = { "btrfs", "reflink", "copy" };
    size_t m = 0;
    while (m + 1 < CAY_LEN(methods) && strcmp(a.method, methods[m]))
        m++;
    *out = (cay_snapped){ .size = out->size,
                          .method = methods[m],
                          .frozen_us = a.frozen_us,
                          .total_us = a.total_us,
                          .bytes = a.bytes,
                          .files = a.files };
    return 0;
}
