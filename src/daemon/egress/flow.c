/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection from its accept to the verdict: where did the program want to go, under which name,
 * may it, and does its first flight say the same? Only then is anything resolved or dialled.
 */
#include "egress.h"
#include "hello.h"
#include <base/mutant.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
    FLOW_FDS = 3 /* of one that dials */,
    SLEPT_MS = 5,
    SLEEPS = 4,
    SLEEPS_MS = 60000,
    ACCEPTS = 32,
    POLITE = 64 /* refusals with a reason, beyond a limit */,
    ORIGINAL_DST = 80 /* of both families; linux/netfilter_ipv4.h and the C library do not mix */
};

const char *flow_name(const egress_flow *f)
{
    return box_name(f->box, f->name);
}

void flow_want(egress_flow *f, cay__watch *w, uint32_t events)
{
    cay__loop *l = &f->box->e->loop;
    uint8_t *on = &f->out_on;
    if (w == &f->in)
        on = &f->in_on;
    if (*on && events) {
        cay__loop_set(l, w, events);
    } else if (*on) { /* taken out and not just silent: EPOLLHUP cannot be silenced */
        cay__loop_del(l, w);
        *on = 0;
    } else if (events) {
        w->events = events;
        *on = cay__loop_add(l, w);
    }
}

/* Wakes us when so many bytes are there, and not before: MSG_PEEK leaves them, and a
 * level-triggered loop would spin. */
void flow_lowat(egress_flow *f, uint32_t n)
{
    if (f->lowat != n)
        cay__sock_set(f->in.fd, SOL_SOCKET, SO_RCVLOWAT, (int)n);
    f->lowat = n;
}

static void record_it(egress_flow *f, const char *event, const char *verdict, const char *reason,
                      const char *seen, bool end)
{
    static const uint8_t nowhere[16];
    const uint8_t *addr = NULL;
    if (!flow_name(f))
        addr = f->addr;
    if (memcmp(f->peer, nowhere, 16))
        addr = f->peer;
    audit(f->box, &(record){ .event = event,
                             .verdict = verdict,
                             .reason = reason,
                             .name = flow_name(f),
                             .flow = f->id,
                             .addr = addr,
                             .port = f->port,
                             .proto = f->proto,
                             .rule = f->rule,
                             .seen = seen,
                             .end = end,
                             .up = f->bytes[0],
                             .down = f->bytes[1],
                             .ms = cay__now_ms() - f->began });
}

static void record_connect(egress_flow *f, const char *verdict, const char *reason)
{
    record_it(f, "connect", verdict, reason, NULL, false);
}

static void deny_flow(egress_flow *f, const char *reason, const char *seen)
{
    record_it(f, "connect", "deny", reason, seen, false);
    refuse(f, reason, 403);
}

void flow_free(egress_flow *f)
{
    egress_box *b = f->box;
    cay__watch *const both[] = { &f->in, &f->out };
    CAY_EACH(w, both)
        if ((*w)->fd >= 0) {
            flow_want(f, *w, 0);
            sock_close(b->e, b, (*w)->fd);
        }
    if (f->dial)
        dial_cancel(f->dial);
    copy_unstall(f);
    later_stop(&f->late);
    b->nlive -= f->state < FLOW_REFUSE;
    CAY_UNCHAIN(f);
    b->nflows--;
    free(f);
}

void flow_end(egress_flow *f, const char *reason, bool orderly)
{
    if (f->state == FLOW_COPY)
        record_it(f, "end", orderly ? "closed" : "cut", reason, NULL, true);
    else if (reason && f->state < FLOW_REFUSE)
        record_connect(f, "fail", reason);
    if (orderly)
        for (int i = 0; i < 2; i++)
            cay__sock_reset(i ? f->out.fd : f->in.fd, false);
    flow_free(f);
}

static void on_in(cay__watch *w, uint32_t events);

static void on_out(cay__watch *w, uint32_t events)
{
    copy_event(CAY__OWNER(w, egress_flow, out), true, events);
}

static void on_dialed(void *arg, int fd, const uint8_t addr[16], const char *reason, int sys)
{
    egress_flow *f = arg;
    f->dial = NULL;
    memcpy(f->peer, addr, 16);
    if (fd < 0) {
        bool no = sys == EACCES || !strcmp(reason, "own_address");
        record_connect(f, no ? "deny" : "fail", reason);
        int status = 502;
        if (no)
            status = 403;
        else if (sys == ETIMEDOUT)
            status = 504;
        refuse(f, reason, status);
        return;
    }
    const char *name = flow_name(f);
    if (name && intercept_wanted(f->box, name, f->port, f->proto == CAY__NET_TLS)) {
        bool taken = intercept_give(f, fd);
        sock_close(f->box->e, f->box, fd);
        if (taken) {
            record_connect(f, "allow", "intercepted");
            flow_free(f);
        } else {
            deny_flow(f, "no_interceptor", NULL);
        }
        return;
    }
    later_stop(&f->late);
    record_connect(f, "allow", f->reason);
    f->out = (cay__watch){ .fd = fd, .fn = on_out };
    copy_start(f);
}

