/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that were started: their ends, signals, time and input. */
#include "host.h"
#include <base/proctree.h>
#include <base/base.h>
#include <cay/sandbox.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { KEPT = 64, GRACE_MS = 1000, LINGER_MS = 150 };

holder_proc *cay__exec_find(host *h, const char *ref)
{
    for (int live = 1; live >= 0; live--) /* a number or tag may be used again: the living first */
        CAY_EACH_LINK(p, h->procs)
            if (p->running && !p->reaped == live &&
                (strcmp(p->id, ref) == 0 || cay__ref_names(ref, p->tag, p->pid)))
                return p;
    return NULL;
}

int cay__exec_live(const host *h)
{
    int n = 0;
    CAY_EACH_LINK(p, h->procs)
        n += p->ctl.fd >= 0 || p->lead || (p->reaped && !p->ended);
    return n;
}

static void watch_close(host *h, cay__watch *w)
{
    if (w->fd < 0)
        return;
    cay__loop_del(&h->loop, w);
    close(w->fd);
    w->fd = -1;
}

static void proc_free(holder_proc *p)
{
    host *h = p->h;
    CAY_UNLINK(h->procs, p);
    while (p->waiters)
        cay__waiter_drop(&p->waiters, p->waiters->to);
    watch_close(h, &p->ctl);
    cay__input_close(&p->in);
    cay__stream_close(&p->out[0]);
    cay__stream_close(&p->out[1]);
    cay__timer_cancel(&p->timeout);
    cay__timer_cancel(&p->kill);
    cay__timer_cancel(&p->linger);
    free(p->labels);
    free(p);
}

void cay__exec_free_all(host *h)
{
    while (h->procs)
        proc_free(h->procs);
}

/* The oldest that ended and left nothing go when there are too many. */
static void evict_oldest_proc(host *h)
{
    holder_proc *oldest = NULL;
    int n = 0;
    CAY_EACH_LINK(p, h->procs)
        if (p->ended && p->ctl.fd < 0 && !p->out[0].readers && !p->out[1].readers) {
            oldest = p;
            n++;
        }
    if (n > KEPT)
        proc_free(oldest);
}

void cay__exec_forget_conn(host *h, const holder_conn *c)
{
    cay__waiter_drop(&h->waiters, c->w.fd);
    CAY_EACH_LINK(p, h->procs) {
        cay__waiter_drop(&p->waiters, c->w.fd);
        if (p->starter == c->w.fd)
            p->starter = -1;
        cay__input_forget(&p->in, c->w.fd);
    }
}

/* Tells the exit once, when both streams have ended or their time is up. */
static void finish_proc(holder_proc *p)
{
    host *h = p->h;
    if (p->ended)
        return;
    p->ended = true;
    cay__timer_cancel(&p->linger);
    CAY_EACH_OF(it, p->out, 2)
        cay__stream_end(it);
    p->exit.lost_out = p->out[0].lost;
    p->exit.lost_err = p->out[1].lost;
    cay__input_close(&p->in);
    cay__waiters_tell(&p->waiters, CAY_MSG_EXIT, &p->exit, sizeof p->exit);
    if (strcmp(p->exit.reason, "time") == 0)
        cay__conn_event(h, "limit", "time", p->id, 0);
    cay__conn_event(h, "exit", p->exit.reason, p->id, p->exit.code);
    cay__host_used(h);
    evict_oldest_proc(h);
}

static bool streams_over(const holder_proc *p)
{
    return p->out[0].w.fd < 0 && p->out[1].w.fd < 0;
}

static void on_source_ended(holder_stream *s)
{
    holder_proc *p = s->owner;
    if (p->reaped && streams_over(p))
        finish_proc(p);
}

const holder_stream_ops cay__exec_stream_ops = { .source_ended = on_source_ended };

void cay__exec_on_linger(cay__timer *t)
{
    finish_proc(CAY__OWNER(t, holder_proc, linger));
}

void cay__exec_on_exit_status(holder_proc *p, const child_msg *m)
{
    const char *how = WIFSIGNALED(m->a) ? "signal" : "exit";
    cay__exit_set(&p->exit, p->id, m->a, CAY_OR(p->why, how), m->c, m->d);
    p->reaped = true;
    cay__timer_cancel(&p->timeout);
    if (streams_over(p))
        finish_proc(p);
    else
        cay__timer_after(&p->h->loop, &p->linger, LINGER_MS);
}

