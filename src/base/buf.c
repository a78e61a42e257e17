/* SPDX-License-Identifier: Apache-2.0 */
#include "buf.h"
#include "base.h"

void cay__buf_clear(cay__buf *b)
{
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
    b->full = false;
}

char *cay__buf_room(cay__buf *b, size_t n)
{
    if (b->full || n > b->max || b->len > b->max - n) {
        b->full = true;
        return NULL;
    }
    if (b->cap - b->len <= n) {
        size_t cap = CAY_MAX(CAY_MAX(b->cap * 2, b->len + n + 1), 64);
        char *p = realloc(b->data, cap);
        if (!p) {
            b->full = true;
            return NULL;
        }
        b->data = p;
        b->cap = cap;
    }
    return b->data + b->len;
}

void cay__buf_used(cay__buf *b, size_t n)
{
    b->len += n;
    b->data[b->len] = 0;
}

void cay__buf_cut(cay__buf *b, size_t n)
{
    b->len -= n;
    if (n)
        memmove(b->data, b->data + n, b->len + 1);
}

void cay__buf_add(cay__buf *b, const void *p, size_t n)
{
    char *room = cay__buf_room(b, n);
    if (room) {
        if (n)
            memcpy(room, p, n);
        cay__buf_used(b, n);
    }
}

void cay__buf_str(cay__buf *b, const char *s)
{
    cay__buf_add(b, s, strlen(s));
}

void cay__buf_cstr(cay__buf *b, const char *s)
{
    cay__buf_str(b, CAY_OR(s, ""));
    cay__buf_add(b, "", 1);
}

void cay__buf_fmt(cay__buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *room = NULL;
    if (n >= 0)
        room = cay__buf_room(b, (size_t)n);
    if (!room)
        return;
    va_start(ap, fmt);
    vsnprintf(room, (size_t)n + 1, fmt, ap);
    va_end(ap);
    cay__buf_used(b, (size_t)n);
}

size_t cay__utf8_put(char out[4], uint32_t c)
{
    static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    size_t n;
    if (c < 0x80)
        n = 1;
    else if (c < 0x800)
        n = 2;
    else if (c < 0x10000)
        n = 3;
    else
        n = 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[n] | c);
    return n;
}

size_t cay__utf8_len(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    if (!n)
        return 0;
    if (u[0] < 0x80)
        return 1;
    size_t k;
    if (u[0] >= 0xf0)
        k = 4;
    else if (u[0] >= 0xe0)
        k = 3;
    else
        k = 2;
    if (u[0] < 0xc2 || u[0] > 0xf4 || k > n)
        return 0;
    for (size_t i = 1; i < k; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    /* overlong, surrogates, past U+10FFFF */
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
        (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f))
        return 0;
    return k;
}

/* A character that a terminal obeys or that turns the direction of text around, so that what is
 * shown would not be what is there: C1 controls, U+061C, U+200E and F, U+202A to E, U+2066 to 9.
 * Its code point, else 0. */
static unsigned decode_hidden(const char *s, size_t k)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned c;
    if (k == 2)
        c = (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
    else if (k == 3)
        c = (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
    else
        c = 0;
    if ((c >= 0x80 && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
        (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
        return c;
    return 0;
}

/* Bytes at the front that stand for themselves in JSON and on a terminal: most of what is ever
 * printed. */
static size_t plain_run(const char *s, size_t n)
{
    size_t k = 0;
    while (k < n && (unsigned char)(s[k] - 0x20) < 0x5f && s[k] != '"' && s[k] != '\\')
        k++;
    return k;
}

void cay__buf_json(cay__buf *b, const char *s, size_t n)
{
    cay__buf_add(b, "\"", 1);
    while (n) {
        size_t run = plain_run(s, n);
        cay__buf_add(b, s, run);
        s += run;
        n -= run;
        if (!n)
            break;
        size_t k = cay__utf8_len(s, n);
        if (k == 0) {
            cay__buf_str(b, "\\ufffd");
            k = 1;
        } else if (*s == '"' || *s == '\\') {
            cay__buf_fmt(b, "\\%c", *s);
        } else if ((unsigned char)*s < 0x20 || *s == 0x7f) {
            cay__buf_fmt(b, "\\u%04x", (unsigned char)*s);
        } else if (decode_hidden(s, k)) {
            cay__buf_fmt(b, "\\u%04x", decode_hidden(s, k));
        } else {
            cay__buf_add(b, s, k);
        }
        s += k;
        n -= k;
    }
    cay__buf_add(b, "\"", 1);
}

void cay__buf_hex(cay__buf *b, const void *p, size_t n)
{
    char *to = cay__buf_room(b, 2 * n);
    if (!to)
        return;
    cay__hex_put(to, p, n);
    cay__buf_used(b, 2 * n);
}

void cay__buf_safe(cay__buf *b, const char *s, size_t n, bool keep_newlines)
{
    while (n) {
        size_t k = cay__utf8_len(s, n);
        unsigned char c = (unsigned char)*s;
        if (k == 1 && keep_newlines && (c == '\n' || c == '\t')) {
            cay__buf_add(b, s, 1);
        } else if (k == 0 || c < 0x20 || c == 0x7f || decode_hidden(s, k)) {
            CAY_EACH_OF(it, s, CAY_OR(k, 1))
                cay__buf_fmt(b, "\\x%02x", (unsigned char)*it);
        } else {
            cay__buf_add(b, s, k);
        }
        s += CAY_OR(k, 1);
        n -= CAY_OR(k, 1);
    }
}

struct cay__piece {
    struct cay__piece *before;
    void *p; /* adopted; NULL: what was taken follows */
    max_align_t at[];
};

void *cay__arena_adopt(cay__arena *a, void *p)
{
    struct cay__piece *it = cay__alloc(sizeof *it);
    *it = (struct cay__piece){ a->last, p };
    a->last = it;
    return p;
}

void *cay__arena_take(cay__arena *a, size_t n)
{
    struct cay__piece *it = cay__alloc(sizeof *it + n);
    it->before = a->last;
    a->last = it;
    return it->at;
}

char *cay__arena_str(cay__arena *a, const char *s)
{
    size_t n = strlen(CAY_OR(s, "")) + 1;
    return memcpy(cay__arena_take(a, n), CAY_OR(s, ""), n);
}

void cay__arena_clear(cay__arena *a)
{
    for (struct cay__piece *it = a->last, *before; it; it = before) {
        before = it->before;
        free(it->p);
        free(it);
    }
    a->last = NULL;
}
