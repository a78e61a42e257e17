/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay.h"
#include <base/base.h>
#include <base/str.h>
#include <keeper/mnt.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

static bool set(int fs, const char *key, const char *value)
{
    return syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0) == 0;
}

static bool set_layers(int fs, const overlay_at *at)
{
    char low[128] = "/l", upper[128], work[128];
    if (at->upper >= 0)
        return syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, "lowerdir+", NULL, at->lower) == 0 &&
               syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, "upperdir", NULL, at->upper) == 0 &&
               syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, "workdir", NULL, at->work) == 0;
    if (at->layer)
        cay__str_join(low, sizeof low, "layers/", at->layer, NULL);
    cay__str_join(upper, sizeof upper, "sandboxes/", at->dir, "/upper", NULL);
    cay__str_join(work, sizeof work, "sandboxes/", at->dir, "/work", NULL);
    return set(fs, "lowerdir", low) && set(fs, "upperdir", upper) && set(fs, "workdir", work);
}

int cay__overlay(const overlay_at *at, bool user_xattr, bool is_volatile, const char **step)
{
    CAY_AUTOFD fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
    *step = "overlay";
    if (fs < 0)
        return -1;
    *step = "layers";
    if (!set_layers(fs, at))
        return -1;
    *step = "overlay options";
    if (!set(fs, "redirect_dir", user_xattr ? "nofollow" : "on") || !set(fs, "index", "off") ||
        !set(fs, "metacopy", "off"))
        return -1;
    if (user_xattr && syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
        return -1;
    if (is_volatile && syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0)
        return -1;
    *step = "overlay";
    if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    CAY_AUTOFD mnt = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, (CAY__MUTANT("nosuid") ? 0 : MOUNT_ATTR_NOSUID) | (CAY__MUTANT("nodev") ? 0 : MOUNT_ATTR_NODEV));
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
