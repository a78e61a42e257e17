/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"
#include "base.h"

struct cay__piece {
    struct cay__piece *before;
    void              *p;
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
    return cay__arena_adopt(a, cay__alloc(n));
}

char *cay__arena_str(cay__arena *a, const char *s)
{
    return cay__arena_adopt(a, cay__strdup(s));
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
