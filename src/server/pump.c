/* SPDX-License-Identifier: Apache-2.0 */
/* Streams on the lane: a source that is readable, an encoder, and a peer that reads as fast as it likes. */
#include "stream.h"
#include <base/base.h>
#include <base/fd.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

enum { PIECE = 64 << 10, TURN = 1 << 20, ROUNDS = 16, CHUNK_HEAD = 8 };

static void step(cay__conn *c, bool pull, unsigned ready);
static void on_beat(cay__timer *t);

cay__stream *cay__stream_new(cay__conn *c, const cay__pump *pump, cay__framing framing)
{
    cay__stream *s = cay__alloc(sizeof *s);
    s->pump = pump ? *pump : (cay__pump){ .fd = { -1, -1, -1 } };
    s->framing = framing;
    s->fd = -1;
    s->left = -1;
    s->conn = c;
    s->beat.fn = on_beat;
    s->stage.max = CAY__OUT_MAX;
    for (int i = 0; i < 3; i++)
        s->source[i] = (cay__source){ .w.fd = -1, .c = c };
    c->stream = s;
    return s;
}

/* ------------------------------------------------------------------ answers that stream */

int cay__reply_pump(cay__req *r, int status, const char *type, const cay__pump *pump)
{
    cay__reply_head(r, status, type, -1);
    if (cay__reply_bodiless(r, status)) {
        cay__pump copy = *pump;
        if (copy.close)
            copy.close(&copy);
        return 0;
    }
    cay__stream_new(r->conn, pump, r->reply->chunked ? CAY__CHUNKS : CAY__RAW);
    return 0;
}

int cay__reply_fd(cay__req *r, int status, const char *type, int fd, int64_t len)
{
    struct stat st;
    cay__reply_head(r, status, type, len);
    if (cay__reply_bodiless(r, status) || len == 0) {
        close(fd);
        return 0;
    }
    cay__stream *s = cay__stream_new(r->conn, NULL, r->reply->chunked ? CAY__CHUNKS : CAY__RAW);
    bool known = fstat(fd, &st) == 0;
    s->file = known && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));
    s->pipe = known && S_ISFIFO(st.st_mode);
    s->fd = fd;
    s->left = len;
    if (!s->file)
        s->pump.fd[0] = fd;
    return 0;
}

int cay__reply_upgrade(cay__req *r, const char *protocol, const cay__pump *pump)
{
    cay__reply_field(r, "Upgrade", protocol);
    cay__reply_field(r, "Connection", "Upgrade");
    cay__reply_head(r, 101, NULL, -1);
    r->conn->keep = false;
    cay__stream_new(r->conn, pump, CAY__RAW)->upgraded = true;
    return 0;
}

/* ------------------------------------------------------------------ sources */

static void on_source(cay__watch *w, uint32_t events)
{
    cay__source *src = (cay__source *)((char *)w - offsetof(cay__source, w));
    unsigned i = (unsigned)(src - src->c->stream->source);
    unsigned in = events & ~(uint32_t)EPOLLOUT ? 1u << i : 0, out = events & ~(uint32_t)EPOLLIN ? src->c->stream->pump.write & 1u << i : 0;
    step(src->c, true, in | out << 4);
}

/* Watches what the pump names now, for reading while there is room, and for writing where it waits for that. */
static void watch_sources(cay__conn *c, bool on, bool room)
{
    cay__stream *s = c->stream;
    for (int i = 0; i < 3; i++) {
        cay__source *src = &s->source[i];
        uint32_t events = !on ? 0 : (room ? EPOLLIN : 0u) | (s->pump.write & 1u << i ? EPOLLOUT : 0u);
        int fd = events ? s->pump.fd[i] : -1;
        if (src->on && src->w.fd != fd) {
            cay__loop_del(&c->lane->loop, &src->w);
            src->on = false;
        }
        if (fd >= 0 && !src->on) {
            src->always = false;
            src->w = (cay__watch){ .fd = fd, .events = events, .fn = on_source };
            src->on = cay__loop_add(&c->lane->loop, &src->w);
            src->always = !src->on && errno == EPERM;
        } else if (fd < 0) {
            src->always = false;
        } else if (src->w.events != events) {
            cay__loop_set(&c->lane->loop, &src->w, events);
        }
    }
}

/* ------------------------------------------------------------------ a descriptor */

