/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process gives up before it reads the first byte from a sandbox: new privileges, dumps,
 * every file but the resolvers' and its records, and every system call that moving bytes does not
 * need.
 */
#include "allow.h"
#include "egress.h"
#include <base/sanitize.h>
#include <proto/landlock.h>
#include <limits.h>
#include <linux/netlink.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

void harden_first(egress *e)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    e->route = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
}

/* resolv.conf is replaced by rename and is often a link, so its directories are granted. */
static int restrict_files(void)
{
    char real[PATH_MAX] = "";
    cay__ll_grant grants[3] = {
        { "/etc", -1, CAY_LL_READ },
        { NULL, 4, CAY_LL_WRITE },
    };
    size_t n = 2;
    char *slash = NULL;
    if (realpath("/etc/resolv.conf", real))
        slash = strrchr(real, '/');
    if (slash && slash != real) {
        *slash = 0;
        grants[n++] = (cay__ll_grant){ real, -1, CAY_LL_READ };
    }
    int rc = cay__landlock_grants(grants, n, CAY_LL_OPTIONAL, NULL);
    if (rc == -ENOSYS || rc == -EOPNOTSUPP)
        return 0;
    return rc; /* an old kernel: the ids of the process are the wall */
}

static const int calls[] = {
    SYS_recvfrom,
    SYS_sendto,
    SYS_epoll_pwait,
    SYS_epoll_ctl,
    SYS_clock_gettime,
    SYS_accept4,
    SYS_bind,
    SYS_listen,
    SYS_close,
    SYS_connect,
    SYS_setsockopt,
    SYS_getsockopt,
    SYS_getsockname,
    SYS_shutdown,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_write,
    SYS_read,
    SYS_getrandom,
    SYS_pread64,
    SYS_pwrite64,
    SYS_openat,
    SYS_fcntl,
    SYS_fstat,
    SYS_newfstatat,
    SYS_lseek,
    SYS_renameat,
    SYS_unlinkat,
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_readv,
    SYS_writev,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_geteuid,
    SYS_setitimer,
    SYS_getrusage,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
    SYS_futex,
#ifdef SYS_open /* old spellings, which newer architectures have not */
    SYS_epoll_wait,
    SYS_open,
    SYS_stat,
#endif
};

bool harden_last(egress *e)
{
    if (e->route < 0)
        return false; /* without it nobody could say which addresses are the host's own */
    if (CAY__SANITIZED)
        return true; /* a sanitizer needs more */
    int rc = restrict_files();
    if (rc == 0)
        rc = cay__landlock_scopes();
    if (rc < 0) {
        errno = -rc;
        return false;
    }
    return allow_calls(calls, CAY_LEN(calls), true) == 0 || errno == EINVAL;
}
