/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every row of base/kernel.def tried by doing, by processes that are thrown away: one in namespaces
 * of its own, as an ordinary user's keeper is, and as root another in a mount namespace alone,
 * whose mounts show the ids of the first.
 */
#include "kernel.h"
#include "base.h"
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define SPOT "/tmp" /* covered by a file system of ours, in a mount namespace of ours */

/* glibc's <sys/mount.h> and the kernel's header exclude each other. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);

typedef struct answers {
    signed char of[CAY_KERNEL_COUNT]; /* cay__kernel_answer */
} answers;

static signed char answer_of(bool is_there)
{
    return (signed char)(CAY_KERNEL_NO + is_there);
}

static int set_attr(int fd, const char *path, unsigned flags, uint64_t set, int userns)
{
    struct mount_attr a = { .attr_set = set };
    if (userns >= 0)
        a.userns_fd = (uint64_t)userns;
    return (int)syscall(SYS_mount_setattr, fd, path, flags, &a, sizeof a);
}

static int clone_tree(const char *path)
{
    return (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

static bool make_spot(void)
{
    static const char *const dirs[] = { SPOT "/a", SPOT "/b", SPOT "/c",
                                        SPOT "/u", SPOT "/w", SPOT "/on" };
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", SPOT, "tmpfs", MS_NOSUID | MS_NODEV, "mode=700,size=1m") < 0)
        return false;
    CAY_EACH(dir, dirs)
        if (mkdir(*dir, 0755) < 0)
            return false;
    return true;
}

static bool set_layer(int fs, const char *key, int tree, const char *name)
{
    CAY_AUTOFD fd = openat(tree, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, key, NULL, fd) == 0;
}

/* Layers by descriptor, of a mount that nobody attached. */
static bool try_overlay_fd(void)
{
    CAY_AUTOFD tree = clone_tree(SPOT);
    CAY_AUTOFD fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
    return tree >= 0 && fs >= 0 && set_layer(fs, "lowerdir+", tree, "a") &&
           set_layer(fs, "lowerdir+", tree, "b") && set_layer(fs, "upperdir", tree, "u") &&
           set_layer(fs, "workdir", tree, "w") &&
           syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) == 0 &&
           syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0;
}

static void try_in_userns(answers *a)
{
    if (!make_spot())
        return;
    a->of[CAY_KERNEL_TMPFS_XATTR] = answer_of(setxattr(SPOT "/c", "user.c", "c", 1, 0) == 0);
    a->of[CAY_KERNEL_OVERLAY_FD] = answer_of(try_overlay_fd());
    a->of[CAY_KERNEL_OVERLAY_USER] = answer_of(mount("overlay", SPOT "/on", "overlay", 0,
                                                     "userxattr,lowerdir=" SPOT "/a,upperdir=" SPOT
                                                     "/u,workdir=" SPOT "/w") == 0);
    a->of[CAY_KERNEL_MOUNT_SETATTR] =
        answer_of(set_attr(AT_FDCWD, SPOT, 0, MOUNT_ATTR_RDONLY, -1) == 0);
}

/* As root: what shows other ids, and an overlay on it. */
static void try_idmap(answers *a, int userns)
{
    if (!make_spot())
        return;
    CAY_AUTOFD small = clone_tree(SPOT "/a");
    a->of[CAY_KERNEL_TMPFS_IDMAP] =
        answer_of(set_attr(small, "", AT_EMPTY_PATH, MOUNT_ATTR_IDMAP, userns) == 0);
    CAY_AUTOFD usr = clone_tree("/usr");
    bool mapped = set_attr(usr, "", AT_EMPTY_PATH, MOUNT_ATTR_IDMAP, userns) == 0;
    a->of[CAY_KERNEL_IDMAP] = answer_of(mapped);
    if (!mapped ||
        syscall(SYS_move_mount, usr, "", AT_FDCWD, SPOT "/b", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return;
    a->of[CAY_KERNEL_OVERLAY_IDMAP] = answer_of(
        mount("overlay", SPOT "/on", "overlay", MS_RDONLY, "lowerdir=" SPOT "/b:" SPOT "/c") == 0);
}

static void try_calls(answers *a)
{
    uint64_t cookie;
    socklen_t len = sizeof cookie;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    a->of[CAY_KERNEL_LANDLOCK] = answer_of(abi > 0);
    a->of[CAY_KERNEL_LANDLOCK_TRUNCATE] = answer_of(abi >= 3);
    a->of[CAY_KERNEL_LANDLOCK_SCOPE] = answer_of(abi >= 6);
    errno = 0;
    a->of[CAY_KERNEL_QUOTACTL_FD] =
        answer_of(syscall(SYS_quotactl_fd, -1, 0, 0, NULL) < 0 && errno != ENOSYS);
    CAY_AUTOFD s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a->of[CAY_KERNEL_NETNS_COOKIE] =
        answer_of(getsockopt(s, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) == 0);
    CAY_AUTOFD self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    CAY_AUTOFD ns = ioctl(self, _IO(0xff, 3), 0); /* PIDFD_GET_MNT_NAMESPACE */
    a->of[CAY_KERNEL_PIDFD_NAMESPACE] = answer_of(ns >= 0);
}

/* A file that every control group but the root has; in the group that we are in, or one above. */
static void try_groups(answers *a)
{
    char line[4096], path[4200];
    ssize_t n = cay__fd_read_file(AT_FDCWD, "/proc/self/cgroup", line, sizeof line);
    char *own = NULL;
    if (n > 0)
        own = strstr(line, "0::/");
    if (!own)
        return;
    own += 3;
    own[strcspn(own, "\n")] = 0;
    if (!own[1] || !CAY_JOIN(path, "/sys/fs/cgroup", own, "/cgroup.procs") ||
        access(path, F_OK) < 0)
        return;
    CAY_JOIN(path, "/sys/fs/cgroup", own, "/cgroup.kill");
    a->of[CAY_KERNEL_CGROUP_KILL] = answer_of(access(path, F_OK) == 0);
    CAY_JOIN(path, "/sys/fs/cgroup", own, "/memory.current");
    if (access(path, F_OK) < 0)
        return;
    CAY_JOIN(path, "/sys/fs/cgroup", own, "/memory.peak");
    a->of[CAY_KERNEL_MEMORY_PEAK] = answer_of(access(path, F_OK) == 0);
}

static bool write_map(int pid, const char *file, const char *map)
{
    char path[64], n[21];
    CAY_JOIN(path, "/proc/", cay__str_u64(n, (uint64_t)pid), "/", file);
    return cay__fd_write_file(AT_FDCWD, path, map);
}

/* Root maps any range; everybody else the one id that is theirs. */
static bool write_maps(int pid)
{
    char map[64], n[21];
    if (geteuid() == 0)
        return write_map(pid, "uid_map", "0 2147418112 65536") &&
               write_map(pid, "gid_map", "0 2147418112 65536");
    CAY_JOIN(map, "0 ", cay__str_u64(n, geteuid()), " 1");
    if (!write_map(pid, "uid_map", map) || !write_map(pid, "setgroups", "deny"))
        return false;
    CAY_JOIN(map, "0 ", cay__str_u64(n, getegid()), " 1");
    return write_map(pid, "gid_map", map);
}

/* One more process; it ends with its caller, and its caller waits for it. */
static int start_child(unsigned long flags)
{
    int pid = (int)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static void end_child(int pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void try_as_root(answers *a, int namespaces_of)
{
    char path[64], n[21];
    CAY_JOIN(path, "/proc/", cay__str_u64(n, (uint64_t)namespaces_of), "/ns/user");
    CAY_AUTOFD userns = open(path, O_RDONLY | O_CLOEXEC);
    int pid = -1;
    if (userns >= 0 && geteuid() == 0)
        pid = start_child(CLONE_NEWNS);
    if (pid == 0) {
        try_idmap(a, userns);
        _exit(0);
    }
    if (pid > 0)
        end_child(pid);
}

static void try_mounts(answers *a)
{
    char go = 0;
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return;
    CAY_AUTOFD rd = pipes[0], wr = pipes[1];
    int pid = start_child(CLONE_NEWUSER | CLONE_NEWNS);
    if (pid == 0) {
        close(wr);
        if (read(rd, &go, 1) == 1 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0)
            try_in_userns(a);
        _exit(0);
    }
    if (pid < 0)
        return;
    if (write_maps(pid)) {
        try_as_root(a, pid);
        (void)!write(wr, "g", 1);
    }
    cay__close_fd(&wr);
    end_child(pid);
}

void cay__kernel_try(signed char out[CAY_KERNEL_COUNT])
{
    answers *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(out, CAY_KERNEL_UNKNOWN, CAY_KERNEL_COUNT);
    if (a == MAP_FAILED)
        return;
    memset(a->of, CAY_KERNEL_UNKNOWN, sizeof a->of);
    try_calls(a);
    try_groups(a);
    try_mounts(a);
    for (int i = 0; i < CAY_KERNEL_COUNT; i++) {
        out[i] = a->of[i];
        if (cay__kernel_lacks((cay__kernel)i))
            out[i] = CAY_KERNEL_NO;
    }
    munmap(a, sizeof *a);
}

const cay__kernel_row *cay__kernel_rows(void)
{
    static const cay__kernel_row rows[CAY_KERNEL_COUNT] = {
#define CAY_KERNEL(id, name, since, used, without) { name, since, used, without },
#include "kernel.def"
#undef CAY_KERNEL
    };
    return rows;
}
