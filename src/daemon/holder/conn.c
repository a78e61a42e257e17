/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"
#include <base/proctree.h>
#include <base/base.h>
#include <base/mutant.h>
#include <cay/sys/provider.h>
#include <proto/init.h>
#include <daemon/init/session.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum { CONNS_MAX = 512 };

static void conn_free(holder_conn *c)
{
    host *h = c->h;
    CAY_UNLINK(h->conns, c);
    cay__exec_forget_conn(h, c);
    cay__loop_del(&h->loop, &c->w);
    close(c->w.fd);
    free(c);
}

void cay__conn_send_proc(int to, const holder_proc *p)
{
    cay_m_proc m = {
        .pid = p->pid, .flags = p->flags, .started_ms = p->started_ms, .ended = p->reaped
    };
    memcpy(m.proc, p->id, sizeof m.proc);
    if (p->ended)
        m.exit = p->exit;
    cay__answer_proc(to, &m, p->tag, p->command, p->labels, p->nlabels);
}

/* The process, and its EXIT where that is asked for: now, or when it comes. */
static void answer_proc(holder_conn *c, holder_proc *p, uint32_t flags)
{
    cay__conn_send_proc(c->w.fd, p);
    if (!(flags & CAY_SPAWN_WAIT))
        return;
    cay__waiter_add(&p->waiters, c->w.fd, false);
    if (p->ended)
        cay__waiters_tell(&p->waiters, CAY_MSG_EXIT, &p->exit, sizeof p->exit);
}

void cay__conn_event(host *h, const char *kind, const char *reason, const char *process, int code)
{
    cay_event_wire e = cay__event_make(++h->seq, h->id, kind, reason, process, code);
    h->past[h->seq % CAY_LEN(h->past)] = e;
    CAY_EACH_LINK(c, h->conns)
        if (c->events && !cay__event_send(c->w.fd, &e))
            shutdown(c->w.fd, SHUT_RDWR);
}

typedef struct request {
    holder_conn *c;
    cay_msg head;
    const void *body;
    const char *tail;
    int *fds;
    int nfds;
} request;

static void on_hello(request *r)
{
    cay_m_hello m = { .version = CAY_MSG_VERSION,
                      .level = (uint8_t)r->c->h->meta.level,
                      .pid = getpid() };
    cay__conn_send(r->c, CAY_MSG_HELLO, &m);
}

static void on_list(request *r)
{
    cay_m_boxinfo b;
    cay__host_box(r->c->h, &b);
    cay__conn_send(r->c, CAY_MSG_BOX, &b);
    cay__conn_bare(r->c, CAY_MSG_END);
}

static void on_stop(request *r)
{
    cay__waiter_add(&r->c->h->waiters, r->c->w.fd, true);
    cay__host_stop(r->c->h, "killed");
}

static void on_pause(request *r)
{
    cay__host_pause(r->c->h, r->head.type == CAY_MSG_PAUSE, r->c->h->who);
    cay__conn_ok(r->c);
}

static void on_extend(request *r)
{
    const cay_m_box *m = r->body;
    cay__host_extend(r->c->h, m->a, m->b);
    cay__conn_ok(r->c);
}

static void on_box_wait(request *r)
{
    cay__waiter_add(&r->c->h->waiters, r->c->w.fd, false);
}

static int add_usage(const tree_proc *p, void *arg)
{
    cay_m_usage *u = arg;
    u->cpu_us += p->cpu_us;
    u->memory += p->rss;
    u->pids++;
    return 0;
}

static void on_usage(request *r)
{
    cay_m_usage u = { 0 };
    cay__tree_walk(getpid(), add_usage, &u);
    CAY_EACH_LINK(p, r->c->h->procs)
        u.cpu_us += p->exit.cpu_us;
    cay__conn_send(r->c, CAY_MSG_USAGE, &u);
}

