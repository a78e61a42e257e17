/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/egress/egress.h - the parts of cay-egress and what they share.
 *
 *   link.c     what the keeper says            box.c      a sandbox: sockets, policy, names
 *   dns.c      its questions for names         flow.c     a connection, from accept to verdict
 *   resolve.c  ours to a resolver              copy.c     and from there to its end
 *   dial.c     a name into a connection        refuse.c   how a refusal looks to a program
 *   audit.c    one record per decision         harden.c   what this process gives up
 *   intercept.c  what goes to the interceptor  given.c    what it has
 *   ports.c    a listener for each port, where a kernel cannot lead all to one
 *
 * One thread, one loop, no privilege. Everything that a sandbox can make grow has a ceiling here.
 */
#pragma once
#include "dnsmsg.h"
#include "httphead.h"
#include "bucket.h"
#include <proto/egress.h>
#include <base/base.h>
#include <base/loop.h>
#include <policy/policy.h>

enum {
    BUFFER = 256 << 10, /* one for all flows: nothing is kept between two reads */
    HELLO_MS = 10000,   /* a first flight has to come within */
    REFUSE_MS = 3000,   /* a refused program is listened to for so long, so that it can read why */
    RESOLVE_SERVERS = 3,
    DIAL_MS = 15000,  /* look-up and connection together */
    EYEBALL_MS = 250, /* RFC 8305, 5 */
    DNS_CONNS = 64,   /* of one sandbox by TCP, at once */
    DNS_CONN_MS = 10000,
    LINKS = 8,
    ALONE_MS = 60000, /* without keeper and sandbox */
    RESERVE_FDS = 64,
    CACHE = 16, /* look-ups remembered for each sandbox */
    CACHE_MS = 30000,
    LOG_MAX = 1 << 20,  /* of a sandbox's records; one older file is kept */
    PAST_MAX = 8 << 20, /* of those of sandboxes that are gone */
    LOG_RATE = 2000,    /* records a second of one sandbox; beyond they are counted */
    TICK_MS = 25,
    ALARM_MS = 1000, /* no call waits for longer, whatever a sandbox did to what it lent */
};

typedef struct egress egress;
typedef struct egress_box egress_box;
typedef struct egress_flow egress_flow;
typedef struct dial dial;
typedef struct resolve resolve;
typedef struct link_ link_;
typedef struct dns_conn dns_conn;
typedef struct given given;

/* Time-outs, of which thousands may run at once: unsorted, looked through every tick while there
 * are any. */
typedef struct later later;
struct later {
    later *next, **prev; /* prev is NULL when it does not run */
    int64_t at;
    void (*fn)(later *l);
};
void later_set(egress *e, later *l, int64_t ms, void (*fn)(later *l));
void later_stop(later *l);

typedef struct server {
    uint8_t addr[16];
    uint16_t port;
} server;

struct egress {
    cay__loop loop;
    cay__watch listen;
    link_ *links;
    struct fetch *fetches;
    unsigned nlinks, link_seq;
    egress_box *boxes;
    unsigned nboxes;
    dial *spare;     /* memory of the last that ended */
    cay__policy *op; /* NULL: no operator's file */
    later *waiting;
    cay__timer tick;
    unsigned fds, fds_max; /* in use, roughly; what we allow ourselves */
    uint64_t flow_seq;     /* the number of the last; those of an egress before are all lower */
    int audit_dir, route;
    cay__watch intercept; /* socket of the interceptor; fd -1: none */
    later stale;          /* flows of the last one that the next has not named are over then */
    server servers[RESOLVE_SERVERS];
    int nservers;
    int64_t servers_at, servers_stamp;
    int64_t alone_since; /* 0: a keeper is connected */
    int64_t pair_ms;     /* an interceptor was asked for */
    egress_box *log_box; /* whose records are in log */
    size_t log_len;
    char log[32 << 10];
    uint8_t buffer[BUFFER];
};

typedef struct lookup {
    uint32_t name; /* in the map; 0: empty */
    int n;
    int64_t until;
    uint8_t addr[2 * DNS_ADDRS][16];
} lookup;

/* Where a kernel cannot lead every connection to one listener. */
typedef struct door {
    cay__watch w;
    egress_box *b;
    uint16_t number; /* 0: not bound */
    bool watched;
} door;