static void start_dial(egress_flow *f, const cay__service_rule *service)
{
    egress_box *b = f->box;
    f->state = FLOW_DIAL;
    flow_lowat(f, 1);
    later_stop(&f->late);
    if (service) {
        memcpy(f->peer, service->to, 16);
        f->to_port = service->to_port;
    }
    const char *name = NULL;
    if (!service && f->name)
        name = flow_name(f);
    const uint8_t *addr = NULL;
    if (!f->name)
        addr = f->addr;
    uint16_t port = f->port;
    if (service) {
        addr = service->to;
        port = service->to_port;
    }
    if (dial_start(&f->dial, b->e, b, name, name ? f->name : 0, addr, port, service != NULL,
                   on_dialed, f))
        flow_want(f, &f->in, EPOLLERR); /* a program that gives up is heard, one that has only
                                           finished talking is not */
}

static cay__verdict decide_flow(const egress_flow *f)
{
    const egress_box *b = f->box;
    const char *name = flow_name(f);
    if (name)
        return cay__decide_name(b->e->op, &b->policy, name, f->port, false);
    return cay__decide_addr(b->e->op, &b->policy, NULL, f->addr, f->port);
}

static void go_on(egress_flow *f)
{
    cay__verdict v = decide_flow(f); /* the service, if any, is looked up again: no pointer into a
                                    policy is kept but the rule's */
    if (v.allow)
        start_dial(f, v.service);
    else
        deny_flow(f, v.reason, NULL);
}

/* The server name has to be the one whose address was dialled. */
static bool hello_fits(egress_flow *f, const hello *h)
{
    char sni[CAY__NAME_MAX + 1];
    const char *name = flow_name(f);
    if (!name || CAY__MUTANT("net-sni"))
        return true;
    if (h->ech && !f->opaque) {
        deny_flow(f, "tls_ech", h->sni);
        return false;
    }
    if (!h->named && f->opaque)
        return true;
    if (!h->named) {
        deny_flow(f, "tls_no_name", NULL);
        return false;
    }
    if (cay__name_fold(h->sni, h->sni_len, sni) && !strcmp(sni, name))
        return true;
    if (f->opaque && h->ech) /* the outer name of a hidden one belongs to whoever serves it */
        return true;
    deny_flow(f, "tls_name_mismatch", h->sni);
    return false;
}

static void peek_tls(egress_flow *f, size_t n, bool ended)
{
    hello h;
    int rc = hello_read(f->box->e->buffer, n, &h);
    if (rc == HELLO_MORE && !ended) {
        flow_lowat(f, (uint32_t)h.need);
        return;
    }
    if (rc == HELLO_OK) {
        if (hello_fits(f, &h))
            go_on(f);
    } else if (f->opaque)
        go_on(f);
    else
        deny_flow(f, "tls_unreadable", NULL);
}

static void peek_http(egress_flow *f, size_t n, bool ended)
{
    http_state s = { 0 };
    char host[256];
    const char *why, *name = flow_name(f);
    int rc = HTTP_OK;
    if (name)
        rc = http_unit(&s, (char *)f->box->e->buffer, n, name, f->port, host, &why);
    if (rc == HTTP_MORE && !ended)
        flow_lowat(f, (uint32_t)n + 1);
    else if (rc == HTTP_OK || CAY__MUTANT("net-host"))
        go_on(f);
    else
        deny_flow(f, rc == HTTP_MORE ? "http_unreadable" : why, host);
}

static void peek_client(egress_flow *f, uint32_t events)
{
    egress *e = f->box->e;
    ssize_t n = recv(f->in.fd, e->buffer, HTTP_HEAD_MAX + HELLO_MAX, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) { /* opened and closed without a word, as those do who wait for a port */
        flow_end(f, "closed_early", n == 0);
        return;
    }
    bool ended = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    if (f->proto == CAY__NET_TLS)
        peek_tls(f, (size_t)n, ended);
    else
        peek_http(f, (size_t)n, ended);
}

