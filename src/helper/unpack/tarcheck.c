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
    SPARSE_MORE = 482, /* in a head of GNU's: the map of a sparse member goes on in a block */
    SPARSE_NEXT = 504, /* in that block: and in another one */
    BODY_MAX = 1 << 20,
    RECORDS = 1000
};
/* 7: contiguous, read as a file. Devices and FIFOs pass here and are refused by their final name.
 */
#define TYPES "01234567xgLKS"

static bool refuse_archive(tarcheck *t, const char *reason, const char *why)
{
    t->reason = reason;
    CAY_FORMAT(t->why, "%s", why);
    return false;
}

/* The same key twice in one set of records is two answers to one question. GNU.sparse.offset and
 * numbytes come in pairs. */
static bool said_before(const char *from, const char *to, const cay__pax_record *r)
{
    cay__pax_record old;
    if (r->key_len > 11 && !memcmp(r->key, "GNU.sparse.", 11))
        return false;
    while (cay__pax_next(&from, to, &old) > 0)
        if (old.key_len == r->key_len && !memcmp(old.key, r->key, r->key_len))
            return true;
    return false;
}

static bool check_record(tarcheck *t, const cay__pax_record *r)
{
    bool path = cay__pax_is(r, "path");
    bool link = cay__pax_is(r, "linkpath");
    bool size = cay__pax_is(r, "size");
    if (t->kind == 'g' && (path || link || size))
        return refuse_archive(t, "archive_corrupt", "a global record names a path or size");
    if ((path || link || cay__pax_is(r, "GNU.sparse.name")) && memchr(r->value, 0, r->value_len))
        return refuse_archive(t, "archive_path", "a name with a NUL in it");
    if ((path && t->has_path) || (link && t->has_link))
        return refuse_archive(t, "archive_corrupt", "two headers name it");
    t->has_path |= path;
    t->has_link |= link;
    if (!size)
        return true;
    uint64_t v = 0;
    CAY_EACH_OF(it, r->value, r->value_len) {
        if (*it < '0' || *it > '9' || v > UINT64_MAX / 16)
            return refuse_archive(t, "archive_corrupt", "a size that is no number");
        v = 10 * v + (uint64_t)(*it - '0');
    }
    t->pax_size = v;
    t->has_size = true;
    return true;
}

static bool check_pax(tarcheck *t)
{
    const char *p = t->body, *before = p, *all = t->body + t->body_len;
    cay__pax_record r;
    int rc;
    for (unsigned n = 0; (rc = cay__pax_next(&p, all, &r)) > 0; n++, before = p) {
        if (n == RECORDS)
            return refuse_archive(t, "archive_limit",
                                  "more than a thousand pax records for one member");
        if (!r.key_len || memchr(r.key, 0, r.key_len))
            return refuse_archive(t, "archive_corrupt", "a pax record without a key");
        if (said_before(t->body, before, &r) && !CAY__MUTANT("archive-pax-twice"))
            return refuse_archive(t, "archive_corrupt", "a pax record that comes twice");
        if (!check_record(t, &r))
            return false;
    }
    if (rc < 0)
        return refuse_archive(t, "archive_corrupt", "a pax record that is not sound");
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
    t->skip = cay__tar_padded(size);
    if (size)
        return true;
    return check_body(t);
}

static bool check_header(tarcheck *t)
{
    const cay__tar_block *b = &t->block;
    uint64_t size;
    if (cay__tar_is_end(b)) {
        t->ended = true;
        if (!t->has_path && !t->has_size && !t->has_link)
            return true;
        return refuse_archive(t, "archive_corrupt", "it ends after a header without its member");
    }
    memcpy(t->name, b->name, sizeof b->name);
    t->name[sizeof b->name] = 0;
    char kind = CAY_OR(b->type, '0');
    if (!cay__tar_sum_agrees(b))
        return refuse_archive(t, "archive_corrupt", "a header whose checksum is wrong");
    if (!strchr(TYPES, kind))
        return refuse_archive(t, "archive_special", "a member of an unknown kind");
    if (!cay__tar_number(b->size, sizeof b->size, &size))
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
    t->skip = cay__tar_padded(size);
    t->sparse_more = kind == 'S' && ((const char *)b)[SPARSE_MORE];
    t->has_size = t->has_path = t->has_link = false;
    return true;
}

static bool check_block(tarcheck *t)
{
    if (t->sparse_more) { /* more of a sparse member's map; its bytes come after */
        t->sparse_more = ((const char *)&t->block)[SPARSE_NEXT];
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
        size_t n = CAY_MIN(len, sizeof t->block - t->have);
        memcpy((char *)&t->block + t->have, p, n);
        t->have += n;
        p += n;
        len -= n;
        if (t->have < sizeof t->block)
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
