/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filters are tried twice: simulated for every number, which shows what they say, and installed
 * in children, which shows what the kernel does with them.
 */
#include <base/base.h>
#include <proto/seccomp.h>
#include <daemon/init/seccomp_table.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>
#include <seccomp_filter.h>

#ifdef __x86_64__
#define NATIVE AUDIT_ARCH_X86_64
#define OTHER  AUDIT_ARCH_AARCH64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#define OTHER  AUDIT_ARCH_X86_64
#endif

static const struct filter {
    const char *name;
    const struct sock_filter *ins;
    size_t n;
} filters[] = {
    [CAY_PROFILE_DEFAULT] = { "default", cay__filter_default, CAY_LEN(cay__filter_default) },
    [CAY_PROFILE_STRICT] = { "strict", cay__filter_strict, CAY_LEN(cay__filter_strict) },
    [CAY_PROFILE_NESTED] = { "nested", cay__filter_nested, CAY_LEN(cay__filter_nested) },
    { "level1", cay__filter_level1, CAY_LEN(cay__filter_level1) },
    { "level1_network", cay__filter_level1_network, CAY_LEN(cay__filter_level1_network) },
};
enum { LEVEL1 = 3, LEVEL1_NETWORK = 4 };

enum { NOTHING = -2 };

/* Runs the program as the kernel would: the errno it answers, 0 for allowed, NOTHING for a call
 * that is left out and told as done, -1 for anything else. */
static int simulate(const struct filter *f, const struct seccomp_data *d)
{
    uint32_t a = 0;
    for (size_t pc = 0; pc < f->n; pc++) {
        const struct sock_filter *i = &f->ins[pc];
        bool yes;
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (i->k % 4 || i->k + 4 > sizeof *d)
                return -1;
            memcpy(&a, (const char *)d + i->k, 4);
            continue;
        case BPF_ALU | BPF_AND | BPF_K: a &= i->k; continue;
        case BPF_JMP | BPF_JA: pc += i->k; continue;
        case BPF_RET | BPF_K:
            if (i->k == SECCOMP_RET_ALLOW)
                return 0;
            return (i->k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO
                       ? (i->k & SECCOMP_RET_DATA ? (int)(i->k & SECCOMP_RET_DATA) : NOTHING)
                       : -1;
        case BPF_JMP | BPF_JEQ | BPF_K: yes = a == i->k; break;
        case BPF_JMP | BPF_JGE | BPF_K: yes = a >= i->k; break;
        case BPF_JMP | BPF_JSET | BPF_K: yes = (a & i->k) != 0; break;
        default: return -1;
        }
        pc += yes ? i->jt : i->jf;
    }
    return -1;
}

static int answer(int filter, uint32_t arch, uint32_t nr, const uint64_t args[6])
{
    struct seccomp_data d = { .nr = (int)nr, .arch = arch };
    if (args)
        memcpy(d.args, args, sizeof d.args);
    return simulate(&filters[filter], &d);
}

static const cay__sysrow *row_of(uint32_t nr)
{
    for (int i = 0; i < CAY__SYS_ROWS; i++)
        if (cay__sysrows[i].name && (uint32_t)cay__sysrows[i].nr == nr)
            return &cay__sysrows[i];
    return NULL;
}

static int meant(unsigned act)
{
    return act == CAY__SYS_ALLOW    ? 0
           : act == CAY__SYS_EPERM  ? EPERM
           : act == CAY__SYS_ENOSYS ? ENOSYS
                                    : -1;
}

static void every_number_gets_its_row(void **s)
{
    (void)s;
    static const uint64_t ones[6] = { ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull };
    for (int p = 0; p < CAY__SYS_PROFILES; p++)
        for (uint32_t nr = 0; nr < CAY__SYS_MAX; nr++) {
            const cay__sysrow *r = row_of(nr);
            int want = r ? meant(r->act[p]) : ENOSYS;
            if (want < 0)
                continue; /* by arguments: below */
            if (answer(p, NATIVE, nr, NULL) != want || answer(p, NATIVE, nr, ones) != want)
                fail_msg("%s: %u (%s) is not %d", filters[p].name, nr, r ? r->name : "unlisted",
                         want);
        }
}

