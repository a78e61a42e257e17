/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>

#define GRACE_MS  1000 /* between TERM and KILL */
#define SETTLE_MS 200  /* a background child may hold the pipe for so long */

/* ---- life of the record ---- */

static proc **bucket(const char *id)
{
    return &K.procs[cay__hash(id, CAY__ID_LEN) % CAY_LEN(K.procs)];
}

proc *proc_new(box *b, const char *id)
{
    proc *p = cay__alloc(sizeof *p);
    p->b = b;
    cay__str_copy(p->id, sizeof p->id, id);
    p->group.dir = p->group.procs = p->in.fd = -1;
    for (int i = 0; i < 2; i++) {
        p->out[i].p = p;
        p->out[i].which = i;
        p->out[i].w.fd = p->out[i].ring.fd = -1;
    }
    p->next = b->procs;
    *(b->procs ? &b->procs->newer : &b->oldest) = p;
    b->procs = p;
    b->nprocs++;
    p->same = *bucket(id);
    *bucket(id) = p;
    return p;
}

void proc_label(proc *p, const char *labels, size_t n)
{
    p->nlabels = CAY_MIN(n, CAY_LABELS_MAX);
    p->labels = p->nlabels ? cay__alloc(p->nlabels) : NULL;
    if (p->labels)
        memcpy(p->labels, labels, p->nlabels);
}

/* A service is no use of the sandbox: one that does nothing else is idle. */
void proc_count(proc *p, int by)
{
    p->b->nlive += p->started && !(p->flags & CAY_SPAWN_UNIT) ? (unsigned)by : 0;
}

static void drop_stdin(proc *p)
{
    if (p->in.fd < 0)
        return;
    if (p->in.events)
        cay__loop_del(&K.loop, &p->in);
    cay__close_fd(&p->in.fd);
    p->in.events = 0;
}

void proc_free(proc *p)
{
    *(p->newer ? &p->newer->next : &p->b->procs) = p->next;
    *(p->next ? &p->next->newer : &p->b->oldest) = p->newer;
    proc **at = bucket(p->id);
    while (*at != p)
        at = &(*at)->same;
    *at = p->same;
    p->b->nprocs--;
    if (!p->ended)
        proc_count(p, -1);
    cay__timer_cancel(&p->timer);
    drop_stdin(p);
    free(p->in_data);
    free(p->labels);
    stream_close(&p->out[0]);
    stream_close(&p->out[1]);
    cgroup_exec_remove(p);
    cay__close_fd(&p->group.dir);
    cay__close_fd(&p->group.procs);
    for (waiter *w = p->waiters, *next; w; w = next) {
        next = w->next;
        reply_error(w->c, CAY_EGONE, 0, "process_gone", "the process is no longer kept", NULL);
        free(w);
    }
    free(p);
}

/* Room for one more: commands that ended longest ago are forgotten. */
static bool make_room(box *b)
{
    while (b->nprocs >= PROCS_MAX || b->kept > KEPT_MAX) {
        proc *victim = b->oldest;
        while (victim && (!victim->settled || victim->waiters))
            victim = victim->newer;
        if (!victim)
            return b->nprocs < PROCS_MAX && b->kept < 4 * KEPT_MAX;
        if (b->forget[0])
            box_tell(b, CAY_G_FORGET, b->forget, 0, 0, -1);
        memcpy(b->forget, victim->id, sizeof b->forget);
        proc_free(victim);
    }
    return true;
}

proc *proc_find(box *b, const char *ref)
{
    uint64_t pid = 0;
    bool number = cay__str_to_u64(ref, &pid);
    proc *ended = NULL;
    if (cay__id_valid(ref, 'p')) {
        for (ended = *bucket(ref); ended && (ended->b != b || strcmp(ended->id, ref));)
            ended = ended->same;
        return ended;
    }
    for (proc *p = b->procs; p; p = p->next) {
        if ((number && (uint64_t)p->pid == pid) || (p->tag[0] && !strcmp(p->tag, ref))) {
            if (!p->ended)
                return p;
            ended = ended ? ended : p;
        }
    }
    return ended;
}

