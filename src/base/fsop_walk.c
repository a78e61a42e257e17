/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking a tree in order, in memory that does not depend on it. A directory's names are read in
 * sorted batches: "the smallest names after this one that fit". So coming back to a directory needs
 * nothing but the name that was entered, which is still in the path, and a walk survives names that
 * come and go meanwhile: each is seen once or not at all.
 */
#include "base.h"
#include "fsop.h"
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

enum {
    ROOM = 1 << 20,      /* address space; only what is used becomes memory */
    ARENA_LOW = 1 << 17, /* below this parents drop their batch and read again later */
    HELD = 24,           /* descriptors of the deepest levels stay open */
    DENTS = 32768,
};

struct dent {
    uint64_t ino;
    int64_t off;
    uint16_t len;
    uint8_t type;
    char name[];
};

typedef struct level {
    dev_t dev;
    ino_t ino;
    int fd;        /* -1: closed to save descriptors */
    uint32_t path; /* length of this directory's path */
    uint32_t base; /* where its batch begins in the arena */
    uint32_t at, n;
    char **names; /* d_type, then the name */
    bool more;    /* the batch was cut */
} level;

typedef struct walk {
    const cay__fs_walk *w;
    char *arena, *dents;
    uint32_t room, used; /* of the arena */
    level *levels;
    uint32_t depth, nlevels;
    char *path;
    uint32_t path_len, path_room;
    int first_errno;
    unsigned steps;
} walk;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a + 1, *(char *const *)b + 1);
}

static int by_place(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (char *const *)a, y = (uintptr_t) * (char *const *)b;
    if (x < y)
        return -1;
    return x > y;
}

/* Names grow up from lo, pointers to them down from hi. */
typedef struct batch {
    char *lo, *end, *hi;
    char **names;
    uint32_t n;
    bool cut;
    char bound[256]; /* once cut: names from here on belong to a later batch */
} batch;

/* Full: keep the smaller half, packed. */
static void batch_halve(batch *b)
{
    qsort(b->names, b->n, sizeof *b->names, by_name);
    uint32_t keep = b->n / 2;
    memcpy(b->bound, b->names[keep] + 1, strlen(b->names[keep] + 1) + 1);
    b->cut = true;
    char **to = (char **)(void *)b->hi - keep;
    memmove(to, b->names, keep * sizeof *to);
    b->names = to;
    b->n = keep;
    qsort(to, keep, sizeof *to, by_place);
    b->end = b->lo;
    CAY_EACH_OF(it, to, keep) {
        size_t len = strlen(*it + 1) + 2;
        memmove(b->end, *it, len);
        *it = b->end;
        b->end += len;
    }
}

static void batch_add(batch *b, uint8_t type, const char *name)
{
    size_t len = strlen(name) + 2;
    if (b->cut && strcmp(name, b->bound) >= 0)
        return;
    while (b->end + len + sizeof(char *) > (char *)b->names) {
        batch_halve(b);
        if (strcmp(name, b->bound) >= 0)
            return;
    }
    *b->end = (char)type;
    memcpy(b->end + 1, name, len - 1);
    *--b->names = b->end;
    b->end += len;
    b->n++;
}

static bool is_dots(const char *s)
{
    return s[0] == '.' && (!s[1] || (s[1] == '.' && !s[2]));
}

/* Reads the next batch of l: names greater than `after`. */
static int load_batch(walk *k, level *l, const char *after)
{
    uint32_t half = (k->room - l->base) / 2 & ~(uint32_t)7;
    batch b = { .lo = k->arena + l->base,
                .end = k->arena + l->base,
                .hi = k->arena + l->base + half };
    b.names = (char **)(void *)b.hi;
    if (after && lseek(l->fd, 0, SEEK_SET) < 0)
        return -1;
    for (;;) {
        long n = syscall(SYS_getdents64, l->fd, k->dents, DENTS);
        if (n < 0 && errno == EINTR)
            continue;
        CAY_TRY(n);
        if (n == 0)
            break;
        for (long at = 0; at < n;) {
            struct dent *d = (struct dent *)(void *)(k->dents + at);
            at += d->len;
            if (!is_dots(d->name) && (!after || strcmp(d->name, after) > 0))
                batch_add(&b, d->type, d->name);
        }
    }
    if (b.n)
        qsort(b.names, b.n, sizeof *b.names, by_name);
    uint32_t tail = ((uint32_t)(b.end - k->arena) + 7) & ~7u;
    l->names = (char **)(void *)(k->arena + tail);
    memmove(l->names, b.names, b.n * sizeof *b.names);
    k->used = tail + b.n * (uint32_t)sizeof *b.names;
    l->at = 0;
    l->n = b.n;
    l->more = b.cut;
    return 0;
}

