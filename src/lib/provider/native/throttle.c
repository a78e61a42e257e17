/* SPDX-License-Identifier: Apache-2.0 */
#include "box.h"
#include <base/base.h>
#include <sys/sysmacros.h>

/* "36 35 0:31 /sub /mnt rw shared:1 - btrfs /dev/sda2 rw": what a descriptor's mount is of, and
 * from where. */
static bool mount_of(int fd, char *type, char *source, size_t cap)
{
    char path[64], info[256], *line = NULL, *save;
    size_t room = 0;
    bool found = false;
    CAY_FORMAT(path, "/proc/self/fdinfo/%d", fd);
    const char *id = NULL;
    if (cay__fd_read_file(AT_FDCWD, path, info, sizeof info) > 0)
        id = strstr(info, "mnt_id:\t");
    FILE *f = NULL;
    if (id)
        f = fopen("/proc/self/mountinfo", "re");
    while (f && !found && getline(&line, &room, f) > 0) {
        char *dash = strstr(line, " - ");
        if (!dash || strtoull(line, NULL, 10) != strtoull(id + strlen("mnt_id:\t"), NULL, 10))
            continue;
        const char *t = strtok_r(dash + 3, " \n", &save), *s = strtok_r(NULL, " \n", &save);
        found = t && s && cay__str_copy(type, cap, t) && cay__str_copy(source, cap, s);
    }
    free(line);
    if (f)
        fclose(f);
    return found;
}

/* Of a partition the disk that it is a part of; any other is one itself. */
static bool whole_disk(dev_t part, dev_t *out)
{
    char path[80], text[32], *end;
    CAY_FORMAT(path, "/sys/dev/block/%u:%u/partition", major(part), minor(part));
    *out = part;
    if (access(path, F_OK) < 0)
        return errno == ENOENT;
    CAY_FORMAT(path, "/sys/dev/block/%u:%u/../dev", major(part), minor(part));
    if (cay__fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    unsigned long maj = strtoul(text, &end, 10);
    if (*end != ':')
        return false;
    *out = makedev((unsigned)maj, (unsigned)strtoul(end + 1, NULL, 10));
    return true;
}

int cay__throttle_disk(int home_fd, const char *home, uint64_t *dev, cay_err *err)
{
    char type[256] = "a filesystem that has no name", source[256] = "";
    struct stat st, disk;
    dev_t whole;
    CAY_TRY_SYS(fstat(home_fd, &st), err, "state directory %s", home);
    dev_t part = st.st_dev;
    bool known = mount_of(home_fd, type, source, sizeof type);
    if (!major(part)) { /* btrfs has numbers of its own; its mount names one of its disks */
        if (!known || source[0] != '/' || stat(source, &disk) < 0 || !S_ISBLK(disk.st_mode))
            return cay_fail_why(err, CAY_ENOTSUP, "io_limit_no_disk",
                                "limit of I/O: the state directory %.100s is on %.40s, which is no "
                                "disk; put it on one (CAY_HOME), or give no limit of I/O",
                                home, type);
        part = disk.st_rdev;
    }
    if (!whole_disk(part, &whole))
        return cay_fail_why(err, CAY_ENOTSUP, "io_limit_no_disk",
                            "limit of I/O: the disk of %.80s (%u:%u) below %.80s cannot be found "
                            "in /sys/dev/block; give no limit of I/O",
                            known ? source : "the filesystem", major(part), minor(part), home);
    *dev = whole;
    return 0;
}