static void foreign_numbers_do_not_exist(void **s)
{
    (void)s;
    static const uint32_t archs[] = { OTHER, AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_RISCV64,
                                      0,     0xffffffff };
    for (int p = 0; p < CAY__SYS_PROFILES; p++) {
        for (uint32_t nr = 0; nr < CAY__SYS_MAX; nr++) {
            for (size_t i = 0; i < CAY_LEN(archs); i++)
                assert_int_equal(answer(p, archs[i], nr, NULL), ENOSYS);
            assert_int_equal(answer(p, NATIVE, 0x40000000u | nr, NULL), ENOSYS); /* x32 */
            assert_int_equal(answer(p, NATIVE, 0x80000000u | nr, NULL), ENOSYS);
        }
        assert_int_equal(answer(p, NATIVE, 0xffffffff, NULL), ENOSYS);
        for (uint32_t bit = CAY__SYS_MAX; bit; bit <<= 1)
            assert_int_equal(answer(p, NATIVE, bit, NULL), ENOSYS);
    }
}

#define HIGH 0xffffffff00000000ull
#define NS   CLONE_NEWUSER
/* Rules on arguments, by filter; -2 stands for default and strict and nested. */
static const struct vector {
    int filter;
    int nr;
    uint64_t args[6];
    int want;
} vectors[] = {
    { -2, SYS_socket, { AF_UNIX, SOCK_STREAM }, 0 },
    { -2, SYS_socket, { AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK }, 0 },
    { -2, SYS_socket, { HIGH | AF_UNIX, HIGH | SOCK_DGRAM }, 0 },
    { -2, SYS_socket, { AF_UNIX, SOCK_RAW }, EPERM },
    { -2, SYS_socket, { AF_INET, SOCK_STREAM, 0 }, 0 },
    { -2, SYS_socket, { AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP }, 0 },
    { -2, SYS_socket, { AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_UDP }, 0 },
    { -2, SYS_socket, { AF_INET, SOCK_STREAM, 262 /* MPTCP */ }, EPROTONOSUPPORT },
    { -2, SYS_socket, { AF_INET, SOCK_STREAM, HIGH | 262 }, EPROTONOSUPPORT },
    { -2, SYS_socket, { AF_INET, SOCK_DGRAM, 136 /* UDP-Lite */ }, EPROTONOSUPPORT },
    { -2, SYS_socket, { AF_INET, SOCK_DGRAM, IPPROTO_ICMP }, EPROTONOSUPPORT },
    { -2, SYS_socket, { AF_INET6, SOCK_STREAM, 132 /* SCTP */ }, EPROTONOSUPPORT },
    { -2, SYS_socket, { AF_INET, SOCK_RAW, 0 }, EPERM },
    { -2, SYS_socket, { AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP }, EPERM },
    { -2, SYS_socket, { HIGH | AF_INET6, HIGH | SOCK_RAW, 58 }, EPERM },
    { -2, SYS_socket, { AF_INET, SOCK_PACKET, 0 }, EPERM },
    { -2, SYS_socket, { AF_INET, SOCK_DCCP, 0 }, EPERM },
    { -2, SYS_socket, { AF_INET, SOCK_SEQPACKET, 0 }, EPERM },
    { -2, SYS_socket, { AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE }, 0 },
    { -2, SYS_socket, { AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER }, EAFNOSUPPORT },
    { -2, SYS_socket, { AF_NETLINK, SOCK_DGRAM, NETLINK_SOCK_DIAG }, EAFNOSUPPORT },
    { -2, SYS_socket, { AF_NETLINK, SOCK_DGRAM, NETLINK_KOBJECT_UEVENT }, EAFNOSUPPORT },
    { -2, SYS_socket, { AF_PACKET, SOCK_DGRAM }, EAFNOSUPPORT },
    { -2, SYS_socket, { HIGH | AF_VSOCK, SOCK_STREAM }, EAFNOSUPPORT },
    { -2, SYS_socketpair, { AF_UNIX, SOCK_STREAM }, 0 },
    { -2, SYS_socketpair, { AF_TIPC, SOCK_STREAM }, EAFNOSUPPORT },
    { -2, SYS_setsockopt, { 3, IPPROTO_TCP, TCP_NODELAY }, 0 },
    { -2, SYS_setsockopt, { 3, IPPROTO_TCP, TCP_ULP }, EPERM },
    { -2, SYS_setsockopt, { 3, HIGH | IPPROTO_TCP, HIGH | TCP_ULP }, EPERM },
    { -2, SYS_setsockopt, { 3, SOL_SOCKET, 31 }, 0 },
    { -2, SYS_setrlimit, { RLIMIT_NOFILE, 1 }, 0 },
    { -2, SYS_setrlimit, { RLIMIT_CORE, 1 }, NOTHING },
    { -2, SYS_setrlimit, { HIGH | RLIMIT_CORE, 1 }, NOTHING },
    { -2, SYS_prlimit64, { 0, RLIMIT_NOFILE, 1, 1 }, 0 },
    { -2, SYS_prlimit64, { 0, RLIMIT_CORE, 0, 1 }, 0 },
    { -2, SYS_prlimit64, { 0, RLIMIT_CORE, 1, 0 }, NOTHING },
    { -2, SYS_prlimit64, { 0, RLIMIT_CORE, HIGH, 0 }, NOTHING },
    { -2, SYS_prlimit64, { 1, HIGH | RLIMIT_CORE, 1, 1 }, EPERM },
    { -2, SYS_prlimit64, { 1, RLIMIT_CORE, 1, HIGH }, EPERM },
    { -2, SYS_ioctl, { 0, TIOCSTI }, EPERM },
    { -2, SYS_ioctl, { 0, HIGH | TIOCSTI }, EPERM },
    { -2, SYS_ioctl, { 0, 0x100000000ull | TIOCLINUX }, EPERM },
    { -2, SYS_ioctl, { 0, TIOCCONS }, EPERM },
    { -2, SYS_ioctl, { 0, TIOCSETD }, EPERM },
    { -2, SYS_ioctl, { 0, TIOCSCTTY }, 0 },
    { -2, SYS_ioctl, { 0, TIOCSWINSZ }, 0 },
    { -2, SYS_ioctl, { 0, TIOCSPTLCK }, 0 },
    { -2, SYS_ioctl, { 0, TIOCGPTN }, 0 },
    { -2, SYS_ioctl, { 0, TIOCGETD }, 0 },
    { -2, SYS_prctl, { PR_SET_MM }, EPERM },
    { -2, SYS_prctl, { HIGH | PR_SET_MM }, EPERM },
    { -2, SYS_prctl, { PR_SET_SECCOMP, SECCOMP_MODE_STRICT }, EPERM },
    { -2, SYS_prctl, { PR_SET_SECCOMP, SECCOMP_MODE_FILTER }, 0 },
    { -2, SYS_prctl, { PR_CAPBSET_DROP, 21 }, 0 },
    { -2, SYS_prctl, { PR_SET_DUMPABLE }, 0 },
    { -2, SYS_prctl, { PR_SET_CHILD_SUBREAPER, 1 }, 0 },
    { -2, SYS_prctl, { PR_SET_NO_NEW_PRIVS, 1 }, 0 },
    { -2, SYS_prctl, { PR_SET_NAME }, 0 },
    { -2, SYS_seccomp, { SECCOMP_SET_MODE_STRICT }, EPERM },
    { -2, SYS_seccomp, { SECCOMP_SET_MODE_FILTER }, 0 },
    { -2, SYS_personality, { 0 }, 0 },
    { -2, SYS_personality, { 8 }, 0 },
    { -2, SYS_personality, { 0xffffffff }, 0 },
    { -2, SYS_personality, { HIGH | 0xffffffff }, 0 },
    { -2, SYS_personality, { 0x0040000 /* ADDR_NO_RANDOMIZE */ }, EPERM },
    { -2, SYS_personality, { HIGH | 0x0400000 /* READ_IMPLIES_EXEC */ }, EPERM },
    { CAY_PROFILE_DEFAULT, SYS_clone, { CLONE_VM | CLONE_VFORK | SIGCHLD }, 0 },
    { CAY_PROFILE_DEFAULT, SYS_clone, { 0x3d0f00 /* pthread_create */ }, 0 },
    { CAY_PROFILE_DEFAULT, SYS_clone, { NS | SIGCHLD }, EPERM },
    { CAY_PROFILE_DEFAULT, SYS_clone, { HIGH | CLONE_NEWNET }, EPERM },
    { CAY_PROFILE_DEFAULT, SYS_clone, { CLONE_NEWNS }, EPERM },
    { CAY_PROFILE_DEFAULT, SYS_clone, { CLONE_NEWCGROUP }, EPERM },
    { CAY_PROFILE_DEFAULT, SYS_clone, { CLONE_NEWUTS }, EPERM },
    { CAY_PROFILE_DEFAULT, SYS_clone, { CLONE_NEWIPC }, EPERM },
    { CAY_PROFILE_DEFAULT, SYS_clone, { CLONE_NEWPID }, EPERM },
    { CAY_PROFILE_STRICT, SYS_clone, { CLONE_NEWPID }, EPERM },
    { CAY_PROFILE_NESTED, SYS_clone, { CLONE_NEWPID }, 0 },
    { CAY_PROFILE_DEFAULT, SYS_unshare, { 0 }, 0 },
    { CAY_PROFILE_DEFAULT, SYS_unshare, { CLONE_FS | CLONE_FILES | CLONE_SYSVSEM }, 0 },
    { CAY_PROFILE_DEFAULT, SYS_unshare, { CLONE_FS | CLONE_NEWNS }, EPERM },
    { CAY_PROFILE_DEFAULT, SYS_unshare, { CLONE_NEWTIME }, EPERM },
    { CAY_PROFILE_DEFAULT, SYS_unshare, { 1ull << 40 }, EPERM },
    { CAY_PROFILE_STRICT, SYS_unshare, { NS }, EPERM },
    { CAY_PROFILE_NESTED, SYS_unshare, { NS }, 0 },
    { LEVEL1, SYS_socket, { AF_INET, SOCK_STREAM }, EPERM },
    { LEVEL1, SYS_socket, { AF_UNIX, SOCK_STREAM }, EPERM },
    { LEVEL1, SYS_socketpair, { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC }, 0 },
    { LEVEL1, SYS_socketpair, { AF_UNIX, SOCK_SEQPACKET }, 0 },
    { LEVEL1, SYS_socketpair, { AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC }, EPERM },
    { LEVEL1, SYS_prlimit64, { 0, 7 }, 0 },
    { LEVEL1, SYS_prlimit64, { 4711, 7 }, EPERM },
    { LEVEL1, SYS_shmat, { 1 }, EPERM },
    { LEVEL1, SYS_read, { 0 }, 0 },
    { LEVEL1_NETWORK, SYS_socket, { AF_INET6, SOCK_STREAM }, 0 },
    { LEVEL1_NETWORK, SYS_socket, { AF_NETLINK, SOCK_RAW }, 0 },
    { LEVEL1_NETWORK, SYS_socket, { AF_UNIX, SOCK_DGRAM }, EPERM },
    { LEVEL1_NETWORK, SYS_mq_open, { 0 }, EPERM },
};

