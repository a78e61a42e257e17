/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as the keeper has them: the record of each, its input, signals, time, and its end and
 * why. */
#include "keeper.h"
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#define GRACE_MS  1000 /* between TERM and KILL */
#define SETTLE_MS 200  /* a background child may hold the pipe for so long */

static keeper_proc **find_bucket(const char *id)
{
    return &keeper.procs[cay__hash(id, CAY__ID_LEN) % CAY_LEN(keeper.procs)];
}

static void keep_ring(holder_stream *s)
{
    const keeper_proc *p = s->owner;
    box_tell_fd(p->b, CAY_G_KEEP, p->id, (uint64_t)s->which, 0, s->ring.fd);
    CAY_FAULT("keeper.ring.made");
}

static void on_source_ended(holder_stream *s)
{
    proc_settle(s->owner);
}

static const holder_stream_ops stream_ops = { keep_ring, on_source_ended };

keeper_proc *proc_new(keeper_box *b, const char *id)
{
    keeper_proc *p = cay__alloc(sizeof *p);
    p->b = b;
    CAY_COPY(p->id, id);
    p->group.dir = p->group.procs = p->in.w.fd = -1;
    for (int i = 0; i < 2; i++) {
        p->out[i] = (holder_stream){ .ops = &stream_ops,
                                     .loop = &keeper.loop,
                                     .kept = &b->kept,
                                     .owner = p,
                                     .which = i,
                                     .w.fd = -1,
                                     .ring.fd = -1 };
    }
    p->next = b->procs;
    *(b->procs ? &b->procs->newer : &b->oldest) = p;
    b->procs = p;
    b->nprocs++;
    p->same = *find_bucket(id);
    *find_bucket(id) = p;
    return p;
}

void proc_label(keeper_proc *p, const char *labels, size_t n)
{
    p->nlabels = CAY_MIN(n, CAY_LABELS_MAX);
    p->labels = memcpy(cay__alloc(p->nlabels + 1), labels, p->nlabels);
}

/* A service is no use of the sandbox: one that does nothing else is idle. */
void proc_count(keeper_proc *p, int by)
{
    if (p->started && !(p->flags & CAY_SPAWN_UNIT))
        p->b->nlive += (unsigned)by;
}

void proc_free(keeper_proc *p)
{
    *(p->newer ? &p->newer->next : &p->b->procs) = p->next;
    *(p->next ? &p->next->newer : &p->b->oldest) = p->newer;
    keeper_proc **at = find_bucket(p->id);
    while (*at != p)
        at = &(*at)->same;
    *at = p->same;
    p->b->nprocs--;
    if (!p->ended)
        proc_count(p, -1);
    cay__timer_cancel(&p->timer);
    cay__input_close(&p->in);
    free(p->labels);
    cay__stream_close(&p->out[0]);
    cay__stream_close(&p->out[1]);
    cgroup_exec_remove(p);
    cay__close_fd(&p->group.dir);
    cay__close_fd(&p->group.procs);
    while (p->waiters) {
        int to = p->waiters->to;
        cay__answer_error(to, CAY_EGONE, 0, "process_gone", "the process is no longer kept", NULL);
        cay__waiter_drop(&p->waiters, to);
    }
    free(p);
}

keeper_proc *proc_find(keeper_box *b, const char *ref)
{
    keeper_proc *ended = NULL;
    if (cay__id_valid(ref, 'p')) {
        for (ended = *find_bucket(ref); ended && (ended->b != b || strcmp(ended->id, ref));)
            ended = ended->same;
        return ended;
    }
    CAY_EACH_LINK(p, b->procs) {
        if (!cay__ref_names(ref, p->tag, p->pid))
            continue;
        if (!p->ended)
            return p;
        ended = CAY_OR(ended, p);
    }
    return ended;
}

void proc_reply(client *c, const keeper_proc *p)
{
    cay_m_proc m = {
        .pid = p->pid, .flags = p->flags, .started_ms = p->started_ms, .exit = p->exit
    };
    m.told = p->settled;
    if (p->settled)
        m.ended = p->ran;
    memcpy(m.proc, p->id, sizeof m.proc);
    cay__answer_proc(client_fd(c), &m, p->tag, p->title, p->labels, p->nlabels);
}

/* Which limit, if any, ended it: read only when something went wrong. */
static const char *find_exit_reason(keeper_proc *p, int status)
{
    keeper_box *b = p->b;
    cay_m_usage u = { 0 };
    if (p->exit.reason[0]) /* as the last keeper saw it */
        return p->exit.reason;
    if (p->killing || status == 0) {
        if (p->killing)
            return "time";
        return "exit";
    }
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
    if (full || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) ||
        b->disk_used > b->limits.disk / 64 * 63)
        return "disk";
    if (oom)
        return "oom";
    if (WIFSIGNALED(status))
        return "signal";
    return "exit";
}

/* Tells the exit once the output is in, or 200 ms later. */
void proc_settle(keeper_proc *p)
{
    bool over = p->out[0].w.fd < 0 && p->out[1].w.fd < 0;
    if (!p->ended || (!over && !p->settled))
        return;
    bool first = !p->settled;
    p->settled = true;
    CAY_FAULT("keeper.exit.tell");
    cay__timer_cancel(&p->timer);
    cay__stream_end(&p->out[0]);
    cay__stream_end(&p->out[1]);
    p->exit.lost_out = p->out[0].lost;
    p->exit.lost_err = p->out[1].lost;
    cay__waiters_tell(&p->waiters, CAY_MSG_EXIT, &p->exit, sizeof p->exit);
    if (first)
        deadline_touch(p->b);
}

