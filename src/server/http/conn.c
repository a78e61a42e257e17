/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a connection: heads come in, answers go out, one after the other. */
#include "connection.h"
#include <arpa/inet.h>
#include <base/base.h>
#include <base/mutant.h>
#include <base/fault.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum { WORKING = EPOLLRDHUP | EPOLLONESHOT, LAST_MS = 100, NEW_MS = 2000 };

static void process_input(cay__conn *c, const char *data, size_t n);
static void on_conn(cay__watch *w, uint32_t events);
static void read_some(cay__conn *c);

bool cay__conn_want(cay__conn *c, uint32_t events)
{
    return cay__loop_set(&c->lane->loop, &c->w, events);
}

static void set_until(cay__conn *c, int64_t ms)
{
    c->until = cay__now_ms() + ms;
}

static void name_peer(cay__conn *c)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getpeername(c->w.fd, (struct sockaddr *)&a, &n) < 0 || a.ss_family == AF_UNIX)
        CAY_COPY(c->peer, "unix");
    else if (a.ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)&a)->sin_addr, c->peer, sizeof c->peer);
    else
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&a)->sin6_addr, c->peer, sizeof c->peer);
}

void cay__lane_accept(cay__lane *l, cay__listener *via, int fd)
{
    static const char full[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: "
                               "5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    if (atomic_fetch_add(&l->server->nconns, 1) >= l->server->conf.conns) {
        atomic_fetch_sub(&l->server->nconns, 1);
        (void)!send(fd, full, sizeof full - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(fd);
        return;
    }
    cay__conn *c = cay__alloc(sizeof *c);
    int on = 1;
    c->lane = l;
    c->via = via;
    c->keep = true;
    c->in.max = CAY__HEAD_MAX + CAY__SOON + sizeof l->scratch;
    c->out.max = CAY__OUT_MAX;
    c->w = (cay__watch){ .fd = fd, .events = EPOLLIN, .fn = on_conn };
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    name_peer(c);
    set_until(c, CAY__MUTANT("head-time") ? CAY__IDLE_MS : c->lane->server->conf.head_ms);
    c->next = l->conns;
    c->prev = &l->conns;
    if (c->next)
        c->next->prev = &c->next;
    l->conns = c;
    l->nconns++;
    if (!l->sweep.prev)
        cay__timer_arm(&l->loop, &l->sweep, cay__boot_ms() + 1000);
    bool ready = !l->server->conf.tls_cert || via->plain || cay__tls_begin(c);
    if (!cay__loop_add(&l->loop, &c->w) || !ready)
        cay__conn_close(c);
}

void cay__conn_close(cay__conn *c)
{
    cay__lane *l = c->lane;
    if (l->at == c)
        l->at = NULL;
    cay__stream_free(c);
    cay__loop_del(&l->loop, &c->w);
    *c->prev = c->next;
    if (c->next)
        c->next->prev = c->prev;
    l->nconns--;
    atomic_fetch_sub(&l->server->nconns, 1);
    if (c->req) {
        cay__log_request(c->req); /* one whose peer left in the middle is told of, too */
        cay__req_free(c->req);
    }
    if (c->tls)
        cay__tls_end(c);
    close(c->w.fd);
    cay__buf_clear(&c->in);
    cay__buf_clear(&c->out);
    free(c);
}

/* Our side is said; the peer may still be sending, and closing now would take our answer away from
 * it (RFC 9112 section 9.6). */
static void begin_linger(cay__conn *c)
{
    c->state = CAY__CONN_LINGER;
    cay__buf_clear(&c->in);
    set_until(c, c->lane->draining ? CAY__LINGER_LAST_MS : CAY__LINGER_MS);
    if (c->tls)
        cay__tls_bye(c);
    shutdown(c->w.fd, SHUT_WR);
    cay__conn_want(c, EPOLLIN);
}

/* Nobody waits for what a worker does for it. */
static void hang_up(cay__conn *c)
{
    c->gone = true;
    struct cay__worker *at = c->worker;
    if (at)
        cay__worker_pool_cancel(at, c);
}

void cay__conn_sweep(cay__conn *c, int64_t now)
{
    bool idle = (c->state == CAY__CONN_HEAD && !c->in.len && !c->skip) ||
                (c->state == CAY__CONN_WORK && c->parked);
    if (c->state == CAY__CONN_WORK && !c->parked) {
        if (c->lane->draining && now >= c->lane->drain_until)
            hang_up(c); /* it had its time */
        return;
    }
    if (c->state == CAY__CONN_STREAM) {
        cay__stream_sweep(c, now);
        return;
    }
    /* Who came just now is about to ask, and would be refused without an answer. */
    int64_t over;
    if (c->served)
        over = c->until - CAY__IDLE_MS + LAST_MS;
    else
        over = c->until - c->lane->server->conf.head_ms + NEW_MS;
    if (now >= c->until || (c->lane->draining && idle && now >= over))
        cay__conn_close(c);
}

/* What is in c->req was answered: forget it. */
static void end_request(cay__conn *c)
{
    cay__req *r = CAY_STEAL(c->req);
    c->served = true;
    cay__log_request(r);
    if (r == c->lane->spare)
        cay__req_reset(r);
    else
        cay__req_free(r);
}

void cay__conn_next(cay__conn *c)
{
    if (c->req)
        end_request(c);
    if (!c->keep || c->lane->draining || c->cut) {
        if (c->cut || c->eof)
            cay__conn_close(c);
        else
            begin_linger(c);
        return;
    }
    c->state = CAY__CONN_HEAD;
    c->scanned = 0;
    if (c->in_at == c->in.len) { /* a worker took the last of it: what comes now begins anew, or the
                                    buffer fills with what is over */
        cay__buf_clear(&c->in);
        c->in_at = 0;
    }
    set_until(c, c->skip ? c->lane->server->conf.body_ms : CAY__IDLE_MS);
    if (c->tls && cay__tls_waiting(c) &&
        c->in.len - c->in_at <=
            CAY__HEAD_MAX + CAY__SOON) { /* as much as leaves room for what is read */
        cay__conn_want(c, EPOLLIN);
        read_some(c);
    } else if (c->in.len > c->in_at) {
        process_input(c, NULL, 0);
    } else {
        cay__conn_want(c, EPOLLIN);
    }
}

/* All of the answer is in `out`, or a stream is ready. */
static void send_answer(cay__conn *c)
{
    if (c->stream) {
        c->state = CAY__CONN_STREAM;
        if (cay__stream_start(c) < 0)
            cay__conn_close(c);
        return;
    }
    int rc = cay__io_flush(c);
    if (rc < 0) {
        cay__conn_close(c);
    } else if (rc) {
        cay__conn_next(c);
    } else {
        c->state = CAY__CONN_SEND;
        set_until(c, CAY__SEND_MS);
        cay__conn_want(c, EPOLLOUT);
    }
}

void cay__conn_resume(cay__conn *c)
{
    if (c->state == CAY__CONN_STREAM)
        cay__stream_event(c, 0);
    else
        send_answer(c);
}

void cay__conn_worked(cay__conn *c)
{
    CAY_FAULT("server.answer");
    bool simple = !c->stream && !c->tls && c->keep && !c->skip && !c->lane->server->draining &&
                  c->in.len <= c->in_at;
    if (!simple || cay__io_flush(c) <= 0) {
        cay__lane_post(c);
        return;
    }
    c->served = true;
    cay__log_request(c->req);
    cay__req_free(c->req);
    c->req = NULL;
    cay__buf_clear(&c->in);
    c->in_at = c->scanned = 0;
    set_until(c, CAY__IDLE_MS);
    /* From the call on it is the lane's, which may even free it meanwhile: nothing of it is looked
     * at afterwards. */
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = &c->w };
    int ep = c->lane->loop.ep, fd = c->w.fd;
    c->w.events = EPOLLIN;
    c->parked = true;
    epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e);
}

