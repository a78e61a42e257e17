/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request through a preview, on the loop: the peer's body to the program inside, its answer
 * back. Memory is bounded whatever either side does: what the program does not take holds the peer
 * back, and what the peer does not take is not read.
 */
#include "preview.h"
#include "uplink.h"
#include <base/base.h>
#include <net/chunk.h>
#include <strings.h>

enum {
    READ =
        64
        << 10, /* at once: less makes more pieces of an answer, each of which its reader pays for */
    ROUND = 256 << 10, /* read at one turn of the loop, so that others have theirs */
    HINTS = 16,        /* 1xx answers before the real one */
    HEAD_MS = 300000,  /* until an answer begins */
    CONNECT_MS = 10000,
};

typedef enum phase { HEAD, LENGTH, CHUNKS, TO_END, TUNNEL, DONE } phase;

typedef struct flow {
    cay__preview_start s;
    struct cay__previews *pool;
    char request_id[CAY_ID_LEN + 1];
    phase phase;
    cay__uplink up; /* for the program inside */
    cay__buf again; /* the head, until an answer begins, when the request may be sent twice */
    bool may_take;  /* a connection that waited will do */
    bool reused;    /* it did: whoever is inside may have closed it just now */
    bool may_again, up_chunked, up_done;
    cay__buf in; /* of the answer, not yet understood: a part of its head */
    size_t scanned;
    unsigned hints;
    cay__preview_frame frame;
    cay__chunk chunk;
    uint64_t left;
    bool upstream_keeps;
    bool events; /* the answer is a stream of them */
    int64_t began_ms;
} flow;

static void flow_free(flow *f)
{
    cay__uplink_close(&f->up);
    cay__buf_clear(&f->up.wait);
    cay__buf_clear(&f->again);
    cay__buf_clear(&f->in);
    cay_sandbox_unref(f->s.sb);
    free(f);
}

/* Sends what goes. A program that reads no more may still answer. */
static void flush_up(cay__pump *p, flow *f)
{
    cay__uplink_flush(&f->up, p, 0);
    if (f->phase == TUNNEL && f->up_done && cay__uplink_empty(&f->up))
        cay__uplink_finish(&f->up);
}

static int push_request(cay__pump *p, int kind, const char *data, size_t len, cay__buf *out)
{
    flow *f = p->self;
    if (f->phase == DONE)
        return CAY__PUMP_ON;
    if (!data) {
        f->up_done = true;
        if (f->up_chunked)
            cay__uplink_add(&f->up, "0\r\n\r\n", 5);
    } else if (len) {
        char line[24];
        f->may_again = false;
        if (f->up_chunked)
            cay__uplink_add(&f->up, line, (size_t)CAY_FORMAT(line, "%zx\r\n", len));
        cay__uplink_add(&f->up, data, len);
        if (f->up_chunked)
            cay__uplink_add(&f->up, "\r\n", 2);
    }
    if (f->up.wait.full)
        return CAY_ETOOBIG;
    flush_up(p, f);
    return CAY__PUMP_ON;
}

static cay__raw *raw_of(cay__pump *p)
{
    return (cay__raw *)p; /* the pump is its first member */
}

/* The answer is whole. */
static int finish_response(cay__pump *p, flow *f)
{
    bool sent = f->up_done && cay__uplink_empty(&f->up) && !f->up.broken;
    raw_of(p)->keep = f->s.back.keep && f->frame != CAY__FRAME_CLOSE && f->up_done;
    if (sent && f->upstream_keeps && !f->in.len && !f->up.tls) {
        cay__upstream_give(p);
        f->up.fd = -1;
    }
    p->fd[0] = -1; /* the loop lets go of it before it is closed */
    p->write = 0;
    p->hold = false;
    f->phase = DONE;
    return CAY__PUMP_END;
}

/* Something is wrong with the answer. Before its head it can be said, afterwards the connection is
 * cut: a peer that counts sees it. */
static int fail_response(cay__pump *p, flow *f, const cay_err *err, cay__buf *out)
{
    if (f->phase != HEAD)
        return CAY_EUPSTREAM;
    cay__preview_page_raw(&f->s.back, f->s.html, f->request_id, err, &raw_of(p)->status, out);
    f->upstream_keeps = false;
    f->s.back.keep = false;
    return finish_response(p, f);
}

