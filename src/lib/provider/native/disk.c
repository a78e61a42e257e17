/* SPDX-License-Identifier: Apache-2.0 */
#include "disk.h"
#include "native.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/fsop.h>
#include <base/image.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define BLOCK   4096u
#define JOURNAL 4u /* MiB; the least: after a power cut a mount makes it whole */
#define NAME    "image"
enum { TRIES = 3, GONE_MS = 5000 };

static const char *find_mkfs(void)
{
    static const char *const at[] = { "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4" };
    CAY_EACH(it, at)
        if (access(*it, X_OK) == 0)
            return *it;
    return NULL;
}

bool cay__disk_there(void)
{
    return geteuid() == 0 && find_mkfs() && access("/dev/loop-control", R_OK | W_OK) == 0;
}

static int run_mkfs(int image, uint64_t inodes, bool journal, cay_err *err)
{
    char count[21], size[24], *env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL };
    CAY_FORMAT(size, "size=%u", JOURNAL);
    const char *argv[] = { "mkfs.ext4",
                           "-q",
                           "-F",
                           "-b",
                           "4096",
                           "-I",
                           "256",
                           "-m",
                           "0",
                           "-N",
                           cay__str_u64(count, inodes),
                           "-E",
                           "lazy_itable_init=1,nodiscard",
                           journal ? "-J" : "-O",
                           journal ? size : "^has_journal",
                           "/proc/self/fd/3",
                           NULL };
    pid_t pid;
    int status = 0;
    CAY_AUTOFD null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CAY_TRY_SYS(null, err, "start mkfs.ext4");
    errno = cay__native_program(CAY_OR(find_mkfs(), "mkfs.ext4"), argv, env,
                                (int[]){ null, null, null, image }, 0, 4, &pid);
    if (errno)
        return cay_fail_sys(err, "start mkfs.ext4");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status)
        return cay_fail_why(err, CAY_ESYS, "disk_image",
                            "mkfs.ext4 could not make the disk image (status %d); is there "
                            "room in the state directory?",
                            status);
    return 0;
}

static int mount_image(int image, int *mnt, cay_err *err)
{
    const char *step;
    int fd = cay__image_mount(image, &step);
    CAY_TRY_SYS(fd, err, "disk image: %s", step);
    *mnt = fd;
    return 0;
}

/* Its last user may still be on the way out, and its loop device with it. */
static bool let_go(int image)
{
    for (int64_t end = cay__now_ms() + GONE_MS; cay__image_mounted(image);) {
        if (cay__now_ms() >= end)
            return false;
        usleep(2000);
    }
    return true;
}

/* Its own tables take room as well, how much only mkfs knows: so it is made, looked at, and made
 * anew with what was missing. */
static int format_image(int image, const cay_limits *l, bool journal, int *mnt, cay_err *err)
{
    uint64_t inodes = CAY_MIN(l->inodes, l->disk / BLOCK + 1024) +
                      16; /* those of its own; and no more than could hold anything */
    uint64_t size =
        l->disk + inodes * 256 + (journal ? JOURNAL << 20 : 0) + l->disk / 64 + (1u << 20);
    struct statfs st;
    for (int i = 0; i < TRIES; i++) {
        CAY_AUTOFD at = -1;
        size = (size + BLOCK - 1) / BLOCK * BLOCK;
        if (i && !let_go(image)) /* a device of the former size would show it cut */
            return cay_fail_why(err, CAY_ESYS, "disk_image",
                                "disk image: its loop device does not go away");
        if (ftruncate(image, 0) < 0 || ftruncate(image, (off_t)size) < 0)
            return cay_fail_sys(err, "disk image of %llu bytes", (unsigned long long)size);
        CAY_TRY(run_mkfs(image, inodes, journal, err));
        CAY_TRY(mount_image(image, &at, err));
        CAY_TRY_SYS(fstatfs(at, &st), err, "look at the disk image");
        uint64_t room = (uint64_t)st.f_bavail * (uint64_t)st.f_bsize,
                 off = room > l->disk ? room - l->disk : l->disk - room;
        if (off <= l->disk / 64 + 16 * BLOCK || i == TRIES - 1) {
            unlinkat(at, "lost+found", AT_REMOVEDIR);
            *mnt = CAY_STEAL_FD(at);
            return 0;
        }
        if (room > l->disk)
            size = size - off;
        else
            size = size + off;
    }
    return 0;
}

