/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-pid1 storage make NAME, cay-pid1 storage show NAME TARGET: storage is mounted by programs of
 * the image below CAY__PID1_PLACE, memory that the engine gives each life anew and that root alone
 * enters, and shown at its target from there. Who works in the container may have planted links on
 * the way to a target, in this life or a former one: each part of it is opened without following
 * any, and the mount goes to what was opened.
 */
#include <proto/relay.h>
#include <base/base.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#define MEMORY 0x01021994 /* TMPFS_MAGIC */

/* One of another owner, or on a disk, is not the engine's. */
static int open_place(void)
{
    struct stat st;
    struct statfs fs;
    CAY_AUTOFD fd = open(CAY__PID1_PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != MEMORY ||
        st.st_uid != 0 || fchmod(fd, 0700) < 0)
        return -1;
    return CAY_STEAL_FD(fd);
}

static int ensure_subdir(int at, const char *part)
{
    int fd = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && mkdirat(at, part, 0755) == 0)
        fd = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd;
}

int cay__attach_open(int root, const char *target)
{
    int at = dup(root);
    while (at >= 0) {
        char part[NAME_MAX + 1] = "";
        target += strspn(target, "/");
        size_t n = strcspn(target, "/");
        if (!n)
            return at;
        memcpy(part, target, CAY_MIN(n, sizeof part - 1));
        target += n;
        errno = ENOTDIR;
        int next = n < sizeof part && strcmp(part, ".") && strcmp(part, "..")
                       ? ensure_subdir(at, part)
                       : -1,
            sys = errno;
        close(at);
        errno = sys;
        at = next;
    }
    return -1;
}

static int mount_storage(const char *name, const char *target)
{
    char from[sizeof CAY__PID1_PLACE + 32], to[32];
    CAY_AUTOFD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
               fd = root < 0 ? -1 : cay__attach_open(root, target);
    if (fd < 0) {
        if (errno == ENOTDIR || errno == ELOOP)
            return CAY__ATTACH_WAY;
        return CAY__ATTACH_FAILED;
    }
    CAY_FORMAT(to, "/proc/self/fd/%d", fd);
    if (!CAY_JOIN(from, CAY__PID1_PLACE "/", name) || mount(from, to, NULL, MS_BIND, NULL) < 0)
        return CAY__ATTACH_FAILED;
    return 0;
}

int cay__attach_main(int argc, char **argv)
{
    const char *what = "", *name = "";
    if (argc > 3) {
        what = argv[2];
        name = argv[3];
    }
    CAY_AUTOFD place = open_place();
    umask(022);
    if (place < 0)
        return CAY__ATTACH_PLACE;
    if (strchr(name, '/') || !*name || *name == '.')
        return CAY__ATTACH_FAILED;
    if (!strcmp(what, "make") && argc == 4) {
        if (mkdirat(place, name, 0700) == 0)
            return 0;
        return CAY__ATTACH_FAILED;
    }
    if (!strcmp(what, "show") && argc == 5)
        return mount_storage(name, argv[4]);
    return CAY__ATTACH_FAILED;
}
