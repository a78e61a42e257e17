/* SPDX-License-Identifier: Apache-2.0 */
#include "dial.h"
#include "http.h"
#include <base/base.h>
#include <poll.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

static int fail_url(const char *url, cay_err *err)
{
    return cay_fail_why(
        err, CAY_EINVAL, "url_invalid",
        "\"%.100s\" is no address of a server: http://HOST:PORT, https://HOST or unix:/PATH",
        CAY_OR(url, ""));
}

static int parse_unix(const char *url, cay__origin *o, cay_err *err)
{
    if (url[5] != '/' ||
        !cay__str_copy(o->host, sizeof((struct sockaddr_un *)0)->sun_path, url + 5))
        return fail_url(url, err);
    CAY_COPY(o->scheme, "unix");
    CAY_COPY(o->authority, "localhost");
    return 0;
}

static bool parse_port(const char *text, size_t n, uint16_t *out)
{
    unsigned v = 0;
    CAY_EACH_OF(it, text, n) {
        if (*it < '0' || *it > '9' || (v = v * 10 + (unsigned)(*it - '0')) > 65535)
            return false;
    }
    *out = (uint16_t)v;
    return n && v;
}

int cay__origin_parse(const char *url, cay__origin *out, cay_err *err)
{
    cay__origin o = { 0 };
    if (url && cay__str_starts(url, "unix:")) {
        CAY_TRY(parse_unix(url, &o, err));
        *out = o;
        return 0;
    }
    bool tls = url && cay__str_starts(url, "https://");
    if (!tls && !(url && cay__str_starts(url, "http://")))
        return fail_url(url, err);
    const char *at = url + (tls ? 8 : 7), *end = at + strcspn(at, "/"), *stop = end;
    for (const char *p = at; *p; p++)
        if ((unsigned char)*p <= 0x20 || *p == 0x7f || strchr("@?#\\", *p))
            return fail_url(url, err);
    const char *host = at, *colon;
    size_t n;
    if (*at == '[') {
        const char *close = memchr(at, ']', (size_t)(end - at));
        if (!close)
            return fail_url(url, err);
        host = at + 1;
        n = (size_t)(close - host);
        if (close + 1 < end)
            colon = close + 1;
        else
            colon = NULL;
        if (colon && *colon != ':')
            return fail_url(url, err);
    } else {
        colon = memchr(at, ':', (size_t)(end - at));
        n = (size_t)((CAY_OR(colon, end)) - host);
    }
    if (tls)
        o.port = 443;
    else
        o.port = 80;
    if (!n || n >= sizeof o.host || (size_t)(stop - at) >= sizeof o.authority ||
        (colon && !parse_port(colon + 1, (size_t)(stop - colon) - 1, &o.port)))
        return fail_url(url, err);
    memcpy(o.host, host, n);
    memcpy(o.authority, at, (size_t)(stop - at));
    CAY_COPY(o.scheme, tls ? "https" : "http");
    n = strlen(end);
    while (n && end[n - 1] == '/')
        n--;
    if (n >= sizeof o.prefix)
        return fail_url(url, err);
    memcpy(o.prefix, end, n);
    *out = o;
    return 0;
}

static int fail_unreachable(const cay__origin *to, const char *why, cay_err *err)
{
    int rc =
        cay_fail_why(err, CAY_EUPSTREAM, "net_unreachable", "%.120s: %.100s",
                     *to->authority && strcmp(to->scheme, "unix") ? to->authority : to->host, why);
    if (err)
        err->retry = CAY_RETRY_YES;
    return rc;
}

/* *e: the errno of a connection that did not come about; 0: it did. */
static int connect_to(const struct sockaddr *sa, socklen_t len, const cay_call *call, int *out,
                      int *e, cay_err *err)
{
    socklen_t n = sizeof *e;
    CAY_AUTOFD fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return cay_fail_sys(err, "socket");
    if (connect(fd, sa, len) < 0)
        *e = errno;
    else
        *e = 0;
    if (*e == EINPROGRESS || *e == EAGAIN) {
        CAY_TRY(cay__call_wait(call, fd, POLLOUT, "connect", err));
        getsockopt(fd, SOL_SOCKET, SO_ERROR, e, &n);
    }
    if (*e)
        return 0;
    if (sa->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    cay__fd_nonblock(fd, false);
    *out = CAY_STEAL_FD(fd);
    return 0;
}

static int dial_unix(const cay__origin *to, const cay_call *call, int *fd, cay_err *err)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    int e;
    CAY_COPY(sa.sun_path, to->host);
    CAY_TRY(connect_to((const struct sockaddr *)&sa, sizeof sa, call, fd, &e, err));
    if (e)
        return fail_unreachable(to, strerror(e), err);
    return 0;
}

static int dial_tcp(const cay__origin *to, const cay_call *call, int *fd, cay_err *err)
{
    char port[8];
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV },
                    *list = NULL;
    CAY_FORMAT(port, "%u", to->port);
    int e = getaddrinfo(to->host, port, &hints, &list), rc = 0;
    if (e)
        return fail_unreachable(to, gai_strerror(e), err);
    e = ENOENT;
    for (struct addrinfo *a = list; a && e && rc == 0; a = a->ai_next)
        rc = connect_to(a->ai_addr, a->ai_addrlen, call, fd, &e, err);
    freeaddrinfo(list);
    if (rc < 0)
        return rc;
    if (e)
        return fail_unreachable(to, strerror(e), err);
    return 0;
}

int cay__dial(const cay__origin *to, const cay_call *call, int *fd, cay_err *err)
{
    char url[sizeof to->authority + 16];
    CAY_TRY(cay__call_check(call, "connect", err));
    if (!strcmp(to->scheme, "unix"))
        return dial_unix(to, call, fd, err);
    if (!strcmp(to->scheme, "http"))
        return dial_tcp(to, call, fd, err);
    CAY_FORMAT(url, "https://%s", to->authority);
    return cay__http_dial(url, to->certs, call, fd, err);
}
