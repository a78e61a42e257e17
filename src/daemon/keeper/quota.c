/* SPDX-License-Identifier: Apache-2.0 */
#include "quota.h"
#include <base/base.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

static int call_quotactl(int cmd, uint32_t project, struct if_dqblk *q)
{
    CAY_AUTOFD here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (here < 0)
        return -1;
    return (int)syscall(SYS_quotactl_fd, here, QCMD(cmd, PRJQUOTA), project, q);
}

uint32_t quota_project(const char *dir)
{
    struct fsxattr x;
    CAY_AUTOFD fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0)
        return x.fsx_projid;
    return 0;
}

bool quota_used(uint32_t project, uint64_t *bytes, uint64_t *inodes)
{
    struct if_dqblk q;
    if (!project || call_quotactl(Q_GETQUOTA, project, &q) < 0)
        return false;
    *bytes = q.dqb_curspace;
    *inodes = q.dqb_curinodes;
    return true;
}

void quota_forget(uint32_t project)
{
    struct if_dqblk none = { .dqb_valid = QIF_LIMITS };
    if (project)
        call_quotactl(Q_SETQUOTA, project, &none);
}
