/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"
#include <base/proctree.h>
#include <base/base.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { LOOK_MS = 2000, EPHEMERAL_MS = 1000, CONFIG_MAX = 4 << 20 };

ssize_t cay__host_config(host *h, int dir)
{
    struct stat st;
    CAY_AUTOFD fd = openat(dir, "config", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > CONFIG_MAX ||
        cay__local_meta_read(dir, &h->meta, NULL) < 0)
        return -1;
    h->config = cay__alloc((size_t)st.st_size + 4);
    return cay__fd_read_all(fd, h->config, (size_t)st.st_size);
}

static void save_meta(host *h)
{
    if (h->record >= 0)
        cay__local_meta_put(h->record, &h->meta);
    else
        cay__local_meta_write(h->dir, &h->meta, NULL);
}

void cay__host_box(const host *h, cay_m_boxinfo *out)
{
    *out = (cay_m_boxinfo){ .state = h->meta.state,
                            .pid = getpid(),
                            .procs = (uint32_t)cay__exec_live(h),
                            .created_ms = h->meta.created_ms,
                            .deadline_ms = cay__local_deadline_ms(&h->meta),
                            .idle_ms = h->meta.idle_ms };
    memcpy(out->id, h->id, sizeof out->id);
    memcpy(out->reason, h->meta.reason, sizeof out->reason);
}

const jail *cay__host_jail(host *h)
{
    const local_meta *m = &h->meta;
    if (m->level < CAY_LEVEL_PROCESS)
        return NULL;
    h->jail = (jail){ .root = h->fs.root,
                      .memory = m->memory,
                      .disk = m->disk,
                      .tasks = m->pids ? m->pids + cay__jail_others() : 0 };
    return &h->jail;
}

static void signal_all_procs(host *h, int sig)
{
    CAY_EACH_LINK(p, h->procs)
        cay__exec_signal(p, sig, CAY_SCOPE_TREE);
}

void cay__host_stop(host *h, const char *reason)
{
    if (h->stopping)
        return;
    h->stopping = true;
    CAY_COPY(h->meta.reason, reason);
    CAY_EACH_LINK(p, h->procs)
        if (!p->reaped && !p->why)
            p->why = "killed";
    signal_all_procs(h, SIGKILL);
}

void cay__host_pause(host *h, bool on, bool frozen)
{
    if ((h->meta.state == CAY_PAUSED) == on)
        return;
    if (on ? !frozen : h->stopped)
        signal_all_procs(h, on ? SIGSTOP : SIGCONT);
    h->stopped = on && !frozen;
    if (on)
        h->meta.state = CAY_PAUSED;
    else
        h->meta.state = CAY_RUNNING;
    h->meta.reason[0] = 0;
    save_meta(h);
    cay__conn_event(h, on ? "paused" : "resumed", "", "", 0);
}

static void expire_host(host *h, const char *reason)
{
    cay__conn_event(h, "limit", reason, "", 0);
    if (!(h->meta.flags & LOCAL_EXPIRE_PAUSE)) {
        cay__host_stop(h, reason);
        return;
    }
    cay__host_pause(h, true, false);
    h->meta.deadline_boot = 0;
    CAY_COPY(h->meta.reason, reason);
    save_meta(h);
}

static void arm_timers(host *h)
{
    cay__timer_cancel(&h->deadline);
    cay__timer_cancel(&h->idle);
    if (h->meta.deadline_boot)
        cay__timer_arm(&h->loop, &h->deadline, h->meta.deadline_boot);
    if (h->meta.idle_ms)
        cay__timer_arm(&h->loop, &h->idle, h->used_ms + (int64_t)h->meta.idle_ms);
}

static void on_deadline(cay__timer *t)
{
    expire_host(CAY__OWNER(t, host, deadline), "ttl");
}

/* Idle: no request and no live process for that long. */
static void on_idle(cay__timer *t)
{
    host *h = CAY__OWNER(t, host, idle);
    int64_t at = h->used_ms + (int64_t)h->meta.idle_ms;
    if (cay__exec_live(h) > 0)
        at = cay__boot_ms() + (int64_t)h->meta.idle_ms;
    if (h->meta.state == CAY_PAUSED || !h->meta.idle_ms)
        return;
    if (at > cay__boot_ms())
        cay__timer_arm(&h->loop, t, at);
    else
        expire_host(h, "idle");
}

void cay__host_used(host *h)
{
    h->used_ms = cay__boot_ms();
    if (h->meta.idle_ms && !h->idle.prev)
        arm_timers(h);
}

static int64_t clamp_ms(uint64_t ms)
{
    return (int64_t)CAY_MIN(ms, (uint64_t)INT64_MAX / 4);
}

void cay__host_extend(host *h, uint64_t ttl_ms, uint64_t idle_ms)
{
    if (ttl_ms == UINT64_MAX)
        h->meta.deadline_boot = 0;
    else if (ttl_ms)
        h->meta.deadline_boot = cay__boot_ms() + clamp_ms(ttl_ms);
    if (idle_ms == UINT64_MAX)
        h->meta.idle_ms = 0;
    else if (idle_ms)
        h->meta.idle_ms = (uint64_t)clamp_ms(idle_ms);
    save_meta(h);
    arm_timers(h);
}