static void try_vector(int filter, size_t i)
{
    const struct vector *v = &vectors[i];
    int got = answer(filter, NATIVE, (uint32_t)v->nr, v->args);
    if (got != v->want)
        fail_msg("%s: %s(%#llx, %#llx, %#llx): %d, not %d", filters[filter].name,
                 row_of((uint32_t)v->nr)->name, (unsigned long long)v->args[0],
                 (unsigned long long)v->args[1], (unsigned long long)v->args[2], got, v->want);
}

static void argument_rules_see_what_the_kernel_sees(void **s)
{
    (void)s;
    for (size_t i = 0; i < CAY_LEN(vectors); i++)
        for (int f = 0; f < (int)CAY_LEN(filters); f++)
            if (vectors[i].filter == f || (vectors[i].filter == -2 && f < CAY__SYS_PROFILES))
                try_vector(f, i);
}

static void every_rule_has_vectors(void **s)
{
    (void)s;
    for (int r = 0; r < CAY__SYS_ROWS; r++) {
        if (!cay__sysrows[r].name || meant(cay__sysrows[r].act[0]) >= 0)
            continue;
        bool yes = false, no = false;
        for (size_t i = 0; i < CAY_LEN(vectors); i++)
            if (vectors[i].nr == cay__sysrows[r].nr)
                *(vectors[i].want ? &no : &yes) = true;
        if (!yes || !no)
            fail_msg("%s has no vector of each kind", cay__sysrows[r].name);
    }
}

