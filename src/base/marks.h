/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/marks.h - when the bytes of a stream came: a table that grows coarser instead of longer.
 *
 * A new mark is made when the last one is long enough ago, ten milliseconds at first. When the
 * table is full, marks of bytes that are no longer kept go; without such every second one goes, and
 * from then on marks are twice as far apart. It may lie in memory that somebody else writes, too:
 * whatever stands there, nothing outside of it is touched.
 */
#pragma once
#include "base.h"

enum { CAY__MARKS = 250, CAY__MARKS_APART_MS = 10 }; /* with the head of a ring they fit a page */

typedef struct cay__mark {
    uint64_t at; /* the first byte that came then */
    uint64_t ms; /* after the beginning */
} cay__mark;

typedef struct cay__marks {
    uint32_t n, coarse; /* coarse: how often every second one went */
    cay__mark v[CAY__MARKS];
} cay__marks;
#define CAY__MARKS_GET(x)                                                                          \
    __atomic_load_n(&(x), __ATOMIC_RELAXED) /* one load: what was judged is what is used */
_Static_assert(sizeof(cay__marks) + 64 <= 4096, "with the head of a ring they fit a page");

/* Byte `at` came `ms` after the beginning; those before `oldest` are no longer kept. */
static inline void cay__marks_add(cay__marks *m, uint64_t oldest, uint64_t at, uint64_t ms)
{
    uint32_t n = CAY__MARKS_GET(m->n) % (CAY__MARKS + 1u), gone = 0;
    if (n && ms - m->v[n - 1].ms <
                 (uint64_t)CAY__MARKS_APART_MS
                     << (CAY__MARKS_GET(m->coarse) & 31)) /* a clock that went back begins anew */
        return;
    if (n == CAY__MARKS) {
        while (gone + 2 < n && m->v[gone + 1].at <= oldest)
            gone++;
        if (gone)
            n = n - gone;
        else
            n = n / 2;
        for (uint32_t i = 0; i < n; i++)
            m->v[i] = m->v[gone ? i + gone : 2 * i];
        m->coarse += !gone;
    }
    m->v[n] = (cay__mark){ at, ms };
    m->n = n + 1;
}

/* When byte `at` came, and one; 0: not known. *until: the first byte after it that came at another
 * time, or UINT64_MAX. */
static inline uint32_t cay__marks_find(const cay__marks *m, uint64_t at, uint64_t *until)
{
    uint32_t n = CAY__MARKS_GET(m->n) % (CAY__MARKS + 1u);
    *until = UINT64_MAX;
    for (uint64_t next; n && (next = CAY__MARKS_GET(m->v[n - 1].at)) > at; n--)
        *until = next;
    uint64_t ms = 0;
    if (n)
        ms = CAY__MARKS_GET(m->v[n - 1].ms) + 1;
    return (uint32_t)CAY_MIN(ms, UINT32_MAX);
}
