/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include <sys/random.h>

bool cay__str_copy(char *dst, size_t cap, const char *src)
{
    size_t n = strnlen(src, cap),
           k = n < cap ? n : cap - 1; /* a field of a packet may lack its end */
    memcpy(dst, src, k);
    dst[k] = 0;
    return n < cap;
}

bool cay__str_part(char *dst, size_t cap, const char *src, size_t n)
{
    if (n >= cap)
        return false;
    memcpy(dst, src, n);
    dst[n] = 0;
    return true;
}

bool cay__str_join(char *dst, size_t cap, ...)
{
    size_t at = 0;
    bool whole = true;
    va_list ap;
    va_start(ap, cap);
    for (const char *s; (s = va_arg(ap, const char *));) {
        if (at < cap)
            whole &= cay__str_copy(dst + at, cap - at, s);
        at += strlen(dst + at);
    }
    va_end(ap);
    return whole;
}

char *cay__str_u64(char *buf, uint64_t v)
{
    char *p = buf + 20;
    *p = 0;
    do
        *--p = (char)('0' + v % 10);
    while (v /= 10);
    return p;
}

bool cay__str_to_u64(const char *s, uint64_t *out)
{
    uint64_t v = 0;
    if (!*s)
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return false;
    }
    *out = v;
    return true;
}

bool cay__str_starts(const char *s, const char *prefix)
{
    return !strncmp(s, prefix, strlen(prefix));
}

void cay__random(void *dst, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t k = getrandom((char *)dst + at, n - at, 0);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            abort();
        at += (size_t)k;
    }
}

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";

void cay__id_make(char *dst, char kind)
{
    unsigned char r[CAY__ID_LEN - 1];
    cay__random(r, sizeof r);
    dst[0] = kind;
    for (size_t i = 0; i < sizeof r; i++)
        dst[i + 1] = alphabet[r[i] & 31];
    dst[CAY__ID_LEN] = 0;
}

bool cay__id_valid(const char *s, char kind)
{
    CAY_EACH_OF(it, s, CAY__ID_LEN)
        if (!((*it >= 'a' && *it <= 'z') || (*it >= '2' && *it <= '7')))
            return false;
    return !s[CAY__ID_LEN] && s[0] >= 'a' && (!kind || s[0] == kind);
}

bool cay__layer_valid(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return n && n < 64 && !s[n] && s[0] != '-';
}

static const char hex_digits[] = "0123456789abcdef";

void cay__hex_put(char *dst, const void *data, size_t n)
{
    for (const unsigned char *p = data; n--; p++) {
        *dst++ = hex_digits[*p >> 4];
        *dst++ = hex_digits[*p & 15];
    }
    *dst = 0;
}

int cay__hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 32) >= 'a' && (c | 32) <= 'f')
        return (c | 32) - 'a' + 10;
    return -1;
}

bool cay__hex_get(void *dst, const char *text, size_t n)
{
    for (unsigned char *to = dst; n--; text += 2) {
        int high = cay__hex_digit(text[0]);
        int low = -1;
        if (high >= 0)
            low = cay__hex_digit(text[1]);
        if (low < 0)
            return false;
        *to++ = (unsigned char)(high << 4 | low);
    }
    return true;
}

size_t cay__hex_len(const char *s)
{
    return strspn(s, hex_digits);
}

bool cay__hex_is(const char *s, size_t n)
{
    return cay__hex_len(s) == n && !s[n];
}

void cay__uuid_make(char dst[37])
{
    static const unsigned char bytes[] = { 4, 2, 2, 2, 6 };
    unsigned char r[16];
    const unsigned char *from = r;
    cay__random(r, sizeof r);
    r[6] = (unsigned char)((r[6] & 0x0f) | 0x40);
    r[8] = (unsigned char)((r[8] & 0x3f) | 0x80);
    CAY_EACH_OF(byte, bytes, sizeof bytes) {
        cay__hex_put(dst, from, *byte);
        from += *byte;
        dst += 2 * *byte;
        *dst++ = '-';
    }
    dst[-1] = 0;
}

uint32_t cay__hash(const void *p, size_t n)
{
    uint32_t h = 2166136261u;
    for (const unsigned char *b = p; n--; b++)
        h = (h ^ *b) * 16777619u;
    return h;
}

/* Four bits at a time: 64 bytes of table, no start-up cost; records are 128 bytes. */
uint32_t cay__crc32c(uint32_t crc, const void *p, size_t n)
{
    static const uint32_t t[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    crc = ~crc;
    for (const unsigned char *b = p; n--; b++) {
        crc = t[(crc ^ *b) & 15] ^ (crc >> 4);
        crc = t[(crc ^ (*b >> 4)) & 15] ^ (crc >> 4);
    }
    return ~crc;
}
