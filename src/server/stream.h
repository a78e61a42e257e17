/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/stream.h - an answer that goes on after its handler.
 *
 * Whoever answers puts a stream into the connection (cay__stream_new) after its head; the lane moves it from then on.
 */
#pragma once
#include "inside.h"

typedef enum cay__framing { CAY__RAW, CAY__CHUNKS, CAY__FRAMES } cay__framing;

typedef struct cay__source {
    cay__watch        w;
    struct cay__conn *c;
    bool              always; /* a file: always readable, not for epoll(7) */
    bool              on;     /* known to the loop */
} cay__source;

typedef struct cay__stream {
    union {
        cay__pump pump;
        cay__raw  raw; /* of a proxy */
    };
    cay__framing framing;
    bool         upgraded; /* what the peer sends is for it */
    bool         proxy;    /* the same of the request's body, and of all after an upgrade */
    bool         ended, said_end, working;
    int          result;   /* of work() */
    cay__buf     stage;
    cay__source  source[3];
    cay__timer   beat;
    cay__conn   *conn;
    int          fd;       /* of cay__reply_fd(), or -1 */
    int64_t      left;     /* bytes of it; -1: until its end */
    bool         file, pipe;
    struct wslay_event_context *ws;
    struct cay__ws_in *ws_in;
} cay__stream;

cay__stream *cay__stream_new(cay__conn *c, const cay__pump *pump, cay__framing framing);
/* What the peer says, to the pump. data NULL: no more. */
int  cay__stream_say(cay__conn *c, const char *data, size_t n);
/* raw.c */
bool cay__stream_listens(const cay__conn *c); /* is what the peer sends for it? */
bool cay__stream_hears(const cay__conn *c);   /* and may it be given any now? */
int  cay__stream_hear_kept(cay__conn *c);
int  cay__stream_hear_some(cay__conn *c);
int  cay__raw_start(cay__conn *c);
void cay__raw_finish(cay__conn *c);
/* reply.c */
void cay__reply_head(cay__req *r, int status, const char *type, int64_t len);
bool cay__reply_bodiless(const cay__req *r, int status);
