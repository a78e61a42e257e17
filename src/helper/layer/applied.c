/* SPDX-License-Identifier: Apache-2.0 */
#include "applied.h"

#define MARKS_MAX (8u << 20)

typedef struct applied_mark {
    uint64_t dev, ino, sec, nsec;
} applied_mark;

static applied_mark mark_of(const struct stat *st)
{
    return (applied_mark){ st->st_dev, st->st_ino, (uint64_t)st->st_ctim.tv_sec,
                           (uint64_t)st->st_ctim.tv_nsec };
}

static applied_mark *find_slot(applied_mark *v, size_t cap, const applied_mark *m)
{
    size_t i = (size_t)((m->ino * 0x9e3779b97f4a7c15u) ^ m->nsec ^ (m->sec << 20)) & (cap - 1);
    while (v[i].ino && memcmp(&v[i], m, sizeof *m))
        i = (i + 1) & (cap - 1);
    return &v[i];
}

static void insert_mark(applied *a, const applied_mark *m)
{
    if (2 * (a->n + 1) > a->cap) {
        size_t cap = 256;
        if (a->cap)
            cap = 2 * a->cap;
        applied_mark *v = cay__alloc(cap * sizeof *v);
        CAY_EACH_OF(it, a->v, a->cap)
            if (it->ino)
                *find_slot(v, cap, it) = *it;
        free(a->v);
        a->v = v;
        a->cap = cap;
    }
    applied_mark *s = find_slot(a->v, a->cap, m);
    a->n += !s->ino;
    *s = *m;
}

int applied_open(applied *a, int dir, cay_err *err)
{
    applied_mark m;
    *a = (applied){ .fd = openat(dir, "applied",
                                 O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600) };
    if (a->fd < 0)
        return cay_fail_sys(err, "open the record of earlier applies");
    for (off_t at = 0; a->n < MARKS_MAX && pread(a->fd, &m, sizeof m, at) == sizeof m;
         at += (off_t)sizeof m)
        if (m.ino)
            insert_mark(a, &m);
    return 0;
}

void applied_close(applied *a)
{
    cay__close_fd(&a->fd);
    free(a->v);
}

bool applied_has(const applied *a, const struct stat *st)
{
    applied_mark m = mark_of(st);
    return a->cap && find_slot(a->v, a->cap, &m)->ino;
}

void applied_add(applied *a, const struct stat *st)
{
    applied_mark m = mark_of(st);
    insert_mark(a, &m);
    (void)!cay__fd_write_all(a->fd, &m, sizeof m);
}