/* An id for the log: one of its own, nothing that a secret hangs on, so the kernel is not asked
 * (splitmix64). */
static void name_request(cay__lane *l, char id[CAY_ID_LEN + 1])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint64_t bits = 0;
    id[0] = 'r';
    for (int i = 1; i < CAY_ID_LEN; i++, bits >>= 5) {
        if (i % 12 == 1) {
            bits = l->luck += 0x9e3779b97f4a7c15;
            bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
            bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
            bits ^= bits >> 31;
        }
        id[i] = letters[bits & 31];
    }
    id[CAY_ID_LEN] = 0;
}

static void begin_request(cay__conn *c, cay__req *r)
{
    cay__server *s = c->lane->server;
    c->req = r;
    r->server = s;
    r->client = s->client;
    r->conn = c;
    r->peer = c->peer;
    r->as = c->via->as;
    r->tls = c->tls != NULL;
    r->call = (cay_call){ .size = sizeof r->call, .deadline_ms = cay__now_ms() + CAY__CALL_MS };
    r->reply->began_us = cay__now_us();
    name_request(c->lane, r->id);
}

/* A head that is no head: it is told so, and nothing after it is read. */
static void reject_head(cay__conn *c, cay__req *r, const cay_err *err)
{
    memset(&r->head, 0, sizeof r->head);
    r->head.method = r->head.target = r->head.path = r->head.query = r->head.host = "";
    begin_request(c, r);
    c->keep = false;
    cay__reply_problem(r, err);
}

