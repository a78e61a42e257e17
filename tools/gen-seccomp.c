/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen-seccomp - turns the rows of src/daemon/init/seccomp_table.def into
 *
 *   gen-seccomp filter [MUTANT]   the C header of filters that seccomp.c installs
 *   gen-seccomp docs              docs/seccomp.md
 *   gen-seccomp mutants           the names of the mutants, one a line
 *
 * Installing a filter costs time by its length, because the kernel runs it for every number and
 * compiles it. So the numbers are first joined to ranges of one answer, and single exceptions
 * inside a range become one comparison, before a tree is made of them.
 *
 * Programs are built from their end: every jump of BPF goes forwards, so a target is known when a
 * jump to it is made. A label is the distance of an instruction from the end.
 */
#include <daemon/init/seccomp_table.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#if defined __x86_64__
#define ARCH      AUDIT_ARCH_X86_64
#define ARCH_NAME "x86_64"
#elif defined __aarch64__
#define ARCH      AUDIT_ARCH_AARCH64
#define ARCH_NAME "aarch64"
#else
#error "no system call table for this architecture"
#endif

#define LEN(a) (sizeof(a) / sizeof *(a))
enum { MAX_INS = 2048, MAX_EX = 6 };

/*
 * Mutants take one defence away so that attack cases can be seen to turn red: -Dmutant=NAME at
 * configuration, never in a build that is used.
 *
 *   seccomp-off       every number of every architecture passes
 *   seccomp-iouring   io_uring passes                 seccomp-keyctl    the key calls pass
 *   seccomp-mount     the mount calls pass            seccomp-clone     clone and unshare may make
 * namespaces seccomp-socket    any family, type and protocol   seccomp-tiocsti   every ioctl passes
 *   seccomp-ulp       TCP_ULP passes                  seccomp-prctl     PR_SET_MM and strict mode
 * pass seccomp-modules   bpf, perf, modules, kexec …     seccomp-handle    files opened by handle
 *   seccomp-clock     clocks can be set               seccomp-strict    strict allows what default
 * does seccomp-abi       numbers of another architecture are looked up as if native seccomp-level1
 * the second filter of level 1 passes everything
 */
static const struct mutant {
    const char *name;
    const char *calls[16]; /* these become ALLOW in every profile */
} mutants[] = {
    { "seccomp-off", { NULL } },
    { "seccomp-abi", { NULL } },
    { "seccomp-strict", { NULL } },
    { "seccomp-level1", { NULL } },
    { "seccomp-iouring", { "io_uring_setup", "io_uring_enter", "io_uring_register" } },
    { "seccomp-keyctl", { "keyctl", "add_key", "request_key" } },
    { "seccomp-mount",
      { "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick",
        "open_tree", "open_tree_attr", "move_mount", "mount_setattr", "swapon" } },
    { "seccomp-clone", { "clone", "clone3", "unshare", "setns" } },
    { "seccomp-socket", { "socket", "socketpair" } },
    { "seccomp-tiocsti", { "ioctl" } },
    { "seccomp-ulp", { "setsockopt" } },
    { "seccomp-prctl", { "prctl", "seccomp", "personality" } },
    { "seccomp-modules",
      { "bpf", "perf_event_open", "userfaultfd", "init_module", "finit_module", "delete_module",
        "kexec_load", "kexec_file_load", "syslog", "reboot", "acct", "quotactl" } },
    { "seccomp-core", { "setrlimit", "prlimit64" } },
    { "seccomp-handle", { "open_by_handle_at", "name_to_handle_at" } },
    { "seccomp-clock", { "settimeofday", "clock_settime", "clock_adjtime", "adjtimex" } },
};

typedef unsigned label;

typedef struct prog {
    struct sock_filter ins[MAX_INS]; /* filled from the end */
    unsigned n;
    label to[CAY__SYS_ACTS]; /* where each answer or rule begins */
    label nosupport, noproto, nothing;
    struct {
        label to, at;
    } hop[64]; /* the latest stepping stone towards a target that is far away */
    unsigned hops;
} prog;

