/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"
#include <base/base.h>
#include <proto/mnt.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

bool cay__live_dead(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    return poll(&p, 1, 0) != 0;
}

/* at >= 0: there; else away. */
static void move_tree(int tree, int pidfd, int at)
{
    prctl(PR_SET_DUMPABLE, 0);
    if (setns(pidfd, CLONE_NEWNS) < 0)
        _exit(errno);
    if (at >= 0)
        _exit(mnt_move(tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0
                  ? errno
                  : 0);
    _exit(fchdir(tree) < 0 || umount2(".", MNT_DETACH) < 0 ? errno : 0);
}

static int fork_move_tree(int tree, int pidfd, int at)
{
    int status = 0;
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0)
        move_tree(tree, pidfd, at);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status))
        errno = WEXITSTATUS(status);
    else
        errno = EIO;
    if (errno)
        return -1;
    return 0;
}

int cay__live_show(int tree, int pidfd, int pid, const char *target)
{
    char root[40];
    CAY_FORMAT(root, "/proc/%d/root", pid);
    CAY_AUTOFD top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return -1;
    if (cay__live_dead(pidfd)) { /* the number may be another's by now */
        errno = ESRCH;
        return -1;
    }
    CAY_AUTOFD at = cay__fd_openat2(top, target + 1, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                                    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS);
    if (at < 0)
        return -1;
    return fork_move_tree(tree, pidfd, at);
}

int cay__live_hide(int tree, int pidfd)
{
    return fork_move_tree(tree, pidfd, -1);
}

int cay__live_listen(int dir, const char *name)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    CAY_AUTOFD s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
               probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CAY_FORMAT(a.sun_path, "/proc/self/fd/%d/%.60s", dir, name);
    if (s < 0 || probe < 0)
        return -1;
    if (connect(probe, (struct sockaddr *)&a, sizeof a) == 0) {
        errno = EEXIST;
        return -1;
    }
    unlinkat(dir, name, 0); /* of one that was killed */
    if (bind(s, (struct sockaddr *)&a, sizeof a) < 0 || listen(s, 4) < 0)
        return -1;
    return CAY_STEAL_FD(s);
}
