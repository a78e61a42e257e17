/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"
#include <base/base.h>

enum { LOOK = 8000, EFFORT = 1024 };

typedef struct line {
    const char *p;
    size_t n; /* with its newline */
    uint32_t hash;
    bool touched; /* deleted, or inserted */
} line;

typedef struct text {
    line *v;
    size_t n;
} text;

typedef struct region {
    size_t a0, a1, b0, b1;
} region;

typedef struct myers {
    text a, b;
    long *fwd, *back; /* furthest points by diagonal, with room for the negative ones */
    region *todo;
    size_t n;
} myers;

bool lines_binary(const char *p, size_t n)
{
    return n && memchr(p, 0, CAY_MIN(n, (size_t)LOOK));
}

static text split_lines(const char *p, size_t n)
{
    text t = { 0 };
    size_t count = 0;
    CAY_EACH_OF(it, p, n)
        count += *it == '\n';
    t.v = cay__alloc((count + 1) * sizeof *t.v);
    for (size_t at = 0; at < n;) {
        const char *nl = memchr(p + at, '\n', n - at);
        size_t len;
        if (nl)
            len = (size_t)(nl - p) + 1 - at;
        else
            len = n - at;
        t.v[t.n++] = (line){ p + at, len, cay__hash(p + at, len), false };
        at += len;
    }
    return t;
}

static bool is_same_line(const line *a, const line *b)
{
    return a->hash == b->hash && a->n == b->n && !memcmp(a->p, b->p, a->n);
}

/* One more step of either search: the furthest x on diagonal k, after at most one more difference.
 */
static long step_diagonal(const long *v, long k, long n, long m)
{
    long down = v[k + 1], right = v[k - 1] < 0 ? -1 : v[k - 1] + 1, x = -1;
    if (down >= 0 && down - k <= m)
        x = down;
    if (right >= 0 && right <= n && right - k <= m)
        x = CAY_MAX(x, right);
    return x;
}

static bool find_middle(myers *s, const region *o, size_t *ax, size_t *by)
{
    const line *a = s->a.v + o->a0, *b = s->b.v + o->b0;
    long n = (long)(o->a1 - o->a0), m = (long)(o->b1 - o->b0), delta = n - m,
         most = CAY_MIN((n + m + 1) / 2, (long)EFFORT);
    long *f = s->fwd + EFFORT + 2, *r = s->back + EFFORT + 2;
    for (long k = -most - 1; k <= most + 1; k++)
        f[k] = r[k] = -1;
    for (long d = 0; d <= most; d++) {
        for (long k = -d; k <= d; k += 2) {
            long x = 0;
            if (d)
                x = step_diagonal(f, k, n, m);
            while (x >= 0 && x < n && x - k < m && is_same_line(&a[x], &b[x - k]))
                x++;
            f[k] = x;
            long other = delta - k;
            if (x >= 0 && (delta & 1) && other >= 1 - d && other <= d - 1 && r[other] >= 0 &&
                x + r[other] >= n) {
                *ax = o->a0 + (size_t)x;
                *by = o->b0 + (size_t)(x - k);
                return true;
            }
        }
        for (long k = -d; k <= d; k += 2) {
            long x = 0;
            if (d)
                x = step_diagonal(r, k, n, m);
            while (x >= 0 && x < n && x - k < m && is_same_line(&a[n - 1 - x], &b[m - 1 - (x - k)]))
                x++;
            r[k] = x;
            long other = delta - k;
            if (x >= 0 && !(delta & 1) && other >= -d && other <= d && f[other] >= 0 &&
                x + f[other] >= n) {
                *ax = o->a0 + (size_t)(n - x);
                *by = o->b0 + (size_t)(m - (x - k));
                return true;
            }
        }
    }
    return false;
}

static void push_box(myers *s, region o)
{
    CAY_GROW(s->todo, s->n);
    s->todo[s->n++] = o;
}