static label emit(prog *p, unsigned code, unsigned jt, unsigned jf, uint32_t k)
{
    if (p->n == MAX_INS || jt > 255 || jf > 255) {
        fprintf(stderr, "gen-seccomp: the filter does not fit\n");
        exit(1);
    }
    p->ins[MAX_INS - 1 - p->n] =
        (struct sock_filter){ (uint16_t)code, (uint8_t)jt, (uint8_t)jf, k };
    return ++p->n;
}

static label ret(prog *p, uint32_t answer)
{
    return emit(p, BPF_RET | BPF_K, 0, 0, answer);
}

/* A conditional jump reaches 255 instructions; further away needs a copy of the RET, or a long
 * jump. */
static label near(prog *p, label to)
{
    if (p->n - to < 250)
        return to;
    for (unsigned i = p->hops; i-- > 0;)
        if (p->hop[i].to == to && p->n - p->hop[i].at < 250)
            return p->hop[i].at;
    struct sock_filter f = p->ins[MAX_INS - to];
    label at =
        f.code == (BPF_RET | BPF_K) ? ret(p, f.k) : emit(p, BPF_JMP | BPF_JA, 0, 0, p->n - to);
    if (p->hops < LEN(p->hop)) {
        p->hop[p->hops].to = to;
        p->hop[p->hops++].at = at;
    }
    return at;
}

static label when(prog *p, unsigned test, uint32_t k, label yes, label no)
{
    yes = near(p, yes);
    no = near(p, no);
    return emit(p, BPF_JMP | test | BPF_K, p->n - yes, p->n - no, k);
}

/* Straight-line instructions run into the one made before. */
static label then(prog *p, unsigned code, uint32_t k, label next)
{
    if (next != p->n)
        emit(p, BPF_JMP | BPF_JA, 0, 0, p->n - next);
    return emit(p, code, 0, 0, k);
}

static label load(prog *p, size_t offset, label next)
{
    return then(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, next);
}

/* Both architectures are little-endian. */
static label load_low(prog *p, unsigned arg, label next)
{
    return load(p, offsetof(struct seccomp_data, args) + 8 * arg, next);
}

static label load_high(prog *p, unsigned arg, label next)
{
    return load(p, offsetof(struct seccomp_data, args) + 8 * arg + 4, next);
}

/* The loaded word against a list: `hit` when it is there, else `miss`. */
static label among(prog *p, const uint32_t *list, size_t n, label hit, label miss)
{
    label l = miss;
    while (n-- > 0)
        l = when(p, BPF_JEQ, list[n], hit, l);
    return l;
}

#define AMONG(p, hit, miss, ...)                                                                   \
    among(p, (const uint32_t[]){ __VA_ARGS__ }, LEN(((const uint32_t[]){ __VA_ARGS__ })), hit, miss)

/* The kernel takes ioctl's request as 32 bits: high bits must not hide it. */
static label rule_ioctl(prog *p)
{
    return load_low(p, 1,
                    AMONG(p, p->to[CAY__SYS_EPERM], p->to[CAY__SYS_ALLOW], TIOCSTI, TIOCLINUX,
                          TIOCCONS, TIOCSETD));
}

/* clone(2) uses the low half of its flags. CLONE_NEWTIME (0x80) is part of the exit signal here. */
static label rule_clone(prog *p)
{
    const uint32_t ns = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                        CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    return load_low(p, 0, when(p, BPF_JSET, ns, p->to[CAY__SYS_EPERM], p->to[CAY__SYS_ALLOW]));
}

/* unshare(2) grows flags, so this names the harmless ones, and takes all 64 bits. */
static label rule_unshare(prog *p)
{
    const uint32_t ok =
        CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
    label low = when(p, BPF_JSET, ~ok, p->to[CAY__SYS_EPERM], p->to[CAY__SYS_ALLOW]);
    low = load_low(p, 0, low);
    return load_high(p, 0, when(p, BPF_JEQ, 0, low, p->to[CAY__SYS_EPERM]));
}

