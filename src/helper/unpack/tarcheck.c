/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tar's headers may say. libarchive is lenient where headers contradict each other, so that
 * two readers could see two archives in one; here everything that can be read in two ways is
 * refused, before libarchive sees it. POSIX.1-2017 pax, "ustar Interchange Format"; GNU tar's
 * manual, "Basic Tar Format".
 */
#include "unpack.h"
#include <base/mutant.h>

enum {
    BLOCK = 512,
    NAME = 0,
    SIZE = 124,
    SUM = 148,
    TYPE = 156,
    SPARSE_MORE = 482,
    SPARSE_NEXT = 504,
    BODY_MAX = 1 << 20,
    RECORDS = 1000
};
/* 7: contiguous, read as a file. Devices and FIFOs pass here and are refused by their final name.
 */
#define TYPES "01234567xgLKS"

static bool refuse_archive(tarcheck *t, const char *reason, const char *why)
{
    t->reason = reason;
    snprintf(t->why, sizeof t->why, "%s", why);
    return false;
}

static bool parse_octal(const uint8_t *p, size_t n, uint64_t *out)
{
    size_t i = 0;
    uint64_t v = 0;
    while (i < n && p[i] == ' ')
        i++;
    size_t digits = i;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(p[i] - '0');
    *out = v;
    bool any = i > digits;
    for (; i < n; i++)
        if (p[i] && p[i] != ' ')
            return false;
    return any || n == 0 || !p[0] || p[0] == ' ';
}

/* Octal, or base 256 with the top bit set. */
static bool parse_number(const uint8_t *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    if (!(p[0] & 0x80))
        return parse_octal(p, n, out);
    if (p[0] != 0x80)
        return false; /* negative, or beyond 2^88 */
    for (size_t i = 1; i < n; i++) {
        if (v >> 55)
            return false;
        v = v << 8 | p[i];
    }
    *out = v;
    return true;
}

static bool sum_agrees(const uint8_t *b)
{
    uint64_t want;
    unsigned plain = 0;
    int odd = 0; /* some old programs add signed bytes */
    for (size_t i = 0; i < BLOCK; i++) {
        uint8_t c;
        if (i >= SUM && i < SUM + 8)
            c = ' ';
        else
            c = b[i];
        plain += c;
        odd += (int8_t)c;
    }
    return parse_octal(b + SUM, 8, &want) && (want == plain || (int64_t)want == odd);
}

static bool is_zero_block(const uint8_t *b)
{
    return !b[0] && !memcmp(b, b + 1, BLOCK - 1);
}

static bool is_key(const char *key, size_t n, const char *word)
{
    return n == strlen(word) && !memcmp(key, word, n);
}

/* The same key twice in one set of records is two answers to one question. GNU.sparse.offset and
 * numbytes come in pairs. */
static bool said_before(const char *from, const char *to, const char *key, size_t n)
{
    if (n > 11 && !memcmp(key, "GNU.sparse.", 11))
        return false;
    while (from < to) {
        char *end;
        unsigned long len = strtoul(from, &end, 10);
        if (!memcmp(end + 1, key, n) && end[1 + n] == '=')
            return true;
        from += len;
    }
    return false;
}

static bool check_record(tarcheck *t, const char *key, size_t klen, const char *value, size_t vlen)
{
    bool path = is_key(key, klen, "path"), link = is_key(key, klen, "linkpath"),
         size = is_key(key, klen, "size");
    if (t->kind == 'g' && (path || link || size))
        return refuse_archive(t, "archive_corrupt", "a global record names a path or size");
    if ((path || link || is_key(key, klen, "GNU.sparse.name")) && memchr(value, 0, vlen))
        return refuse_archive(t, "archive_path", "a name with a NUL in it");
    if ((path && t->has_path) || (link && t->has_link))
        return refuse_archive(t, "archive_corrupt", "two headers name it");
    t->has_path |= path;
    t->has_link |= link;
    if (!size)
        return true;
    uint64_t v = 0;
    for (size_t i = 0; i < vlen; i++) {
        if (value[i] < '0' || value[i] > '9' || v > UINT64_MAX / 16)
            return refuse_archive(t, "archive_corrupt", "a size that is no number");
        v = 10 * v + (uint64_t)(value[i] - '0');
    }
    t->pax_size = v;
    t->has_size = true;
    return true;
}

