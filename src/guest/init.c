/* SPDX-License-Identifier: Apache-2.0 */
#include "init.h"
#include "landlock.h"
#include "seccomp.h"
#include "sudo.h"
#include "units.h"
#include <base/sanitize.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

guest G;

/* KEEP_CAPS: CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE: what the root profile may
 * have, all of it in this sandbox's user namespace only. */

void ctl_send(uint16_t type, const void *body, size_t len, const int *fds, int nfds)
{
    char pkt[sizeof(cay_msg) + sizeof(cay_g_state) + CAY_LABELS_MAX];
    cay_msg h = { CAY_MSG_MAGIC, CAY_INIT_VERSION, type, 0, 0 };
    if (G.ctl < 0)
        return;
    memcpy(pkt, &h, sizeof h);
    memcpy(pkt + sizeof h, body, len);
    cay__fd_send(G.ctl, pkt, sizeof h + len, fds, nfds, 0);
}

/* ---- commands init remembers ---- */

static uint64_t key_of(const char *id)
{
    uint64_t k;
    memcpy(&k, id, sizeof k);
    return k | 1; /* 0 is nobody's */
}

gproc *gproc_find(const char *id)
{
    uint64_t k = key_of(id);
    for (size_t i = 0; i < GPROCS; i++)
        if (G.keys[i] == k && !strncmp(G.procs[i].st.spawn.proc, id, CAY_WIRE_ID))
            return &G.procs[i];
    return NULL;
}

/* We have room for more than a keeper remembers. What fills it nevertheless is what one died over before it told us to
 * forget: the longest past goes. */
static gproc *longest_past(void)
{
    gproc *old = NULL;
    for (gproc *p = G.procs; p < G.procs + GPROCS; p++)
        if (p->st.ended && (!old || p->st.spawn.started_ms < old->st.spawn.started_ms))
            old = p;
    if (old)
        gproc_drop(old);
    return old;
}

gproc *gproc_new(const char *id)
{
    size_t i = 0;
    while (i < GPROCS && G.keys[i])
        i++;
    gproc *p = i < GPROCS ? &G.procs[i] : longest_past();
    if (!p)
        return NULL;
    memset(p, 0, sizeof *p);
    for (size_t f = 0; f < CAY_LEN(p->fds); f++)
        p->fds[f] = -1;
    p->used = true;
    G.keys[p - G.procs] = key_of(id);
    return p;
}

void gproc_drop(gproc *p)
{
    size_t i = (size_t)(p - G.procs);
    for (size_t k = 0; k < CAY_LEN(p->fds); k++)
        cay__close_fd(&p->fds[k]);
    G.nheld -= G.held[i];
    G.nshims -= p->shim != 0;
    G.nlate -= p->late;
    p->used = p->late = G.held[i] = false;
    p->shim = 0;
    G.keys[i] = 0;
    G.pids[i] = 0;
}

/* Pipes of commands that ended are kept while there is something in them, or somebody who may write, and no longer:
 * each start of a command copies and closes all our descriptors. A few are looked at each time, in turn. */
static void let_go(void)
{
    for (unsigned n = 0, looked = 0; n < GPROCS && looked < 4 && G.nheld; n++) {
        unsigned i = G.next_held++ % GPROCS;
        gproc *p = &G.procs[i];
        if (!G.held[i])
            continue;
        looked++;
        struct pollfd q[2] = { { p->fds[1], POLLIN, 0 }, { p->fds[2], POLLIN, 0 } };
        if (poll(q, 2, 0) < 0)
            continue;
        for (int k = 0; k < 2; k++)
            if (!(q[k].revents & POLLIN) && (q[k].revents & POLLHUP))
                cay__close_fd(&p->fds[1 + k]);
        G.held[i] = p->fds[1] >= 0 || p->fds[2] >= 0;
        G.nheld -= !G.held[i];
    }
}

/* ---- privilege ---- */

/* Before the binder is there: that one shares our memory and with it errno, by which the end of the list is known. What it may do
 * it has by its permitted set, and it executes nothing. */