/* A worker for the files, in a process of its own: a slow disk or a huge tree holds up nobody. */
static void on_session(request *r)
{
    host *h = r->c->h;
    char user[64] = "";
    memcpy(user, r->tail, CAY_MIN(r->head.tail, sizeof user - 1));
    if (r->nfds != 1) {
        cay__conn_error(r->c, CAY_EINVAL, 0, "protocol", "a session needs one descriptor");
        return;
    }
    ident id;
    if (!cay__exec_user(r->c, user, &id))
        return;
    pid_t pid = fork();
    if (pid == 0) {
        int keep[] = { r->fds[0], h->fs.root };
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "cay-session");
        cay__child_close_others(keep, CAY_LEN(keep));
        /* What reads the tenant's files and names has no more rights than the tenant. */
        if (h->who ? !cay__child_become(&id)
                   : h->meta.level >= CAY_LEVEL_PROCESS && cay__jail_enter(h->fs.root, NULL))
            _exit(1);
        umask(022);
        cay__session_serve(r->fds[0], h->fs.root, h->workdir, h->who ? id.home : h->home);
        _exit(0);
    }
    if (pid < 0)
        cay__conn_error(r->c, CAY_ENOSPACE, errno, "fork",
                        "no more processes can be made on this host");
    else
        cay__conn_ok(r->c);
}

static void on_events(request *r)
{
    const cay_m_box *m = r->body;
    host *h = r->c->h;
    cay__conn_ok(r->c);
    r->c->events = true;
    uint64_t kept = CAY_MIN(h->seq, CAY_LEN(h->past));
    for (uint64_t i = h->seq - kept + 1; m->a && i <= h->seq; i++)
        cay__event_send(r->c->w.fd, &h->past[i % CAY_LEN(h->past)]);
}

/* The strings of a spawn: from the tail or from a memfd that nobody can change any more. */
bool cay__blob_is_whole(const char *blob, size_t len, uint64_t strings)
{
    uint64_t n = 0;
    CAY_EACH_OF(it, blob, len)
        n += *it == 0;
    return len > 0 && blob[len - 1] == 0 && n == strings;
}

static void on_spawn(request *r)
{
    cay_m_spawn m;
    host *h = r->c->h;
    memcpy(&m, r->body, sizeof m);
    m.proc[sizeof m.proc - 1] = 0;
    bool in_fd = m.flags & CAY_SPAWN_BLOB_FD;
    uint64_t strings = 3 + (uint64_t)m.argc + m.envc;
    holder_proc *same = cay__exec_find(h, m.proc);
    if (same) { /* asked again by a client whose answer was lost */
        answer_proc(r->c, same, m.flags);
        return;
    }
    if (h->meta.state == CAY_PAUSED || h->stopping) {
        cay__conn_error(r->c, CAY_ESTATE, 0, h->stopping ? "sandbox_stopped" : "sandbox_paused",
                        h->stopping ? "the sandbox is stopping"
                                    : "the sandbox is paused; try: cay resume");
        return;
    }
    char *map = NULL;
    if (in_fd && r->nfds > 0 && m.blob && m.blob <= CAY_BLOB_MAX) {
        struct stat st;
        map = cay__alloc(m.blob);
        if (fstat(r->fds[r->nfds - 1], &st) < 0 ||
            pread(r->fds[r->nfds - 1], map, m.blob, 0) != (ssize_t)m.blob)
            m.blob = 0;
    }
    const char *blob = map;
    if (!in_fd)
        blob = r->tail;
    size_t strings_len = 0;
    if (!in_fd)
        strings_len = m.blob;
    if (!blob || !m.blob || strings_len > r->head.tail ||
        r->head.tail - strings_len > CAY_LABELS_MAX || !cay__blob_is_whole(blob, m.blob, strings) ||
        !cay__id_valid(m.proc, 'p'))
        cay__conn_error(r->c, CAY_EINVAL, 0, "protocol",
                        "the strings of the spawn request are not whole");
    else
        cay__exec_spawn(r->c, &m, blob, r->tail + strings_len, r->head.tail - strings_len, r->fds,
                        r->nfds - in_fd);
    free(map);
}

static void no_process(holder_conn *c, const char *ref)
{
    char msg[128];
    CAY_FORMAT(msg, "process %s: no such process", ref);
    cay__conn_error(c, CAY_ENOENT, ESRCH, "process_not_found", msg);
}

static void on_find(request *r)
{
    cay_m_ref m;
    memcpy(&m, r->body, sizeof m);
    m.ref[sizeof m.ref - 1] = 0;
    holder_proc *p = cay__exec_find(r->c->h, m.ref);
    if (!p) {
        no_process(r->c, m.ref);
        return;
    }
    answer_proc(r->c, p, m.flags);
}

static void on_procs(request *r)
{
    CAY_EACH_LINK(p, r->c->h->procs)
        if (p->running)
            cay__conn_send_proc(r->c->w.fd, p);
    cay__conn_bare(r->c, CAY_MSG_END);
}

