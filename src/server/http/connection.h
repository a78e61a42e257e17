/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/http/connection.h - what the files of the server share and dialects do not see.
 *
 * A connection belongs to one thread at a time. Its lane (a loop, one per core) gathers heads and
 * moves streams; a worker has it from the complete head to the answer. A worker gives it back by
 * one epoll_ctl(2) when nothing is left to do, else by the lane's mailbox.
 */
#pragma once
#include <base/harden.h>
#include "server.h"
#include <base/loop.h>
#include <net/chunk.h>
#include <net/traceparent.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    CAY__SOON = 65536,     /* a body of at most that is gathered on the lane */
    CAY__HIGH = 256 << 10, /* more waits to be sent: the source has to wait */
    CAY__SKIP = 65536, /* what a handler did not read of a body is read for it up to here; else the
                          connection ends */
    CAY__OUT_MAX = 256 << 20, /* of an answer that is held in memory */
    CAY__IDLE_MS = 75000,
    CAY__SEND_MS = 30000,
    CAY__LINGER_MS = 3000,
    CAY__LINGER_LAST_MS = 500, /* the second when the server ends */
    CAY__LISTENERS = 16,
    CAY__CALL_MS = 600000,
    CAY__DRAIN_MS = 20000,
};

typedef struct cay__listener {
    int fd;
    bool local;               /* loopback or a unix socket */
    bool plain;               /* no TLS here */
    const cay__dialect *root; /* a dialect's own listener, or NULL */
    const char *as;
    char name[140]; /* as printed: http://127.0.0.1:8090, unix:/run/… */
} cay__listener;

typedef struct cay__door {
    cay__watch w;
    cay__listener *via;
    struct cay__lane *lane;
} cay__door;

typedef struct cay__lane {
    cay__loop loop;
    cay__server *server;
    pthread_t thread;
    cay__watch bell;
    pthread_mutex_t lock;
    struct cay__conn *mail; /* given back by workers */
    struct cay__conn *conns;
    unsigned nconns;
    cay__timer sweep;
    cay__door door[CAY__LISTENERS];
    uint64_t luck;          /* for ids of requests */
    struct cay__req *spare; /* for heads that are answered at once */
    struct cay__conn *at;   /* whose bytes are being taken apart */
    bool more;              /* and there are more of them to be */
    bool draining;
    int64_t drain_until; /* streams are ended then */
    cay__upstream *kept; /* connections into sandboxes that wait; preview_kept.c */
    unsigned nkept;
    char scratch[65536];
} cay__lane;

typedef enum cay__conn_state {
    CAY__CONN_HEAD,   /* waits for a head or the rest of one */
    CAY__CONN_BODY,   /* waits for a short body */
    CAY__CONN_WORK,   /* a worker has it */
    CAY__CONN_SEND,   /* the rest of an answer goes out */
    CAY__CONN_STREAM, /* a stream goes out, or both ways */
    CAY__CONN_LINGER, /* nothing more is said; what the peer still sends is thrown away, so that it
                         reads our last answer */
} cay__conn_state;

typedef struct cay__conn {
    cay__watch w;
    cay__lane *lane;
    struct cay__conn *next, **prev, *mail_next;
    cay__listener *via;
    _Atomic int state;
    struct ssl_st *tls;
    bool keep;      /* after this answer another request may come */
    bool served;    /* it had an answer */
    bool cut;       /* nothing can be sent any more */
    bool heading;   /* a part of a head is there */
    bool eof;       /* the peer sends no more */
    size_t scanned; /* of the head in `in` */
    uint64_t skip;  /* bytes of an old body to be thrown away before the next head */
    cay__buf in, out;
    size_t in_at, out_at;
    cay__req *req;
    struct cay__stream *stream;
    _Atomic(struct cay__worker *) worker;
    _Atomic bool gone; /* the peer hung up while it waited for a worker */
    _Atomic bool
        parked; /* a worker gave it back by epoll_ctl(2): CAY__CONN_WORK until the next event */
    _Atomic int64_t until; /* cay__now_ms() at which the lane ends it */
    char peer[48];
} cay__conn;

typedef struct cay__span_state {
    cay__traceparent self; /* what is passed on */
    char parent[17];       /* the caller's span, or "" */
    char text[CAY__TRACEPARENT + 1];
    int64_t began_ns; /* since 1970; 0: nothing is recorded */
} cay__span_state;

/* What a request has besides what dialects see. */
typedef struct cay__reply {
    cay__buf fields; /* lines that the handler adds */
    int status;      /* 0: not answered yet */
    bool chunked;
    uint64_t bytes; /* of the body */
    struct cay__deferred {
        struct cay__deferred *next;
        void (*fn)(void *p);
        void *p;
    } * deferred;
    cay__chunk chunk;
    uint64_t body_left; /* with a length */
    bool body_done, continued;
    bool told_end;     /* to a proxy's push() */
    bool turn;         /* it stood in line for a worker that takes its body (uploads.h) */
    int64_t window_ms; /* since then window_bytes of the body came */
    uint64_t window_bytes;
    int64_t began_us;
    struct cay_idempotency_record *once; /* begun, and not answered yet */
    bool replay;                         /* it holds what was answered before */
    const char *object;                  /* for the audit log */
    cay__span_state span;
} cay__reply_state;

