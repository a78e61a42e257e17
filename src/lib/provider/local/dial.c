/* SPDX-License-Identifier: Apache-2.0 */
#include "local.h"
#include <base/path.h>
#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { START_MS = 5000 };

int cay__local_run(local *l, cay_err *err)
{
    char base[CAY__RUN_MAX], run[sizeof l->run];
    CAY_TRY(cay__run_dir(l->home_fd, base, sizeof base, true, err));
    CAY_JOIN(run, base, l->kind->run);
    if (mkdir(run, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make the runtime directory %s", run);
    if (!l->run[0]) /* later it is the same, and other threads read it */
        memcpy(l->run, run, sizeof run);
    return 0;
}

static bool build_address(const local *l, const char *id, struct sockaddr_un *a)
{
    *a = (struct sockaddr_un){ .sun_family = AF_UNIX };
    return CAY_JOIN(a->sun_path, l->run, "/", id);
}

void cay__local_unlink(local *l, const char *id)
{
    struct sockaddr_un a;
    if (build_address(l, id, &a))
        unlink(a.sun_path);
}

int cay__local_reach(local_box *b, int *sock, cay_err *err)
{
    struct sockaddr_un a;
    CAY_AUTOFD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CAY_TRY_SYS(fd, err, "socket");
    if (!build_address(b->l, b->base.id, &a))
        return cay_fail(err, CAY_EINVAL, "runtime directory %s: the path is too long for a socket",
                        b->l->run);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
        if (errno == ECONNREFUSED || errno == ENOENT)
            return cay_fail_why(err, CAY_EGONE, "not_running", "cay-local of %s does not run",
                                b->base.id);
        return cay_fail_sys(err, "reach cay-local of %s", b->base.id);
    }
    *sock = CAY_STEAL_FD(fd);
    return 0;
}

static int make_socket(local_box *b, int *out, cay_err *err)
{
    struct sockaddr_un a;
    CAY_AUTOFD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CAY_TRY(cay__local_run(b->l, err));
    if (!build_address(b->l, b->base.id, &a))
        return cay_fail(err, CAY_EINVAL, "runtime directory %s: the path is too long for a socket",
                        b->l->run);
    unlink(a.sun_path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 128) < 0)
        return cay_fail_sys(err, "listen on %s", a.sun_path);
    *out = CAY_STEAL_FD(fd);
    return 0;
}

/* posix_spawn(3) and not fork: this runs in programs of any size, with threads. cay-local forks
 * once more and the first one ends at once, so that the program gets no child to wait for. */
static int spawn_local(local_box *b, int listener, int lock, cay_err *err)
{
    char prog[4096];
    posix_spawn_file_actions_t acts;
    int from[3] = { listener, b->dir, lock }, high[3] = { -1, -1, -1 }, e = 0, status = 0;
    pid_t pid;
    char *argv[] = { prog, b->base.id, NULL }, *env[] = { NULL };

    CAY_TRY(cay__libexec_find(b->l->libexec, "cay-local", prog, sizeof prog, err));
    posix_spawn_file_actions_init(&acts);
    for (int i = 0; i < 3 && !e;
         i++) { /* first out of the way, so that no target covers a source */
        high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 10);
        if (high[i] < 0)
            e = errno;
        else
            e = posix_spawn_file_actions_adddup2(&acts, high[i], 3 + i);
    }
    if (!e)
        e = posix_spawn(&pid, prog, &acts, NULL, argv, env);
    posix_spawn_file_actions_destroy(&acts);
    CAY_EACH_OF(it, high, 3)
        cay__close_fd(it);
    if (e) {
        errno = e;
        return cay_fail_sys(err, "start %s", prog);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        return cay_fail(err, CAY_ESYS, "%s ended with %d", prog, WEXITSTATUS(status));
    return 0;
}

/* Under the lock that cay-local then keeps: one per box, whoever comes first. 1: somebody else has
 * it. */
static int start_local(local_box *b, cay_err *err)
{
    CAY_AUTOFD lock = openat(b->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    CAY_AUTOFD listener = -1;
    local_meta m;
    if (lock < 0)
        return cay_fail_sys_as(err, CAY_EGONE, "sandbox %s", b->base.id);
    if (flock(lock, LOCK_EX | LOCK_NB) < 0)
        return 1;
    CAY_TRY(cay__local_meta_read(b->dir, &m, err));
    if (m.state == CAY_STOPPED)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_stopped",
                            "sandbox %s is stopped; try: cay resume %s", b->base.id, b->base.id);
    CAY_TRY(make_socket(b, &listener, err));
    return spawn_local(b, listener, lock, err);
}

int cay__local_dial(void *arg, const cay_call *call, int *sock, cay_err *err)
{
    local_box *b = arg;
    int64_t until = cay__now_ms() + START_MS;
    for (;;) {
        int rc = cay__local_reach(b, sock, err);
        if (rc != CAY_EGONE)
            return rc;
        CAY_TRY(cay__call_check(call, "start cay-local", err));
        rc = start_local(b, err);
        if (rc < 0)
            return rc;
        if (rc == 1 && cay__now_ms() > until)
            return cay_fail_why(err, CAY_EBUSY, "sandbox_busy",
                                "sandbox %s: another program is starting or stopping it",
                                b->base.id);
        if (rc == 1)
            poll(NULL, 0, 5);
    }
}
