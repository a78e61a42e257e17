/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that are listened on: HOST:PORT, :PORT, [V6]:PORT, PORT, unix:PATH, fd:N. */
#include "connection.h"
#include <base/base.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <server/http/connection.h>
#include <limits.h>

enum { BACKLOG = 4096 };

/* The path, not the file: whoever brings a new version puts another file there. */
static char program[PATH_MAX];
static int kept[CAY__LISTENERS];
static size_t nkept;

/* Of the program before: that of the i-th --listen, or -1. */
static int reexec_socket(size_t i)
{
    int on = 0;
    socklen_t len = sizeof on;
    if (i >= nkept || getsockopt(kept[i], SOL_SOCKET, SO_ACCEPTCONN, &on, &len) < 0 || !on)
        return -1;
    fcntl(kept[i], F_SETFD, FD_CLOEXEC);
    return kept[i];
}

static void name_unix(const char *path, int fd, cay__listener *l)
{
    l->local = l->plain = true;
    l->fd = fd;
    CAY_FORMAT(l->name, "unix:%s", path);
}

static int open_unix(const cay__server *s, const char *path, cay__listener *l, cay_err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct stat st;
    CAY_AUTOFD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int old_fd = reexec_socket(s->nlisteners);
    if (old_fd >= 0) {
        name_unix(path, old_fd, l);
        return 0;
    }
    if (fd < 0)
        return cay_fail_sys(err, "a socket");
    if (!*path || !CAY_COPY(a.sun_path, path))
        return cay_fail(err, CAY_EINVAL, "--listen unix:%s: want a path of at most %zu bytes", path,
                        sizeof a.sun_path - 1);
    /* One that nobody answers is left over from a server that died; one that somebody answers is
     * not taken away. */
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        CAY_AUTOFD probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(probe, (struct sockaddr *)&a, sizeof a) == 0)
            return cay_fail(err, CAY_EEXIST, "--listen unix:%s: another server answers there",
                            path);
        unlink(path);
    }
    mode_t old = umask(0177);
    int rc = bind(fd, (struct sockaddr *)&a, sizeof a);
    umask(old);
    if (rc < 0 || listen(fd, BACKLOG) < 0)
        return cay_fail_sys(err, "--listen unix:%s", path);
    name_unix(path, CAY_STEAL_FD(fd), l);
    return 0;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* What is printed of a socket, and whether it may be plain. */
static int name_tcp(const cay__server *s, int fd, cay__listener *l, cay_err *err)
{
    char shown[64], port[8];
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    CAY_TRY_SYS(getsockname(fd, (struct sockaddr *)&a, &n), err, "--listen");
    if (a.ss_family == AF_UNIX) {
        l->local = l->plain = true;
        CAY_FORMAT(l->name, "a unix socket");
        return 0;
    }
    l->local = is_loopback((struct sockaddr *)&a);
    getnameinfo((struct sockaddr *)&a, n, shown, sizeof shown, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    if (!l->local && !s->conf.tls_cert && !s->conf.insecure)
        return cay_fail_why(err, CAY_EPERM, "plain_refused",
                            "--listen %s:%s: beyond this machine keys would travel in the clear: "
                            "give --tls CERT,KEY, or --insecure",
                            shown, port);
    CAY_FORMAT(l->name, strchr(shown, ':') ? "%s://[%s]:%s" : "%s://%s:%s",
               cay__scheme(s->conf.tls_cert), shown, port);
    return 0;
}

/* A socket that whoever started us listens on: it outlives us, so that a restart refuses nobody. */
static int take_fd(cay__server *s, const char *digits, cay__listener *l, cay_err *err)
{
    uint64_t n;
    int on = 0;
    socklen_t len = sizeof on;
    if (!cay__str_to_u64(digits, &n) || n < 3 || n > 1023 ||
        getsockopt((int)n, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) < 0 || !on)
        return cay_fail(err, CAY_EINVAL, "--listen fd:%s: want the number of a socket that listens",
                        digits);
    fcntl((int)n, F_SETFD, FD_CLOEXEC);
    fcntl((int)n, F_SETFL, fcntl((int)n, F_GETFL) | O_NONBLOCK);
    CAY_TRY(name_tcp(s, (int)n, l, err));
    l->fd = (int)n;
    return 0;
}

/* "HOST:PORT" taken apart; a missing host is this machine alone. */
static int take_apart(const char *addr, char *host, size_t cap, char *port, size_t pcap,
                      cay_err *err)
{
    const char *colon = strrchr(addr, ':'), *digits = colon ? colon + 1 : addr;
    size_t n = 0;
    if (colon)
        n = (size_t)(colon - addr);
    uint64_t v;
    if (n >= 2 && addr[0] == '[' && addr[n - 1] == ']') {
        addr++;
        n -= 2;
    }
    if (!cay__str_to_u64(digits, &v) || v > 65535 || n >= cap || (n && memchr(addr, '/', n)))
        return cay_fail(err, CAY_EINVAL, "--listen %s: want HOST:PORT, :PORT or unix:PATH", addr);
    if (n)
        snprintf(host, cap, "%.*s", (int)n, addr);
    else
        cay__str_copy(host, cap, "127.0.0.1");
    cay__str_copy(port, pcap, digits);
    return 0;
}

static int open_tcp(cay__server *s, const char *addr, cay__listener *l, cay_err *err)
{
    int old_fd = reexec_socket(s->nlisteners);
    if (old_fd >= 0) {
        CAY_TRY(name_tcp(s, old_fd, l, err));
        l->fd = old_fd;
        return 0;
    }
    char host[256], port[8];
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV },
                    *list = NULL;
    int on = 1;
    CAY_TRY(take_apart(addr, host, sizeof host, port, sizeof port, err));
    int rc = getaddrinfo(host, port, &hints, &list);
    if (rc)
        return cay_fail(err, CAY_EINVAL, "--listen %s: %s", addr, gai_strerror(rc));
    CAY_AUTOFD fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool ok = fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    freeaddrinfo(list);
    if (!ok) {
        if (errno == EADDRINUSE)
            return cay_fail_why(err, CAY_EEXIST, "address_in_use",
                                "--listen %s: another program listens there; "
                                "--listen :0 takes a free port",
                                addr);
        return cay_fail_sys(err, "--listen %s", addr);
    }
    CAY_TRY(name_tcp(s, fd, l, err));
    l->fd = CAY_STEAL_FD(fd);
    return 0;
}

