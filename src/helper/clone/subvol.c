/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On btrfs everything stands still only for as long as a snapshot of the subvolume takes that the
 * state directory is in; the tree is then walked in there. Overlayfs renames between upper and work
 * and the quiet snapshot renames upper into layers/, and btrfs allows both inside one subvolume
 * only, so it is not the sandbox's own. It lies in a directory that nobody else may enter, and goes
 * with the end of the copy.
 */
#include "clone.h"
#include <base/base.h>
#include <base/fault.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#define NAME     "s"
#define ROOT_INO 256 /* BTRFS_FIRST_FREE_OBJECTID: of every subvolume's root */
#define LEVELS   64

/* Only the machine's own root may take a subvolume away again, whatever is in it (unless a mount
 * option says otherwise). */
static bool real_root(void)
{
    char map[128];
    unsigned inside, outside, n;
    return cay__fd_read_file(AT_FDCWD, "/proc/self/uid_map", map, sizeof map) > 0 &&
           sscanf(map, "%u %u %u", &inside, &outside, &n) == 3 && !inside && !outside &&
           n == UINT32_MAX;
}

static bool on_btrfs(int fd, const struct stat *upper, struct stat *home)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC && fstat(fd, home) == 0 &&
           home->st_dev == upper->st_dev;
}

/* From the state directory up to the root of its subvolume; the names on the way are the last ones
 * of its path. */
static bool find_root(clone_subvol *s, int home)
{
    char link[64], n[21], path[4096];
    struct stat st;
    unsigned up = 0;
    CAY_AUTOFD at = openat(home, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (; at >= 0 && fstat(at, &st) == 0 && st.st_ino != ROOT_INO && up < LEVELS; up++) {
        int next = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        cay__close_fd(&at);
        at = next;
    }
    CAY_JOIN(link, "/proc/self/fd/", cay__str_u64(n, (uint64_t)home));
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (at < 0 || up == LEVELS || len <= 0)
        return false;
    path[len] = 0;
    const char *from = path + len;
    for (unsigned i = 0; i < up; i++)
        while (from > path && *--from != '/')
            ;
    if (!CAY_COPY(s->home, *from == '/' ? from + 1 : ".") || !*s->home)
        return false;
    s->root = CAY_STEAL_FD(at);
    return true;
}

bool subvol_prepare(clone_subvol *s, int home, int layers, const struct stat *upper)
{
    struct stat st;
    char id[24];
    if (!on_btrfs(home, upper, &st) || !real_root() || !find_root(s, home))
        return false;
    cay__id_make(id, 'l');
    CAY_JOIN(s->stage_name, ".stage-", id);
    if (mkdirat(layers, s->stage_name, 0700) < 0) {
        s->stage_name[0] = 0;
        return false;
    }
    s->stage = cay__dir_at(layers, s->stage_name);
    return s->stage >= 0 && flock(s->stage, LOCK_EX | LOCK_NB) == 0;
}

bool subvol_take(clone_subvol *s)
{
    struct btrfs_ioctl_vol_args_v2 a = { .fd = s->root, .flags = BTRFS_SUBVOL_RDONLY };
    CAY_COPY(a.name, NAME);
    bool ok = ioctl(s->stage, BTRFS_IOC_SNAP_CREATE_V2, &a) == 0;
    CAY_FAULT("clone.subvol.taken");
    return ok;
}

int subvol_open(const clone_subvol *s, const char *path, const struct stat *want)
{
    char whole[4200];
    struct stat st;
    if (!CAY_JOIN(whole, NAME "/", s->home, "/", path))
        return -1;
    CAY_AUTOFD fd = cay__dir_at(s->stage, whole);
    /* The same directory: inodes keep their numbers in a snapshot. */
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == want->st_ino)
        return CAY_STEAL_FD(fd);
    return -1;
}

void subvol_destroy(int stage)
{
    struct btrfs_ioctl_vol_args a = { 0 };
    struct stat st;
    CAY_COPY(a.name, NAME);
    if (fstatat(stage, NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
        st.st_ino == ROOT_INO)
        (void)ioctl(stage, BTRFS_IOC_SNAP_DESTROY,
                    &a); /* on another filesystem it is a directory like others */
}

void subvol_end(clone_subvol *s, int layers)
{
    if (s->stage >= 0)
        subvol_destroy(s->stage);
    if (s->stage_name[0])
        unlinkat(layers, s->stage_name, AT_REMOVEDIR);
    cay__close_fd(&s->stage);
    cay__close_fd(&s->root);
    s->stage_name[0] = 0;
}