void proc_reply(client *c, const proc *p)
{
    char tail[sizeof p->tag + sizeof p->title + 1 + CAY_LABELS_MAX];
    cay_m_proc m = { .pid = p->pid, .flags = p->flags, .started_ms = p->started_ms, .ended = p->settled ? p->ran : 0, .told = p->settled, .exit = p->exit };
    memcpy(m.proc, p->id, sizeof m.proc);
    size_t a = strlen(p->tag) + 1, b = strlen(p->title) + 1;
    memcpy(tail, p->tag, a);
    memcpy(tail + a, p->title, b);
    tail[a + b] = 0; /* the user: init knows */
    if (p->labels)
        memcpy(tail + a + b + 1, p->labels, p->nlabels);
    reply(c, CAY_MSG_PROC, &m, sizeof m, tail, a + b + 1 + p->nlabels);
}

/* ---- starting ---- */

void proc_answer(client *c, proc *p, uint32_t flags)
{
    proc_reply(c, p);
    if ((flags & CAY_SPAWN_WAIT) && !p->settled)
        waiter_add(&p->waiters, c, false);
}

static void answer_starter(proc *p)
{
    client *c = p->starter;
    p->starter = NULL;
    if (c)
        proc_answer(c, p, p->flags);
}

/* One pipe for each of stdin, stdout and stderr that is to have one. */
static void close_pipes(int io[6])
{
    for (int i = 0; i < 6; i++)
        cay__close_fd(&io[i]);
}

static bool make_pipes(uint32_t flags, int io[6])
{
    memset(io, -1, 6 * sizeof *io);
    for (int i = flags & CAY_SPAWN_STDIN ? 0 : 2; i < 6 && !(flags & CAY_SPAWN_TTY); i += 2)
        if (pipe2(io + i, O_CLOEXEC) < 0) {
            close_pipes(io);
            return false;
        }
    return true;
}

static bool well_formed(const cay_m_spawn *m, size_t tail, int nfds)
{
    int want = !!(m->flags & CAY_SPAWN_OUT) + !!(m->flags & CAY_SPAWN_ERR) + !!(m->flags & CAY_SPAWN_BLOB_FD);
    size_t strings = m->flags & CAY_SPAWN_BLOB_FD ? 0 : m->blob;
    return cay__id_valid(m->proc, 'p') && nfds == want && memchr(m->tag, 0, sizeof m->tag) &&
           memchr(m->title, 0, sizeof m->title) && m->blob <= CAY_BLOB_MAX &&
           tail >= strings && tail - strings <= CAY_LABELS_MAX && m->argc >= 1 && m->argc <= m->blob && m->envc <= m->blob && m->ring <= RING_MAX &&
           !(m->flags & ~(uint32_t)CAY_SPAWN_ALL);
}

/* Sends SPAWN to init: the child's ends, the ends init holds for the next keeper, the group, the blob. */
static bool send_spawn(proc *p, const cay_m_spawn *m, const char *tail, size_t len, const int io[6], int blob)
{
    struct {
        cay_msg     h;
        cay_g_spawn m;
    } head = { { CAY_MSG_MAGIC, CAY_INIT_VERSION, CAY_G_SPAWN, (uint32_t)len, 0 }, { .flags = 0 } };
    int fds[9], n = 0;
    cay_g_spawn *g = &head.m;
    memcpy(g->proc, p->id, sizeof g->proc);
    memcpy(g->tag, p->tag, sizeof g->tag);
    memcpy(g->title, p->title, sizeof g->title);
    g->flags = p->flags;
    g->cols = m->cols;
    g->rows = m->rows;
    g->argc = m->argc;
    g->envc = m->envc;
    g->blob = m->blob;
    g->ring = p->ring_bytes;
    g->timeout_ms = m->timeout_ms;
    g->deadline = p->timer.at_ms;
    g->started_ms = p->started_ms;
    g->group = p->group.dir >= 0 ? p->group.number : 0;
    memcpy(g->forget, p->b->forget, sizeof g->forget);
    const struct {
        int      fd;
        uint32_t flag;
    } list[] = {
        { io[0], CAY_GS_IN },              { io[3], CAY_GS_OUT },         { io[5], CAY_GS_ERR },
        { io[1], CAY_GS_HOLD_IN },         { io[2], CAY_GS_HOLD_OUT },    { io[4], CAY_GS_HOLD_ERR },
        { p->group.procs, CAY_GS_GROUP },  { p->group.dir, CAY_GS_INTO }, { blob, 0 },
    };
    for (size_t i = 0; i < CAY_LEN(list); i++)
        if (list[i].fd >= 0) {
            fds[n++] = list[i].fd;
            g->flags |= list[i].flag;
        }
    if (m->timeout_ms && p->b->tenant_fd < 0)
        g->flags |= CAY_GS_REAPER;
    struct iovec iov[2] = { { &head, sizeof head }, { (void *)tail, len } };
    if (cay__fd_sendv(p->b->ctl.fd, iov, 2, fds, n, 0) < 0)
        return false;
    p->b->forget[0] = 0;
    return true;
}

