/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What init takes from the keeper's socket. Calls that would start, signal or limit processes are
 * answered by this program
 * (--wrap): everything up to them is init's. The input is a few packets, each [descriptors]
 * [length, 2 bytes] [bytes].
 */
#include <fcntl.h>
#include <daemon/init/init.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
int __wrap_kill(pid_t pid, int sig);
int __wrap_setrlimit(int what, const struct rlimit *r);
int __wrap_setrlimit64(int what, const struct rlimit *r);
long __wrap_syscall(long nr, ...);

enum { PACKETS = 8 };
static unsigned calls;

/* The child would run; here it is born dead, or not at all. */
int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
    (void)fn, (void)stack, (void)flags, (void)arg;
    errno = EAGAIN;
    return calls++ & 1 ? -1 : 1 << 30;
}

int __wrap_kill(pid_t pid, int sig)
{
    bool holds = sig == SIGSTOP || sig == SIGCONT; /* everybody may be stopped at once, and go on,
                                                      but not ended: file workers are there, too */
    if (pid == 1 || (pid == -1 && !holds) ||
        pid == 0) /* never: init, everybody, init's own group */
        abort();
    return 0;
}

int __wrap_setrlimit(int what, const struct rlimit *r)
{
    (void)what, (void)r;
    return 0;
}

int __wrap_setrlimit64(int what, const struct rlimit *r)
{
    return __wrap_setrlimit(what, r);
}

long __wrap_syscall(long nr, ...)
{
    (void)nr;
    errno = EAGAIN;
    return -1;
}

static int companion(unsigned kind)
{
    if (kind % 3)
        return open(kind % 3 == 1 ? "/dev/null" : "/tmp", O_RDONLY | O_CLOEXEC);
    int fd = memfd_create("blob", MFD_CLOEXEC);
    static const char blob[] = "user\0/\0tag\0true\0K=V\0";
    return fd >= 0 && write(fd, blob, sizeof blob - 1) == sizeof blob - 1 ? fd : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!init.procs) {
        init.ops = &init_own_ops;
        init.procs = calloc(GPROCS, sizeof *init.procs);
        init.labels = calloc(GPROCS, sizeof *init.labels);
        init.shims = calloc(GPROCS, sizeof *init.shims);
    }
    init.ctl = init.listen = init.sig = init.net[0] = init.net[1] = init.net[2] = init.net[3] = -1;
    calls = 0;
    for (int i = 0; i < PACKETS && len >= 3; i++) {
        int fds[CAY__FDS_MAX], nfds = 0;
        uint8_t with = data[0];
        size_t n = CAY_MIN((size_t)(data[1] | data[2] << 8), len - 3);
        for (unsigned k = 0; k < (with & 15u); k++)
            if ((fds[nfds] = companion((with >> 4) + k)) >= 0)
                nfds++;
        char *copy = malloc(n ? n : 1); /* of the exact size */
        if (!copy)
            abort();
        if (n)
            memcpy(copy, data + 3, n);
        init_packet(copy, n, fds, nfds);
        free(copy);
        for (int k = 0; k < nfds; k++)
            cay__close_fd(&fds[k]);
        data += 3 + n;
        len -= 3 + n;
    }
    for (gproc *p = init.procs; p < init.procs + GPROCS; p++)
        if (p->used)
            gproc_drop(p);
    return 0;
}
