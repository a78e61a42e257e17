/* SPDX-License-Identifier: Apache-2.0 */
#include "md.h"
#include <base/base.h>
#include <cli/out.h>
#include <cli/pump.h>

enum { BLOCK_MOST = 64 << 10, TEXT_MOST = 8 << 20, EVERY_MS = 30 };

void md_paint_begin(md_paint *p)
{
    *p = (md_paint){ .text = CAY__BUF(TEXT_MOST) };
}

/* Columns of a line with its colours. */
static size_t count_columns(const char *s)
{
    size_t n = 0;
    while (*s) {
        size_t k = strcspn(s, "\033");
        n += md_columns(s, k);
        s += k;
        if (*s)
            s += strcspn(s, "m"), s += *s == 'm';
    }
    return n;
}

/* The terminal has another width: where it is narrower it has broken the lines anew, each by
 * itself. What is in sight of the block goes, and is painted once more. */
static void take_back(md_paint *p, uint16_t cols, uint16_t rows, cay__buf *b)
{
    size_t up = 0;
    CAY_EACH_OF(it, p->shown.line, p->shown.n)
        up += CAY_MAX((count_columns(*it) + cols - 1) / CAY_MAX(cols, (uint16_t)1), (size_t)1);
    if (up && up < rows)
        cay__buf_fmt(b, "\033[%zuA\r\033[J", up);
    p->again = up && up < rows; /* no empty line before it: that one is there still */
    md_clear(&p->shown);
}

/* Lays out what there is of the block and writes the lines that are not there yet. */
static void paint_block(md_paint *p)
{
    uint16_t cols, rows;
    md_doc now = { 0 };
    size_t same = 0;
    CAY_AUTOBUF b = CAY__BUF(TEXT_MOST * 4u);
    term_size(1, &cols, &rows);
    if (cols != p->cols)
        take_back(p, cols, rows, &b);
    p->cols = cols;
    if (p->text.len)
        md_lines(p->text.data, p->text.len, cols - (cols > 1), *out_on(1, OUT_BOLD) != 0, &now);
    while (same < now.n && same < p->shown.n && !strcmp(now.line[same], p->shown.line[same]))
        same++;
    if (p->shown.n - same >= rows) /* scrolled away */
        same = CAY_MIN(p->shown.n - rows + 1, now.n);
    if (p->shown.n > same)
        cay__buf_fmt(&b, "\033[%zuA\r\033[J", p->shown.n - same);
    if (!p->shown.n && now.n && p->before && !p->again)
        cay__buf_str(&b, "\n");
    p->again = false;
    for (size_t i = same; i < now.n; i++) {
        cay__buf_str(&b, now.line[i]);
        cay__buf_str(&b, "\n");
    }
    if (b.len)
        cay__fd_write_all(1, b.data, b.len);
    md_clear(&p->shown);
    p->shown = now;
    p->last_ms = cay__now_ms();
}

static void finish_block(md_paint *p, size_t n)
{
    CAY_AUTOFREE char *rest = cay__strdup(p->text.data + n);
    p->text.len = n;
    p->text.data[n] = 0;
    paint_block(p);
    p->before = p->before || p->shown.n;
    md_clear(&p->shown);
    cay__buf_clear(&p->text);
    cay__buf_str(&p->text, rest);
}

static void track_fence(md_paint *p, const char *line, size_t n)
{
    size_t at = 0;
    while (at < n && at < 3 && line[at] == ' ')
        at++;
    if (n - at < 3 || (strncmp(line + at, "```", 3) && strncmp(line + at, "~~~", 3)))
        return;
    if (!*p->fence)
        memcpy(p->fence, line + at, 3);
    else if (!strncmp(line + at, p->fence, 3))
        *p->fence = 0;
}

/* A block is over where an empty line is followed by one that is not indented, outside of code.
 * Returns its length, or 0. */
static size_t block_end(md_paint *p)
{
    const char *s = p->text.data;
    size_t at = 0;
    bool empty = false;
    *p->fence = 0;
    while (s && at < p->text.len) {
        const char *nl = memchr(s + at, '\n', p->text.len - at);
        if (empty && !*p->fence && s[at] != ' ' && s[at] != '\t' && s[at] != '\n' && s[at] != '\r')
            return at;
        if (!nl)
            break;
        size_t n = (size_t)(nl - (s + at));
        track_fence(p, s + at, n);
        empty = at && (!n || strspn(s + at, " \t\r") >= n);
        at += n + 1;
    }
    return 0;
}

/* A block without end is cut at a line; code goes on as code. */
static void cut_long(md_paint *p)
{
    const char *nl = NULL;
    if (p->text.data)
        nl = memrchr(p->text.data, 10, p->text.len);
    bool code = *p->fence;
    char again[8] = "";
    if (code)
        CAY_FORMAT(again, "%s\n", p->fence);
    finish_block(p, nl ? (size_t)(nl - p->text.data) + 1 : p->text.len);
    if (!code)
        return;
    CAY_AUTOFREE char *rest = cay__strdup(p->text.data);
    cay__buf_clear(&p->text);
    cay__buf_str(&p->text, again);
    cay__buf_str(&p->text, rest);
    p->before = false; /* no empty line in the middle of it */
}

void md_paint_add(md_paint *p, const char *s, size_t n)
{
    while (n) { /* in parts, so that one piece of a hostile size is no block of that size */
        size_t k = CAY_MIN(n, (size_t)BLOCK_MOST / 4), end;
        cay__buf_add(&p->text, s, k);
        while ((end = block_end(p)))
            finish_block(p, end);
        if (p->text.len > BLOCK_MOST)
            cut_long(p);
        s += k;
        n -= k;
    }
    if (p->text.len && cay__now_ms() - p->last_ms >= EVERY_MS)
        paint_block(p);
}

void md_paint_end(md_paint *p)
{
    if (p->text.len)
        finish_block(p, p->text.len);
    cay__buf_clear(&p->text);
    md_clear(&p->shown);
    md_paint_begin(p);
}
