/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of this sandbox as items: what a clone has made. */
#include "unpack.h"
#include <base/fsop.h>
#include <linux/openat2.h>

static int fail_read(unpack *u, const char *path)
{
    return fail(u, path, "archive_reader", "cannot be read: %s", strerror(errno));
}

static int read_contents(unpack *u, const cay__fs_entry *e)
{
    char buf[CAY__ITEM_PIECE];
    struct stat st;
    CAY_AUTOFD fd = cay__file_at(e->dir, e->name);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return fail_read(u, e->path);
    for (ssize_t n; (n = read(fd, buf, sizeof buf)) != 0;) {
        if (n < 0)
            return fail_read(u, e->path);
        CAY_TRY(grow(u, e->path, (uint64_t)n));
        cay__item_data(&u->out, buf, (size_t)n);
    }
    cay__item_done(&u->out);
    return 0;
}

static int on_entry(const cay__fs_entry *e, void *arg)
{
    unpack *u = arg;
    char target[CAY__ITEM_PATH] = "";
    const struct stat *st = e->st;
    cay__item it = { .path = e->path,
                     .mtime = st->st_mtim.tv_sec,
                     .nsec = (uint32_t)st->st_mtim.tv_nsec,
                     .size = (uint64_t)st->st_size,
                     .uid = 1000,
                     .gid = 1000,
                     .mode = st->st_mode & 0777 };
    if (S_ISREG(st->st_mode))
        it.type = CAY__ITEM_FILE;
    else if (S_ISDIR(st->st_mode))
        it.type = CAY__ITEM_DIR;
    else if (S_ISLNK(st->st_mode))
        it.type = CAY__ITEM_LINK;
    else
        it.type = 0;
    if (!it.type)
        return 0; /* sockets and FIFOs are no content */
    if (it.type == CAY__ITEM_LINK) {
        ssize_t n = readlinkat(e->dir, e->name, target, sizeof target - 1);
        if (n < 0 || link_check(u, e->path, target) < 0) {
            if (u->failed)
                return 1;
            return fail_read(u, e->path);
        }
        it.target = target;
        it.size = 0;
    }
    if (!cay__item_path_ok(e->path, false))
        return fail(u, e->path, "archive_path", "a name too long");
    if (name_add(u, e->path, it.type) < 0)
        return 1;
    cay__item_put(&u->out, &it);
    if (it.type == CAY__ITEM_FILE && read_contents(u, e) < 0)
        return 1;
    return 0;
}

int read_tree(unpack *u, const char *dir)
{
    /* A part of the way may be what a stranger put there. */
    int fd = cay__fd_openat2(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
                             RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd < 0)
        return fail_read(u, dir);
    cay__fs_walk w = { .fn = on_entry, .arg = u, .flags = CAY__FS_ONE_MOUNT | CAY__FS_STRICT };
    int rc = cay__fs_walk_fd(fd, &w);
    if (rc && !u->failed)
        fail_read(u, dir);
    if (u->failed)
        return -1;
    return 0;
}
