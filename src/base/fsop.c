/* SPDX-License-Identifier: Apache-2.0 */
#include "fsop.h"
#include "mutant.h"
#include "base.h"
#include <linux/openat2.h>
#include <sys/xattr.h>

int cay__fs_path(const cay__fs *fs, const char *path, char *buf)
{
    const char *pre = "", *rest = path;
    if (!*path)
        return cay__fs_fail(ENOENT);
    if (path[0] == '~' && (!path[1] || path[1] == '/')) {
        pre = CAY_OR(fs->home, "/");
        rest = path + 1;
    } else if (path[0] != '/') {
        pre = CAY_OR(fs->workdir, "/");
    }
    const char *lead = "", *slash = "";
    if (*pre && *pre != '/')
        lead = "/";
    if (*pre && *rest && *rest != '/')
        slash = "/";
    if (!cay__str_join(buf, CAY__FS_PATH_MAX, lead, pre, slash, rest, NULL))
        return cay__fs_fail(ENAMETOOLONG);
    return 0;
}

static int open_abs(const cay__fs *fs, const char *abs, int flags)
{
    if (!(flags & O_PATH)) /* openat2(2) refuses what O_PATH would ignore */
        flags |= O_NOCTTY;
    return cay__fd_openat2(fs->root, abs, (uint64_t)flags, 0, RESOLVE_IN_ROOT);
}

int cay__fs_open(const cay__fs *fs, const char *path, int flags)
{
    char abs[CAY__FS_PATH_MAX];
    CAY_TRY(cay__fs_path(fs, path, abs));
    return open_abs(fs, abs, flags);
}

static int only_regular(const struct stat *st)
{
    if (S_ISREG(st->st_mode) || CAY__MUTANT("file-type"))
        return 0;
    return cay__fs_fail(S_ISDIR(st->st_mode) ? EISDIR : ENXIO);
}

int cay__fs_open_read(const cay__fs *fs, const char *path, struct stat *st)
{
    struct stat tmp;
    char abs[CAY__FS_PATH_MAX];
    st = CAY_OR(st, &tmp);
    CAY_TRY(cay__fs_path(fs, path, abs));
    /* Looked at first, because even opening a FIFO or device does something to its other side. */
    CAY_AUTOFD look = open_abs(fs, abs, O_PATH);
    if (look < 0 || fstat(look, st) < 0 || only_regular(st) < 0)
        return -1;
    CAY_AUTOFD fd = open_abs(fs, abs, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, st) < 0 || only_regular(st) < 0)
        return -1;
    return CAY_STEAL_FD(fd);
}

int cay__fs_stat(const cay__fs *fs, const char *path, bool follow, struct stat *st, char *target,
                 size_t cap)
{
    CAY_AUTOFD fd = cay__fs_open(fs, path, O_PATH | (follow ? 0 : O_NOFOLLOW));
    if (fd < 0 || fstat(fd, st) < 0)
        return -1;
    if (target && cap)
        target[0] = 0;
    if (target && cap > 1 && S_ISLNK(st->st_mode)) {
        ssize_t n = readlinkat(fd, "", target, cap - 1);
        target[n > 0 ? n : 0] = 0;
    }
    return 0;
}

/* Cuts abs into the directory (left in abs) and the last part. */
static int split_path(char *abs, char *name)
{
    size_t n = strlen(abs);
    while (n > 1 && abs[n - 1] == '/')
        abs[--n] = 0;
    char *slash = strrchr(abs, '/');
    const char *leaf = abs;
    if (slash)
        leaf = slash + 1;
    if (!*leaf || !strcmp(leaf, ".") || !strcmp(leaf, ".."))
        return cay__fs_fail(*leaf ? EINVAL : EBUSY); /* the root itself */
    if (!cay__str_copy(name, 256, leaf))
        return cay__fs_fail(ENAMETOOLONG);
    slash[slash == abs] = 0;
    return 0;
}

int cay__fs_parent(const cay__fs *fs, const char *path, char *name)
{
    char abs[CAY__FS_PATH_MAX];
    if (cay__fs_path(fs, path, abs) < 0 || split_path(abs, name) < 0)
        return -1;
    return open_abs(fs, abs, O_PATH | O_DIRECTORY);
}

/* One directory with exactly that mode whatever the umask. Made with 0700 on top, so that the owner
 * can open it without following a link that took its place. */
