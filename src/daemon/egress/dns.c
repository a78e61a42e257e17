/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's resolver. It asks nobody: an allowed name gets a synthetic pair of addresses and is
 * resolved when a connection to one of them is made; a forbidden one is NXDOMAIN. (musl waits
 * through REFUSED and SERVFAIL, glibc calls them temporary.) So no question carries a byte out.
 */
#include "egress.h"
#include <base/mutant.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { TTL = 60, ROUNDS = 32 };

struct dns_conn {
    cay__watch w;
    later late;
    egress_box *b;
    dns_conn *next, **prev;
    size_t have;
    uint8_t in[2 + DNS_QUERY_MAX];
};

static void deny_query(egress_box *b, const dns_query *q, const char *reason, const cay__rule *rule,
                       dns_answer *a)
{
    *a = (dns_answer){ .rcode = DNS_NXDOMAIN,
                       .ede = DNS_EDE_BLOCKED,
                       .ede_text = "not allowed by the sandbox's network policy" };
    audit(b,
          &(record){
              .event = "dns", .verdict = "deny", .reason = reason, .name = q->name, .rule = rule });
}

static void answer_pointer(egress_box *b, const uint8_t addr[16], dns_answer *a)
{
    const char *name = box_name(b, synthetic(addr));
    *a = (dns_answer){ .rcode = name ? DNS_NOERROR : DNS_NXDOMAIN,
                       .type = name ? DNS_PTR : 0,
                       .ptr = name,
                       .ttl = TTL };
}

/* RFC 6761, 6.3: localhost is here. */
static bool answer_localhost(const dns_query *q, dns_answer *a)
{
    size_t n = strlen(q->name);
    if (strcmp(q->name, "localhost") != 0 && !(n > 10 && !strcmp(q->name + n - 10, ".localhost")))
        return false;
    *a = (dns_answer){ .type = q->type == DNS_A || q->type == DNS_AAAA ? q->type : 0,
                       .ttl = TTL,
                       .addr = { [12] = 127, [15] = 1 } };
    if (q->type == DNS_AAAA)
        a->addr[12] = 0;
    return true;
}

static void answer_query(egress_box *b, const dns_query *q, dns_answer *a)
{
    char name[CAY__NAME_MAX + 1];
    uint8_t addr[16];
    bool fresh;
    *a = (dns_answer){ .rcode = DNS_NOERROR };
    if (q->class_ != DNS_IN || !q->name[0])
        return;
    if (q->type == DNS_PTR && dns_ptr_addr(q->name, addr)) {
        answer_pointer(b, addr, a);
        return;
    }
    if (answer_localhost(q, a))
        return;
    if (q->odd || !cay__name_fold(q->name, strlen(q->name), name)) {
        deny_query(b, q, "no_host_name", NULL, a);
        return;
    }
    cay__verdict v = cay__decide_lookup(b->e->op, &b->policy, name);
    if (!v.allow && !CAY__MUTANT("net-lookup")) {
        deny_query(b, q, v.reason, v.rule, a);
        return;
    }
    if (q->type != DNS_A && q->type != DNS_AAAA)
        return; /* HTTPS and SVCB stay empty, which ends encrypted hellos; TXT would be a way in for
                   data */
    uint32_t n = box_number(b, name, &fresh);
    if (!n) { /* wildcards let hostile code invent names; numbers are never given twice */
        a->rcode = DNS_SERVFAIL;
        audit(b, &(record){
                     .event = "dns", .verdict = "deny", .reason = "names_limit", .name = name });
        return;
    }
    if (fresh)
        audit(b, &(record){ .event = "dns",
                            .verdict = "allow",
                            .reason = v.reason,
                            .name = name,
                            .rule = v.rule });
    a->type = q->type;
    a->ttl = TTL;
    synthetic_addr(n, q->type == DNS_A, a->addr);
}

/* The length of the answer, 0: none. */
static size_t build_reply(egress_box *b, const uint8_t *in, size_t len, uint8_t *out, size_t limit,
                          bool udp)
{
    dns_query q;
    dns_answer a = { 0 };
    int rcode = dns_read_query(in, len, &q);
    if (rcode == DNS_DROP)
        return 0;
    if (rcode == DNS_NOERROR)
        answer_query(b, &q, &a);
    else
        a.rcode = rcode;
    return dns_write_reply(in, &q, &a, out, udp ? CAY_MIN(limit, q.udp_size) : limit);
}