static holder_stream *stream_of(request *r, holder_proc *p, uint32_t which)
{
    if (which == CAY_STDOUT || (which == CAY_STDERR && !(p->flags & CAY_SPAWN_TTY)))
        return &p->out[which - 1];
    cay__conn_error(r->c, CAY_EINVAL, 0, "stream_unknown", "the process has no such stream");
    return NULL;
}

static void on_output(request *r, holder_proc *p, const cay_m_stream *m)
{
    holder_stream *s = stream_of(r, p, m->which);
    cay_m_data d;
    if (!s)
        return;
    if (r->nfds == 1 && cay__stream_attach(s, m->offset, CAY_STEAL_FD(r->fds[0]), &d))
        cay__conn_send(r->c, CAY_MSG_DATA, &d);
    else
        cay__conn_error(r->c, CAY_EINVAL, 0, "protocol", "output needs one descriptor");
}

static void on_read(request *r, holder_proc *p, const cay_m_stream *m)
{
    static char buf[CAY_CHUNK];
    holder_stream *s = stream_of(r, p, m->which);
    cay_m_data d;
    if (!s)
        return;
    size_t n = cay__stream_read(s, m->offset, buf, (size_t)CAY_MIN(m->a, sizeof buf), m->b, &d);
    if (n)
        s->seen = CAY_MAX(s->seen, d.offset + n); /* who reads so has had it */
    cay__answer_send(r->c->w.fd, CAY_MSG_DATA, &d, sizeof d, buf, n, NULL, 0);
}

static void on_signal(request *r, holder_proc *p, const cay_m_stream *m)
{
    char msg[96];
    if (m->a < NSIG && m->b <= CAY_SCOPE_BELOW && cay__exec_signal(p, (int)m->a, (cay_scope)m->b)) {
        cay__conn_ok(r->c);
        return;
    }
    CAY_FORMAT(msg, "process %s has ended", p->id);
    cay__conn_error(r->c, CAY_ENOENT, ESRCH, "process_ended", msg);
}

static void on_resize(request *r, holder_proc *p, const cay_m_stream *m)
{
    if ((p->flags & CAY_SPAWN_TTY) && cay__exec_resize(p, (uint16_t)m->a, (uint16_t)m->b))
        cay__conn_ok(r->c);
    else
        cay__conn_error(r->c, p->flags & CAY_SPAWN_TTY ? CAY_ESTATE : CAY_ETYPE, 0, "no_terminal",
                        "the process has no open terminal");
}

/* All that names a process and a stream of it. */
static void on_stream(request *r)
{
    cay_m_stream m;
    memcpy(&m, r->body, sizeof m);
    m.proc[sizeof m.proc - 1] = 0;
    holder_proc *p = cay__exec_find(r->c->h, m.proc);
    if (!p) {
        no_process(r->c, m.proc);
        return;
    }
    switch (r->head.type) {
    case CAY_MSG_OUTPUT: on_output(r, p, &m); break;
    case CAY_MSG_READ: on_read(r, p, &m); break;
    case CAY_MSG_WRITE: cay__input_write(&p->in, r->c->w.fd, r->tail, r->head.tail); break;
    case CAY_MSG_CLOSE_STDIN:
        cay__input_end(&p->in, p->flags & CAY_SPAWN_TTY);
        cay__conn_ok(r->c);
        break;
    case CAY_MSG_RESIZE: on_resize(r, p, &m); break;
    case CAY_MSG_SIGNAL: on_signal(r, p, &m); break;
    }
}

