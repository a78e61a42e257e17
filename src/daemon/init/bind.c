/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binder: shares init's memory, files and root directory, but keeps SYS_ADMIN in the sandbox's
 * user namespace and has no filter. It sleeps until the keeper names a root, mounts it unless it
 * stands there already, moves the ready /proc, /dev, /run and /usr in, pivots, and ends. init reaps
 * it before the first instruction of a tenant.
 */
#include "init.h"
#include <base/guarded.h>
#include <base/sanitize.h>
#include <daemon/keeper/overlay.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <proto/mnt.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define STACK  32768
#define FOLLOW (CAY__MUTANT("walk-links") ? 0 : O_NOFOLLOW)

static struct {
    int ctl;
    int sys;
    const char *step;
    char *stack;
} binder;

static bool record_failure(const char *step)
{
    binder.sys = CAY_OR(errno, EIO);
    binder.step = step;
    return false;
}

/* A directory below `at`, made where missing, never through a link. Returns its O_PATH descriptor.
 */
int root_dir(int at, const char *path)
{
    char part[256];
    int dir = openat(at, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (dir >= 0 && *path) {
        while (*path == '/')
            path++;
        size_t n = strcspn(path, "/");
        if (!n)
            break;
        if (n >= sizeof part || (n == 2 && path[0] == '.' && path[1] == '.')) {
            close(dir);
            errno = EINVAL;
            return -1;
        }
        memcpy(part, path, n);
        part[n] = 0;
        path += n;
        int next = openat(dir, part, O_PATH | O_DIRECTORY | FOLLOW | O_CLOEXEC);
        if (next < 0 && errno == ENOENT && mkdirat(dir, part, 0755) == 0)
            next = openat(dir, part, O_PATH | O_DIRECTORY | FOLLOW | O_CLOEXEC);
        int e = errno;
        close(dir);
        errno = e;
        dir = next;
    }
    return dir;
}

static bool attach_mount(int mount_fd, int root, const char *target, const char *step)
{
    CAY_AUTOFD dir = root_dir(root, target);
    if (dir < 0)
        return record_failure(step);
    if (mnt_move(mount_fd, "", dir, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return record_failure(step);
    return true;
}

/* The new root is put on `at`, then what stands ready below `base` goes into it, each tree with all
 * that is mounted inside by one call. The root's own descriptor names it from then on: a root that
 * covers another cannot be reached by name. */
const char *root_enter(int root, const char *at, const char *base, bool usr)
{
    static const char *const trees[] = { "/proc", "/dev", "/run", "/usr" };
    struct stat st;
    if (mnt_move(root, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0 || fstat(root, &st) < 0)
        return "root";
    init.root_dev = st.st_dev;
    init.root_ino = st.st_ino;
    CAY_EACH_OF(tree, trees, CAY_LEN(trees) - !usr) {
        char from[16];
        CAY_JOIN(from, base, *tree);
        CAY_AUTOFD dir = root_dir(root, *tree);
        if (dir < 0 || mnt_move(AT_FDCWD, from, dir, "", MOVE_MOUNT_T_EMPTY_PATH) < 0)
            return *tree;
    }
    return NULL;
}

const char *root_pivot(int root)
{
    bool ok = fchdir(root) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
              (CAY__MUTANT("old-root") || umount2(".", MNT_DETACH) == 0) && chdir("/") == 0;
    if (ok)
        return NULL;
    return "pivot";
}

static const char *put_file(int root, const char *dir, const char *name, const char *text)
{
    CAY_AUTOFD d = root_dir(root, dir);
    CAY_AUTOFD at = -1;
    if (d >= 0)
        at = openat(d, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return dir;
    unlinkat(at, ".cay-new", 0);
    CAY_AUTOFD fd =
        openat(at, ".cay-new", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EOVERFLOW))
        return "the root is another user's";
    if (fd < 0 || !cay__fd_write_all(fd, text, strlen(text)) ||
        renameat(at, ".cay-new", at, name) < 0)
        return name;
    return NULL;
}

const char *root_complete(int root, const char *hostname)
{
    char line[160];
    const char *step;
    CAY_JOIN(line, "127.0.0.1 localhost ", hostname, "\n::1 localhost\n");
    if ((step = put_file(root, "/etc", "hosts", line)) ||
        (step = put_file(root, "/etc", "resolv.conf",
                         "nameserver 127.0.0.53\noptions timeout:2 attempts:2\n")))
        return step;
    CAY_JOIN(line, hostname, "\n");
    if ((step = put_file(root, "/etc", "hostname", line)))
        return step;
    CAY_AUTOFD ws = root_dir(root, "/workspace");
    CAY_AUTOFD tmp = root_dir(root, "/tmp");
    /* Owner 1000 where the map has it; a one-id map keeps the only owner there is. */
    if (ws < 0 || tmp < 0 ||
        (fchownat(ws, "", 1000, 1000, AT_EMPTY_PATH) < 0 && errno != EINVAL && errno != EPERM))
        return "workspace";
    return NULL;
}

/* In a checkout that may be written, what the host's own tools would later run or obey stays as it
 * is. */
static bool guard_checkout(int root, const char *target)
{
    CAY_AUTOFD dir = root_dir(root, target);
    if (dir < 0)
        return record_failure(target);
    for (size_t i = 0; i < CAY_LEN(cay__guarded) && !CAY__MUTANT("guard"); i++) {
        CAY_AUTOFD at = cay__fd_openat2(dir, cay__guarded[i].path, O_PATH | O_NOFOLLOW, 0,
                                        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
        if (at < 0)
            continue; /* not there: it is not made just to be covered */
        struct stat st;
        CAY_AUTOFD tree = mnt_open_tree(at, "", OPEN_TREE_CLONE | AT_EMPTY_PATH | AT_RECURSIVE);
        /* A ".git" that is a file names the repository to obey: that is as good as its config. */
        bool ro = fstat(at, &st) < 0 || cay__guarded[i].ro || !S_ISDIR(st.st_mode);
        if (tree < 0 ||
            (ro &&
             mnt_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, MOUNT_ATTR_RDONLY, 0, -1) < 0) ||
            mnt_move(tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
            return record_failure(cay__guarded[i].path);
    }
    return true;
}

static int next_fd(int *fds, int nfds, int *at)
{
    if (*at < nfds)
        return fds[(*at)++];
    return -1;
}

/* The root: ready made, or an overlay made here on clones of its directories. */
static int root_mount(const cay_g_bind *m, int *fds, int nfds, int *at)
{
    const char *step = "state clone";
    if (m->flags & CAY_GB_OVERLAY)
        return next_fd(fds, nfds, at);
    int lower = -1;
    if (m->flags & CAY_GB_LOWER)
        lower = next_fd(fds, nfds, at);
    /* Before Linux 6.15 layers must be attached, and never may a sandbox use those of a mount that
     * was detached outside. */
    if (lower >= 0 && mnt_move(lower, "", AT_FDCWD, "/l", MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        record_failure("root directory");
        return -1;
    }
    overlay_at names = { -1,        -1,     lower, (const char *const[]){ m->layer },
                         lower < 0, m->dir, false, false };
    int fd = -1;
    if (chdir("/i/layers") >= 0)
        fd = cay__overlay(&names, NULL, true, !(m->flags & CAY_GB_DURABLE), &step);
    if (fd < 0)
        record_failure(step);
    return fd;
}

static bool attach_grants(const cay_g_bind *m, int root, const char *targets, size_t len, int *fds,
                          int nfds, int at)
{
    for (uint32_t i = 0; i < m->ngrants; i++) {
        size_t n = strnlen(targets, len);
        if (n == len)
            return record_failure("grant");
        if (!attach_mount(next_fd(fds, nfds, &at), root, targets, targets) ||
            ((m->grants_rw >> i & 1) && !guard_checkout(root, targets)))
            return false;
        targets += n + 1;
        len -= n + 1;
    }
    return true;
}

static bool bind_root(const cay_g_bind *m, const char *targets, size_t len, int *fds, int nfds)
{
    int at = 0;
    const char *step;
    if (m->hostname[0] && sethostname(m->hostname, strlen(m->hostname)) < 0)
        return record_failure("hostname");
    if (m->flags & CAY_GB_HERE) {
        CAY_AUTOFD here = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (here < 0)
            return record_failure("root");
        return attach_grants(m, here, targets, len, fds, nfds, at);
    }
    int made = root_mount(m, fds, nfds, &at);
    CAY_AUTOFD root = made;
    if (m->flags & CAY_GB_OVERLAY)
        root = fcntl(made, F_DUPFD_CLOEXEC, 3);
    if (root < 0) {
        if (binder.sys)
            return false;
        return record_failure("root");
    }
    if ((step = root_enter(root, "/", "", m->flags & CAY_GB_USR)))
        return record_failure(step);
    if ((m->flags & CAY_GB_FOREIGN) &&
        (step = root_complete(root, m->hostname[0] ? m->hostname : "cay")))
        return record_failure(step);
    if (!attach_grants(m, root, targets, len, fds, nfds, at))
        return false;
    step = root_pivot(root);
    if (step)
        return record_failure(step);
    return true;
}

static int binder_main(void *arg)
{
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ssize_t n = cay__fd_recv(binder.ctl, init.buf, CAY_MSG_MAX, fds, &nfds, 0);
    const cay_msg *h = (const cay_msg *)init.buf;
    const cay_g_bind *m = (const cay_g_bind *)(h + 1);
    if (n < (ssize_t)(sizeof *h + sizeof *m) || h->type != CAY_G_BIND)
        _exit(n == 0 ? 2 : 1); /* the keeper ended before anything was bound */
    CAY_FAULT("init.bind.start");
    bool ok = bind_root(m, (const char *)(m + 1), (size_t)n - sizeof *h - sizeof *m, fds, nfds);
    CAY_EACH_OF(it, fds, nfds)
        close(*it);
    CAY_FAULT("init.bind.done");
    _exit(ok ? 0 : 3);
}

int binder_start(int ctl)
{
    binder.ctl = ctl;
    binder.stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (binder.stack == MAP_FAILED)
        return -1;
    return clone(binder_main, binder.stack + STACK, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD,
                 NULL);
}

int binder_wait(int pid, cay_g_result *res)
{
    int status = 1, rc;
    while ((rc = (int)waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        ;
    if (rc != pid)
        status = 1; /* whoever we waited for, it was not a binder that succeeded */
    CAY__STACK_USED(binder.stack, STACK);
    munmap(binder.stack, STACK);
    memset(res, 0, sizeof *res);
    if (status == 0)
        return root_check(res);
    res->sys = CAY_OR(binder.sys, EIO);
    CAY_COPY(res->step, CAY_OR(binder.step, "binder"));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        return -2;
    return -1;
}

/* What we stand on is what was mounted, or nothing runs. */
int root_check(cay_g_result *res)
{
    struct stat st;
    memset(res, 0, sizeof *res);
    if (stat("/", &st) == 0 && st.st_dev == init.root_dev && st.st_ino == init.root_ino)
        return 0;
    res->sys = EXDEV;
    CAY_COPY(res->step, "root check");
    return -1;
}