static bool check_pax(tarcheck *t)
{
    const char *p = t->body, *all = t->body + t->body_len;
    for (unsigned n = 0; p < all; n++) {
        if (n == RECORDS)
            return refuse_archive(t, "archive_limit",
                                  "more than a thousand pax records for one member");
        size_t len = 0, digits = 0;
        while (p + digits < all && digits < 8 && p[digits] >= '0' && p[digits] <= '9')
            len = 10 * len + (size_t)(p[digits++] - '0');
        if (!digits || p + digits >= all || p[digits] != ' ' || len <= digits + 2 ||
            len > (size_t)(all - p) || p[len - 1] != '\n')
            return refuse_archive(t, "archive_corrupt", "a pax record that is not sound");
        const char *key = p + digits + 1, *end = p + len - 1;
        const char *eq = memchr(key, '=', (size_t)(end - key));
        if (!eq || eq == key || memchr(key, 0, (size_t)(eq - key)))
            return refuse_archive(t, "archive_corrupt", "a pax record without a key");
        if (said_before(t->body, p, key, (size_t)(eq - key)) && !CAY__MUTANT("archive-pax-twice"))
            return refuse_archive(t, "archive_corrupt", "a pax record that comes twice");
        if (!check_record(t, key, (size_t)(eq - key), eq + 1, (size_t)(end - eq - 1)))
            return false;
        p += len;
    }
    return true;
}

static bool long_name(tarcheck *t)
{
    size_t n = strnlen(t->body, t->body_len);
    for (size_t i = n; i < t->body_len; i++)
        if (t->body[i])
            return refuse_archive(t, "archive_path", "a name with a NUL in it");
    if (t->kind == 'L' ? t->has_path : t->has_link)
        return refuse_archive(t, "archive_corrupt", "two headers name it");
    if (t->kind == 'L')
        t->has_path = true;
    else
        t->has_link = true;
    return true;
}

static bool check_body(tarcheck *t)
{
    if (t->kind == 'x' || t->kind == 'g')
        return check_pax(t);
    return long_name(t);
}

static bool begin_extension(tarcheck *t, uint64_t size)
{
    if (size > BODY_MAX)
        return refuse_archive(t, "archive_limit", "a header of more than a megabyte");
    if (!t->body)
        t->body = cay__alloc(BODY_MAX + 1);
    t->body_len = 0;
    t->body_want = size;
    t->skip = (size + BLOCK - 1) / BLOCK * BLOCK;
    if (size)
        return true;
    return check_body(t);
}

static bool check_header(tarcheck *t)
{
    const uint8_t *b = t->block;
    uint64_t size;
    if (is_zero_block(b)) {
        t->ended = true;
        if (!t->has_path && !t->has_size && !t->has_link)
            return true;
        return refuse_archive(t, "archive_corrupt", "it ends after a header without its member");
    }
    memcpy(t->name, b + NAME, 100);
    t->name[100] = 0;
    char kind = '0';
    if (b[TYPE])
        kind = (char)b[TYPE];
    if (!sum_agrees(b))
        return refuse_archive(t, "archive_corrupt", "a header whose checksum is wrong");
    if (!strchr(TYPES, kind))
        return refuse_archive(t, "archive_special", "a member of an unknown kind");
    if (!parse_number(b + SIZE, 12, &size))
        return refuse_archive(t, "archive_corrupt", "a size that is negative or no number");
    t->kind = kind;
    if (strchr("xgLK", kind))
        return begin_extension(t, size);
    if (t->has_size && size && size != t->pax_size)
        return refuse_archive(t, "archive_corrupt", "two headers tell two sizes");
    if (t->has_size)
        size = t->pax_size;
    if (strchr("123456", kind) && size)
        return refuse_archive(t, "archive_corrupt",
                              "a link, directory or device with bytes of its own");
    if (size > t->max_size)
        return refuse_archive(t, "archive_limit", "a member larger than all that may come out");
    t->skip = (size + BLOCK - 1) / BLOCK * BLOCK;
    t->sparse_more = kind == 'S' && b[SPARSE_MORE];
    t->has_size = t->has_path = t->has_link = false;
    return true;
}

static bool check_block(tarcheck *t)
{
    if (t->sparse_more) { /* more of a sparse member's map; its bytes come after */
        t->sparse_more = t->block[SPARSE_NEXT];
        return true;
    }
    return check_header(t);
}

bool tarcheck_feed(tarcheck *t, const void *data, size_t len)
{
    const uint8_t *p = data;
    while (len && !t->ended && !t->reason) {
        if (t->skip && !t->sparse_more) {
            size_t n = (size_t)CAY_MIN(t->skip, (uint64_t)len);
            size_t keep = CAY_MIN(n, t->body_want - t->body_len);
            if (keep) {
                memcpy(t->body + t->body_len, p, keep);
                t->body_len += keep;
            }
            t->skip -= n;
            p += n;
            len -= n;
            if (t->body_want && t->body_len == t->body_want && !t->skip) {
                t->body[t->body_len] = 0;
                if (!check_body(t))
                    return false;
                t->body_want = t->body_len = 0;
            }
            continue;
        }
        size_t n = CAY_MIN(len, BLOCK - t->have);
        memcpy(t->block + t->have, p, n);
        t->have += n;
        p += n;
        len -= n;
        if (t->have < BLOCK)
            break;
        t->have = 0;
        if (!check_block(t))
            return false;
    }
    return !t->reason;
}

void tarcheck_clear(tarcheck *t)
{
    free(t->body);
    t->body = NULL;
}
