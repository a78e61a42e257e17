/* SPDX-License-Identifier: Apache-2.0 */
/* What the keeper says, one packet at a time: each is checked for its length before it is read. */
#include "init.h"
#include "services.h"
#include "sudo.h"
#include <signal.h>
#include <sys/mman.h>

static void on_config(const cay_g_config *m, const char *tail, size_t len, int *fds, int nfds)
{
    for (int i = 0; i < 2 && nfds == 2; i++) {
        cay__close_fd(&init.tenant[i]);
        init.tenant[i] = CAY_STEAL_FD(fds[i]);
    }
    char *copy = mmap(NULL, len + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return;
    memcpy(copy, tail, len); /* the byte after it is 0: every look-up ends */
    if (init.config)
        munmap(init.config, init.config_size);
    init.config = copy;
    init.config_len = len;
    init.config_size = len + 1;
    init.nofile = m->nofile;
    init.fsize = m->fsize;
    init.data = m->as_limit;
    set_limits(m);
    /* Last, because all before it is in the buffer that may be used again. */
    const char *mark = memmem(copy, len, "\0" CAY_SERVICES_MARK, sizeof CAY_SERVICES_MARK + 1);
    if (mark) { /* no variable begins so */
        init.config_len = (size_t)(mark + 1 - copy);
        if (services_config(mark + 1 + sizeof CAY_SERVICES_MARK,
                            len - init.config_len - sizeof CAY_SERVICES_MARK) &
            CAY_GUF_SUDO)
            sudo_open();
        services_tell();
    }
}

static void on_signal(const cay_g_proc *m)
{
    if (!m->proc[0] &&
        (m->a == SIGSTOP || m->a == SIGCONT)) { /* where there is no group to freeze: all but us */
        kill(-1, (int)m->a);
        CAY_EACH(worker, init.workers)
            if (*worker)
                kill(*worker, SIGCONT);
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
    if (nfds == 1)
        r.sys = spawn_worker(user, fds[0]);
    else
        r.sys = EBADF;
    CAY_COPY(r.step, "user");
    ctl_tell(CAY_G_TAKEN, &r);
}

static void on_quiet(const cay_g_proc *m)
{
    cay_g_result r = { .pid = 0 };
    reap();
    if (m->a)
        services_turn();
    if (m->a) { /* stopped all at once, so that none makes another while they are ended one by one
                 */
        kill(-1, SIGSTOP);
        tree_tenants(SIGKILL);
    }
    CAY_EACH(worker, init.workers)
        if (*worker)
            kill(*worker, SIGCONT); /* some process of its user may have stopped it, over a
                                            request and with its lock */
    reap();
    if (init.lock < 0 && worker_lock() < 0)
        r.sys = errno;
    else
        r.sys = tree_tenants(0) ? EBUSY : 0;
    if (!r.sys)
        services_turn();
    ctl_send(CAY_G_STILL, &r, sizeof r, &init.lock, init.lock >= 0);
}

/* Those that watch look whether the root is another; the rest does not hear it. */
static void on_swapped(void)
{
    services_release();
    CAY_EACH(worker, init.workers)
        if (*worker)
            kill(*worker, SIGUSR1);
}

/* A new keeper asks what is here. */
static void on_adopt(const cay_g_hello *m)
{
    cay_g_result net = { .pid = 0 };
    memcpy(init.instance, m->instance, sizeof init.instance);
    if (init.net[0] >= 0)
        ctl_send(CAY_G_NET, &net, sizeof net, init.net, 4);
    gprocs_tell();
    services_tell();
    end_tell();
    cay_g_hello h = { CAY_INIT_VERSION, init.bound, "" };
    ctl_tell(CAY_G_READY, &h);
}

static const struct {
    uint16_t type;
    uint16_t body;
} sizes[] = {
    { CAY_G_CONFIG, sizeof(cay_g_config) }, { CAY_G_SPAWN, sizeof(cay_g_spawn) },
    { CAY_G_KEEP, sizeof(cay_g_proc) },     { CAY_G_SIGNAL, sizeof(cay_g_proc) },
    { CAY_G_CLOSE, sizeof(cay_g_proc) },    { CAY_G_ACK, sizeof(cay_g_proc) },
    { CAY_G_FORGET, sizeof(cay_g_proc) },   { CAY_G_SESSION, sizeof(cay_g_session) },
    { CAY_G_ADOPT, sizeof(cay_g_hello) },   { CAY_G_QUIET, sizeof(cay_g_proc) },
    { CAY_G_SWAPPED, sizeof(cay_g_proc) },  { CAY_G_SERVICE, sizeof(cay_g_proc) },
};

void init_packet(const char *buf, size_t n, int *fds, int nfds)
{
    const cay_msg *h = (const cay_msg *)buf;
    const char *body = buf + sizeof *h;
    size_t need = 0;
    if (n < sizeof *h)
        return;
    CAY_EACH(size, sizes)
        if (size->type == h->type)
            need = size->body;
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
    case CAY_G_SERVICE: services_ask(pm, fds, nfds); break;
    default: break;
    }
}