static void names_and_numbers_are_those_of_libseccomp(void **s)
{
    (void)s;
    int known = 0;
    for (int i = 0; i < CAY__SYS_ROWS; i++) {
        if (!cay__sysrows[i].name)
            continue;
        int nr = seccomp_syscall_resolve_name(cay__sysrows[i].name);
        if (nr == __NR_SCMP_ERROR)
            continue; /* younger than the library */
        known++;
        if (nr != cay__sysrows[i].nr)
            fail_msg("%s is %d, not %d", cay__sysrows[i].name, nr, cay__sysrows[i].nr);
    }
    assert_true(known > 300);
    for (uint32_t nr = 0; nr < 600; nr++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)nr);
        if (name && !row_of(nr))
            fail_msg("%s (%u) has no row", name, nr);
        free(name);
    }
}

static void default_stays_small(void **s)
{
    (void)s;
    int n[CAY__SYS_PROFILES] = { 0 };
    for (int p = 0; p < CAY__SYS_PROFILES; p++)
        for (int i = 0; i < CAY__SYS_ROWS; i++)
            n[p] += cay__sysrows[i].name && meant(cay__sysrows[i].act[p]) <= 0;
    assert_true(n[CAY_PROFILE_DEFAULT] <= 270);
    assert_true(n[CAY_PROFILE_STRICT] <= n[CAY_PROFILE_DEFAULT]);
    for (size_t f = 0; f < CAY_LEN(filters); f++)
        print_message("# %s: %zu instructions, %d calls\n", filters[f].name, filters[f].n,
                      f < CAY__SYS_PROFILES ? n[f] : 0);
}

