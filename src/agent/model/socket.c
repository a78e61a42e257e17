/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Responses API over a WebSocket: the same events, one connection for all turns. A connection
 * that was kept and turns out to be gone is made again as long as nothing of an answer has come;
 * once it has, nothing is asked twice.
 */
#include "endpoint.h"
#include <net/ws.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>

enum { MESSAGE_MAX = 32 << 20, READ = 64 << 10, REFUSAL_MAX = 64 << 10 };

typedef struct talk {
    const cay__socket_ask *ask;
    cay__endpoint *e;
    cay__buf out; /* what the protocol wants to be answered: one frame */
    bool any, over, closed;
} talk;

static int on_frame(int kind, const char *data, size_t len, void *arg, cay_err *err)
{
    talk *t = arg;
    if (kind == CAY__WS_PING_FRAME) {
        t->out.len = 0; /* the last one is enough (RFC 6455, 5.5.3): however many come, no more has
                           to be kept */
        cay__ws_frame(&t->out, CAY__WS_PONG_FRAME, data, len);
    }
    t->closed = t->closed || kind == CAY__WS_CLOSE_FRAME;
    if (kind == CAY__WS_BINARY_FRAME)
        return cay_fail_why(err, CAY_EUPSTREAM, "model_answer",
                            "the model's server sent something that is no text");
    if (kind != CAY__WS_TEXT_FRAME || t->over) /* what comes behind the end belongs to nobody */
        return 0;
    t->any = true;
    return t->ask->on_message(data, len, &t->over, t->ask->arg, err);
}

static int fail_cut(cay_err *err, const char *when)
{
    int rc = cay_fail_why(err, CAY_EUPSTREAM, "net_cut",
                          "the model's server closed the connection %s", when);
    if (err)
        err->retry = CAY_RETRY_YES;
    return rc;
}

static int send_all(int fd, const cay_call *call, const cay__buf *b, cay_err *err)
{
    for (size_t at = 0; at < b->len;) {
        ssize_t n = send(fd, b->data + at, b->len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            at += (size_t)n;
        else if (n < 0 && errno == EAGAIN)
            CAY_TRY(cay__call_wait(call, fd, POLLOUT, "the model's server", err));
        else if (n < 0 && errno != EINTR)
            return fail_cut(err, "before it was asked");
    }
    return 0;
}

static int receive_answer(talk *t, const cay_call *call, cay_err *err)
{
    CAY_AUTOFREE char *piece = cay__alloc(READ);
    cay__ws_in in = CAY__WS_IN(MESSAGE_MAX, on_frame, t);
    int rc = 0;
    while (rc == 0 && !t->over && !t->closed) {
        ssize_t n = recv(t->e->socket, piece, READ, MSG_DONTWAIT);
        cay_call idle = cay__call_within(call, (int)CAY_MIN(t->e->idle_ms, (uint64_t)INT_MAX));
        if (n > 0)
            rc = cay__ws_feed(&in, piece, (size_t)n, err);
        else if (n < 0 && errno == EAGAIN)
            rc = cay__call_wait(&idle, t->e->socket, POLLIN, "the model's answer", err);
        else if (n == 0 || errno != EINTR)
            rc = fail_cut(err, t->any ? "in the middle of an answer" : "before it answered");
        if (rc == 0 && t->out.len)
            rc = send_all(t->e->socket, call, &t->out, err);
        t->out.len = 0;
    }
    if (rc == 0 && !t->over)
        rc = fail_cut(err, t->any ? "in the middle of an answer" : "before it answered");
    t->closed = t->closed || in.raw.len ||
                in.kind; /* more has come than was asked for: not a connection to go on with */
    cay__ws_end(&in);
    return rc;
}

static int connect_to(cay__endpoint *e, const cay__socket_ask *ask, const cay_call *call,
                      cay_err *err)
{
    cay_call soon = cay__call_within(call, (int)CAY_MIN(e->connect_ms, (uint64_t)INT_MAX));
    CAY_AUTOBUF said = CAY__BUF(REFUSAL_MAX);
    int status = 0;
    int rc = cay__ws_dial(e->base, ask->path, (const char *const *)e->headers, &soon, &e->socket,
                          &status, &said, err);
    if (rc < 0 && err && err->retry != CAY_RETRY_NO && (rc == CAY_EUPSTREAM || rc == CAY_ETIMEOUT))
        err->retry = CAY_RETRY_YES;
    CAY_TRY(rc);
    if (e->socket >= 0)
        return 0;
    return ask->refused(status, &said, ask->arg, err);
}

void cay__socket_close(cay__endpoint *e)
{
    cay__close_fd(&e->socket);
    e->socket = -1;
}

int cay__socket_try(cay__endpoint *e, const cay_call *call, const cay__socket_ask *ask,
                    cay_err *err)
{
    CAY_AUTOBUF frame = CAY__BUF(ask->len + 64);
    talk t = { .ask = ask, .e = e, .out = CAY__BUF(256) };
    cay__ws_frame(&frame, CAY__WS_TEXT_FRAME, ask->body, ask->len);
    int rc = 0;
    for (bool again = true; again;) {
        bool kept = e->socket >= 0;
        cay_call whole = cay__call_within(call, (int)CAY_MIN(e->total_ms, (uint64_t)INT_MAX));
        if (kept)
            rc = 0;
        else
            rc = connect_to(e, ask, &whole, err);
        if (rc == 0)
            rc = send_all(e->socket, &whole, &frame, err);
        if (rc == 0)
            rc = receive_answer(&t, &whole, err);
        if (rc < 0 || t.closed)
            cay__socket_close(e);
        again = kept && rc == CAY_EUPSTREAM && !t.any; /* it had gone before anybody asked */
        t.closed = false;
    }
    cay__buf_clear(&t.out);
    return rc;
}
