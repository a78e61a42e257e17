/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small stub resolver: A and AAAA by UDP from a port of the kernel's choice with random ids, by
 * TCP when an answer was cut, again and to the next server when none comes. Asked only for names
 * that a connection is being made to. The host's /etc/hosts is not looked at: a name there is for
 * the host.
 */
#include "egress.h"
#include <arpa/inet.h>
#include <sys/socket.h>

enum { TRIES = 5, LAG_MS = 50 /* for the second family, RFC 8305, 3 */, TCP_MAX = 8192 };
static const int64_t patience[TRIES] = { 1000, 1500, 2000, 2500, 3000 };

typedef struct ask {
    uint16_t id, type;
    bool done;
    dns_found found;
} ask;

struct resolve {
    egress *e;
    egress_box *b; /* in whose name, NULL: nobody's */
    char name[CAY__NAME_MAX + 1];
    ask ask[2];
    int tries, failures;
    cay__watch udp, tcp;
    later late;
    uint8_t *stream; /* what came by TCP */
    size_t have;
    ask *by_tcp;
    resolve_done *done;
    void *arg;
};

/* "ADDRESS" or "ADDRESS%zone" of a nameserver line. */
static bool add_server(egress *e, char *text)
{
    text[strcspn(text, " \t\r%#;")] = 0;
    server *s = &e->servers[e->nservers];
    if (e->nservers == RESOLVE_SERVERS || !cay__addr_parse(text, s->addr))
        return false;
    s->port = 53;
    e->nservers++;
    return true;
}

