/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"
#include "base.h"
#include <dirent.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define TRIES 64 /* another program takes the free device that we were told of */

static int open_loop(const char *number, char path[32])
{
    if (cay__str_join(path, 32, "/dev/loop", number, NULL))
        return open(path, O_RDWR | O_CLOEXEC);
    return -1;
}

/* Looked at while it is held: a device that is open is not taken away from below us. */
static bool is_backed_by(int loop, const struct stat *st)
{
    struct loop_info64 i;
    return ioctl(loop, LOOP_GET_STATUS64, &i) == 0 && i.lo_device == st->st_dev &&
           i.lo_inode == st->st_ino;
}

/* The device that shows this file already; -1: none does. */
static int find_loop(const struct stat *st, char path[32])
{
    char bound[64];
    int loop = -1;
    DIR *d = opendir("/sys/block");
    for (struct dirent *e; d && loop < 0 && (e = readdir(d));) {
        if (!cay__str_starts(e->d_name, "loop") ||
            !CAY_JOIN(bound, "/sys/block/", e->d_name, "/loop") || access(bound, F_OK) < 0)
            continue;
        if ((loop = open_loop(e->d_name + 4, path)) >= 0 && !is_backed_by(loop, st))
            cay__close_fd(&loop);
    }
    if (d)
        closedir(d);
    return loop;
}

/* A free one, from the first moment on such that it goes with its last user. */
static int attach_loop(int image, char path[32])
{
    struct loop_config c = { .fd = (uint32_t)image, .info = { .lo_flags = LO_FLAGS_AUTOCLEAR } };
    CAY_AUTOFD control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    char n[21];
    for (int i = 0; control >= 0 && i < TRIES; i++) {
        int free_ = ioctl(control, LOOP_CTL_GET_FREE);
        CAY_AUTOFD loop = -1;
        if (free_ >= 0)
            loop = open_loop(cay__str_u64(n, (uint64_t)free_), path);
        if (loop < 0)
            return -1;
        if (ioctl(loop, LOOP_CONFIGURE, &c) == 0)
            return CAY_STEAL_FD(loop);
        if (errno != EBUSY)
            return -1;
    }
    return -1;
}

static int mount_it(const char *device)
{
    CAY_AUTOFD fs = (int)syscall(SYS_fsopen, "ext4", FSOPEN_CLOEXEC);
    if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "discard", NULL, 0) <
            0 || /* what is removed inside is given back outside */
        syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) <
            0 || /* holes are zero already */
        syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

bool cay__image_mounted(int image)
{
    struct stat st;
    char path[32];
    CAY_AUTOFD loop = -1;
    if (fstat(image, &st) >= 0)
        loop = find_loop(&st, path);
    return loop >= 0;
}

int cay__image_mount(int image, const char **step)
{
    struct stat st;
    char path[32];
    *step = "lock the image";
    if (fstat(image, &st) < 0 ||
        flock(image, LOCK_EX) < 0) /* two devices over one file would ruin it */
        return -1;
    *step = "loop device";
    CAY_AUTOFD loop = find_loop(&st, path);
    if (loop < 0)
        loop = attach_loop(image, path);
    int mnt = -1;
    if (loop >= 0) {
        *step = "mount the image";
        mnt = mount_it(path);
    }
    int e = errno;
    flock(image, LOCK_UN);
    errno = e;
    return mnt;
}