static label rule_prctl(prog *p)
{
    label mode =
        when(p, BPF_JEQ, SECCOMP_MODE_STRICT, p->to[CAY__SYS_EPERM], p->to[CAY__SYS_ALLOW]);
    mode = load_low(p, 1, mode);
    label l = when(p, BPF_JEQ, PR_SET_SECCOMP, mode, p->to[CAY__SYS_ALLOW]);
    return load_low(p, 0, when(p, BPF_JEQ, PR_SET_MM, p->to[CAY__SYS_EPERM], l));
}

static label rule_personality(prog *p)
{
    return load_low(p, 0, AMONG(p, p->to[CAY__SYS_ALLOW], p->to[CAY__SYS_EPERM], 0, 8, 0xffffffff));
}

static label rule_seccomp(prog *p)
{
    return load_low(
        p, 0,
        when(p, BPF_JEQ, SECCOMP_SET_MODE_STRICT, p->to[CAY__SYS_EPERM], p->to[CAY__SYS_ALLOW]));
}

/* The kernel's SOCK_TYPE_MASK; the bits above are flags. */
static label load_type(prog *p, label next)
{
    return load_low(p, 1, then(p, BPF_ALU | BPF_AND | BPF_K, 0xf, next));
}

/* For INET the types are named, not the raw ones excluded: protocol 0 with another type finds or
 * loads whatever protocol claims it (DCCP does), and SOCK_PACKET turns into a packet socket. MPTCP
 * and UDP-Lite would open, too; clients take EPROTONOSUPPORT as the sign to use TCP. */
static label rule_socket(prog *p)
{
    label yes = p->to[CAY__SYS_ALLOW], no = p->to[CAY__SYS_EPERM];
    label proto = load_low(p, 2, AMONG(p, yes, p->noproto, 0, IPPROTO_TCP, IPPROTO_UDP));
    label in = load_type(p, AMONG(p, proto, no, SOCK_STREAM, SOCK_DGRAM));
    label un = load_type(p, AMONG(p, no, yes, SOCK_RAW, SOCK_PACKET));
    label nl = load_low(p, 2, when(p, BPF_JEQ, NETLINK_ROUTE, yes, p->nosupport));
    label l = when(p, BPF_JEQ, AF_NETLINK, nl, p->nosupport);
    l = when(p, BPF_JEQ, AF_UNIX, un, l);
    return load_low(p, 0, AMONG(p, in, l, AF_INET, AF_INET6));
}

static label rule_socketpair(prog *p)
{
    return load_low(p, 0, when(p, BPF_JEQ, AF_UNIX, p->to[CAY__SYS_ALLOW], p->nosupport));
}

static label rule_setsockopt(prog *p)
{
    label name = when(p, BPF_JEQ, TCP_ULP, p->to[CAY__SYS_EPERM], p->to[CAY__SYS_ALLOW]);
    name = load_low(p, 2, name);
    return load_low(p, 1, when(p, BPF_JEQ, IPPROTO_TCP, name, p->to[CAY__SYS_ALLOW]));
}

/* A core_pattern that begins with a bar starts a program of the host's, as its root and outside
 * every namespace, with a tenant's memory as its input; core(5) spares only who has a limit of 1.
 * Programs that guard their secrets set 0 and end when they cannot, so that they are told yes. */
static label rule_setrlimit(prog *p)
{
    return load_low(p, 0, when(p, BPF_JEQ, RLIMIT_CORE, p->nothing, p->to[CAY__SYS_ALLOW]));
}

static label rule_prlimit(prog *p)
{
    label yes = p->to[CAY__SYS_ALLOW], no = p->to[CAY__SYS_EPERM];
    label old = load_high(p, 3, when(p, BPF_JEQ, 0, p->nothing, no));
    old = load_low(p, 3, when(p, BPF_JEQ, 0, old, no));
    label new = load_high(p, 2, when(p, BPF_JEQ, 0, yes, old));
    new = load_low(p, 2, when(p, BPF_JEQ, 0, new, old));
    return load_low(p, 1, when(p, BPF_JEQ, RLIMIT_CORE, new, yes));
}

static label rule_level1_socket(prog *p, bool network)
{
    label no = p->to[CAY__SYS_EPERM];
    if (!network)
        return no;
    return load_low(p, 0, AMONG(p, p->to[CAY__SYS_ALLOW], no, AF_INET, AF_INET6, AF_NETLINK));
}

