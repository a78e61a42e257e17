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

int cay__overlay(const char *layer, const char *lower, const char *dir, bool user_xattr, bool is_volatile,
                 const char **step)
{
    char low[128], upper[128], work[128];
    if (layer)
        cay__str_join(low, sizeof low, "layers/", layer, NULL);
    else
        cay__str_copy(low, sizeof low, lower);
    cay__str_join(upper, sizeof upper, "sandboxes/", dir, "/upper", NULL);
    cay__str_join(work, sizeof work, "sandboxes/", dir, "/work", NULL);

    CAY_AUTOFD fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
    *step = "overlay";
    if (fs < 0)
        return -1;
    *step = low;
    if (!set(fs, "lowerdir", low) || !set(fs, "upperdir", upper) || !set(fs, "workdir", work)) {
        *step = "layers";
        return -1;
    }
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
