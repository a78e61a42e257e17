/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper program, which is also init: "zygote" parks sandboxes and makes roots, "janitor"
 * clones grants, "sweeper" removes and measures trees, "lender" speaks with cay-egress. Started by
 * the keeper from a sealed memfd, in the keeper's user namespace; leaves when the keeper does.
 */
#include "job.h"
#include "lend.h"
#include <proto/mnt.h>
#include <daemon/init/init.h>
#include "root.h"
#include <base/base.h>
#include <base/kernel.h>
#include <base/fault.h>
#include <dirent.h>
#include <proto/init.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

#define QUOTA_FIRST 0x40000000u /* projects of ours, as lib/provider/native/quota.c picks them */

#define SOCK        3

static keeper_job job;

/* The project quota of a sandbox's directory. The client sets it (lib/provider/native/quota.h). */
static int call_quotactl(int cmd, uint32_t project, struct if_dqblk *q)
{
    CAY_AUTOFD here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (here < 0 || cay__kernel_lacks(CAY_KERNEL_QUOTACTL_FD))
        return -1;
    return (int)syscall(SYS_quotactl_fd, here, QCMD(cmd, PRJQUOTA), project, q);
}

/* The project of a directory below the working directory; 0: none. */
static uint32_t quota_project(const char *dir)
{
    struct fsxattr x;
    CAY_AUTOFD fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0)
        return x.fsx_projid;
    return 0;
}

/* What the project's files take; false when the kernel does not count. */
static bool quota_used(uint32_t project, uint64_t *bytes, uint64_t *inodes)
{
    struct if_dqblk q;
    if (!project || call_quotactl(Q_GETQUOTA, project, &q) < 0)
        return false;
    *bytes = q.dqb_curspace;
    *inodes = q.dqb_curinodes;
    return true;
}

/* Takes the limits away, so that the kernel's table does not grow for ever. */
static void quota_forget(uint32_t project)
{
    struct if_dqblk none = { .dqb_valid = QIF_LIMITS };
    if (project)
        call_quotactl(Q_SETQUOTA, project, &none);
}

static void send_result(cay_job_done *d, const int *fds, int nfds)
{
    d->seq = job.seq;
    cay__fd_send(SOCK, d, sizeof *d, fds, nfds, 0);
}

static void send_failure(const char *step, bool shared)
{
    cay_job_done d = { .sys = CAY_OR(errno, EIO), .shared = shared };
    CAY_COPY(d.step, step);
    send_result(&d, NULL, 0);
}

static void run_park_job(void)
{
    park_result r = { .pidfd = -1, .ctl = -1, .userns = -1, .net = { .fd = { -1, -1, -1, -1 } } };
    const char *step = park(&job, SOCK, &r);
    if (step) {
        send_failure(step, r.shared);
    } else {
        CAY_FAULT("zygote.park.answer");
        cay_job_done d = { .pid = r.pid,
                           .start = r.start,
                           .trash = r.trash,
                           .how = (uint32_t)r.net.how,
                           .cookie = r.net.cookie };
        int out[3 + CAY__NET_FDS] = { r.pidfd,     r.ctl,       r.userns,   r.net.fd[0],
                                      r.net.fd[1], r.net.fd[2], r.net.fd[3] };
        send_result(&d, out, r.net.how ? 3 + CAY__NET_FDS : 3);
    }
    cay__close_fd(&r.pidfd);
    cay__close_fd(&r.ctl);
    cay__close_fd(&r.userns);
    netns_close(&r.net);
}

/* Another root than the default one. */
static void run_root_job(const int *fds, int nfds)
{
    cay_job_done d = { 0 };
    bool trash = false;
    const char *step = "directories";
    CAY_AUTOFD root = -1, on = -1;
    int disk = -1, lower = -1;
    if (job.disk && nfds)
        disk = fds[nfds - 1];
    if (job.lower && nfds)
        lower = fds[0];
    int first = lower >= 0, n = 0, out[2];
    if (!root_dirs(&job, disk, &trash) ||
        (job.on && (nfds <= first || (on = root_on(&job, fds[first++], &trash, &step)) < 0)) ||
        (job.mode == CAY_MODE_ROOT && !root_map(job.block, fds + first, nfds - first, &step)) ||
        (!job.inside && (root = root_make(&job, lower, disk, &step)) < 0)) {
        send_failure(step, false);
        return;
    }
    d.trash = trash;
    if (root >= 0)
        out[n++] = root;
    if (on >= 0)
        out[n++] = on;
    send_result(&d, out, n);
}

