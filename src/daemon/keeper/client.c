/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper.h"
#include <sys/socket.h>

void event_send(const char *id, const char *kind, const char *reason, const char *process, int code)
{
    cay_event_wire e = cay__event_make(++keeper.event_seq, id, kind, reason, process, code);
    CAY_EACH_LINK(c, keeper.clients) {
        if (!c->events || (c->events_id[0] && strcmp(c->events_id, id)) ||
            (c->events_few && process[0]))
            continue;
        if (c->events_lost) { /* tell a slow reader first how much it missed */
            cay_event_wire l = {
                .time_ms = e.time_ms, .seq = e.seq, .code = (int32_t)c->events_lost, .kind = "lost"
            };
            if (!cay__event_send(c->w.fd, &l)) {
                c->events_lost++;
                continue;
            }
            c->events_lost = 0;
        }
        if (!cay__event_send(c->w.fd, &e))
            c->events_lost++;
    }
}

static cay_m_hello make_hello(void)
{
    cay_m_hello h = { .version = CAY_MSG_VERSION,
                      .mode = (uint8_t)keeper.mode,
                      .landlock_abi = (uint8_t)keeper.landlock_abi,
                      .features = keeper.features,
                      .pid = getpid() };
    /* Level 3 is an own range of ids and limits that hold; as root without those it is what an
     * ordinary user gets. */
    const uint32_t limits = CAY_FEAT_MEMORY | CAY_FEAT_PIDS | CAY_FEAT_CPU;
    if (keeper.mode == CAY_MODE_ROOT && (keeper.features & limits) == limits)
        h.level = CAY_LEVEL_ROOT;
    else
        h.level = CAY_LEVEL_ROOTLESS;
    memcpy(h.instance, keeper.instance, sizeof h.instance);
    return h;
}

/* The same for those who connect: reading it saves them a question. */
void hello_write(void)
{
    cay_m_hello h = make_hello();
    if (keeper.leaving) /* it was taken away, for good */
        return;
    CAY_AUTOFD fd = openat(keeper.run_fd, "hello.new",
                           O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, &h, sizeof h) != sizeof h ||
        renameat(keeper.run_fd, "hello.new", keeper.run_fd, "hello") < 0)
        unlinkat(keeper.run_fd, "hello", 0);
}

static void on_hello(const request *r)
{
    cay_m_hello h = make_hello();
    reply(r->c, CAY_MSG_HELLO, &h);
}

static void on_list(const request *r)
{
    const cay_m_box *m = r->body;
    size_t n = strlen(m->id);
    CAY_EACH_LINK(b, keeper.boxes) {
        if (!b->id[0] || b->phase < BOX_LIVE || strncmp(b->id, m->id, n))
            continue;
        cay_m_boxinfo info = box_info(b);
        reply(r->c, CAY_MSG_BOX, &info);
    }
    for (unsigned i = 0; n == CAY__ID_LEN && !box_find(m->id) && i < CAY_LEN(keeper.gone); i++)
        if (!strcmp(keeper.gone[i].id, m->id)) { /* stopped: why, for whoever still asks */
            reply(r->c, CAY_MSG_BOX, &keeper.gone[i]);
            break;
        }
    reply_bare(r->c, CAY_MSG_END);
}

static void on_stop(const request *r)
{
    cay__waiter_add(&r->b->waiters, r->c->w.fd, true);
    box_stop(r->b, "killed", false);
}

/* A sandbox that runs no more may still have files. */
static void on_destroy(const request *r)
{
    const cay_m_box *m = r->body;
    keeper_box *b = box_find(m->id);
    if (b) {
        cay__waiter_add(&b->waiters, r->c->w.fd, true);
        box_stop(b, "removed", true);
        return;
    }
    if (!cay__id_valid(m->id, 'c') &&
        !reply_refused(r->c, CAY_EINVAL, "bad_id", "not a sandbox id"))
        return;
    if (!box_remove_files(m->id, -1) &&
        !reply_error(r->c, errno == ENOENT ? CAY_ENOENT : CAY_ESYS, errno, "sandbox_not_found",
                     "nothing is kept of this sandbox", NULL))
        return;
    event_send(m->id, "removed", "removed", "", 0);
    reply_ok(r->c);
}

