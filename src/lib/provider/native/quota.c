/* SPDX-License-Identifier: Apache-2.0 */
#include "root_helper.h"
#include "box.h"
#include <base/base.h>
#include <base/kernel.h>
#include <dirent.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/syscall.h>

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

#define FIRST                                                                                      \
    0x40000000u /* projects of ours: above what an administrator writes into /etc/projects */

static int control_quota(int fd, int cmd, uint32_t project, void *arg)
{
    if (cay__kernel_lacks(CAY_KERNEL_QUOTACTL_FD))
        return -1;
    return (int)syscall(SYS_quotactl_fd, fd, QCMD(cmd, PRJQUOTA), project, arg);
}

static int by_hand(int home_fd, uint32_t op, const char *name, uint64_t bytes, uint64_t inodes,
                   hand_answer *out, cay_err *err)
{
    hand_ask ask = { .verb = HAND_QUOTA, .op = op, .a = bytes, .b = inodes };
    CAY_COPY(ask.name, name);
    return cay__hand_ask(home_fd, NULL, &ask, NULL, 0, out, NULL, NULL, err);
}

bool cay__quota_there(int home_fd)
{
    hand_answer a;
    if (cay__hand_there(home_fd))
        return by_hand(home_fd, HAND_QUOTA_THERE, "", 0, 0, &a, NULL) == 0 && a.value;
    struct fs_quota_statv st = { .qs_version = FS_QSTATV_VERSION1 };
    CAY_AUTOFD fd = -1;
    if (!geteuid())
        fd = openat(home_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && control_quota(fd, Q_XGETQSTATV, 0, &st) == 0 &&
           (st.qs_flags & FS_QUOTA_PDQ_ENFD);
}

/* Links and device nodes take no ioctl; what overlayfs makes of them later inherits. */
static bool mark_inode(int fd, uint32_t project)
{
    struct fsxattr x;
    if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0)
        return errno == ENOTTY;
    x.fsx_projid = project;
    x.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    return ioctl(fd, FS_IOC_FSSETXATTR, &x) == 0;
}

/* The directory before its contents, so that whatever appears meanwhile inherits. fd is taken over.
 */
static bool mark_tree(int fd, uint32_t project, unsigned depth)
{
    CAY_AUTODIR *d = NULL;
    if (mark_inode(fd, project))
        d = fdopendir(fd);
    if (!d) {
        cay__close_fd(&fd);
        return false;
    }
    bool ok = depth < 64;
    for (struct dirent *e; ok && (e = cay__dir_next(d));) {
        if (e->d_type != DT_DIR && e->d_type != DT_REG)
            continue;
        int in = openat(dirfd(d), e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (in < 0)
            ok = errno == ENOENT;
        else if (e->d_type == DT_DIR)
            ok = mark_tree(in, project, depth + 1);
        else {
            ok = mark_inode(in, project);
            close(in);
        }
    }
    return ok;
}

/* The project a directory has, or a random new one. */
static bool pick_project(int dir, uint32_t *project, bool *fresh)
{
    struct fsxattr x;
    if (ioctl(dir, FS_IOC_FSGETXATTR, &x) < 0)
        return false;
    *fresh = x.fsx_projid < FIRST;
    *project = x.fsx_projid;
    if (*fresh && getrandom(project, sizeof *project, 0) != sizeof *project)
        return false;
    if (*fresh)
        *project = FIRST | (*project & (FIRST - 1));
    return true;
}

/* A sandbox that is started again has its project already; only its work directory is new, and a
 * rename out of another project would be refused (EXDEV), so it has to have the same. */
static bool give_project(int dir, uint32_t *project)
{
    bool fresh;
    if (!pick_project(dir, project, &fresh))
        return false;
    int in = openat(dir, fresh ? "." : "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return in >= 0 && mark_tree(in, *project, 0);
}

int cay__quota_set(int home_fd, const char *id, uint64_t disk, uint64_t inodes, cay_err *err)
{
    char path[48];
    uint32_t project = 0;
    struct if_dqblk q = { .dqb_bhardlimit =
                              disk == CAY_UNLIMITED ? 0 : CAY_MAX(disk / QIF_DQBLKSIZE, 1),
                          .dqb_ihardlimit = inodes == CAY_UNLIMITED ? 0 : inodes,
                          .dqb_valid = QIF_LIMITS };
    if (cay__hand_there(home_fd))
        return by_hand(home_fd, HAND_QUOTA_BOX, id, disk, inodes, NULL, err);
    CAY_JOIN(path, "sandboxes/", id);
    CAY_AUTOFD dir = openat(home_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || !give_project(dir, &project) || control_quota(dir, Q_SETQUOTA, project, &q) < 0)
        return cay_fail_sys(err, "set the disk quota of %s", id);
    return 0;
}

static int open_volume(int home_fd, const char *name)
{
    char path[80];
    CAY_JOIN(path, "volumes/", name);
    return openat(home_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int cay__quota_volume(int home_fd, const char *name, uint64_t bytes, cay_err *err)
{
    struct if_dqblk q = { .dqb_bhardlimit = CAY_MAX(bytes / QIF_DQBLKSIZE, 1),
                          .dqb_valid = QIF_LIMITS };
    uint32_t project = 0;
    if (cay__hand_there(home_fd))
        return by_hand(home_fd, HAND_QUOTA_VOLUME, name, bytes, 0, NULL, err);
    CAY_AUTOFD dir = open_volume(home_fd, name);
    CAY_AUTOFD tree = -1;
    if (dir >= 0)
        tree = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0 || !pick_project(dir, &project, &(bool){ false }) ||
        !mark_tree(CAY_STEAL_FD(tree), project, 0) ||
        control_quota(dir, Q_SETQUOTA, project, &q) < 0)
        return cay_fail_sys(err, "set the disk quota of volume %s", name);
    return 0;
}

void cay__quota_drop(int home_fd, const char *name)
{
    struct if_dqblk none = { .dqb_valid = QIF_LIMITS };
    struct fsxattr x;
    if (cay__hand_there(home_fd)) {
        by_hand(home_fd, HAND_QUOTA_DROP, name, 0, 0, NULL, NULL);
        return;
    }
    CAY_AUTOFD dir = open_volume(home_fd, name);
    if (dir >= 0 && ioctl(dir, FS_IOC_FSGETXATTR, &x) == 0 && x.fsx_projid >= FIRST)
        control_quota(dir, Q_SETQUOTA, x.fsx_projid, &none);
}