static void run_swap_job(const int *fds, int nfds)
{
    swap_result r;
    const char *step = swap_run(&job, fds, nfds, &r);
    cay_job_done d = { .sys = step ? CAY_OR(errno, EIO) : 0,
                       .swapped = r.swapped,
                       .trash = r.trash };
    CAY_COPY(d.step, CAY_OR(step, ""));
    CAY_FAULT("zygote.swap.answer");
    send_result(&d, &r.old, r.old >= 0);
    cay__close_fd(&r.old);
}

/* The client opened the directory with its own rights and sent the descriptor; we open the same
 * path in our copy of the host's tree and go on only if both are one directory. */
static void run_clone_job(int *fds, int nfds)
{
    struct stat a, b;
    if (nfds < 1 || fstat(fds[0], &a) < 0) {
        send_failure("grant", false);
        return;
    }
    CAY_AUTOFD dir = open(job.path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &b) < 0) {
        send_failure("grant", false);
        return;
    }
    if (a.st_dev != b.st_dev || a.st_ino != b.st_ino) {
        errno = ESTALE;
        send_failure("grant changed while it was opened", false);
        return;
    }
    CAY_AUTOFD tree =
        mnt_open_tree(dir, "", OPEN_TREE_CLONE | AT_EMPTY_PATH | (job.rec ? AT_RECURSIVE : 0u));
    if (tree < 0) {
        send_failure("clone", false);
        return;
    }
    uint64_t set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                   (job.ro && !CAY__MUTANT("grant-ro") ? MOUNT_ATTR_RDONLY : 0);
    unsigned rec = 0;
    if (job.rec)
        rec = AT_RECURSIVE;
    /* Private: what the host mounts below it later must not appear inside. */
    if (mnt_setattr(tree, "", AT_EMPTY_PATH | rec, set, 0, -1) < 0 || mnt_private(tree, rec) < 0) {
        send_failure("flags", false);
        return;
    }
    cay_job_done d = { 0 };
    send_result(&d, &tree, 1);
}

#define DEPTH_REMOVE  64
#define DEPTH_MEASURE 2048 /* a path has 4095 bytes: who nests deeper means to hide */

/* A directory without rights is given some: overlay's work has mode 000. */
static int open_any(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && fchmodat(at, name, 0700, 0) == 0)
        fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd;
}

/* A tenant nests deeper than there are descriptors or stack: what lies too deep is moved up to the
 * top, to be removed from there in another round. */
static bool lift_dir(int at, const char *name)
{
    char to[128], id[CAY_WIRE_ID];
    cay__id_make(id, 'b');
    CAY_JOIN(to, job.name, "/", id);
    return renameat(at, name, AT_FDCWD, to) == 0;
}

/* Contents first. */
static bool remove_tree(int at, const char *name, unsigned depth, bool *lifted)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return true;
    if (depth > DEPTH_REMOVE) {
        if (unlinkat(at, name, AT_REMOVEDIR) == 0)
            return true;
        if (lift_dir(at, name))
            return (*lifted = true);
        return false;
    }
    int fd = open_any(at, name);
    DIR *d = NULL;
    if (fd >= 0)
        d = fdopendir(fd);
    if (!d) {
        cay__close_fd(&fd);
        return false;
    }
    bool ok = true;
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            ok &= remove_tree(dirfd(d), e->d_name, depth + 1, lifted);
    closedir(d);
    return (unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT) && ok;
}

static bool remove_job_tree(void)
{
    bool lifted;
    char upper[80];
    /* A whole sandbox takes its project along; a used work directory is only a part of one. */
    CAY_JOIN(upper, job.name, "/upper");
    uint32_t project = quota_project(upper);
    /* Of another tree, a former upper or a layer, `upper` is content and its project whose it
     * likes; a sandbox's directory is root's. */
    struct stat st;
    if (project < QUOTA_FIRST || lstat(job.name, &st) < 0 || st.st_uid != 0)
        project = 0;
    CAY_FAULT("janitor.rmtree");
    do {
        lifted = false;
        if (!remove_tree(AT_FDCWD, job.name, 0, &lifted) && !lifted)
            return false;
    } while (lifted);
    quota_forget(project);
    CAY_FAULT("janitor.rmtree.done");
    return true;
}

static void run_rmtree_job(int *fds, int nfds)
{
    cay_job_done d = { 0 };
    cay__close_fds(fds, nfds); /* what is mounted of it goes first */
    if (remove_job_tree())
        send_result(&d, NULL, 0);
    else
        send_failure("remove", false);
}

