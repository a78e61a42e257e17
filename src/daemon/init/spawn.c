/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command: vfork-style, so that its cost is a bare spawn's. Everything is looked up and laid
 * out before the clone; the child only makes system calls. The filter, no_new_privs and Landlock
 * are inherited from init.
 */
#include "init.h"
#include <proto/landlock.h>
#include "plan.h"
#include "session.h"
#include <base/mutant.h>
#include <base/sanitize.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>

#define CHILD_STACK 32768
#define FEW         512 /* strings that need no memory of their own */

/* All five capability sets empty, or the root profile's; raw calls: libc's wrappers would signal
 * other threads. */
void drop_to(const ident *id, bool root_profile)
{
    struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct none[2] = { { 0 } };
    root_profile |= CAY__MUTANT("caps");
    for (unsigned c = 0; !root_profile && c < 16; c++)
        if (KEEP_CAPS >> c & 1)
            prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
    if (init.mode != CAY_MODE_SINGLE) {
        gid_t g = id->gid, all[1 + sizeof id->groups / sizeof *id->groups] = { g };
        memcpy(all + 1, id->groups, id->ngroups * sizeof *all);
        if (syscall(SYS_setgroups, 1 + id->ngroups, all) < 0 ||
            syscall(SYS_setresgid, g, g, g) < 0 ||
            syscall(SYS_setresuid, id->uid, id->uid, id->uid) < 0)
            _exit(126);
        prctl(PR_SET_DUMPABLE,
              CAY__MUTANT("dumpable")); /* another uid set it to what fs.suid_dumpable says, and the
                                           memory is still init's */
    }
    if (!root_profile && syscall(SYS_capset, &h, none) < 0)
        _exit(126);
}

static void exit_with_error(plan *p, const char *step)
{
    p->sys = CAY_OR(errno, EIO);
    p->step = step;
    _exit(127);
}

static void set_up_stdio(plan *p)
{
    if (p->slave >= 0) {
        if (ioctl(p->slave, TIOCSCTTY, 0) < 0)
            exit_with_error(p, "terminal");
        CAY_EACH_OF(it, p->io, 3) {
            if (*it < 0)
                *it = p->slave;
        }
    }
    for (int i = 0; i < 3; i++)
        if (p->io[i] >= 0 && p->io[i] < 3 && p->io[i] != i)
            exit_with_error(
                p,
                "descriptors"); /* init never holds 0–2, so a move cannot overwrite a later one */
    if (p->io[0] < 0)
        p->io[0] = open("/dev/null", O_RDONLY);
    if (p->io[0] < 0)
        exit_with_error(p, "/dev/null");
    for (int i = 0; i < 3; i++)
        if (p->io[i] != i && dup2(p->io[i], i) < 0)
            exit_with_error(p, "descriptors");
    for (int fd = 3; CAY__MUTANT("close-fds") && fd < 64; fd++)
        fcntl(fd, F_SETFD, 0);
    if (!CAY__MUTANT("close-fds"))
        syscall(SYS_close_range, 3u, ~0u, 0);
}

static void exec_command(plan *p)
{
    const char *a0 = p->argv[0];
    char file[512];
    int seen = ENOENT;
    if (strchr(a0, '/')) {
        execve(a0, p->argv, p->envp);
        exit_with_error(p, "exec");
    }
    for (const char *s = p->path; *s;) {
        size_t n = strcspn(s, ":");
        if (n && n + strlen(a0) + 2 < sizeof file) {
            memcpy(file, s, n);
            file[n] = '/';
            memcpy(file + n + 1, a0, strlen(a0) + 1);
            execve(file, p->argv, p->envp);
            if (errno != ENOENT && errno != ENOTDIR)
                seen = errno;
        }
        s += n + (s[n] == ':');
    }
    errno = seen;
    exit_with_error(p, "exec");
}

static int child_main(void *arg)
{
    plan *p = arg;
    bool root = p->id.uid == 0;

    if (p->group >= 0 && write(p->group, "0", 1) != 1)
        exit_with_error(p, "group");
    if (setsid() < 0)
        exit_with_error(p, "session");
    set_up_stdio(p);
    umask(022);
    /* From here on the tenant may signal us, and a stopped child holds init up: as little as can be
     * comes after it. */
    drop_to(&p->id, root);
    if (chdir(p->cwd) < 0)
        exit_with_error(p, "cwd");
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && init.nofile < lim.rlim_cur &&
        !CAY__MUTANT("nofile")) {
        lim.rlim_cur = init.nofile;
        setrlimit(RLIMIT_NOFILE, &lim);
    }
    if (CAY__SANITIZED && init.data != UINT64_MAX)
        setrlimit(RLIMIT_DATA, &(struct rlimit){ init.data, init.data });
    if (p->fence) { /* the tenant's own rights made smaller, in the tenant's own name: it needs none
                       to do so */
        int rc = cay__landlock_fence(p->fence, p->nfence);
        errno = -rc;
        if (rc < 0)
            exit_with_error(p, "fence");
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    exec_command(p);
    return 127;
}