/* Straight from the page cache or a pipe into the socket. >0 moved, 0 the source ended, -1 the peer is slow, -2 broken, -3 nothing is there. */
static ssize_t move(cay__conn *c, cay__stream *s, size_t n)
{
    ssize_t got = s->file ? sendfile(c->w.fd, s->fd, NULL, n) : splice(s->fd, NULL, c->w.fd, NULL, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (got >= 0)
        return got;
    if (errno != EAGAIN)
        return -2;
    int there = 0;
    return !s->file && ioctl(s->fd, FIONREAD, &there) == 0 && !there ? -3 : -1;
}

/* By way of a buffer, framed. */
static ssize_t copy(cay__conn *c, cay__stream *s, size_t n)
{
    char *room = cay__buf_room(&c->out, n + CHUNK_HEAD + 2);
    size_t head = s->framing == CAY__CHUNKS ? CHUNK_HEAD : 0;
    if (!room)
        return -2;
    ssize_t got = read(s->fd, room + head, n);
    if (got <= 0)
        return got == 0 ? 0 : errno == EAGAIN || errno == EINTR ? -3 : -2;
    size_t all = (size_t)got + head;
    if (head) {
        char line[24];
        snprintf(line, sizeof line, "%06zx\r\n", (size_t)got);
        memcpy(room, line, CHUNK_HEAD);
        memcpy(room + all, "\r\n", 2);
        all += 2;
    }
    cay__buf_used(&c->out, all);
    return got;
}

static int produce_fd(cay__conn *c, cay__stream *s, bool *more)
{
    bool direct = s->framing == CAY__RAW && !c->tls && s->left >= 0 && (s->file || s->pipe);
    size_t budget = TURN;
    while (budget && s->left) {
        if (direct ? cay__io_pending(c) > 0 : cay__io_pending(c) > CAY__HIGH)
            return 0;
        size_t n = direct ? budget : PIECE;
        if (s->left > 0 && (int64_t)n > s->left)
            n = (size_t)s->left;
        ssize_t got = direct ? move(c, s, n) : copy(c, s, n);
        if (got == -1 || got == -3) {
            *more = got == -1;
            return 0;
        }
        if (got < 0 || (got == 0 && s->left > 0))
            return -1; /* it has fewer bytes than was promised: only a cut connection says so */
        if (got == 0)
            break;
        c->req->reply->bytes += (uint64_t)got;
        if (s->left > 0)
            s->left -= got;
        budget -= CAY_MIN(budget, (size_t)got);
        if (!s->file && !direct) { /* another read might wait */
            *more = false;
            return 0;
        }
    }
    if (!budget && s->left) {
        *more = s->file;
        return 0;
    }
    s->ended = true;
    return 0;
}

/* ------------------------------------------------------------------ a pump */

/* What the pump said, framed, into the connection. */
static void frame(cay__conn *c, cay__stream *s)
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
    if (s->stage.cap > PIECE)
        cay__buf_clear(&s->stage);
}

static int told(cay__conn *c, cay__stream *s, int rc)
{
    frame(c, s);
    if (s->stage.full || c->out.full)
        return -1;
    if (rc == CAY__PUMP_END)
        s->ended = true;
    s->working = rc == CAY__PUMP_WORK;
    return rc < 0 ? rc : 0;
}

static int produce_pump(cay__conn *c, cay__stream *s, unsigned ready)
{
    if (s->pump.beat_ms)
        cay__timer_arm(&c->lane->loop, &s->beat, cay__boot_ms() + s->pump.beat_ms);
    return s->pump.pull ? told(c, s, s->pump.pull(&s->pump, ready, &s->stage)) : 0;
}

bool cay__stream_wants_work(const cay__conn *c)
{
    return c->stream && c->stream->working;
}

void cay__stream_work(cay__conn *c)
{
    cay__stream *s = c->stream;
    s->result = s->pump.work ? s->pump.work(&s->pump, &s->stage) : -1;
}

/* ------------------------------------------------------------------ turns */

static void finish(cay__conn *c)
{
    if (c->stream->proxy) {
        cay__raw_finish(c);
        cay__stream_free(c);
        cay__conn_next(c);
        return;
    }
    bool raw_end = c->stream->upgraded || (c->stream->framing == CAY__RAW && c->stream->left < 0);
    if (raw_end)
        c->keep = false;
    cay__stream_free(c);
    cay__conn_next(c);
}

static unsigned always_ready(const cay__stream *s)
{
    unsigned ready = 0;
    for (unsigned i = 0; i < 3; i++)
        ready |= (unsigned)s->source[i].always << i;
    return ready;
}