/* Our directory was removed, or nobody needs a sandbox that was for one client. */
static void on_look(cay__timer *t)
{
    host *h = CAY__OWNER(t, host, look);
    struct stat st;
    if (fstat(h->dir, &st) < 0 || st.st_nlink == 0 || faccessat(h->dir, "meta", F_OK, 0) < 0)
        cay__host_stop(h, "removed");
    if ((h->meta.flags & LOCAL_EPHEMERAL) && !h->conns && cay__exec_live(h) == 0 &&
        cay__boot_ms() - h->used_ms > EPHEMERAL_MS)
        cay__host_stop(h, "ephemeral");
    CAY_EACH_LINK(p, h->procs)
        CAY_EACH_OF(it, p->out, 2)
            cay__stream_resume(it); /* a reader may have waited too long */
    cay__timer_after(&h->loop, t, LOOK_MS);
}

static void on_listen(cay__watch *w, uint32_t events)
{
    cay__holder_accept(CAY__OWNER(w, host, listen));
}

static void on_signals(cay__watch *w, uint32_t events)
{
    host *h = CAY__OWNER(w, host, signals);
    struct signalfd_siginfo si;
    while (read(w->fd, &si, sizeof si) == sizeof si)
        if (si.ssi_signo == SIGTERM)
            cay__host_stop(h, "killed");
    while (waitpid(-1, NULL, WNOHANG) >
           0) /* reapers; what they had to tell came over their sockets */
        continue;
}

/* What a cay-local that was killed may have left: only processes that are provably the ones it
 * began. */
static void reap_leftovers(host *h)
{
    uint64_t rec[2];
    const char *left = "", *kind = "resumed";
    if (h->record < 0 && faccessat(h->dir, "procs", F_OK, 0) < 0)
        kind = "created";
    if (h->record >= 0) { /* what a container began ended with its first process */
        cay__conn_event(h, h->again ? "resumed" : "created", "", "", 0);
        return;
    }
    h->journal =
        openat(h->dir, "procs", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
               0600); /* a tenant may have put a pipe there */
    if (h->journal < 0)
        return;
    while (read(h->journal, rec, sizeof rec) == sizeof rec) {
        cay__tree_kill_exact((pid_t)rec[0], rec[1], SIGKILL);
        left = "restarted";
    }
    if (ftruncate(h->journal, 0) < 0)
        cay__close_fd(&h->journal);
    cay__conn_event(h, kind, left, "", 0);
}

static bool prepare_host(host *h, int listener)
{
    sigset_t set;
    if (!cay__loop_open(&h->loop))
        return false;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* Once, and not for each command: whoever started us may ignore what a command wants to hear.
     */
    for (int i = 1; i < NSIG; i++)
        if (i != SIGPIPE && i != SIGHUP)
            signal(i, SIG_DFL);
    reap_leftovers(h);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_SETMASK, &set, NULL);
    h->signals =
        (cay__watch){ signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), EPOLLIN, on_signals };
    h->listen = (cay__watch){ listener, EPOLLIN, on_listen };
    cay__fd_nonblock(listener, true);
    h->deadline.fn = on_deadline;
    h->idle.fn = on_idle;
    h->look.fn = on_look;
    h->used_ms = cay__boot_ms();
    if (h->meta.state == CAY_PAUSED) /* what was paused ended with the one before us */
        h->meta.state = CAY_RUNNING;
    save_meta(h);
    arm_timers(h);
    cay__timer_after(&h->loop, &h->look, LOOK_MS);
    return cay__loop_add(&h->loop, &h->signals) && cay__loop_add(&h->loop, &h->listen);
}

/* Processes whose reaper was killed came to us, and file workers have no say: none may stay. */
static void end_children(void)
{
    int64_t until = cay__boot_ms() + 5000;
    while (cay__tree_signal(getpid(), SIGKILL) > 0 && cay__boot_ms() < until) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
        poll(NULL, 0, 2);
    }
}

/* Every process is gone: say so, record it, and let go of the lock last. */
static void shut_down_host(host *h)
{
    h->meta.state = CAY_STOPPED;
    end_children();
    struct stat st;
    if (fstat(h->dir, &st) == 0 && st.st_nlink > 0)
        save_meta(h);
    cay__conn_event(h, "stopped", h->meta.reason, "", 0);
    cay_m_boxinfo gone;
    cay__host_box(h, &gone);
    cay__waiters_tell(&h->waiters, CAY_MSG_BOX, &gone, sizeof gone);
    cay__exec_free_all(h);
    if (h->journal >= 0 && ftruncate(h->journal, 0) < 0)
        cay__close_fd(&h->journal);
    if ((h->meta.flags & LOCAL_EPHEMERAL) && !h->who) {
        CAY_AUTOFD up = openat(h->dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        cay__fs boxes = { .root = up };
        cay__fs_remove(&boxes, h->id, true);
    }
}

int cay__host_run(host *h, int listener)
{
    if (!prepare_host(h, listener))
        return 1;
    while (!h->stopping || cay__exec_live(h) > 0)
        h->turn ? h->turn(h) : cay__loop_step(&h->loop, -1);
    shut_down_host(h);
    cay__conn_refuse(
        &h->listen.fd); /* who waits there may have sent what keeps our exit waiting, too */
    return 0;
}