struct egress_box {
    egress *e;
    egress_box *next;
    char id[CAY_WIRE_ID];
    uint64_t cookie, revision;
    bool fallback;
    unsigned lender; /* link that lent it last */
    cay__watch tcp, dns_tcp, dns_udp;
    door *doors; /* CAY_N_PORTS: CAY_N_PORTS_MOST of them, and tcp is the bag they came in; else
                    NULL */
    int map;
    cay__policy policy;

    char **names; /* entry n is names[n - 1] */
    uint32_t nnames, names_room;
    uint16_t *index; /* open addressing: n, or 0 */
    uint32_t index_size;
    lookup *cache[CACHE];

    egress_flow *flows;
    given *given; /* those that the interceptor has */
    unsigned nflows,
        nlive;       /* all of flows; those of them that are not being refused, and of given */
    unsigned fds;    /* held for it: flows, tries, questions */
    bool suspect;    /* an accept took long: from then on it is told whether it slept */
    unsigned slow;   /* accepts that slept */
    int64_t slow_ms; /* since when they are counted */
    egress_flow *stalled;
    cay__timer refill;
    bucket bucket[2];
    later rest; /* accept failed: try again */
    dns_conn *conns;
    unsigned nconns;

    int log_fd;
    uint64_t log_size;
    uint32_t log_second, log_count, log_lost;
};

/* box.c. `fds` as in CAY_N_LEND; on success the first four are taken, the policy's stays the
 * caller's. */
int box_lend(egress *e, const cay_n_box *m, const int fds[5], unsigned lender, cay_err *err);
int box_policy(egress_box *b, uint64_t revision, int fd, cay_err *err);
void box_drop(egress_box *b);
/* What is lent is what it is said to be. */
int check_socket(const char *id, int fd, const char *what, int type, bool listening,
                 uint64_t cookie, cay_err *err);

/* ports.c. Takes the sockets out of the bag; whatever happens, ports_drop() gives back what was
 * taken. */
int ports_take(egress_box *b, int bag, cay_err *err);
/* Each port of the policy has its listener, or the policy is refused: policy_port_taken,
 * too_many_ports. */
int ports_serve(egress_box *b, const cay__policy *p, cay_err *err);
void ports_wake(egress_box *b); /* after box_rest() */
void ports_drop(egress_box *b);
void alarm_set(bool on);
egress_box *egress_box_find(egress *e, const char *id);
void box_judge(egress_box *b); /* after a change: cut what is no longer allowed */
/* The number of a folded name; 0 when there is no room. *fresh: it was not there before. */
uint32_t box_number(egress_box *b, const char *name, bool *fresh);
const char *box_name(const egress_box *b, uint32_t n);
/* The number of a synthetic address, which may have no name; 0: it is none. */
uint32_t synthetic(const uint8_t addr[16]);
void synthetic_addr(uint32_t n, bool v4, uint8_t addr[16]);
int policy_from(int fd, bool operator_, cay__policy *out, cay_err *err);

/* dns.c */
void on_dns_udp(cay__watch *w, uint32_t events);
void on_dns_tcp(cay__watch *w, uint32_t events);
void dns_conn_close(dns_conn *c);

/* flow.c */
typedef enum flow_state { FLOW_PEEK, FLOW_DIAL, FLOW_COPY, FLOW_REFUSE, FLOW_DRAIN } flow_state;
struct egress_flow {
    cay__watch in, out; /* the sandbox's side, the other side; fd -1: not there */
    later late;
    egress_box *box;
    egress_flow *next, **prev;
    egress_flow *stall_next, **stall_prev;
    dial *dial;
    const cay__rule *rule;
    const char *reason;
    uint64_t id, bytes[2]; /* up, down */
    int64_t began;
    uint8_t addr[16], peer[16]; /* what was dialled; where it went */
    uint32_t name;              /* in the map; 0: an address was dialled */
    uint32_t lowat;
    uint16_t port, to_port; /* to_port: of a service, where it is */
    uint16_t status;        /* of the page that says no */
    uint8_t state, proto;
    uint8_t in_on, out_on;                    /* in the loop */
    uint8_t eof[2], full[2], chunk[2], stall; /* full: the other side takes no more; stall: a bit
                                                 for each direction without tokens */
    bool opaque, service;
    http_state http;
};
void on_tcp(cay__watch *w, uint32_t events);
void on_port(cay__watch *w, uint32_t events); /* of a port */
/* A connection of one of its listeners; -1: no more for now; -2: the listener was tampered with,
 * and the sandbox is dropped. */