/* One turn: get some, send some, and say what to wait for. The connection may be gone afterwards. */
static void step(cay__conn *c, bool pull, unsigned ready)
{
    cay__stream *s = c->stream;
    bool more = false;
    int rc = 0, sent = 1;
    for (int round = 0; round < ROUNDS && rc >= 0 && !s->working; round++) {
        more = false;
        if (!s->ended && cay__io_pending(c) < CAY__HIGH && (pull || s->fd >= 0)) {
            rc = s->fd >= 0 ? produce_fd(c, s, &more) : produce_pump(c, s, ready);
            ready = always_ready(s);
            pull = ready != 0;
        } else if (!s->ended && ready >> 4) { /* what it writes elsewhere needs no room here */
            rc = produce_pump(c, s, ready & ~15u);
            ready = 0;
            pull = false;
        }
        if (s->ended && s->framing == CAY__CHUNKS && !s->said_end) {
            cay__buf_str(&c->out, "0\r\n\r\n");
            s->said_end = true;
        }
        sent = rc < 0 ? -1 : cay__io_flush(c);
        if (sent <= 0 || s->ended || !(more || pull))
            break;
    }
    if (rc < 0 || sent < 0) {
        c->cut = true;
        cay__conn_close(c);
        return;
    }
    if (s->ended && sent > 0) {
        finish(c);
        return;
    }
    if (sent == 0)
        c->until = cay__now_ms() + CAY__SEND_MS;
    bool room = cay__io_pending(c) < CAY__HIGH;
    watch_sources(c, !s->ended && !s->working, room);
    more = more || (always_ready(s) && !s->ended);
    if (s->working) {
        cay__conn_want(c, EPOLLRDHUP | EPOLLONESHOT);
        if (!cay__pool_give(c->lane->server->pool, c))
            cay__conn_close(c);
        return;
    }
    bool hears = cay__stream_hears(c) && !c->eof && room;
    cay__conn_want(c, (sent == 0 || more ? EPOLLOUT : 0u) | (hears ? EPOLLIN : 0u) | (c->eof || (cay__stream_listens(c) && !hears) ? 0u : EPOLLRDHUP));
}

static void on_beat(cay__timer *t)
{
    cay__stream *s = (cay__stream *)((char *)t - offsetof(cay__stream, beat));
    if (!s->working)
        step(s->conn, true, 0);
}

int cay__stream_say(cay__conn *c, const char *data, size_t n)
{
    cay__stream *s = c->stream;
    return s->pump.push && !s->ended ? told(c, s, s->pump.push(&s->pump, 0, data, n, &s->stage)) : 0;
}

void cay__stream_event(cay__conn *c, uint32_t events)
{
    cay__stream *s = c->stream;
    int rc = 0;
    if (s->working && events) { /* a worker has it: its peer hung up */
        c->gone = true;
        return;
    }
    if (s->working) { /* the worker gave it back */
        s->working = false;
        rc = c->gone && !s->upgraded ? -1 : told(c, s, s->result);
    } else if (cay__stream_hears(c) && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) && !c->eof) {
        rc = cay__stream_hear_some(c);
    } else if ((events & (EPOLLERR | EPOLLHUP)) || (!cay__stream_listens(c) && (events & EPOLLRDHUP))) {
        rc = -1; /* nobody reads it any more */
    }
    if (rc < 0)
        cay__conn_close(c);
    else
        step(c, false, 0);
}

int cay__stream_start(cay__conn *c)
{
    cay__stream *s = c->stream;
    c->gone = false;
    /* What is here already: a body's beginning, or of a peer that did not wait for our yes. */
    if (cay__raw_start(c) < 0 || cay__stream_hear_kept(c) < 0)
        return -1;
    step(c, !s->working, 0);
    return 0;
}

/* Once a second: a peer that reads nothing at all is not waited for. */
void cay__stream_sweep(cay__conn *c, int64_t now)
{
    if (c->stream->working)
        return;
    if (c->stream->pump.hold && !cay__io_pending(c)) /* the peer waits for us */
        c->until = now + CAY__BODY_MS;
    bool waits = cay__io_pending(c) || (c->stream->proxy && !c->req->reply->body_done && !c->stream->pump.hold);
    if ((waits && now >= c->until) || (c->lane->draining && now >= c->lane->drain_until))
        cay__conn_close(c);
}

void cay__stream_free(cay__conn *c)
{
    cay__stream *s = CAY_STEAL(c->stream);
    if (!s)
        return;
    cay__timer_cancel(&s->beat);
    for (int i = 0; i < 3; i++)
        if (s->source[i].on)
            cay__loop_del(&c->lane->loop, &s->source[i].w);
    if (s->pump.close)
        s->pump.close(&s->pump);
    if (s->fd >= 0)
        close(s->fd);
    cay__buf_clear(&s->stage);
    free(s);
}
