/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include "fd.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

int cay__fd_openat2(int dir, const char *path, uint64_t flags, uint32_t mode, uint64_t resolve)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC,
        .mode = (flags & (O_CREAT | O_TMPFILE)) ? mode : 0,
        .resolve = resolve | RESOLVE_NO_MAGICLINKS,
    };
    /* EAGAIN: somebody renames below us while ".." is resolved; security.md allows 128 tries. */
    for (int i = 0; i < 128; i++) {
        long fd = syscall(SYS_openat2, dir, path, &how, sizeof how);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
            return (int)fd;
    }
    return -1;
}
