/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that are listened on: HOST:PORT, :PORT, [V6]:PORT, PORT, unix:PATH. */
#include "inside.h"
#include <base/base.h>
#include <base/str.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { BACKLOG = 4096 };

static int open_unix(const char *path, cay__listener *l, cay_err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct stat st;
    CAY_AUTOFD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return cay_fail_sys(err, CAY_ESYS, "a socket");
    if (!*path || !cay__str_copy(a.sun_path, sizeof a.sun_path, path))
        return cay_fail(err, CAY_EINVAL, "--listen unix:%s: want a path of at most %zu bytes", path, sizeof a.sun_path - 1);
    /* One that nobody answers is left over from a server that died; one that somebody answers is not taken away. */
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        CAY_AUTOFD probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(probe, (struct sockaddr *)&a, sizeof a) == 0)
            return cay_fail(err, CAY_EEXIST, "--listen unix:%s: another server answers there", path);
        unlink(path);
    }
    mode_t old = umask(0177);
    int rc = bind(fd, (struct sockaddr *)&a, sizeof a);
    umask(old);
    if (rc < 0 || listen(fd, BACKLOG) < 0)
        return cay_fail_sys(err, CAY_ESYS, "--listen unix:%s", path);
    l->local = l->plain = true;
    l->fd = CAY_STEAL_FD(fd);
    snprintf(l->name, sizeof l->name, "unix:%s", path);
    return 0;
}

/* "HOST:PORT" taken apart; a missing host is this machine alone. */
static int take_apart(const char *addr, char *host, size_t cap, char *port, size_t pcap, cay_err *err)
{
    const char *colon = strrchr(addr, ':'), *digits = colon ? colon + 1 : addr;
    size_t n = colon ? (size_t)(colon - addr) : 0;
    uint64_t v;
    if (n >= 2 && addr[0] == '[' && addr[n - 1] == ']') {
        addr++;
        n -= 2;
    }
    if (!cay__str_to_u64(digits, &v) || v > 65535 || n >= cap || (n && memchr(addr, '/', n)))
        return cay_fail(err, CAY_EINVAL, "--listen %s: want HOST:PORT, :PORT or unix:PATH", addr);
    snprintf(host, cap, "%.*s", n ? (int)n : 9, n ? addr : "127.0.0.1");
    cay__str_copy(port, pcap, digits);
    return 0;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static int open_tcp(cay__server *s, const char *addr, cay__listener *l, cay_err *err)
{
    char host[256], port[8], shown[64];
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *list = NULL;
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    int on = 1;
    CAY_TRY(take_apart(addr, host, sizeof host, port, sizeof port, err));
    int rc = getaddrinfo(host, port, &hints, &list);
    if (rc)
        return cay_fail(err, CAY_EINVAL, "--listen %s: %s", addr, gai_strerror(rc));
    CAY_AUTOFD fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    l->local = is_loopback(list->ai_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool ok = fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    freeaddrinfo(list);
    if (!ok)
        return errno == EADDRINUSE ? cay_fail_why(err, CAY_EEXIST, "address_in_use", "--listen %s: another program listens there; --listen :0 takes a free port", addr)
                                   : cay_fail_sys(err, CAY_ESYS, "--listen %s", addr);
    if (!l->local && !s->conf.tls_cert && !s->conf.insecure)
        return cay_fail_why(err, CAY_EPERM, "plain_refused", "--listen %s: beyond this machine keys would travel in the clear: give --tls CERT,KEY, or --insecure", addr);
    getsockname(fd, (struct sockaddr *)&a, &n);
    getnameinfo((struct sockaddr *)&a, n, shown, sizeof shown, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(l->name, sizeof l->name, strchr(shown, ':') ? "%s://[%s]:%s" : "%s://%s:%s", s->conf.tls_cert ? "https" : "http", shown, port);
    l->fd = CAY_STEAL_FD(fd);
    return 0;
}

int cay__listen(cay__server *s, const char *addr, const cay__dialect *root, const char *as, cay_err *err)
{
    if (s->nlisteners == CAY_LEN(s->listeners))
        return cay_fail(err, CAY_ETOOBIG, "--listen %s: at most %zu addresses", addr, CAY_LEN(s->listeners));
    cay__listener *l = &s->listeners[s->nlisteners];
    *l = (cay__listener){ .fd = -1, .root = root, .as = as };
    CAY_TRY(cay__str_starts(addr, "unix:") ? open_unix(addr + 5, l, err) : open_tcp(s, addr, l, err));
    s->nlisteners++;
    if (as && !l->local)
        return cay_fail_why(err, CAY_EPERM, "as_refused", "--as %s on %s: everybody could come; it works on loopback and unix sockets alone", as, addr);
    return 0;
}

void cay__listen_close(cay__server *s)
{
    for (size_t i = 0; i < s->nlisteners; i++) {
        cay__close_fd(&s->listeners[i].fd);
        if (cay__str_starts(s->listeners[i].name, "unix:"))
            unlink(s->listeners[i].name + 5);
    }
}