struct cay__server {
    cay__conf conf;
    cay_client *client;
    cay__listener listeners[CAY__LISTENERS];
    size_t nlisteners;
    cay__lane *lanes;
    unsigned nlanes;
    _Atomic bool draining;
    _Atomic unsigned nconns;
    struct cay__worker_pool *pool;
    size_t nparts; /* that are open */
    int log_fd;
    struct cay__gate *gate;
    struct cay__controller *controller;
    struct cay__builders *builders;
    char instance[9];
    struct cay__previews *previews;
    struct cay__hub *hub;
    struct cay__listed *listed;
    struct cay__crowd *crowd;
    struct cay__uploads *uploads;
    struct e2b_watchers *watchers; /* dialect/e2b/watchers.h */
    struct cay__history *history;  /* history.h */
    struct cay__metrics *metrics;
    struct cay__tracing *tracing; /* or NULL */
    struct cay__tickets *tickets;
    struct ssl_ctx_st *tls;
    char *tls_cert;
    pthread_mutex_t tls_lock; /* of which certificate is the current one */
};

/* listen.c */
int cay__listen(cay__server *s, const char *addr, const cay__dialect *root, const char *as,
                cay_err *err);
void cay__listen_close(cay__server *s);
/* lane.c */
int cay__lane_start(cay__lane *l, cay__server *s, cay_err *err);
void cay__lane_close(cay__lane *l); /* after its thread */
void cay__lane_post(cay__conn *c);
void cay__lane_wake(cay__lane *l);
/* conn.c */
void cay__lane_accept(cay__lane *l, cay__listener *via, int fd);
void cay__conn_resume(cay__conn *c); /* on the lane: a worker gave it back */
void cay__conn_worked(cay__conn *c); /* on a worker: the handler is through */
void cay__conn_next(cay__conn *c);   /* on the lane: the answer is out */
void cay__conn_close(cay__conn *c);
void cay__conn_sweep(cay__conn *c, int64_t now);
bool cay__conn_want(cay__conn *c, uint32_t events); /* what to wait for */
/* io.c: plain or encrypted. >0 bytes, 0 end, -1 would block, -2 broken */
ssize_t cay__io_read(cay__conn *c, void *buf, size_t n);
ssize_t cay__io_write(cay__conn *c, const void *buf, size_t n);
int cay__io_flush(cay__conn *c); /* 1: all is out; 0: some waits; -1: broken */
static inline size_t cay__io_pending(const cay__conn *c)
{
    return c->out.len - c->out_at;
}
/* tls.c: as io.c, which calls it */
int cay__tls_load(cay__server *s, cay_err *err);
void cay__tls_unload(cay__server *s);
bool cay__tls_begin(cay__conn *c);
ssize_t cay__tls_read(cay__conn *c, void *buf, size_t n);
ssize_t cay__tls_write(cay__conn *c, const void *buf, size_t n);
bool cay__tls_waiting(const cay__conn *c); /* bytes are here that epoll(7) does not know of */
void cay__tls_bye(cay__conn *c);
void cay__tls_end(cay__conn *c);
/* preview_kept.c: on the lane. */
bool cay__upstream_sweep(cay__lane *l, int64_t now); /* false: none is left */
void cay__upstream_end(cay__lane *l);
/* reply.c: false: it goes as it is */
bool cay__gzip_wanted(const cay__head *h);
/* route.c */
cay__req *cay__req_new(cay__server *s);
void cay__req_reset(cay__req *r);
void cay__req_free(cay__req *r);
int cay__route_find(cay__req *r, cay_err *err);
bool cay__route_run(cay__req *r); /* auth, handler, error; false: it has to wait (uploads.h), and is
                                     not ours any more */
void cay__route_fail(cay__req *r, const cay_err *err);
/* body.c */
bool cay__body_settle(cay__req *r); /* the rest of the body: can another request follow it? */
/* worker.c */
struct cay__worker_pool *cay__worker_pool_new(unsigned max);
void cay__worker_pool_free(struct cay__worker_pool *p);               /* waits for what runs */
bool cay__worker_pool_give(struct cay__worker_pool *p, cay__conn *c); /* false: too much waits */
void cay__worker_pool_cancel(struct cay__worker *w, cay__conn *c);
size_t cay__worker_pool_waiting(struct cay__worker_pool *p);
/* pump.c */
int cay__stream_start(cay__conn *c); /* on the lane, with what the handler left in c->stream */
void cay__stream_event(cay__conn *c, uint32_t events);
void cay__stream_work(cay__conn *c); /* on a worker */
bool cay__stream_wants_work(const cay__conn *c);
void cay__stream_sweep(cay__conn *c, int64_t now);
void cay__stream_free(cay__conn *c);

/* anew.c: with the sockets of the program before. */
void cay__reexec_init(void);
int cay__reexec(const cay__server *s, char **argv); /* returns when it fails */
/* once.c */
int cay__once_begin(cay__req *r, const void *body, size_t len,
                    cay_err *err); /* CAY_EEXIST: answered before */
void cay__once_answer(cay__req *r, int status, const char *type, const void *data, size_t len);
bool cay__once_replay(cay__req *r);
void cay__once_end(cay__req *r);
/* once_seal.c: of a route with CAY__OP_SECRET, under the key that was shown. */
int cay__once_seal(cay__req *r, const struct cay_idempotency_record *a, const void *data,
                   size_t len, void **out, size_t *n, cay_err *err); /* in the arena */
bool cay__once_open(
    cay__req *r, struct cay_idempotency_record *a); /* in place; false: another key has closed it */
/* tell.c */
void cay__audit_request(cay__req *r);
/* log.c */
void cay__log_request(cay__req *r);
void cay__log_error(const cay__req *r, const cay_err *err);
