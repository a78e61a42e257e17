/* SPDX-License-Identifier: Apache-2.0 */
/* Files and mounts: the root, read-only grants, special files, names that change under a reader. */
#include "probe.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* S-08: the root is the root; the arguments are words of the host that must not be seen ----
 */

static void climb(void)
{
    struct stat root, st;
    stat("/", &root);
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 64; i++) {
        int up = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = up;
    }
    if (fstat(fd, &st) == 0 && st.st_dev == root.st_dev && st.st_ino == root.st_ino)
        ok("64 times .. from / is /");
    else
        breach(".. leads out of /");
    close(fd);
    must_fail("chroot", chroot("/tmp"), EPERM);
    must_fail("chroot .", chroot("."), EPERM);
    /* descriptors that were there before us */
    for (int i = 0; i < 256; i++)
        if (fcntl(i, F_GETFD) >= 0 && fchdir(i) == 0)
            breach("descriptor %d is a directory", i);
    if (chdir("/") < 0)
        breach("chdir /: %s", strerror(errno));
}

static bool allowed_mount(const char *point, int argc, char **argv)
{
    static const char *const all[] = { "/", "/usr", "/proc", "/dev", "/run" };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(point, all[i]))
            return true;
    if (!strncmp(point, "/proc/", 6) || !strncmp(point, "/dev/", 5) || !strncmp(point, "/usr/", 5))
        return true;
    for (int i = 0; i < argc; i++)
        if (argv[i][0] == '+' && !strcmp(point, argv[i] + 1))
            return true;
    return false;
}

/* ARG "+PATH" is a mount that was granted; any other ARG is a word that must not be in mountinfo.
 */
static void root(int argc, char **argv)
{
    static char text[65536];
    int at_root = 0;
    climb();
    if (slurp("/proc/self/mountinfo", text, sizeof text) <= 0)
        breach("no mountinfo: %s", strerror(errno));
    for (int i = 0; i < argc; i++)
        if (argv[i][0] != '+' && strstr(text, argv[i]))
            breach("mountinfo tells %s", argv[i]);
    for (char *s = text, *save, *line; (line = strtok_r(s, "\n", &save)); s = NULL) {
        char point[512] = "";
        sscanf(line, "%*d %*d %*s %*s %511s", point);
        at_root += !strcmp(point, "/");
        if (!allowed_mount(point, argc, argv))
            breach("mounted: %s", line);
        else if (strstr(line, " shared:") || strstr(line, " master:"))
            breach("mounts propagate: %s", line);
    }
    if (at_root == 1)
        ok("one root is mounted");
    else
        breach("%d roots are mounted", at_root);
    /* the usual other ways to a root */
    struct stat a, b;
    if (stat("/proc/1/root/", &b) == 0 && stat("/", &a) == 0 &&
        (a.st_dev != b.st_dev || a.st_ino != b.st_ino))
        breach("/proc/1/root is another root");
    if (stat("/proc/1/cwd/", &b) == 0 && (a.st_dev != b.st_dev || a.st_ino != b.st_ino))
        breach("/proc/1/cwd is elsewhere");
}

