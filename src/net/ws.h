/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/ws.h - WebSocket (RFC 6455) from the side of who asks.
 *
 *   cay__ws_key()    for the handshake             cay__ws_accepts()  was it answered to that key?
 *   cay__ws_feed()   bytes to messages, as they come
 *   cay__ws_frame()  a message or a word of the protocol as the bytes to send, masked
 *
 * Memory is bounded by the largest message. What a server must not send (masks, unknown bits,
 * broken order) is an error.
 */
#pragma once
#include <base/buf.h>

enum {
    CAY__WS_TEXT_FRAME = 1,
    CAY__WS_BINARY_FRAME = 2,
    CAY__WS_CLOSE_FRAME = 8,
    CAY__WS_PING_FRAME = 9,
    CAY__WS_PONG_FRAME = 10
};
enum { CAY__WS_KEY = 25 };

/* kind: one of the five. Text is not checked to be UTF-8. data ends with NUL, and may hold more of
 * them. What is not 0 ends the feeding. */
typedef int cay__ws_fn(int kind, const char *data, size_t len, void *arg, cay_err *err);

typedef struct cay__ws_in {
    cay__buf raw, message;
    int kind; /* of the message under way, 0: none */
    size_t max;
    cay__ws_fn *fn;
    void *arg;
} cay__ws_in;
#define CAY__WS_IN(most, fun, a)                                                                   \
    {                                                                                              \
        .raw = CAY__BUF((most) + 64), .message = CAY__BUF(most), .max = (most), .fn = (fun),       \
        .arg = (a)                                                                                 \
    }

void cay__ws_key(char key[CAY__WS_KEY]);
bool cay__ws_accepts(const char *key,
                     const char *accept); /* accept: the field Sec-WebSocket-Accept, or NULL */
/* CAY_ETOOBIG "answer_too_big"; CAY_EUPSTREAM "net_answer". */
int cay__ws_feed(cay__ws_in *w, const char *bytes, size_t n, cay_err *err);
void cay__ws_end(cay__ws_in *w); /* frees */
/* Where there is no room for all of it, nothing is added, and out is full. */
void cay__ws_frame(cay__buf *out, int kind, const void *data, size_t len);

/* A connection to URL + target that speaks it, made by ws_dial.c; headers: "Name: value",
 * NULL-terminated. *fd stays -1 when the server answers with another status than 101: then *status
 * is that, and *said what it says, as far as there is room. CAY_EUPSTREAM as in net/client.h;
 * CAY_EINVAL for a header that is none. */
int cay__ws_dial(const char *url, const char *target, const char *const *headers,
                 const cay_call *call, int *fd, int *status, cay__buf *said, cay_err *err);
