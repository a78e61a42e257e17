/* SPDX-License-Identifier: Apache-2.0 */
/* One file's text after a diff whose places are told by context. */
#include "patch.h"
#include <cay/patch.h>

#define END_OF_FILE "*** End of File"

/* What replaces `ndel` lines at `at` of the file. */
typedef struct chunk {
    size_t at, ndel, ins, nins; /* ins: where its lines begin in work.ins */
} chunk;

/* A part of the diff between two anchors. */
typedef struct section {
    cay__lines context; /* kept and deleted lines: what the file must hold */
    size_t chunks;      /* first of its own in work.chunks, with `at` relative to the context */
    bool eof;
} section;

typedef struct work {
    cay__lines file, diff, ins;
    chunk *chunks;
    size_t n, at; /* at: line of the diff */
    unsigned fuzz;
    uint64_t *left; /* steps of comparing */
} work;

static int fail_diff(const work *w, cay_err *err, const char *what, size_t line)
{
    cay__line l;
    if (line < w->diff.n)
        l = w->diff.v[line];
    else
        l = (cay__line){ "", 0 };
    return cay_fail_why(err, CAY_EINVAL, "apply_patch_invalid_diff",
                        "%s (line %zu of the change): %.*s", what, line + 1,
                        (int)CAY_MIN(l.n, (size_t)120), l.p);
}

static void add_chunk(work *w, chunk c)
{
    CAY_GROW(w->chunks, w->n);
    w->chunks[w->n++] = c;
}

static cay__line trim_end(cay__line l)
{
    while (l.n && strchr(" \t\r\v\f", l.p[l.n - 1]) && l.p[l.n - 1])
        l.n--;
    return l;
}

static cay__line trim_both(cay__line l)
{
    while (l.n && l.p[0] && strchr(" \t\r\v\f", l.p[0]))
        l.p++, l.n--;
    return trim_end(l);
}

/* Nothing is the same any more once its steps are used up. A step is about what it takes to compare
 * two short lines as they are. */
static bool is_same_line(const work *w, cay__line a, cay__line b, unsigned fuzz)
{
    size_t whole = a.n + b.n;
    if (fuzz == 1)
        a = trim_end(a), b = trim_end(b);
    else if (fuzz)
        a = trim_both(a), b = trim_both(b);
    uint64_t cost = 1 + 2 * (whole - a.n - b.n);
    if (fuzz)
        cost += 8;
    if (a.n == b.n)
        cost += a.n / 32;
    *w->left -= CAY_MIN(cost, *w->left);
    return *w->left && a.n == b.n && !memcmp(a.p, b.p, a.n);
}

static const unsigned fuzzes[] = { 0, 1, 100 };

/* Where in the file the context stands, from `start` on; SIZE_MAX: nowhere. */
static size_t find_from(const work *w, const cay__lines *file, const cay__lines *context,
                        size_t start, unsigned *fuzz)
{
    if (!context->n) {
        *fuzz = 0;
        return start;
    }
    CAY_EACH(fuzze, fuzzes)
        for (size_t i = start; i + context->n <= file->n && *w->left; i++) {
            size_t k = 0;
            while (k < context->n && is_same_line(w, file->v[i + k], context->v[k], *fuzze))
                k++;
            if (k == context->n) {
                *fuzz = *fuzze;
                return i;
            }
        }
    return SIZE_MAX;
}

/* At the end of the file first; the empty line behind a last newline is no line that a patch would
 * name. */
static size_t find_at_end(const work *w, const cay__lines *context, size_t start, unsigned *fuzz)
{
    const cay__lines *file = &w->file;
    size_t n = file->n, at;
    for (size_t skip = 0; skip < 2 && skip <= n; skip++) {
        if (skip && file->v[n - 1].n)
            break;
        cay__lines upto = { .v = file->v, .n = n - skip };
        if (upto.n >= context->n && upto.n - context->n >= start &&
            (at = find_from(w, &upto, context, upto.n - context->n, fuzz)) != SIZE_MAX)
            return at;
    }
    at = find_from(w, file, context, start, fuzz);
    *fuzz += 10000;
    return at;
}

