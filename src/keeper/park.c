/* SPDX-License-Identifier: Apache-2.0 */
#include "park.h"
#include "mnt.h"
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

#define STORE_BASE 0x70000000u

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

/* One tmpfs of its own: /run and /dev/shm are directories of it, and so is the place where a root is put together. What is
 * not shown by a mount of its own cannot be reached once the stage is gone. */
static void stage(int ctl, int mode)
{
    static const char *const dirs[] = { "/t/proc", "/t/dev", "/t/run", "/t/n", "/t/i", "/t/i/sandboxes", "/t/i/layers", "/t/l", "/t/r" };
    if (mount("tmpfs", "/t", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=512m,nr_inodes=65536") < 0)
        die(ctl, "stage");
    for (size_t i = 0; i < CAY_LEN(dirs); i++)
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
    if (chdir("/t") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        die(ctl, "stage pivot");
}

/* init keeps these descriptors of ours and no others; 0–2 are the stage's null, so that none received can be one of
 * those. The network's sockets are only held, for a keeper that comes after this one. */
static void own_descriptors(int *ctl, int *listen_fd, netns *net)
{
    int *mine[2 + CAY__NET_FDS] = { ctl, listen_fd, &net->fd[0], &net->fd[1], &net->fd[2] };
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
    int listen_fd = fds[0];
    /* Our peer's ends are closed already: if zygote or keeper die now, this read ends and so do we. */
    if (read(go, &c, 1) != 1)
        _exit(0);
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
    stage(ctl, (int)job->mode);
    umask(022);
    setsid();
    own_descriptors(&ctl, &listen_fd, net);
    CAY_FAULT("init.park.staged");
    init_main(ctl, listen_fd, net->fd, (int)job->mode, job->uid0);
}

/* ---- what the zygote does meanwhile ---- */

static bool write_map(int pid, const char *file, const char *text)
{
    char path[64], n[21];
    cay__str_join(path, sizeof path, "/proc/", cay__str_u64(n, (uint64_t)pid), "/", file, NULL);
    return cay__fd_write_file(AT_FDCWD, path, text);
}

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
    return write_map(pid, "uid_map", map) && write_map(pid, "gid_map", map);
}

static int open_ns(int pid)
{
    char path[64], n[21];
    cay__str_join(path, sizeof path, "/proc/", cay__str_u64(n, (uint64_t)pid), "/ns/user", NULL);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Layers lie on disk under one fixed range; a user namespace that nobody lives in maps it onto this sandbox's. */
static int store_userns(uint32_t block)
{
    int go[2];
    char map[64], a[21], b[21];
    if (pipe2(go, O_CLOEXEC) < 0)
        return -1;
    int pid = (int)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        char c;
        close(go[1]);
        _exit(read(go[0], &c, 1) == 1);
    }
    close(go[0]);
    int fd = -1;
    if (pid > 0) {
        cay__str_join(map, sizeof map, cay__str_u64(a, STORE_BASE), " ", cay__str_u64(b, block), " 65536\n", NULL);
        if (write_map(pid, "uid_map", map) && write_map(pid, "gid_map", map))
            fd = open_ns(pid);
        int e = errno;
        kill(pid, SIGKILL);
        errno = e;
    }
    close(go[1]);
    return fd;
}

static int state_clone(const char *dir, int ns)
{
    CAY_AUTOFD tree = mnt_open_tree(AT_FDCWD, dir, OPEN_TREE_CLONE);
    uint64_t set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (ns >= 0 ? MOUNT_ATTR_IDMAP : 0);
    if (tree < 0 || mnt_setattr(tree, "", AT_EMPTY_PATH, set, 0, ns) < 0)
        return -1;
    return CAY_STEAL_FD(tree);
}

/* Detached clones of the two directories that roots are made from, owners shown as this sandbox's. Not of the state
 * directory itself: that one is closed to everybody but its owner, whom the map does not have. */
static bool state_clones(const cay_job *job, park_result *out)
{
    CAY_AUTOFD ns = -1;
    if (job->mode == CAY_MODE_ROOT && (ns = store_userns(job->block)) < 0)
        return false;
    out->boxes = state_clone("sandboxes", ns);
    out->layers = out->boxes < 0 ? -1 : state_clone("layers", ns);
    return out->layers >= 0;
}

const char *park(const cay_job *job, const int *fds, park_result *out)
{
    int ctl[2] = { -1, -1 }, go[2] = { -1, -1 }, pidfd = -1;
    const char *step = "id range";
    errno = ERANGE;
    if (job->mode == CAY_MODE_ROOT && job->block <= STORE_BASE) /* none was free: never the host's own ids */
        return step;
    out->net = (netns){ .fd = { -1, -1, -1 } };
    if (!CAY__MUTANT("netns") && (step = netns_make(&out->net)))
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
    if (!write_maps(out->pid, job) || (out->userns = open_ns(out->pid)) < 0)
        goto fail;
    step = "state clone";
    if (!state_clones(job, out))
        goto fail;
    out->start = cay__start_time(out->pid);
    CAY_FAULT("zygote.park.mapped");
    if (write(go[0], "g", 1) != 1)
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