void proc_open_io(proc *p, int in, int out, int err)
{
    if (in >= 0) {
        p->in = (cay__watch){ .fd = in };
        cay__fd_nonblock(in, true);
    }
    if (out >= 0)
        stream_open(&p->out[0], out);
    if (err >= 0)
        stream_open(&p->out[1], err);
}

/* Readers that come along. */
static void attach_readers(proc *p, uint32_t flags, int *fds, int nfds)
{
    static const uint32_t bits[] = { CAY_SPAWN_OUT, CAY_SPAWN_ERR };
    cay_m_data d;
    for (int i = 0, at = 0; i < 2; i++)
        if ((flags & bits[i]) && at < nfds)
            stream_attach(&p->out[i], 0, CAY_STEAL_FD(fds[at++]), &d);
}

void proc_spawn(const request *r)
{
    client *c = r->c;
    box *b = r->b;
    const cay_m_spawn *m = r->body;
    if ((b->state != CAY_RUNNING || b->pausing) && !reply_error(c, CAY_ESTATE, 0, "sandbox_paused", "the sandbox is paused; resume it first", NULL))
        return;
    proc *old = proc_find(b, m->proc);
    if (old) { /* asked again after a lost answer */
        attach_readers(old, m->flags, r->fds, r->nfds);
        if (old->started)
            proc_answer(c, old, m->flags);
        else
            old->starter = c;
        return;
    }
    bool good = well_formed(m, r->tail_len, r->nfds); /* first of all: only then is the tag a string */
    old = good && m->tag[0] ? proc_find(b, m->tag) : NULL;
    if (!good || (old && !old->ended) || !make_room(b)) {
        bool tag = old && !old->ended;
        reply_error(c, !good ? CAY_EINVAL : tag ? CAY_EEXIST : CAY_ENOSPACE, 0, !good ? "bad_request" : tag ? "tag_in_use" : "processes_full",
                    !good ? "the spawn request is not well-formed" : tag ? "a running process has this tag already"
                          : "512 commands run in this sandbox, or too much output of running ones is kept; end some", NULL);
        return;
    }
    int io[6];
    if (!make_pipes(m->flags, io) && !reply_error(c, CAY_ENOSPACE, errno, "", "no descriptors left for pipes", NULL))
        return;
    proc *p = proc_new(b, m->proc);
    cay__str_copy(p->tag, sizeof p->tag, m->tag);
    cay__str_copy(p->title, sizeof p->title, m->title);
    size_t strings = m->flags & CAY_SPAWN_BLOB_FD ? 0 : m->blob;
    proc_label(p, r->tail + strings, r->tail_len - strings);
    p->flags = m->flags;
    p->ring_bytes = m->ring ? CAY_MAX((m->ring + 4095u) & ~4095u, 4096u) : RING_DEFAULT;
    p->started_ms = cay__wall_ms();
    p->starter = c;
    if (m->timeout_ms) {
        cgroup_exec_make(p);
        proc_arm(p, m->timeout_ms);
    }
    CAY_FAULT("keeper.spawn.send");
    bool sent = send_spawn(p, m, r->tail, r->tail_len, io, m->flags & CAY_SPAWN_BLOB_FD ? r->fds[r->nfds - 1] : -1);
    CAY_FAULT("keeper.spawn.sent");
    proc_open_io(p, CAY_STEAL_FD(io[1]), CAY_STEAL_FD(io[2]), CAY_STEAL_FD(io[4]));
    close_pipes(io);
    attach_readers(p, m->flags, r->fds, r->nfds);
    if (!sent) {
        int e = errno;
        reply_error(c, e == EAGAIN ? CAY_EBUSY : CAY_EGONE, e, "", "init does not answer", NULL);
        proc_free(p);
    }
}

