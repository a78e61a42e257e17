/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the keeper lives: root of its own user namespace when it is an ordinary user's, always in a
 * mount namespace of its own, and there in a small tree of a few mounts, because every parked
 * sandbox copies what is mounted around it.
 */
#include "keeper.h"
#include <proto/mnt.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

static bool map_single(uid_t uid, gid_t gid)
{
    char map[64], n[21];
    if (!cay__fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny"))
        return false;
    CAY_JOIN(map, "0 ", cay__str_u64(n, uid), " 1");
    if (!cay__fd_write_file(AT_FDCWD, "/proc/self/uid_map", map))
        return false;
    CAY_JOIN(map, "0 ", cay__str_u64(n, gid), " 1");
    return cay__fd_write_file(AT_FDCWD, "/proc/self/gid_map", map);
}

/* newuidmap is set-uid and must be asked from outside: whoever started us does that, if the user
 * has a range. */
static int own_userns(int starter)
{
    char line[40], n[21], answer = 'n';
    uid_t uid = getuid();
    gid_t gid = getgid();
    if (unshare(CLONE_NEWUSER) < 0)
        return -1;
    CAY_JOIN(line, "map ", cay__str_u64(n, (uint64_t)getpid()));
    bool mapped =
        write(starter, line, strlen(line)) > 0 && read(starter, &answer, 1) == 1 && answer == 'y';
    if (!mapped && !map_single(uid, gid))
        return -1;
    if (mapped)
        keeper.mode = CAY_MODE_RANGE;
    else
        keeper.mode = CAY_MODE_SINGLE;
    return 0;
}

/* Sandboxes of a keeper that died live below its user namespace: join that one instead of making
 * another. */
static int join_userns(int fd)
{
    char map[256];
    if (setns(fd, CLONE_NEWUSER) < 0)
        return -1;
    ssize_t n = cay__fd_read_file(AT_FDCWD, "/proc/self/uid_map", map, sizeof map);
    unsigned lines = 0;
    for (ssize_t i = 0; i < n; i++)
        lines += map[i] == '\n';
    if (lines > 1)
        keeper.mode = CAY_MODE_RANGE;
    else
        keeper.mode = CAY_MODE_SINGLE;
    return 0;
}

int enter_namespaces(int adopt_userns, int starter)
{
    keeper.mode = CAY_MODE_ROOT;
    if (geteuid() != 0) {
        if ((adopt_userns >= 0 ? join_userns(adopt_userns) : own_userns(starter)) < 0)
            return -1;
        if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
            return -1;
    }
    if (unshare(CLONE_NEWNS) < 0)
        return -1;
    /* Slave, until the janitor has its copy: that one goes on seeing what the host mounts later. */
    return mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL);
}

static const struct {
    const char *name;
    unsigned minor, major;
} nodes[] = {
    { "null", 3, 1 },   { "zero", 5, 1 },    { "full", 7, 1 },
    { "random", 8, 1 }, { "urandom", 9, 1 }, { "tty", 0, 5 },
};

/* One read-only /dev for all sandboxes; terminals and shared memory are mounted over it in each. */
static int make_dev(int host_dev)
{
    static const char *const links[][2] = {
        { "pts/ptmx", "/d/ptmx" },          { "/proc/self/fd", "/d/fd" },
        { "/proc/self/fd/0", "/d/stdin" },  { "/proc/self/fd/1", "/d/stdout" },
        { "/proc/self/fd/2", "/d/stderr" },
    };
    char path[32];
    if (mount("tmpfs", "/d", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k") < 0 ||
        mkdir("/d/pts", 0755) < 0 || mkdir("/d/shm", 01777) < 0)
        return -1;
    CAY_EACH(it, nodes) {
        CAY_JOIN(path, "/d/", it->name);
        if (keeper.mode == CAY_MODE_ROOT) {
            if (mknod(path, S_IFCHR | 0666, makedev(it->major, it->minor)) < 0 ||
                chmod(path, 0666) < 0)
                return -1;
            continue;
        }
        CAY_AUTOFD node = mnt_open_tree(host_dev, it->name, OPEN_TREE_CLONE);
        CAY_AUTOFD at = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        if (node < 0 || at < 0 ||
            mnt_setattr(node, "", AT_EMPTY_PATH,
                        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, 0, -1) < 0 ||
            mnt_move(node, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
            return -1;
    }
    for (size_t i = 0; i < CAY_LEN(links); i++)
        if (symlink(links[i][0], links[i][1]) < 0)
            return -1;
    return mnt_setattr(AT_FDCWD, "/d", 0, MOUNT_ATTR_RDONLY, 0, -1);
}

static int clone_to(const char *from, unsigned rec)
{
    return mnt_open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | rec);
}

static int attach_tree(int tree, const char *name)
{
    if (mkdir(name, 0755) < 0 && errno != EEXIST)
        return -1;
    if (tree < 0)
        return -1;
    return mnt_move(tree, "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH);
}

/* One that hides nothing, where the kernel lets us: what a service manager or an engine covers in
 * the host's (ProtectKernelLogs=) is locked in the namespaces of sandboxes, and the kernel mounts
 * no other /proc beside one of which a part is covered. */
static int attach_proc(void)
{
    if (mkdir("proc", 0755) < 0)
        return -1;
    if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
        return 0;
    CAY_AUTOFD host = clone_to("/proc", AT_RECURSIVE);
    return attach_tree(host, "proc");
}

int enter_tree(const char *home, const char *run)
{
    static const char *const dirs[] = { "t", "d", "m", "m/sandboxes", "m/layers", "l", "tmp" };
    static const char *const links[][2] = {
        { "usr/bin", "bin" }, { "usr/lib", "lib" }, { "usr/lib64", "lib64" }, { "usr/sbin", "sbin" }
    };
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -1;
    CAY_AUTOFD h = clone_to(home, 0), r = clone_to(run, 0), usr = clone_to("/usr", AT_RECURSIVE),
               dev = clone_to("/dev", AT_RECURSIVE);
    if (mount("tmpfs", run, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=256k") < 0 ||
        chdir(run) < 0)
        return -1;
    CAY_EACH(dir, dirs)
        if (mkdir(*dir, 0755) < 0)
            return -1;
    for (size_t i = 0; i < CAY_LEN(links); i++)
        if (symlink(links[i][0], links[i][1]) < 0)
            return -1;
    if (attach_tree(h, "s") < 0 || attach_tree(r, "r") < 0 || attach_tree(usr, "usr") < 0 ||
        attach_proc() < 0 || attach_tree(dev, "dev") < 0)
        return -1;
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -1;
    CAY_AUTOFD host_dev = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (make_dev(host_dev) < 0)
        return -1;
    /* Rootless: the six nodes were cloned from it one by one; the rest of the host's /dev is not
     * needed any more. */
    umount2("/dev", MNT_DETACH);
    keeper.home_fd = open("/s", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    keeper.run_fd = open("/r", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (keeper.home_fd < 0 || keeper.run_fd < 0)
        return -1;
    return 0;
}