/* A line that names a place. The first may stand before the cursor already; the others are looked
 * for ahead. */
static bool find_anchor(work *w, cay__line text, bool first, size_t *cursor)
{
    for (size_t i = 0; first && i < *cursor && *w->left; i++)
        if (is_same_line(w, w->file.v[i], text, 0))
            return true;
    for (unsigned f = 0; f < 2; f++)
        for (size_t i = *cursor; i < w->file.n && *w->left; i++)
            if (is_same_line(w, w->file.v[i], text, f ? 100 : 0)) {
                *cursor = i + 1;
                w->fuzz += f;
                return true;
            }
    return false;
}

static int take_anchors(work *w, size_t *cursor, bool begun, cay_err *err)
{
    size_t from = w->at, named = 0;
    while (w->at < w->diff.n &&
           (cay__line_is(w->diff.v[w->at], "@@") || cay__line_starts(w->diff.v[w->at], "@@ ")))
        w->at++;
    if (w->at == from && begun)
        return fail_diff(w, err, "Invalid Line: a further place needs an @@ line before it", from);
    for (size_t i = from; i < w->at; i++) {
        cay__line l = w->diff.v[i];
        cay__line text = { l.p + CAY_MIN(l.n, (size_t)3), l.n - CAY_MIN(l.n, (size_t)3) };
        if (!trim_both(text).n)
            continue;
        if (!find_anchor(w, text, named == 0, cursor) && w->at - from > 1)
            return fail_diff(w, err, "Invalid Anchor: the file has no such line here", i);
        named++;
    }
    return 0;
}

static void end_chunk(work *w, chunk *c, const section *s)
{
    c->nins = w->ins.n - c->ins;
    if (c->ndel || c->nins) {
        c->at = s->context.n - c->ndel;
        add_chunk(w, *c);
    }
    *c = (chunk){ .ins = w->ins.n };
}

static bool ends_section(cay__line l)
{
    return cay__line_starts(l, "@@") || cay__line_is(l, END_OF_FILE);
}

static int take_section(work *w, section *s, cay_err *err)
{
    size_t from = w->at;
    chunk c = { .ins = w->ins.n };
    s->chunks = w->n;
    for (; w->at < w->diff.n && !ends_section(w->diff.v[w->at]); w->at++) {
        cay__line l = w->diff.v[w->at];
        char sign = ' ';
        if (l.n)
            sign = l.p[0];
        cay__line rest = { l.p + !!l.n, l.n - !!l.n };
        if (sign == ' ' && (c.ndel || w->ins.n > c.ins))
            end_chunk(w, &c, s);
        if (sign == '-' && w->ins.n > c.ins && c.ndel == 0)
            end_chunk(w, &c,
                      s); /* lines put in before those taken out: their place is before them */
        if (sign == '+')
            cay__lines_add(&w->ins, rest.p, rest.n);
        else if (sign == '-' || sign == ' ')
            cay__lines_add(&s->context, rest.p, rest.n);
        else
            return fail_diff(w, err, "Invalid Line: want + - or a blank in front", w->at);
        c.ndel += sign == '-';
    }
    end_chunk(w, &c, s);
    if (w->at < w->diff.n && cay__line_is(w->diff.v[w->at], END_OF_FILE)) {
        s->eof = true;
        w->at++;
    } else if (w->at == from) {
        return fail_diff(w, err, "Nothing in this section", from);
    }
    return 0;
}

static int no_context(const section *s, size_t cursor, cay_err *err)
{
    char text[160] = "";
    size_t n = 0;
    for (size_t i = 0; i < s->context.n && n < sizeof text - 2; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", CAY_TEXT_IF(i, "\\n"),
                              (int)CAY_MIN(s->context.v[i].n, (size_t)80), s->context.v[i].p);
    return cay_fail_why(err, CAY_EINVAL, "apply_patch_invalid_diff",
                        "Invalid %sContext %zu: the file has no such lines: %s",
                        CAY_TEXT_IF(s->eof, "EOF "), cursor, text);
}

