/* SPDX-License-Identifier: Apache-2.0 */
#include "ws.h"
#include <base/base.h>
#include <base/base64.h>
#include <base/mutant.h>

enum { CONTROL_MAX = 125 };

/* SHA-1 (FIPS 180-4), of less than 120 bytes: the protocol wants it, and nothing is kept secret by
 * it. */
static void hash_sha1(const uint8_t *s, size_t n, uint8_t out[20])
{
    uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 }, w[80];
    uint8_t block[128] = { 0 };
    size_t blocks = 2;
    if (n < 56)
        blocks = 1;
    memcpy(block, s, n);
    block[n] = 0x80;
    for (size_t i = 0; i < 8; i++)
        block[blocks * 64 - 1 - i] = (uint8_t)((uint64_t)n * 8 >> 8 * i);
#define ROL(x, k) ((x) << (k) | (x) >> (32 - (k)))
    for (size_t b = 0; b < blocks; b++) {
        for (size_t i = 0; i < 16; i++) {
            const uint8_t *p = block + b * 64 + i * 4;
            w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
        }
        for (size_t i = 16; i < 80; i++)
            w[i] = ROL(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        uint32_t a = h[0], c1 = h[1], c = h[2], d = h[3], e = h[4];
        for (size_t i = 0; i < 80; i++) {
            uint32_t f;
            if (i < 20)
                f = ((c1 & c) | (~c1 & d));
            else if (i < 40)
                f = (c1 ^ c ^ d);
            else if (i < 60)
                f = ((c1 & c) | (c1 & d) | (c & d));
            else
                f = (c1 ^ c ^ d);
            static const uint32_t k[] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
            uint32_t t = ROL(a, 5) + f + e + k[i / 20] + w[i];
            e = d;
            d = c;
            c = ROL(c1, 30);
            c1 = a;
            a = t;
        }
        h[0] += a;
        h[1] += c1;
        h[2] += c;
        h[3] += d;
        h[4] += e;
    }
    for (size_t i = 0; i < 20; i++)
        out[i] = (uint8_t)(h[i / 4] >> 8 * (3 - i % 4));
}

void cay__ws_key(char key[CAY__WS_KEY])
{
    uint8_t r[16];
    CAY_AUTOBUF b = CAY__BUF(64);
    cay__random(r, sizeof r);
    cay__base64_put(&b, r, sizeof r);
    memcpy(key, b.data, CAY__WS_KEY - 1);
    key[CAY__WS_KEY - 1] = 0;
}

bool cay__ws_accepts(const char *key, const char *accept)
{
    uint8_t sum[20];
    CAY_AUTOBUF both = CAY__BUF(128), b = CAY__BUF(64);
    cay__buf_fmt(&both, "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    hash_sha1((const uint8_t *)both.data, both.len, sum);
    cay__base64_put(&b, sum, sizeof sum);
    return accept && !strcmp(accept, b.data);
}

void cay__ws_frame(cay__buf *out, int kind, const void *data, size_t len)
{
    uint8_t head[14] = { (uint8_t)(0x80 | kind) }, mask[4];
    size_t n = 10;
    uint8_t length = 127;
    if (len < 126) {
        n = 2;
        length = (uint8_t)len;
    } else if (len < 65536) {
        n = 4;
        length = 126;
    }
    head[1] = 0x80 | length;
    for (size_t i = 2; i < n; i++)
        head[i] = (uint8_t)((uint64_t)len >> 8 * (n - 1 - i));
    cay__random(mask,
                sizeof mask); /* so that nobody on the way takes what is sent for words of theirs */
    memcpy(head + n, mask, 4);
    char *room = cay__buf_room(out, n + 4 + len); /* whole or not at all */
    if (!room)
        return;
    memcpy(room, head, n + 4);
    room += n + 4;
    for (size_t i = 0; i < len; i++)
        room[i] = (char)(((const uint8_t *)data)[i] ^ mask[i % 4]);
    cay__buf_used(out, n + 4 + len);
}

static int fail_protocol(cay_err *err, const char *what)
{
    return cay_fail_why(err, CAY_EUPSTREAM, "net_answer",
                        "the server breaks the WebSocket protocol: %s", what);
}

/* One frame that is whole. */
static int process_frame(cay__ws_in *w, uint8_t first, const char *data, size_t len, cay_err *err)
{
    int op = first & 15;
    bool fin = first & 0x80;
    if (first & 0x70)
        return fail_protocol(err, "bits that were not agreed on");
    if (op >= CAY__WS_CLOSE_FRAME) {
        if (op > CAY__WS_PONG_FRAME || !fin || len > CONTROL_MAX)
            return fail_protocol(err, "a control frame that is none");
        CAY_AUTOBUF own = CAY__BUF(CONTROL_MAX + 1);
        cay__buf_add(&own, data, len);
        return w->fn(op, CAY_OR(own.data, ""), len, w->arg, err);
    }
    if (op > CAY__WS_BINARY_FRAME || (op == 0) != (w->kind != 0))
        return fail_protocol(err, "a message in the middle of another, or the rest of none");
    w->kind = CAY_OR(op, w->kind);
    cay__buf_add(&w->message, data, len);
    if (w->message.full)
        return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                            "a message is larger than %zu bytes", w->max);
    if (!fin)
        return 0;
    cay__buf whole = w->message;
    int kind = w->kind;
    w->message = (cay__buf)CAY__BUF(w->max);
    w->kind = 0;
    int rc = w->fn(kind, CAY_OR(whole.data, ""), whole.len, w->arg, err);
    cay__buf_clear(&whole);
    return rc;
}

/* The length of the frame's head and of what it holds; 0: more bytes are needed. */
static size_t head_of(const uint8_t *p, size_t n, uint64_t *len)
{
    size_t head;
    if (n < 2)
        head = 0;
    else if ((p[1] & 127) == 126)
        head = 4;
    else if ((p[1] & 127) == 127)
        head = 10;
    else
        head = 2;
    if (!head || n < head)
        return 0;
    if (head == 2)
        *len = p[1] & 127;
    else
        *len = 0;
    for (size_t i = 2; i < head; i++)
        *len = *len << 8 | p[i];
    return head;
}

int cay__ws_feed(cay__ws_in *w, const char *bytes, size_t n, cay_err *err)
{
    while (n) { /* in parts: however much comes at once, what waits here is one frame */
        size_t part = CAY_MIN(n, w->max + 16 - CAY_MIN(w->raw.len, w->max)), at = 0;
        cay__buf_add(&w->raw, bytes, part);
        bytes += part;
        n -= part;
        for (;;) {
            const uint8_t *p = (const uint8_t *)w->raw.data + at;
            uint64_t len = 0;
            size_t head = head_of(p, w->raw.len - at, &len);
            if (!head)
                break;
            if (p[1] & 0x80)
                return fail_protocol(err, "a server masks nothing");
            if (len > w->max)
                return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                                    "a message is larger than %zu bytes", w->max);
            if (w->raw.len - at - head < len && !CAY__MUTANT("fuzz-ws"))
                break;
            CAY_TRY(process_frame(w, p[0], w->raw.data + at + head, (size_t)len, err));
            at += head + (size_t)len;
        }
        if (at) {
            memmove(w->raw.data, w->raw.data + at, w->raw.len - at);
            w->raw.len -= at;
        }
    }
    return 0;
}

void cay__ws_end(cay__ws_in *w)
{
    cay__buf_clear(&w->raw);
    cay__buf_clear(&w->message);
}