static void strict_allows_nothing_that_default_refuses(void **s)
{
    (void)s;
    for (int i = 0; i < CAY__SYS_ROWS; i++)
        if (cay__sysrows[i].name && meant(cay__sysrows[i].act[CAY_PROFILE_DEFAULT]) > 0)
            assert_true(meant(cay__sysrows[i].act[CAY_PROFILE_STRICT]) > 0);
}

/* Runs body in a child without rights, under a profile; what it returns is the exit code. */
static void in_child(int profile, int (*body)(int profile))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        /* Should a filter be broken, a call that slips through can do no harm as nobody. */
        if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
                               setresuid(65534, 65534, 65534) < 0))
            _exit(98);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || cay__seccomp_install(profile) < 0)
            _exit(99);
        _exit(body(profile));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("%s: child ended with status %#x", filters[profile].name, status);
}

static void in_children(int (*body)(int profile))
{
    for (int p = 0; p < CAY__SYS_PROFILES; p++)
        in_child(p, body);
}

static int expect(const char *what, long nr, int want)
{
    errno = 0;
    long rc = syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L);
    if (rc == -1 && errno == want)
        return 0;
    fprintf(stderr, "%s (%ld): returned %ld, errno %d, not %d\n", what, nr, rc, errno, want);
    return 1;
}

