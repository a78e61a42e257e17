/* SPDX-License-Identifier: Apache-2.0 */
#include "marks.h"

void cay__marks_add(cay__marks *m, uint64_t oldest, uint64_t at, uint64_t ms)
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

uint32_t cay__marks_find(const cay__marks *m, uint64_t at, uint64_t *until)
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