static bool cut_bounding_set(void)
{
    for (unsigned c = 0; c <= 63; c++)
        if (!(c < 32 && (KEEP_CAPS >> c & 1)) && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0) /* or past the last one this kernel knows */
            return errno == EINVAL && prctl(PR_CAPBSET_READ, c, 0, 0, 0) != 1;
    return true;
}

/* NULL, or what was refused. */
static const char *lock_down(void)
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
    cay__random(G.key, sizeof G.key);
    int rc = CAY__MUTANT("seccomp-none") ? 0 : cay__seccomp_install_keyed(G.key);
    errno = rc < 0 ? -rc : 0;
    return rc < 0 ? "filter" : NULL;
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

static void set_limits(const cay_g_config *m)
{
    /* For commands. We hold what many of them left, and a descriptor that finds no room takes its whole message along. */
    if (m->nofile != UINT64_MAX && !CAY__MUTANT("nofile"))
        set_limit(RLIMIT_NOFILE, CAY_MAX(m->nofile, 65536), CAY_MAX(m->nofile, 65536));
    if (m->fsize != UINT64_MAX)
        set_limit(RLIMIT_FSIZE, m->fsize, m->fsize);
    if (m->as_limit != UINT64_MAX && !CAY__SANITIZED) /* then each command sets it: we have a large shadow */
        set_limit(RLIMIT_DATA, m->as_limit, m->as_limit);
    set_limit(RLIMIT_MEMLOCK, 8 << 20, 8 << 20);
    set_limit(RLIMIT_MSGQUEUE, 800 << 10, 800 << 10);
    set_limit(RLIMIT_SIGPENDING, 4096, 4096);
    set_limit(RLIMIT_STACK, 8 << 20, RLIM_INFINITY);
    if (m->cpus)
        syscall(SYS_sched_setaffinity, 0, sizeof m->cpus, &m->cpus);
}

/* ---- messages from the keeper ---- */