/* Services, where this sandbox has them; the answer comes over the socket that was sent along. */
static void on_units(request *r)
{
    cay_m_stream m;
    host *h = r->c->h;
    memcpy(&m, r->body, sizeof m);
    m.proc[sizeof m.proc - 1] = 0;
    if (h->services) {
        h->services(h, m.proc, m.which, r->fds, r->nfds);
    } else if (r->nfds == 1) { /* none: the list is at its end */
        cay_g_told none = { .place = UINT32_MAX };
        send(r->fds[0], &none, sizeof none, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    cay__conn_ok(r->c);
}

static const struct {
    uint16_t type;
    uint16_t body;
    bool use; /* counts as use of the sandbox */
    void (*fn)(request *r);
} requests[] = {
    { CAY_MSG_HELLO, sizeof(cay_m_hello), false, on_hello },
    { CAY_MSG_LIST, sizeof(cay_m_box), false, on_list },
    { CAY_MSG_STOP, sizeof(cay_m_box), false, on_stop },
    { CAY_MSG_DESTROY, sizeof(cay_m_box), false, on_stop },
    { CAY_MSG_PAUSE, sizeof(cay_m_box), true, on_pause },
    { CAY_MSG_RESUME, sizeof(cay_m_box), true, on_pause },
    { CAY_MSG_EXTEND, sizeof(cay_m_box), true, on_extend },
    { CAY_MSG_BOX_WAIT, sizeof(cay_m_box), false, on_box_wait },
    { CAY_MSG_USAGE, sizeof(cay_m_box), false, on_usage },
    { CAY_MSG_SESSION, sizeof(cay_m_box), true, on_session },
    { CAY_MSG_EVENTS, sizeof(cay_m_box), false, on_events },
    { CAY_MSG_SPAWN, sizeof(cay_m_spawn), true, on_spawn },
    { CAY_MSG_PROC_FIND, sizeof(cay_m_ref), true, on_find },
    { CAY_MSG_PROCS, sizeof(cay_m_box), false, on_procs },
    { CAY_MSG_OUTPUT, sizeof(cay_m_stream), true, on_stream },
    { CAY_MSG_READ, sizeof(cay_m_stream), true, on_stream },
    { CAY_MSG_WRITE, sizeof(cay_m_stream), true, on_stream },
    { CAY_MSG_CLOSE_STDIN, sizeof(cay_m_stream), true, on_stream },
    { CAY_MSG_RESIZE, sizeof(cay_m_stream), true, on_stream },
    { CAY_MSG_SIGNAL, sizeof(cay_m_stream), true, on_stream },
    { CAY_MSG_SERVICES, sizeof(cay_m_stream), true, on_units },
};

static void dispatch_request(request *r, const char *buf, size_t n)
{
    memcpy(&r->head, buf, CAY_MIN(n, sizeof r->head));
    for (size_t i = 0; n >= sizeof r->head && i < CAY_LEN(requests); i++) {
        if (requests[i].type != r->head.type)
            continue;
        if (r->head.magic != CAY_MSG_MAGIC || r->head.version != CAY_MSG_VERSION ||
            n != sizeof r->head + requests[i].body + r->head.tail)
            break;
        r->body = buf + sizeof r->head;
        r->tail = buf + sizeof r->head + requests[i].body;
        if (requests[i].use)
            cay__host_used(r->c->h);
        requests[i].fn(r);
        return;
    }
    cay__conn_error(r->c, CAY_EINVAL, 0, "protocol", "this request is not known here");
}

static void on_conn(cay__watch *w, uint32_t events)
{
    static _Alignas(16) char buf[CAY_MSG_MAX];
    holder_conn *c = CAY__OWNER(w, holder_conn, w);
    int fds[4], nfds = (int)CAY_LEN(fds);
    ssize_t n = cay__fd_recv(w->fd, buf, sizeof buf, fds, &nfds, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        conn_free(c);
        return;
    }
    request r = { .c = c, .fds = fds, .nfds = nfds };
    dispatch_request(&r, buf, (size_t)n);
    cay__close_fds(fds, nfds);
}

/* The directory of the socket keeps others out; this does so even if it should not. In a container
 * the tenant may be root and reach it: whoever has a pid in here is the tenant, who asks has none.
 */
static bool may_ask(const host *h, int fd)
{
    struct ucred peer;
    int n = 0;
    CAY_EACH_LINK(c, h->conns)
        n++;
    return cay__sock_peer(fd, &peer) && n < CONNS_MAX &&
           (h->who && !h->far ? peer.pid == 0 : peer.uid == geteuid() || peer.uid == 0);
}

void cay__conn_refuse(int *fd)
{
    if (!CAY__MUTANT("docker-linger"))
        cay__fd_hurry(true);
    cay__close_fd(fd);
    if (!CAY__MUTANT("docker-linger"))
        cay__fd_hurry(false);
}

void cay__holder_accept(host *h)
{
    int fd = accept4(h->listen.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (!may_ask(h, fd)) {
        cay__conn_refuse(&fd); /* with whatever it sent before anybody looked */
        return;
    }
    holder_conn *c = cay__alloc(sizeof *c);
    *c = (holder_conn){ .w = { .fd = fd, .events = EPOLLIN, .fn = on_conn },
                        .h = h,
                        .next = h->conns };
    h->conns = c;
    cay__loop_add(&h->loop, &c->w);
}