static void readonly(int argc, char **argv)
{
    char f[512], d[512], n[512];
    struct timespec now[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };
    if (argc < 1)
        return;
    snprintf(f, sizeof f, "%s/file", argv[0]);
    snprintf(d, sizeof d, "%s/dir", argv[0]);
    snprintf(n, sizeof n, "%s/new", argv[0]);
    if (access(f, R_OK) < 0)
        breach("%s cannot be read: %s", f, strerror(errno));
    must_fail("write", open(f, O_WRONLY | O_CLOEXEC), EROFS);
    must_fail("append", open(f, O_WRONLY | O_APPEND | O_CLOEXEC), EROFS);
    must_fail("create", open(n, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), EROFS);
    must_fail("open for both", open(f, O_RDWR | O_CLOEXEC), EROFS);
    must_fail("truncate", truncate(f, 0), EROFS);
    must_fail("chmod", chmod(f, 0777), EROFS);
    must_fail("chown", chown(f, getuid(), getgid()), EROFS);
    must_fail("utimes", utimensat(AT_FDCWD, f, now, 0), EROFS);
    must_fail("rename", rename(f, n), EROFS);
    must_fail("link", link(f, n), EROFS);
    must_fail("symlink", symlink("x", n), EROFS);
    must_fail("unlink", unlink(f), EROFS);
    must_fail("mkdir", mkdir(n, 0755), EROFS);
    must_fail("rmdir", rmdir(d), EROFS);
    must_fail("mkfifo", mkfifo(n, 0644), EROFS);
    must_fail("setxattr", setxattr(f, "user.x", "x", 1, 0), EROFS);
    must_fail("remount", mount(NULL, argv[0], NULL, MS_REMOUNT | MS_BIND, NULL), EPERM);
    must_fail("mount over", mount("none", argv[0], "tmpfs", 0, NULL), EPERM);
    int fd = open(f, O_RDONLY | O_CLOEXEC);
    must_fail("shared writable map",
              (long)(intptr_t)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), EACCES);
    char again[64];
    snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
    must_fail("open again by /proc", open(again, O_WRONLY | O_CLOEXEC), EROFS);
    int out = open("/tmp/x", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must_fail("link out of it", linkat(AT_FDCWD, f, AT_FDCWD, "/tmp/hard", 0), EXDEV);
    close(out);
    close(fd);
}

static void nodes(int argc, char **argv)
{
    static const struct {
        const char *name;
        mode_t kind;
        unsigned major, minor;
    } all[] = {
        { "mem", S_IFCHR, 1, 1 },     { "kmsg", S_IFCHR, 1, 11 },  { "vda", S_IFBLK, 254, 0 },
        { "sda", S_IFBLK, 8, 0 },     { "loop0", S_IFBLK, 7, 0 },  { "kvm", S_IFCHR, 10, 232 },
        { "fuse", S_IFCHR, 10, 229 }, { "tun", S_IFCHR, 10, 200 }, { "whiteout", S_IFCHR, 0, 0 },
    };
    char path[128];
    (void)argc, (void)argv;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        static const char *const dirs[] = { "/tmp", "/run/lock", "/dev/shm", "." };
        for (size_t k = 0; k < sizeof dirs / sizeof *dirs; k++) {
            snprintf(path, sizeof path, "%s/node-%s", dirs[k], all[i].name);
            long rc = mknod(path, all[i].kind | 0666, makedev(all[i].major, all[i].minor));
            /* a 0:0 character device is a whiteout, which anybody may make where the filesystem
             * lets it: inert */
            if (rc == 0 && !all[i].major && open(path, O_RDWR | O_CLOEXEC) < 0)
                ok("a whiteout is inert");
            else
                must_fail_by(path, rc, EPERM, EACCES);
            unlink(path);
        }
    }
}

/* What waits where the file API will read. */
static void special(int argc, char **argv)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX, .sun_path = "sock" };
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)argc, (void)argv;
    if (mkfifo("fifo", 0666) < 0 || bind(s, (struct sockaddr *)&sa, sizeof sa) < 0 ||
        symlink("fifo", "link") < 0 || symlink("/dev/zero", "zero") < 0 ||
        symlink("loop", "loop") < 0)
        breach("set-up: %s", strerror(errno));
    ok("placed");
}

static void swap(int argc, char **argv)
{
    long turns = argc > 1 ? atol(argv[1]) : 100000, done = 0;
    mkdir("d", 0777);
    mkdir("d/sub", 0777);
    if (argc < 1 || symlink(argv[0], "l") < 0)
        breach("set-up: %s", strerror(errno));
    dprintf(1, "ready\n");
    for (; done < turns; done++)
        if (syscall(SYS_renameat2, AT_FDCWD, "d", AT_FDCWD, "l", 2 /* RENAME_EXCHANGE */) < 0)
            break;
    if (done == turns)
        ok("%ld exchanges", done);
    else
        breach("the exchange failed after %ld: %s", done, strerror(errno));
}

static void appears(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (access(argv[i], F_OK) == 0)
            breach("%s is there", argv[i]);
        else
            ok("%s: %s", argv[i], strerror(errno));
}

const probe fs_probes[] = {
    { "root", root }, { "readonly", readonly }, { "nodes", nodes }, { "special", special },
    { "swap", swap }, { "appears", appears },   { NULL, NULL },
};