static void read_servers(egress *e)
{
    char text[8192], *save = NULL;
    struct stat st;
    int64_t now = cay__boot_ms();
    if (e->op && e->op->resolver_port) {
        memcpy(e->servers[0].addr, e->op->resolver, 16);
        e->servers[0].port = e->op->resolver_port;
        e->nservers = 1;
        e->servers_at = 0;
        return;
    }
    if (e->servers_at && now - e->servers_at < 2000)
        return;
    e->servers_at = now;
    if (stat("/etc/resolv.conf", &st) == 0) {
        int64_t stamp =
            (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec + (int64_t)st.st_ino;
        if (stamp == e->servers_stamp && e->nservers)
            return;
        e->servers_stamp = stamp;
    }
    e->nservers = 0;
    if (cay__fd_read_file(AT_FDCWD, "/etc/resolv.conf", text, sizeof text) > 0)
        for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
            if (!strncmp(l, "nameserver", 10) && (l[10] == ' ' || l[10] == '\t'))
                add_server(e, l + 10 + strspn(l + 10, " \t"));
    char none[] = "127.0.0.1"; /* as resolv.conf(5) says */
    if (!e->nservers)
        add_server(e, none);
}

static void close_watch(resolve *r, cay__watch *w)
{
    if (w->fd < 0)
        return;
    cay__loop_del(&r->e->loop, w);
    sock_close(r->e, r->b, w->fd);
    w->fd = -1;
}

void resolve_cancel(resolve *r)
{
    close_watch(r, &r->udp);
    close_watch(r, &r->tcp);
    later_stop(&r->late);
    free(r->stream);
    free(r);
}

/* v6 and v4 in turns, beginning with v6. */
static void finish_resolve(resolve *r, const char *reason)
{
    uint8_t addr[2 * DNS_ADDRS][16];
    uint32_t ttl = UINT32_MAX;
    int n = 0;
    for (int i = 0; i < DNS_ADDRS; i++)
        for (int k = 1; k >= 0; k--)
            if (i < r->ask[k].found.n) {
                memcpy(addr[n++], r->ask[k].found.addr[i], 16);
                ttl = CAY_MIN(ttl, r->ask[k].found.ttl);
            }
    resolve_done *done = r->done;
    void *arg = r->arg;
    resolve_cancel(r);
    done(arg, (const uint8_t(*)[16])addr, n, ttl, n ? NULL : reason);
}

static void send_queries(resolve *r);

static void finish_if_answered(resolve *r)
{
    if (!r->ask[0].done || !r->ask[1].done)
        return;
    bool nx = r->ask[0].found.rcode == DNS_NXDOMAIN || r->ask[1].found.rcode == DNS_NXDOMAIN;
    finish_resolve(r, nx ? "no_such_name" : "no_address");
}

static void on_late(later *l)
{
    resolve *r = CAY__OWNER(l, resolve, late);
    if (r->ask[0].found.n || r->ask[1].found.n)
        finish_resolve(r, NULL); /* one family is enough to begin with */
    else
        send_queries(r);
}

static void by_tcp(resolve *r, ask *a);

static void process_answer(resolve *r, ask *a, const dns_found *f, bool tcp)
{
    if (f->truncated && !tcp) {
        by_tcp(r, a);
        return;
    }
    if (f->rcode != DNS_NOERROR && f->rcode != DNS_NXDOMAIN) {
        if (++r->failures >= 2) /* this server cannot: the next one, at once */
            later_set(r->e, &r->late, 0, on_late);
        return;
    }
    a->found = *f;
    a->done = true;
    if (f->n && !(r->ask[0].done && r->ask[1].done))
        later_set(r->e, &r->late, LAG_MS, on_late);
    finish_if_answered(r);
}

static void on_udp(cay__watch *w, uint32_t events)
{
    resolve *r = CAY__OWNER(w, resolve, udp);
    uint8_t in[4096];
    dns_found f;
    ssize_t n = recv(w->fd, in, sizeof in, MSG_DONTWAIT);
    if (n < 0) {
        if (errno != EAGAIN) { /* nobody listens there */
            close_watch(r, &r->udp);
            later_set(r->e, &r->late, 0, on_late);
        }
        return;
    }
    CAY_EACH_OF(it, r->ask, 2)
        if (!it->done && dns_read_reply(in, (size_t)n, it->id, r->name, it->type, &f)) {
            process_answer(r, it, &f, false);
            return;
        }
}

static void on_tcp_answer(cay__watch *w, uint32_t events)
{
    resolve *r = CAY__OWNER(w, resolve, tcp);
    dns_found f;
    if (events & EPOLLOUT) {
        uint8_t out[2 + 512];
        size_t n = dns_write_query(r->by_tcp->id, r->name, r->by_tcp->type, out + 2, 512);
        out[0] = (uint8_t)(n >> 8);
        out[1] = (uint8_t)n;
        if (send(w->fd, out, 2 + n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)(2 + n)) {
            close_watch(r, w);
            return; /* the time-out asks the next server */
        }
        cay__loop_set(&r->e->loop, w, EPOLLIN);
        return;
    }
    ssize_t n = recv(w->fd, r->stream + r->have, TCP_MAX - r->have, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0)
        r->have += (size_t)n;
    size_t len = 0;
    if (r->have >= 2)
        len = (size_t)r->stream[0] << 8 | r->stream[1];
    if (r->have >= 2 && r->have >= 2 + len) {
        ask *a = r->by_tcp;
        bool good = dns_read_reply(r->stream + 2, len, a->id, r->name, a->type, &f);
        close_watch(r, w);
        if (good)
            process_answer(r, a, &f, true);
        return;
    }
    if (n <= 0 || r->have == TCP_MAX)
        close_watch(r, w);
}

static void by_tcp(resolve *r, ask *a)
{
    struct sockaddr_storage to;
    const server *s = &r->e->servers[(r->tries - 1) % r->e->nservers];
    if (r->tcp.fd >= 0)
        return; /* one after the other: the second comes with the next try */
    unsigned len = addr_to_sock(s->addr, s->port, &to);
    int fd = sock_open(r->e, r->b, to.ss_family, SOCK_STREAM);
    if (fd < 0 || (connect(fd, (struct sockaddr *)&to, len) < 0 && errno != EINPROGRESS)) {
        sock_close(r->e, r->b, fd);
        return;
    }
    if (!r->stream)
        r->stream = cay__alloc(TCP_MAX);
    r->have = 0;
    r->by_tcp = a;
    r->tcp = (cay__watch){ .fd = fd, .events = EPOLLOUT, .fn = on_tcp_answer };
    cay__loop_add(&r->e->loop, &r->tcp);
}

/* The next try, on a new port. */
static void send_queries(resolve *r)
{
    egress *e = r->e;
    struct sockaddr_storage to;
    uint8_t out[512];
    close_watch(r, &r->udp);
    close_watch(r, &r->tcp);
    read_servers(e);
    if (r->tries >= TRIES) {
        finish_resolve(r, "resolver_failed");
        return;
    }
    const server *s = &e->servers[r->tries % e->nservers];
    later_set(e, &r->late, patience[r->tries++], on_late);
    r->failures = 0;
    unsigned len = addr_to_sock(s->addr, s->port, &to);
    int fd = sock_open(e, r->b, to.ss_family, SOCK_DGRAM);
    if (fd < 0)
        return;
    r->udp = (cay__watch){ .fd = fd, .events = EPOLLIN, .fn = on_udp };
    cay__loop_add(&e->loop, &r->udp);
    if (connect(fd, (struct sockaddr *)&to, len) < 0)
        return;
    uint16_t id[2];
    cay__random(id, sizeof id);
    for (int i = 0; i < 2; i++) {
        if (r->ask[i].done)
            continue;
        r->ask[i].id = id[i];
        size_t n = dns_write_query(id[i], r->name, r->ask[i].type, out, sizeof out);
        send(fd, out, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

resolve *resolve_start(egress *e, egress_box *b, const char *name, resolve_done *done, void *arg)
{
    resolve *r = cay__alloc(sizeof *r);
    r->e = e;
    r->b = b;
    r->done = done;
    r->arg = arg;
    r->udp.fd = r->tcp.fd = -1;
    r->ask[0].type = DNS_A;
    r->ask[1].type = DNS_AAAA;
    CAY_COPY(r->name, name);
    send_queries(r);
    return r;
}