/* The whole body is here, or a worker has to wait for it. */
static bool body_ready(const cay__conn *c)
{
    const cay__req *r = c->req;
    if (r->head.body != CAY__BODY_LENGTH || r->head.length > CAY__SOON || r->head.expect_continue ||
        !r->route || (r->route->op->flags & CAY__OP_RAW))
        return true;
    return c->in.len - c->in_at >= r->head.length;
}

static void reject_overload(cay__conn *c)
{
    cay_err err = CAY_ERR_INIT;
    size_t n = cay__worker_pool_waiting(c->lane->server->pool);
    cay_fail_why(&err, CAY_EBUSY, "overloaded", "%zu requests are waiting already: try again soon",
                 n);
    err.retry = CAY_RETRY_YES;
    err.retry_after_ms = 1000;
    CAY_FORMAT(err.detail, "{\"queue\":%zu}", n);
    cay__route_fail(c->req, &err);
    send_answer(c);
}

/* To a worker; or answered here, when it needs none. */
static void dispatch_request(cay__conn *c)
{
    cay__req *r = c->req;
    cay_err err = CAY_ERR_INIT;
    if (!r->route) {
        r->reply->fields.len = 0;
        cay__route_find(r, &err);
        cay__route_fail(r, &err);
        send_answer(c);
    } else if (r->route->op->flags & CAY__OP_LOOP) {
        cay__route_run(r);
        send_answer(c);
    } else {
        c->state = CAY__CONN_WORK;
        c->parked = c->gone = false;
        cay__conn_want(c, WORKING);
        if (!cay__worker_pool_give(c->lane->server->pool, c))
            reject_overload(c);
    }
}

/* One head at the start of data. How many bytes it had; 0: there is none yet, or there will be no
 * more. */
static size_t read_head(cay__conn *c, const char *data, size_t n)
{
    cay__lane *l = c->lane;
    cay__req *r = l->spare;
    cay_err err = CAY_ERR_INIT;
    int used = cay__request_read(data, n, &c->scanned, &r->head, &err);
    if (used < 0)
        reject_head(c, r, &err);
    if (used <= 0)
        return 0;
    begin_request(c, r);
    bool found = cay__route_find(r, &err) == 0;
    bool here = r->head.body == CAY__BODY_NONE && (!found || (r->route->op->flags & CAY__OP_LOOP));
    c->heading = false;
    if (here && found) {
        cay__route_run(r);
        if (c->stream)
            l->spare = cay__req_new(l->server);
    } else if (here) {
        cay__route_fail(r, &err);
    } else {
        l->spare = cay__req_new(l->server);
        c->state = CAY__CONN_BODY;
        set_until(c, c->lane->server->conf.body_ms);
    }
    return (size_t)used;
}

/* Behind what is kept, which moves to the front: a peer that asks without end, each time with a
 * part of the next request behind the last, would fill the buffer with what was answered long ago.
 */