static bool path_push(walk *k, const char *name)
{
    size_t n = strlen(name), need = k->path_len + n + 2;
    if (need > k->room / 4)
        return false;
    if (need > k->path_room) {
        uint32_t room = CAY_MAX((uint32_t)need, k->path_room * 2);
        char *p = realloc(k->path, room);
        if (!p)
            return false;
        k->path = p;
        k->path_room = room;
    }
    if (k->path_len)
        k->path[k->path_len++] = '/';
    memcpy(k->path + k->path_len, name, n + 1);
    k->path_len += (uint32_t)n;
    return true;
}

static void path_cut(walk *k, uint32_t len)
{
    k->path_len = len;
    k->path[len] = 0;
}

static const char *last_part(const level *l, const char *path)
{
    return path + l->path + (l->path ? 1 : 0);
}

static bool is_kernel_fs(int fd)
{
    struct statfs f;
    if (fstatfs(fd, &f) < 0)
        return true;
    switch ((unsigned long)f.f_type) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case DEVPTS_SUPER_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC: return true;
    default: return false;
    }
}

/* Opens a directory that was seen as st; whatever took its place meanwhile is not entered. */
static int open_dir(walk *k, int dir, const char *name, struct stat *st, dev_t parent)
{
    uint64_t how = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    if (k->w->flags & CAY__FS_ONE_MOUNT)
        how |= RESOLVE_NO_XDEV;
    CAY_AUTOFD fd = cay__fd_openat2(dir, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0, how);
    struct stat now;
    if (fd < 0 || fstat(fd, &now) < 0) {
        if (errno == EXDEV)
            errno = EBUSY;
        return -1;
    }
    if (now.st_dev != st->st_dev || now.st_ino != st->st_ino)
        return cay__fs_fail(ENOENT);
    if (now.st_dev != parent && is_kernel_fs(fd))
        return cay__fs_fail(ENOENT);
    return CAY_STEAL_FD(fd);
}

static int push_level(walk *k, int fd, const struct stat *st)
{
    if (k->depth == k->nlevels) {
        uint32_t n = CAY_MAX(k->nlevels * 2, 16u);
        level *p = realloc(k->levels, n * sizeof *p);
        if (!p)
            return -1;
        k->levels = p;
        k->nlevels = n;
    }
    if (k->depth && k->room - k->used < ARENA_LOW) {
        level *up = &k->levels[k->depth - 1];
        k->used = up->base;
        up->at = up->n = 0;
        up->more = true;
    }
    if (k->depth >= HELD)
        cay__close_fd(&k->levels[k->depth - HELD].fd);
    level *l = &k->levels[k->depth];
    *l = (level){ .dev = st->st_dev,
                  .ino = st->st_ino,
                  .fd = fd,
                  .path = k->path_len,
                  .base = (k->used + 7) & ~7u };
    CAY_TRY(load_batch(k, l, NULL));
    k->depth++;
    return 0;
}

/* Back to the parent; its descriptor may have been closed, and ".." may lead elsewhere by now. */
static int pop_level(walk *k)
{
    level *l = &k->levels[--k->depth];
    k->used = l->base;
    int rc = 0;
    if (k->depth && k->levels[k->depth - 1].fd < 0) {
        level *up = &k->levels[k->depth - 1];
        struct stat st;
        CAY_AUTOFD fd =
            openat(l->fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != up->dev || st.st_ino != up->ino) {
            errno = EBUSY;
            rc = -1;
        } else {
            up->fd = CAY_STEAL_FD(fd);
        }
    }
    cay__close_fd(&l->fd);
    return rc;
}

/* An entry that cannot be looked at or entered. */
static int note_failure(walk *k)
{
    if (errno == ENOENT)
        return 0;
    if (k->w->failed)
        return k->w->failed(k->path, k->w->arg);
    if ((k->w->flags & CAY__FS_STRICT) && !k->first_errno)
        k->first_errno = errno;
    return 0;
}

