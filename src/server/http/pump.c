/* SPDX-License-Identifier: Apache-2.0 */
/* Streams on the lane: a source that is readable, an encoder, and a peer that reads as fast as it
 * likes. */
#include "stream.h"
#include <base/base.h>

enum {
    ROUNDS = 16,
    STAGE = 64 << 10,
    WRITES = 4,
    RETRY_MS = 1000,
    WS_RESTART = 1012 /* RFC 6455 registry: service restart */
};

static void advance_stream(cay__conn *c, bool pull, unsigned ready);
static void on_beat(cay__timer *t);

cay__stream *cay__stream_new(cay__conn *c, const cay__pump *pump, cay__framing framing)
{
    cay__stream *s = cay__alloc(sizeof *s);
    if (pump)
        s->raw.pump = *pump;
    else
        s->raw.pump = (cay__pump){ .fd = { -1, -1, -1 } };
    s->framing = framing;
    s->fd = -1;
    s->left = -1;
    s->conn = c;
    s->beat.fn = on_beat;
    s->stage.max = CAY__OUT_MAX;
    for (int i = 0; i < 3; i++)
        s->source[i] = (cay__source){ .w.fd = -1, .c = c, .i = (unsigned)i };
    c->stream = s;
    return s;
}

int cay__reply_pump(cay__req *r, int status, const char *type, const cay__pump *pump)
{
    cay__reply_head(r, status, type, -1);
    if (cay__reply_bodiless(r, status)) {
        cay__pump copy = *pump;
        if (copy.close)
            copy.close(&copy);
        return 0;
    }
    cay__stream_new(r->conn, pump, r->reply->chunked ? CAY__CHUNKS : CAY__RAW)->events =
        !strcmp(type, "text/event-stream");
    return 0;
}

int cay__reply_upgrade(cay__req *r, const char *protocol, const cay__pump *pump)
{
    cay__reply_field(r, "Upgrade", protocol);
    cay__reply_field(r, "Connection", "Upgrade");
    cay__reply_head(r, 101, NULL, -1);
    r->conn->keep = false;
    cay__stream_new(r->conn, pump, CAY__RAW)->input = CAY__PEER_BYTES;
    return 0;
}