static int broken_by(cay__pump *p, flow *f, const char *why, cay__buf *out)
{
    cay_err err = CAY_ERR_INIT;
    cay_fail_why(&err, CAY_EUPSTREAM, "preview_upstream", "port %u: %s", f->s.back.at.port, why);
    return fail_response(p, f, &err, out);
}

static int begin_body(cay__pump *p, flow *f, const cay__head *h, cay__buf *out)
{
    f->frame = cay__preview_framing(&f->s.back, h);
    f->upstream_keeps = h->keep_alive && h->body != CAY__BODY_TO_END;
    const char *type = cay__head_field(h, "content-type");
    f->events = type && !strncasecmp(type, "text/event-stream", 17);
    if (!f->up_done) /* an answer before the question is all said: what follows of it is not to be
                        read as another one */
        f->s.back.keep = false;
    cay__preview_answer(&f->s.back, h, f->frame, out);
    raw_of(p)->status = h->status;
    cay__buf_clear(&f->again);
    f->left = h->length;
    switch (h->body) {
    case CAY__BODY_LENGTH: f->phase = LENGTH; break;
    case CAY__BODY_CHUNKED: f->phase = CHUNKS; break;
    case CAY__BODY_TO_END: f->phase = TO_END; break;
    case CAY__BODY_NONE: return finish_response(p, f);
    }
    if (f->phase == LENGTH && !f->left)
        return finish_response(p, f);
    return CAY__PUMP_ON;
}

/* 0 and *h: the real one; 1: there is none yet. */
static int next_head(flow *f, cay__head *h, cay_err *err)
{
    for (;;) {
        int n = cay__answer_read(f->in.data, f->in.len, &f->scanned, f->s.back.head_only, h, err);
        if (n <= 0) {
            if (n < 0)
                return n;
            return 1;
        }
        memmove(f->in.data, f->in.data + n, f->in.len - (size_t)n);
        f->in.len -= (size_t)n;
        f->scanned = 0;
        if (h->status >= 200 || h->status == 101)
            return 0;
        cay__head_clear(h); /* 100, 103: for us */
        if (++f->hints > HINTS)
            return cay_fail(err, CAY_EUPSTREAM, "endless 1xx answers");
        if (!f->in.len)
            return 1;
    }
}

static int process_data(cay__pump *p, flow *f, const char *data, size_t n, cay__buf *out);

static int take_head(cay__pump *p, flow *f, const char *data, size_t n, cay__buf *out)
{
    cay__head *h = cay__alloc(sizeof *h);
    cay_err err = CAY_ERR_INIT;
    cay__buf_add(&f->in, data, n);
    int rc = CAY_ETOOBIG;
    if (!f->in.full)
        rc = next_head(f, h, &err);
    if (rc == 0 && h->status == 101 &&
        !(f->s.back.websocket && h->upgrade && !strcasecmp(h->upgrade, "websocket"))) {
        rc = cay_fail(&err, CAY_EUPSTREAM, "an upgrade that nobody asked for");
    }
    if (rc < 0)
        rc = broken_by(p, f, cay__text_or(err.msg, "its head is too long"), out);
    else if (rc == 1)
        rc = CAY__PUMP_ON;
    else if (h->status == 101) {
        cay__preview_answer(&f->s.back, h, CAY__FRAME_NONE, out);
        raw_of(p)->status = 101;
        raw_of(p)->tunnel = true;
        f->s.back.keep = false;
        f->phase = TUNNEL;
        f->up_done = f->up_chunked = false;
    } else {
        rc = begin_body(p, f, h, out);
    }
    cay__head_clear(h);
    free(h);
    if (rc != CAY__PUMP_ON || f->phase == HEAD)
        return rc;
    /* What came behind the head. */
    cay__buf rest = f->in;
    f->in = (cay__buf)CAY__BUF(CAY__HEAD_MAX + READ);
    if (rest.len)
        rc = process_data(p, f, rest.data, rest.len, out);
    cay__buf_clear(&rest);
    return rc;
}

static void write_piece(flow *f, const char *data, size_t n, cay__buf *out)
{
    if (f->frame == CAY__FRAME_CHUNKED && n)
        cay__buf_fmt(out, "%zx\r\n", n);
    cay__buf_add(out, data, n);
    if (f->frame == CAY__FRAME_CHUNKED && n)
        cay__buf_str(out, "\r\n");
}

static int last_piece(cay__pump *p, flow *f, cay__buf *out)
{
    if (f->frame == CAY__FRAME_CHUNKED)
        cay__buf_str(out, "0\r\n\r\n");
    return finish_response(p, f);
}

