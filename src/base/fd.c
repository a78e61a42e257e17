/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include "fault.h"
#include "mutant.h"
#include <linux/openat2.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>

ssize_t cay__fd_sendv(int sock, const struct iovec *iov, int iovcnt, const int *fds, int nfds,
                      int flags)
{
    union {
        char room[CMSG_SPACE(CAY__FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } ctl;
    struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)iovcnt };
    if (nfds > CAY__FDS_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (nfds > 0) {
        memset(&ctl, 0, sizeof ctl);
        m.msg_control = ctl.room;
        m.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)nfds * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(sock, &m, flags | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

ssize_t cay__fd_send(int sock, const void *data, size_t len, const int *fds, int nfds, int flags)
{
    struct iovec io = { (void *)data, len };
    return cay__fd_sendv(sock, &io, 1, fds, nfds, flags);
}

ssize_t cay__fd_recv(int sock, void *data, size_t cap, int *fds, int *nfds, int flags)
{
    union {
        char room[CMSG_SPACE(CAY__FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } ctl;
    struct iovec io = { data, cap };
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = ctl.room, .msg_controllen = sizeof ctl.room
    };
    int room = nfds ? *nfds : 0, got = 0;
    bool surplus = false;
    ssize_t n;

    if (nfds)
        *nfds = 0;
    do
        n = recvmsg(sock, &m, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < k; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (got < room) {
                fds[got++] = fd;
            } else {
                close(fd);
                surplus = true;
            }
        }
    }
    if (surplus || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        while (got > 0)
            close(fds[--got]);
        errno = EMSGSIZE;
        return -1;
    }
    if (nfds)
        *nfds = got;
    return n;
}

bool cay__fd_write_all(int fd, const void *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = write(fd, (const char *)data + at, len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

ssize_t cay__fd_read_all(int fd, void *data, size_t cap)
{
    size_t at = 0;
    while (at < cap) {
        ssize_t n = read(fd, (char *)data + at, cap - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        at += (size_t)n;
    }
    return (ssize_t)at;
}

ssize_t cay__fd_read_file(int dir, const char *path, char *buf, size_t cap)
{
    CAY_AUTOFD fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -1;
    ssize_t n = cay__fd_read_all(fd, buf, cap - 1);
    if (n >= 0)
        buf[n] = 0;
    return n;
}

bool cay__fd_write_file(int dir, const char *path, const char *text)
{
    CAY_AUTOFD fd = openat(dir, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

void cay__fd_close_from(int first)
{
    syscall(SYS_close_range, (unsigned)first, ~0u, 0);
}

bool cay__sock_set(int sock, int level, int option, int value)
{
    return setsockopt(sock, level, option, &value, sizeof value) == 0;
}

int cay__sock_get(int sock, int option)
{
    int v;
    socklen_t len = sizeof v;
    if (getsockopt(sock, SOL_SOCKET, option, &v, &len) < 0)
        return -1;
    return v;
}

bool cay__sock_reset(int sock, bool reset)
{
    const struct linger l = { reset, 0 };
    return setsockopt(sock, SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0;
}

bool cay__sock_peer(int sock, struct ucred *who)
{
    socklen_t len = sizeof *who;
    return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, who, &len) == 0;
}

bool cay__fd_nonblock(int fd, bool on)
{
    int fl = fcntl(fd, F_GETFL);
    return fl >= 0 && fcntl(fd, F_SETFL, on ? fl | O_NONBLOCK : fl & ~O_NONBLOCK) == 0;
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t cay__clock_ms(void)
{
    return clock_ns(CLOCK_REALTIME) / 1000000 + CAY_FAULT_CLOCK();
}
int64_t cay__now_ms(void)
{
    return clock_ns(CLOCK_MONOTONIC) / 1000000;
}
int64_t cay__now_us(void)
{
    return clock_ns(CLOCK_MONOTONIC) / 1000;
}
int64_t cay__boot_ms(void)
{
    if (CAY__MUTANT("wall-clock"))
        return cay__clock_ms();
    return clock_ns(CLOCK_BOOTTIME) / 1000000;
}

uint64_t cay__start_time(int pid)
{
    char path[64], n[21], buf[512];
    uint64_t v = 0;
    CAY_JOIN(path, "/proc/", cay__str_u64(n, (uint64_t)pid), "/stat");
    if (pid <= 0 || cay__fd_read_file(AT_FDCWD, path, buf, sizeof buf) <= 0)
        return 0;
    char *p = strrchr(buf, ')');
    for (int i = 0; p && i < 20; i++)
        p = strchr(p + 1, ' ');
    for (p = p ? p + 1 : buf; *p >= '0' && *p <= '9'; p++)
        v = v * 10 + (uint64_t)(*p - '0');
    return v;
}

int cay__dir_at(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int cay__file_at(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

DIR *cay__dir_open(int at, const char *name)
{
    int fd = openat(at, CAY_OR(name, "."), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = NULL;
    if (fd >= 0)
        d = fdopendir(fd);
    if (!d)
        cay__close_fd(&fd);
    return d;
}

struct dirent *cay__dir_next(DIR *d)
{
    struct dirent *e;
    do {
        errno = 0;
        e = readdir(d);
    } while (e && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")));
    return e;
}

int cay__fd_openat2(int dir, const char *path, uint64_t flags, uint32_t mode, uint64_t resolve)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC,
        .mode = (flags & (O_CREAT | O_TMPFILE)) ? mode : 0,
        .resolve = resolve | RESOLVE_NO_MAGICLINKS,
    };
    /* EAGAIN: somebody renames below us while ".." is resolved; security.md allows 128 tries. */
    for (int i = 0; i < 128; i++) {
        long fd = syscall(SYS_openat2, dir, path, &how, sizeof how);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
            return (int)fd;
    }
    return -1;
}

int cay__fd_parent(int dir, const char *path, bool (*make)(void *arg, int at, const char *name),
                   void *arg, char name[256])
{
    const uint64_t plain = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
                   way = O_PATH | O_DIRECTORY | O_NOFOLLOW;
    int at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (const char *p = path; at >= 0;) {
        size_t n = strcspn(p, "/");
        if (!n || n > 255 || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) {
            cay__close_fd(&at);
            if (n > 255)
                errno = ENAMETOOLONG;
            else
                errno = EINVAL;
            break;
        }
        memcpy(name, p, n);
        name[n] = 0;
        if (!p[n])
            break;
        p += n + 1;
        int next = cay__fd_openat2(at, name, way, 0, plain);
        if (next < 0 && errno == ENOENT && make && make(arg, at, name))
            next = cay__fd_openat2(at, name, way, 0, plain);
        cay__close_fd(&at);
        at = next;
    }
    return at;
}

static void on_tick(int sig) {}

void cay__fd_hurry(bool on)
{
    enum { TICK_US = 50 };
    static struct sigaction was;
    static sigset_t mask;
    struct timeval every = { 0, on ? TICK_US : 0 };
    struct itimerval tick = { every, every };
    sigset_t one;
    if (on) {
        sigemptyset(&one);
        sigaddset(&one, SIGALRM);
        sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_tick }, &was);
        sigprocmask(SIG_UNBLOCK, &one, &mask);
    }
    setitimer(ITIMER_REAL, &tick, NULL);
    if (!on) {
        sigprocmask(SIG_SETMASK, &mask, NULL);
        sigaction(SIGALRM, &was, NULL);
    }
}