static int make_dir(int dir, const char *name, uint32_t mode)
{
    CAY_TRY(mkdirat(dir, name, (mode | 0700) & 0777));
    CAY_AUTOFD fd = cay__fd_openat2(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
                                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    CAY_TRY(fd);
    return fchmod(fd, mode & 07777);
}

/* Enters or makes the part abs[start…end) of cur; anything but a plain directory is resolved from
 * the root again with the whole prefix. */
static int enter_part(const cay__fs *fs, char *abs, size_t start, size_t end, int cur,
                      uint32_t mode)
{
    char keep = abs[end];
    abs[end] = 0;
    int fd = cay__fd_openat2(cur, abs + start, O_PATH | O_DIRECTORY, 0,
                             RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd < 0 && errno == ENOENT && make_dir(cur, abs + start, mode) == 0)
        fd = cay__fd_openat2(cur, abs + start, O_PATH | O_DIRECTORY, 0,
                             RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    else if (fd < 0 && (errno == ELOOP || errno == EXDEV || errno == EEXIST || errno == ENOTDIR))
        fd = open_abs(fs, abs, O_PATH | O_DIRECTORY);
    abs[end] = keep;
    return fd;
}

static int make_all(const cay__fs *fs, char *abs, uint32_t mode)
{
    CAY_AUTOFD cur = open_abs(fs, abs, O_PATH | O_DIRECTORY);
    if (cur >= 0 || errno != ENOENT) {
        CAY_TRY(cur);
        return 0;
    }
    cur = open_abs(fs, "/", O_PATH | O_DIRECTORY);
    size_t last = strlen(abs);
    while (last > 1 && abs[last - 1] == '/')
        last--;
    for (size_t at = 0; cur >= 0 && at < last;) {
        size_t start = at + strspn(abs + at, "/");
        size_t end = start + strcspn(abs + start, "/");
        if (end > start) {
            int next = enter_part(fs, abs, start, end, cur, end >= last ? mode : 0755);
            cay__close_fd(&cur);
            cur = next;
        }
        at = end;
    }
    CAY_TRY(cur);
    return 0;
}

int cay__fs_mkdir(const cay__fs *fs, const char *path, uint32_t mode, bool parents)
{
    char abs[CAY__FS_PATH_MAX], name[256];
    if (mode)
        mode = mode & 07777;
    else
        mode = 0755;
    CAY_TRY(cay__fs_path(fs, path, abs));
    if (parents)
        return make_all(fs, abs, mode);
    CAY_AUTOFD dir = cay__fs_parent(fs, path, name);
    CAY_TRY(dir);
    return make_dir(dir, name, mode);
}

int cay__fs_rename(const cay__fs *fs, const char *from, const char *to)
{
    char a[256], b[256];
    CAY_AUTOFD da = cay__fs_parent(fs, from, a);
    CAY_TRY(da);
    CAY_AUTOFD db = cay__fs_parent(fs, to, b);
    CAY_TRY(db);
    return renameat(da, a, db, b);
}

/* A name for calls that take no O_PATH descriptor; the link leads to exactly that inode. */
static void self_fd(char *buf, size_t cap, int fd)
{
    char n[21];
    cay__str_join(buf, cap, "/proc/self/fd/", cay__str_u64(n, (uint64_t)fd), NULL);
}

int cay__fs_chmod(const cay__fs *fs, const char *path, uint32_t mode)
{
    char self[48];
    CAY_AUTOFD fd = cay__fs_open(fs, path, O_PATH);
    CAY_TRY(fd);
    if (mode & ~07777u)
        return cay__fs_fail(EINVAL);
    self_fd(self, sizeof self, fd);
    return chmod(self, mode);
}

int cay__fs_chown(const cay__fs *fs, const char *path, uint32_t uid, uint32_t gid)
{
    CAY_AUTOFD fd = cay__fs_open(fs, path, O_PATH);
    CAY_TRY(fd);
    return fchownat(fd, "", uid, gid, AT_EMPTY_PATH);
}

int cay__fs_symlink(const cay__fs *fs, const char *target, const char *path)
{
    char name[256];
    CAY_AUTOFD dir = cay__fs_parent(fs, path, name);
    CAY_TRY(dir);
    return symlinkat(target, dir, name);
}

/* user.overlay.* is how an overlay without privilege marks whiteouts and opaque directories. */
static bool xattr_ok(const char *name)
{
    return cay__str_starts(name, "user.") && name[5] && !cay__str_starts(name, "user.overlay.");
}

static int xattr_open(const cay__fs *fs, const char *path, const char *name, char self[48])
{
    if (name && !xattr_ok(name))
        return cay__fs_fail(EPERM);
    int fd = cay__fs_open(fs, path, O_PATH);
    if (fd >= 0)
        self_fd(self, 48, fd);
    return fd;
}

int cay__fs_getxattr(const cay__fs *fs, const char *path, const char *name, void *buf, size_t cap)
{
    char self[48];
    CAY_AUTOFD fd = xattr_open(fs, path, name, self);
    CAY_TRY(fd);
    return (int)getxattr(self, name, buf, cap);
}

int cay__fs_setxattr(const cay__fs *fs, const char *path, const char *name, const void *value,
                     size_t len)
{
    char self[48];
    CAY_AUTOFD fd = xattr_open(fs, path, name, self);
    CAY_TRY(fd);
    if (value)
        return setxattr(self, name, value, len, 0);
    return removexattr(self, name);
}

int cay__fs_listxattr(const cay__fs *fs, const char *path, int (*fn)(const char *, void *),
                      void *arg)
{
    enum { LIST_MAX = 65536 }; /* XATTR_LIST_MAX */
    char self[48];
    CAY_AUTOFD fd = xattr_open(fs, path, NULL, self);
    CAY_TRY(fd);
    CAY_AUTOFREE char *names = malloc(LIST_MAX);
    ssize_t n = -1;
    if (names)
        n = listxattr(self, names, LIST_MAX);
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
        int rc = 0;
        if (xattr_ok(names + at))
            rc = fn(names + at, arg);
        if (rc)
            return rc;
    }
    CAY_TRY(n);
    return 0;
}
