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

int cay__fd_parent(int dir, const char *path, bool (*make)(void *arg, int at, const char *name),
                   void *arg, char name[256])
{
    const uint64_t plain = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
                   way = O_PATH | O_DIRECTORY | O_NOFOLLOW;
    int at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (const char *p = path; at >= 0;) {
        size_t n = strcspn(p, "/");
        if (!n || n > 255 || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) {
            cay__close_fd(&at);
            if (n > 255)
                errno = ENAMETOOLONG;
            else
                errno = EINVAL;
            break;
        }
        memcpy(name, p, n);
        name[n] = 0;
        if (!p[n])
            break;
        p += n + 1;
        int next = cay__fd_openat2(at, name, way, 0, plain);
        if (next < 0 && errno == ENOENT && make && make(arg, at, name))
            next = cay__fd_openat2(at, name, way, 0, plain);
        cay__close_fd(&at);
        at = next;
    }
    return at;
}
