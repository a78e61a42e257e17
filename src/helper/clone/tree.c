/* SPDX-License-Identifier: Apache-2.0 */
#include "clone.h"
#include <base/base.h>
#include <base/fault.h>
#include <dirent.h>
#include <linux/openat2.h>

#define DEPTH_MAX 1500 /* two descriptors each; a path of 4095 bytes has seldom more */

typedef struct twin {
    uint64_t ino;
    char *path; /* its first name below the new layer */
} twin;

static struct {
    twin *at;
    size_t n, size;
} twins;

static twin *twin_slot(uint64_t ino)
{
    size_t h = (size_t)(ino * 0x9e3779b97f4a7c15ull) & (twins.size - 1);
    while (twins.at[h].path && twins.at[h].ino != ino)
        h = (h + 1) & (twins.size - 1);
    return &twins.at[h];
}

static twin *twin_of(uint64_t ino)
{
    if (twins.n * 2 >= twins.size) {
        twin *old = twins.at;
        size_t n = twins.size;
        twins.size = CAY_MAX(n * 2, 256u);
        twins.at = cay__alloc(twins.size * sizeof *twins.at);
        CAY_EACH_OF(it, old, n)
            if (it->path)
                *twin_slot(it->ino) = *it;
        free(old);
    }
    return twin_slot(ino);
}

static void twins_free(void)
{
    CAY_EACH_OF(it, twins.at, twins.size)
        free(it->path);
    free(twins.at);
    memset(&twins, 0, sizeof twins);
}

/* Opens the directory of the last clone in which *path is, which is most often the one of the file
 * before it, and leaves the name. */
static bool base_dir(clone_tree *t, const char **path)
{
    const char *slash = strrchr(*path, '/');
    size_t n = 0;
    if (slash)
        n = (size_t)(slash - *path);
    if (n >= sizeof t->near_path)
        return false;
    if (t->near < 0 || n != t->near_len || memcmp(t->near_path, *path, n)) {
        cay__close_fd(&t->near);
        memcpy(t->near_path, *path, n);
        t->near_path[n] = 0;
        t->near_len = n;
        t->near = cay__fd_openat2(t->base, n ? t->near_path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC,
                                  0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    }
    *path += n + (slash != NULL);
    return t->near >= 0;
}

/* The same as in the last clone: another name of that file. False: it has to be copied, whatever
 * the reason. */
static bool link_last(clone_tree *t, int from, const char *name, int to, const struct stat *st)
{
    const clone_mark *m = NULL;
    if (t->base >= 0 && !inode_set_has(&t->mapped, st->st_ino))
        m = index_find(t->last, st);
    if (!m)
        return false;
    const char *path = t->last->names + m->path;
    if (t->doubt && S_ISREG(st->st_mode) && st->st_size &&
        !same_bytes(from, name, t->base, path, st->st_size))
        return false;
    /* gone, or with too many names already: then not */
    return base_dir(t, &path) && linkat(t->near, path, to, name, 0) == 0;
}

static bool copy_entry(clone_tree *t, int from, const char *name, int to, const struct stat *st)
{
    if (clone_canceled) {
        errno = ECANCELED;
        return false;
    }
    twin *other = NULL;
    if (st->st_nlink > 1)
        other = twin_of(st->st_ino);
    t->files++;
    if (other && other->path)
        return linkat(t->to, other->path, to, name, 0) == 0;
    t->bytes += (uint64_t)st->st_size;
    if (!link_last(t, from, name, to, st)) {
        CAY_FAULT("clone.copy");
        if (!(S_ISREG(st->st_mode) ? copy_file(from, name, to, st, t->how, &t->shared)
                                   : copy_special(from, name, to, st)))
            return false;
        t->copied += (uint64_t)st->st_size;
    }
    if (other) {
        *other = (twin){ st->st_ino, cay__strdup(t->path) };
        twins.n++;
    }
    /* What is mapped changes without a trace for as long as it is, and so does what changed in this
     * very tick of the clock. */
    bool fresh = st->st_ctim.tv_sec > t->fresh.tv_sec ||
                 (st->st_ctim.tv_sec == t->fresh.tv_sec && st->st_ctim.tv_nsec >= t->fresh.tv_nsec);
    if (!fresh && !inode_set_has(&t->mapped, st->st_ino))
        index_add(&t->next, st, t->path);
    return true;
}

static bool copy_dir(clone_tree *t, int from, int to);

static bool enter_dir(clone_tree *t, int from, const char *name, int to, const struct stat *st)
{
    CAY_AUTOFD in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
    if (in < 0 || !copy_same(in, st) || mkdirat(to, name, 0700) < 0)
        return false;
    CAY_AUTOFD out = cay__dir_at(to, name);
    if (out < 0 || ++t->depth > DEPTH_MAX) {
        if (out >= 0)
            errno = ENAMETOOLONG;
        return false;
    }
    t->files++;
    if (!copy_dir(t, in, out) || !copy_looks(in, out, st))
        return false;
    t->depth--;
    return true;
}

static bool copy_dir(clone_tree *t, int from, int to)
{
    size_t len = t->len;
    int fd = fcntl(from, F_DUPFD_CLOEXEC, 3);
    DIR *d = NULL;
    if (fd >= 0)
        d = fdopendir(fd);
    bool ok = d;
    for (struct dirent *e; ok && (e = cay__dir_next(d));) {
        struct stat st;
        size_t n = strlen(e->d_name);
        if (len + n + 2 > sizeof t->path) {
            errno = ENAMETOOLONG;
            ok = false;
            break;
        }
        memcpy(t->path + len, e->d_name, n + 1);
        ok = fstatat(from, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (ok && S_ISDIR(st.st_mode)) {
            memcpy(t->path + len + n, "/", 2);
            t->len = len + n + 1;
            ok = enter_dir(t, from, e->d_name, to, &st);
            t->len = len;
        } else if (ok) {
            ok = copy_entry(t, from, e->d_name, to, &st);
        }
    }
    int sys = errno;
    if (d)
        closedir(d);
    else
        cay__close_fd(&fd);
    errno = sys;
    if (ok)
        t->path[len] = 0;
    return ok && sys == 0;
}

bool clone_tree_walk(clone_tree *t)
{
    struct stat st;
    errno = 0;
    bool ok = copy_dir(t, t->upper, t->to) && fstat(t->upper, &st) == 0 &&
              copy_looks(t->upper, t->to, &st);
    int sys = errno;
    twins_free();
    cay__close_fd(&t->near);
    errno = sys;
    return ok;
}

/* Our own half-made tree: what lies deeper than we go was never made. */
void clone_tree_remove(int at, const char *name)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return;
    DIR *d = cay__dir_open(at, name);
    if (!d)
        return;
    for (struct dirent *e; (e = cay__dir_next(d));)
        clone_tree_remove(dirfd(d), e->d_name);
    closedir(d);
    unlinkat(at, name, AT_REMOVEDIR);
}
