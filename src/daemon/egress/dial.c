/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name or an address into a connected socket: look up, judge every address that came, connect to
 * the first that answers.
 *
 * The address that was judged is the one that is connected to; nobody resolves the name a second
 * time in between.
 */
#include "egress.h"
#include <base/mutant.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum { AT_ONCE = 2 };

typedef struct try_ {
    cay__watch w;
    dial *d;
    bool there; /* connected, and not in the loop */
    uint8_t addr[16];
} try_;

struct dial {
    egress *e;
    egress_box *b;
    char name[CAY__NAME_MAX + 1]; /* "": an address was given */
    uint32_t number;              /* of the name in the sandbox's map, for its memory; 0: none */
    uint16_t port;
    bool trusted; /* the operator named the address: a service of the host */
    resolve *look_up;
    uint8_t addr[2 * DNS_ADDRS][16];
    int n, at;
    try_ tries[AT_ONCE];
    later late;
    int64_t deadline;
    const char *reason; /* the last that went wrong */
    int sys;
    uint8_t bad[16];
    dial_done *done;
    void *arg;
};

/* RTM_GETROUTE: what would the kernel do with a packet for this address? Its own addresses, those
 * of any interface, broadcast and anycast have another type than unicast, whatever the operator
 * lifted: the host is never reached this way. */
bool route_leads_out(egress *e, const uint8_t addr[16])
{
    bool v4 = addr_is_v4(addr);
    struct {
        struct nlmsghdr h;
        struct rtmsg r;
        struct rtattr a;
        uint8_t addr[16];
    } q = { .h = { .nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST },
            .r = { .rtm_family = AF_INET6, .rtm_dst_len = 128 },
            .a = { .rta_type = RTA_DST } };
    union {
        char room[4096];
        struct nlmsghdr h;
    } in;
    if (v4) {
        q.r.rtm_family = AF_INET;
        q.r.rtm_dst_len = 32;
    }
    size_t len = 16;
    if (v4)
        len = 4;
    memcpy(q.addr, v4 ? addr + 12 : addr, len);
    q.a.rta_len = (unsigned short)(sizeof q.a + len);
    q.h.nlmsg_len = (uint32_t)(offsetof(__typeof__(q), addr) + len);
    if (CAY__MUTANT("net-own-address"))
        return true;
    for (ssize_t n; (n = recv(e->route, in.room, sizeof in, MSG_DONTWAIT)) > 0;)
        ; /* nothing of an earlier question is left over */
    while (send(e->route, &q, q.h.nlmsg_len, 0) < 0)
        if (errno != EINTR)
            return false;
    ssize_t n;
    do
        n = recv(e->route, in.room, sizeof in, 0);
    while (n < 0 && errno == EINTR);
    if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct rtmsg)) || in.h.nlmsg_type != RTM_NEWROUTE)
        return false; /* an error: no way there */
    const struct rtmsg *r = NLMSG_DATA(&in.h);
    return r->rtm_type == RTN_UNICAST;
}

static void try_shut(try_ *t)
{
    if (t->w.fd < 0)
        return;
    cay__loop_del(&t->d->e->loop, &t->w);
    sock_close(t->d->e, t->d->b, t->w.fd);
    t->w.fd = -1;
}

void dial_cancel(dial *d)
{
    CAY_EACH_OF(trie, d->tries, AT_ONCE)
        try_shut(trie);
    if (d->look_up)
        resolve_cancel(d->look_up);
    later_stop(&d->late);
    free(d->e->spare);
    d->e->spare = d;
}

static void finish_dial(dial *d, int fd, const uint8_t *addr)
{
    dial_done *done = d->done;
    void *arg = d->arg;
    const char *reason = NULL;
    if (fd < 0)
        reason = d->reason;
    int sys = d->sys;
    uint8_t where[16];
    memcpy(where, fd < 0 ? d->bad : addr, 16);
    dial_cancel(d);
    done(arg, fd, where, reason, sys);
}

static bool try_next_addr(dial *d);

static void on_late(later *l)
{
    dial *d = CAY__OWNER(l, dial, late);
    if (cay__boot_ms() >= d->deadline) {
        if (!d->reason || d->look_up || d->at < d->n || d->tries[0].w.fd >= 0 ||
            d->tries[1].w.fd >= 0) {
            d->reason = "connect_timeout";
            if (d->look_up)
                d->reason = "resolver_failed";
            d->sys = ETIMEDOUT;
        }
        finish_dial(d, -1, NULL);
        return;
    }
    try_next_addr(d);
}

/* Fails, but not before whoever started it has returned. */
static void give_up(dial *d)
{
    d->deadline = 0;
    later_set(d->e, &d->late, 0, on_late);
}

static void on_try(cay__watch *w, uint32_t events)
{
    try_ *t = CAY__OWNER(w, try_, w);
    dial *d = t->d;
    int e = cay__sock_get(w->fd, SO_ERROR);
    if (e < 0)
        e = errno;
    if (e) {
        d->reason = "connect_failed";
        d->sys = e;
        memcpy(d->bad, t->addr, 16);
        try_shut(t);
        try_next_addr(d);
        return;
    }
    int fd = w->fd;
    uint8_t addr[16];
    memcpy(addr, t->addr, 16);
    cay__loop_del(&d->e->loop, w);
    w->fd = -1;
    finish_dial(d, fd, addr);
}