/* What cannot be seen into counts as beyond every limit. A file of many names counts once. */
static void measure_tree(int at, const char *name, cay_job_done *d, unsigned depth)
{
    struct stat st;
    if (d->inodes == UINT64_MAX || fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    bool dir_ = S_ISDIR(st.st_mode);
    d->bytes += (uint64_t)st.st_blocks * 512 / (dir_ ? 1 : CAY_MAX(st.st_nlink, 1));
    d->inodes++;
    if (!dir_)
        return;
    CAY_AUTODIR *dir = cay__dir_open(at, name);
    if (!dir || depth > DEPTH_MEASURE) {
        if (dir || errno == EMFILE || errno == ENFILE || errno == ENOMEM)
            d->bytes = d->inodes = UINT64_MAX;
        return;
    }
    for (struct dirent *e; (e = cay__dir_next(dir));)
        measure_tree(dirfd(dir), e->d_name, d, depth + 1);
}

/* What was moved out of sight and not removed, and with `rec` what a dead keeper's pool left. */
static void run_sweep_job(void)
{
    CAY_AUTODIR *d = opendir("sandboxes");
    cay_job_done done_ = { 0 };
    char name[CAY_WIRE_ID], ours[16];
    cay_job_name(name, getppid()); /* parks already, while we look */
    name[5] = 0;
    CAY_JOIN(ours, ".pool-", name);
    for (struct dirent *e; d && (e = cay__dir_next(d));) {
        if (!cay__str_starts(e->d_name, ".old-") &&
            !(job.rec && cay__str_starts(e->d_name, ".pool-") && !cay__str_starts(e->d_name, ours)))
            continue;
        if (CAY_JOIN(job.name, "sandboxes/", e->d_name))
            remove_job_tree();
    }
    send_result(&done_, NULL, 0);
}

static void run_du_job(void)
{
    cay_job_done d = { 0 };
    if (!quota_used(quota_project(job.name), &d.bytes, &d.inodes))
        measure_tree(AT_FDCWD, job.name, &d, 0);
    send_result(&d, NULL, 0);
}

#ifdef CAY_FAULTS
static void print_name(const char *name)
{
    cay__fd_write_all(1, name, strlen(name));
    cay__fd_write_all(1, "\n", 1);
}
#endif

/* argv: program, role, state directory as the helper sees it, mode, runtime directory of the host's
 * tree, the keeper's program */
int main(int argc, char **argv)
{
    sudo_main(argc, argv);
#ifdef CAY_FAULTS
    if (argc == 2 && !strcmp(argv[1], "--faults")) {
        cay__fault_list(print_name);
        return 0;
    }
    cay__fault_load();
    cay__fd_close_from(4);
#endif
    if (argc < 6 || chdir(argv[2]) < 0)
        return 2;
    /* A zygote mounts in a namespace of its own, which its children copy. */
    if (!strcmp(argv[1], "zygote") && unshare(CLONE_NEWNS) < 0)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, argv[1]);
    if (!strcmp(argv[1], "lender"))
        lender_main(SOCK, argv[3][0] - '0', argv[4], argv[5]);
    /* What runs inside is pid 1 of a sandbox: its command line says no more than that. */
    for (int i = 1; i < argc; i++)
        memset(argv[i], 0, strlen(argv[i]));
    for (int i = 1; i < 65;
         i++) /* execve(2) keeps what is ignored: commands start with nothing of that */
        if (i != SIGKILL && i != SIGSTOP)
            sigaction(i, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
    signal(SIGCHLD, SIG_IGN); /* inits are watched by pidfd; nobody waits for them */
    for (;;) {
        int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
        ssize_t n = cay__fd_recv(SOCK, &job, sizeof job, fds, &nfds, 0);
        if (n != sizeof job)
            return 0;
        job.name[sizeof job.name - 1] = job.path[sizeof job.path - 1] =
            job.layer[sizeof job.layer - 1] = 0;
        switch (job.type) {
        case KEEPER_JOB_PARK: run_park_job(); break;
        case KEEPER_JOB_ROOT: run_root_job(fds, nfds); break;
        case KEEPER_JOB_SWAP: run_swap_job(fds, nfds); break;
        case KEEPER_JOB_CLONE: run_clone_job(fds, nfds); break;
        case KEEPER_JOB_RMTREE: run_rmtree_job(fds, nfds); break;
        case KEEPER_JOB_DU: run_du_job(); break;
        case KEEPER_JOB_SWEEP: run_sweep_job(); break;
        default: errno = EINVAL; send_failure("job", false);
        }
        CAY_EACH_OF(it, fds, nfds)
            close(*it);
    }
}