static void on_pause(const request *r)
{
    if (r->b->state == CAY_PAUSED)
        reply_ok(r->c);
    else if (r->b->pausing)
        reply_refused(r->c, CAY_EBUSY, "sandbox_pausing", "the sandbox is being paused already");
    else
        box_pause(r->b, "asked", r->c);
}

static void on_resume(const request *r)
{
    if (r->b->state == CAY_PAUSED) {
        CAY_FAULT("keeper.resume.thaw");
        box_freeze(r->b, false);
        box_set_state(r->b, CAY_RUNNING, "resumed", "");
        box_tell(r->b, CAY_G_SWAPPED, "", 0, 0); /* services go on */
        deadline_touch(r->b);
        deadline_arm(r->b); /* it stood still while the sandbox did */
    }
    reply_ok(r->c);
}

static void on_extend(const request *r)
{
    const cay_m_box *m = r->body;
    deadline_set(r->b, m->a, m->b);
    CAY_FAULT("keeper.extend.record");
    journal_box(J_DEADLINE, r->b);
    event_send(r->b->id, "extended", "", "", 0);
    reply_ok(r->c);
}

static void on_box_wait(const request *r)
{
    cay__waiter_add(&r->b->waiters, r->c->w.fd, false);
}

static void on_usage(const request *r)
{
    cay_m_usage u = { 0 };
    cgroup_usage(r->b, &u);
    u.cpu_us = CAY_MAX(u.cpu_us, r->b->cpu_us);
    u.disk = r->b->disk_used;
    u.inodes = r->b->disk_inodes;
    reply(r->c, CAY_MSG_USAGE, &u);
}

/* The client's socket goes to init, which forks a worker for it; nothing of it passes through here
 * again. */
static void on_session(const request *r)
{
    cay_g_session m = { 0 };
    if ((r->nfds != 1 || r->tail_len > 63) &&
        !reply_refused(r->c, CAY_EINVAL, "bad_request", "a session needs one socket and a user"))
        return;
    CAY_FAULT("keeper.session.send");
    if (!box_send(r->b, CAY_G_SESSION, &m, sizeof m, r->tail, r->tail_len, r->fds, 1) &&
        !reply_error(r->c, CAY_EBUSY, errno, "", "init does not answer", NULL))
        return;
    holder_waiter **last = &r->b->sessions;
    while (*last)
        last = &(*last)->next;
    cay__waiter_add(last, r->c->w.fd, true);
}

static void on_proc_find(const request *r)
{
    proc_answer(r->c, r->p, ((const cay_m_ref *)r->body)->flags);
}

static void on_procs(const request *r)
{
    CAY_EACH_LINK(p, r->b->procs)
        if (p->started)
            proc_reply(r->c, p);
    reply_bare(r->c, CAY_MSG_END);
}

static holder_stream *find_stream(const request *r)
{
    uint32_t which = ((const cay_m_stream *)r->body)->which;
    if (which == CAY_STDOUT || (which == CAY_STDERR && !(r->p->flags & CAY_SPAWN_TTY)))
        return &r->p->out[which - 1];
    reply_refused(r->c, CAY_EINVAL, "no_stream", "this process has no such stream");
    return NULL;
}

static void on_output(const request *r)
{
    holder_stream *s = find_stream(r);
    cay_m_data d;
    if (!s)
        return;
    if (r->nfds == 1 &&
        cay__stream_attach(s, ((const cay_m_stream *)r->body)->offset, CAY_STEAL_FD(r->fds[0]), &d))
        reply(r->c, CAY_MSG_DATA, &d);
    else
        reply_refused(r->c, CAY_EINVAL, "bad_request",
                      "output needs one descriptor that can be watched");
}

