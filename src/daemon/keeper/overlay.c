/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay.h"
#include <base/base.h>
#include <base/kernel.h>
#include <proto/mnt.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

/* The same bits for mount(2) and fsmount(2). */
static unsigned mount_flags(void)
{
    unsigned flags = MS_NOSUID | MS_NODEV;
    _Static_assert(MS_NOSUID == MOUNT_ATTR_NOSUID && MS_NODEV == MOUNT_ATTR_NODEV, "");
    if (CAY__MUTANT("nosuid"))
        flags &= ~(unsigned)MS_NOSUID;
    if (CAY__MUTANT("nodev"))
        flags &= ~(unsigned)MS_NODEV;
    return flags;
}

static bool set_string(int fs, const char *key, const char *value)
{
    return syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0) == 0;
}

/* The directory `name` below `dir`, by descriptor (Linux 6.13). */
static bool set_fd(int fs, const char *key, int dir, const char *name)
{
    CAY_AUTOFD fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, key, NULL, fd) == 0;
}

static const char *missing_layer(const char *name)
{
    static char missing[80];
    CAY_JOIN(missing, "layer ", name);
    return missing;
}

/* The uppermost comes first. */
static bool set_layers_fd(int fs, const overlay_at *at, const char **step)
{
    char upper[96], work[96];
    errno = EINVAL;
    if (cay__kernel_lacks(CAY_KERNEL_OVERLAY_FD))
        return false;
    const char *key = "lowerdir+";
    for (size_t i = at->n; i-- > 0;)
        if (!set_fd(fs, key, at->layers, at->layer[i])) {
            *step = missing_layer(at->layer[i]);
            return false;
        }
    CAY_JOIN(upper, at->dir, "/upper");
    CAY_JOIN(work, at->dir, "/work");
    return (at->base < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, key, NULL, at->base) == 0) &&
           set_fd(fs, "upperdir", at->boxes, upper) && set_fd(fs, "workdir", at->boxes, work);
}

static bool set_layer_name(int fs, const overlay_at *at)
{
    char upper[96], work[96];
    CAY_JOIN(upper, "../sandboxes/", at->dir, "/upper");
    CAY_JOIN(work, "../sandboxes/", at->dir, "/work");
    const char *lower = "/l";
    if (at->base < 0)
        lower = at->layer[0];
    return set_string(fs, "lowerdir", lower) && set_string(fs, "upperdir", upper) &&
           set_string(fs, "workdir", work);
}

static const char *redirect_of(const overlay_at *at, bool user_xattr)
{
    if (user_xattr || at->still)
        return "nofollow";
    return "on";
}

static int mount_detached(const overlay_at *at, bool user_xattr, bool is_volatile,
                          const char **step)
{
    CAY_AUTOFD fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
    *step = "overlay";
    if (fs < 0)
        return -1;
    *step = "layers";
    bool ok = at->boxes >= 0 && set_layers_fd(fs, at, step);
    if (at->boxes < 0)
        ok = set_layer_name(fs, at);
    if (!ok)
        return -1;
    *step = "overlay options";
    if (!set_string(fs, "redirect_dir", redirect_of(at, user_xattr)) ||
        !set_string(fs, "index", "off") || !set_string(fs, "metacopy", "off"))
        return -1;
    if (user_xattr && syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
        return -1;
    if (is_volatile && syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0)
        return -1;
    *step = "overlay";
    if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, mount_flags());
}

/* Layers and what is below them, with colons between. */
static bool add_layers(char *options, size_t cap, const overlay_at *at, const char **step)
{
    struct stat st;
    size_t len = strlen(options);
    for (size_t i = at->n; i-- > 0; len += strlen(options + len)) {
        if (stat(at->layer[i], &st) < 0) {
            *step = missing_layer(at->layer[i]);
            return false;
        }
        errno = E2BIG;
        if (!cay__str_join(options + len, cap - len, at->layer[i], ":", NULL))
            return false;
    }
    if (at->base >= 0)
        return cay__str_join(options + len, cap - len, "/l", NULL);
    options[len - 1] = 0;
    return true;
}

/* All in one string of a page, which every kernel takes by mount(2): fsconfig(2) has 255 bytes for
 * a string, and takes layers one by one only since Linux 6.7. */
static int mount_by_names(const overlay_at *at, const char *spot, bool user_xattr, bool is_volatile,
                          const char **step)
{
    char options[4096];
    const char *xattr = "", *unsynced = "";
    if (user_xattr)
        xattr = ",userxattr";
    if (is_volatile)
        unsynced = ",volatile";
    *step = "layers";
    CAY_JOIN(options, "index=off,metacopy=off,redirect_dir=", redirect_of(at, user_xattr), xattr,
             unsynced, ",upperdir=../sandboxes/", at->dir, "/upper,workdir=../sandboxes/", at->dir,
             "/work,lowerdir=");
    if (!add_layers(options, sizeof options, at, step))
        return -1;
    *step = "overlay";
    if (mount("overlay", spot, "overlay", mount_flags(), options) < 0)
        return -1;
    int mnt = mnt_open_tree(AT_FDCWD, spot, OPEN_TREE_CLONE), e = errno;
    umount2(spot, MNT_DETACH);
    errno = e;
    return mnt;
}

int cay__overlay(const overlay_at *at, const char *spot, bool user_xattr, bool is_volatile,
                 const char **step)
{
    CAY_AUTOFD mnt = -1;
    if (spot)
        mnt = mount_by_names(at, spot, user_xattr, is_volatile, step);
    else
        mnt = mount_detached(at, user_xattr, is_volatile, step);
    if (mnt < 0)
        return -1;
    /* With an upper it cannot write to, overlayfs comes up read-only and says nothing. */
    struct statvfs v;
    if (fstatvfs(mnt, &v) < 0)
        return -1;
    if (v.f_flag & ST_RDONLY) {
        *step = "overlay is read-only";
        errno = EROFS;
        return -1;
    }
    return CAY_STEAL_FD(mnt);
}
