/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"
#include <base/base.h>

enum { HALF = CAY__KEEP_BYTES / 2 };

/* The first and the last half stay. */
static void keep_halves(cay__printed *p)
{
    size_t gone = p->b.len - 2 * HALF;
    memmove(p->b.data + HALF, p->b.data + p->b.len - HALF, HALF + 1);
    p->b.len -= gone;
    p->dropped += gone;
}

void cay__printed_add(cay__printed *p, const char *bytes, size_t n)
{
    while (n) {
        size_t k = CAY_MIN(n, (size_t)HALF);
        cay__buf_add(&p->b, bytes, k);
        bytes += k, n -= k;
        if (p->b.len > 2 * CAY__KEEP_BYTES)
            keep_halves(p);
    }
}

void cay__buf_sound(cay__buf *out, const char *s, size_t n)
{
    for (size_t i = 0, from = 0; i <= n;) {
        size_t k = 0;
        if (i < n && s[i])
            k = cay__utf8_len(s + i, n - i);
        if (k) {
            i += k;
            continue;
        }
        cay__buf_add(out, s + from, i - from);
        if (i < n)
            cay__buf_str(out, "\xef\xbf\xbd");
        from = ++i;
    }
}

void cay__printed_text(cay__printed *p, cay__buf *out)
{
    if (p->b.len > 2 * HALF)
        keep_halves(p);
    size_t head = HALF;
    if (!p->dropped)
        head = p->b.len;
    cay__buf_sound(out, CAY_OR(p->b.data, ""), head);
    if (p->dropped) {
        cay__buf_fmt(out, "\n[%llu bytes in the middle were dropped]\n",
                     (unsigned long long)p->dropped);
        cay__buf_sound(out, p->b.data + head, p->b.len - head);
    }
    cay__buf_str(out, "");
}

/* The most of the first `want` bytes that does not cut a character. */
static size_t head_of(const char *s, size_t len, size_t want)
{
    want = CAY_MIN(want, len);
    while (want && want < len && (s[want] & 0xc0) == 0x80)
        want--;
    return want;
}

/* Where the last `want` bytes begin, not inside a character. */
static size_t tail_of(const char *s, size_t len, size_t want)
{
    size_t at = len - CAY_MIN(want, len);
    while (at < len && (s[at] & 0xc0) == 0x80)
        at++;
    return at;
}

static uint64_t lines_in(const char *s, size_t len)
{
    uint64_t n = len > 0;
    for (size_t i = 0; i + 1 < len; i++)
        n += s[i] == '\n';
    return n;
}

void cay__truncate(const char *text, size_t len, uint64_t max_tokens, cay__buf *out,
                   uint64_t *count)
{
    *count = 0;
    if (!max_tokens || max_tokens > SIZE_MAX / 4 || len <= max_tokens * 4) {
        cay__buf_add(out, text, len);
        return;
    }
    size_t budget = (size_t)max_tokens * 4, room;
    char header[64], marker[64];
    *count = (len + 3) / 4;
    size_t h = (size_t)CAY_FORMAT(header, "Total output lines: %llu\n\n",
                                  (unsigned long long)lines_in(text, len));
    /* As long as it can get: what is really left out has no more digits than the whole. */
    size_t m = (size_t)CAY_FORMAT(marker, "…%llu tokens truncated…", (unsigned long long)*count);
    if (m > budget) {
        cay__buf_add(out, marker, head_of(marker, m, budget));
        return;
    }
    if (h + m <= budget)
        cay__buf_add(out, header, h);
    room = budget - m - (h + m <= budget ? h : 0);
    size_t first = head_of(text, len, room / 2), last = tail_of(text, len, room - room / 2);
    cay__buf_add(out, text, first);
    cay__buf_fmt(out, "…%llu tokens truncated…", (unsigned long long)((last - first + 3) / 4));
    cay__buf_add(out, text + last, len - last);
}

void cay__print_command_output(const cay__command_output *t, cay__buf *out)
{
    CAY_AUTOBUF body = CAY__BUF(8 * CAY__KEEP_BYTES);
    uint64_t count;
    uint32_t chunk;
    cay__random(&chunk, sizeof chunk);
    cay__truncate(t->text, t->len, t->max_tokens, &body, &count);
    cay__buf_fmt(out, "Chunk ID: %06x\nWall time: %.4f seconds\n", chunk & 0xffffff, t->seconds);
    if (t->ended)
        cay__buf_fmt(out, "Process exited with code %d\n", t->code);
    else
        cay__buf_fmt(out, "Process running with session ID %d\n", t->session);
    if (count)
        cay__buf_fmt(out, "Original token count: %llu\n", (unsigned long long)count);
    cay__buf_str(out, "Output:\n");
    cay__buf_add(out, CAY_OR(body.data, ""), body.len);
}