static void on_read(const request *r)
{
    const cay_m_stream *m = r->body;
    static char buf[CAY_CHUNK];
    holder_stream *s = find_stream(r);
    cay_m_data d;
    if (!s)
        return;
    size_t n = cay__stream_read(s, m->offset, buf, CAY_MIN(m->a, sizeof buf), m->b, &d);
    reply_fds(r->c, CAY_MSG_DATA, &d, sizeof d, buf, n, NULL, 0);
}

static void on_close_stdin(const request *r)
{
    proc_close_stdin(r->p);
    reply_ok(r->c);
}

static void on_unlayer(const request *r)
{
    const cay_m_layer *m = r->body;
    char from[80];
    if (!memchr(m->layer, 0, sizeof m->layer) || !cay__layer_valid(m->layer))
        reply_refused(r->c, CAY_EINVAL, "layer_name",
                      "a layer's name is 1 to 63 of a-z, 0-9 and -");
    else if (!strcmp(m->layer, keeper.layer))
        reply_refused(r->c, CAY_EBUSY, "layer_in_use", "the default template stands on this layer");
    else if (pool_unlayer(m->layer),
             CAY_JOIN(from, "layers/", m->layer) && !remove_files(from, -1) && errno != ENOENT)
        reply_error(r->c, CAY_ESYS, errno, "", "the layer could not be removed", strerror(errno));
    else
        reply_ok(r->c);
}

static void on_units(const request *r)
{
    const cay_m_stream *m = r->body;
    if (r->nfds != 1 || m->which > CAY_GU_RESTART ||
        !box_tell_fd(r->b, CAY_G_SERVICE, m->proc, m->which, 0, r->fds[0]))
        reply_error(r->c, CAY_EBUSY, errno, "", "init does not answer", NULL);
    else
        reply_ok(r->c);
}

static void on_net(const request *r)
{
    net_ask(r->c, r->b, r->body, r->fds, r->nfds);
}

static void on_thaw(const request *r)
{
    if (r->b->frozen_for == r->c)
        freeze_end(r->b);
    reply_ok(r->c);
}

static void on_events(const request *r)
{
    const cay_m_box *m = r->body;
    memcpy(r->c->events_id, m->id, sizeof r->c->events_id);
    r->c->events_few = m->a;
    reply_ok(r->c);
    r->c->events = true;
}

static void on_limit(const request *r)
{
    r->c->limited = true;
    reply_ok(r->c);
}

#ifdef CAY_FAULTS
static void on_fault(const request *r)
{
    char spec[96] = "";
    if (r->tail_len < sizeof spec)
        memcpy(spec, r->tail, r->tail_len);
    cay__fault_set(spec);
    reply_ok(r->c);
}
#endif

/* What must be there before the request is looked at: strings that end inside their fields, then
 * what they name. */
enum need {
    NOTHING,
    ID,
    BOX,
    LIVE,
    TOLD,
    PROC
}; /* each includes those before it; TOLD: its init has answered */