static int place_section(work *w, size_t *cursor, bool begun, cay_err *err)
{
    section s = { 0 };
    unsigned fuzz = 0;
    size_t at = SIZE_MAX;
    int rc = take_anchors(w, cursor, begun, err);
    if (rc == 0)
        rc = take_section(w, &s, err);
    if (rc == 0) {
        if (s.eof)
            at = find_at_end(w, &s.context, *cursor, &fuzz);
        else
            at = find_from(w, &w->file, &s.context, *cursor, &fuzz);
        if (at == SIZE_MAX)
            rc = no_context(&s, *cursor, err);
    }
    for (size_t i = s.chunks; rc == 0 && i < w->n; i++)
        w->chunks[i].at += at;
    if (rc == 0) {
        *cursor = at + s.context.n;
        w->fuzz += fuzz;
    }
    cay__lines_clear(&s.context);
    return rc;
}

static int apply_chunks(const work *w, const char *nl, cay__buf *out, cay_err *err)
{
    size_t at = 0;
    bool any = false;
#define PUT(l)                                                                                     \
    do {                                                                                           \
        if (any)                                                                                   \
            cay__buf_str(out, nl);                                                                 \
        cay__buf_add(out, (l).p, (l).n);                                                           \
        any = true;                                                                                \
    } while (0)
    CAY_EACH_OF(c, w->chunks, w->n) {
        if (c->at > w->file.n || c->at < at || c->ndel > w->file.n - c->at)
            return cay_fail_why(err, CAY_EINVAL, "apply_patch_invalid_diff",
                                "changes overlap at line %zu of the file", c->at + 1);
        for (; at < c->at; at++)
            PUT(w->file.v[at]);
        for (size_t k = 0; k < c->nins; k++)
            PUT(w->ins.v[c->ins + k]);
        at += c->ndel;
    }
    for (; at < w->file.n; at++)
        PUT(w->file.v[at]);
#undef PUT
    cay__buf_add(out, "", 0);
    if (out->full)
        return cay_fail(err, CAY_ETOOBIG, "the changed file is larger than 64 MiB");
    return 0;
}

static bool has_crlf(const char *text, size_t len)
{
    for (const char *p = text; (p = memchr(p, '\n', len - (size_t)(p - text))); p++)
        if (p > text && p[-1] == '\r')
            return true;
    return false;
}

int cay__patch_update(const char *text, size_t len, const char *diff, uint64_t *left, char **out,
                      size_t *out_len, unsigned *fuzz, cay_err *err)
{
    work w = { .left = left };
    size_t cursor = 0, dlen = strlen(diff);
    bool crlf = has_crlf(text, len) || (!memchr(text, '\n', len) && has_crlf(diff, dlen)),
         begun = false;
    cay__buf b = CAY__BUF(CAY_PATCH_MAX);
    cay__lines_split(&w.file, text, len);
    cay__lines_split(&w.diff, diff, dlen);
    if (w.diff.n && !w.diff.v[w.diff.n - 1].n)
        w.diff.n--;
    int rc = 0;
    if (!w.diff.n)
        rc = fail_diff(&w, err, "Nothing in this section", 0);
    for (; rc == 0 && w.at < w.diff.n; begun = true)
        rc = place_section(&w, &cursor, begun, err);
    if (!*left)
        rc = cay_fail_why(err, CAY_EINVAL, "apply_patch_invalid_diff",
                          "the places of these changes take too long to find: give lines that are "
                          "not all alike, or smaller changes");
    if (rc == 0)
        rc = apply_chunks(&w, crlf ? "\r\n" : "\n", &b, err);
    cay__lines_clear(&w.file);
    cay__lines_clear(&w.diff);
    cay__lines_clear(&w.ins);
    free(w.chunks);
    if (rc < 0) {
        cay__buf_clear(&b);
        return rc;
    }
    if (fuzz)
        *fuzz = w.fuzz;
    *out_len = b.len;
    *out = CAY_OR(b.data, cay__strdup(""));
    return 0;
}

int cay_patch_update(const char *text, size_t len, const char *diff, char **out, size_t *out_len,
                     unsigned *fuzz, cay_err *err)
{
    uint64_t left = CAY__PATCH_STEPS;
    return cay__patch_update(text, len, diff, &left, out, out_len, fuzz, err);
}
