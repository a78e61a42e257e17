/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server that root starts gives up before it reads the first byte, for itself and for every
 * program that it starts: rights and system calls over the machine that neither it nor a keeper, a
 * helper or a sandbox has any use for. It stays root over files, mounts and namespaces
 * (docs/threat-model.md says why).
 */
#include "harden.h"
#include "base.h"
#include "mutant.h"
#include "sanitize.h"
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define REFUSED "CAY_SERVER_REFUSED" /* of SIGUSR2: which calls the program before refused */

#if defined __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "no system call table for this architecture"
#endif

static const int rights[] = {
    CAP_SYS_MODULE,         CAP_SYS_RAWIO,     CAP_SYS_BOOT,        CAP_SYS_TIME,
    CAP_SYS_TTY_CONFIG,     CAP_SYS_PACCT,     CAP_SYSLOG,          CAP_AUDIT_CONTROL,
    CAP_AUDIT_WRITE,        CAP_AUDIT_READ,    CAP_MAC_OVERRIDE,    CAP_MAC_ADMIN,
    CAP_WAKE_ALARM,         CAP_BLOCK_SUSPEND, CAP_LINUX_IMMUTABLE, CAP_LEASE,
    CAP_NET_BROADCAST,      CAP_IPC_OWNER,     CAP_PERFMON,         CAP_BPF,
    CAP_CHECKPOINT_RESTORE,
};

/* Sandboxes inherit it, so none that docs/seccomp.md gives them. By number alone, so that the
 * kernel keeps the answer for all others and asks no filter. */
static const int calls[] = {
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_syslog,
    SYS_vhangup,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_open_by_handle_at,
    SYS_lookup_dcookie,
    SYS_kcmp,
    SYS_move_pages,
    SYS_migrate_pages,
    SYS_nfsservctl,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

/* What the kernel does not know it cannot give. */
static bool drop_rights(void)
{
    struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct d[2];
    if (syscall(SYS_capget, &h, d) < 0)
        return false;
    CAY_EACH(right, rights) {
        if (prctl(PR_CAPBSET_DROP, *right, 0, 0, 0) < 0 && errno != EINVAL && errno != EPERM)
            return false;
        uint32_t bit = 1u << (*right & 31);
        d[*right >> 5].effective &= ~bit;
        d[*right >> 5].permitted &= ~bit;
        d[*right >> 5].inheritable &= ~bit;
    }
    return syscall(SYS_capset, &h, d) == 0;
}

static bool refuse_calls(void)
{
    struct sock_filter f[CAY_LEN(calls) + 12];
    unsigned short n = 0;
    const size_t count = CAY_LEN(calls);
#define EMIT(...) f[n++] = (struct sock_filter)__VA_ARGS__
    EMIT({ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch) });
    EMIT({ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCH });
    EMIT({ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS }); /* as inside of sandboxes */
    EMIT({ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr) });
#ifdef __x86_64__
    EMIT({ BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x40000000 });
    EMIT({ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS });
#endif
    for (size_t i = 0; i < count; i++)
        EMIT({ BPF_JMP | BPF_JEQ | BPF_K, (unsigned char)(count - i), 0, (unsigned)calls[i] });
    EMIT({ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW });
    EMIT({ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM });
#undef EMIT
    struct sock_fprog prog = { n, f };
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) == 0 ||
           errno == EINVAL; /* a kernel without filters */
}

/* Those that the program before refused are refused for ever; one of another version may have had
 * others. */
static const char *calls_name(void)
{
    static char name[12];
    CAY_FORMAT(name, "%08x", cay__hash(calls, sizeof calls));
    return name;
}

static bool refused_before(void)
{
    const char *named = getenv(REFUSED);
    bool same = named && !strcmp(named, calls_name()) &&
                prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
    unsetenv(REFUSED);
    return same;
}

void cay__harden_before_reexec(void)
{
    if (geteuid() == 0)
        setenv(REFUSED, calls_name(), 1);
}

int cay__harden(cay_err *err)
{
    bool refused = refused_before();
    if (geteuid() != 0 || CAY__MUTANT("server-rights"))
        return 0; /* who is not root has none of it, and needs newuidmap(1), which gains by being
                     run */
    if (!CAY__SANITIZED) /* or nobody could look for leaks */
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (!drop_rights() || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        !(refused || refuse_calls()))
        return cay_fail_sys(err, "give up rights over the machine");
    return 0;
}
