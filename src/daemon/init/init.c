/* SPDX-License-Identifier: Apache-2.0 */
#include "init.h"
#include <proto/landlock.h>
#include "plan.h"
#include "sudo.h"
#include "services.h"
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

void ctl_send(uint16_t type, const void *body, size_t len, const int *fds, int nfds)
{
    if (init.ctl >= 0)
        cay__msg_send(init.ctl, CAY_INIT_VERSION, type, body, len, NULL, 0, fds, nfds, 0);
}

static void on_ctl(void)
{
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    ssize_t n = cay__fd_recv(init.ctl, init.buf, CAY_MSG_MAX, fds, &nfds, 0);
    if (n <= 0) {
        /* A keeper that died over something we said resets the connection; that is told once,
         * before its last words: rings to hold, commands to start. */
        if (n == 0 || (errno != EMSGSIZE && errno != ECONNRESET)) {
            if (!init.config) /* we were nobody's yet, and it may have died before it wrote down
                              that we are */
                _exit(0);
            cay__close_fd(
                &init.ctl); /* the keeper died; the next one comes through the listening socket */
        }
        return;
    }
    init_packet(init.buf, (size_t)n, fds, nfds);
    cay__close_fds(fds, nfds);
    if (n > 8192) /* a rare large packet does not stay in memory */
        madvise(init.buf, CAY_MSG_MAX, MADV_DONTNEED);
}

