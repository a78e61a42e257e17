/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"
#include "base.h"
#include <stddef.h>

struct cay__piece {
    struct cay__piece *before;
    void *p; /* adopted; NULL: what was taken follows */
    max_align_t at[];
};

void *cay__arena_adopt(cay__arena *a, void *p)
{
    struct cay__piece *it = cay__alloc(sizeof *it);
    *it = (struct cay__piece){ a->last, p };
    a->last = it;
    return p;
}

void *cay__arena_take(cay__arena *a, size_t n)
{
    struct cay__piece *it = cay__alloc(sizeof *it + n);
    it->before = a->last;
    a->last = it;
    return it->at;
}

char *cay__arena_str(cay__arena *a, const char *s)
{
    size_t n = strlen(CAY_OR(s, "")) + 1;
    return memcpy(cay__arena_take(a, n), CAY_OR(s, ""), n);
}

void cay__arena_clear(cay__arena *a)
{
    for (struct cay__piece *it = a->last, *before; it; it = before) {
        before = it->before;
        free(it->p);
        free(it);
    }
    a->last = NULL;
}