static void begin(proc *p, int pid)
{
    p->started = true;
    p->pid = pid;
    proc_count(p, 1);
    event_send(p->b->id, "exec", "", p->id, 0);
}

void proc_started(box *b, const cay_g_result *r, int *fds, int nfds)
{
    char id[CAY_WIRE_ID], step[32];
    cay__str_copy(id, sizeof id, r->proc);
    cay__str_copy(step, CAY__MUTANT("fuzz-init_msg") ? 2 * sizeof step : sizeof step, r->step);
    proc *p = proc_find(b, id);
    if (!p || p->started)
        return;
    if (r->sys) {
        bool exec = !strcmp(step, "exec"), cwd = !strcmp(step, "cwd"), user = !strcmp(step, "user");
        int code = r->sys == ENOENT || r->sys == ENOTDIR ? CAY_ENOENT : cay_code_of_errno(r->sys);
        reply_error(p->starter, code, r->sys, exec ? "exec_failed" : cwd ? "cwd_failed" : user ? "user_unknown" : "spawn_failed",
                    exec   ? (r->sys == ENOENT ? "no such command in the sandbox" : "the command cannot be executed")
                    : cwd  ? "the working directory cannot be entered"
                    : user ? (r->sys == EPERM ? "only the sandbox's one user exists here; other users need sub-ids, see /etc/subuid"
                                              : "no such user in the sandbox")
                           : "the command could not be started",
                    cwd ? strerror(r->sys) : exec || user ? NULL : step);
        proc_free(p);
        box_spawned(b);
        return;
    }
    begin(p, r->pid);
    if ((p->flags & CAY_SPAWN_TTY) && nfds == 1) {
        int in = fcntl(fds[0], F_DUPFD_CLOEXEC, 3); /* one watch a descriptor */
        proc_open_io(p, in, CAY_STEAL_FD(fds[0]), -1);
    }
    stream_resume(&p->out[0]);
    stream_resume(&p->out[1]);
    CAY_FAULT("keeper.spawn.answer");
    answer_starter(p);
    box_spawned(b);
}

/* ---- ending ---- */

/* Which limit, if any, ended it: read only when something went wrong. */
static const char *why(proc *p, int status)
{
    box *b = p->b;
    cay_m_usage u = { 0 };
    if (p->exit.reason[0]) /* as the last keeper saw it */
        return p->exit.reason;
    if (p->killing)
        return "time";
    if (status == 0)
        return "exit";
    cgroup_usage(b, &u);
    bool oom = u.oom_kills > b->oom_seen, pids = u.pids_hits > b->pids_seen;
    b->oom_seen = u.oom_kills;
    b->pids_seen = u.pids_hits;
    if (oom && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return "oom";
    if (oom)
        event_send(b->id, "limit", "oom", p->id, 0);
    if (pids)
        event_send(b->id, "limit", "pids", p->id, 0);
    if (pids)
        return "pids";
    bool full = disk_look(b);
    if (full)
        event_send(b->id, "limit", "disk", p->id, 0);
    if (full || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) || b->disk_used > b->limits.disk / 64 * 63)
        return "disk";
    return oom ? "oom" : WIFSIGNALED(status) ? "signal" : "exit";
}

/* Tells the exit once the output is in, or 200 ms later. */
void proc_settle(proc *p)
{
    bool over = p->out[0].w.fd < 0 && p->out[1].w.fd < 0;
    if (!p->ended || (!over && !p->settled))
        return;
    bool first = !p->settled;
    p->settled = true;
    CAY_FAULT("keeper.exit.tell");
    cay__timer_cancel(&p->timer);
    p->exit.lost_out = p->out[0].lost;
    p->exit.lost_err = p->out[1].lost;
    stream_feed(&p->out[0]);
    stream_feed(&p->out[1]);
    for (waiter *w = p->waiters, *next; w; w = next) {
        next = w->next;
        reply(w->c, CAY_MSG_EXIT, &p->exit, sizeof p->exit, NULL, 0);
        free(w);
    }
    p->waiters = NULL;
    if (first)
        deadline_touch(p->b);
}