int box_accept(egress_box *b, cay__watch *w);
void box_rest(egress_box *b, cay__watch *w); /* no events for a moment, or the loop spins */
void box_tampered(egress_box *b);
void flow_judge(egress_flow *f);
/* Ends it. orderly: both sides finished; else they are reset. Writes the last record. */
void flow_end(egress_flow *f, const char *reason, bool orderly);
void flow_free(egress_flow *f);
const char *flow_name(const egress_flow *f);
void flow_want(egress_flow *f, cay__watch *w, uint32_t events);
void flow_lowat(egress_flow *f, uint32_t n);

/* copy.c */
void copy_start(egress_flow *f);
void copy_event(egress_flow *f, bool upstream, uint32_t events);
void copy_unstall(egress_flow *f);
void on_refill(cay__timer *t);

/* refuse.c */
void refuse(egress_flow *f, const char *reason, uint16_t status);
void refuse_event(egress_flow *f, uint32_t events);

/* dial.c. done() may be called before dial_start() returns, which then is false; *out is set
 * before, and gone when it is called. fd -1: reason tells why. */
typedef void dial_done(void *arg, int fd, const uint8_t addr[16], const char *reason, int sys);
bool dial_start(dial **out, egress *e, egress_box *b, const char *name, uint32_t number,
                const uint8_t *addr, uint16_t port, bool trusted, dial_done *done, void *arg);
void dial_cancel(dial *d);
/* Would a packet to it leave this host, and not by broadcast? Asks the kernel. */
bool route_leads_out(egress *e, const uint8_t addr[16]);

/* resolve.c. done() is never called before resolve_start() returns. n 0: reason tells why. */
typedef void resolve_done(void *arg, const uint8_t (*addr)[16], int n, uint32_t ttl,
                          const char *reason);
resolve *resolve_start(egress *e, egress_box *b, const char *name, resolve_done *done, void *arg);
void resolve_cancel(resolve *r);

/* link.c */
void on_listen(cay__watch *w, uint32_t events);
void links_sweep(egress *e);
void links_forget(egress_box *b); /* fetches in its name end */
void links_pair(egress *e);       /* the keeper is asked for an interceptor, not too often */

/* audit.c */
typedef struct record {
    const char *event, *verdict, *reason;
    const char *name;
    const uint8_t *addr;
    const char *seen;   /* what the program said instead: server name or Host */
    const char *secret; /* a credential's name */
    const cay__rule *rule;
    uint64_t flow;
    uint16_t port;
    uint8_t proto;
    bool end, uncounted; /* uncounted: its bytes are not known */
    uint64_t up, down;
    int64_t ms;
} record;
void audit(egress_box *b, const record *r);
void audit_flush(egress *e);
void audit_close(egress_box *b); /* its records join those of the past */
const char *proto_name(unsigned proto);

/* intercept.c */
bool intercept_wanted(const egress_box *b, const char *name, uint16_t port, bool tls);
bool intercept_give(egress_flow *f, int upstream);
void intercept_take(egress *e, int fd); /* another one, or none */
void intercept_spent(egress_box *b); /* it is told what went through here, when that is worth it */

/* given.c */
void given_add(egress_box *b, uint64_t number, const char *name, const uint8_t addr[16],
               uint16_t port, unsigned proto, int64_t age); /* or it is there already */
void given_over(egress_box *b, uint64_t number);            /* somebody told its end */
void given_drop(egress_box *b);                             /* the sandbox is gone */
void given_move(egress_box *from, egress_box *to);          /* it has another net namespace */
void given_doubt(egress *e);  /* the pair ended: all are over unless they are named soon */
void given_settle(egress *e); /* those that were not are */

/* harden.c */
void harden_first(egress *e);
bool harden_last(egress *e);

/* Sockets, counted, for a sandbox or (NULL) for nobody. */
int sock_open(egress *e, egress_box *b, int family, int type);
void sock_close(egress *e, egress_box *b, int fd);
bool sock_room(const egress *e, unsigned n);
/* An address of 16 bytes as the kernel takes it; the length. */
struct sockaddr_storage;
unsigned addr_to_sock(const uint8_t addr[16], uint16_t port, struct sockaddr_storage *out);
bool addr_from_sock(const struct sockaddr_storage *s, uint8_t addr[16], uint16_t *port);
bool addr_is_v4(const uint8_t addr[16]);
