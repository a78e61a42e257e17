/* SPDX-License-Identifier: Apache-2.0 */
#include "allow.h"
#include <base/base.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { CALLS_MAX = 96 };

#if defined __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "no system call table for this architecture"
#endif

int allow_calls(const int *calls, size_t count, bool inet)
{
    struct sock_filter f[2 * CALLS_MAX + 16];
    unsigned short n = 0;
    if (count > CALLS_MAX) {
        errno = E2BIG;
        return -1;
    }
#define EMIT(...) f[n++] = (struct sock_filter)__VA_ARGS__
    EMIT({ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch) });
    EMIT({ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCH });
    EMIT({ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS });
    EMIT({ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr) });
    for (size_t i = 0; i < count; i++) {
        EMIT({ BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)calls[i] });
        EMIT({ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW });
    }
    if (inet) {
        EMIT({ BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_socket });
        EMIT({ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args[0]) });
        EMIT({ BPF_JMP | BPF_JEQ | BPF_K, 2, 0, AF_INET });
        EMIT({ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AF_INET6 });
    }
    EMIT({ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM });
    EMIT({ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW });
#undef EMIT
    struct sock_fprog prog = { n, f };
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}

int accept_keeper(int listener, bool room)
{
    struct ucred who;
    CAY_AUTOFD fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    /* The keeper, and its helper, is root or has our own id. The directory keeps others out
     * already. */
    if (fd < 0 || !cay__sock_peer(fd, &who) || (who.uid != 0 && who.uid != geteuid()) || !room)
        return -1;
    return CAY_STEAL_FD(fd);
}
