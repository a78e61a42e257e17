/* SPDX-License-Identifier: Apache-2.0 */
#include <proto/mnt.h>
#include "root.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/sanitize.h>
#include <daemon/init/init.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* What came with GROUPS. */
typedef struct groups {
    int fds[KEEPER_JOB_GROUPS_MAX], nfds;
    uint32_t cg2, nv1;
} groups;

/* What the zygote hands its child while that one makes its own mounts. */
typedef struct stage_fds {
    int usr, root, boxes, layers; /* -1: none */
} stage_fds;

static _Noreturn void exit_with_error(int ctl, const char *step)
{
    cay_g_result r = { .sys = CAY_OR(errno, EIO) };
    CAY_COPY(r.step, step);
    cay__msg_send(ctl, CAY_INIT_VERSION, CAY_G_BOUND, &r, sizeof r, NULL, 0, NULL, 0, 0);
    _exit(1);
}

static const char *const masked[] = {
    "acpi",       "asound",      "interrupts",  "kcore",        "keys",          "latency_stats",
    "timer_list", "timer_stats", "sched_debug", "scsi",         "kallsyms",      "kmsg",
    "config.gz",  "vmallocinfo", "slabinfo",    "pagetypeinfo", "sysrq-trigger",
};
static const char *const read_only[] = { "bus", "fs", "irq", "sys" };

/* The kernel has no such entry, rather than we no such source. */
static bool is_absent(const char *path)
{
    struct stat st;
    return errno == ENOENT && lstat(path, &st) < 0 && errno == ENOENT;
}

/* Sources of masks are ours: null and an empty directory of the common /dev tree, which is
 * read-only, nosuid and noexec: a bind inherits that, and no call is needed to say it again. */
static bool mask_proc(void)
{
    char path[64];
    for (size_t i = 0; i < CAY_LEN(masked) && !CAY__MUTANT("masks"); i++) {
        CAY_JOIN(path, "/t/proc/", masked[i]);
        int rc = mount("/d/null", path, NULL, MS_BIND, NULL);
        if (rc < 0 && errno == ENOTDIR)
            rc = mount("/d/pts", path, NULL, MS_BIND, NULL);
        if (rc < 0 && !is_absent(path))
            return false;
    }
    for (size_t i = 0; i < CAY_LEN(read_only) && !CAY__MUTANT("proc-ro"); i++) {
        CAY_JOIN(path, "/t/proc/", read_only[i]);
        if (mount(path, path, NULL, MS_BIND, NULL) < 0
                ? !is_absent(path)
                : mnt_setattr(AT_FDCWD, path, 0, MOUNT_ATTR_RDONLY, 0, -1) < 0)
            return false;
    }
    return true;
}