static const struct {
    uint16_t type, body;
    enum need need;
    uint16_t ref; /* room of a second string, behind the id */
    void (*fn)(const request *r);
} table[] = {
    { CAY_MSG_HELLO, sizeof(cay_m_hello), NOTHING, 0, on_hello },
    { CAY_MSG_CREATE, sizeof(cay_m_create), ID, 0, box_create },
    { CAY_MSG_LIST, sizeof(cay_m_box), ID, 0, on_list },
    { CAY_MSG_STOP, sizeof(cay_m_box), BOX, 0, on_stop },
    { CAY_MSG_DESTROY, sizeof(cay_m_box), ID, 0, on_destroy },
    { CAY_MSG_PAUSE, sizeof(cay_m_box), TOLD, 0, on_pause },
    { CAY_MSG_RESUME, sizeof(cay_m_box), LIVE, 0, on_resume }, /* init may wait for it */
    { CAY_MSG_EXTEND, sizeof(cay_m_box), LIVE, 0, on_extend },
    { CAY_MSG_BOX_WAIT, sizeof(cay_m_box), BOX, 0, on_box_wait },
    { CAY_MSG_USAGE, sizeof(cay_m_box), LIVE, 0, on_usage },
    { CAY_MSG_SESSION, sizeof(cay_m_box), TOLD, 0, on_session },
    { CAY_MSG_SPAWN, sizeof(cay_m_spawn), TOLD, CAY_WIRE_ID, proc_spawn },
    { CAY_MSG_PROC_FIND, sizeof(cay_m_ref), PROC, sizeof((cay_m_ref *)0)->ref, on_proc_find },
    { CAY_MSG_PROCS, sizeof(cay_m_box), TOLD, 0, on_procs },
    { CAY_MSG_OUTPUT, sizeof(cay_m_stream), PROC, CAY_WIRE_ID, on_output },
    { CAY_MSG_READ, sizeof(cay_m_stream), PROC, CAY_WIRE_ID, on_read },
    { CAY_MSG_WRITE, sizeof(cay_m_stream), PROC, CAY_WIRE_ID, proc_write },
    { CAY_MSG_CLOSE_STDIN, sizeof(cay_m_stream), PROC, CAY_WIRE_ID, on_close_stdin },
    { CAY_MSG_RESIZE, sizeof(cay_m_stream), PROC, CAY_WIRE_ID, proc_resize },
    { CAY_MSG_SIGNAL, sizeof(cay_m_stream), PROC, CAY_WIRE_ID, proc_signal },
    { CAY_MSG_EVENTS, sizeof(cay_m_box), ID, 0, on_events },
    { CAY_MSG_NET, sizeof(cay_m_net), TOLD, 0, on_net },
    { CAY_MSG_FREEZE, sizeof(cay_m_box), TOLD, 0, freeze_ask },
    { CAY_MSG_THAW, sizeof(cay_m_box), LIVE, 0, on_thaw },
    { CAY_MSG_SNAPSHOT, sizeof(cay_m_layer), TOLD, 0, turn_ask },
    { CAY_MSG_RESTACK, sizeof(cay_m_layer), TOLD, 0, turn_ask },
    { CAY_MSG_UNLAYER, sizeof(cay_m_layer), ID, 0, on_unlayer },
    { CAY_MSG_SERVICES, sizeof(cay_m_stream), TOLD, CAY_WIRE_ID, on_units },
    { CAY_MSG_LIMIT, 0, NOTHING, 0, on_limit },
#ifdef CAY_FAULTS
    { CAY_MSG_FAULT, 0, NOTHING, 0, on_fault },
#endif
};

/* Finds what the request names, or answers why not. */
static bool find_target(request *r, enum need need)
{
    const char *id = r->body;
    if (need < BOX)
        return true;
    r->b = box_find(id);
    if (!r->b || (need >= LIVE && r->b->phase != BOX_LIVE))
        return reply_refused(r->c, CAY_ENOENT, "sandbox_not_found",
                             "no running sandbox has this id");
    if (need >= TOLD && r->b->adopting)
        return reply_refused(r->c, CAY_EBUSY, "sandbox_adopting",
                             "its init has not answered the new keeper yet; try again");
    if (need >= LIVE)
        deadline_touch(r->b);
    if (need == PROC)
        r->p = proc_find(r->b, id + CAY_WIRE_ID);
    else
        r->p = NULL;
    return need < PROC || (r->p && r->p->started) ||
           reply_refused(r->c, CAY_ENOENT, "process_not_found", "no such process in this sandbox");
}