/* clone3(2) with init's key in the registers that the call leaves alone; the child goes to fn on
 * the stack of a. */
static long clone3_keyed(struct clone_args *a, int (*fn)(void *), void *arg)
{
#if defined(__x86_64__)
    register uint64_t k1 __asm__("r10") = init.key[1], k2 __asm__("r8") = init.key[2],
                         k3 __asm__("r9") = init.key[3];
    register void *given __asm__("r12") = arg;
    long rc;
    __asm__ volatile("syscall\n\ttest %%eax, %%eax\n\tjnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\tmov %%r12, %%rdi\n\tcall *%%rbx\n\tud2\n1:"
                     : "=a"(rc)
                     : "a"((long)SYS_clone3), "D"(a), "S"(sizeof *a), "d"(init.key[0]), "r"(k1),
                       "r"(k2), "r"(k3), "b"(fn), "r"(given)
                     : "rcx", "r11", "memory");
    if (rc < 0)
        errno = (int)-rc;
    else
        errno = 0;
    if (rc < 0)
        return -1;
    return rc;
#else
    errno = ENOSYS;
    return -1;
#endif
}

/* A process that moves into a group waits for every CPU to pass a quiescent state, some ten
 * milliseconds on a machine that rests; one that is born there does not. */
static int born_into(plan *p, char *stack)
{
    struct clone_args a = { .flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP,
                            .exit_signal = SIGCHLD,
                            .cgroup = (uint64_t)p->into,
                            .stack = (uint64_t)(uintptr_t)stack,
                            .stack_size = CHILD_STACK };
    int move = p->group;
    p->group = -1;
    int pid = (int)clone3_keyed(&a, child_main, p);
    if (pid < 0) { /* full, or a group that ends at its namespace: it moves there by itself */
        init.no_into = errno != EAGAIN;
        p->group = move;
    }
    return pid;
}

static int spawn_child(plan *p)
{
    if (!init.stack) { /* kept: an idle init that never started anything has none */
        char *stack = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (stack == MAP_FAILED)
            return -1;
        init.stack = stack;
    }
    int pid = -1;
    if (p->into >= 0 && !init.no_into)
        pid = born_into(p, init.stack);
    if (pid < 0)
        pid = clone(child_main, init.stack + CHILD_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, p);
    int e = errno;
    CAY__STACK_USED(init.stack, CHILD_STACK);
    errno = e;
    return pid;
}

static _Noreturn void shim_main(plan *p, int slot, int report)
{
    int32_t head[2] = { 0, 0 };
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    head[0] = spawn_child(p);
    head[1] = CAY_OR(p->sys, head[0] < 0 ? errno : 0);
    cay__fd_write_all(report, head, sizeof head);
    cay__fd_close_from(0); /* holds no stream open, and nothing of init's */
    memset(init.key, 0, sizeof init.key);
    if (head[1])
        _exit(127);
    for (;;) {
        int status, pid = (int)waitpid(-1, &status, 0);
        if (pid == head[0]) {
            init.shims[slot] = status + 1;
            kill(1, SIGUSR1);
        } else if (pid < 0 && errno == ECHILD) {
            _exit(0);
        }
    }
}

/* What it started may be of the same user and stop it before it has told; it may not hold us up for
 * long. */
static bool shim_told(int shim, int fd, int32_t head[2])
{
    struct pollfd p = { fd, POLLIN, 0 };
    for (int stops = 0, status; poll(&p, 1, 10) <= 0;)
        if (waitpid(shim, &status, WUNTRACED | WNOHANG) == shim && WIFSTOPPED(status))
            kill(shim, ++stops > 20 ? SIGKILL : SIGCONT);
    return cay__fd_read_all(fd, head, 2 * sizeof *head) == 2 * sizeof *head;
}

