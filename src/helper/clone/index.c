/* SPDX-License-Identifier: Apache-2.0 */
#include "clone.h"
#include <base/base.h>

#define MAGIC         "cayclon1"
#define SIZE_MAX_FILE (1ull << 31) /* ten million files; more is not one of ours */

/* On disk: this, the marks, the names. Unfinished or of another boot, after which the disk may have
 * lost what it names, it is no index. */
typedef struct head {
    char magic[8];
    char boot[40];
    char layer[64];
    uint64_t dev, ino, n, names;
    uint32_t crc, spare;
} head;

static void read_boot_id(char out[40])
{
    memset(out, 0, 40);
    cay__fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", out, 40);
}

static uint32_t compute_checksum(const clone_index *x)
{
    uint32_t c = cay__crc32c(0, x->marks, x->n * sizeof *x->marks);
    return cay__crc32c(c, x->names, x->names_len);
}

static void *grow_array(void *p, size_t *cap, size_t need, size_t each)
{
    if (need <= *cap)
        return p;
    *cap = CAY_MAX(need, *cap * 2 + 256);
    if (!(p = realloc(p, *cap * each)))
        abort();
    return p;
}

static void make_hash(clone_index *x)
{
    for (x->nhash = 64; x->nhash < x->n * 2; x->nhash *= 2)
        ;
    x->by_ino = cay__alloc(x->nhash * sizeof *x->by_ino);
    for (size_t i = 0; i < x->n; i++) {
        size_t h = (size_t)(x->marks[i].ino * 0x9e3779b97f4a7c15ull) & (x->nhash - 1);
        while (x->by_ino[h])
            h = (h + 1) & (x->nhash - 1);
        x->by_ino[h] = (uint32_t)i + 1;
    }
}

static bool read_index(clone_index *x, int fd, const struct stat *upper)
{
    head h;
    char now[40];
    struct stat st;
    read_boot_id(now);
    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size > SIZE_MAX_FILE ||
        cay__fd_read_all(fd, &h, sizeof h) != sizeof h || memcmp(h.magic, MAGIC, 8) ||
        memcmp(h.boot, now, sizeof now) || h.dev != upper->st_dev || h.ino != upper->st_ino ||
        h.n > SIZE_MAX_FILE / sizeof(clone_mark) || h.names > SIZE_MAX_FILE ||
        !memchr(h.layer, 0, sizeof h.layer) ||
        sizeof h + h.n * sizeof(clone_mark) + h.names != (uint64_t)st.st_size)
        return false;
    x->marks = cay__alloc(h.n * sizeof *x->marks);
    x->names = cay__alloc(h.names + 1);
    x->n = h.n;
    x->names_len = h.names;
    if (cay__fd_read_all(fd, x->marks, h.n * sizeof *x->marks) !=
            (ssize_t)(h.n * sizeof *x->marks) ||
        cay__fd_read_all(fd, x->names, h.names) != (ssize_t)h.names || compute_checksum(x) != h.crc)
        return false;
    CAY_EACH_OF(mark, x->marks, x->n)
        if (mark->path >= x->names_len)
            return false;
    memcpy(x->layer, h.layer, sizeof x->layer);
    make_hash(x);
    return true;
}

bool index_load(clone_index *x, int dir, const char *name, const struct stat *upper)
{
    memset(x, 0, sizeof *x);
    CAY_AUTOFD fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && read_index(x, fd, upper))
        return true;
    index_free(x);
    return false;
}

bool index_save(const clone_index *x, int dir, const char *name, const char *temp)
{
    head h = { .magic = MAGIC,
               .dev = x->dev,
               .ino = x->ino,
               .n = x->n,
               .names = x->names_len,
               .crc = compute_checksum(x) };
    read_boot_id(h.boot);
    memcpy(h.layer, x->layer, sizeof h.layer);
    CAY_AUTOFD fd = openat(dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd >= 0 && cay__fd_write_all(fd, &h, sizeof h) &&
           cay__fd_write_all(fd, x->marks, x->n * sizeof *x->marks) &&
           cay__fd_write_all(fd, x->names, x->names_len) && renameat(dir, temp, dir, name) == 0;
}

const clone_mark *index_find(const clone_index *x, const struct stat *st)
{
    if (!x->n)
        return NULL;
    for (size_t h = (size_t)((uint64_t)st->st_ino * 0x9e3779b97f4a7c15ull) & (x->nhash - 1);
         x->by_ino[h]; h = (h + 1) & (x->nhash - 1)) {
        const clone_mark *m = &x->marks[x->by_ino[h] - 1];
        if (m->ino == st->st_ino) {
            if (m->size == (uint64_t)st->st_size && m->ctime_s == st->st_ctim.tv_sec &&
                m->ctime_ns == (uint32_t)st->st_ctim.tv_nsec && m->mtime_s == st->st_mtim.tv_sec &&
                m->mtime_ns == (uint32_t)st->st_mtim.tv_nsec)
                return m;
            return NULL;
        }
    }
    return NULL;
}

void index_add(clone_index *x, const struct stat *st, const char *path)
{
    size_t len = strlen(path) + 1;
    if (x->names_len + len > UINT32_MAX || x->n >= UINT32_MAX - 1)
        return;
    x->marks = grow_array(x->marks, &x->cap, x->n + 1, sizeof *x->marks);
    x->names = grow_array(x->names, &x->names_cap, x->names_len + len, 1);
    x->marks[x->n++] = (clone_mark){ .ino = st->st_ino,
                                     .size = (uint64_t)st->st_size,
                                     .ctime_s = st->st_ctim.tv_sec,
                                     .ctime_ns = (uint32_t)st->st_ctim.tv_nsec,
                                     .mtime_s = st->st_mtim.tv_sec,
                                     .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
                                     .path = (uint32_t)x->names_len };
    memcpy(x->names + x->names_len, path, len);
    x->names_len += len;
}

void index_free(clone_index *x)
{
    free(x->marks);
    free(x->names);
    free(x->by_ino);
    memset(x, 0, sizeof *x);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    if (x < y)
        return -1;
    return x > y;
}

void inode_set_sort(inode_set *s)
{
    if (s->n)
        qsort(s->ino, s->n, sizeof *s->ino, by_number);
}

bool inode_set_has(const inode_set *s, uint64_t ino)
{
    return s->all || (s->n && bsearch(&ino, s->ino, s->n, sizeof ino, by_number));
}

void inode_set_free(inode_set *s)
{
    free(s->ino);
    memset(s, 0, sizeof *s);
}