static void settle_now(keeper_proc *p)
{
    p->settled = true;
    proc_settle(p);
}

static void on_settle(cay__timer *t)
{
    settle_now(CAY__OWNER(t, keeper_proc, timer));
}

static void end_with(keeper_proc *p, int status, const char *reason, uint64_t cpu, uint64_t rss)
{
    cay__exit_set(&p->exit, p->id, status, reason, cpu, rss);
    p->b->cpu_us += cpu;
    p->ended = true;
    p->ran = (uint32_t)CAY_MIN(CAY_MAX(cay__clock_ms() - p->started_ms, 0), INT32_MAX) + 1;
    proc_count(p, -1);
    cay__input_close(&p->in);
}

void proc_exited(keeper_box *b, const cay_g_exit *x)
{
    char id[CAY_WIRE_ID];
    CAY_COPY(id, x->proc);
    keeper_proc *p = proc_find(b, id);
    if (!p || p->ended)
        return;
    if (!p->started)
        proc_begin(p, x->pid);
    char reason[sizeof p->exit.reason];
    CAY_COPY(reason, find_exit_reason(p, x->status));
    end_with(p, x->status, reason, x->cpu_us, x->max_rss);
    if (p->killing) { /* nothing of a timed-out command stays */
        cgroup_exec_kill(p);
        box_tell(p->b, CAY_G_SIGNAL, p->id, SIGKILL, CAY_SCOPE_TREE);
    }
    cgroup_exec_remove(p);
    journal_put(J_EXIT, b, p->id, x->status, reason);
    CAY_FAULT("keeper.exit.recorded");
    event_send(b->id, "exit", reason, p->id, p->exit.code);
    cay__timer_cancel(&p->timer);
    bool a = cay__stream_drain(&p->out[0]), e = cay__stream_drain(&p->out[1]);
    if (a && e) {
        proc_settle(p);
    } else {
        p->timer.fn = on_settle;
        arm_timer(&p->timer, SETTLE_MS);
        cay__stream_resume(&p->out[0]);
        cay__stream_resume(&p->out[1]);
    }
    proc_answer_starter(p);
    box_spawned(b);
}

void proc_lost(keeper_box *b)
{
    CAY_EACH_LINK(p, b->procs) {
        if (p->starter)
            reply_refused(p->starter, CAY_EGONE, "sandbox_gone", "the sandbox ended");
        p->starter = NULL;
        if (!p->ended) {
            end_with(p, SIGKILL, strcmp(b->reason, "disk") ? "killed" : "disk", 0, 0);
            event_send(b->id, "exit", p->exit.reason, p->id, p->exit.code);
        }
        settle_now(p);
    }
}

static void on_timeout(cay__timer *t)
{
    keeper_proc *p = CAY__OWNER(t, keeper_proc, timer);
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
    box_tell(p->b, CAY_G_SIGNAL, p->id, p->killing ? SIGKILL : SIGTERM, CAY_SCOPE_TREE);
    p->killing = true;
    arm_timer(&p->timer, GRACE_MS);
}

void proc_arm(keeper_proc *p, uint64_t timeout_ms)
{
    p->timer.fn = on_timeout;
    arm_timer(&p->timer, (int64_t)CAY_MIN(timeout_ms, (uint64_t)INT64_MAX / 4));
}

void proc_on_client_gone(client *c)
{
    CAY_EACH_LINK(b, keeper.boxes)
        CAY_EACH_LINK(p, b->procs) {
            if (p->starter == c)
                p->starter = NULL;
            cay__input_forget(&p->in, c->w.fd);
            cay__waiter_drop(&p->waiters, c->w.fd);
        }
}

void proc_write(const request *r)
{
    if (r->p->in.writes &&
        !reply_refused(r->c, CAY_EBUSY, "stdin_busy", "another write to this process is under way"))
        return;
    CAY_FAULT("keeper.stdin.write");
    cay__input_write(&r->p->in, client_fd(r->c), r->tail, r->tail_len);
    CAY_FAULT("keeper.stdin.written");
}

void proc_close_stdin(keeper_proc *p)
{
    bool terminal = p->flags & CAY_SPAWN_TTY;
    cay__input_end(&p->in, terminal);
    if (!terminal)
        box_tell(p->b, CAY_G_CLOSE, p->id, 0, 0);
}

void proc_resize(const request *r)
{
    const cay_m_stream *m = r->body;
    struct winsize ws = { .ws_col = (unsigned short)m->a, .ws_row = (unsigned short)m->b };
    if (!(r->p->flags & CAY_SPAWN_TTY) || r->p->out[0].w.fd < 0 || m->a > 65535 || m->b > 65535 ||
        ioctl(r->p->out[0].w.fd, TIOCSWINSZ, &ws) < 0)
        reply_refused(r->c, CAY_ESTATE, "no_tty", "this process has no terminal");
    else
        reply_ok(r->c);
}

void proc_signal(const request *r)
{
    const cay_m_stream *m = r->body; /* a: the signal, b: its scope */
    if ((m->a > 64 || m->b > CAY_SCOPE_BELOW) &&
        !reply_refused(r->c, CAY_EINVAL, "bad_signal", "no such signal or scope"))
        return;
    if (r->p->ended && m->b != CAY_SCOPE_TREE &&
        !reply_error(r->c, CAY_ENOENT, ESRCH, "process_ended", "the process has ended", NULL))
        return;
    if (m->b == CAY_SCOPE_TREE && m->a == SIGKILL)
        cgroup_exec_kill(r->p);
    box_tell(r->p->b, CAY_G_SIGNAL, r->p->id, m->a, m->b);
    reply_ok(r->c);
}
