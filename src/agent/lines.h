/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/lines.h - a text as lines that point into it.
 */
#pragma once
#include <base/base.h>

typedef struct cay__line {
    const char *p;
    size_t n; /* without LF, and without CR before it */
} cay__line;

typedef struct cay__lines {
    cay__line *v;
    size_t n, cap;
} cay__lines;

void cay__lines_add(cay__lines *l, const char *p, size_t n);
/* As split by "\n": a text that ends with one has an empty last line. */
void cay__lines_split(cay__lines *l, const char *text, size_t len);
static inline void cay__lines_clear(cay__lines *l)
{
    free(l->v);
}
#define CAY__AUTOLINES __attribute__((cleanup(cay__lines_clear))) cay__lines

static inline bool cay__line_is(cay__line l, const char *s)
{
    return l.n == strlen(s) && !memcmp(l.p, s, l.n);
}
static inline bool cay__line_starts(cay__line l, const char *s)
{
    size_t n = strlen(s);
    return l.n >= n && !memcmp(l.p, s, n);
}