static void keep_more(cay__conn *c, const char *data, size_t n)
{
    if (c->in_at && n) {
        memmove(c->in.data, c->in.data + c->in_at, c->in.len - c->in_at);
        c->in.len -= c->in_at;
        c->in_at = 0;
    }
    cay__buf_add(&c->in, data, n);
}

/* What came is taken apart: heads that are answered at once, then one that is not, and what follows
 * is kept. */
static void take_apart(cay__conn *c, const char *data, size_t n)
{
    /* NOLINTNEXTLINE(analyzer-use-after-free): process_input() asks l->at, which a close clears */
    bool kept = c->in.len > c->in_at;
    if (kept) {
        keep_more(c, data, n);
        data = c->in.data + c->in_at;
        n = c->in.len - c->in_at;
    }
    const char *at = data, *end = data + n;
    while (c->state == CAY__CONN_HEAD && at < end && c->keep) {
        if (c->skip) {
            size_t drop = (size_t)CAY_MIN((uint64_t)(end - at), c->skip);
            c->skip -= drop;
            at += drop;
            continue;
        }
        size_t used = read_head(c, at, (size_t)(end - at));
        at += used;
        if (used)
            c->scanned = 0;
        if (c->state == CAY__CONN_HEAD && c->req && !c->stream)
            end_request(c);
        if (!used || c->stream || cay__io_pending(c) > CAY__HIGH)
            break;
    }
    if (kept) {
        c->in_at += (size_t)(at - data);
    } else if (at < end) {
        cay__buf_add(&c->in, at, (size_t)(end - at));
    }
    if (c->in_at == c->in.len) {
        cay__buf_clear(&c->in);
        c->in_at = 0;
    }
    if (c->state == CAY__CONN_BODY) {
        if (cay__io_pending(c) && cay__io_flush(c) < 0)
            cay__conn_close(c);
        else if (body_ready(c))
            dispatch_request(c);
        else
            cay__conn_want(c, EPOLLIN);
    } else if (cay__io_pending(c) || c->stream || !c->keep) {
        send_answer(c);
    } else {
        if (c->in.len &&
            !c->heading) /* counted from its first byte, however many follow one by one */
            set_until(c, CAY__MUTANT("head-time") ? CAY__IDLE_MS : c->lane->server->conf.head_ms);
        c->heading = c->in.len > 0;
        cay__conn_want(c, EPOLLIN);
    }
}

/* An answer that was given on the way asks for what is behind it. That is taken up here and not
 * inside: a peer may send hundreds of requests at once, and each would have its frames on the
 * stack. */
static void process_input(cay__conn *c, const char *data, size_t n)
{
    cay__lane *l = c->lane;
    if (l->at == c) {
        keep_more(c, data, n);
        l->more = true;
        return;
    }
    l->at = c;
    do {
        l->more = false;
        take_apart(c, data, n);
        data = NULL;
        n = 0;
    } while (l->at == c && l->more); /* closed, it is nobody's any more */
    l->at = NULL;
}

static void read_some(cay__conn *c)
{
    cay__lane *l = c->lane;
    ssize_t n = cay__io_read(c, l->scratch, sizeof l->scratch);
    if (n == -1)
        return;
    if (n <= 0) {
        cay__conn_close(c);
        return;
    }
    if (c->state == CAY__CONN_HEAD) {
        process_input(c, l->scratch, (size_t)n);
    } else if (c->state == CAY__CONN_BODY) {
        keep_more(c, l->scratch, (size_t)n);
        if (body_ready(c))
            dispatch_request(c);
    }
}

static void on_conn(cay__watch *w, uint32_t events)
{
    cay__conn *c = (cay__conn *)((char *)w - offsetof(cay__conn, w));
    if (c->state == CAY__CONN_WORK) {
        if (!(events & EPOLLIN)) { /* of the time when a worker had it */
            hang_up(c);
            return;
        }
        atomic_exchange(&c->parked, false); /* sees all that the worker did before */
        c->state = CAY__CONN_HEAD;
    }
    if (c->state == CAY__CONN_SEND)
        send_answer(c);
    else if (c->state == CAY__CONN_STREAM)
        cay__stream_event(c, events);
    else
        read_some(c);
}
