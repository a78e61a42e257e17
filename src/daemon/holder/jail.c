/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"
#include <base/proctree.h>
#include <base/base.h>
#include <proto/landlock.h>
#include <proto/seccomp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#ifndef __GLIBC__
typedef int __rlimit_resource_t;
#endif

/* Lowering must work; where the user's own limit is lower already, that one holds. */
static bool lower_limit(int what, uint64_t to)
{
    struct rlimit r;
    if (getrlimit((__rlimit_resource_t)what, &r) < 0)
        return false;
    r.rlim_cur = r.rlim_max = CAY_MIN((rlim_t)to, r.rlim_max);
    return setrlimit((__rlimit_resource_t)what, &r) == 0;
}

const char *cay__jail_limits(const jail *j)
{
    const struct {
        int what;
        uint64_t to; /* 0: leave */
    } rows[] = {
        { RLIMIT_DATA, j->memory },   { RLIMIT_FSIZE, j->disk },       { RLIMIT_NPROC, j->tasks },
        { RLIMIT_MEMLOCK, 8u << 20 }, { RLIMIT_MSGQUEUE, 800u << 10 }, { RLIMIT_SIGPENDING, 4096 },
    };
    CAY_EACH(row, rows)
        if (row->to && !lower_limit(row->what, row->to))
            return "limits";
    /* Not 0: at 1, and only there, a host whose cores go to a program starts none (core(5)). */
    if (lower_limit(RLIMIT_CORE, 1))
        return NULL;
    return "limits";
}

/* All five sets. Cutting the bounding set needs CAP_SETPCAP; who has not that has nothing to cut
 * for, because no_new_privs keeps file capabilities from giving any. */
static bool drop_capabilities(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { { 0 } };
    for (unsigned long cap = 0; cap < 64; cap++)
        prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(SYS_capset, &head, none) == 0;
}

const char *cay__jail_enter(int root, const char *tty)
{
    cay__ll_grant own[2] = { { NULL, root, CAY_LL_WRITE }, { tty, -1, CAY_LL_DEVICE } };
    int rc;
    /* Owning a file is the right to chmod(2) it, and Landlock has no rule for that: never as root.
     */
    if (geteuid() == 0) {
        errno = EPERM;
        return "root";
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return "no-new-privs";
    if (!drop_capabilities())
        return "capabilities";
    if ((rc = cay__landlock_level1(own, tty ? 2 : 1, 0, NULL)) < 0) {
        errno = -rc;
        return "landlock";
    }
    /* Last: they forbid what the steps above need. */
    if ((rc = cay__seccomp_install(CAY_PROFILE_DEFAULT)) < 0 || (rc = cay__seccomp_level1(0)) < 0) {
        errno = -rc;
        return "seccomp";
    }
    return NULL;
}

static int add_threads(const tree_proc *p, void *arg)
{
    struct stat st;
    char path[32];
    uint64_t *sum = arg;
    CAY_FORMAT(path, "/proc/%d", (int)p->pid);
    if (stat(path, &st) == 0 && st.st_uid == geteuid())
        *sum += p->threads;
    return 0;
}

uint64_t cay__jail_others(void)
{
    uint64_t all = 0, ours = 0;
    cay__tree_walk(0, add_threads, &all); /* everything descends from nobody */
    cay__tree_walk(getpid(), add_threads, &ours);
    if (all > ours)
        return all - ours;
    return 0;
}