int cay__listen(cay__server *s, const char *addr, const cay__dialect *root, const char *as,
                cay_err *err)
{
    if (s->nlisteners == CAY_LEN(s->listeners))
        return cay_fail(err, CAY_ETOOBIG, "--listen %s: at most %zu addresses", addr,
                        CAY_LEN(s->listeners));
    cay__listener *l = &s->listeners[s->nlisteners];
    *l = (cay__listener){ .fd = -1, .root = root, .as = as };
    if (cay__str_starts(addr, "unix:"))
        CAY_TRY(open_unix(s, addr + 5, l, err));
    else if (cay__str_starts(addr, "fd:"))
        CAY_TRY(take_fd(s, addr + 3, l, err));
    else
        CAY_TRY(open_tcp(s, addr, l, err));
    s->nlisteners++;
    if (as && !l->local)
        return cay_fail_why(
            err, CAY_EPERM, "as_refused",
            "--as %s on %s: everybody could come; it works on loopback and unix sockets alone", as,
            addr);
    return 0;
}

void cay__listen_close(cay__server *s)
{
    CAY_EACH_OF(listener, s->listeners, s->nlisteners) {
        cay__close_fd(&listener->fd);
        if (cay__str_starts(listener->name, "unix:"))
            unlink(listener->name + 5);
    }
}

/*
 * SIGUSR2: the program begins anew under the same process id, as it is installed now, with the
 * sockets that it listens on. They are never closed, so whoever connects meanwhile waits and is not
 * refused; what was being answered is answered first.
 */

#define FDS "CAY_SERVER_SOCKETS" /* by the order of --listen, blanks between */

void cay__reexec_init(void)
{
    const char *text = getenv(FDS);
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    for (char *end; text && *text && nkept < CAY_LEN(kept); text = end) {
        long fd = strtol(text, &end, 10);
        if (end == text || fd < 3 || fd > INT_MAX)
            break;
        kept[nkept++] = (int)fd;
    }
    unsetenv(FDS); /* what we start has no use for it */
}

int cay__reexec(const cay__server *s, char **argv)
{
    CAY_AUTOBUF b = CAY__BUF(1024);
    for (size_t i = 0; i < s->nlisteners; i++) {
        fcntl(s->listeners[i].fd, F_SETFD, 0);
        cay__buf_fmt(&b, "%s%d", i ? " " : "", s->listeners[i].fd);
    }
    setenv(FDS, b.data, 1);
    cay__harden_before_reexec();
    execv(program, argv);
    fprintf(stderr, "cay: begin anew: %s: %s\n", program, strerror(errno));
    return 1;
}
