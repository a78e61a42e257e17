/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing: to a temporary name in the same directory, then rename, so that a reader sees the old
 * bytes or the new ones and a writer that dies leaves the old ones.
 */
#include "base.h"
#include "fsop.h"
#include <linux/openat2.h>
#include <sys/syscall.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
enum { LINKS_MAX = 40 };

static int open_parent(const cay__fs *fs, const char *path, bool parents, char *name)
{
    int dir = cay__fs_parent(fs, path, name);
    if (dir >= 0 || errno != ENOENT || !parents)
        return dir;
    char abs[CAY__FS_PATH_MAX];
    CAY_TRY(cay__fs_path(fs, path, abs));
    size_t n = strlen(abs);
    while (n > 1 && abs[n - 1] == '/')
        n--;
    while (n > 1 && abs[n - 1] != '/')
        n--;
    abs[n] = 0;
    CAY_TRY(cay__fs_mkdir(fs, abs, 0755, true));
    return cay__fs_parent(fs, path, name);
}

/* path's directory with name not being a link: writing to a link writes what it points to, as
 * open(2) would. Each round is resolved inside the root again. */
static int open_target(const cay__fs *fs, const char *path, const cay__fs_write *spec, char *name,
                       struct stat *st, bool *there)
{
    char at[CAY__FS_PATH_MAX], to[CAY__FS_PATH_MAX];
    CAY_TRY(cay__fs_path(fs, path, at));
    for (int i = 0; i < LINKS_MAX; i++) {
        CAY_AUTOFD dir = open_parent(fs, at, spec->parents, name);
        CAY_TRY(dir);
        *there = fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0;
        if (!*there && errno != ENOENT)
            return -1;
        if (*there && spec->exclusive)
            return cay__fs_fail(EEXIST);
        if (!*there || !S_ISLNK(st->st_mode))
            return CAY_STEAL_FD(dir);
        ssize_t n = readlinkat(dir, name, to, sizeof to - 1);
        CAY_TRY(n);
        to[n] = 0;
        size_t keep = strlen(at);
        while (keep > 1 && at[keep - 1] == '/')
            keep--;
        while (keep && at[keep - 1] != '/')
            keep--;
        at[to[0] == '/' ? 0 : keep] = 0;
        if (strlen(at) + (size_t)n >= sizeof at)
            return cay__fs_fail(ENAMETOOLONG);
        memcpy(at + strlen(at), to, (size_t)n + 1);
    }
    return cay__fs_fail(ELOOP);
}