static int take_chunks(cay__pump *p, flow *f, const char *data, size_t n, cay__buf *out)
{
    cay_err err = CAY_ERR_INIT;
    while (n) {
        const char *part;
        size_t used, len;
        if (cay__chunk_read(&f->chunk, data, n, n, &used, &part, &len, &err) < 0)
            return CAY_EUPSTREAM;
        write_piece(f, part, len, out);
        data += used;
        n -= used;
        if (f->chunk.done) {
            if (n) /* an answer behind the answer: nobody asked */
                f->upstream_keeps = false;
            return last_piece(p, f, out);
        }
    }
    return CAY__PUMP_ON;
}

static int process_data(cay__pump *p, flow *f, const char *data, size_t n, cay__buf *out)
{
    switch (f->phase) {
    case HEAD: return take_head(p, f, data, n, out);
    case CHUNKS: return take_chunks(p, f, data, n, out);
    case LENGTH:
        if (n > f->left)
            f->upstream_keeps = false;
        n = (size_t)CAY_MIN(n, f->left);
        cay__buf_add(out, data, n);
        f->left -= n;
        if (f->left)
            return CAY__PUMP_ON;
        return finish_response(p, f);
    case TO_END: write_piece(f, data, n, out); return CAY__PUMP_ON;
    case TUNNEL: cay__buf_add(out, data, n); return CAY__PUMP_ON;
    case DONE: break;
    }
    return CAY__PUMP_END;
}

/* n bytes are in `out` already. */
static int commit_bytes(cay__pump *p, flow *f, size_t n, cay__buf *out)
{
    cay__buf_used(out, n);
    if (f->phase == TUNNEL)
        return CAY__PUMP_ON;
    f->left -= n;
    if (f->left)
        return CAY__PUMP_ON;
    return finish_response(p, f);
}

static int at_end(cay__pump *p, flow *f, cay__buf *out)
{
    if (f->phase == HEAD && f->may_again && !f->in.len && f->reused)
        return CAY__PUMP_WORK; /* it was closed while it waited: that is no answer */
    if (f->phase == HEAD && !cay__uplink_agreed(&f->up))
        return broken_by(p, f, "it was to speak TLS (network.httpsPorts), and does not", out);
    if (f->phase == HEAD)
        return broken_by(p, f,
                         f->in.len
                             ? "the program closed the connection within the head of its answer"
                             : "the program closed the connection without an answer",
                         out);
    if (f->phase == TO_END)
        return last_piece(p, f, out);
    if (f->phase == TUNNEL)
        return finish_response(p, f);
    return CAY_EUPSTREAM;
}

static int check_timeout(cay__pump *p, flow *f, cay__buf *out)
{
    cay_err err = CAY_ERR_INIT;
    if (f->phase != HEAD || cay__now_ms() - f->began_ms < HEAD_MS)
        return CAY__PUMP_ON;
    cay_fail_why(&err, CAY_ETIMEOUT, "preview_timeout", "port %u: no answer within %d s",
                 f->s.back.at.port, HEAD_MS / 1000);
    return fail_response(p, f, &err, out);
}

/* One that waited for a request, or a worker makes one. */
static int take_kept(cay__pump *p, flow *f)
{
    if (!f->may_take || !cay__upstream_take(p, &f->s.back.at))
        return CAY__PUMP_WORK;
    f->up.fd = p->fd[0];
    f->reused = true;
    flush_up(p, f);
    return CAY__PUMP_ON;
}

static int pull_response(cay__pump *p, unsigned ready, cay__buf *out)
{
    flow *f = p->self;
    if (ready & 1u << 4 || (f->up.tls && ready))
        flush_up(p, f);
    if (f->up.fd < 0)
        return take_kept(p, f);
    if (!(ready & 1u) && !(f->up.tells && ready & 1u << 4))
        return check_timeout(p, f, out);
    for (size_t all = 0; all < ROUND || cay__uplink_more(&f->up);) {
        char buf[READ];
        bool plain = f->phase == TUNNEL ||
                     (f->phase == LENGTH && f->left >= READ); /* from the socket into the answer */
        char *to = buf;
        if (plain)
            to = cay__buf_room(out, READ);
        ssize_t n = 0;
        if (to)
            n = cay__uplink_recv(&f->up, to, READ);
        if (!to)
            return CAY_ETOOBIG;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
            if (f->up.tls) /* what came may have been what a write waited for */
                flush_up(p, f);
            return CAY__PUMP_ON;
        }
        int rc;
        if (n <= 0)
            rc = at_end(p, f, out);
        else if (plain)
            rc = commit_bytes(p, f, (size_t)n, out);
        else
            rc = process_data(p, f, buf, (size_t)n, out);
        if (rc != CAY__PUMP_ON || out->full) {
            if (out->full)
                return CAY_ETOOBIG;
            return rc;
        }
        all += (size_t)n;
        if (n < READ && !f->up.tls)
            break;
    }
    return CAY__PUMP_ON;
}

