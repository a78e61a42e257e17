/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"
#include <base/proctree.h>
#include <base/base.h>
#include <cay/sandbox.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

bool cay__child_become(const ident *who)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { { 0 } };
    gid_t all[1 + CAY_LEN(who->groups)] = { who->gid };
    for (unsigned i = 0; i < who->ngroups; i++)
        all[1 + i] = who->groups[i];
    /* By system call: this is a forked child of one thread, and nobody else's ids may change. */
    if (syscall(SYS_setgroups, 1 + who->ngroups, all) < 0 ||
        syscall(SYS_setresgid, who->gid, who->gid, who->gid) < 0 ||
        syscall(SYS_setresuid, who->uid, who->uid, who->uid) < 0)
        return false;
    prctl(
        PR_SET_DUMPABLE,
        0); /* another uid set it to what fs.suid_dumpable says, and the memory is still pid 1's */
    return who->uid == 0 || syscall(SYS_capset, &head, none) == 0;
}

typedef struct failure {
    int sys;
    char step[20];
} failure;

static _Noreturn void exit_with_error(int fd, const char *step)
{
    failure f = { .sys = errno };
    CAY_COPY(f.step, step);
    cay__fd_write_all(fd, &f, sizeof f);
    _exit(127);
}

static void take_terminal(const child_spec *s, int fail)
{
    struct winsize ws = { .ws_col = CAY_OR(s->cols, 80), .ws_row = CAY_OR(s->rows, 24) };
    int t = open(s->tty, O_RDWR | O_CLOEXEC);
    if (t < 0 || (s->who && fchown(t, s->who->uid, (gid_t)-1) < 0) || ioctl(t, TIOCSCTTY, 0) < 0 ||
        ioctl(t, TIOCSWINSZ, &ws) < 0)
        exit_with_error(fail, "terminal");
    for (int i = 0; i < 3; i++)
        if (dup2(t, i) < 0)
            exit_with_error(fail, "terminal");
}

static void take_pipes(const child_spec *s, int fail)
{
    const int from[3] = { s->in, s->out, s->err };
    for (int i = 0; i < 3; i++) {
        int fd;
        if (from[i] >= 0)
            fd = from[i];
        else
            fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0 || dup2(fd, i) < 0)
            exit_with_error(fail, "stdio");
    }
}

