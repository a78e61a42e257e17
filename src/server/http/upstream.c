/* SPDX-License-Identifier: Apache-2.0 */
/* What the peer sends while a stream goes out: a body that is passed on, bytes of a tunnel, frames.
 */
#include "stream.h"
#include <base/base.h>

/* As much of a body as there is and the pump takes. How many bytes of data were used. */
static ssize_t hear_body(cay__conn *c, const char *data, size_t n)
{
    cay__reply_state *a = c->req->reply;
    cay__stream *s = c->stream;
    size_t at = 0;
    while (at < n && !a->body_done && cay__stream_open(s)) {
        const char *piece = data + at;
        size_t len, used;
        if (c->req->head.body == CAY__BODY_CHUNKED) {
            if (cay__chunk_read(&a->chunk, data + at, n - at, n, &used, &piece, &len, NULL) < 0)
                return -1;
            a->body_done = a->chunk.done;
        } else {
            len = used = (size_t)CAY_MIN((uint64_t)(n - at), a->body_left);
            a->body_left -= len;
            a->body_done = !a->body_left;
        }
        at += used;
        if (len && cay__stream_push(c, 0, piece, len) < 0)
            return -1;
    }
    if (a->body_done && !a->told_end) {
        a->told_end = true;
        if (cay__stream_push(c, 0, NULL, 0) < 0)
            return -1;
    }
    return (ssize_t)at;
}

static ssize_t hear_some(cay__conn *c, const char *data, size_t n)
{
    cay__stream *s = c->stream;
    bool tunnel = s->input == CAY__PEER_BYTES || s->raw.tunnel;
    if (s->input == CAY__PEER_FRAMES) {
        if (cay__ws_receive(c, data, n) < 0)
            return -1;
        return (ssize_t)n;
    }
    if (tunnel) {
        if (!n || !cay__stream_open(s))
            return 0;
        if (cay__stream_push(c, 0, data, n) < 0)
            return -1;
        return (ssize_t)n;
    }
    if (s->input == CAY__PEER_BODY)
        return hear_body(c, data, n);
    return 0;
}

int cay__peer_data(cay__conn *c, const char *data, size_t n)
{
    size_t kept = c->in.len - c->in_at;
    if (kept) {
        cay__buf_add(&c->in, data, n);
        ssize_t used = hear_some(c, c->in.data + c->in_at, kept + n);
        if (used < 0)
            return -1;
        c->in_at += (size_t)used;
    } else {
        ssize_t used = hear_some(c, data, n);
        if (used < 0)
            return -1;
        if ((size_t)used < n)
            cay__buf_add(&c->in, data + used, n - (size_t)used);
    }
    if (c->in_at == c->in.len) {
        cay__buf_clear(&c->in);
        c->in_at = 0;
    }
    if (c->in.full)
        return -1;
    return 0;
}

bool cay__peer_wanted(const cay__conn *c)
{
    const cay__stream *s = c->stream;
    return s->input != CAY__PEER_NONE &&
           (s->input != CAY__PEER_BODY || s->raw.tunnel || !c->req->reply->body_done);
}

bool cay__peer_readable(const cay__conn *c)
{
    const cay__stream *s = c->stream;
    if (!cay__peer_wanted(c) || c->eof || c->in.len || !cay__stream_open(s) ||
        cay__io_pending(c) >= CAY__HIGH)
        return false;
    return s->input != CAY__PEER_FRAMES || !cay__ws_waiting(s);
}

int cay__peer_end(cay__conn *c)
{
    cay__stream *s = c->stream;
    c->eof = true;
    if (s->input == CAY__PEER_BODY && !s->raw.tunnel)
        return -1; /* a body that was cut, or nobody who waits for the answer */
    return cay__stream_push(c, 0, NULL, 0);
}