int cay__reply_raw(cay__req *r, const cay__raw *raw)
{
    cay__stream *s = cay__stream_new(r->conn, NULL, CAY__RAW);
    cay__reply_state *a = r->reply;
    s->raw = *raw;
    s->input = CAY__PEER_BODY;
    s->proxied = true;
    a->status = CAY_OR(raw->status, 200);
    a->body_done = r->head.body == CAY__BODY_NONE;
    if (r->head.body == CAY__BODY_LENGTH)
        a->body_left = r->head.length;
    else
        a->body_left = 0;
    if (r->head.expect_continue)
        cay__buf_str(&r->conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
    return 0;
}

static void on_source(cay__watch *w, uint32_t events)
{
    cay__source *src = (cay__source *)((char *)w - offsetof(cay__source, w));
    unsigned ready = 0;
    if (events & ~(uint32_t)EPOLLOUT)
        ready |= 1u << src->i;
    if ((events & EPOLLOUT) || (events & (EPOLLERR | EPOLLHUP))) {
        if (w->events & EPOLLOUT)
            ready |= 1u << (WRITES + src->i);
    }
    advance_stream(src->c, true, ready);
}

void cay__source_lend(cay__source *src, cay__conn *c)
{
    src->c = c;
    src->w.fn = on_source;
}

/* A connection that outlives the stream is known to the loop by itself. */
static cay__source *source_at(cay__stream *s, unsigned i)
{
    if (i == 0 && s->raw.pump.kept)
        return (cay__source *)s->raw.pump.kept;
    return &s->source[i];
}

/* Watches what the pump names now, for reading while there is room, and for writing where it waits
 * for that. */
static void watch_sources(cay__conn *c, bool on, bool room)
{
    cay__stream *s = c->stream;
    cay__loop *loop = &c->lane->loop;
    for (unsigned i = 0; i < 3; i++) {
        cay__source *src = source_at(s, i);
        uint32_t events = 0;
        if (on && room)
            events |= EPOLLIN;
        if (on && (s->raw.pump.write >> i & 1))
            events |= EPOLLOUT;
        int fd = -1;
        if (events)
            fd = s->raw.pump.fd[i];
        if (src->on && src->w.fd != fd) {
            cay__loop_del(loop, &src->w);
            src->on = false;
        }
        if (fd < 0) {
            src->always = false;
        } else if (!src->on) {
            src->w = (cay__watch){ .fd = fd, .events = events, .fn = on_source };
            src->c = c;
            src->on = cay__loop_add(loop, &src->w);
            src->always = !src->on && errno == EPERM;
        } else {
            cay__loop_set(loop, &src->w, events);
        }
    }
}

static unsigned always_ready(cay__stream *s)
{
    unsigned ready = 0;
    for (unsigned i = 0; i < 3; i++)
        ready |= (unsigned)source_at(s, i)->always << i;
    return ready;
}

/* What the pump said, framed, into the connection. */
static void write_frame(cay__conn *c, cay__stream *s)
{
    if (!s->stage.len)
        return;
    if (s->framing == CAY__CHUNKS)
        cay__buf_fmt(&c->out, "%zx\r\n", s->stage.len);
    cay__buf_add(&c->out, s->stage.data, s->stage.len);
    if (s->framing == CAY__CHUNKS)
        cay__buf_str(&c->out, "\r\n");
    c->req->reply->bytes += s->stage.len;
    s->stage.len = 0;
    if (s->stage.cap > STAGE)
        cay__buf_clear(&s->stage);
}

static int apply_result(cay__conn *c, cay__stream *s, int rc)
{
    write_frame(c, s);
    if (s->stage.full || c->out.full)
        return -1;
    if (rc == CAY__PUMP_END)
        s->ended = true;
    s->working = rc == CAY__PUMP_WORK;
    if (rc < 0)
        return rc;
    return 0;
}

static int pull_some(cay__conn *c, cay__stream *s, unsigned ready)
{
    cay__pump *p = &s->raw.pump;
    if (p->beat_ms)
        cay__timer_arm(&c->lane->loop, &s->beat, cay__boot_ms() + p->beat_ms);
    if (p->pull)
        return apply_result(c, s, p->pull(p, ready, &s->stage));
    return 0;
}

int cay__stream_push(cay__conn *c, int kind, const char *data, size_t len)
{
    cay__stream *s = c->stream;
    cay__pump *p = &s->raw.pump;
    if (p->push && !s->ended)
        return apply_result(c, s, p->push(p, kind, data, len, &s->stage));
    return 0;
}

bool cay__stream_wants_work(const cay__conn *c)
{
    return c->stream && c->stream->working;
}

void cay__stream_work(cay__conn *c)
{
    cay__stream *s = c->stream;
    cay__pump *p = &s->raw.pump;
    if (p->work)
        s->result = p->work(p, &s->stage);
    else
        s->result = -1;
}

/* All is said: on to the next request, if there may be one. */
static void finish_stream(cay__conn *c)
{
    cay__stream *s = c->stream;
    cay__req *r = c->req;
    if (s->proxied) {
        r->reply->status = CAY_OR(s->raw.status, r->reply->status);
        c->keep = s->raw.keep && !s->raw.tunnel && r->reply->body_done && r->head.keep_alive &&
                  !c->lane->server->draining;
    } else if (s->input != CAY__PEER_NONE || (s->framing == CAY__RAW && s->left < 0)) {
        c->keep = false;
    }
    cay__stream_free(c);
    cay__conn_next(c);
}

/* Gets some and sends some, for a while. 1: all that was there is out; 0: the peer is slow;
 * negative: cut. */
static int pump_rounds(cay__conn *c, cay__stream *s, bool pull, unsigned ready, bool *more)
{
    int sent = 1;
    for (int round = 0; round < ROUNDS && !s->working; round++) {
        *more = false;
        if (!s->ended && cay__io_pending(c) < CAY__HIGH && (pull || s->fd >= 0)) {
            if ((s->fd >= 0 ? cay__fd_produce(c, s, more) : pull_some(c, s, ready)) < 0)
                return -1;
            ready = always_ready(s);
            pull = ready != 0;
        } else if (!s->ended && ready >> WRITES) { /* what it writes elsewhere needs no room here */
            if (pull_some(c, s, ready >> WRITES << WRITES) < 0)
                return -1;
            ready = 0;
            pull = false;
        }
        if (s->ended && s->framing == CAY__CHUNKS && !s->said_end) {
            cay__buf_str(&c->out, "0\r\n\r\n");
            s->said_end = true;
        }
        sent = cay__io_flush(c);
        if (sent <= 0 || s->ended || !(*more || pull))
            break;
    }
    return sent;
}

/* A peer that waits for its answer says nothing: what was watched before stays so, until it tells
 * of something. Two calls fewer for each. */
static void watch_connection(cay__conn *c, cay__stream *s, uint32_t events)
{
    s->lazy = events == EPOLLRDHUP && c->w.events == EPOLLIN;
    if (!s->lazy)
        cay__conn_want(c, events);
}

/* One turn, and what to wait for next. The connection may be gone afterwards. */
static void advance_stream(cay__conn *c, bool pull, unsigned ready)
{
    cay__stream *s = c->stream;
    bool more = false;
    int sent = pump_rounds(c, s, pull, ready, &more);
    if (sent >= 0 && s->input != CAY__PEER_NONE && cay__stream_open(s) &&
        (c->in.len || s->input == CAY__PEER_FRAMES)) {
        if (cay__peer_data(c, NULL, 0) < 0) /* what waited while the pump held it */
            sent = -1;
        else
            sent = cay__io_flush(c);
    }
    if (sent < 0) {
        c->cut = true;
        cay__conn_close(c);
        return;
    }
    if (s->ended && sent > 0) {
        finish_stream(c);
        return;
    }
    if (sent == 0)
        c->until = cay__now_ms() + CAY__SEND_MS;
    watch_sources(c, !s->ended && !s->working, cay__io_pending(c) < CAY__HIGH);
    if (s->working) {
        cay__conn_want(c, EPOLLRDHUP | EPOLLONESHOT);
        if (!cay__worker_pool_give(c->lane->server->pool, c))
            cay__conn_close(c);
        return;
    }
    more = more || (always_ready(s) && !s->ended);
    uint32_t events = 0;
    if (sent == 0 || more)
        events |= EPOLLOUT;
    if (cay__peer_readable(c))
        events |= EPOLLIN;
    if (!c->eof && !cay__peer_wanted(c))
        events |= EPOLLRDHUP;
    watch_connection(c, s, events);
}

static void on_beat(cay__timer *t)
{
    cay__stream *s = (cay__stream *)((char *)t - offsetof(cay__stream, beat));
    if (!s->working)
        advance_stream(s->conn, true, 0);
}

static int hear_peer(cay__conn *c)
{
    ssize_t n = cay__io_read(c, c->lane->scratch, sizeof c->lane->scratch);
    if (n == -1)
        return 0;
    c->until = cay__now_ms() + c->lane->server->conf.body_ms;
    if (n > 0)
        return cay__peer_data(c, c->lane->scratch, (size_t)n);
    if (n == 0)
        return cay__peer_end(c);
    return -1;
}

void cay__stream_event(cay__conn *c, uint32_t events)
{
    cay__stream *s = c->stream;
    int rc = 0;
    if (s->working && events) { /* a worker has it: its peer hung up */
        c->gone = true;
        return;
    }
    if (s->lazy && events) { /* more than was asked for: now it is said what is wanted */
        s->lazy = false;
        cay__conn_want(c, EPOLLRDHUP);
        if (!(events & (EPOLLERR | EPOLLHUP)))
            return;
    }
    if (s->working) { /* the worker gave it back */
        s->working = false;
        if (s->raw.pump.beat_ms && !s->beat.prev) /* it was due meanwhile */
            cay__timer_arm(&c->lane->loop, &s->beat, cay__boot_ms() + s->raw.pump.beat_ms);
        if (c->gone && !cay__peer_wanted(c))
            rc = -1;
        else
            rc = apply_result(c, s, s->result);
    } else if ((events & EPOLLIN) && cay__peer_readable(c)) {
        rc = hear_peer(c);
    } else if ((events & (EPOLLERR | EPOLLHUP)) ||
               (!cay__peer_wanted(c) && (events & EPOLLRDHUP))) {
        rc = -1; /* nobody reads it any more */
    }
    if (rc < 0)
        cay__conn_close(c);
    else
        advance_stream(c, false, 0);
}

int cay__stream_start(cay__conn *c)
{
    cay__stream *s = c->stream;
    c->gone = false;
    c->until = cay__now_ms() + c->lane->server->conf.body_ms;
    if (s->input == CAY__PEER_BODY && !c->in.len &&
        cay__peer_data(c, NULL, 0) < 0) /* it learns at once that there is no body */
        return -1;
    advance_stream(c, !s->working, 0);
    return 0;
}

/* The server ends. What goes on without end is told so at once, with when to come back; what has an
 * end may come to it. */
static int say_last(cay__conn *c, cay__stream *s)
{
    cay__pump *p = &s->raw.pump;
    if (p->last)
        return apply_result(c, s, p->last(p, &s->stage));
    if (s->input == CAY__PEER_BYTES)
        return -1;
    if (s->framing == CAY__FRAMES)
        cay__ws_close(&s->stage, WS_RESTART, "the server restarts: connect again");
    else if (s->events)
        cay__buf_fmt(&s->stage, "retry: %d\n\n", RETRY_MS);
    else
        return 0;
    return apply_result(c, s, CAY__PUMP_END);
}

static void drain_stream(cay__conn *c, cay__stream *s)
{
    s->drained = true;
    if (s->ended)
        return;
    if (say_last(c, s) < 0)
        cay__conn_close(c);
    else if (s->ended || s->working)
        advance_stream(c, false, 0);
}

void cay__stream_sweep(cay__conn *c, int64_t now)
{
    cay__stream *s = c->stream;
    if (s->working)
        return;
    if (c->lane->draining && !s->drained) {
        drain_stream(c, s);
        return;
    }
    bool body = s->input == CAY__PEER_BODY && !s->raw.tunnel && cay__peer_readable(c);
    /* A peer that reads nothing at all, or sends nothing of its body, is not waited for; when the
     * server ends streams get some time. */
    if (((cay__io_pending(c) || body) && now >= c->until) ||
        (c->lane->draining && now >= c->lane->drain_until))
        cay__conn_close(c);
}

void cay__stream_free(cay__conn *c)
{
    cay__stream *s = CAY_STEAL(c->stream);
    if (!s)
        return;
    cay__timer_cancel(&s->beat);
    for (unsigned i = 0; i < 3; i++)
        if (source_at(s, i)->on)
            cay__loop_del(&c->lane->loop, &source_at(s, i)->w);
    if (s->raw.pump.close)
        s->raw.pump.close(&s->raw.pump);
    if (s->fd >= 0)
        close(s->fd);
    cay__ws_free(s->ws);
    cay__buf_clear(&s->stage);
    free(s);
}