static void on_listen(void)
{
    int fd = accept4(init.listen, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    /* What the dead keeper still said counts: rings to hold, commands to start. */
    struct pollfd old = { init.ctl, POLLIN, 0 };
    while (init.ctl >= 0 && poll(&old, 1, 0) > 0)
        on_ctl();
    cay__close_fd(&init.ctl);
    init.ctl = fd;
    CAY_FAULT("init.adopt.accepted");
}

/* Those that did not end at once. */
static void tell_late(void)
{
    for (gproc *p = init.procs; init.nlate && p < init.procs + GPROCS; p++)
        if (p->late) {
            p->late = false;
            init.nlate--;
            spawn_tell(p, -1);
        }
}

#define LOOK_MS 5000

/* A sandbox outlives its keeper, for the next one to adopt. Once the state directory is gone there
 * is no record of us, and nobody will: then we end, and all that is inside with us. Milliseconds
 * until that is to be looked at again, -1: a keeper looks. */
static int orphan_wait(void)
{
    struct stat st;
    if (init.ctl >= 0 || init.home < 0)
        return -1;
    int64_t now = cay__now_ms();
    if (now >= init.look_ms) {
        if (fstat(init.home, &st) == 0 && st.st_nlink == 0)
            _exit(0);
        init.look_ms = now + LOOK_MS;
    }
    return wait_until(init.look_ms);
}

#define END_MS 500

void end_tell(void)
{
    cay_g_result r = { .step = "ending" };
    if (init.end_ms)
        ctl_tell(CAY_G_ENDING, &r);
}

/* The host goes down, or its systemd stops the scope that we are in. Commands are asked to end, and
 * so do we when the last one did, or in half a second; the kernel takes the rest along, what is
 * frozen too. A keeper hears of it: it stays as long, and no other takes over meanwhile. */
static void end_begin(void)
{
    if (init.end_ms)
        return;
    init.end_ms = cay__now_ms() + END_MS;
    end_tell();
    services_end();
    tree_tenants(SIGTERM);
}

static int end_wait(void)
{
    if (!init.end_ms)
        return -1;
    if (cay__now_ms() >= init.end_ms || !tree_tenants(0))
        _exit(0);
    return wait_until(init.end_ms);
}

/* Only a process above our namespace has no pid in it, and the kernel fills in both fields: what a
 * tenant sends, even as root of the sandbox, ends nothing. */
static bool host_asks(const struct signalfd_siginfo *si)
{
    return si->ssi_signo == SIGTERM && si->ssi_code == SI_USER &&
           (si->ssi_pid == 0 || CAY__MUTANT("init-term"));
}

static void on_signals(void)
{
    struct signalfd_siginfo si[4];
    ssize_t n;
    do {
        n = read(init.sig, si, sizeof si);
        for (ssize_t i = 0; i < n / (ssize_t)sizeof *si; i++)
            if (host_asks(&si[i]))
                end_begin();
    } while (n == sizeof si);
    reap();
}

static _Noreturn void run_loop(void)
{
    for (;;) {
        struct pollfd p[4 + SUDO_VISITS] = { { init.sig, POLLIN, 0 },
                                             { init.ctl, POLLIN, 0 },
                                             { init.listen, POLLIN, 0 } };
        int more = sudo_poll(p + 3);
        int late = -1;
        if (init.nlate)
            late = wait_until(init.late_until);
        late = min_timeout(late, min_timeout(orphan_wait(), end_wait()));
        int n =
            poll(p, 3 + (nfds_t)more, min_timeout(late, min_timeout(services_wait(), sudo_wait())));
        if (init.nlate && cay__now_ms() >= init.late_until)
            tell_late();
        if (n < 0)
            continue;
        if (p[0].revents)
            on_signals();
        if (p[1].revents)
            on_ctl();
        if (p[2].revents)
            on_listen();
        sudo_ready(p + 3, more);
        services_step();
    }
}

static void *map_pages(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        _exit(12);
    return p;
}

static _Noreturn void give_up(const char *step)
{
    cay_g_result r = { .sys = CAY_OR(errno, EIO) };
    CAY_COPY(r.step, step);
    ctl_tell(CAY_G_BOUND, &r);
    _exit(1);
}

/* What nearly every first command asks, while nobody waits: who the user is, and names that a fresh
 * root has to look for. */
static void warm_up(void)
{
    static const char *const names[] = {
        "/workspace",       "/dev/null",         "/bin", "/lib", "/lib64",
        "/etc/ld.so.cache", "/etc/ld.so.preload"
    };
    struct stat st;
    ident id;
    user_find("user", &id);
    CAY_EACH(name, names)
        stat(*name, &st);
}

const init_ops init_own_ops = {
    .proc_new = gproc_new,
    .proc_drop = gproc_drop,
    .proc_tell = gproc_tell,
    .proc_ended = gproc_ended,
    .proc_signal = gproc_signal,
    .start = plan_start,
    .tell = ctl_send,
};

_Noreturn void init_main(int ctl, int listen_fd, int home, const int net[4], int mode, bool uid0,
                         bool bound)
{
    sigset_t all;
    cay_g_hello hello = { CAY_INIT_VERSION, 0, "" };
    cay_g_result res;

    init.ops = &init_own_ops;
    init.ctl = ctl;
    init.listen = listen_fd;
    init.home = home;
    memcpy(init.net, net, sizeof init.net);
    init.mode = mode;
    init.uid0 = uid0;
    init.tenant[0] = init.tenant[1] = init.lock = -1;
    init.buf = map_pages(CAY_MSG_MAX);
    init.procs = map_pages(sizeof(gproc) * GPROCS);
    init.labels = map_pages(sizeof *init.labels * GPROCS);
    init.shims = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    if (!cut_bounding_set())
        give_up("bounding set");
    int binder = 0;
    if (!bound)
        binder = binder_start(ctl);
    if (init.shims == MAP_FAILED || binder < 0)
        give_up("binder");
    const char *step = lock_down();
    if (step)
        give_up(step);
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGCHLD);
    sigaddset(&some, SIGUSR1); /* a sub-reaper has news */
    sigaddset(&some, SIGTERM);
    init.sig = signalfd(-1, &some, SFD_CLOEXEC | SFD_NONBLOCK);
    if (init.sig < 0)
        give_up("signals");
    if (!bound)
        ctl_tell(CAY_G_READY, &hello);

    int rc;
    if (bound)
        rc = root_check(&res);
    else
        rc = binder_wait(binder, &res);
    if (rc == -2)
        _exit(0);
    int scopes = 0;
    if (rc == 0)
        scopes = cay__landlock_scopes();
    if (scopes < 0) {
        res.sys = -scopes;
        CAY_COPY(res.step, "landlock");
        rc = -1;
    }
    ctl_tell(CAY_G_BOUND, &res);
    if (rc < 0)
        _exit(1);
    init.bound = true;
    if (bound)
        warm_up();
    run_loop();
}