static void settle_now(proc *p)
{
    stream_drain(&p->out[0]);
    stream_drain(&p->out[1]);
    p->settled = true;
    proc_settle(p);
}

static void on_settle(cay__timer *t)
{
    settle_now((proc *)((char *)t - offsetof(proc, timer)));
}

static void end_with(proc *p, int status, const char *reason, uint64_t cpu, uint64_t rss)
{
    memcpy(p->exit.proc, p->id, sizeof p->exit.proc);
    p->exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    p->exit.code = p->exit.signal ? 128 + p->exit.signal : WEXITSTATUS(status);
    p->exit.cpu_us = cpu;
    p->b->cpu_us += cpu;
    p->exit.max_rss = rss;
    cay__str_copy(p->exit.reason, sizeof p->exit.reason, reason);
    p->ended = true;
    p->ran = (uint32_t)CAY_MIN(CAY_MAX(cay__wall_ms() - p->started_ms, 0), INT32_MAX) + 1;
    proc_count(p, -1);
    drop_stdin(p);
    if (p->writer)
        reply_error(p->writer, CAY_ESTATE, EPIPE, "stdin_closed", "the process ended before it read everything", NULL);
    p->writer = NULL;
}

void proc_exited(box *b, const cay_g_exit *x)
{
    char id[CAY_WIRE_ID];
    cay__str_copy(id, sizeof id, x->proc);
    proc *p = proc_find(b, id);
    if (!p || p->ended)
        return;
    if (!p->started)
        begin(p, x->pid);
    char reason[sizeof p->exit.reason];
    cay__str_copy(reason, sizeof reason, why(p, x->status));
    end_with(p, x->status, reason, x->cpu_us, x->max_rss);
    if (p->killing) { /* nothing of a timed-out command stays */
        cgroup_exec_kill(p);
        box_tell(p->b, CAY_G_SIGNAL, p->id, SIGKILL, CAY_SCOPE_TREE, -1);
    }
    cgroup_exec_remove(p);
    journal_put(J_EXIT, b, p->id, x->status, reason);
    CAY_FAULT("keeper.exit.recorded");
    event_send(b->id, "exit", reason, p->id, p->exit.code);
    cay__timer_cancel(&p->timer);
    bool a = stream_drain(&p->out[0]), e = stream_drain(&p->out[1]);
    if (a && e) {
        proc_settle(p);
    } else {
        p->timer.fn = on_settle;
        cay__timer_arm(&K.loop, &p->timer, cay__boot_ms() + SETTLE_MS);
        stream_resume(&p->out[0]);
        stream_resume(&p->out[1]);
    }
    answer_starter(p);
    box_spawned(b);
}

void proc_lost(box *b)
{
    for (proc *p = b->procs, *next; p; p = next) {
        next = p->next;
        if (p->starter)
            reply_error(p->starter, CAY_EGONE, 0, "sandbox_gone", "the sandbox ended", NULL);
        p->starter = NULL;
        if (!p->ended)
            end_with(p, SIGKILL, "killed", 0, 0);
        settle_now(p);
    }
}

/* ---- time-outs ---- */

static void on_timeout(cay__timer *t)
{
    proc *p = (proc *)((char *)t - offsetof(proc, timer));
    if (p->ended || (p->killing && CAY__MUTANT("tree-kill")))
        return;
    if (!p->killing) {
        event_send(p->b->id, "limit", "time", p->id, 0);
        journal_put(J_EXIT, p->b, p->id, 0, "time");
        CAY_FAULT("keeper.timeout.term");
    } else {
        CAY_FAULT("keeper.timeout.kill");
        cgroup_exec_kill(p);
    }
    box_tell(p->b, CAY_G_SIGNAL, p->id, p->killing ? SIGKILL : SIGTERM, CAY_SCOPE_TREE, -1);
    p->killing = true;
    cay__timer_arm(&K.loop, &p->timer, cay__boot_ms() + GRACE_MS);
}

