/* SPDX-License-Identifier: Apache-2.0 */
#include "park.h"
#include "mnt.h"
#include "root.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/fd.h>
#include <base/sanitize.h>
#include <base/str.h>
#include <fcntl.h>
#include <guest/init.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* What the zygote hands its child when the maps are written. */
typedef struct stage_fds {
    int usr, root, boxes, layers; /* -1: none */
} stage_fds;

/* ---- what the child does, before anything of a tenant exists ---- */

static _Noreturn void die(int ctl, const char *step)
{
    cay_g_result r = { .sys = errno ? errno : EIO };
    cay_msg h = { CAY_MSG_MAGIC, CAY_INIT_VERSION, CAY_G_BOUND, 0, 0 };
    char pkt[sizeof h + sizeof r];
    cay__str_copy(r.step, sizeof r.step, step);
    memcpy(pkt, &h, sizeof h);
    memcpy(pkt + sizeof h, &r, sizeof r);
    cay__fd_send(ctl, pkt, sizeof pkt, NULL, 0, 0);
    _exit(1);
}

static const char *const masked[] = {
    "acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug",
    "scsi", "kallsyms", "kmsg", "config.gz", "vmallocinfo", "slabinfo", "pagetypeinfo", "sysrq-trigger",
};
static const char *const read_only[] = { "bus", "fs", "irq", "sys" };

/* The kernel has no such entry, rather than we no such source. */
static bool absent(const char *path)
{
    struct stat st;
    return errno == ENOENT && lstat(path, &st) < 0 && errno == ENOENT;
}

/* Sources of masks are ours: null and an empty directory of the common /dev tree, which is read-only, nosuid and noexec:
 * a bind inherits that, and no call is needed to say it again. */
static bool mask_proc(void)
{
    char path[64];
    for (size_t i = 0; i < CAY_LEN(masked) && !CAY__MUTANT("masks"); i++) {
        cay__str_join(path, sizeof path, "/t/proc/", masked[i], NULL);
        int rc = mount("/d/null", path, NULL, MS_BIND, NULL);
        if (rc < 0 && errno == ENOTDIR)
            rc = mount("/d/pts", path, NULL, MS_BIND, NULL);
        if (rc < 0 && !absent(path))
            return false;
    }
    for (size_t i = 0; i < CAY_LEN(read_only) && !CAY__MUTANT("proc-ro"); i++) {
        cay__str_join(path, sizeof path, "/t/proc/", read_only[i], NULL);
        if (mount(path, path, NULL, MS_BIND, NULL) < 0 ? !absent(path) : mnt_setattr(AT_FDCWD, path, 0, MOUNT_ATTR_RDONLY, 0, -1) < 0)
            return false;
    }
    return true;
}

/* Every start looks like a boot of its own. */
static bool own_boot_id(void)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char r[16];
    char id[38];
    size_t n = 0;
    cay__random(r, sizeof r);
    r[6] = (unsigned char)((r[6] & 0x0f) | 0x40);
    r[8] = (unsigned char)((r[8] & 0x3f) | 0x80);
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            id[n++] = '-';
        id[n++] = hex[r[i] >> 4];
        id[n++] = hex[r[i] & 15];
    }
    id[n++] = '\n';
    CAY_AUTOFD fd = open("/t/b", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    return fd >= 0 && cay__fd_write_all(fd, id, n) &&
           mount("/t/b", "/t/proc/sys/kernel/random/boot_id", NULL, MS_BIND, NULL) == 0 &&
           mnt_setattr(AT_FDCWD, "/t/proc/sys/kernel/random/boot_id", 0, MOUNT_ATTR_RDONLY, 0, -1) == 0;
}