static bool start_tls(flow *f)
{
    return !f->s.back.tls_inside || cay__uplink_tls(&f->up, cay__previews_tls(f->pool));
}

/* A connection; or a second one, when the first had been closed while it waited. */
static int connect_upstream(cay__pump *p, cay__buf *out)
{
    flow *f = p->self;
    cay_err err = CAY_ERR_INIT;
    cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + CONNECT_MS };
    bool again = f->up.fd >= 0;
    cay__uplink_close(&f->up);
    cay__upstream_free(p);
    p->fd[0] = -1;
    f->may_again = f->may_take = f->reused = false;
    int rc =
        (CAY_OR(f->s.dial, cay_port_connect))(f->s.sb, &call, f->s.back.at.port, &f->up.fd, &err);
    if (rc < 0)
        return fail_response(p, f, &err, out);
    cay__fd_nonblock(f->up.fd, true);
    if (!start_tls(f))
        return broken_by(p, f, "no memory for TLS", out);
    cay__upstream_hold(p, &f->s.back.at, f->up.fd);
    if (again) {
        f->up.wait.len = f->up.sent = 0;
        f->up.broken = false;
        cay__uplink_add(&f->up, f->again.data, f->again.len);
    }
    flush_up(p, f);
    return CAY__PUMP_ON;
}

/* The server ends: a tunnel, and events that never end, are cut; nothing can be said within
 * somebody else's stream. */
static int on_server_drain(cay__pump *p, cay__buf *out)
{
    const flow *f = p->self;
    if (f->phase == TUNNEL || f->events)
        return CAY_ECANCELED;
    return CAY__PUMP_ON;
}

static void close_flow(cay__pump *p)
{
    cay__upstream_free(p);
    flow_free(p->self);
}

int cay__preview_flow(cay__req *r, const cay__preview_start *s, cay__buf *head)
{
    flow *f = cay__alloc(sizeof *f);
    cay__body_kind body = r->head.body;
    *f = (flow){ .s = *s,
                 .pool = cay__server_previews(r->server),
                 .up = { .fd = s->fd, .wait = CAY__BUF(CAY__UPLINK_MAX) },
                 .in = CAY__BUF(CAY__HEAD_MAX + READ),
                 .again = CAY__BUF(CAY__HEAD_MAX * 2),
                 .up_chunked = body == CAY__BODY_CHUNKED,
                 .began_ms = cay__now_ms() };
    memcpy(f->request_id, r->id, sizeof f->request_id);
    cay_sandbox_ref(s->sb);
    f->may_take = s->fd < 0 && !r->head.upgrade && !s->back.tls_inside;
    if (s->fd >= 0) {
        cay__fd_nonblock(s->fd, true);
        if (!start_tls(f)) /* a worker tries once more, and says so */
            cay__uplink_close(&f->up);
    }
    /* Only what changes nothing is sent twice. */
    f->may_again = body == CAY__BODY_NONE &&
                   (!strcmp(r->head.method, "GET") || !strcmp(r->head.method, "HEAD") ||
                    !strcmp(r->head.method, "OPTIONS"));
    cay__uplink_add(&f->up, head->data, head->len);
    if (f->may_again && f->may_take)
        cay__buf_add(&f->again, head->data, head->len);
    cay__raw raw = { .pump = { .fd = { -1, -1, -1 },
                               .beat_ms = 10000,
                               .self = f,
                               .pull = pull_response,
                               .work = connect_upstream,
                               .push = push_request,
                               .last = on_server_drain,
                               .close = close_flow } };
    if (f->up.fd >= 0)
        cay__upstream_hold(&raw.pump, &s->back.at, f->up.fd);
    flush_up(&raw.pump, f);
    return cay__reply_raw(r, &raw);
}