static int denied(int profile)
{
    int bad = 0;
    for (int i = 0; i < CAY__SYS_ROWS; i++) {
        const cay__sysrow *r = &cay__sysrows[i];
        if (!r->name || meant(r->act[profile]) <= 0)
            continue;
#ifdef __x86_64__
        if (r->nr == __NR_uretprobe || r->nr == __NR_uprobe)
            continue; /* newer kernels do not ask the filter, and raise SIGILL */
#endif
        bad |= expect(r->name, r->nr, meant(r->act[profile]));
    }
    for (long nr = 500; nr < 564; nr++)
        bad |= expect("unassigned", nr, ENOSYS);
    return bad;
}

static void the_kernel_refuses_every_denied_call(void **s)
{
    (void)s;
    in_children(denied);
}

static int families(int profile)
{
    (void)profile;
    int bad = 0;
    for (int family = 0; family <= 45; family++) {
        int fd = socket(family, family == AF_NETLINK ? SOCK_RAW : SOCK_STREAM, 0), e = errno;
        bool open =
            family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
        /* A host may be without IPv6. */
        if (fd >= 0 ? !open : open ? family != AF_INET6 || e != EAFNOSUPPORT : e != EAFNOSUPPORT) {
            fprintf(stderr, "family %d: descriptor %d, errno %d\n", family, fd, e);
            bad = 1;
        }
        if (fd >= 0)
            close(fd);
    }
    return bad;
}

static void only_four_socket_families_open(void **s)
{
    (void)s;
    in_children(families);
}

static int arguments(int profile)
{
    int bad = 0, tcp = socket(AF_INET, SOCK_STREAM, 0), end[2];
    if (pipe(end) < 0)
        return 2;
    for (size_t i = 0; i < CAY_LEN(vectors); i++) {
        const struct vector *v = &vectors[i];
        uint64_t first = v->nr == SYS_ioctl        ? (uint64_t)end[0]
                         : v->nr == SYS_setsockopt ? (uint64_t)tcp
                                                   : v->args[0];
        if (v->want <= 0 || (v->filter != -2 && v->filter != profile))
            continue;
        errno = 0;
        if (syscall(v->nr, first, v->args[1], v->args[2], "tls", 4L, 0L) == -1 && errno == v->want)
            continue;
        fprintf(stderr, "vector %zu: errno %d, not %d\n", i, errno, v->want);
        bad = 1;
    }
    return bad;
}

static void the_kernel_refuses_by_arguments(void **s)
{
    (void)s;
    in_children(arguments);
}

#ifdef __x86_64__
static long int80(long nr)
{
    long rc;
    __asm__ volatile("int $0x80" : "=a"(rc) : "a"(nr) : "memory", "r8", "r9", "r10", "r11");
    return rc;
}

static int foreign(int profile)
{
    (void)profile;
    for (long nr = 0; nr < 450; nr++)
        if (nr != 1 && nr != 252 &&
            int80(nr) != -ENOSYS) /* were they let through, exits would look fine */
            return 1;
    for (long nr = 0; nr < 600; nr++) {
        errno = 0;
        if (syscall(0x40000000L | nr) != -1 || errno != ENOSYS)
            return 2;
    }
    return 0;
}

static void the_kernel_knows_no_foreign_entry(void **s)
{
    (void)s;
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(int80(20) > 0 ? 0 : 1); /* getpid */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0) {
        print_message("# this kernel has no 32-bit entry: only simulated\n");
        skip();
    }
    in_children(foreign);
}
#endif

