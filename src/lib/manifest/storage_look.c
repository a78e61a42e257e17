/* SPDX-License-Identifier: Apache-2.0 */
#include "storage.h"
#include <base/base.h>
#include <base/str.h>
#include <fcntl.h>
#include <proto/mount.h>
#include <sys/file.h>

/* The marks say what ended; a file that nobody holds, that cay-mount itself was killed, and rclone
 * with it. */
void cay__storage_look(int home_fd, const char *id,
                       void (*fn)(const char *target, const char *why, void *arg), void *arg)
{
    char path[64];
    cay_mount_mark m;
    cay__str_join(path, sizeof path, "mounts/", id, NULL);
    CAY_AUTOFD fd = openat(home_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    bool served = flock(fd, LOCK_SH | LOCK_NB) < 0;
    for (off_t at = 0; pread(fd, &m, sizeof m, at) == (ssize_t)sizeof m; at += (off_t)sizeof m) {
        m.target[sizeof m.target - 1] = m.why[sizeof m.why - 1] = 0;
        fn(m.target, *m.why || served ? m.why : "cay-mount, which ran rclone for it, was killed",
           arg);
    }
}
