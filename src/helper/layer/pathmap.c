/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmap.h"
#include <base/base.h>

struct pathmap_slot {
    const char *path; /* NULL: free */
    size_t len, number;
};

/* The names are a tenant's, who would choose many of one hash if its beginning were known. */
static size_t hash_path(const pathmap *m, const char *s, size_t len)
{
    uint64_t h = m->seed;
    CAY_EACH_OF(it, s, len)
        h = (h ^ (unsigned char)*it) * 0x100000001b3u;
    return (size_t)(h ^ h >> 29);
}

static struct pathmap_slot *find_slot(const pathmap *m, const char *path, size_t len)
{
    for (size_t i = hash_path(m, path, len);; i++) {
        struct pathmap_slot *s = &m->v[i & (m->cap - 1)];
        if (!s->path || (s->len == len && !memcmp(s->path, path, len)))
            return s;
    }
}

static void grow_table(pathmap *m)
{
    pathmap old = *m;
    if (!old.cap)
        cay__random(&m->seed, sizeof m->seed);
    if (old.cap)
        m->cap = 2 * old.cap;
    else
        m->cap = 64;
    m->v = cay__alloc(m->cap * sizeof *m->v); /* zeroed */
    CAY_EACH_OF(it, old.v, old.cap)
        if (it->path)
            *find_slot(m, it->path, it->len) = *it;
    free(old.v);
}

void pathmap_put(pathmap *m, const char *path, size_t number)
{
    size_t len = strlen(path);
    if (2 * (m->n + 1) > m->cap)
        grow_table(m);
    struct pathmap_slot *s = find_slot(m, path, len);
    if (s->path)
        return;
    *s = (struct pathmap_slot){ path, len, number };
    m->n++;
}

size_t pathmap_get(const pathmap *m, const char *path, size_t len)
{
    const struct pathmap_slot *s = NULL;
    if (m->n)
        s = find_slot(m, path, len);
    if (s && s->path)
        return s->number;
    return PATHMAP_NONE;
}

size_t pathmap_above(const pathmap *m, const char *path)
{
    for (size_t n = strlen(path); m->n && n > 0; n--) {
        if (path[n - 1] != '/')
            continue;
        size_t hit = pathmap_get(m, path, n - 1);
        if (hit != PATHMAP_NONE)
            return hit;
    }
    return PATHMAP_NONE;
}

void pathmap_clear(pathmap *m)
{
    free(m->v);
    *m = (pathmap){ 0 };
}
