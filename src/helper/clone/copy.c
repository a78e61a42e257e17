/* SPDX-License-Identifier: Apache-2.0 */
#include "clone.h"
#include <base/base.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define STORE  0x70000000u /* as STORE_BASE of daemon/keeper/keeper.h */

#define SMALL  (128u << 10) /* one read and one write */
#define SHARED (1u << 20)   /* from here on a reflink is worth the flush that xfs makes of it */

static char buffer[SMALL];

/* Those of a security module are the host's affair: the new file has its own. */
static bool is_copyable_attr(const char *name)
{
    return strcmp(name, "security.selinux") && strcmp(name, "security.ima") &&
           strcmp(name, "security.evm");
}

/* A path of /proc/self/fd, because what is no regular file is not opened. */
static bool copy_attrs(const char *from, const char *to)
{
    static char names[65536], value[65536];
    ssize_t n = llistxattr(from, names, sizeof names);
    if (n < 0)
        return errno == ENOTSUP;
    for (const char *p = names; p < names + n; p += strlen(p) + 1) {
        if (!is_copyable_attr(p))
            continue;
        ssize_t len = lgetxattr(from, p, value, sizeof value);
        if (len < 0 || lsetxattr(to, p, value, (size_t)len, 0) < 0)
            return false;
    }
    return true;
}

static bool copy_fd_attrs(int from, int to)
{
    static char names[65536], value[65536];
    ssize_t n = flistxattr(from, names, sizeof names);
    if (n < 0)
        return errno == ENOTSUP;
    for (const char *p = names; p < names + n; p += strlen(p) + 1) {
        if (!is_copyable_attr(p))
            continue;
        ssize_t len = fgetxattr(from, p, value, sizeof value);
        if (len < 0 || fsetxattr(to, p, value, (size_t)len, 0) < 0)
            return false;
    }
    return true;
}

static void entry_path(char *out, size_t cap, int dir, const char *name)
{
    char n[21];
    cay__str_join(out, cap, "/proc/self/fd/", cay__str_u64(n, (uint64_t)dir), "/", name, NULL);
}

/* The owner first: a change of it takes set-uid bits and capabilities away. */
bool copy_looks(int from, int to, const struct stat *st)
{
    const struct timespec times[2] = { st->st_atim, st->st_mtim };
    return fchown(to, st->st_uid, st->st_gid) == 0 && copy_fd_attrs(from, to) &&
           fchmod(to, st->st_mode & 07777) == 0 && futimens(to, times) == 0;
}

static bool copy_small(int in, int out, off_t size)
{
    ssize_t n = 0;
    if (size)
        n = read(in, buffer, sizeof buffer);
    return n >= 0 && cay__fd_write_all(out, buffer, (size_t)n);
}

static bool copy_part(int in, int out, off_t at, off_t end)
{
    while (at < end) {
        off_t from = at, to = at;
        ssize_t n = copy_file_range(in, &from, out, &to, (size_t)(end - at), 0);
        if (n == 0)
            return true; /* shorter than it was: nothing runs, so only what a dying disk says */
        if (n < 0 && errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
            return false;
        if (n < 0) {
            n = pread(in, buffer, (size_t)CAY_MIN((off_t)sizeof buffer, end - at), at);
            if (n <= 0)
                return n == 0;
            if (pwrite(out, buffer, (size_t)n, at) != n)
                return false;
        }
        at += n;
    }
    return true;
}

/* Holes stay holes. */
static bool copy_large(int in, int out, const struct stat *st)
{
    off_t at = 0, size = st->st_size;
    if (ftruncate(out, size) < 0)
        return false;
    if ((off_t)st->st_blocks * 512 >= size)
        return copy_part(in, out, 0, size);
    while (at < size) {
        off_t data = lseek(in, at, SEEK_DATA);
        if (data < 0)
            return errno == ENXIO || copy_part(in, out, at, size);
        off_t end = lseek(in, data, SEEK_HOLE);
        if (!copy_part(in, out, data, end < 0 ? size : end))
            return false;
        if (end < 0)
            at = size;
        else
            at = end;
    }
    return true;
}

bool copy_of_sandboxes;

bool copy_same(int fd, const struct stat *st)
{
    struct stat now;
    if (fstat(fd, &now) < 0)
        return false;
    if (copy_of_sandboxes && (now.st_uid < STORE || now.st_uid - STORE > 65535))
        errno = EPERM;
    else
        errno = ESTALE;
    return errno == ESTALE && now.st_ino == st->st_ino && now.st_dev == st->st_dev &&
           (now.st_mode & S_IFMT) == (st->st_mode & S_IFMT) && now.st_uid == st->st_uid;
}

bool copy_file(int from, const char *name, int to, const struct stat *st, enum copy_how how,
               bool *shared)
{
    /* Nothing inside runs that could put something else there; outside somebody may: what was
     * looked at is what is copied. */
    CAY_AUTOFD in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME | O_CLOEXEC);
    if (in < 0 || !copy_same(in, st))
        return false;
    CAY_AUTOFD out = openat(to, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return false;
    bool one = how == COPY_SHARED && st->st_size >= SHARED && ioctl(out, FICLONE, in) == 0;
    *shared |= one;
    return (one ||
            (st->st_size <= SMALL ? copy_small(in, out, st->st_size) : copy_large(in, out, st))) &&
           copy_looks(in, out, st);
}

bool same_bytes(int a, const char *name, int b, const char *path, off_t size)
{
    static char other[SMALL];
    CAY_AUTOFD x = openat(a, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME | O_CLOEXEC);
    CAY_AUTOFD y = cay__fd_openat2(b, path, O_RDONLY | O_NONBLOCK | O_NOATIME | O_CLOEXEC, 0,
                                   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (x < 0 || y < 0)
        return false;
    while (size > 0) {
        ssize_t n = read(x, buffer, sizeof buffer), k = read(y, other, sizeof other);
        if (n <= 0 || n != k || memcmp(buffer, other, (size_t)n))
            return false;
        size -= n;
    }
    return size == 0;
}

static bool make_special(int from, const char *name, int to, const struct stat *st)
{
    char target[4096];
    ssize_t n;
    switch (st->st_mode & S_IFMT) {
    case S_IFLNK:
        n = readlinkat(from, name, target, sizeof target - 1);
        if (n < 0)
            return false;
        target[n] = 0;
        return symlinkat(target, to, name) == 0;
    case S_IFCHR: /* 0:0 is overlay's word for "removed"; no other device can have been made in a
                     sandbox */
        if (st->st_rdev == 0)
            return mknodat(to, name, st->st_mode, 0) == 0;
        errno = EPERM;
        return false;
    case S_IFIFO:
    case S_IFSOCK: return mknodat(to, name, st->st_mode, 0) == 0;
    default: errno = EPERM; return false;
    }
}

bool copy_special(int from, const char *name, int to, const struct stat *st)
{
    char a[320], b[320];
    const struct timespec times[2] = { st->st_atim, st->st_mtim };
    entry_path(a, sizeof a, from, name);
    entry_path(b, sizeof b, to, name);
    return make_special(from, name, to, st) &&
           fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) == 0 &&
           copy_attrs(a, b) &&
           (S_ISLNK(st->st_mode) || fchmodat(to, name, st->st_mode & 07777, 0) == 0) &&
           utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) == 0;
}