void proc_arm(proc *p, uint64_t timeout_ms)
{
    p->timer.fn = on_timeout;
    cay__timer_arm(&K.loop, &p->timer, cay__boot_ms() + (int64_t)CAY_MIN(timeout_ms, (uint64_t)INT64_MAX / 4));
}

/* ---- stdin, size, signals ---- */

static void on_writable(cay__watch *w, uint32_t ev)
{
    proc *p = (proc *)((char *)w - offsetof(proc, in));
    ssize_t n = 0;
    (void)ev;
    while (p->in_at < p->in_len && (n = write(w->fd, p->in_data + p->in_at, p->in_len - p->in_at)) > 0)
        p->in_at += (size_t)n;
    bool watched = w->events, again = n < 0 && errno == EAGAIN;
    w->events = again ? EPOLLOUT : 0;
    if (again && !watched)
        cay__loop_add(&K.loop, w);
    if (again)
        return;
    if (watched)
        cay__loop_del(&K.loop, w);
    client *c = p->writer;
    p->writer = NULL;
    free(p->in_data);
    p->in_data = NULL;
    if (p->in_at == p->in_len)
        reply_ok(c);
    else
        reply_error(c, CAY_ESTATE, errno, "stdin_closed", "the process no longer reads its input", NULL);
}

void proc_write(const request *r)
{
    proc *p = r->p;
    if ((p->in.fd < 0 || p->ended) && !reply_error(r->c, CAY_ESTATE, 0, "stdin_closed", "stdin of this process is not open", NULL))
        return;
    if (p->writer && !reply_error(r->c, CAY_EBUSY, 0, "stdin_busy", "another write to this process is under way", NULL))
        return;
    free(p->in_data); /* of a writer that went away */
    p->in_data = cay__alloc(r->tail_len + 1);
    memcpy(p->in_data, r->tail, r->tail_len);
    p->in_len = r->tail_len;
    p->in_at = 0;
    p->writer = r->c;
    p->in.fn = on_writable;
    CAY_FAULT("keeper.stdin.write");
    on_writable(&p->in, 0);
    CAY_FAULT("keeper.stdin.written");
}

void proc_close_stdin(proc *p)
{
    if (p->flags & CAY_SPAWN_TTY) {
        char eot = 4;
        if (p->in.fd >= 0)
            (void)!write(p->in.fd, &eot, 1);
        return;
    }
    drop_stdin(p);
    box_tell(p->b, CAY_G_CLOSE, p->id, 0, 0, -1);
}

void proc_resize(const request *r)
{
    const cay_m_stream *m = r->body;
    struct winsize ws = { .ws_col = (unsigned short)m->a, .ws_row = (unsigned short)m->b };
    if (!(r->p->flags & CAY_SPAWN_TTY) || r->p->out[0].w.fd < 0 || m->a > 65535 || m->b > 65535 || ioctl(r->p->out[0].w.fd, TIOCSWINSZ, &ws) < 0)
        reply_error(r->c, CAY_ESTATE, 0, "no_tty", "this process has no terminal", NULL);
    else
        reply_ok(r->c);
}

void proc_signal(const request *r)
{
    const cay_m_stream *m = r->body; /* a: the signal, b: its scope */
    if ((m->a > 64 || m->b > CAY_SCOPE_BELOW) && !reply_error(r->c, CAY_EINVAL, 0, "bad_signal", "no such signal or scope", NULL))
        return;
    if (r->p->ended && m->b != CAY_SCOPE_TREE && !reply_error(r->c, CAY_ENOENT, ESRCH, "process_ended", "the process has ended", NULL))
        return;
    if (m->b == CAY_SCOPE_TREE && m->a == SIGKILL)
        cgroup_exec_kill(r->p);
    box_tell(r->p->b, CAY_G_SIGNAL, r->p->id, m->a, m->b, -1);
    reply_ok(r->c);
}

void proc_on_client_gone(client *c)
{
    for (box *b = K.boxes; b; b = b->next)
        for (proc *p = b->procs; p; p = p->next) {
            if (p->starter == c)
                p->starter = NULL;
            if (p->writer == c)
                p->writer = NULL;
            waiter_drop(&p->waiters, c);
        }
}