static void reset_signals(void)
{
    sigset_t none;
    /* All others are at their default already: host.c. */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void exec_command(const child_spec *s, int fail)
{
    setsid();
    if (s->tty)
        take_terminal(s, fail);
    else
        take_pipes(s, fail);
    if (s->ctty && ioctl(s->ctty - 1, TIOCSCTTY, 0) < 0)
        exit_with_error(fail, "terminal");
    if (s->who) {
        /* Before pid 1, with which all of it would end, a memory limit takes a command. */
        CAY_AUTOFD adj = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        if (adj >= 0 && write(adj, "200", 3) < 0)
            cay__close_fd(&adj);
        umask(022);
    }
    if (s->who && !cay__child_become(s->who))
        exit_with_error(fail, "user");
    if (fchdir(s->cwd) < 0) /* with the user's rights */
        exit_with_error(fail, "cwd");
    struct rlimit lim;
    if (s->nofile && getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        /* Where the user's own limit is lower, that one holds. */
        lim.rlim_cur = lim.rlim_max = CAY_MIN((rlim_t)s->nofile, lim.rlim_max);
        if (setrlimit(RLIMIT_NOFILE, &lim) < 0)
            exit_with_error(fail, "nofile");
    }
    reset_signals();
    const char *step = NULL;
    if (s->jail)
        step = cay__jail_limits(s->jail);
    if (s->jail && !step)
        step = cay__jail_enter(s->jail->root, s->tty);
    if (step)
        exit_with_error(fail, step);
    environ = (char **)s->env;
    execvp(s->argv[0], s->argv);
    exit_with_error(fail, "exec");
}

typedef struct reaper {
    int ctl;
    pid_t main;
    bool killing; /* nothing may stay */
} reaper;

static void send_message(int ctl, const child_msg *m)
{
    cay__fd_send(ctl, m, sizeof *m, NULL, 0, 0);
}

static uint64_t timeval_to_us(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

/* false once there is no child left. */
static bool reap_children(reaper *r)
{
    for (;;) {
        int status;
        struct rusage ru;
        pid_t pid = wait4(-1, &status, WNOHANG, &ru);
        if (pid < 0)
            return errno != ECHILD;
        if (pid == 0)
            return true;
        if (pid != r->main)
            continue;
        child_msg m = { .op = CHILD_EXITED,
                        .a = status,
                        .c = timeval_to_us(ru.ru_utime) + timeval_to_us(ru.ru_stime),
                        .d = (uint64_t)ru.ru_maxrss * 1024 };
        r->main = 0;
        send_message(r->ctl, &m);
    }
}

static void process_ctl_message(reaper *r)
{
    child_msg m;
    ssize_t n = cay__fd_recv(r->ctl, &m, sizeof m, NULL, NULL, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n != sizeof m) {
        r->killing = true; /* cay-local is gone */
        cay__tree_signal(getpid(), SIGKILL);
        return;
    }
    if (m.b == CAY_SCOPE_TREE) {
        r->killing |= m.a == SIGKILL;
        cay__tree_signal(getpid(), m.a);
    } else if (m.b == CAY_SCOPE_BELOW && r->main > 0) {
        cay__tree_signal(r->main, m.a);
    } else if (r->main > 0) { /* not reaped yet, so the number is still its own */
        kill(m.b == CAY_SCOPE_GROUP ? -r->main : r->main, m.a);
    }
}

static _Noreturn void reaper_main(reaper *r, int sigfd)
{
    struct pollfd p[2] = { { .fd = sigfd, .events = POLLIN }, { .fd = r->ctl, .events = POLLIN } };
    for (;;) {
        if (poll(p, 2, r->killing ? 20 : -1) < 0 && errno != EINTR)
            _exit(1);
        struct signalfd_siginfo si;
        if (p[0].revents && read(sigfd, &si, sizeof si) < 0 && errno != EAGAIN)
            _exit(1);
        if (!reap_children(r))
            _exit(0);
        if (p[1].revents)
            process_ctl_message(r);
        if (p[1].revents & POLLHUP)
            p[1].fd = -1;
        if (r->killing)
            cay__tree_signal(getpid(), SIGKILL); /* who was forked meanwhile, or orphaned to us */
    }
}

/* Starts the command and tells how that went. */
static void start_command(reaper *r, const child_spec *s)
{
    int fail[2];
    failure f;
    if (pipe2(fail, O_CLOEXEC) < 0)
        _exit(1);
    /* In our memory until it is another program, instead of in a copy. No tenant can reach into it
     * meanwhile: pid 1 of a container and all that it forks cannot be traced (PR_SET_DUMPABLE), and
     * who is in a jail traces nobody outside of it. */
    r->main = vfork();
    if (r->main == 0)
        exec_command(s, fail[1]);
    int e = errno;
    close(fail[1]);
    ssize_t n = 0;
    if (r->main >= 0)
        n = cay__fd_read_all(fail[0], &f, sizeof f);
    close(fail[0]);
    child_msg m = { .op = CHILD_STARTED, .a = r->main };
    if (r->main < 0 || n == sizeof f) {
        m.op = CHILD_FAILED;
        if (r->main < 0)
            m.a = e;
        else
            m.a = f.sys;
        CAY_COPY(m.text, r->main < 0 ? "fork" : f.step);
        r->main = 0;
    }
    tree_proc t;
    if (m.op == CHILD_STARTED && cay__tree_look(m.a, &t))
        m.c = t.start;
    send_message(r->ctl, &m);
}

void cay__child_close_others(const int *keep, size_t n)
{
    for (int last = 2;;) {
        int next = INT_MAX;
        CAY_EACH_OF(it, keep, n)
            if (*it > last && *it < next)
                next = *it;
        if (last + 1 < next)
            syscall(SYS_close_range, (unsigned)last + 1, next == INT_MAX ? ~0u : (unsigned)next - 1,
                    0);
        if (next == INT_MAX)
            return;
        last = next;
    }
}

static _Noreturn void reaper_start(const child_spec *s, int ctl)
{
    reaper r = { .ctl = ctl };
    sigset_t chld;
    /* The reaper must hold no end of anybody else's pipe. */
    int keep[] = { s->cwd, s->in, s->out, s->err, s->ctty - 1, ctl, s->jail ? s->jail->root : -1 };
    cay__child_close_others(keep, CAY_LEN(keep));
    prctl(PR_SET_NAME, "cay-reaper");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setsid();
    reset_signals();
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_SETMASK, &chld, NULL);
    int sigfd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    if (sigfd < 0)
        _exit(1);
    start_command(&r, s);
    int done[] = { s->cwd, s->in, s->out, s->err, s->ctty - 1 };
    CAY_EACH(it, done)
        cay__close_fd(it);
    reaper_main(&r, sigfd);
}

pid_t cay__child_start(const child_spec *spec, int *ctl)
{
    int sv[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        reaper_start(spec, sv[1]);
    close(sv[1]);
    if (pid < 0) {
        close(sv[0]);
        return -1;
    }
    cay__fd_nonblock(sv[0], true);
    *ctl = sv[0];
    return pid;
}
