/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input, with its compression taken off by libarchive's filters: gzip, bzip2, xz, lzma, zstd.
 * Those that would start other programs are not among them. What goes in and what comes out is
 * counted here.
 */
#include "unpack.h"
#include <base/sha256.h>
#include <archive.h>
#include <archive_entry.h>

enum { CHUNK = 256 << 10 };

struct input {
    unpack *u;
    int fd;
    struct archive *raw;
    char *buf;
    const void *again; /* to be read once more */
    size_t again_len;
    uint64_t out;
    bool open, ended;
    cay__sha256 sum; /* oci: of what comes out */
};

static la_ssize_t on_read(struct archive *a, void *arg, const void **p)
{
    input *s = arg;
    ssize_t n;
    do
        n = read(s->fd, s->buf, CHUNK);
    while (n < 0 && errno == EINTR);
    *p = s->buf;
    if (n < 0)
        archive_set_error(a, errno, "cannot read it");
    if (n > 0)
        s->u->in += (uint64_t)n;
    if (s->u->in > s->u->max.input) {
        fail(s->u, "", "archive_limit", "it is larger than %llu bytes",
             (unsigned long long)s->u->max.input);
        archive_set_error(a, EFBIG, "too large");
        return ARCHIVE_FATAL;
    }
    if (n < 0)
        return ARCHIVE_FATAL;
    return n;
}

input *input_open(unpack *u, int fd)
{
    input *s = cay__alloc(sizeof *s);
    *s = (input){ .u = u, .fd = fd, .buf = cay__alloc(CHUNK), .raw = archive_read_new() };
    if (!s->raw)
        abort();
    cay__sha256_begin(&s->sum);
    archive_read_support_filter_gzip(s->raw);
    archive_read_support_filter_bzip2(s->raw);
    archive_read_support_filter_xz(s->raw);
    archive_read_support_filter_lzma(s->raw);
    archive_read_support_filter_zstd(s->raw);
    archive_read_support_format_raw(s->raw);
    archive_read_support_format_empty(s->raw);
    return s;
}

void input_close(input *s)
{
    archive_read_free(s->raw);
    free(s->buf);
    free(s);
}

static int fail_corrupt(input *s)
{
    const char *why = archive_error_string(s->raw);
    return fail(s->u, "", "archive_corrupt", "%.150s",
                CAY_OR(why, "its compression cannot be read"));
}

static int open_raw_archive(input *s)
{
    struct archive_entry *e;
    s->open = true;
    if (archive_read_open2(s->raw, s, NULL, on_read, NULL, NULL) != ARCHIVE_OK)
        return fail_corrupt(s);
    switch (archive_read_next_header(s->raw, &e)) {
    case ARCHIVE_OK: return 0;
    case ARCHIVE_EOF: s->ended = true; return 0;
    default: return fail_corrupt(s);
    }
}

int input_read(input *s, const void **p, size_t *n)
{
    la_int64_t at;
    *n = 0;
    if (s->again_len) {
        *p = s->again;
        *n = s->again_len;
        s->again_len = 0;
        return 0;
    }
    if (!s->open && open_raw_archive(s) < 0)
        return -1;
    while (!s->ended && *n == 0) {
        int rc = archive_read_data_block(s->raw, p, n, &at);
        if (rc == ARCHIVE_EOF)
            s->ended = true;
        else if (rc != ARCHIVE_OK)
            return fail_corrupt(s);
    }
    s->out += *n;
    if (s->u->as->oci && *n)
        cay__sha256_add(&s->sum, *p, *n);
    const limits *m = &s->u->max;
    if (s->out > m->ratio_from && s->out / m->ratio > s->u->in)
        return fail(s->u, "", "archive_limit",
                    "more than %llu times as much comes out of it as goes in",
                    (unsigned long long)m->ratio);
    return 0;
}

void input_back(input *s, const void *p, size_t n)
{
    s->again = p;
    s->again_len = n;
}

int input_sum(input *s, char hex[65])
{
    const void *p;
    size_t n;
    do /* what comes after the mark that ends a tar counts, too */
        if (input_read(s, &p, &n) < 0)
            return -1;
    while (n);
    cay__sha256_end(&s->sum, hex);
    return 0;
}