static void on_silence(later *l)
{
    egress_flow *f = CAY__OWNER(l, egress_flow, late);
    record_connect(f, "deny", "hello_timeout");
    flow_end(f, NULL, false);
}

static void on_in(cay__watch *w, uint32_t events)
{
    egress_flow *f = CAY__OWNER(w, egress_flow, in);
    switch (f->state) {
    case FLOW_PEEK: peek_client(f, events); break;
    case FLOW_DIAL: flow_end(f, "closed_early", false); break;
    case FLOW_COPY: copy_event(f, false, events); break;
    default: refuse_event(f, events);
    }
}

/* Where everything is open nothing is looked at, but for what is bound for a destination with a
 * credential: that has to prove its name as under a rule. */
static uint8_t look_for(const egress_flow *f, const cay__verdict *v)
{
    const char *name = flow_name(f);
    if (v->proto != CAY__NET_TCP || v->service || !name)
        return (uint8_t)v->proto;
    if (intercept_wanted(f->box, name, f->port, true))
        return CAY__NET_TLS;
    if (intercept_wanted(f->box, name, f->port, false))
        return CAY__NET_HTTP;
    return CAY__NET_TCP;
}

static void first_verdict(egress_flow *f)
{
    cay__verdict v = decide_flow(f);
    f->rule = v.rule;
    f->reason = v.reason;
    f->proto = look_for(f, &v);
    f->opaque = v.opaque;
    f->service = v.service != NULL;
    if (f->name && !flow_name(f)) {
        deny_flow(f, "unknown_address", NULL);
    } else if (!v.allow) {
        deny_flow(f, v.reason, NULL);
    } else if (f->proto == CAY__NET_TCP) {
        start_dial(f, v.service);
    } else {
        f->state = FLOW_PEEK;
        flow_want(f, &f->in, EPOLLIN | EPOLLRDHUP);
        later_set(f->box->e, &f->late, HELLO_MS, on_silence);
    }
}

void flow_judge(egress_flow *f)
{
    if (f->state >= FLOW_REFUSE)
        return;
    cay__verdict v = decide_flow(f);
    const char *name = flow_name(f), *reason = v.reason;
    bool stays = v.allow && (v.service != NULL) == f->service &&
                 (v.proto == CAY__NET_TCP || v.proto == f->proto) && (v.opaque || !f->opaque);
    if (stays && f->state != FLOW_PEEK && v.service)
        stays = !memcmp(f->peer, v.service->to, 16) && f->to_port == v.service->to_port;
    if (stays && f->state == FLOW_COPY && !v.service) {
        cay__verdict where =
            cay__decide_addr(f->box->e->op, &f->box->policy, name, f->peer, f->port);
        stays = where.allow;
        reason = where.reason;
    }
    f->rule = v.rule;
    if (stays || CAY__MUTANT("net-cut"))
        return;
    if (f->state == FLOW_COPY) {
        flow_end(f, v.allow && !strcmp(reason, "allowed") ? "policy_changed" : reason, false);
        return;
    }
    if (f->dial)
        dial_cancel(f->dial);
    f->dial = NULL;
    deny_flow(f, v.allow ? "policy_changed" : reason, NULL);
}

static bool read_destination(const egress_box *b, int fd, uint8_t addr[16], uint16_t *port)
{
    struct sockaddr_storage s;
    socklen_t len = sizeof s;
    if (getsockname(fd, (struct sockaddr *)&s, &len) < 0 || !addr_from_sock(&s, addr, port))
        return false;
    if (!b->fallback)
        return true; /* TPROXY: the socket is bound to what was dialled */
    bool v4 = addr_is_v4(addr);
    len = sizeof s;
    if (getsockopt(fd, v4 ? SOL_IP : SOL_IPV6, ORIGINAL_DST, &s, &len) == 0)
        return addr_from_sock(&s, addr, port);
    return true; /* a listener for one port, without any redirection */
}

/* No sandbox may take the last descriptors from the others: each has its equal share, and more only
 * while twice as many are free. */
static bool within_share(const egress_box *b)
{
    const egress *e = b->e;
    unsigned all = e->fds_max, share = e->nboxes > 1 ? all / e->nboxes : all - all / 8;
    unsigned spare = 0;
    if (e->fds < all && e->nboxes > 1)
        spare = (all - e->fds) / 2;
    return b->fds + FLOW_FDS <= CAY_MAX(share, spare);
}