static void on_config(const cay_g_config *m, const char *tail, size_t len, int *fds, int nfds)
{
    for (int i = 0; i < 2 && nfds == 2; i++) {
        cay__close_fd(&G.tenant[i]);
        G.tenant[i] = CAY_STEAL_FD(fds[i]);
    }
    char *copy = mmap(NULL, len + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return;
    memcpy(copy, tail, len); /* the byte after it is 0: every look-up ends */
    if (G.config)
        munmap(G.config, G.config_size);
    G.config = copy;
    G.config_len = len;
    G.config_size = len + 1;
    G.nofile = m->nofile;
    G.fsize = m->fsize;
    G.data = m->as_limit;
    set_limits(m);
    /* Last, because all before it is in the buffer that may be used again. */
    const char *mark = memmem(copy, len, "\0" CAY_UNITS_MARK, sizeof CAY_UNITS_MARK + 1);
    if (mark) { /* no variable begins so */
        G.config_len = (size_t)(mark + 1 - copy);
        if (units_config(mark + 1 + sizeof CAY_UNITS_MARK, len - G.config_len - sizeof CAY_UNITS_MARK) & CAY_GUF_SUDO)
            sudo_open();
        units_tell();
    }
}

void gproc_signal(gproc *p, int sig, int scope)
{
    int pid = p->st.exit.pid;
    if (scope == 2 && p->shim) { /* tree: the sub-reaper holds every descendant */
        tree_signal(p->shim, sig, false);
        if (sig == SIGKILL)
            for (int i = 0; i < 100 && !tree_empty(p->shim); i++)
                tree_signal(p->shim, sig, false);
        kill(p->shim, SIGCONT); /* where it is of the tenant's user, it may have been stopped: it has to tell the end */
    } else if (scope == 2 && p->stray) {
        for (int i = 0; tree_strays(sig) && sig == SIGKILL && i < 100; i++)
            reap();
    } else if (pid <= 0) {
        return; /* a service between two runs; 0 would be ourselves */
    } else if (scope == 2 && !p->st.ended) {
        tree_signal(pid, sig, true);
    } else if (scope == 3 && !p->st.ended) {
        tree_signal(pid, sig, false);
    } else if (!p->st.ended) {
        kill(scope == 1 ? -pid : pid, sig);
    }
}

static void on_signal(const cay_g_proc *m)
{
    if (!m->proc[0] && (m->a == SIGSTOP || m->a == SIGCONT)) { /* where there is no group to freeze: all but us */
        kill(-1, (int)m->a);
        for (size_t i = 0; i < CAY_LEN(G.workers); i++)
            if (G.workers[i])
                kill(G.workers[i], SIGCONT);
        return;
    }
    gproc *p = gproc_find(m->proc);
    if (p && m->a <= 64 && m->b <= 3)
        gproc_signal(p, (int)m->a, (int)m->b);
}

static void on_keep(const cay_g_proc *m, int *fds, int nfds)
{
    gproc *p = gproc_find(m->proc);
    if (!p || nfds != 1 || m->a > 1)
        return;
    int *slot = &p->fds[3 + m->a];
    cay__close_fd(slot);
    *slot = fds[0];
    fds[0] = -1;
}

static void on_session(const cay_g_session *m, const char *tail, size_t len, int *fds, int nfds)
{
    cay_g_result r = { .pid = (int32_t)m->seq };
    char user[64] = "";
    if (len && len < sizeof user)
        memcpy(user, tail, len);
    r.sys = nfds == 1 ? spawn_worker(user, fds[0]) : EBADF;
    cay__str_copy(r.step, sizeof r.step, "user");
    ctl_send(CAY_G_TAKEN, &r, sizeof r, NULL, 0);
}

static void on_quiet(const cay_g_proc *m)
{
    cay_g_result r = { .pid = 0 };
    reap();
    if (m->a)
        units_turn();
    if (m->a) { /* stopped all at once, so that none makes another while they are ended one by one */
        kill(-1, SIGSTOP);
        tree_tenants(SIGKILL);
    }
    for (size_t i = 0; i < CAY_LEN(G.workers); i++)
        if (G.workers[i])
            kill(G.workers[i], SIGCONT); /* some process of its user may have stopped it, over a request and with its lock */
    reap();
    r.sys = G.lock < 0 && worker_lock() < 0 ? errno : tree_tenants(0) ? EBUSY : 0;
    if (!r.sys)
        units_turn();
    ctl_send(CAY_G_STILL, &r, sizeof r, &G.lock, G.lock >= 0);
}

/* Those that watch look whether the root is another; the rest does not hear it. */
static void on_swapped(void)
{
    units_release();
    for (size_t i = 0; i < CAY_LEN(G.workers); i++)
        if (G.workers[i])
            kill(G.workers[i], SIGUSR1);
}

/* Commands use a group one after another: a new keeper may take it for the last one's only. */
static void disown_group(gproc *p)
{
    for (gproc *q = G.procs; p->st.ended && p->st.spawn.group && q < G.procs + GPROCS; q++)
        if (q != p && q->used && q->st.spawn.group == p->st.spawn.group &&
            (!q->st.ended || q->st.spawn.started_ms >= p->st.spawn.started_ms))
            p->st.spawn.group = 0;
}

void gproc_tell(gproc *p)
{
    int fds[5], n = 0;
    char state[sizeof p->st + CAY_LABELS_MAX];
    p->st.fds = 0;
    for (unsigned i = 0; i < CAY_LEN(p->fds); i++)
        if (p->fds[i] >= 0) {
            p->st.fds |= 1u << i;
            fds[n++] = p->fds[i];
        }
    memcpy(state, &p->st, sizeof p->st);
    memcpy(state + sizeof p->st, G.labels[p - G.procs], p->nlabels);
    ctl_send(CAY_G_STATE, state, sizeof p->st + p->nlabels, fds, n);
}

/* A new keeper asks what is here. */
static void on_adopt(const cay_g_hello *m)
{
    cay_g_result net = { .pid = 0 };
    memcpy(G.instance, m->instance, sizeof G.instance);
    if (G.net[0] >= 0)
        ctl_send(CAY_G_NET, &net, sizeof net, G.net, 4);
    for (gproc *p = G.procs; p < G.procs + GPROCS; p++)
        if (p->used) {
            disown_group(p);
            gproc_tell(p);
        }
    units_tell();
    cay_g_hello h = { CAY_INIT_VERSION, G.bound, "" };
    ctl_send(CAY_G_READY, &h, sizeof h, NULL, 0);
}

static const struct {
    uint16_t type;
    uint16_t body;
} sizes[] = {
    { CAY_G_CONFIG, sizeof(cay_g_config) }, { CAY_G_SPAWN, sizeof(cay_g_spawn) }, { CAY_G_KEEP, sizeof(cay_g_proc) },
    { CAY_G_SIGNAL, sizeof(cay_g_proc) },   { CAY_G_CLOSE, sizeof(cay_g_proc) },  { CAY_G_ACK, sizeof(cay_g_proc) },
    { CAY_G_FORGET, sizeof(cay_g_proc) },   { CAY_G_SESSION, sizeof(cay_g_session) }, { CAY_G_ADOPT, sizeof(cay_g_hello) },
    { CAY_G_QUIET, sizeof(cay_g_proc) },    { CAY_G_SWAPPED, sizeof(cay_g_proc) },
    { CAY_G_UNIT, sizeof(cay_g_proc) },
};

void init_packet(const char *buf, size_t n, int *fds, int nfds)
{
    const cay_msg *h = (const cay_msg *)buf;
    const char *body = buf + sizeof *h;
    size_t need = 0;
    if (n < sizeof *h)
        return;
    for (size_t i = 0; i < CAY_LEN(sizes); i++)
        if (sizes[i].type == h->type)
            need = sizes[i].body;
    if (n < sizeof *h + need || !need || h->magic != CAY_MSG_MAGIC)
        return;
    const char *tail = body + need;
    size_t len = n - sizeof *h - need;
    const cay_g_proc *pm = (const cay_g_proc *)body;
    gproc *p;
    switch (h->type) {
    case CAY_G_CONFIG: on_config((const cay_g_config *)body, tail, len, fds, nfds); break;
    case CAY_G_SPAWN: spawn_run((const cay_g_spawn *)body, tail, len, fds, nfds); break;
    case CAY_G_SIGNAL: on_signal(pm); break;
    case CAY_G_KEEP: on_keep(pm, fds, nfds); break;
    case CAY_G_CLOSE:
        if ((p = gproc_find(pm->proc)))
            cay__close_fd(&p->fds[0]);
        break;
    case CAY_G_FORGET:
        if ((p = gproc_find(pm->proc)))
            gproc_drop(p);
        break;
    case CAY_G_SESSION: on_session((const cay_g_session *)body, tail, len, fds, nfds); break;
    case CAY_G_ADOPT: on_adopt((const cay_g_hello *)body); break;
    case CAY_G_QUIET: on_quiet(pm); break;
    case CAY_G_SWAPPED: on_swapped(); break;
    case CAY_G_UNIT: units_ask(pm, fds, nfds); break;
    default: break;
    }
}

static void on_ctl(void)
{
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    ssize_t n = cay__fd_recv(G.ctl, G.buf, CAY_MSG_MAX, fds, &nfds, 0);
    if (n <= 0) {
        /* A keeper that died over something we said resets the connection; that is told once, before its last words:
         * rings to hold, commands to start. */
        if (n == 0 || (errno != EMSGSIZE && errno != ECONNRESET)) {
            if (!G.config) /* we were nobody's yet, and it may have died before it wrote down that we are */
                _exit(0);
            cay__close_fd(&G.ctl); /* the keeper died; the next one comes through the listening socket */
        }
        return;
    }
    init_packet(G.buf, (size_t)n, fds, nfds);
    for (int i = 0; i < nfds; i++)
        cay__close_fd(&fds[i]);
    if (n > 8192) /* a rare large packet does not stay in memory */
        madvise(G.buf, CAY_MSG_MAX, MADV_DONTNEED);
}

/* ---- children ---- */

void gproc_ended(gproc *p, int status, const struct rusage *ru)
{
    size_t i = (size_t)(p - G.procs);
    G.nlate -= p->late;
    p->late = false;
    p->st.ended = 1;
    p->st.exit.status = status;
    if (ru) {
        p->st.exit.cpu_us = (uint64_t)(ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * 1000000u +
                            (uint64_t)(ru->ru_utime.tv_usec + ru->ru_stime.tv_usec);
        p->st.exit.max_rss = (uint64_t)ru->ru_maxrss * 1024;
    }
    ctl_send(CAY_G_EXITED, &p->st.exit, sizeof p->st.exit, NULL, 0);
    G.held[i] = !(p->st.spawn.flags & CAY_SPAWN_TTY) && (p->fds[1] >= 0 || p->fds[2] >= 0);
    G.nheld += G.held[i];
}

static void reaped(size_t i, int status, const struct rusage *ru)
{
    gproc *p = &G.procs[i];
    G.pids[i] = 0;
    if (p->shim) {
        p->shim = 0;
        G.nshims--;
        if (p->st.ended)
            return;
        if (!G.shims[i] && p->st.exit.pid > 0) { /* the sub-reaper itself was killed: the command is our own child now */
            p->stray = true;
            G.pids[i] = p->st.exit.pid;
            return;
        }
        status = G.shims[i] ? G.shims[i] - 1 : status;
    }
    if (p->unit)
        unit_died(p->unit, status);
    else
        gproc_ended(p, status, ru);
}

void reap(void)
{
    struct signalfd_siginfo si[4];
    struct rusage ru;
    int status, pid;
    while (read(G.sig, si, sizeof si) == sizeof si)
        ;
    while ((pid = (int)wait4(-1, &status, WNOHANG, &ru)) > 0) {
        for (size_t i = 0; i < CAY_LEN(G.workers); i++)
            if (G.workers[i] == pid)
                G.workers[i] = 0;
        for (size_t i = 0; i < GPROCS; i++)
            if (G.pids[i] == pid)
                reaped(i, status, &ru);
        unit_reaped(pid, status);
        sudo_reaped(pid, status);
    }
    for (gproc *p = G.procs; G.nshims && p < G.procs + GPROCS; p++)
        if (p->used && p->shim && !p->st.ended && G.shims[p - G.procs]) {
            int how = G.shims[p - G.procs] - 1;
            if (p->unit)
                unit_main_ended(p->unit, how);
            else
                gproc_ended(p, how, NULL);
        }
    let_go();
}

static void on_listen(void)
{
    int fd = accept4(G.listen, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    /* What the dead keeper still said counts: rings to hold, commands to start. */
    struct pollfd old = { G.ctl, POLLIN, 0 };
    while (G.ctl >= 0 && poll(&old, 1, 0) > 0)
        on_ctl();
    cay__close_fd(&G.ctl);
    G.ctl = fd;
    CAY_FAULT("init.adopt.accepted");
}

/* Those that did not end at once. */
static void tell_late(void)
{
    for (gproc *p = G.procs; G.nlate && p < G.procs + GPROCS; p++)
        if (p->late) {
            p->late = false;
            G.nlate--;
            spawn_tell(p, -1);
        }
}

int wait_until(int64_t at)
{
    int64_t left = at - cay__now_ms();
    return at == INT64_MAX ? -1 : left < 0 ? 0 : (int)CAY_MIN(left, 60000);
}

#define LOOK_MS 5000

/* A sandbox outlives its keeper, for the next one to adopt. Once the state directory is gone there is no record of us, and nobody
 * will: then we end, and all that is inside with us. Milliseconds until that is to be looked at again, -1: a keeper looks. */
static int orphan_wait(void)
{
    struct stat st;
    if (G.ctl >= 0 || G.home < 0)
        return -1;
    int64_t now = cay__now_ms();
    if (now >= G.look_ms) {
        if (fstat(G.home, &st) == 0 && st.st_nlink == 0)
            _exit(0);
        G.look_ms = now + LOOK_MS;
    }
    return wait_until(G.look_ms);
}

/* The earlier of two waits; -1, which has no end, is the greatest unsigned number. */
static int sooner(int a, int b)
{
    return (unsigned)a < (unsigned)b ? a : b;
}

static _Noreturn void loop(void)
{
    for (;;) {
        struct pollfd p[4 + SUDO_VISITS] = { { G.sig, POLLIN, 0 }, { G.ctl, POLLIN, 0 }, { G.listen, POLLIN, 0 } };
        int more = sudo_poll(p + 3);
        int late = G.nlate ? wait_until(G.late_until) : -1;
        int n = poll(p, 3 + (nfds_t)more, sooner(sooner(late, orphan_wait()), sooner(units_wait(), sudo_wait())));
        if (G.nlate && cay__now_ms() >= G.late_until)
            tell_late();
        if (n < 0)
            continue;
        if (p[0].revents)
            reap();
        if (p[1].revents)
            on_ctl();
        if (p[2].revents)
            on_listen();
        sudo_ready(p + 3, more);
        units_step();
    }
}

static void *pages(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        _exit(12);
    return p;
}

static _Noreturn void give_up(const char *step)
{
    cay_g_result r = { .sys = errno ? errno : EIO };
    cay__str_copy(r.step, sizeof r.step, step);
    ctl_send(CAY_G_BOUND, &r, sizeof r, NULL, 0);
    _exit(1);
}

/* What nearly every first command asks, while nobody waits: who the user is, and names that a fresh root has to look for. */
static void warm_up(void)
{
    static const char *const names[] = { "/workspace", "/dev/null", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.preload" };
    struct stat st;
    ident id;
    user_find("user", &id);
    for (size_t i = 0; i < CAY_LEN(names); i++)
        stat(names[i], &st);
}

_Noreturn void init_main(int ctl, int listen_fd, int home, const int net[4], int mode, bool uid0, bool bound)
{
    sigset_t all;
    cay_g_hello hello = { CAY_INIT_VERSION, 0, "" };
    cay_g_result res;

    G.ctl = ctl;
    G.listen = listen_fd;
    G.home = home;
    memcpy(G.net, net, sizeof G.net);
    G.mode = mode;
    G.uid0 = uid0;
    G.tenant[0] = G.tenant[1] = G.lock = -1;
    G.buf = pages(CAY_MSG_MAX);
    G.procs = pages(sizeof(gproc) * GPROCS);
    G.labels = pages(sizeof *G.labels * GPROCS);
    G.shims = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    if (!cut_bounding_set())
        give_up("bounding set");
    int binder = bound ? 0 : binder_start(ctl);
    if (G.shims == MAP_FAILED || binder < 0)
        give_up("binder");
    const char *step = lock_down();
    if (step)
        give_up(step);
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGCHLD);
    sigaddset(&some, SIGUSR1); /* a sub-reaper has news */
    G.sig = signalfd(-1, &some, SFD_CLOEXEC | SFD_NONBLOCK);
    if (G.sig < 0)
        give_up("signals");
    if (!bound)
        ctl_send(CAY_G_READY, &hello, sizeof hello, NULL, 0);

    int rc = bound ? root_check(&res) : binder_wait(binder, &res);
    if (rc == -2)
        _exit(0);
    int scopes = rc == 0 ? cay__landlock_scopes() : 0;
    if (scopes < 0) {
        res.sys = -scopes;
        cay__str_copy(res.step, sizeof res.step, "landlock");
        rc = -1;
    }
    ctl_send(CAY_G_BOUND, &res, sizeof res, NULL, 0);
    if (rc < 0)
        _exit(1);
    G.bound = true;
    if (bound)
        warm_up();
    loop();
}
