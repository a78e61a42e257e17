/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: which came along, and how many can be had. */
#include "probe.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* S-18. ARG "tty": all three are one terminal. */
static void fds(int argc, char **argv)
{
    bool tty = argc > 0 && !strcmp(argv[0], "tty");
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        int fd = atoi(e->d_name);
        char path[300], to[300];
        if (e->d_name[0] == '.' || fd == dirfd(d))
            continue;
        n++;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, to, sizeof to - 1);
        to[len < 0 ? 0 : len] = 0;
        bool good = tty ? !strncmp(to, "/dev/pts/", 9)
                        : !strncmp(to, "pipe:[", 6) || (fd == 0 && !strcmp(to, "/dev/null"));
        if (fd > 2 || !good)
            breach("descriptor %d is %s", fd, to);
        else
            ok("descriptor %d is %s", fd, to);
    }
    if (d)
        closedir(d);
    if (n < 3)
        breach("only %d descriptors", n);
    static const char *const signals[] = { "SigBlk", "SigIgn" };
    for (size_t i = 0; i < 2; i++) {
        char buf[64];
        if (strtoull(status_line("self", signals[i], buf, sizeof buf), NULL, 16) == 0)
            ok("%s is empty", signals[i]);
        else
            breach("%s is %s", signals[i], buf);
    }
}

/* At a core limit of 1, and at no other, neither a file is written nor the host's handler started.
 * ARG: 0 where an ordinary user may not have 1. */
static void core(int argc, char **argv)
{
    rlim_t want = argc > 0 ? (rlim_t)atoi(argv[0]) : 1;
    struct rlimit r = { 9, 9 };
    static const struct rlimit zero, most = { RLIM_INFINITY, RLIM_INFINITY };
    syscall(SYS_setrlimit, (long)RLIMIT_CORE, &zero);
    syscall(SYS_setrlimit, 0x300000000L | RLIMIT_CORE, &zero);
    syscall(SYS_setrlimit, (long)RLIMIT_CORE, &most);
    syscall(SYS_prlimit64, 0L, (long)RLIMIT_CORE, &zero, NULL);
    syscall(SYS_prlimit64, (long)getpid(), 0x300000000L | RLIMIT_CORE, &zero, NULL);
    must_fail("prlimit64 with both", syscall(SYS_prlimit64, 0L, (long)RLIMIT_CORE, &zero, &r),
              EPERM);
    if (getrlimit(RLIMIT_CORE, &r) == 0 && r.rlim_cur == want && r.rlim_max == want)
        ok("the core limit stays %ld", (long)want);
    else
        breach("the core limit is %ld, at most %ld", (long)r.rlim_cur, (long)r.rlim_max);
}

static int one(int kind)
{
    int p[2];
    switch (kind) {
    case 0: return open("/dev/null", O_RDONLY | O_CLOEXEC);
    case 1: return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    case 2: return pipe2(p, O_CLOEXEC) < 0 ? -1 : p[0];
    default: return memfd_create("x", MFD_CLOEXEC);
    }
}

/* S-42. ARG: the soft limit that was asked for. */
static void bomb(int argc, char **argv)
{
    static const char *const kinds[] = { "files", "sockets", "pipes", "memfds" };
    long want = argc > 0 ? atol(argv[0]) : 4096;
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    if ((long)r.rlim_cur != want)
        breach("the soft limit is %ld, not %ld", (long)r.rlim_cur, want);
    if (r.rlim_max > 65536)
        breach("the hard limit is %ld", (long)r.rlim_max);
    for (int k = 0; k < 4; k++) {
        int fd, top = 0, e;
        while ((fd = one(k)) >= 0)
            top = fd;
        e = errno;
        if (e == EMFILE && top < want)
            ok("%s end at %d: %s", kinds[k], top, strerror(e));
        else
            breach("%s end at %d: %s", kinds[k], top, strerror(e));
        for (fd = 3; fd < want; fd++)
            close(fd);
    }
    struct rlimit more = { r.rlim_max + 1, r.rlim_max + 1 };
    must_fail("raise the hard limit", setrlimit(RLIMIT_NOFILE, &more), EPERM);
}

const probe fd_probes[] = { { "fds", fds }, { "core", core }, { "fd-bomb", bomb }, { NULL, NULL } };