static void accept_flow(egress_box *b, int fd)
{
    egress *e = b->e;
    egress_flow *f = cay__alloc(sizeof *f);
    *f = (egress_flow){ .in = { .fd = fd, .fn = on_in },
                        .out.fd = -1,
                        .box = b,
                        .id = ++e->flow_seq,
                        .began = cay__now_ms(),
                        .lowat = 1,
                        .chunk = { 14, 14 } };
    CAY_CHAIN(b->flows, f);
    e->fds++;
    b->fds++;
    b->nlive++;
    b->nflows++;
    /* Init can have set these on the listener, whose children have them too: what is judged has to
     * be what is sent on. */
    cay__sock_set(fd, SOL_SOCKET, SO_PEEK_OFF, -1);
    cay__sock_set(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
    /* From here to its orderly end this socket is reset when it is closed: a dead egress must not
     * look like the end of a file. */
    cay__sock_reset(fd, true);
    if (!read_destination(b, fd, f->addr, &f->port)) {
        flow_end(f, "unknown_address", false);
        return;
    }
    f->name = synthetic(f->addr);
    bool many = b->policy.connections && b->nlive > b->policy.connections,
         none = !sock_room(e, FLOW_FDS);
    many |= !within_share(b);
    if (!many && !none) {
        first_verdict(f);
        return;
    }
    const char *why = "descriptors_limit";
    if (b->policy.connections && b->nlive > b->policy.connections)
        why = "connections_limit";
    record_connect(f, "deny", why);
    if (none || b->nflows - b->nlive >= POLITE)
        flow_end(f, NULL, false);
    else
        refuse(f, why, 503);
}

static void on_rest(later *l)
{
    egress_box *b = CAY__OWNER(l, egress_box, rest);
    if (b->doors)
        ports_wake(b);
    else
        cay__loop_set(&b->e->loop, &b->tcp, EPOLLIN);
    cay__loop_set(&b->e->loop, &b->dns_tcp, EPOLLIN);
    cay__loop_set(&b->e->loop, &b->dns_udp, EPOLLIN);
}

void box_rest(egress_box *b, cay__watch *w)
{
    cay__loop_set(&b->e->loop, w, 0);
    later_set(b->e, &b->rest, 100, on_rest);
}

void box_tampered(egress_box *b)
{
    audit(b, &(record){ .event = "connect", .verdict = "deny", .reason = "listener_tampered" });
    box_drop(b);
}

static long count_sleeps(void)
{
    struct rusage r = { 0 };
    getrusage(RUSAGE_SELF, &r);
    return r.ru_nvcsw;
}

/* One accept that slept may have waited for memory; several in a minute were made to. */
static bool made_to_wait(egress_box *b, int64_t began, long slept)
{
    int64_t now = cay__now_ms();
    if (now - began < SLEPT_MS)
        return false;
    if (!b->suspect || count_sleeps() == slept) {
        b->suspect = true;
        return false;
    }
    if (!b->slow || now - b->slow_ms > SLEEPS_MS) {
        b->slow = 0;
        b->slow_ms = now;
    }
    return ++b->slow >= SLEEPS;
}

/* Init shares the listener's open file. It may let it block (then the alarm ends the wait: a
 * listener that does not block is never interrupted), give it a time-out, take connections away, or
 * shut it down. */
int box_accept(egress_box *b, cay__watch *w)
{
    for (int i = 0; i < ACCEPTS; i++) {
        int flags = fcntl(w->fd, F_GETFL);
        int64_t began = cay__now_ms();
        long slept = 0;
        if (b->suspect)
            slept = count_sleeps();
        int fd = flags & O_NONBLOCK ? accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1,
            e = errno;
        if (!(flags & O_NONBLOCK) || made_to_wait(b, began, slept) || (fd < 0 && e == EINTR)) {
            if (fd >= 0)
                close(fd);
            box_tampered(b);
            return -2;
        }
        if (fd >= 0)
            return fd;
        if (e == EMFILE || e == ENFILE || e == ENOBUFS || e == ENOMEM)
            box_rest(b, w);
        if (e != ECONNABORTED)
            return -1;
    }
    return -1;
}

static void on_listener(egress_box *b, cay__watch *w, uint32_t events)
{
    if (events & EPOLLHUP) { /* shut down by init */
        box_tampered(b);
        return;
    }
    /* One a round: that there is no other would cost as much to learn as the next round does. */
    int fd = box_accept(b, w);
    if (fd >= 0)
        accept_flow(b, fd);
}

void on_tcp(cay__watch *w, uint32_t events)
{
    on_listener(CAY__OWNER(w, egress_box, tcp), w, events);
}

void on_port(cay__watch *w, uint32_t events)
{
    on_listener(CAY__OWNER(w, door, w)->b, w, events);
}
