/* SPDX-License-Identifier: Apache-2.0 */
#include "rclone.h"
#include <base/base.h>
#include <grp.h>
#include <proto/mnt.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

int cay__fuse_mount(const char *at, uid_t id, bool rw)
{
    char options[128];
    CAY_AUTOFD fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    CAY_FORMAT(options, "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other", fd, id, id);
    unsigned long flags = 2 | 4 | (rw ? 0ul : 1ul); /* MS_NOSUID | MS_NODEV | MS_RDONLY */
    if (mount("rclone", at, "fuse.rclone", flags, options) < 0)
        return -1;
    return CAY_STEAL_FD(fd);
}

void cay__rclone_run(int exe, int fuse, uid_t id, char *const argv[], char *const env[])
{
    /* The program by descriptor: its directory may be closed to everybody but root. */
    int high = fcntl(exe, F_DUPFD_CLOEXEC, CAY__RCLONE_FD + 1);
    if (high < 0 || dup2(fuse, CAY__RCLONE_FD) < 0)
        _exit(126);
    syscall(SYS_close_range, 3, CAY__RCLONE_FD - 1, 0);
    syscall(SYS_close_range, (unsigned)high + 1, ~0u, 0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }); /* a core has its keys in it */
    /* With the last id goes every capability; none comes back by a set-uid file. */
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        _exit(126);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* after the ids: changing them clears it */
    syscall(SYS_execveat, high, "", argv, env, AT_EMPTY_PATH);
    _exit(127);
}

int cay__fusermount_main(int argc, char **argv)
{
    const char *comm = getenv("_FUSE_COMMFD");
    uint64_t to;
    int fd = CAY__RCLONE_FD;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-u"))
            return 0;
    if (comm && cay__str_to_u64(comm, &to) && to < 1024 &&
        cay__fd_send((int)to, "", 1, &fd, 1, 0) == 1)
        return 0;
    return 1;
}