static bool make_dev(int mode)
{
    CAY_AUTOFD tree = mnt_open_tree(AT_FDCWD, "/d", OPEN_TREE_CLONE | AT_RECURSIVE);
    if (tree < 0 || mnt_move(tree, "", AT_FDCWD, "/t/dev", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return false;
    const char *opt = mode == CAY_MODE_SINGLE ? "newinstance,ptmxmode=0666,mode=0620"
                                              : "newinstance,ptmxmode=0666,mode=0620,gid=5";
    return mount("devpts", "/t/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, opt) == 0 &&
           mount("/t/r/shm", "/t/dev/shm", NULL, MS_BIND, NULL) == 0;
}

static bool put(int tree, const char *to)
{
    return tree < 0 || mnt_move(tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

/* One tmpfs of its own: /run and /dev/shm are directories of it, and so is the place where a root is put together. What is
 * not shown by a mount of its own cannot be reached once the stage is gone. As root that is now: the default root is there,
 * and a request for another one changes over from it. */
static void stage(int ctl, int mode, const stage_fds *f)
{
    static const char *const dirs[] = { "/t/proc", "/t/dev", "/t/run", "/t/usr", "/t/n", "/t/r", "/t/l", "/t/i", "/t/i/sandboxes", "/t/i/layers" };
    size_t n = f->root >= 0 ? 6 : CAY_LEN(dirs);
    if (mount("tmpfs", "/t", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=512m,nr_inodes=65536") < 0)
        die(ctl, "stage");
    for (size_t i = 0; i < n; i++)
        if (mkdir(dirs[i], 0755) < 0)
            die(ctl, "stage");
    if (CAY__MUTANT("own-proc") ? mount("/proc", "/t/proc", NULL, MS_BIND | MS_REC, NULL) < 0
                                : mount("proc", "/t/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        die(ctl, "proc");
    if (!mask_proc() || (!CAY__MUTANT("boot-id") && !own_boot_id()))
        die(ctl, "proc masks");
    if (mkdir("/t/r/shm", 01777) < 0 || mkdir("/t/r/lock", 01777) < 0 || mount("/t/r", "/t/run", NULL, MS_BIND, NULL) < 0)
        die(ctl, "run");
    if (!make_dev(mode))
        die(ctl, "dev");
    if (!put(f->usr, "/t/usr") || !put(f->boxes, "/t/i/sandboxes") || !put(f->layers, "/t/i/layers"))
        die(ctl, "usr");
    if (f->root >= 0) {
        const char *step = root_enter(f->root, "/t/n", "/t", true);
        if (step || (step = root_pivot(f->root)))
            die(ctl, step);
    } else if (chdir("/t") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) {
        die(ctl, "stage pivot");
    }
}

/* init keeps these descriptors of ours and no others; 0–2 are the stage's null, so that none received can be one of
 * those. The network's sockets are only held, for a keeper that comes after this one. */
static void own_descriptors(int *ctl, int *listen_fd, netns *net)
{
    int *mine[2 + CAY__NET_FDS] = { ctl, listen_fd, &net->fd[0], &net->fd[1], &net->fd[2], &net->fd[3] };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < CAY_LEN(mine); i++)
        if (null < 0 || (*mine[i] >= 0 && (*mine[i] = fcntl(*mine[i], F_DUPFD_CLOEXEC, 16)) < 0))
            die(*ctl, "descriptors");
    for (int i = 0; i < (CAY__SANITIZED ? 2 : 3); i++)
        dup2(null, i);
    int at = 3;
    for (size_t i = 0; i < CAY_LEN(mine); i++)
        if (*mine[i] >= 0) {
            dup3(*mine[i], at, O_CLOEXEC);
            *mine[i] = at++;
        }
    cay__fd_close_from(at);
}

static _Noreturn void child(const cay_job *job, const int *fds, int ctl, int go, netns *net)
{
    char c;
    int listen_fd = fds[0], got[3] = { -1, -1, -1 }, n = 3;
    /* Our peer's ends are closed already: if zygote or keeper die now, this read ends and so do we. */
    if (cay__fd_recv(go, &c, 1, got, &n, 0) != 1)
        _exit(0);
    const stage_fds f = { got[0], c == 'r' ? got[1] : -1, c == 'c' ? got[1] : -1, c == 'c' ? got[2] : -1 };
    CAY_FAULT("init.park.go");
    signal(SIGCHLD, SIG_DFL); /* the zygote ignores it; pid 1 must not */
    for (uint32_t i = 0; i < job->nv1; i++)
        if (write(fds[1 + job->cg2 + i], "0", 1) != 1)
            die(ctl, "cgroup");
    CAY_FAULT("init.park.grouped");
    if (!CAY__MUTANT("cgroupns") && unshare(CLONE_NEWCGROUP) < 0)
        die(ctl, "cgroup namespace");
    if (job->mode != CAY_MODE_SINGLE &&
        (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0))
        die(ctl, "ids");
    if (sethostname("cay", 3) < 0)
        die(ctl, "hostname");
    /* A second layer under the filter's rule against nested user namespaces. */
    cay__fd_write_file(AT_FDCWD, "/proc/sys/user/max_user_namespaces", CAY__MUTANT("max-userns") ? "1000" : "0");
    umask(0);
    stage(ctl, (int)job->mode, &f);
    umask(022);
    setsid();
    own_descriptors(&ctl, &listen_fd, net);
    CAY_FAULT("init.park.staged");
    init_main(ctl, listen_fd, net->fd, (int)job->mode, job->uid0, job->ahead && f.root >= 0);
}

/* ---- what the zygote does meanwhile ---- */

static bool write_maps(int pid, const cay_job *job)
{
    char block[64], n[21];
    const char *map = "0 0 1\n1 1 65535\n"; /* repeats the parent's extents: one line across two is EPERM */
    if (job->mode == CAY_MODE_ROOT) {
        cay__str_join(block, sizeof block, "0 ", cay__str_u64(n, job->block), " 65536\n", NULL);
        map = block;
    } else if (job->mode == CAY_MODE_SINGLE) {
        map = job->uid0 ? "0 0 1\n" : "1000 0 1\n";
    }
    return root_write_map(pid, "uid_map", map) && root_write_map(pid, "gid_map", map);
}

/* Everything that the child mounts and cannot make itself, then the word to go on. */
static const char *send_off(const cay_job *job, int go, int userns, int root)
{
    CAY_AUTOFD usr = root_usr(job, userns);
    if (usr < 0)
        return "/usr";
    if (job->mode == CAY_MODE_ROOT) {
        int fds[2] = { usr, root };
        return cay__fd_send(go, root >= 0 ? "r" : "n", 1, fds, root >= 0 ? 2 : 1, 0) == 1 ? NULL : "init";
    }
    CAY_AUTOFD boxes = root_clone("sandboxes", -1);
    CAY_AUTOFD layers = boxes < 0 ? -1 : root_clone("layers", -1);
    if (layers < 0)
        return "state clone";
    int fds[3] = { usr, boxes, layers };
    return cay__fd_send(go, "c", 1, fds, 3, 0) == 1 ? NULL : "init";
}

const char *park(const cay_job *job, const int *fds, park_result *out)
{
    int ctl[2] = { -1, -1 }, go[2] = { -1, -1 }, pidfd = -1;
    CAY_AUTOFD root = -1;
    const char *step = "id range";
    errno = ERANGE;
    if (job->mode == CAY_MODE_ROOT && job->block <= STORE_BASE) /* none was free: never the host's own ids */
        return step;
    out->net = (netns){ .fd = { -1, -1, -1, -1 } };
    if (!CAY__MUTANT("netns") && (step = netns_make(&out->net)))
        return step;
    step = "directories";
    if (!root_dirs(job, &out->trash))
        return step;
    if (job->mode == CAY_MODE_ROOT && job->path[0] && (root = root_make(job, -1, &step)) < 0)
        return step;
    step = "sockets";
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, go) < 0)
        goto fail;
    struct clone_args a = {
        .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | (CAY__MUTANT("ipcns") ? 0 : CLONE_NEWIPC) | CLONE_NEWUTS | CLONE_PIDFD |
                 (job->cg2 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = job->cg2 ? (uint64_t)fds[1] : 0,
    };
    step = "namespaces";
    out->pid = (int)syscall(SYS_clone3, &a, sizeof a);
    if (out->pid == 0) {
        close(ctl[0]);
        close(go[0]);
        child(job, fds, ctl[1], go[1], &out->net);
    }
    if (out->pid < 0)
        goto fail;
    CAY_FAULT("zygote.park.cloned");
    step = "id maps";
    if (!write_maps(out->pid, job) || (out->userns = root_open_userns(out->pid)) < 0)
        goto fail;
    out->start = cay__start_time(out->pid);
    CAY_FAULT("zygote.park.mapped");
    if ((step = send_off(job, go[0], out->userns, root)))
        goto fail;
    CAY_FAULT("zygote.park.went");
    close(go[0]);
    close(go[1]);
    close(ctl[1]);
    out->ctl = ctl[0];
    out->pidfd = pidfd;
    return NULL;
fail:;
    int e = errno;
    if (out->pid > 0)
        kill(out->pid, SIGKILL);
    cay__close_fd(&ctl[0]);
    cay__close_fd(&ctl[1]);
    cay__close_fd(&go[0]);
    cay__close_fd(&go[1]);
    cay__close_fd(&pidfd);
    errno = e;
    return step;
}
