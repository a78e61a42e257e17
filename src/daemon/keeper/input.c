/* SPDX-License-Identifier: Apache-2.0 */
/* What a command is given while it runs: its standard input, the size of its terminal, signals. */
#include "keeper.h"
#include <signal.h>
#include <sys/ioctl.h>

void proc_drop_stdin(keeper_proc *p)
{
    if (p->in.fd < 0)
        return;
    if (p->in.events)
        cay__loop_del(&keeper.loop, &p->in);
    cay__close_fd(&p->in.fd);
    p->in.events = 0;
}

static void on_writable(cay__watch *w, uint32_t ev)
{
    keeper_proc *p = CAY__OWNER(w, keeper_proc, in);
    ssize_t n = 0;
    while (p->in_at < p->in_len &&
           (n = write(w->fd, p->in_data + p->in_at, p->in_len - p->in_at)) > 0)
        p->in_at += (size_t)n;
    bool watched = w->events, again = n < 0 && errno == EAGAIN;
    if (again)
        w->events = EPOLLOUT;
    else
        w->events = 0;
    if (again && !watched)
        cay__loop_add(&keeper.loop, w);
    if (again)
        return;
    if (watched)
        cay__loop_del(&keeper.loop, w);
    client *c = p->writer;
    p->writer = NULL;
    free(p->in_data);
    p->in_data = NULL;
    if (p->in_at == p->in_len)
        reply_ok(c);
    else
        reply_error(c, CAY_ESTATE, errno, "stdin_closed", "the process no longer reads its input",
                    NULL);
}

void proc_write(const request *r)
{
    keeper_proc *p = r->p;
    if ((p->in.fd < 0 || p->ended) &&
        !reply_refused(r->c, CAY_ESTATE, "stdin_closed", "stdin of this process is not open"))
        return;
    if (p->writer &&
        !reply_refused(r->c, CAY_EBUSY, "stdin_busy", "another write to this process is under way"))
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

void proc_close_stdin(keeper_proc *p)
{
    if (p->flags & CAY_SPAWN_TTY) {
        (void)!write(p->in.fd, "\4", 1); /* end of transmission; nothing where it is closed */
        return;
    }
    proc_drop_stdin(p);
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
