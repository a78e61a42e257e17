/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/patch.h - patches from the inside.
 */
#pragma once
#include <cay/patch.h>
#include <base/base.h>

/* Comparisons of lines, weighted, that one patch may cost: about a second. */
#define CAY__PATCH_STEPS 200000000ull

/* As cay_patch_update(); *left is what is left of the patch's steps. */
int cay__patch_update(const char *text, size_t len, const char *diff, uint64_t *left, char **out,
                      size_t *out_len, unsigned *fuzz, cay_err *err);
/* Where path leads below root, links looked through: CAY_EINVAL "apply_patch_invalid_path" when it
 * leads out. buf holds 4096 bytes. */
int cay__patch_resolve(cay_sandbox *sb, const cay_call *call, const char *root, const char *cwd,
                       const char *path, char *buf, cay_err *err);

/* The whole of a file, or its first `length` bytes, 0: all; shown: how it is called. */
int cay__slurp(cay_sandbox *sb, const cay_call *call, const char *path, const cay_read *spec,
               const char *shown, cay__buf *out, cay_err *err);

/* A text as lines that point into it. */

typedef struct cay__line {
    const char *p;
    size_t n; /* without LF, and without CR before it */
} cay__line;

typedef struct cay__lines {
    cay__line *v;
    size_t n;
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
