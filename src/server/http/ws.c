/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket (RFC 6455): the handshake, and frames by wslay. */
#include "stream.h"
#include <base/base.h>
#include <openssl/evp.h>
#include <strings.h>
#include <wslay/wslay.h>

enum { MESSAGE_MAX = 8 << 20 };

/* A whole message that waits until the pump takes it. */
typedef struct message {
    struct message *next;
    int kind;
    size_t len;
    char data[];
} message;

typedef struct cay__ws {
    wslay_event_context_ptr ctx;
    const char *data; /* what is being read */
    size_t len;
    message *first, **last;
    bool closed;
    cay__buf *out;
} cay__ws;

static bool key_sound(const char *key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return key && strlen(key) == 24 && strspn(key, digits) == 22 && !strcmp(key + 22, "==");
}

static void accept_of(const char *key, char out[32])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    char both[64];
    CAY_FORMAT(both, "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    EVP_Digest(both, strlen(both), sum, &n, EVP_sha1(), NULL);
    EVP_EncodeBlock((unsigned char *)out, sum, (int)n);
}

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags, void *arg)
{
    cay__ws *ws = arg;
    size_t n = CAY_MIN(len, ws->len);
    if (!n) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(buf, ws->data, n);
    ws->data += n;
    ws->len -= n;
    return (ssize_t)n;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags,
                       void *arg)
{
    cay__ws *ws = arg;
    cay__buf_add(ws->out, data, len);
    return (ssize_t)len;
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *m,
                       void *arg)
{
    cay__ws *ws = arg;
    if (m->opcode != WSLAY_TEXT_FRAME && m->opcode != WSLAY_BINARY_FRAME)
        return;
    message *q = cay__alloc(sizeof *q + m->msg_length + 1);
    if (m->opcode == WSLAY_TEXT_FRAME)
        q->kind = CAY__WS_TEXT;
    else
        q->kind = CAY__WS_BINARY;
    q->len = m->msg_length;
    if (q->len)
        memcpy(q->data, m->msg, q->len);
    *ws->last = q;
    ws->last = &q->next;
}

int cay__reply_ws(cay__req *r, const char *protocol, const cay__pump *pump, cay_err *err)
{
    static const struct wslay_event_callbacks calls = { .recv_callback = on_recv,
                                                        .send_callback = on_send,
                                                        .on_msg_recv_callback = on_message };
    const char *key = cay__head_field(&r->head, "sec-websocket-key"),
               *version = cay__head_field(&r->head, "sec-websocket-version");
    char sum[32];
    if (!r->head.upgrade || strcasecmp(r->head.upgrade, "websocket") ||
        strcmp(r->head.method, "GET")) {
        cay__reply_field(r, "Upgrade", "websocket");
        return cay_fail_why(err, CAY_EINVAL, "upgrade_required",
                            "this is a WebSocket: ask with Upgrade: websocket");
    }
    if (!version || strcmp(version, "13")) {
        cay__reply_field(r, "Sec-WebSocket-Version", "13");
        return cay_fail_why(err, CAY_EINVAL, "upgrade_required",
                            "version 13 of the WebSocket protocol is spoken here");
    }
    if (!key_sound(key) || r->head.body != CAY__BODY_NONE)
        return cay_fail_why(err, CAY_EINVAL, "http_syntax",
                            "Sec-WebSocket-Key is missing or wrong, or the request has a body");
    cay__ws *ws = cay__alloc(sizeof *ws);
    ws->last = &ws->first;
    if (wslay_event_context_server_init(&ws->ctx, &calls, ws) != 0)
        abort();
    wslay_event_config_set_max_recv_msg_length(ws->ctx, MESSAGE_MAX);
    accept_of(key, sum);
    cay__reply_field(r, "Upgrade", "websocket");
    cay__reply_field(r, "Connection", "Upgrade");
    cay__reply_field(r, "Sec-WebSocket-Accept", sum);
    if (protocol)
        cay__reply_field(r, "Sec-WebSocket-Protocol", protocol);
    cay__reply_head(r, 101, NULL, -1);
    r->conn->keep = false;
    cay__stream *s = cay__stream_new(r->conn, pump, CAY__FRAMES);
    s->input = CAY__PEER_FRAMES;
    s->ws = ws;
    return 0;
}

static void send_frame(cay__buf *out, unsigned opcode, const void *data, size_t len)
{
    unsigned char head[10] = { (unsigned char)(0x80 | opcode) };
    size_t n = 2;
    if (len < 126) {
        head[1] = (unsigned char)len;
    } else {
        if (len < 65536)
            n = 4;
        else
            n = 10;
        if (n == 4)
            head[1] = 126;
        else
            head[1] = 127;
        for (size_t i = 2; i < n; i++)
            head[i] = (unsigned char)(len >> 8 * (n - 1 - i));
    }
    cay__buf_add(out, head, n);
    cay__buf_add(out, data, len);
}

void cay__ws_send(cay__buf *out, int kind, const void *data, size_t len)
{
    send_frame(out, kind == CAY__WS_TEXT ? 1 : 2, data, len);
}

void cay__ws_close(cay__buf *out, unsigned code, const char *why)
{
    char text[125];
    size_t n = strnlen(CAY_OR(why, ""), sizeof text - 2);
    text[0] = (char)(code >> 8);
    text[1] = (char)code;
    if (n)
        memcpy(text + 2, why, n);
    send_frame(out, 8, text, n + 2);
}

static int deliver_messages(cay__conn *c, cay__ws *ws)
{
    while (ws->first && cay__stream_open(c->stream)) {
        message *m = ws->first;
        ws->first = m->next;
        if (!ws->first)
            ws->last = &ws->first;
        int rc = cay__stream_push(c, m->kind, m->data, m->len);
        free(m);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int cay__ws_receive(cay__conn *c, const char *data, size_t n)
{
    cay__ws *ws = c->stream->ws;
    ws->data = data;
    ws->len = n;
    ws->out = &c->out; /* answers to pings and to the close */
    if (n && !ws->closed && wslay_event_recv(ws->ctx) != 0)
        ws->closed = true;
    if (wslay_event_get_close_received(ws->ctx))
        ws->closed = true;
    if (wslay_event_want_write(ws->ctx))
        wslay_event_send(ws->ctx);
    int rc = deliver_messages(c, ws);
    if (rc >= 0 && ws->closed && !ws->first && cay__stream_open(c->stream)) {
        rc = cay__stream_push(c, 0, NULL, 0);
        c->stream->ended = true;
    }
    return rc;
}

bool cay__ws_waiting(const cay__stream *s)
{
    return s->ws->first || s->ws->closed;
}

void cay__ws_free(cay__ws *ws)
{
    if (!ws)
        return;
    for (message *m = ws->first, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    wslay_event_context_free(ws->ctx);
    free(ws);
}
