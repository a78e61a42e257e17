/* SPDX-License-Identifier: Apache-2.0 */
#include "hello.h"
#include <base/base.h>
#include <base/mutant.h>

enum {
    REC_HEAD = 5,
    REC_HANDSHAKE = 22,
    REC_MAX = 16384,
    MSG_HEAD = 4,
    MSG_HELLO = 1,
    EXT_SNI = 0,
    EXT_ECH = 0xfe0d,
    EXT_ESNI = 0xffce
};

/* What is left of the message; a read beyond its end turns it bad, and gives zeros from then on. */
typedef struct rest {
    const uint8_t *p;
    size_t n;
    bool bad;
} rest;

static const uint8_t *read_bytes(rest *r, size_t n)
{
    if (r->bad || n > r->n) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *p = r->p;
    r->p += n;
    r->n -= n;
    return p;
}

static size_t read_number(rest *r, size_t bytes)
{
    const uint8_t *p = read_bytes(r, bytes);
    size_t v = 0;
    for (size_t i = 0; p && i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

/* A vector behind its length. */
static rest read_vector(rest *r, size_t bytes)
{
    size_t n = read_number(r, bytes);
    const uint8_t *p = read_bytes(r, n);
    return (rest){ p, p ? n : 0, r->bad };
}

static bool read_sni(rest ext, hello *h)
{
    rest list = read_vector(&ext, 2);
    while (list.n && !list.bad) {
        size_t kind = read_number(&list, 1);
        rest name = read_vector(&list, 2);
        if (kind != 0 || list.bad)
            continue;
        /* Two names: which of them the server takes is anyone's guess. */
        if (h->named || name.n == 0 || (name.n >= sizeof h->sni && !CAY__MUTANT("fuzz-hello")))
            return false;
        memcpy(h->sni, name.p, name.n);
        h->sni[name.n] = 0;
        h->sni_len = name.n;
        h->named = true;
    }
    return !list.bad && !ext.bad && ext.n == 0;
}

static int read_body(rest r, hello *h)
{
    read_bytes(&r, 2 + 32); /* version, random */
    read_vector(&r, 1);     /* session id */
    read_vector(&r, 2);     /* cipher suites */
    read_vector(&r, 1);     /* compression */
    if (r.bad)
        return HELLO_BAD;
    if (!r.n)
        return HELLO_OK; /* TLS 1.0 without extensions */
    rest all = read_vector(&r, 2);
    if (r.bad || r.n)
        return HELLO_BAD;
    while (all.n) {
        size_t type = read_number(&all, 2);
        rest ext = read_vector(&all, 2);
        if (all.bad)
            return HELLO_BAD;
        if (type == EXT_SNI && !read_sni(ext, h))
            return HELLO_BAD;
        h->ech |= type == EXT_ECH || type == EXT_ESNI;
    }
    return HELLO_OK;
}

int hello_read(const uint8_t *p, size_t len, hello *h)
{
    uint8_t msg[HELLO_MAX];
    size_t at = 0, have = 0;
    memset(h, 0, sizeof *h);
    for (;;) {
        /* Judged by its first byte at once: what is no TLS shall not wait for five. */
        if (at < len && p[at] != REC_HANDSHAKE)
            return HELLO_BAD;
        if (at + 1 < len && p[at + 1] != 3)
            return HELLO_BAD;
        h->need = at + REC_HEAD;
        if (len < h->need)
            return HELLO_MORE;
        size_t size = (size_t)p[at + 3] << 8 | p[at + 4];
        if (size == 0 || size > REC_MAX)
            return HELLO_BAD;
        size_t here = CAY_MIN(size, len - at - REC_HEAD);
        if (have + here > sizeof msg)
            return HELLO_BAD;
        memcpy(msg + have, p + at + REC_HEAD, here);
        have += here;
        if (have >= 1 && msg[0] != MSG_HELLO)
            return HELLO_BAD;
        if (have >= MSG_HEAD) {
            size_t body = (size_t)msg[1] << 16 | (size_t)msg[2] << 8 | msg[3];
            if (body > sizeof msg - MSG_HEAD)
                return HELLO_BAD;
            if (have >= MSG_HEAD + body)
                return read_body((rest){ msg + MSG_HEAD, body, false }, h);
        }
        at += REC_HEAD + size;
        h->need = at;
        if (len < at)
            return HELLO_MORE;
        if (at > 2 * HELLO_MAX)
            return HELLO_BAD;
    }
}