/* Every start looks like a boot of its own. */
static bool own_boot_id(void)
{
    char id[37];
    cay__uuid_make(id);
    id[36] = '\n'; /* in place of the NUL */
    CAY_AUTOFD fd = open("/t/b", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    return fd >= 0 && cay__fd_write_all(fd, id, sizeof id) &&
           mount("/t/b", "/t/proc/sys/kernel/random/boot_id", NULL, MS_BIND, NULL) == 0 &&
           mnt_setattr(AT_FDCWD, "/t/proc/sys/kernel/random/boot_id", 0, MOUNT_ATTR_RDONLY, 0,
                       -1) == 0;
}

static bool make_dev(int mode)
{
    CAY_AUTOFD tree = mnt_open_tree(AT_FDCWD, "/d", OPEN_TREE_CLONE | AT_RECURSIVE);
    if (tree < 0 || mnt_move(tree, "", AT_FDCWD, "/t/dev", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return false;
    const char *opt = "newinstance,ptmxmode=0666,mode=0620,gid=5";
    if (mode == CAY_MODE_SINGLE)
        opt = "newinstance,ptmxmode=0666,mode=0620";
    return mount("devpts", "/t/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, opt) == 0 &&
           mount("/t/r/shm", "/t/dev/shm", NULL, MS_BIND, NULL) == 0;
}

static bool attach_tree(int tree, const char *to)
{
    return tree < 0 || mnt_move(tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

/* Made by the zygote meanwhile. */
static void take_root(int go, stage_fds *f)
{
    char c;
    int got[3] = { -1, -1, -1 }, n = 3;
    if (cay__fd_recv(go, &c, 1, got, &n, 0) != 1)
        _exit(0);
    *f = (stage_fds){ got[0], -1, -1, -1 };
    if (c == 'r')
        *f = (stage_fds){ got[0], got[1], -1, -1 };
    else if (c == 'c')
        *f = (stage_fds){ got[0], -1, got[1], got[2] };
}

/* One tmpfs of its own: /run and /dev/shm are directories of it, and so is the place where a root
 * is put together. What is not shown by a mount of its own cannot be reached once the stage is
 * gone. As root that is now: the default root is there, and a request for another one changes over
 * from it. */
static bool build_stage(int ctl, int go, const keeper_job *job)
{
    int mode = (int)job->mode;
    stage_fds f;
    static const char *const dirs[] = { "/t/proc",        "/t/dev",     "/t/run", "/t/usr",
                                        "/t/n",           "/t/r",       "/t/l",   "/t/i",
                                        "/t/i/sandboxes", "/t/i/layers" };
    size_t n = 6;
    if (mode != CAY_MODE_ROOT)
        n = CAY_LEN(dirs);
    if (mount("tmpfs", "/t", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=512m,nr_inodes=65536") <
        0)
        exit_with_error(ctl, "stage");
    CAY_EACH_OF(dir, dirs, n)
        if (mkdir(*dir, 0755) < 0)
            exit_with_error(ctl, "stage");
    if (CAY__MUTANT("own-proc")
            ? mount("/proc", "/t/proc", NULL, MS_BIND | MS_REC, NULL) < 0
            : mount("proc", "/t/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        exit_with_error(ctl, "proc");
    if (!mask_proc() || (!CAY__MUTANT("boot-id") && !own_boot_id()))
        exit_with_error(ctl, "proc masks");
    if (mkdir("/t/r/shm", 01777) < 0 || mkdir("/t/r/lock", 01777) < 0 ||
        mount("/t/r", "/t/run", NULL, MS_BIND, NULL) < 0)
        exit_with_error(ctl, "run");
    if (!make_dev(mode))
        exit_with_error(ctl, "dev");
    take_root(go, &f);
    if (!attach_tree(f.usr, "/t/usr") || !attach_tree(f.boxes, "/t/i/sandboxes") ||
        !attach_tree(f.layers, "/t/i/layers"))
        exit_with_error(ctl, "usr");
    if (f.root >= 0) {
        const char *step = root_enter(f.root, "/t/n", "/t", !job->image);
        if (step || (job->image && (step = root_complete(f.root, "cay"))) ||
            (step = root_pivot(f.root)))
            exit_with_error(ctl, step);
    } else if (chdir("/t") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
               umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) {
        exit_with_error(ctl, "stage pivot");
    }
    return f.root >= 0;
}

/* Opened once, by the zygote, whose directory is the state directory. */
static int home_mark(void)
{
    static int fd = -1;
    if (fd >= 0)
        return fd;
    return (fd = open(CAY_HOME_MARK, O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

/* init keeps these descriptors of ours and no others; 0–2 are the stage's null, so that none
 * received can be one of those. The network's sockets are only held, for a keeper that comes after
 * this one; the file of the state directory is one of no right and no content, and can only be
 * asked whether it is still there. */
static void own_descriptors(int *ctl, int *listen_fd, int *home, netns *net)
{
    int *mine[3 + CAY__NET_FDS] = { ctl,         listen_fd,   home,       &net->fd[0],
                                    &net->fd[1], &net->fd[2], &net->fd[3] };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < CAY_LEN(mine); i++)
        if (null < 0 || (*mine[i] >= 0 && (*mine[i] = fcntl(*mine[i], F_DUPFD_CLOEXEC, 16)) < 0))
            exit_with_error(*ctl, "descriptors");
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

/* The groups of v1, and a cgroup namespace that begins at the sandbox's groups. */
static const char *enter_groups(const groups *g)
{
    for (uint32_t i = 0; i < g->nv1; i++)
        if (write(g->fds[1 + g->cg2 + i], "0", 1) != 1)
            return "cgroup";
    if (CAY__MUTANT("cgroupns") || unshare(CLONE_NEWCGROUP) == 0)
        return NULL;
    return "cgroup namespace";
}

static _Noreturn void child_main(const keeper_job *job, const groups *g, int ctl, int go,
                                 netns *net)
{
    char c;
    int listen_fd = g->fds[0], home = home_mark();
    /* Our peer's ends are closed already: if zygote or keeper die now, this read ends and so do we.
     */
    if (read(go, &c, 1) != 1)
        _exit(0);
    CAY_FAULT("init.park.go");
    signal(SIGCHLD, SIG_DFL); /* the zygote ignores it; pid 1 must not */
    const char *step = NULL;
    if (g->cg2 <= 1)
        step = enter_groups(g);
    if (step)
        exit_with_error(ctl, step);
    CAY_FAULT("init.park.grouped");
    if (job->mode != CAY_MODE_SINGLE &&
        (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
         syscall(SYS_setresuid, 0, 0, 0) < 0))
        exit_with_error(ctl, "ids");
    if (sethostname("cay", 3) < 0)
        exit_with_error(ctl, "hostname");
    /* A second layer under the filter's rule against nested user namespaces. */
    cay__fd_write_file(AT_FDCWD, "/proc/sys/user/max_user_namespaces",
                       CAY__MUTANT("max-userns") ? "1000" : "0");
    umask(0);
    bool rooted = build_stage(ctl, go, job);
    umask(022);
    setsid();
    own_descriptors(&ctl, &listen_fd, &home, net);
    CAY_FAULT("init.park.staged");
    init_main(ctl, listen_fd, home, net->fd, (int)job->mode, job->uid0, job->ahead && rooted);
}

static bool write_maps(int pid, const keeper_job *job)
{
    char block[64], n[21];
    const char *map =
        "0 0 1\n1 1 65535\n"; /* repeats the parent's extents: one line across two is EPERM */
    if (job->mode == CAY_MODE_ROOT) {
        CAY_JOIN(block, "0 ", cay__str_u64(n, job->block), " 65536\n");
        map = block;
    } else if (job->mode == CAY_MODE_SINGLE) {
        if (job->uid0)
            map = "0 0 1\n";
        else
            map = "1000 0 1\n";
    }
    return root_write_map(pid, "uid_map", map) && root_write_map(pid, "gid_map", map);
}

/* Everything that the child mounts and cannot make itself. */
static const char *send_root(const keeper_job *job, int go, park_result *out)
{
    const char *step;
    CAY_AUTOFD usr = root_usr(job, out->userns), root = -1;
    if (usr < 0)
        return "/usr";
    if (!root_dirs(job, -1, &out->trash))
        return "directories";
    if (job->mode == CAY_MODE_ROOT) {
        if (job->path[0] && (root = root_make(job, -1, -1, &step)) < 0) {
            out->shared = root_shared(job);
            return step;
        }
        int fds[2] = { usr, root };
        if (cay__fd_send(go, root >= 0 ? "r" : "n", 1, fds, 1 + (root >= 0), 0) == 1)
            return NULL;
        return "init";
    }
    CAY_AUTOFD boxes = root_clone("sandboxes", -1);
    CAY_AUTOFD layers = -1;
    if (boxes >= 0)
        layers = root_clone("layers", -1);
    if (layers < 0)
        return "state clone";
    int fds[3] = { usr, boxes, layers };
    if (cay__fd_send(go, "c", 1, fds, 3, 0) == 1)
        return NULL;
    return "init";
}

static bool take_groups(int keeper, groups *g)
{
    static keeper_job more;
    g->nfds = CAY_LEN(g->fds);
    ssize_t n = cay__fd_recv(keeper, &more, sizeof more, g->fds, &g->nfds, 0);
    g->cg2 = more.cg2;
    g->nv1 = more.nv1;
    if (n == sizeof more)
        errno = ENOENT;
    else
        errno = EIO;
    return n == sizeof more && more.type == KEEPER_JOB_GROUPS && g->nfds &&
           (uint64_t)g->nfds == 1ull + g->cg2 + g->nv1;
}

/* In a page that the process in between shares. */
typedef struct birth {
    struct clone_args a;
    const keeper_job *job;
    const groups *g;
    int ctl[2], go[2], pidfd, pid, sys;
    const char *step;
    netns *net;
} birth;

static void clone_init(birth *b)
{
    const birth mine = *b; /* the child shares *b, and its parent goes on */
    int pid = (int)syscall(SYS_clone3, &b->a, sizeof b->a);
    if (pid == 0) {
        close(mine.ctl[0]);
        close(mine.go[0]);
        child_main(mine.job, mine.g, mine.ctl[1], mine.go[1], mine.net);
    }
    b->pid = pid;
    b->sys = errno;
}

/* A cgroup namespace begins where its maker is. Where init has a leaf of its own, its groups are
 * entered by a process in between, which is born in the sandbox's group and gives birth to init in
 * the leaf; moving init later would wait for a grace period. */
static _Noreturn void intermediate_main(birth *b)
{
    b->step = enter_groups(b->g);
    b->sys = errno;
    if (!b->step)
        clone_init(b);
    _exit(0);
}

static bool spawn_init(birth *b)
{
    const groups *g = b->g;
    b->a.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                 (CAY__MUTANT("ipcns") ? 0 : CLONE_NEWIPC) | CLONE_NEWUTS | CLONE_PIDFD;
    b->a.pidfd = (uint64_t)(uintptr_t)&b->pidfd;
    b->a.exit_signal = SIGCHLD;
    if (g->cg2) {
        b->a.flags |= CLONE_INTO_CGROUP;
        b->a.cgroup = (uint64_t)g->fds[g->cg2];
    }
    if (g->cg2 < 2) {
        clone_init(b);
    } else {
        b->a.flags |= CLONE_PARENT; /* the zygote's child, as ever */
        b->a.exit_signal = 0;
        struct clone_args m = { .flags = CLONE_FILES | CLONE_INTO_CGROUP,
                                .exit_signal = SIGCHLD,
                                .cgroup = (uint64_t)g->fds[1] };
        int mid = (int)syscall(SYS_clone3, &m, sizeof m);
        if (mid == 0)
            intermediate_main(b);
        if (mid < 0)
            b->sys = errno;
        else
            waitpid(mid, NULL, 0); /* gone from the group: controllers can be handed down in it */
    }
    errno = b->sys;
    return b->pid > 0;
}

/* The net namespace, while the keeper makes the groups. */
static const char *prepare_netns(const keeper_job *job, park_result *out)
{
    const char *step = "id range";
    errno = ERANGE;
    if (job->mode == CAY_MODE_ROOT &&
        job->block < STORE_BASE) /* none was free: never the host's own ids */
        return step;
    step = "the state directory's mark";
    if (home_mark() < 0)
        return step;
    out->net = (netns){ .fd = { -1, -1, -1, -1 } };
    if (!CAY__MUTANT("netns"))
        return netns_make(&out->net);
    return NULL;
}

const char *park(const keeper_job *job, int keeper, park_result *out)
{
    groups g = { .nfds = 0 };
    static birth *shared;
    if (!shared && (shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0)) == MAP_FAILED)
        _exit(1);
    birth *b = shared;
    *b = (birth){ .job = job,
                  .g = &g,
                  .ctl = { -1, -1 },
                  .go = { -1, -1 },
                  .pidfd = -1,
                  .pid = -1,
                  .net = &out->net };
    const char *step = prepare_netns(job, out);
    int e = errno;
    bool came = take_groups(keeper, &g); /* whatever happened: it is there to be read */
    if (!step)
        e = errno;
    if (!step && !came)
        step = "groups or socket";
    errno = e;
    if (step)
        goto fail;
    step = "sockets";
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, b->ctl) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, b->go) < 0)
        goto fail;
    step = "namespaces";
    if (!spawn_init(b)) {
        step = CAY_OR(b->step, step);
        goto fail;
    }
    CAY_FAULT("zygote.park.cloned");
    step = "id maps";
    if (!write_maps(b->pid, job) || (out->userns = root_open_userns(b->pid)) < 0)
        goto fail;
    CAY_FAULT("zygote.park.mapped");
    if (write(b->go[0], "g", 1) != 1 || (step = send_root(job, b->go[0], out)))
        goto fail;
    out->start = cay__start_time(b->pid);
    CAY_FAULT("zygote.park.went");
    out->pid = b->pid;
    out->ctl = CAY_STEAL_FD(b->ctl[0]);
    out->pidfd = CAY_STEAL_FD(b->pidfd);
fail:;
    e = errno;
    if (step && b->pid > 0)
        kill(b->pid, SIGKILL);
    int *const ours[] = { &b->ctl[0], &b->ctl[1], &b->go[0], &b->go[1], &b->pidfd };
    CAY_EACH(our, ours)
        cay__close_fd(*our);
    CAY_EACH_OF(it, g.fds, g.nfds)
        close(*it);
    errno = e;
    return step;
}
