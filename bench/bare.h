/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/bare.h - a sandbox by system calls alone: namespaces, group, overlay root over the same
 * template, /usr, /proc, /dev, /tmp, the same filter, then exec. What any sandbox of this shape
 * costs the kernel, with nothing around it.
 */
#pragma once
#include "measure.h"
#include <proto/seccomp.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

typedef struct bare {
    char layer[512]; /* template directory, lower of the overlay */
    char dir[512];   /* where uppers are made */
    char group[512]; /* a v2 group of ours, "" where there is none */
    int program;     /* O_PATH descriptor of what runs inside */
    bool user;       /* in a user namespace of its own, one id mapped */
} bare;

static inline __attribute__((always_inline)) long raw_clone3(struct clone_args *a)
{
    /* Inline, because a child on its parent's stack must not return through a frame of it. */
#if defined(__x86_64__)
    long r;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"((long)SYS_clone3), "D"(a), "S"(sizeof *a)
                     : "rcx", "r11", "memory");
    return r;
#elif defined(__aarch64__)
    register long nr __asm__("x8") = SYS_clone3, p __asm__("x0") = (long)a,
                     n __asm__("x1") = sizeof *a;
    __asm__ volatile("client 0" : "+r"(p) : "r"(nr), "r"(n) : "memory");
    return p;
#endif
}

static inline _Noreturn void bare_die(const char *step)
{
    dprintf(2, "bench: bare sandbox: %s: %s\n", step, strerror(errno));
    _exit(99);
}

static inline void put_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        bare_die(path);
    close(fd);
}

static inline void bare_root(const bare *b, const char *dir)
{
    char opt[2048];
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        bare_die("private");
    snprintf(opt, sizeof opt, "lowerdir=%s,upperdir=%s/u,workdir=%s/w,volatile%s", b->layer, dir,
             dir, b->user ? ",userxattr" : "");
    if (chdir(dir) < 0 || mount("overlay", "m", "overlay", MS_NOSUID | MS_NODEV, opt) < 0)
        bare_die("overlay");
    if (mount("/usr", "m/usr", NULL, MS_BIND | MS_REC, NULL) < 0)
        bare_die("/usr");
    if (chdir("m") < 0 || mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        bare_die("proc");
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        bare_die("pivot");
}

static inline void bare_mounts(const bare *b)
{
    static const struct {
        const char *path;
        unsigned major, minor;
    } nodes[] = { { "/dev/null", 1, 3 },   { "/dev/zero", 1, 5 },    { "/dev/full", 1, 7 },
                  { "/dev/random", 1, 8 }, { "/dev/urandom", 1, 9 }, { "/dev/tty", 5, 0 } };
    if (mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") < 0 ||
        mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=755,size=64k") < 0)
        bare_die("tmpfs");
    for (size_t i = 0; i < COUNT(nodes) && !b->user; i++)
        if (mknod(nodes[i].path, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) < 0)
            bare_die(nodes[i].path);
    if (mkdir("/dev/pts", 0755) < 0 ||
        mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666") <
            0 ||
        mkdir("/dev/shm", 01777) < 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, NULL) < 0)
        bare_die("/dev");
}

static __attribute__((noinline)) _Noreturn void bare_inside(const bare *b, const char *dir)
{
    char *const argv[] = { "true", NULL }, *const env[] = { NULL };
    if (b->user) {
        put_text("/proc/self/setgroups", "deny");
        put_text("/proc/self/uid_map", "0 0 1");
        put_text("/proc/self/gid_map", "0 0 1");
    }
    bare_root(b, dir);
    bare_mounts(b);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || cay__seccomp_install(CAY_PROFILE_DEFAULT) < 0)
        bare_die("filter");
    syscall(SYS_execveat, b->program, "", argv, env, AT_EMPTY_PATH);
    bare_die("exec");
}

static __attribute__((noinline)) int bare_clone(const bare *b, const char *dir, int group)
{
    struct clone_args a = { .flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                                     CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_VM | CLONE_VFORK |
                                     (b->user ? CLONE_NEWUSER : 0) |
                                     (group >= 0 ? CLONE_INTO_CGROUP : 0),
                            .exit_signal = SIGCHLD,
                            .cgroup = group >= 0 ? (uint64_t)group : 0 };
    long pid = raw_clone3(&a);
    if (pid == 0)
        bare_inside(b, dir);
    return (int)pid;
}

static inline void name_in(char *out, size_t cap, const char *dir, unsigned serial,
                           const char *tail)
{
    snprintf(out, cap, "%s/bare-%d-%u%s", dir, (int)getpid(), serial, tail);
}

/* Starts one; it has executed its program when this returns. */
static inline int bare_make(const bare *b, unsigned serial)
{
    static const char *const parts[] = { "", "/m", "/u", "/w" };
    char dir[600], path[700];
    int group = -1;
    for (size_t i = 0; i < COUNT(parts); i++) {
        name_in(path, sizeof path, b->dir, serial, parts[i]);
        if (mkdir(path, 0755) < 0)
            give_up("%s: %s", path, strerror(errno));
    }
    if (b->group[0]) {
        name_in(path, sizeof path, b->group, serial, "");
        if (mkdir(path, 0755) < 0 || (group = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
            give_up("%s: %s", path, strerror(errno));
    }
    name_in(dir, sizeof dir, b->dir, serial, "");
    int pid = bare_clone(b, dir, group);
    if (group >= 0)
        close(group);
    if (pid < 0)
        give_up("clone3: %s", strerror(errno));
    return pid;
}

/* Waits for its end and takes everything away again. */
static inline int bare_end(const bare *b, unsigned serial, int pid)
{
    static const char *const parts[] = { "/w/work/incompat/volatile/dirty",
                                         "/w/work/incompat/volatile",
                                         "/w/work/incompat",
                                         "/w/work",
                                         "/w",
                                         "/u/workspace",
                                         "/u",
                                         "/m",
                                         "" };
    char path[700];
    int status = -1;
    waitpid(pid, &status, 0);
    name_in(path, sizeof path, b->group, serial, "");
    while (b->group[0] && rmdir(path) < 0 && errno == EBUSY)
        sched_yield();
    for (size_t i = 0; i < COUNT(parts); i++) {
        name_in(path, sizeof path, b->dir, serial, parts[i]);
        if (unlink(path) < 0)
            rmdir(path);
    }
    return status;
}

/* A group for the bare ones, where a v2 tree is writable. */
static inline void bare_group(bare *b)
{
    static const char *const mounts[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup" };
    for (size_t i = 0; i < COUNT(mounts); i++) {
        snprintf(b->group, sizeof b->group, "%s/cgroup.controllers", mounts[i]);
        if (access(b->group, F_OK) == 0) {
            snprintf(b->group, sizeof b->group, "%s/cay-bench-%d", mounts[i], (int)getpid());
            if (mkdir(b->group, 0755) == 0)
                return;
        }
    }
    b->group[0] = 0;
}