static int set_spare(int mnt, cay_err *err)
{
    CAY_AUTOFD spare = openat(mnt, "spare", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (spare < 0 || fallocate(spare, 0, 0, CAY__DISK_SPARE) < 0)
        return cay_fail_sys(err, "disk image");
    return 0;
}

static int box_dir(int home_fd, const char *id, bool make)
{
    char path[48];
    CAY_JOIN(path, "sandboxes/", id);
    if (make && mkdirat(home_fd, path, 0711) < 0 && errno != EEXIST)
        return -1;
    return openat(home_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool cay__disk_kept(int home_fd, const char *id)
{
    struct stat st;
    CAY_AUTOFD dir = box_dir(home_fd, id, false);
    return dir >= 0 && fstatat(dir, NAME, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int cay__disk_make(int home_fd, const char *id, const cay_limits *limits, bool ephemeral, int *mnt,
                   cay_err *err)
{
    CAY_AUTOFD dir = -1, image = -1;
    if (ephemeral)
        image = openat(home_fd, "sandboxes", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    else if ((dir = box_dir(home_fd, id, true)) >= 0)
        image = openat(dir, NAME, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    CAY_TRY_SYS(image, err, "make a disk image for %s", id);
    CAY_FAULT("disk.image");
    CAY_AUTOFD at = -1;
    int rc = format_image(image, limits, !ephemeral, &at, err);
    if (rc == 0)
        rc = set_spare(at, err);
    CAY_FAULT("disk.made");
    if (rc < 0 && dir >= 0)
        unlinkat(dir, NAME, 0);
    if (rc == 0)
        *mnt = CAY_STEAL_FD(at);
    return rc;
}

/* A work directory that was used with `volatile` is refused; the zygote makes another. */
int cay__disk_again(int home_fd, const char *id, int *mnt, int *spare, cay_err *err)
{
    CAY_AUTOFD dir = box_dir(home_fd, id, false);
    CAY_AUTOFD image = dir < 0 ? -1 : openat(dir, NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC), at = -1;
    CAY_TRY_SYS(image, err, "open the disk image of %s", id);
    /* Its former life may still be on the way out, and holds what is about to be removed: a full
     * disk has no other room for the next one. */
    let_go(image);
    CAY_TRY(mount_image(image, &at, err));
    if (cay__fs_remove(&(cay__fs){ .root = at }, "/work", true) < 0 && errno != ENOENT)
        return cay_fail_sys(err, "disk image of %s: remove its work directory", id);
    /* By a mount of its own: one that has writers cannot show other owners. */
    CAY_AUTOFD other = -1;
    CAY_TRY(mount_image(image, &other, err));
    *spare = openat(other, "spare", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (*spare >= 0 && ftruncate(*spare, 0) < 0)
        cay__close_fd(spare);
    syncfs(at); /* what was removed can be used again only then */
    *mnt = CAY_STEAL_FD(at);
    return 0;
}

/* No volume's name begins with a dot, and nothing that a sandbox writes is beside them: what is
 * mounted is never a file of a tenant's. */
static void volume_path(char path[96], const char *prefix, const char *name)
{
    cay__str_join(path, 96, "volumes/", prefix, name, NULL);
}

bool cay__disk_volume_there(int home_fd, const char *name)
{
    char path[96];
    struct stat st;
    volume_path(path, ".image-", name);
    return fstatat(home_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int cay__disk_volume_make(int home_fd, const char *name, uint64_t bytes, uint32_t owner,
                          cay_err *err)
{
    char path[96], fresh[96];
    volume_path(path, ".image-", name);
    volume_path(fresh, ".new-", name);
    if (cay__disk_volume_there(home_fd, name))
        return 0;
    if (mkdirat(home_fd, "volumes", 0711) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make volumes");
    CAY_AUTOFD image = openat(home_fd, fresh, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                              0600),
               at = -1;
    CAY_TRY_SYS(image, err, "make a disk image");
    CAY_FAULT("disk.volume.image");
    int rc = format_image(image, &(cay_limits){ .disk = bytes, .inodes = CAY_UNLIMITED }, true, &at,
                          err);
    if (rc == 0 && (fchownat(at, "", owner, owner, AT_EMPTY_PATH) < 0 ||
                    renameat(home_fd, fresh, home_fd, path) < 0))
        rc = cay_fail_sys(err, "disk image");
    if (rc < 0)
        unlinkat(home_fd, fresh, 0);
    return rc;
}

int cay__disk_volume_mount(int home_fd, const char *name, int *mnt, cay_err *err)
{
    char path[96];
    volume_path(path, ".image-", name);
    CAY_AUTOFD image = openat(home_fd, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (image < 0) {
        if (errno == ENOENT)
            return CAY_ENOENT;
        return cay_fail_sys(err, "open the disk image of volume %s", name);
    }
    return mount_image(image, mnt, err);
}

void cay__disk_volume_remove(int home_fd, const char *name)
{
    char path[96];
    volume_path(path, ".new-", name);
    unlinkat(home_fd, path, 0);
    volume_path(path, ".image-", name);
    unlinkat(home_fd, path, 0);
}