void client_packet(client *c, const char *buf, size_t n, int *fds, int nfds)
{
    const cay_msg *h = (const cay_msg *)buf;
    if ((n < sizeof *h || h->magic != CAY_MSG_MAGIC) &&
        !reply_refused(c, CAY_EINVAL, "bad_request", "not a message of ours"))
        return;
    if (h->version != CAY_MSG_VERSION &&
        !reply_refused(c, CAY_ENOTSUP, "version",
                       "the keeper speaks another version; end its sandboxes and try again"))
        return;
    CAY_EACH(it, table) {
        if (it->type != h->type)
            continue;
        size_t fixed = sizeof *h + it->body;
        const char *body = buf + sizeof *h;
        if (n < fixed || (n - fixed != h->tail && !CAY__MUTANT("fuzz-control")) ||
            (it->need && !memchr(body, 0, CAY_WIRE_ID)) ||
            (it->ref && !memchr(body + CAY_WIRE_ID, 0, it->ref)))
            break;
        if (it->need >= BOX && hold_creating(c, body, buf, n, fds, nfds))
            return;
        request r = { c, h->type, body, buf + fixed, h->tail, fds, nfds, NULL, NULL };
        if (find_target(&r, it->need) &&
            !(r.b && hold(c, r.b, it->need == TOLD, buf, n, fds, nfds)))
            it->fn(&r);
        return;
    }
    reply_refused(c, CAY_EINVAL, "bad_request", "unknown or malformed request");
}

static void maybe_leave(cay__timer *t)
{
    keeper.loop.stop |= !keeper.clients && !keeper.nlive && !keeper.waiting;
    arm_timer(&keeper.leave, 60000); /* a sandbox may end with nobody connected */
}

void client_close(client *c)
{
    CAY_UNLINK(keeper.clients, c);
    hold_client_gone(c);
    freeze_client_gone(c);
    turn_client_gone(c);
    proc_on_client_gone(c);
    box_on_client_gone(c);
    cay__loop_del(&keeper.loop, &c->w);
    close(c->w.fd);
    free(c);
    if (!keeper.clients) {
        keeper.leave.fn = maybe_leave;
        arm_timer(&keeper.leave, 60000);
    }
}

static void on_client(cay__watch *w, uint32_t ev)
{
    client *c = (client *)w;
    static char buf[CAY_MSG_MAX];
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    ssize_t n = cay__fd_recv(w->fd, buf, sizeof buf, fds, &nfds, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EMSGSIZE)) {
        if (errno == EMSGSIZE)
            reply_refused(c, CAY_ETOOBIG, "bad_request", "a message is too long");
        return;
    }
    if (n <= 0) {
        client_close(c);
        return;
    }
    keeper.last_request_us = cay__now_us();
    client_packet(c, buf, (size_t)n, fds, nfds);
    cay__close_fds(fds, nfds);
}

void client_accept(cay__watch *w, uint32_t ev)
{
    int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred cr;
    if (fd < 0)
        return;
    /* A new state directory may have got the inode, and with it the socket's path, of ours that was
     * removed. The directory is 0700; who still comes is asked. Seen from our user namespace, the
     * owner is 0. */
    if (home_vanished() || !cay__sock_peer(fd, &cr) || (cr.uid != 0 && !CAY__MUTANT("peer"))) {
        close(fd);
        return;
    }
    /* A list is sent in one go: of many sandboxes, or all the commands that one keeps. */
    if (!cay__sock_set(fd, SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20))
        cay__sock_set(fd, SOL_SOCKET, SO_SNDBUF, 4 << 20);
    client *c = cay__alloc(sizeof *c);
    *c = (client){ .w = { .fd = fd, .events = EPOLLIN, .fn = on_client },
                   .pid = cr.pid,
                   .next = keeper.clients };
    keeper.clients = c;
    cay__timer_cancel(&keeper.leave);
    if (!cay__loop_add(&keeper.loop, &c->w))
        client_close(c);
}