static void mark_changes(myers *s)
{
    while (s->n) {
        region o = s->todo[--s->n];
        size_t x, y;
        while (o.a0 < o.a1 && o.b0 < o.b1 && is_same_line(&s->a.v[o.a0], &s->b.v[o.b0]))
            o.a0++, o.b0++;
        while (o.a0 < o.a1 && o.b0 < o.b1 && is_same_line(&s->a.v[o.a1 - 1], &s->b.v[o.b1 - 1]))
            o.a1--, o.b1--;
        bool split_it = o.a0 < o.a1 && o.b0 < o.b1 && find_middle(s, &o, &x, &y);
        if (split_it && !(x == o.a0 && y == o.b0) && !(x == o.a1 && y == o.b1)) {
            push_box(s, (region){ o.a0, x, o.b0, y });
            push_box(s, (region){ x, o.a1, y, o.b1 });
            continue;
        }
        for (size_t i = o.a0; i < o.a1; i++)
            s->a.v[i].touched = true;
        for (size_t i = o.b0; i < o.b1; i++)
            s->b.v[i].touched = true;
    }
}

static void write_line(cay__buf *out, char mark, const line *l)
{
    cay__buf_add(out, &mark, 1);
    cay__buf_add(out, l->p, l->n);
    if (l->p[l->n - 1] != '\n')
        cay__buf_str(out, "\n\\ No newline at end of file\n");
}

static void write_range(cay__buf *out, char mark, size_t at, size_t n)
{
    cay__buf_fmt(out, "%c%zu", mark, n ? at + 1 : at);
    if (n != 1)
        cay__buf_fmt(out, ",%zu", n);
}

/* Lines a0…a1 and b0…b1, which begin and end with what is the same. */
static void write_hunk(const myers *s, size_t a0, size_t a1, size_t b0, size_t b1, cay__buf *out)
{
    cay__buf_str(out, "@@ ");
    write_range(out, '-', a0, a1 - a0);
    cay__buf_str(out, " ");
    write_range(out, '+', b0, b1 - b0);
    cay__buf_str(out, " @@\n");
    while (a0 < a1 || b0 < b1) {
        if (a0 < a1 && s->a.v[a0].touched)
            write_line(out, '-', &s->a.v[a0++]);
        else if (b0 < b1 && s->b.v[b0].touched)
            write_line(out, '+', &s->b.v[b0++]);
        else
            write_line(out, ' ', &s->a.v[a0++]), b0++;
    }
}

static void write_hunks(const myers *s, size_t context, cay__buf *out)
{
    size_t i = 0, j = 0;
    for (;;) {
        while (i < s->a.n && j < s->b.n && !s->a.v[i].touched && !s->b.v[j].touched)
            i++, j++;
        if (i == s->a.n && j == s->b.n)
            return;
        size_t lead = CAY_MIN(context, i), a0 = i - lead, b0 = j - lead, quiet = 0;
        /* On until more than two contexts of the same follow. */
        while (i < s->a.n || j < s->b.n) {
            bool ta = i < s->a.n && s->a.v[i].touched, tb = j < s->b.n && s->b.v[j].touched;
            if (!ta && !tb && ++quiet > 2 * context)
                break;
            if (ta || tb)
                quiet = 0;
            i += ta || !tb;
            j += tb || !ta;
        }
        size_t back;
        if (quiet > 2 * context)
            back = quiet - 1 - context;
        else if (quiet > context)
            back = quiet - context;
        else
            back = 0;
        write_hunk(s, a0, i - back, b0, j - back, out);
    }
}

void lines_diff(const char *a, size_t an, const char *b, size_t bn, unsigned context, cay__buf *out)
{
    myers s = { .a = split_lines(a, an), .b = split_lines(b, bn) };
    s.fwd = cay__alloc((2 * EFFORT + 8) * sizeof *s.fwd);
    s.back = cay__alloc((2 * EFFORT + 8) * sizeof *s.back);
    push_box(&s, (region){ 0, s.a.n, 0, s.b.n });
    mark_changes(&s);
    write_hunks(&s, context, out);
    free(s.a.v);
    free(s.b.v);
    free(s.fwd);
    free(s.back);
    free(s.todo);
}
