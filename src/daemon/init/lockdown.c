/* SPDX-License-Identifier: Apache-2.0 */
/* What init gives up before it reads the first message, and the limits that its commands inherit.
 */
#include "init.h"
#include <proto/seccomp.h>
#include <base/sanitize.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* KEEP_CAPS: CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE: what the
 * root profile may have, all of it in this sandbox's user namespace only. */

/* Before the binder is there: that one shares our memory and with it errno, by which the end of the
 * list is known. What it may do it has by its permitted set, and it executes nothing. */
bool cut_bounding_set(void)
{
    for (unsigned c = 0; c <= 63; c++)
        if (!(c < 32 && (KEEP_CAPS >> c & 1)) &&
            prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0) /* or past the last one this kernel knows */
            return errno == EINVAL && prctl(PR_CAPBSET_READ, c, 0, 0, 0) != 1;
    return true;
}

const char *lock_down(void)
{
    struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct d[2] = { { KEEP_CAPS, KEEP_CAPS, 0 }, { 0, 0, 0 } };

    if (prctl(PR_SET_DUMPABLE, CAY__MUTANT("dumpable")) < 0)
        return "dumpable";
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &h, d) < 0)
        return "capset";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return "no_new_privs";
    cay__random(init.key, sizeof init.key);
    int rc = 0;
    if (!CAY__MUTANT("seccomp-none"))
        rc = cay__seccomp_install_keyed(init.key);
    if (rc < 0)
        errno = -rc;
    else
        errno = 0;
    if (rc < 0)
        return "filter";
    return NULL;
}

static void set_limit(int what, rlim_t soft, rlim_t hard)
{
    struct rlimit r;
    if (getrlimit(what, &r) < 0)
        return;
    /* Lowering always works; a hard limit is never raised here. */
    r.rlim_max = CAY_MIN(r.rlim_max, hard);
    r.rlim_cur = CAY_MIN(soft, r.rlim_max);
    setrlimit(what, &r);
}

void set_limits(const cay_g_config *m)
{
    /* For commands. We hold what many of them left, and a descriptor that finds no room takes its
     * whole message along. */
    if (m->nofile != UINT64_MAX && !CAY__MUTANT("nofile"))
        set_limit(RLIMIT_NOFILE, CAY_MAX(m->nofile, 65536), CAY_MAX(m->nofile, 65536));
    if (m->fsize != UINT64_MAX)
        set_limit(RLIMIT_FSIZE, m->fsize, m->fsize);
    if (m->as_limit != UINT64_MAX &&
        !CAY__SANITIZED) /* then each command sets it: we have a large shadow */
        set_limit(RLIMIT_DATA, m->as_limit, m->as_limit);
    set_limit(RLIMIT_MEMLOCK, 8 << 20, 8 << 20);
    set_limit(RLIMIT_MSGQUEUE, 800 << 10, 800 << 10);
    set_limit(RLIMIT_SIGPENDING, 4096, 4096);
    set_limit(RLIMIT_STACK, 8 << 20, RLIM_INFINITY);
    if (m->cpus)
        syscall(SYS_sched_setaffinity, 0, sizeof m->cpus, &m->cpus);
}
