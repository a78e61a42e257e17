/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of a sandbox and, as root, its overlay. On disk everything belongs to one fixed range of ids that means
 * nothing to the host; the idmapped clone made at park shows it as the sandbox's own.
 */
#include "keeper.h"
#include "mnt.h"
#include "overlay.h"
#include <fcntl.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static uid_t store_id(uid_t inside)
{
    if (K.mode == CAY_MODE_ROOT)
        return STORE_BASE + inside;
    return K.mode == CAY_MODE_SINGLE ? 0 : inside;
}

static int make_dir(int at, const char *name, mode_t mode, uid_t owner)
{
    if (mkdirat(at, name, 0700) < 0)
        return errno == EEXIST ? 0 : -1;
    if (fchownat(at, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 || fchmodat(at, name, mode, 0) < 0)
        return -1;
    return 0;
}

/* What needs an owner that only exists in our user namespace is put into the default layer here. */
int rootfs_seal(void)
{
    char path[128];
    if ((mkdirat(K.home_fd, "sandboxes", 0711) < 0 && errno != EEXIST) || (mkdirat(K.home_fd, "layers", 0711) < 0 && errno != EEXIST))
        return -1;
    /* Ids of a sandbox have to pass, whoever made them before us and under which umask. */
    if (fchmodat(K.home_fd, "sandboxes", 0711, 0) < 0 || fchmodat(K.home_fd, "layers", 0711, 0) < 0)
        return -1;
    if (!K.layer[0])
        return 0;
    cay__str_join(path, sizeof path, "layers/", K.layer, NULL);
    CAY_AUTOFD at = openat(K.home_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (at < 0)
        return -1;
    if (make_dir(at, "workspace", 0755, store_id(1000)) < 0)
        return -1;
    CAY_AUTOFD home = openat(at, "home", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return home < 0 ? -1 : make_dir(home, "user", 0755, store_id(1000));
}

/* sandboxes/DIR/{upper,work}. A kept sandbox keeps its upper; work is always new, `volatile` marks a used one. */
int rootfs_make_dirs(const char *dir)
{
    char path[64];
    cay__str_join(path, sizeof path, "sandboxes/", dir, NULL);
    if (mkdirat(K.home_fd, path, 0711) < 0 && errno != EEXIST)
        return -1;
    CAY_AUTOFD at = openat(K.home_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (at < 0 || make_dir(at, "upper", 0755, store_id(0)) < 0)
        return -1;
    if (make_dir(at, "work", 0755, store_id(0)) < 0)
        return -1;
    struct stat st;
    if (fstatat(at, "work/work", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (!box_trash(at, "work") || make_dir(at, "work", 0755, store_id(0)) < 0)
        return -1;
    return 0;
}

/* Root mode. The mounter's fsuid must lie in the block, or overlayfs cannot make its work directory and comes up
 * read-only without a word. lower_fd: a detached directory instead of the default layer, or -1. */
int rootfs_overlay(box *b, const char *dir, bool durable, int lower_fd)
{
    const char *step;
    int mnt = -1;
    if (mnt_move(b->clone_fd[0], "", AT_FDCWD, "/m/sandboxes", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -1;
    if (mnt_move(b->clone_fd[1], "", AT_FDCWD, "/m/layers", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        goto out;
    if (lower_fd >= 0 && mnt_move(lower_fd, "", AT_FDCWD, "/l", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        goto out;
    if (chdir("/m") < 0)
        goto out;
    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP);
    setfsgid(b->block);
    setfsuid(b->block);
    mnt = cay__overlay(lower_fd >= 0 ? NULL : K.layer, "/l", dir, false, !durable, &step);
    int e = errno;
    setfsuid(0);
    setfsgid(0);
    prctl(PR_SET_SECUREBITS, 0);
    errno = e;
out:;
    int saved = errno;
    if (chdir("/") < 0)
        abort();
    errno = saved;
    return mnt;
}

/* What rootfs_overlay() attached, if anything. Each of these waits for a grace period, so init is told first. */
void rootfs_release(void)
{
    umount2("/m/sandboxes", MNT_DETACH);
    umount2("/m/layers", MNT_DETACH);
    umount2("/l", MNT_DETACH);
}