/* Is this address one that the policy lets us dial? */
static bool can_dial_addr(dial *d, const uint8_t addr[16])
{
    if (d->trusted)
        return true;
    memcpy(d->bad, addr, 16);
    if (d->name[0]) {
        cay__verdict v = cay__decide_addr(d->e->op, &d->b->policy, d->name, addr, d->port);
        if (!v.allow) {
            d->reason = v.reason;
            d->sys = EACCES;
            return false;
        }
    }
    if (!route_leads_out(d->e, addr)) {
        d->reason = "own_address";
        d->sys = ENETUNREACH;
        return false;
    }
    return true;
}

static bool connect_addr(dial *d, try_ *t, const uint8_t addr[16])
{
    static const struct {
        int level, option, value;
    } options[] = { { IPPROTO_TCP, TCP_NODELAY, 1 },
                    { SOL_SOCKET, SO_KEEPALIVE, 1 },
                    { IPPROTO_TCP, TCP_KEEPIDLE, 60 },
                    { IPPROTO_TCP, TCP_KEEPINTVL, 20 },
                    { IPPROTO_TCP, TCP_KEEPCNT, 6 } };
    struct sockaddr_storage to;
    unsigned len = addr_to_sock(addr, d->port, &to);
    int fd = sock_open(d->e, d->b, to.ss_family, SOCK_STREAM);
    if (fd < 0) {
        d->reason = "descriptors_limit";
        d->sys = errno;
        return false;
    }
    /* When we die, the other end shall see a reset and never a clean end. */
    cay__sock_reset(fd, true);
    CAY_EACH(o, options)
        cay__sock_set(fd, o->level, o->option, o->value);
    memcpy(t->addr, addr, 16);
    int rc = connect(fd, (struct sockaddr *)&to, len);
    if (rc < 0 &&
        errno == EINPROGRESS) /* over loopback it is there already: no round of the loop for that */
        rc = connect(fd, (struct sockaddr *)&to, len);
    if (rc < 0 && errno != EALREADY) {
        d->reason = "connect_failed";
        d->sys = errno;
        memcpy(d->bad, addr, 16);
        sock_close(d->e, d->b, fd);
        return false;
    }
    t->w = (cay__watch){ .fd = fd, .events = EPOLLOUT, .fn = on_try };
    t->there = rc == 0;
    if (!t->there)
        cay__loop_add(&d->e->loop, &t->w);
    return true;
}

/* Starts the next address when there is a free hand; the other goes on meanwhile. False: it is
 * over. */
static bool try_next_addr(dial *d)
{
    int hand = 0;
    while (hand < AT_ONCE && d->tries[hand].w.fd >= 0)
        hand++;
    bool busy = d->tries[0].w.fd >= 0 || d->tries[1].w.fd >= 0;
    int64_t left = d->deadline - cay__boot_ms();
    while (hand < AT_ONCE && d->at < d->n) {
        const uint8_t *addr = d->addr[d->at++];
        try_ *t = &d->tries[hand];
        if (can_dial_addr(d, addr) && connect_addr(d, t, addr)) {
            int fd = t->w.fd;
            if (t->there) {
                t->w.fd = -1;
                finish_dial(d, fd, addr);
                return false;
            }
            later_set(d->e, &d->late, d->at < d->n ? CAY_MIN(left, EYEBALL_MS) : left, on_late);
            return true;
        }
    }
    if (busy)
        later_set(d->e, &d->late, left, on_late);
    else
        give_up(d);
    return true;
}

static void cache_lookup(dial *d, uint32_t ttl)
{
    egress_box *b = d->b;
    int64_t ms = CAY_MIN((int64_t)ttl * 1000, CACHE_MS);
    if (!b || !d->number || ms <= 0)
        return;
    lookup **l = &b->cache[d->number % CACHE];
    if (!*l)
        *l = cay__alloc(sizeof **l);
    (*l)->name = d->number;
    (*l)->n = d->n;
    (*l)->until = cay__boot_ms() + ms;
    memcpy((*l)->addr, d->addr, sizeof d->addr);
}

static void on_found(void *arg, const uint8_t (*addr)[16], int n, uint32_t ttl, const char *reason)
{
    dial *d = arg;
    d->look_up = NULL;
    d->n = n;
    if (!n) {
        d->reason = reason;
        d->sys = EHOSTUNREACH;
        give_up(d);
        return;
    }
    memcpy(d->addr, addr, (size_t)n * 16);
    cache_lookup(d, ttl);
    try_next_addr(d);
}

bool dial_start(dial **out, egress *e, egress_box *b, const char *name, uint32_t number,
                const uint8_t *addr, uint16_t port, bool trusted, dial_done *done, void *arg)
{
    dial *d = *out = CAY_OR(e->spare, cay__alloc(sizeof *d));
    e->spare = NULL;
    *d = (dial){
        .e = e, .b = b, .number = number, .port = port, .trusted = trusted, .done = done, .arg = arg
    };
    d->deadline = cay__boot_ms() + DIAL_MS;
    CAY_EACH_OF(trie, d->tries, AT_ONCE)
        *trie = (try_){ .w.fd = -1, .d = d };
    if (addr) {
        memcpy(d->addr[0], addr, 16);
        d->n = 1;
        return try_next_addr(d);
    }
    CAY_COPY(d->name, name);
    lookup *l = NULL;
    if (number)
        l = b->cache[number % CACHE];
    if (l && l->name == number && l->until > cay__boot_ms()) {
        d->n = l->n;
        memcpy(d->addr, l->addr, sizeof d->addr);
        return try_next_addr(d);
    }
    later_set(e, &d->late, DIAL_MS, on_late);
    d->look_up = resolve_start(e, b, d->name, on_found, d);
    return true;
}