void on_dns_udp(cay__watch *w, uint32_t events)
{
    egress_box *b = CAY__OWNER(w, egress_box, dns_udp);
    if (events & EPOLLHUP) {
        box_tampered(b);
        return;
    }
    /* Init may have asked for a queue of errors, which nobody here reads: it is emptied, or the
     * loop spins. */
    if (events & EPOLLERR) {
        cay__sock_set(w->fd, IPPROTO_IPV6, IPV6_RECVERR, 0);
        cay__sock_set(w->fd, IPPROTO_IP, IP_RECVERR, 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t in[DNS_QUERY_MAX], out[DNS_SIZE];
        union {
            char room[256];
            struct cmsghdr align;
        } ctl;
        struct sockaddr_storage from;
        struct iovec io = { in, sizeof in };
        struct msghdr m = { .msg_name = &from,
                            .msg_namelen = sizeof from,
                            .msg_iov = &io,
                            .msg_iovlen = 1,
                            .msg_control = ctl.room,
                            .msg_controllen = sizeof ctl.room };
        ssize_t n = recvmsg(w->fd, &m, MSG_DONTWAIT);
        if (n < 0) {
            if (i == 0 && errno == EAGAIN)
                box_rest(b, w); /* woken for nothing, and perhaps again at once */
            return;
        }
        if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
            continue;
        io = (struct iovec){ out, build_reply(b, in, (size_t)n, out, sizeof out, true) };
        if (!io.iov_len)
            continue;
        /* Back from the address that was asked, whichever it was; the interface is not ours to
         * name. */
        m.msg_flags = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
            if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
                struct in6_pktinfo info;
                memcpy(&info, CMSG_DATA(c), sizeof info);
                info.ipi6_ifindex = 0;
                memcpy(CMSG_DATA(c), &info, sizeof info);
            }
        sendmsg(w->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

void dns_conn_close(dns_conn *c)
{
    egress *e = c->b->e;
    cay__loop_del(&e->loop, &c->w);
    sock_close(e, c->b, c->w.fd);
    later_stop(&c->late);
    CAY_UNCHAIN(c);
    c->b->nconns--;
    free(c);
}

static void on_idle(later *l)
{
    dns_conn_close(CAY__OWNER(l, dns_conn, late));
}

static void on_conn(cay__watch *w, uint32_t events)
{
    dns_conn *c = CAY__OWNER(w, dns_conn, w);
    uint8_t out[2 + DNS_SIZE];
    ssize_t n = recv(w->fd, c->in + c->have, sizeof c->in - c->have, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        dns_conn_close(c);
        return;
    }
    c->have += (size_t)n;
    for (;;) {
        size_t len = 0;
        if (c->have >= 2)
            len = (size_t)c->in[0] << 8 | c->in[1];
        if (len > DNS_QUERY_MAX) {
            dns_conn_close(c);
            return;
        }
        if (c->have < 2 || c->have < 2 + len)
            break;
        size_t k = build_reply(c->b, c->in + 2, len, out + 2, DNS_SIZE, false);
        out[0] = (uint8_t)(k >> 8);
        out[1] = (uint8_t)k;
        /* Answers are small: who does not take them gets no more. */
        if (!k || send(w->fd, out, 2 + k, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)(2 + k)) {
            dns_conn_close(c);
            return;
        }
        c->have -= 2 + len;
        memmove(c->in, c->in + 2 + len, c->have);
    }
    later_set(c->b->e, &c->late, DNS_CONN_MS, on_idle);
}

void on_dns_tcp(cay__watch *w, uint32_t events)
{
    egress_box *b = CAY__OWNER(w, egress_box, dns_tcp);
    if (events & EPOLLHUP) {
        box_tampered(b);
        return;
    }
    for (int i = 0; i < ROUNDS; i++) {
        int fd = box_accept(b, w);
        if (fd < 0)
            return;
        if (b->nconns >= DNS_CONNS || !sock_room(b->e, 1)) {
            close(fd);
            continue;
        }
        b->e->fds++;
        b->fds++;
        dns_conn *c = cay__alloc(sizeof *c);
        c->b = b;
        c->w = (cay__watch){ .fd = fd, .events = EPOLLIN, .fn = on_conn };
        CAY_CHAIN(b->conns, c);
        b->nconns++;
        cay__loop_add(&b->e->loop, &c->w);
        later_set(b->e, &c->late, DNS_CONN_MS, on_idle);
    }
}