/* The entry that path ends in. Gives the callback's word; 1 in *down when a level was pushed. */
static int visit_entry(walk *k, level *l, bool *down)
{
    struct stat st;
    cay__fs_entry e = {
        .path = k->path, .name = last_part(l, k->path), .dir = l->fd, .depth = k->depth, .st = &st
    };
    *down = false;
    if (fstatat(l->fd, e.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return note_failure(k);
    int rc = k->w->fn(&e, k->w->arg);
    if (rc == CAY__FS_SKIP)
        return 0;
    if (rc || !S_ISDIR(st.st_mode) || (k->w->depth && k->depth >= k->w->depth))
        return rc;
    CAY_AUTOFD fd = open_dir(k, l->fd, e.name, &st, l->dev);
    if (fd < 0 || push_level(k, fd, &st) < 0)
        return note_failure(k);
    (void)CAY_STEAL_FD(fd);
    *down = true;
    return 0;
}

static int leave_dir(walk *k)
{
    level *l = &k->levels[k->depth - 1];
    struct stat st = { .st_mode = S_IFDIR };
    cay__fs_entry e = {
        .path = k->path, .name = last_part(l, k->path), .dir = l->fd, .depth = k->depth, .st = &st
    };
    if (k->w->leave)
        return k->w->leave(&e, k->w->arg);
    return 0;
}

static int walk_tree(walk *k)
{
    while (k->depth) {
        level *l = &k->levels[k->depth - 1];
        bool down;
        if (l->at == l->n && l->more) {
            /* path still ends in the last name that was seen here */
            CAY_AUTOFREE char *after = strdup(last_part(l, k->path));
            if (!after || load_batch(k, l, after) < 0)
                return -1;
            continue;
        }
        if (l->at == l->n) {
            path_cut(k, l->path);
            CAY_TRY(pop_level(k));
            int rc = 0;
            if (k->depth)
                rc = leave_dir(k);
            if (rc)
                return rc;
            continue;
        }
        if (k->w->stop && ++k->steps % 64 == 0 && k->w->stop(k->w->stop_arg))
            return cay__fs_fail(ECANCELED);
        path_cut(k, l->path);
        if (!path_push(k, l->names[l->at++] + 1))
            return cay__fs_fail(E2BIG);
        int rc = visit_entry(k, l, &down);
        if (rc)
            return rc;
    }
    errno = k->first_errno;
    if (k->first_errno)
        return -1;
    return 0;
}

int cay__fs_walk_fd(int fd, const cay__fs_walk *w)
{
    walk k = { .w = w, .path_room = 512, .room = CAY_OR(w->room, ROOM) };
    CAY_AUTOFD top = fd;
    struct stat st;
    int rc = -1;
    void *arena = mmap(NULL, k.room + DENTS, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    k.path = calloc(1, k.path_room);
    if (arena != MAP_FAILED && k.path) {
        k.arena = arena;
        k.dents = k.arena + k.room;
        if (fstat(top, &st) == 0 && lseek(top, 0, SEEK_SET) == 0 && push_level(&k, top, &st) == 0) {
            (void)CAY_STEAL_FD(top);
            rc = walk_tree(&k);
        }
    }
    int e = errno;
    while (k.depth)
        cay__close_fd(&k.levels[--k.depth].fd);
    free(k.levels);
    free(k.path);
    if (arena != MAP_FAILED)
        munmap(arena, k.room + DENTS);
    errno = e;
    return rc;
}

int cay__fs_walk_path(const cay__fs *fs, const char *path, const cay__fs_walk *w)
{
    int fd = cay__fs_open(fs, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    cay__fs_walk own = *w;
    own.stop = fs->stop;
    own.stop_arg = fs->stop_arg;
    CAY_TRY(fd);
    return cay__fs_walk_fd(fd, &own);
}

static int drop_entry(const cay__fs_entry *e, void *arg)
{
    int *failed = arg;
    if (unlinkat(e->dir, e->name, S_ISDIR(e->st->st_mode) ? AT_REMOVEDIR : 0) == 0) {
        if (S_ISDIR(e->st->st_mode))
            return CAY__FS_SKIP;
        return 0;
    }
    if (S_ISDIR(e->st->st_mode) && (errno == ENOTEMPTY || errno == EEXIST))
        return 0;
    if (errno != ENOENT && !*failed)
        *failed = errno;
    return CAY__FS_SKIP;
}

static int drop_left(const cay__fs_entry *e, void *arg)
{
    int *failed = arg;
    if (unlinkat(e->dir, e->name, AT_REMOVEDIR) < 0 && errno != ENOENT && !*failed)
        *failed = errno;
    return 0;
}

int cay__fs_remove(const cay__fs *fs, const char *path, bool recursive)
{
    char name[256];
    int failed = 0;
    struct stat st;
    CAY_AUTOFD dir = cay__fs_parent(fs, path, name);
    if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    if (!S_ISDIR(st.st_mode))
        return unlinkat(dir, name, 0);
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    if (!recursive || (errno != ENOTEMPTY && errno != EEXIST))
        return -1;
    int fd = cay__fd_openat2(dir, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0,
                             RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
    if (fd < 0) {
        if (errno == EXDEV)
            errno = EBUSY;
        return -1;
    }
    cay__fs_walk w = { .fn = drop_entry,
                       .leave = drop_left,
                       .arg = &failed,
                       .flags = CAY__FS_ONE_MOUNT | CAY__FS_STRICT,
                       .stop = fs->stop,
                       .stop_arg = fs->stop_arg };
    CAY_TRY(cay__fs_walk_fd(fd, &w));
    if (failed)
        return cay__fs_fail(failed);
    return unlinkat(dir, name, AT_REMOVEDIR);
}
