/* SPDX-License-Identifier: Apache-2.0 */
#include "chunk.h"
#include <base/base.h>
#include <base/mutant.h>

enum { SIZE = 0, EXT, SIZE_LF, DATA, DATA_CR, DATA_LF, LINE, TRAILER, TRAILER_LF, LAST_LF };

static int fail_chunk(cay_err *err, const char *what)
{
    return cay_fail_why(err, CAY_EINVAL, "http_chunk", "the body is not in proper chunks: %s",
                        what);
}

static int size_digit(cay__chunk *c, char ch, cay_err *err)
{
    int v = cay__hex_digit(ch);
    if (v < 0) {
        if (!c->digits)
            return fail_chunk(err, "a size without digits");
        if (ch == '\r')
            c->state = SIZE_LF;
        else if (ch == ';')
            c->state = EXT;
        else
            c->state = -1;
        if (c->state < 0)
            return fail_chunk(err, "a size that is no number");
        return 0;
    }
    if (++c->digits > 16 || c->left >> 59)
        return fail_chunk(err, "a size with too many digits");
    c->left = c->left << 4 | (uint64_t)v;
    return 0;
}

/* A byte of an extension or a trailer: counted and dropped. */
static int skip_byte(cay__chunk *c, char ch, unsigned max, cay_err *err)
{
    if (++c->extra > max)
        return fail_chunk(err, "an extension or trailers without end");
    if (((unsigned char)ch < 0x20 && ch != '\t') || ch == 0x7f)
        return fail_chunk(err, "a control character");
    return 0;
}

static int expect_byte(cay__chunk *c, char ch, char which, int next, cay_err *err)
{
    c->state = next;
    if (ch == which)
        return 0;
    return fail_chunk(err, "a line or a chunk ends in the wrong place");
}

static int parse_byte(cay__chunk *c, char ch, cay_err *err)
{
    switch (c->state) {
    case SIZE: return size_digit(c, ch, err);
    case EXT:
        if (ch == '\r')
            return expect_byte(c, ch, '\r', SIZE_LF, err);
        return skip_byte(c, ch, CAY__CHUNK_EXT, err);
    case SIZE_LF:
        c->extra = c->digits = 0;
        return expect_byte(c, ch, '\n', c->left ? DATA : LINE, err);
    case DATA_CR: return expect_byte(c, ch, '\r', DATA_LF, err);
    case DATA_LF: return expect_byte(c, ch, '\n', SIZE, err);
    case LINE: /* after the last chunk: a trailer, or the end */
        if (ch == '\r')
            return expect_byte(c, ch, '\r', LAST_LF, err);
        if (ch == ' ' || ch == ':')
            return fail_chunk(err, "a trailer without a name");
        c->state = TRAILER;
        return skip_byte(c, ch, CAY__CHUNK_TRAILER, err);
    case TRAILER:
        if (ch == '\r')
            return expect_byte(c, ch, '\r', TRAILER_LF, err);
        return skip_byte(c, ch, CAY__CHUNK_TRAILER, err);
    case TRAILER_LF: return expect_byte(c, ch, '\n', LINE, err);
    case LAST_LF: c->done = ch == '\n'; return expect_byte(c, ch, '\n', SIZE, err);
    }
    return fail_chunk(err, "it went wrong before");
}

int cay__chunk_read(cay__chunk *c, const char *in, size_t n, size_t most, size_t *used,
                    const char **data, size_t *len, cay_err *err)
{
    size_t i = 0;
    *len = 0;
    *used = 0;
    while (i < n && !c->done) {
        if (c->state == DATA) {
            *data = in + i;
            *len = (size_t)CAY_MIN(
                (uint64_t)(CAY__MUTANT("fuzz-chunk") ? most : CAY_MIN(n - i, most)), c->left);
            c->left -= *len;
            *used = i + *len;
            if (!c->left)
                c->state = DATA_CR;
            return 0;
        }
        int rc = parse_byte(c, in[i++], err);
        if (rc < 0) {
            c->state = -1;
            return rc;
        }
    }
    *used = i;
    return 0;
}