static label rule_level1_socketpair(prog *p)
{
    return load_type(
        p, AMONG(p, p->to[CAY__SYS_ALLOW], p->to[CAY__SYS_EPERM], SOCK_STREAM, SOCK_SEQPACKET));
}

static label rule_level1_prlimit(prog *p)
{
    return load_low(p, 0, when(p, BPF_JEQ, 0, p->to[CAY__SYS_ALLOW], p->to[CAY__SYS_EPERM]));
}

static void answers(prog *p)
{
    p->nothing = ret(p, SECCOMP_RET_ERRNO); /* not done, and told as done */
    p->noproto = ret(p, SECCOMP_RET_ERRNO | EPROTONOSUPPORT);
    p->nosupport = ret(p, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
    p->to[CAY__SYS_ENOSYS] = ret(p, SECCOMP_RET_ERRNO | ENOSYS);
    p->to[CAY__SYS_EPERM] = ret(p, SECCOMP_RET_ERRNO | EPERM);
    p->to[CAY__SYS_ALLOW] = ret(p, SECCOMP_RET_ALLOW);
}

static void rules(prog *p)
{
    static label (*const make[CAY__SYS_ACTS])(prog *) = {
        [CAY__SYS_R_IOCTL] = rule_ioctl,
        [CAY__SYS_R_CLONE] = rule_clone,
        [CAY__SYS_R_UNSHARE] = rule_unshare,
        [CAY__SYS_R_PRCTL] = rule_prctl,
        [CAY__SYS_R_PERSONALITY] = rule_personality,
        [CAY__SYS_R_SECCOMP] = rule_seccomp,
        [CAY__SYS_R_SOCKET] = rule_socket,
        [CAY__SYS_R_SOCKETPAIR] = rule_socketpair,
        [CAY__SYS_R_SETSOCKOPT] = rule_setsockopt,
        [CAY__SYS_R_SETRLIMIT] = rule_setrlimit,
        [CAY__SYS_R_PRLIMIT] = rule_prlimit,
    };
    for (unsigned i = 0; i < CAY__SYS_ACTS; i++)
        if (make[i])
            p->to[i] = make[i](p);
}

/* A leaf of the tree: every number from `first` to the next leaf gets `act`, but for the
 * exceptions. */
typedef struct leaf {
    uint32_t first;
    uint8_t act;
    unsigned nex;
    struct {
        uint32_t nr;
        uint8_t act;
    } ex[MAX_EX];
} leaf;

static size_t leaves_of(const uint8_t act[CAY__SYS_MAX + 1], leaf *out)
{
    size_t n = 0;
    for (uint32_t nr = 0; nr <= CAY__SYS_MAX;) {
        leaf l = { .first = nr, .act = act[nr] };
        while (nr <= CAY__SYS_MAX && act[nr] == l.act) {
            nr++;
            if (nr < CAY__SYS_MAX && act[nr] != l.act && act[nr + 1] == l.act && l.nex < MAX_EX) {
                l.ex[l.nex].nr = nr;
                l.ex[l.nex++].act = act[nr];
                nr++;
            }
        }
        out[n++] = l;
    }
    return n;
}

static label tree(prog *p, const leaf *l, size_t n)
{
    if (n == 1) {
        label at = p->to[l->act];
        for (unsigned i = 0; i < l->nex; i++)
            at = when(p, BPF_JEQ, l->ex[i].nr, p->to[l->ex[i].act], at);
        return at;
    }
    label right = tree(p, l + n / 2, n - n / 2);
    label left = tree(p, l, n / 2);
    return when(p, BPF_JGE, l[n / 2].first, right, left);
}

/* The same number means another call on another architecture, so that is asked first. */
static void entry(prog *p, label body, bool foreign_is_native)
{
    label nr = load(p, offsetof(struct seccomp_data, nr), body);
    label foreign = foreign_is_native ? nr : p->to[CAY__SYS_ENOSYS];
    load(p, offsetof(struct seccomp_data, arch), when(p, BPF_JEQ, ARCH, nr, foreign));
}

static bool is(const struct mutant *mut, const char *name)
{
    return mut && !strcmp(mut->name, name);
}

static void build_profile(prog *p, int column, const struct mutant *mut)
{
    static uint8_t act[CAY__SYS_MAX + 1];
    static leaf leaves[CAY__SYS_MAX + 1];
    bool off = is(mut, "seccomp-off");
    if (is(mut, "seccomp-strict"))
        column = 0;

    memset(act, off ? CAY__SYS_ALLOW : CAY__SYS_ENOSYS, sizeof act);
    for (int i = 0; i < CAY__SYS_ROWS && !off; i++)
        if (cay__sysrows[i].name)
            act[cay__sysrows[i].nr] = cay__sysrows[i].act[column];
    for (int i = 0; i < CAY__SYS_ROWS && mut; i++)
        for (const char *const *c = mut->calls; *c && cay__sysrows[i].name; c++)
            if (!strcmp(*c, cay__sysrows[i].name))
                act[cay__sysrows[i].nr] = CAY__SYS_ALLOW;

    answers(p);
    rules(p);
    entry(p, tree(p, leaves, leaves_of(act, leaves)), off || is(mut, "seccomp-abi"));
}

/* Stacked on a profile, which has refused foreign architectures already. */
static void build_level1(prog *p, bool network, const struct mutant *mut)
{
    if (is(mut, "seccomp-off") || is(mut, "seccomp-level1")) {
        ret(p, SECCOMP_RET_ALLOW);
        return;
    }
    answers(p);
    p->to[CAY__SYS_R_L1_SOCKET] = rule_level1_socket(p, network);
    p->to[CAY__SYS_R_L1_SOCKETPAIR] = rule_level1_socketpair(p);
    p->to[CAY__SYS_R_L1_PRLIMIT] = rule_level1_prlimit(p);
    label l = p->to[CAY__SYS_ALLOW];
    for (int i = CAY__SYS_LEVEL1; i-- > 0;)
        l = when(p, BPF_JEQ, (uint32_t)cay__sysrows_level1[i].nr,
                 p->to[cay__sysrows_level1[i].act[0]], l);
    entry(p, l, false);
}

static void print_filter(const char *name, const prog *p)
{
    printf("static const struct sock_filter cay__filter_%s[%u] = {\n", name, p->n);
    for (unsigned i = MAX_INS - p->n; i < MAX_INS; i++)
        printf("    { 0x%02x, %u, %u, 0x%x },\n", p->ins[i].code, p->ins[i].jt, p->ins[i].jf,
               p->ins[i].k);
    printf("};\n");
}

static void print_header(const struct mutant *mut)
{
    static const char *const names[] = { "default", "strict", "nested" };
    printf("/* SPDX-License-Identifier: Apache-2.0 */\n"
           "/* Made by tools/gen-seccomp.c from src/daemon/init/seccomp_table.def%s%s. */\n"
           "#ifndef __%s__\n#error \"this filter is for %s\"\n#endif\n",
           mut ? ", weakened by mutant " : "", mut ? mut->name : "", ARCH_NAME, ARCH_NAME);
    for (int i = 0; i < CAY__SYS_PROFILES; i++) {
        prog p = { .n = 0 };
        build_profile(&p, i, mut);
        print_filter(names[i], &p);
    }
    for (int network = 0; network < 2; network++) {
        prog p = { .n = 0 };
        build_level1(&p, network, mut);
        print_filter(network ? "level1_network" : "level1", &p);
    }
}

static bool is_plain(const cay__sysrow *r)
{
    return r->act[0] == CAY__SYS_ALLOW && r->act[1] == CAY__SYS_ALLOW &&
           r->act[2] == CAY__SYS_ALLOW && !r->why[0];
}

static const char *word(unsigned act)
{
    return act == CAY__SYS_ALLOW    ? "allowed"
           : act == CAY__SYS_EPERM  ? "EPERM"
           : act == CAY__SYS_ENOSYS ? "ENOSYS"
                                    : "by arguments";
}

static void print_group(const cay__sysrow *g, const cay__sysrow *end)
{
    int plain = 0;
    bool head = false;
    printf("\n## %s\n\n%s\n", g->why[0], g->why[1]);
    for (const cay__sysrow *r = g + 1; r < end; r++)
        if (is_plain(r))
            printf("%s`%s`", plain++ ? ", " : "\nAllowed in every profile: ", r->name);
    printf(plain ? ".\n" : "");
    for (const cay__sysrow *r = g + 1; r < end; r++) {
        if (is_plain(r))
            continue;
        if (!head)
            printf("\n| call | default | strict | nested | why |\n|---|---|---|---|---|\n");
        head = true;
        printf("| `%s` | %s | %s | %s | %s |\n", r->name, word(r->act[0]), word(r->act[1]),
               word(r->act[2]), r->why[0] ? r->why[0] : "");
    }
}

static int allowed(int column)
{
    int n = 0;
    for (int i = 0; i < CAY__SYS_ROWS; i++)
        n += cay__sysrows[i].name && cay__sysrows[i].act[column] != CAY__SYS_EPERM &&
             cay__sysrows[i].act[column] != CAY__SYS_ENOSYS;
    return n;
}

static void print_docs(void)
{
    printf(
        "# System calls a sandbox may make\n\n"
        "<!-- Made by `tools/gen-seccomp.c` from `src/daemon/init/seccomp_table.def`: change the "
        "table, then\n"
        "     `ninja -C build seccomp-docs`. -->\n\n"
        "Every process of a native sandbox, its init included, runs under one seccomp filter. "
        "It is a list of what\n"
        "is allowed. A call that is refused gets the error below and the process lives on; a "
        "number that is not\n"
        "listed, and every call of another architecture (32-bit and x32 entries too), gets "
        "ENOSYS.\n\n"
        "| profile | calls | for |\n|---|---|---|\n"
        "| default | %d | ordinary sandboxes; debuggers work |\n"
        "| strict | %d | no process may look into another |\n"
        "| nested | %d | an inner container engine; the operator opts in, level 3 only |\n\n"
        "*by arguments*: allowed, except as the last column says. A program that brings its own "
        "namespace sandbox (a\n"
        "browser) runs with it switched off, or in `nested`.\n",
        allowed(0), allowed(1), allowed(2));
    for (int i = 0; i < CAY__SYS_ROWS;) {
        int end = i + 1;
        while (end < CAY__SYS_ROWS && cay__sysrows[end].name)
            end++;
        print_group(&cay__sysrows[i], &cay__sysrows[end]);
        i = end;
    }
    printf("\n## Level 1\n\nWithout namespaces the host's sockets and IPC are in reach, so level 1 "
           "stacks a second filter on the profile.\n\n"
           "| call | level 1 | why |\n|---|---|---|\n");
    for (int i = 0; i < CAY__SYS_LEVEL1; i++)
        printf("| `%s` | %s | %s |\n", cay__sysrows_level1[i].name,
               word(cay__sysrows_level1[i].act[0]), cay__sysrows_level1[i].why[0]);
}

static void print_mutants(FILE *to)
{
    for (size_t i = 0; i < LEN(mutants); i++)
        fprintf(to, "%s\n", mutants[i].name);
}

/* Mutants of other parts are none of ours; a misspelt one of ours would test nothing. */
static const struct mutant *find_mutant(const char *name)
{
    if (strncmp(name, "seccomp-", 8) != 0 || !strcmp(name, "seccomp-none")) /* init installs none */
        return NULL;
    for (size_t i = 0; i < LEN(mutants); i++)
        if (!strcmp(mutants[i].name, name))
            return &mutants[i];
    fprintf(stderr, "gen-seccomp: no mutant %s; there are:\n", name);
    print_mutants(stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "docs"))
        print_docs();
    else if (argc == 2 && !strcmp(argv[1], "mutants"))
        print_mutants(stdout);
    else if ((argc == 2 || argc == 3) && !strcmp(argv[1], "filter"))
        print_header(argc == 3 ? find_mutant(argv[2]) : NULL);
    else {
        fprintf(stderr, "usage: gen-seccomp filter [MUTANT] | docs | mutants\n");
        return 2;
    }
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
