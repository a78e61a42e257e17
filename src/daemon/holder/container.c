/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services and sudo in a container: daemon/init/services.c and daemon/init/sudo.c, the code of
 * native sandboxes, on the holder of provider/local. What they ask init for, a command and word of
 * its end, is done here by a reaper of its own for each (daemon/holder/child.h), and what they tell
 * the keeper becomes an event.
 */
#include <base/base.h>
#include <daemon/init/plan.h>
#include <daemon/init/sudo.h>
#include <daemon/init/services.h>
#include <poll.h>
#include "child.h"
#include "host.h"
#include <signal.h>
#include <sys/socket.h>

/* One command of theirs; it lives until nothing is left below its reaper. */
typedef struct run run;
struct run {
    cay__watch w; /* the reaper's socket */
    gproc *g;     /* of a service; NULL: a health command, or sudo's */
    int pid, status;
    run *next;
};

static struct {
    host *h;
    run *runs;
} inside;

static void run_free(run *r)
{
    CAY_UNLINK(inside.runs, r);
    cay__loop_del(&inside.h->loop, &r->w);
    close(r->w.fd);
    free(r);
}

static holder_proc *proc_of(const gproc *g)
{
    if (g->st.spawn.proc[0])
        return cay__exec_find(inside.h, g->st.spawn.proc);
    return NULL;
}

static void on_run(cay__watch *w, uint32_t events)
{
    run *r = CAY__OWNER(w, run, w);
    child_msg m;
    ssize_t n = cay__fd_recv(w->fd, &m, sizeof m, NULL, NULL, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == ECONNRESET))
        return;
    gproc *g = r->g;
    if (n == sizeof m && m.op == CHILD_EXITED) {
        int pid = r->pid;
        r->status = m.a;
        r->pid = 0;
        if (g)
            service_main_ended(g->service, m.a);
        else if (!service_reaped(pid, m.a))
            sudo_reaped(pid, m.a);
        return;
    }
    if (n == sizeof m)
        return;
    /* Nothing of it is left; where its reaper was killed, nothing is known of its end. */
    int pid = r->pid, status = pid ? SIGKILL : r->status;
    if (pid)
        tree_signal(pid, SIGKILL, true);
    run_free(r);
    if (g) {
        holder_proc *p = proc_of(g);
        g->shim = 0;
        if (p)
            p->lead = 0;
        service_died(g->service, status);
    } else if (pid && !service_reaped(pid, status)) {
        sudo_reaped(pid, status);
    }
}

static int start_run(plan *p, const char *blob, size_t len, int *master, const char **step)
{
    exec_own o = { .flags = p->m->flags & CAY_SPAWN_SHELL,
                   .argc = p->m->argc,
                   .envc = p->m->envc,
                   .io = { p->io[0], p->io[1], p->io[2] },
                   .ctty = p->slave };
    int ctl = -1, shim = 0;
    int pid = cay__exec_own(inside.h, &o, blob, len, &ctl, &shim, step), sys = errno;
    cay__close_fd(&p->slave);
    if (pid < 0) {
        errno = sys;
        return -1;
    }
    run *r = cay__alloc(sizeof *r);
    *r = (run){ .w = { .fd = ctl, .events = EPOLLIN, .fn = on_run },
                .g = p->g,
                .pid = pid,
                .next = inside.runs };
    inside.runs = r;
    cay__loop_add(&inside.h->loop, &r->w);
    if (p->g)
        p->g->shim = shim;
    return pid;
}

static run *run_of(const gproc *g)
{
    run *r = inside.runs;
    while (r && r->g != g)
        r = r->next;
    return r;
}

/* What a service is to the outside. */
static gproc all[CAY_SERVICES_MAX];

static gproc *service_proc_new(const char *id)
{
    CAY_EACH(it, all)
        if (!it->used) {
            *it = (gproc){ .used = true, .fds = { -1, -1, -1, -1, -1 } };
            return it;
        }
    return NULL;
}

static void service_proc_drop(gproc *g)
{
    CAY_EACH(it, g->fds)
        cay__close_fd(it);
    g->used = false;
}

static void service_proc_tell(gproc *g)
{
    const cay_g_spawn *m = &g->st.spawn;
    run *r = run_of(g);
    holder_proc *p = proc_of(g);
    if (!p)
        p = cay__exec_adopt(inside.h, m->proc, m->tag, m->title, m->flags, &g->fds[1]);
    p->pid = g->st.exit.pid;
    if (r)
        p->lead = r->w.fd;
    else
        p->lead = 0;
}

static void service_proc_ended(gproc *g, int status, const struct rusage *ru)
{
    holder_proc *p = proc_of(g);
    if (p)
        cay__exec_adopted_end(p, status);
    service_proc_drop(g);
}

static void service_proc_signal(gproc *g, int sig, int scope)
{
    child_msg m = { .op = CHILD_SIGNAL, .a = sig, .b = scope };
    run *r = run_of(g);
    if (r)
        cay__fd_send(r->w.fd, &m, sizeof m, NULL, 0, MSG_DONTWAIT);
}

static void send_event(uint16_t type, const void *body, size_t len, const int *fds, int nfds)
{
    cay_g_result m;
    memcpy(&m, body, CAY_MIN(len, sizeof m));
    m.proc[sizeof m.proc - 1] = m.step[sizeof m.step - 1] = 0;
    if (m.proc[0])
        cay__conn_event(inside.h, m.sys ? "sudo" : "service", m.step, m.proc, m.pid);
}

static void run_loop_step(host *h)
{
    struct pollfd p[2 + SUDO_VISITS] = { { .fd = h->loop.ep, .events = POLLIN } };
    int n = 0;
    if (!h->stopping)
        n = sudo_poll(p + 1);
    int ms = -1;
    if (!h->stopping)
        ms = min_timeout(services_wait(), sudo_wait());
    if (h->loop.timers)
        ms = min_timeout(ms,
                         (int)CAY_MAX(CAY_MIN(h->loop.timers->at_ms - cay__boot_ms(), 60000), 0));
    if (poll(p, 1 + (nfds_t)n, ms) < 0)
        n = 0;
    cay__loop_step(&h->loop, 0);
    if (h->stopping)
        return;
    if (n)
        sudo_ready(p + 1, n);
    services_step();
}

static void on_services_request(host *h, const char *name, uint32_t op, int *fds, int nfds)
{
    cay_g_proc m = { .a = op };
    CAY_COPY(m.proc, name);
    services_ask(&m, fds, nfds);
    services_step();
}

static const init_ops container_ops = {
    .proc_new = service_proc_new,
    .proc_drop = service_proc_drop,
    .proc_tell = service_proc_tell,
    .proc_ended = service_proc_ended,
    .proc_signal = service_proc_signal,
    .start = start_run,
    .tell = send_event,
};

void cay__inside_open(host *h, const char *services, size_t len)
{
    inside.h = h;
    init.ops = &container_ops;
    init.tenant[0] = init.tenant[1] = -1;
    init.procs = all;
    uint32_t flags = services_config(services, len);
    if (h->again &&
        !(flags & CAY_GUF_EACH)) /* what was to wait for has been done in its first life */
        services_ask(&(cay_g_proc){ .a = CAY_GU_START }, NULL, 0);
    if (flags & CAY_GUF_SUDO) {
        init.buf = cay__alloc(CAY_MSG_MAX);
        static const char *const former[] = { SUDO_BIN "/sudo", SUDO_BIN "/su", SUDO_SOCKET };
        CAY_EACH(it, former)
            unlink(*it);
        sudo_open();
    }
    h->turn = run_loop_step;
    h->services = on_services_request;
}
