/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where root's programs work for a server that is not root: in a mount namespace in which there is
 * nothing of the host but what they are for and the libraries they were linked with. They read
 * plans, archives and trees that this server made; whatever one of those could lead them to by a
 * name or a link is not there.
 *
 *     /t/layers  /t/volumes     of HOME.root        /t/sandboxes     read-only for cay-layer
 *     HOME                      read-only: what was fetched for a manifest
 *     /usr /lib…                read-only
 *     /proc                     of a pid namespace of its own; cay-clone sees the host's
 */
#include "root_helper.h"
#include <base/base.h>
#include <proto/mnt.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    RDONLY = 1,
    NOSUID = 2,
    NODEV = 4,
    NOEXEC = 8,
    REC = 16384,
    PRIVATE = 1 << 18
}; /* as of mount(2) */

/* What cay-layer and cay-pack need to keep owners, modes, attributes and whiteouts as they are, and
 * to show a stack. */
static const int rights[] = { CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER,
                              CAP_FSETID, CAP_MKNOD,        CAP_SETFCAP,         CAP_SYS_ADMIN };

static bool drop_rights(void)
{
    for (int c = 0; c <= 63; c++) {
        bool keep = false;
        CAY_EACH(right, rights)
            keep |= *right == c;
        if (!keep && prctl(PR_CAPBSET_READ, c, 0, 0, 0) == 1 &&
            prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
            return false;
    }
    return true;
}

static int tree_of(const char *dir, const char *name, unsigned rec)
{
    char path[PATH_MAX];
    if (CAY_JOIN(path, dir, name))
        return mnt_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | AT_SYMLINK_NOFOLLOW | rec);
    return -1;
}

/* Takes the tree over. */
static bool place_tree(int tree, const char *at, uint64_t set)
{
    CAY_AUTOFD t = tree;
    return t >= 0 && mnt_setattr(t, "", AT_EMPTY_PATH | AT_RECURSIVE, set, 0, -1) == 0 &&
           mnt_move(t, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

/* mkdir -p, below the directory we are in. */
static bool make_way(const char *path)
{
    char part[PATH_MAX];
    if (!CAY_COPY(part, path + 1))
        return false;
    for (char *p = part;; p++) {
        if (*p && *p != '/')
            continue;
        char was = *p;
        *p = 0;
        if (*part && mkdir(part, 0755) < 0 && errno != EEXIST)
            return false;
        if (!(*p = was))
            return true;
    }
}

/* As the host has them: links into /usr, or directories of their own. */
static bool place_libraries(void)
{
    static const char *const names[] = { "lib", "lib32", "lib64" };
    CAY_AUTOFD cache = tree_of("", "/etc/ld.so.cache", 0);
    char path[16], target[256];
    struct stat st;
    CAY_EACH(name, names) {
        CAY_JOIN(path, "/", *name);
        if (lstat(path, &st) < 0)
            continue;
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[CAY_MAX(n, 0)] = 0;
        if (n > 0 ? symlink(target, *name) < 0
                  : mkdir(*name, 0755) < 0 ||
                        !place_tree(tree_of("", path, AT_RECURSIVE), *name,
                                    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV))
            return false;
    }
    if (cache < 0)
        return true;
    CAY_AUTOFD file = -1;
    if (mkdir("etc", 0755) == 0)
        file = open("etc/ld.so.cache", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    return file >= 0 &&
           place_tree(CAY_STEAL_FD(cache), "etc/ld.so.cache",
                      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

/* In a mount namespace of ours: the small tree becomes the root. */
static bool build_jail_root(const hand *h, bool looks_at_processes)
{
    static const char *const dirs[] = { "t",   "t/layers", "t/sandboxes", "t/volumes",
                                        "usr", "proc",     "tmp" };
    const uint64_t data = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    struct stat st;
    if (mount(NULL, "/", NULL, REC | PRIVATE, NULL) < 0)
        return false;
    CAY_AUTOFD layers = tree_of(h->n->home, "/layers", 0),
               boxes = tree_of(h->n->home, "/sandboxes", 0),
               volumes = tree_of(h->n->home, "/volumes", 0), home = tree_of(h->home, "", 0),
               usr = tree_of("", "/usr", AT_RECURSIVE),
               procs = looks_at_processes ? tree_of("", "/proc", AT_RECURSIVE) : -1;
    if (home < 0 || fstat(home, &st) < 0 || st.st_uid != h->uid)
        return false;
    if (mount("cay-hand", h->n->home, "tmpfs", NOSUID | NODEV, "mode=755,size=1m") < 0 ||
        chdir(h->n->home) < 0)
        return false;
    CAY_EACH(dir, dirs)
        if (mkdir(*dir, 0755) < 0)
            return false;
    if (!place_tree(CAY_STEAL_FD(layers), "t/layers", data) ||
        !place_tree(CAY_STEAL_FD(boxes), "t/sandboxes",
                    data | (looks_at_processes ? 0 : MOUNT_ATTR_RDONLY)) ||
        !place_tree(CAY_STEAL_FD(volumes), "t/volumes", data) ||
        !place_tree(CAY_STEAL_FD(usr), "usr",
                    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) ||
        !place_libraries() || !make_way(h->home) ||
        !place_tree(CAY_STEAL_FD(home), h->home + 1, data | MOUNT_ATTR_RDONLY))
        return false;
    if (looks_at_processes
            ? !place_tree(CAY_STEAL_FD(procs), "proc", data)
            : mount("proc", "proc", "proc", NOSUID | NODEV | NOEXEC | RDONLY, "subset=pid") < 0)
        return false;
    return syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 &&
           chdir("/") == 0;
}

/* The first process of a pid namespace is a child: who is seen from outside waits for it. */
static bool be_first(void)
{
    int status = 0;
    if (unshare(CLONE_NEWPID) < 0)
        return false;
    int pid = fork();
    if (pid < 0)
        return false;
    if (pid == 0)
        return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    cay__fd_close_from(0);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}

int jail_enter(const hand *h, bool looks_at_processes)
{
    if (CAY__MUTANT("apart-jail"))
        return open(h->n->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET) < 0 ||
        (!looks_at_processes && !be_first()) || !build_jail_root(h, looks_at_processes) ||
        (!looks_at_processes && !drop_rights()))
        return -1;
    return open("/t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}
