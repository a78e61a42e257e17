/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/http/stream.h - an answer that goes on after its handler.
 *
 * Whoever answers puts a stream into the connection (cay__stream_new) after its head; the lane
 * moves it from then on.
 */
#pragma once
#include "connection.h"

typedef enum cay__framing { CAY__RAW, CAY__CHUNKS, CAY__FRAMES } cay__framing;
typedef enum cay__peer_input {
    CAY__PEER_NONE,
    CAY__PEER_BODY,
    CAY__PEER_BYTES,
    CAY__PEER_FRAMES
} cay__peer_input;

typedef struct cay__source {
    cay__watch w;
    struct cay__conn *c;
    struct cay__lane *lane; /* of one that waits for a stream */
    unsigned i;             /* its place in pump.fd */
    bool always;            /* a file: always readable, not for epoll(7) */
    bool on;                /* known to the loop */
} cay__source;

typedef struct cay__stream {
    cay__raw raw; /* of a plain pump only its first member counts */
    cay__framing framing;
    cay__peer_input input; /* what becomes of what the peer sends */
    bool proxied;          /* by cay__reply_raw() */
    bool ended, said_end, working;
    bool events;  /* server-sent ones */
    bool lazy;    /* only its hang-up is of interest, and the loop was not told */
    bool drained; /* it was told that the server ends */
    int result;   /* of work() */
    cay__buf stage;
    cay__source source[3];
    cay__timer beat;
    cay__conn *conn;
    int fd;       /* of cay__reply_fd(), or -1 */
    int64_t left; /* bytes of it; -1: until its end */
    bool file, pipe;
    struct cay__ws *ws;
} cay__stream;

cay__stream *cay__stream_new(cay__conn *c, const cay__pump *pump, cay__framing framing);
/* Gives a piece to push() and takes what it says; negative: cut. */
int cay__stream_push(cay__conn *c, int kind, const char *data, size_t len);
/* What the loop knows already tells this connection's stream from now on, as its first source. */
void cay__source_lend(cay__source *src, cay__conn *c);
/* push() may be called now. */
static inline bool cay__stream_open(const cay__stream *s)
{
    return !s->working && !s->raw.pump.hold && !s->ended;
}
/* reply.c */
void cay__reply_head(cay__req *r, int status, const char *type, int64_t len);
bool cay__reply_bodiless(const cay__req *r, int status);
/* reply_fd.c: some more of a descriptor; *more: there may be more at once. */
int cay__fd_produce(cay__conn *c, cay__stream *s, bool *more);
/* upstream.c: n more bytes of the peer, or what waits (data NULL). *kept: what was not taken is in
 * c->in. */
int cay__peer_data(cay__conn *c, const char *data, size_t n);
bool cay__peer_readable(const cay__conn *c); /* more may be read from the peer */
bool cay__peer_wanted(const cay__conn *c);   /* what it sends is for somebody; else its end says
                                                 that   it reads no more, either */
int cay__peer_end(cay__conn *c);
/* ws.c */
int cay__ws_receive(cay__conn *c, const char *data, size_t n); /* all of it is taken */
bool cay__ws_waiting(const cay__stream *s);
void cay__ws_free(struct cay__ws *ws);