static int shim_spawn(plan *p)
{
    int fds[2], slot = (int)(p->g - init.procs);
    int32_t head[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    init.shims[slot] = 0;
    int shim = (int)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (shim == 0)
        shim_main(p, slot, fds[1]);
    close(fds[1]);
    bool told = shim > 0 && shim_told(shim, fds[0], head);
    close(fds[0]);
    if (!told) {
        /* Killed by the very command it started: that one must not run on unrecorded. It is our
         * child once the sub-reaper is reaped. */
        if (shim > 0)
            waitpid(shim, NULL, 0);
        for (int i = 0; tree_strays(SIGKILL) && i < 100; i++)
            reap();
        errno = EAGAIN;
        return -1;
    }
    if (head[1]) {
        p->sys = head[1];
        if (!p->step)
            p->step = "exec";
        return head[0];
    }
    p->g->shim = shim;
    return head[0];
}

/* Our own devpts instance: nothing of it exists outside. */
static int open_pty(const cay_g_spawn *m, int *slave)
{
    int unlock = 0;
    CAY_AUTOFD master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return -1;
    *slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*slave < 0)
        return -1;
    struct winsize ws = { .ws_row = CAY_OR(m->rows, 24), .ws_col = CAY_OR(m->cols, 80) };
    ioctl(*slave, TIOCSWINSZ, &ws);
    return CAY_STEAL_FD(master);
}

static void sort_fds(const cay_g_spawn *m, plan *p, gproc *g, int *fds, int nfds)
{
    static const uint32_t child_bits[] = { CAY_GS_IN, CAY_GS_OUT, CAY_GS_ERR };
    static const uint32_t hold_bits[] = { CAY_GS_HOLD_IN, CAY_GS_HOLD_OUT, CAY_GS_HOLD_ERR };
    int at = 0;
    for (int i = 0; i < 3; i++) {
        if ((m->flags & child_bits[i]) && at < nfds)
            p->io[i] = fds[at++];
        else
            p->io[i] = -1;
    }
    for (int i = 0; i < 3; i++)
        if ((m->flags & hold_bits[i]) && at < nfds) {
            if (CAY__MUTANT("hold-fds"))
                g->fds[i] = -1;
            else
                g->fds[i] = fds[at];
            if (!CAY__MUTANT("hold-fds"))
                fds[at] = -1; /* stays open */
            at++;
        }
    if ((m->flags & CAY_GS_GROUP) && at < nfds)
        p->group = fds[at++];
    if ((m->flags & CAY_GS_INTO) && at < nfds)
        p->into = fds[at];
}

static int spawn_command(plan *p, int *master, const char **step)
{
    int pid;
    if (p->m->flags & CAY_SPAWN_TTY) {
        *step = "terminal";
        *master = open_pty(p->m, &p->slave);
        if (*master < 0)
            return -1;
        /* The slave belongs to the user, as login would make it. */
        if (fchown(p->slave, p->id.uid, (gid_t)-1) < 0 && errno != EPERM && errno != EINVAL)
            return -1;
    }
    *step = "exec";
    if (p->m->flags & CAY_GS_REAPER)
        pid = shim_spawn(p);
    else
        pid = spawn_child(p);
    cay__close_fd(&p->slave);
    return pid;
}

/* *len: of the tail; then of the blob, and what is behind it in the tail are the labels. */
static const char *blob_of(const cay_g_spawn *m, const char *tail, size_t *len, int *fds, int *nfds,
                           char **map)
{
    *map = NULL;
    if (!(m->flags & CAY_SPAWN_BLOB_FD)) {
        if (*len < m->blob)
            return NULL;
        *len = m->blob;
        return tail;
    }
    struct stat st;
    if (*nfds < 1 || fstat(fds[*nfds - 1], &st) < 0 || st.st_size < m->blob ||
        m->blob > CAY_BLOB_MAX)
        return NULL;
    *map = mmap(NULL, m->blob, PROT_READ, MAP_PRIVATE, fds[*nfds - 1], 0);
    if (*map == MAP_FAILED) {
        *map = NULL;
        return NULL;
    }
    close(fds[--*nfds]);
    fds[*nfds] = -1;
    *len = m->blob;
    return *map;
}

static void send_failure(const cay_g_spawn *m, int sys, const char *step)
{
    cay_g_result r = { .pid = -1, .sys = sys };
    memcpy(r.proc, m->proc, sizeof r.proc);
    CAY_COPY(r.step, step);
    ctl_tell(CAY_G_SPAWNED, &r);
}

void spawn_tell(gproc *g, int master)
{
    cay_g_result r = { .pid = g->st.exit.pid };
    memcpy(r.proc, g->st.exit.proc, sizeof r.proc);
    ctl_send(CAY_G_SPAWNED, &r, sizeof r, &master, master >= 0 ? 1 : 0);
}

