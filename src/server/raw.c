/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of a proxy: the peer's body is decoded and handed on as it comes, while the answer is on its way. */
#include "stream.h"
#include <base/base.h>
#include <base/fd.h>

int cay__reply_raw(cay__req *r, const cay__raw *raw)
{
    cay__stream *s = cay__stream_new(r->conn, &raw->pump, CAY__RAW);
    s->raw = *raw;
    s->proxy = true;
    r->reply->status = 200; /* it is told when the answer begins */
    r->reply->body_left = r->head.body == CAY__BODY_LENGTH ? r->head.length : 0;
    r->reply->body_done = r->head.body == CAY__BODY_NONE || (r->head.body == CAY__BODY_LENGTH && !r->head.length);
    return 0;
}

bool cay__stream_listens(const cay__conn *c)
{
    const cay__stream *s = c->stream;
    return s->upgraded || (s->proxy && (s->raw.tunnel || !c->req->reply->body_done));
}

bool cay__stream_hears(const cay__conn *c)
{
    return cay__stream_listens(c) && !c->stream->pump.hold && !c->stream->ended && !c->stream->working;
}

/* One piece of the body at the start of data; *used tells how much of it, with its frames. */
static int next_piece(cay__conn *c, const char *data, size_t n, size_t *used, const char **piece, size_t *len)
{
    cay__reply_state *a = c->req->reply;
    if (c->req->head.body == CAY__BODY_LENGTH) {
        *used = *len = (size_t)CAY_MIN((uint64_t)n, a->body_left);
        *piece = data;
        a->body_left -= *len;
        a->body_done = !a->body_left;
        return 0;
    }
    CAY_TRY(cay__chunk_read(&a->chunk, data, n, n, used, piece, len, NULL));
    a->body_done = a->chunk.done;
    return 0;
}

/* Hands on what may be, and tells how much that was. */
static int hand_on(cay__conn *c, const char *data, size_t n, size_t *taken)
{
    cay__stream *s = c->stream;
    *taken = 0;
    while (*taken < n && cay__stream_hears(c)) {
        const char *piece = data + *taken;
        size_t used = n - *taken, len = used;
        if (!s->upgraded && !s->raw.tunnel)
            CAY_TRY(next_piece(c, piece, used, &used, &piece, &len));
        *taken += used;
        if (len)
            CAY_TRY(cay__stream_say(c, piece, len));
        if (!s->upgraded && !s->raw.tunnel && c->req->reply->body_done && !s->ended)
            CAY_TRY(cay__stream_say(c, NULL, 0));
    }
    return 0;
}

/* What waits in the connection since before. */
int cay__stream_hear_kept(cay__conn *c)
{
    size_t taken = 0;
    if (c->in.len <= c->in_at)
        return 0;
    CAY_TRY(hand_on(c, c->in.data + c->in_at, c->in.len - c->in_at, &taken));
    c->in_at += taken;
    if (c->in_at == c->in.len) {
        cay__buf_clear(&c->in);
        c->in_at = 0;
    }
    return 0;
}

int cay__stream_hear_some(cay__conn *c)
{
    cay__lane *l = c->lane;
    size_t taken = 0;
    CAY_TRY(cay__stream_hear_kept(c));
    if (c->in.len > c->in_at || !cay__stream_hears(c))
        return 0;
    ssize_t n = cay__io_read(c, l->scratch, sizeof l->scratch);
    if (n == -1)
        return 0;
    if (n <= 0) {
        c->eof = true;
        /* A body that breaks off is no body. */
        return n == 0 && (c->stream->upgraded || c->stream->raw.tunnel) ? cay__stream_say(c, NULL, 0) : -1;
    }
    c->until = cay__now_ms() + CAY__BODY_MS;
    CAY_TRY(hand_on(c, l->scratch, (size_t)n, &taken));
    cay__buf_add(&c->in, l->scratch + taken, (size_t)n - taken);
    return c->in.full ? -1 : 0;
}

int cay__raw_start(cay__conn *c)
{
    if (!c->stream->proxy)
        return 0;
    c->until = cay__now_ms() + CAY__BODY_MS;
    if (c->req->reply->body_done)
        return cay__stream_say(c, NULL, 0);
    if (c->req->head.expect_continue)
        cay__buf_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    return 0;
}

void cay__raw_finish(cay__conn *c)
{
    const cay__raw *raw = &c->stream->raw;
    cay__req *r = c->req;
    c->keep = c->keep && raw->keep && !raw->tunnel && r->reply->body_done && r->head.keep_alive && !c->lane->server->draining;
    if (raw->status)
        r->reply->status = raw->status;
}