static int make_tmp(cay__fs_upload *up)
{
    for (int i = 0; i < 16; i++) {
        unsigned char r[8];
        char rnd[17];
        cay__random(r, sizeof r);
        cay__hex_put(rnd, r, sizeof r);
        char kind[2] = { up->replaces ? CAY__FS_TMP_OLD : CAY__FS_TMP_NEW, 0 };
        CAY_JOIN(up->tmp, CAY__FS_TMP, kind, rnd);
        up->fd = openat(up->dir, up->tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (up->fd >= 0 || errno != EEXIST)
            break;
    }
    CAY_TRY(up->fd);
    return 0;
}

int cay__fs_put_open(const cay__fs *fs, const char *path, const cay__fs_write *spec,
                     cay__fs_upload *up)
{
    struct stat st = { 0 };
    bool there = false;
    *up = (cay__fs_upload){ .fd = -1, .dir = -1, .spec = *spec };
    if (spec->mode & ~07777u)
        return cay__fs_fail(EINVAL);
    CAY_AUTOFD dir = open_target(fs, path, spec, up->name, &st, &there);
    CAY_TRY(dir);
    if (there && !S_ISREG(st.st_mode))
        return cay__fs_fail(S_ISDIR(st.st_mode) ? EISDIR : ENXIO);
    /* Rename asks only the directory; a file that may not be written is not replaced either. */
    if (there && faccessat(dir, up->name, W_OK, 0) < 0)
        return -1;
    up->replaces = there;
    up->uid = st.st_uid;
    up->gid = st.st_gid;
    if (!up->spec.mode) {
        if (there)
            up->spec.mode = st.st_mode & 07777;
        else
            up->spec.mode = 0644;
    }
    up->dir = dir;
    if (make_tmp(up) < 0) {
        up->dir = -1;
        return -1;
    }
    (void)CAY_STEAL_FD(dir);
    return 0;
}

void cay__fs_put_abort(cay__fs_upload *up)
{
    int e = errno;
    if (up->dir >= 0 && up->tmp[0])
        unlinkat(up->dir, up->tmp, 0);
    up->tmp[0] = 0;
    cay__close_fd(&up->fd);
    cay__close_fd(&up->dir);
    errno = e;
}

/* Owner and mode as they were; a set-id bit is not carried to another owner. */
static int set_owner_mode(cay__fs_upload *up)
{
    struct stat st;
    uint32_t mode = up->spec.mode;
    CAY_TRY(fstat(up->fd, &st));
    if (up->replaces && (st.st_uid != up->uid || st.st_gid != up->gid) &&
        fchown(up->fd, up->uid, up->gid) < 0)
        mode &= 01777u;
    return fchmod(up->fd, mode);
}

/* An append was gathered beside and now goes to the end in one go. What could not be added whole is
 * taken back, unless others added to the file meanwhile. */
static int add_to_end(cay__fs_upload *up)
{
    struct stat st, in, now;
    CAY_AUTOFD fd = openat(up->dir, up->name,
                           O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || fstat(up->fd, &in) < 0)
        return -1;
    if (!S_ISREG(st.st_mode))
        return cay__fs_fail(ENXIO);
    /* sendfile(2) and splice(2) refuse O_APPEND, so the bytes pass through here. */
    char buf[16384];
    for (off_t at = 0; at < in.st_size;) {
        ssize_t n = pread(up->fd, buf, sizeof buf, at);
        if (n == 0)
            break;
        if (n < 0 || !cay__fd_write_all(fd, buf, (size_t)n)) {
            int e = errno;
            if (fstat(fd, &now) == 0 && now.st_size >= st.st_size &&
                now.st_size <= st.st_size + at + n && ftruncate(fd, st.st_size) < 0)
                e = errno;
            return cay__fs_fail(e);
        }
        at += n;
    }
    return 0;
}

static int into_place(cay__fs_upload *up)
{
    if (!up->spec.exclusive)
        return renameat(up->dir, up->tmp, up->dir, up->name);
    if (syscall(SYS_renameat2, up->dir, up->tmp, up->dir, up->name, RENAME_NOREPLACE) == 0)
        return 0;
    /* some filesystems know no NOREPLACE; a second link cannot replace anything either */
    if (errno != EINVAL || linkat(up->dir, up->tmp, up->dir, up->name, 0) < 0)
        return -1;
    return unlinkat(up->dir, up->tmp, 0);
}

int cay__fs_put_commit(cay__fs_upload *up)
{
    int rc;
    if (up->spec.append && up->replaces) {
        rc = add_to_end(up);
    } else {
        rc = set_owner_mode(up);
        if (rc == 0)
            rc = into_place(up);
        if (rc == 0)
            up->tmp[0] = 0;
    }
    cay__fs_put_abort(up);
    return rc;
}

/* An append of bytes in hand needs no second file: one write(2) is enough. */
static int append_now(const cay__fs *fs, const char *path, const void *data, size_t len,
                      const cay__fs_write *spec, bool *done)
{
    char name[256];
    struct stat st;
    bool there;
    *done = false;
    CAY_AUTOFD dir = open_target(fs, path, spec, name, &st, &there);
    CAY_TRY(dir);
    if (!there)
        return 0;
    if (!S_ISREG(st.st_mode))
        return cay__fs_fail(S_ISDIR(st.st_mode) ? EISDIR : ENXIO);
    CAY_AUTOFD fd =
        openat(dir, name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if (!S_ISREG(st.st_mode))
        return cay__fs_fail(ENXIO);
    *done = true;
    if (cay__fd_write_all(fd, data, len))
        return 0;
    return -1;
}

int cay__fs_put(const cay__fs *fs, const char *path, const void *data, size_t len,
                const cay__fs_write *spec)
{
    cay__fs_upload up;
    if (spec->append) {
        bool done;
        int rc = append_now(fs, path, data, len, spec, &done);
        if (rc < 0 || done)
            return rc;
    }
    CAY_TRY(cay__fs_put_open(fs, path, spec, &up));
    if (!cay__fd_write_all(up.fd, data, len)) {
        cay__fs_put_abort(&up);
        return -1;
    }
    return cay__fs_put_commit(&up);
}