static void send_signal(holder_proc *p, int sig, cay_scope scope)
{
    child_msg m = { .op = CHILD_SIGNAL, .a = sig, .b = (int)scope };
    int fd = CAY_OR(p->lead, p->ctl.fd);
    if (fd < 0)
        return;
    cay__fd_send(fd, &m, sizeof m, NULL, 0, MSG_DONTWAIT);
    if (p->reaper &&
        p->ctl.fd >= 0) /* the command may have stopped it: then a time-out would wait with it */
        kill(p->reaper, SIGCONT);
}

bool cay__exec_signal(holder_proc *p, int sig, cay_scope scope)
{
    if ((p->ctl.fd < 0 && !p->lead) || (p->reaped && scope != CAY_SCOPE_TREE))
        return false;
    send_signal(p, sig, scope);
    return true;
}

void cay__exec_on_kill(cay__timer *t)
{
    send_signal(CAY__OWNER(t, holder_proc, kill), SIGKILL, CAY_SCOPE_TREE);
}

void cay__exec_on_timeout(cay__timer *t)
{
    holder_proc *p = CAY__OWNER(t, holder_proc, timeout);
    p->why = "time";
    send_signal(p, SIGTERM, CAY_SCOPE_TREE);
    if (p->h->meta.state != CAY_PAUSED)
        send_signal(p, SIGCONT, CAY_SCOPE_TREE); /* a stopped one would not hear it */
    cay__timer_after(&p->h->loop, &p->kill, GRACE_MS);
}

/* In a container nothing outlives its pid 1. */
static void write_journal(host *h, int pid, uint64_t start)
{
    uint64_t rec[2] = { (uint64_t)pid, start };
    if (h->journal >= 0 && !h->who && write(h->journal, rec, sizeof rec) != sizeof rec)
        return; /* only what a killed cay-local would leave is harder to find */
}

static void on_started(holder_proc *p, const child_msg *m)
{
    host *h = p->h;
    p->pid = m->a;
    p->start = m->c;
    p->running = true;
    write_journal(h, p->pid, m->c);
    cay__conn_send_proc(p->starter, p);
    p->starter = -1;
    cay__conn_event(h, "exec", "", p->id, 0);
}

static void on_failed(holder_proc *p, const child_msg *m)
{
    char step[sizeof m->text], msg[216];
    CAY_COPY(step, m->text);
    int code = CAY_ENOENT;
    if (m->a != ENOENT)
        code = cay_code_of_errno(m->a);
    const char *why;
    if (strcmp(step, "exec") != 0)
        why = step;
    else if (m->a == ENOENT)
        why = "command_not_found";
    else
        why = "command_not_started";
    CAY_FORMAT(msg, "%s: %s", step, strerror(m->a));
    cay__answer_error(p->starter, code, m->a, why, msg, NULL);
    proc_free(p);
}

void cay__exec_on_ctl(cay__watch *w, uint32_t events)
{
    holder_proc *p = CAY__OWNER(w, holder_proc, ctl);
    child_msg m;
    ssize_t n = cay__fd_recv(w->fd, &m, sizeof m, NULL, NULL, MSG_DONTWAIT);
    /* A reaper that left an order of ours unread is told by ECONNRESET first; what it said comes
     * after. */
    if (n < 0 && (errno == EAGAIN || errno == ECONNRESET))
        return;
    if (n == sizeof m && m.op == CHILD_STARTED) {
        on_started(p, &m);
    } else if (n == sizeof m && m.op == CHILD_FAILED) {
        on_failed(p, &m);
    } else if (n == sizeof m && m.op == CHILD_EXITED) {
        cay__exec_on_exit_status(p, &m);
    } else { /* no process is left below the reaper */
        watch_close(p->h, &p->ctl);
        cay__timer_cancel(&p->kill);
        if (!p->running) {
            m = (child_msg){ .op = CHILD_FAILED, .a = ECHILD, .text = "reaper" };
            on_failed(p, &m);
        } else if (!p->reaped) {
            /* Somebody killed the reaper. What it held is ours now and ends with us at the latest.
             */
            cay__tree_kill_exact(p->pid, p->start, SIGKILL);
            m = (child_msg){ .a = SIGKILL };
            p->why = "lost";
            cay__exec_on_exit_status(p, &m);
        }
    }
}

bool cay__exec_resize(holder_proc *p, uint16_t cols, uint16_t rows)
{
    struct winsize ws = { .ws_col = cols, .ws_row = rows };
    return p->in.w.fd >= 0 && ioctl(p->in.w.fd, TIOCSWINSZ, &ws) == 0;
}