static int work(int profile)
{
    (void)profile;
    int status;
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "x=$(ls / | wc -l); test \"$x\" -gt 0", (char *)NULL);
        _exit(127);
    }
    return waitpid(pid, &status, 0) != pid || status;
}

static void programs_run_under_every_profile(void **s)
{
    (void)s;
    in_children(work);
}

static int level1(int network)
{
    int fd[2], udp = -1;
    if (cay__seccomp_level1(network) < 0)
        return 97;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
        return 1;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, fd) == 0 || errno != EPERM)
        return 2;
    if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM)
        return 3;
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    if (network ? udp < 0 : udp >= 0)
        return 4;
    return expect("shmget", SYS_shmget, EPERM) || work(0);
}

static int level1_alone(int profile)
{
    (void)profile;
    return level1(0);
}

static int level1_online(int profile)
{
    (void)profile;
    return level1(1);
}

static void level_one_is_cut_off_from_host_sockets(void **s)
{
    (void)s;
    in_children(level1_alone);
    in_children(level1_online);
}

static int timing(int profile)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    int rc = cay__seccomp_install(profile);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("# %s: installed in %ld us\n", filters[profile].name,
           (b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000);
    fflush(stdout);
    return rc != 0;
}

static void filters_stack(void **s)
{
    (void)s;
    fflush(stdout);
    in_children(timing);
    assert_int_equal(cay__seccomp_install(3), -EINVAL);
    assert_int_equal(cay__seccomp_install(-1), -EINVAL);
}

/* A child that ends at once, or the errno; the size and flags are right, so only the filter can
 * refuse. */
static int cloned(uint64_t k0, uint64_t k1, uint64_t k2, uint64_t k3)
{
    struct clone_args a = { .exit_signal = SIGCHLD };
    long pid = syscall(SYS_clone3, &a, sizeof a, k0, k1, k2, k3);
    if (pid == 0)
        _exit(0);
    return pid < 0 ? errno : waitpid((pid_t)pid, NULL, 0) == pid ? 0 : -1;
}

static int keyed(int profile)
{
    static const uint64_t key[CAY_CLONE_KEY] = { 0x1111111122222222, 0x3333333344444444,
                                                 0x5555555566666666, 0x7777777788888888 };
    (void)profile;
    if (cay__seccomp_install_keyed(key) < 0 || cloned(key[0], key[1], key[2], key[3]))
        return 1;
    for (int word = 0; word < 8; word++) { /* every half of every register counts */
        uint64_t k[CAY_CLONE_KEY];
        memcpy(k, key, sizeof k);
        k[word / 2] ^= 1ull << (word % 2 * 32);
        if (cloned(k[0], k[1], k[2], k[3]) != ENOSYS)
            return 2 + word;
    }
    return cloned(0, 0, 0, 0) != ENOSYS || expect("setns", SYS_setns, EPERM);
}

static void clone3_opens_to_the_key_alone(void **s)
{
    (void)s;
    pid_t pid = fork();
    int status;
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? 99 : keyed(0));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clone3_opens_to_the_key_alone),
        cmocka_unit_test(every_number_gets_its_row),
        cmocka_unit_test(foreign_numbers_do_not_exist),
        cmocka_unit_test(argument_rules_see_what_the_kernel_sees),
        cmocka_unit_test(every_rule_has_vectors),
        cmocka_unit_test(names_and_numbers_are_those_of_libseccomp),
        cmocka_unit_test(default_stays_small),
        cmocka_unit_test(strict_allows_nothing_that_default_refuses),
        cmocka_unit_test(the_kernel_refuses_every_denied_call),
        cmocka_unit_test(only_four_socket_families_open),
        cmocka_unit_test(the_kernel_refuses_by_arguments),
#ifdef __x86_64__
        cmocka_unit_test(the_kernel_knows_no_foreign_entry),
#endif
        cmocka_unit_test(programs_run_under_every_profile),
        cmocka_unit_test(level_one_is_cut_off_from_host_sockets),
        cmocka_unit_test(filters_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
