/* SPDX-License-Identifier: Apache-2.0 */
/* A small file that holds disk space for bad times: see db.h. */
#include "db.h"
#include <base/base.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define RESERVE    (8 << 20)
#define LEAVE_FREE (64 << 20) /* a disk with less than this is not made fuller */

void cay__reserve_make(int dir)
{
    struct stat st;
    struct statvfs fs;
    if (fstatat(dir, "reserve", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size >= RESERVE)
        return;
    if (fstatvfs(dir, &fs) < 0 || (uint64_t)fs.f_bavail * fs.f_frsize < RESERVE + LEAVE_FREE)
        return;
    CAY_AUTOFD fd = openat(dir, "reserve", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && posix_fallocate(fd, 0, RESERVE) != 0 && ftruncate(fd, 0) < 0)
        unlinkat(dir, "reserve", 0);
}

bool cay__reserve_release(int dir)
{
    struct stat st;
    CAY_AUTOFD fd = openat(dir, "reserve", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_blocks > 0 && ftruncate(fd, 0) == 0;
}
