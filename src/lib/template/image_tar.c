/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the files of a plain tar are: what `docker save`, skopeo and others make, a tar of
 * documents and layers. Nothing is unpacked here; names, places and sizes are all that is read, and
 * every one of them is judged. POSIX.1-2017 pax, "ustar Interchange Format".
 */
#include "image.h"
#include <base/base.h>
#include <base/str.h>
#include <sys/stat.h>

#define MEMBERS_MOST 10000
enum { BLOCK = 512, SIZE = 124, SUM = 148, TYPE = 156, MAGIC = 257, PREFIX = 345 };

static bool parse_octal(const uint8_t *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
        if (v >> 60)
            return false;
        v = v << 3 | (uint64_t)(p[i] - '0');
    }
    *out = v;
    return i == n || !p[i] || p[i] == ' ';
}

static bool parse_number(const uint8_t *p, size_t n, uint64_t *out)
{
    if (!(p[0] & 0x80))
        return parse_octal(p, n, out);
    uint64_t v = 0;
    for (size_t i = 1; i < n; i++) {
        if (v >> 55)
            return false;
        v = v << 8 | p[i];
    }
    *out = v;
    return p[0] == 0x80;
}

static bool header_ok(const uint8_t *b)
{
    uint64_t want;
    unsigned sum = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        if (i >= SUM && i < SUM + 8)
            sum += ' ';
        else
            sum += b[i];
    }
    return !memcmp(b + MAGIC, "ustar", 5) && parse_octal(b + SUM, 8, &want) && want == sum;
}

/* "./a" is "a"; prefix and name together. False: longer than we keep. */
static bool name_of(const uint8_t *b, char out[256])
{
    char prefix[156] = "", name[101];
    memcpy(name, b, 100);
    name[100] = 0;
    if (b[MAGIC + 5] == 0 && b[PREFIX]) {
        memcpy(prefix, b + PREFIX, 155);
        prefix[155] = 0;
    }
    const char *n = name;
    if (!strncmp(name, "./", 2))
        n = name + 2;
    return cay__str_join(out, 256, prefix, CAY_TEXT_IF(*prefix, "/"), n, NULL);
}

int cay__members_read(int fd, cay__members *out, cay_err *err)
{
    struct stat st;
    uint8_t b[BLOCK];
    *out = (cay__members){ 0 };
    if (fstat(fd, &st) < 0)
        return cay_fail_sys(err, CAY_ESYS, "look at the archive");
    if (!S_ISREG(st.st_mode))
        return 0;
    uint64_t end = (uint64_t)st.st_size, at = 0;
    while (at + BLOCK <= end && pread(fd, b, BLOCK, (off_t)at) == BLOCK && header_ok(b)) {
        cay__image_member m = { .at = at + BLOCK };
        if (!parse_number(b + SIZE, 12, &m.size) || m.size > end - m.at) {
            cay__members_clear(out);
            return cay_fail_why(err, CAY_EINVAL, "archive_corrupt",
                                "the archive is cut: a member is longer than what is left");
        }
        bool file = b[TYPE] == '0' || b[TYPE] == 0;
        if (file && name_of(b, m.name)) {
            if (out->n == MEMBERS_MOST)
                break;
            if (out->n % 64 == 0 && !(out->v = realloc(out->v, (out->n + 64) * sizeof *out->v)))
                abort();
            out->v[out->n++] = m;
        }
        at = m.at + (m.size + BLOCK - 1) / BLOCK * BLOCK;
    }
    return 0;
}

const cay__image_member *cay__members_find(const cay__members *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->v[i].name, name))
            return &m->v[i];
    return NULL;
}

void cay__members_clear(cay__members *m)
{
    free(m->v);
    *m = (cay__members){ 0 };
}