int plan_start(plan *p, const char *blob, size_t len, int *master, const char **step)
{
    layout_names nm;
    char room[4096], *few[FEW];
    size_t slots = (size_t)p->m->argc + p->m->envc + config_env_count() + 32;
    size_t bytes = slots * 2 * sizeof(char *);
    int sys = 0, pid = -1;
    p->argv = few;
    if (bytes > sizeof few)
        p->argv = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else
        memset(few, 0, sizeof few);
    if (p->argv == MAP_FAILED || p->m->argc > CAY_BLOB_MAX / 2 || p->m->envc > CAY_BLOB_MAX / 2) {
        sys = ENOMEM;
    } else {
        p->envp = p->argv + slots;
        sys = lay_out(p, &nm, room, sizeof room, blob, len, step);
    }
    if (!sys) {
        pid = spawn_command(p, master, step);
        if (pid < 0)
            sys = errno;
        else if (p->sys) {
            sys = p->sys;
            *step = p->step;
            if (!p->g || !p->g->shim)
                waitpid(pid, NULL, 0);
        }
    }
    if (p->argv != MAP_FAILED && p->argv != few)
        munmap(p->argv, bytes);
    errno = sys;
    if (sys)
        return -1;
    return pid;
}

void spawn_run(const cay_g_spawn *m, const char *tail, size_t len, int *fds, int nfds)
{
    plan p = {
        .m = m, .io = { -1, -1, -1 }, .group = init.tenant[0], .into = init.tenant[1], .slave = -1
    };
    char *map;
    const char *step = "request";
    int master = -1;
    size_t whole = len;
    gproc *past = NULL;
    if (m->forget[0])
        past = gproc_find(m->forget);
    if (past)
        gproc_drop(past);
    const char *blob = blob_of(m, tail, &len, fds, &nfds, &map);
    gproc *g = NULL;
    if (blob)
        g = gproc_new(m->proc);

    if (!g) {
        send_failure(m, blob ? EAGAIN : EINVAL, "request");
        return;
    }
    p.g = g;
    sort_fds(m, &p, g, fds, nfds);
    int pid = plan_start(&p, blob, len, &master, &step), sys = pid < 0 ? errno : 0;
    if (map)
        munmap(map, len);
    if (sys) {
        gproc_drop(g);
        cay__close_fd(&master);
        send_failure(m, sys, step);
        return;
    }
    g->st.spawn = *m;
    size_t strings = len;
    if (map)
        strings = 0;
    g->nlabels = (uint32_t)CAY_MIN(whole - strings, CAY_LABELS_MAX);
    memcpy(init.labels[g - init.procs], tail + strings, g->nlabels);
    memcpy(g->st.exit.proc, m->proc, sizeof g->st.exit.proc);
    g->st.exit.pid = pid;
    init.nshims += g->shim != 0;
    init.pids[g - init.procs] = CAY_OR(g->shim, pid);
    if (master >= 0)
        g->fds[1] = master;
    if (!(m->flags & CAY_SPAWN_LATE)) {
        spawn_tell(g, master);
        return;
    }
    g->late = true;
    if (!init.nlate++)
        init.late_until = cay__now_ms() + LATE_MS;
}

int worker_lock(void)
{
    return init.lock = (int)syscall(SYS_memfd_create, "cay-files", 1u /* MFD_CLOEXEC */);
}

/* A lock belongs to one opening of the file. */
static int own_lock(void)
{
    char path[48], n[21];
    CAY_JOIN(path, "/proc/self/fd/", cay__str_u64(n, (uint64_t)init.lock));
    return open(path, O_RDWR | O_CLOEXEC);
}

int spawn_worker(const char *user, int sock)
{
    ident id;
    int rc;
    if (*user)
        rc = user_find(user, &id);
    else
        rc = user_default(&id);
    if (rc)
        return rc;
    if (init.lock < 0 && worker_lock() < 0)
        return errno;
    int pid = (int)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid < 0)
        return errno;
    for (size_t i = 0; pid > 0 && i < CAY_LEN(init.workers); i++)
        if (!init.workers[i]) {
            init.workers[i] = pid;
            break;
        }
    if (pid > 0)
        return 0;
    /* Nothing of init's may stay: only the session socket, and a lock that init and the keeper have
     * too. */
    int lock = own_lock();
    if (lock < 0 || (lock = fcntl(lock, F_DUPFD_CLOEXEC, 5)) < 0 ||
        (dup3(sock, 3, O_CLOEXEC) < 0 && sock != 3) || dup3(lock, 4, O_CLOEXEC) < 0)
        _exit(1);
    cay__fd_close_from(5);
    init.ctl = init.listen = -1;
    memset(init.key, 0, sizeof init.key);
    setsid();
    umask(022);
    drop_to(&id, id.uid == 0);
    cay__session_main(3, 4, config_get(1), id.home);
}
