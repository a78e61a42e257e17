/* SPDX-License-Identifier: Apache-2.0 */
/* What listens and what runs inside. */
#include "session_call.h"
#include <arpa/inet.h>
#include <base/base.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
enum { PORTS_MAX = 1 << 16, PROCS_MAX = 1 << 20 };

typedef struct lister {
    cay_port_fn *port;
    cay_proc_info_fn *proc;
    void *arg;
    int stop;
    size_t left;
} lister;

static int take_port(cay__ses_rd *r, void *arg)
{
    lister *l = arg;
    cay_ses_port in;
    cay_port p = { 0 };
    if (!l->left-- || !cay__ses_take(r, &in, sizeof in) || !in.port || in.pid < 0 ||
        (in.family != AF_INET && in.family != AF_INET6))
        return CAY__SES_BAD;
    p.port = in.port;
    p.pid = in.pid;
    inet_ntop(in.family, in.addr, p.address, sizeof p.address);
    l->stop = l->port(&p, l->arg);
    if (l->stop)
        return CAY__SES_STOP;
    return 0;
}

int cay__nf_ports(void *box, const cay_call *call, cay_port_fn *fn, void *arg, cay_err *err)
{
    lister l = { .port = fn, .arg = arg, .left = PORTS_MAX };
    return cay__ses_stream(box, call, CAY__SES_ASK(PORTS, "list ports"), take_port, &l, &l.stop,
                           err);
}

static int take_proc(cay__ses_rd *r, void *arg)
{
    lister *l = arg;
    cay_ses_ps in;
    char user[64], command[1024];
    if (!l->left-- || !cay__ses_take(r, &in, sizeof in) || in.pid <= 0 || in.ppid < 0 ||
        in.state < 'A' || in.state > 'z' || !cay__ses_take_str(r, in.user, user, sizeof user) ||
        !cay__ses_take_str(r, in.command, command, sizeof command))
        return CAY__SES_BAD;
    cay_proc_info p = { .size = sizeof p,
                        .id = "",
                        .tag = "",
                        .command = command,
                        .user = user,
                        .pid = in.pid,
                        .ppid = in.ppid,
                        .state = (char)in.state,
                        .tty = in.tty,
                        .cpu_us = in.cpu_us,
                        .rss = in.rss,
                        .started_ms = in.started_ms };
    l->stop = l->proc(&p, l->arg);
    if (l->stop)
        return CAY__SES_STOP;
    return 0;
}

int cay__nf_ps(void *box, const cay_call *call, cay_proc_info_fn *fn, void *arg, cay_err *err)
{
    lister l = { .proc = fn, .arg = arg, .left = PROCS_MAX };
    return cay__ses_stream(box, call, CAY__SES_ASK(PS, "list processes"), take_proc, &l, &l.stop,
                           err);
}

/* The socket must be what was asked for: a fresh TCP socket of the box's own network, connected to
 * nothing. One made elsewhere would let a tenant aim our connections. */
static bool socket_ok(const cay__sessions *s, int fd, int family)
{
    struct sockaddr_storage peer;
    socklen_t n = sizeof peer;
    if (cay__sock_get(fd, SO_DOMAIN) != family || cay__sock_get(fd, SO_TYPE) != SOCK_STREAM ||
        cay__sock_get(fd, SO_PROTOCOL) != IPPROTO_TCP || cay__sock_get(fd, SO_ACCEPTCONN) != 0 ||
        getpeername(fd, (void *)&peer, &n) == 0 || errno != ENOTCONN)
        return false;
    uint64_t cookie = 0;
    n = sizeof cookie;
    if (s->netns &&
        (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &n) < 0 || cookie != s->netns))
        return false;
    return cay__sock_reset(fd, false); /* else its maker decides how long our close takes */
}

int cay__connect_loopback(const cay_call *call, int fd, int family, uint16_t port, cay_err *err)
{
    struct sockaddr_in a4 = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
                               .sin6_port = htons(port),
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    const struct sockaddr *sa = (const void *)&a6;
    socklen_t n = sizeof a6;
    if (family == AF_INET) {
        sa = (const void *)&a4;
        n = sizeof a4;
    }
    if (!cay__fd_nonblock(fd, true))
        return cay_fail_sys(err, "port %u", port);
    if (connect(fd, sa, n) < 0) {
        int e = errno;
        if (e == EINPROGRESS) {
            CAY_TRY(cay__call_wait(call, fd, POLLOUT, "connect", err));
            e = cay__sock_get(fd, SO_ERROR);
        }
        if (e) {
            if (e == ECONNREFUSED)
                return cay_fail_why(err, CAY_ENOENT, "port_not_found",
                                    "port %u: nobody listens there", port);
            errno = e;
            return cay_fail_sys(err, "connect to port %u", port);
        }
    }
    if (cay__fd_nonblock(fd, false))
        return 0;
    return cay_fail_sys(err, "port %u", port);
}

/* A hundred who come at once take turns with the few sessions that stay: a worker answers in less
 * time than another one is forked. */
static int take_turn(cay__sessions *s, const cay_call *call, const char *what, cay_err *err)
{
    int rc = 0;
    CAY_LOCK(&s->lock);
    while (s->connecting >= CAY__SESSIONS_IDLE && (rc = cay__call_check(call, what, err)) == 0) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 50000000; /* the call may be over meanwhile */
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&s->turn, &s->lock, &until);
    }
    s->connecting += rc == 0;
    return rc;
}

static void end_turn(cay__sessions *s)
{
    CAY_LOCK(&s->lock);
    s->connecting--;
    pthread_cond_signal(&s->turn);
}

static int connect_by(cay__sessions *s, const cay_call *call, uint16_t port, int by, int *out,
                      cay_err *err)
{
    char what[32], num[21];
    CAY_JOIN(what, "port ", cay__str_u64(num, port));
    cay__ses_ask ask = { .op = CAY_SES_CONNECT, .what = what, .a = port, .b = (uint64_t)by };
    cay_ses_rep buf = { 0 }, *rep = NULL;
    CAY_AUTOFD fd = -1;
    CAY_TRY(take_turn(s, call, what, err));
    int rc = cay__ses_once(s, call, &ask, &buf, sizeof buf, &rep, &fd, err);
    end_turn(s);
    CAY_TRY(rc);
    if (fd < 0 || (rep->a != AF_INET && rep->a != AF_INET6) || !socket_ok(s, fd, (int)rep->a))
        return cay__ses_lied(&ask, err);
    CAY_TRY(cay__connect_loopback(call, fd, (int)rep->a, port, err));
    *out = CAY_STEAL_FD(fd);
    return 0;
}

/* 127.0.0.1, which most listen on, ::1 when nobody is there. An init of a former version says
 * itself which it is. */
int cay__nf_connect(void *box, const cay_call *call, uint16_t port, int *out, cay_err *err)
{
    int rc = connect_by(box, call, port, AF_INET, out, err);
    if (rc != CAY_ENOENT)
        return rc;
    int second = connect_by(box, call, port, AF_INET6, out, NULL);
    if (second == 0 || second == CAY_ENOENT)
        return second;
    return rc; /* without IPv6 there is no second */
}
