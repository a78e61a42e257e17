/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay.h"
#include <base/base.h>
#include <proto/mnt.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

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

static bool set_name(int fs, const char *key, const char *below, const char *name)
{
    char path[160];
    return CAY_JOIN(path, below, "/", name) && set_string(fs, key, path);
}

/* The uppermost comes first. Several by name want Linux 6.7. */
static bool set_layers(int fs, const overlay_at *at, const char **step)
{
    static char missing[80];
    bool fds = at->boxes >= 0;
    const char *key = "lowerdir";
    if (fds || at->n + (at->base >= 0) > 1)
        key = "lowerdir+";
    char upper[96], work[96];
    for (size_t i = at->n; i-- > 0;)
        if (!(fds ? set_fd(fs, key, at->layers, at->layer[i])
                  : set_name(fs, key, "layers", at->layer[i]))) {
            CAY_JOIN(missing, "layer ", at->layer[i]);
            *step = missing;
            return false;
        }
    *step = "layers";
    if (at->base >= 0 &&
        !(fds ? syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, key, NULL, at->base) == 0
              : set_string(fs, key, "/l")))
        return false;
    CAY_JOIN(upper, at->dir, "/upper");
    CAY_JOIN(work, at->dir, "/work");
    if (fds)
        return set_fd(fs, "upperdir", at->boxes, upper) && set_fd(fs, "workdir", at->boxes, work);
    return set_name(fs, "upperdir", "sandboxes", upper) &&
           set_name(fs, "workdir", "sandboxes", work);
}

int cay__overlay(const overlay_at *at, bool user_xattr, bool is_volatile, const char **step)
{
    CAY_AUTOFD fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
    *step = "overlay";
    if (fs < 0)
        return -1;
    if (!set_layers(fs, at, step))
        return -1;
    *step = "overlay options";
    if (!set_string(fs, "redirect_dir", user_xattr || at->still ? "nofollow" : "on") ||
        !set_string(fs, "index", "off") || !set_string(fs, "metacopy", "off"))
        return -1;
    if (user_xattr && syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
        return -1;
    if (is_volatile && syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0)
        return -1;
    *step = "overlay";
    if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    CAY_AUTOFD mnt = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
                                  (CAY__MUTANT("nosuid") ? 0 : MOUNT_ATTR_NOSUID) |
                                      (CAY__MUTANT("nodev") ? 0 : MOUNT_ATTR_NODEV));
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
