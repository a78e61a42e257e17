/* SPDX-License-Identifier: Apache-2.0 */
#include "netns.h"
#include <base/base.h>
#include <base/kernel.h>
#include <base/fault.h>
#include <base/mutant.h>
#include <proto/egress.h>
#include <linux/memfd.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netns_batch.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75
#endif
#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78
#endif
#ifndef IP_TRANSPARENT
#define IP_TRANSPARENT 19
#endif
enum { ROUTE4 = 3, LINK_LAST = 5 };

/* Each batch is answered before sendto(2) returns; the time-out is for a kernel that answers
 * something else. */
static int open_netlink(int protocol)
{
    struct timeval tv = { 2, 0 };
    CAY_AUTOFD s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv) < 0)
        return -1;
    return CAY_STEAL_FD(s);
}

static bool send_batch(int s, const void *batch, size_t len)
{
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    return sendto(s, batch, len, 0, (const struct sockaddr *)&kernel, sizeof kernel) ==
           (ssize_t)len;
}

/* The next answer: 0 or an errno; *seq tells whose it is. */
static int receive_ack(int s, unsigned *seq)
{
    struct {
        struct nlmsghdr h;
        struct nlmsgerr e;
        char rest[512];
    } m;
    ssize_t n = recv(s, &m, sizeof m, 0);
    if (n < (ssize_t)(sizeof m.h + sizeof m.e) || m.h.nlmsg_type != NLMSG_ERROR) {
        if (n < 0)
            return errno;
        return EPROTO;
    }
    *seq = m.h.nlmsg_seq;
    return -m.e.error;
}

/* lo up, own addresses, every address local. False: no network at all; *six: IPv6 is there too. */
static bool make_links(bool *six)
{
    CAY_AUTOFD s = open_netlink(NETLINK_ROUTE);
    unsigned seq = 0;
    *six = true;
    if (s < 0 || !send_batch(s, link_batch, sizeof link_batch))
        return false;
    do {
        unsigned was = seq;
        int e = receive_ack(s, &seq);
        errno = e;
        if (e && (seq == was || seq <= ROUTE4))
            return false;
        *six &= !e;
    } while (seq < LINK_LAST);
    return true;
}

static int load_rules(const void *batch, size_t len)
{
    CAY_AUTOFD s = open_netlink(NETLINK_NETFILTER);
    unsigned seq;
    if (s < 0 || !send_batch(s, batch, len))
        return errno;
    /* Only the last rule asks for an answer; a refusal of the whole batch is one message as well.
     */
    return receive_ack(s, &seq);
}

static bool is_unsupported(int e)
{
    return e == ENOENT || e == EOPNOTSUPP || e == EPROTONOSUPPORT || e == EAFNOSUPPORT ||
           e == EPERM || e == EINVAL;
}

/* The best that this kernel has, found once. Errors that may pass are no reason to be content with
 * less. */
static const char *make_rules(int *how)
{
    static int best = CAY__NET_TPROXY;
    static bool filter = true;
    int e;
    if (CAY_FAULT_FAILS("zygote.netns.nft"))
        best = CAY__NET_NONE, filter = false;
    for (; best > CAY__NET_NONE; best--) {
        bool tproxy = best == CAY__NET_TPROXY;
        if (CAY_FAULT_FAILS("zygote.netns.tproxy"))
            continue;
        if (tproxy)
            e = load_rules(tproxy_batch, sizeof tproxy_batch);
        else
            e = load_rules(nat_batch, sizeof nat_batch);
        *how = best;
        if (!e)
            return NULL;
        errno = e;
        if (!is_unsupported(e))
            return "nftables";
    }
    *how = CAY__NET_PORTS;
    /* Without either the routes alone refuse everything; the filter only makes it quick. */
    filter = filter && load_rules(filter_batch, sizeof filter_batch) == 0;
    return NULL;
}

/* One socket for every address of both families. No SO_REUSEADDR or SO_REUSEPORT: who binds the
 * same port inside gets EADDRINUSE. */
static int any_socket(int type, uint16_t port)
{
    struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    CAY_AUTOFD s = socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0 || !cay__sock_set(s, IPPROTO_IPV6, IPV6_V6ONLY, 0))
        return -1;
    if (port == CAY__NET_PORT && (!cay__sock_set(s, IPPROTO_IP, IP_TRANSPARENT, 1) ||
                                  !cay__sock_set(s, IPPROTO_IPV6, IPV6_TRANSPARENT, 1)))
        return -1;
    if (type == SOCK_DGRAM && (!cay__sock_set(s, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) ||
                               !cay__sock_set(s, IPPROTO_IPV6, IPV6_FREEBIND, 1)))
        return -1;
    /* Until somebody serves them they only take their ports: a connection is refused at once
     * instead of waiting for nobody. A datagram socket that has its port would swallow queries, so
     * it gets it when it is served. */
    if (type == SOCK_STREAM && port && bind(s, (const struct sockaddr *)&sa, sizeof sa) < 0)
        return -1;
    return CAY_STEAL_FD(s);
}

/* The sockets of CAY__NET_PORTS, all in one. */
static int make_bag(void)
{
    int s[CAY_N_PORTS_MOST], pair[2], n = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -1;
    while (n < CAY_N_PORTS_MOST && (s[n] = any_socket(SOCK_STREAM, 0)) >= 0)
        n++;
    bool sent = n == CAY_N_PORTS_MOST && cay__fd_send(pair[0], "", 1, s, n, 0) == 1;
    int e = errno;
    while (n > 0)
        close(s[--n]);
    close(pair[0]);
    if (!sent)
        cay__close_fd(&pair[1]);
    errno = e;
    return pair[1];
}

static bool is_bag(int fd)
{
    return cay__sock_get(fd, SO_DOMAIN) == AF_UNIX;
}

void netns_unserve(const int *fd)
{
    int s[CAY_N_PORTS_MOST], n = CAY_N_PORTS_MOST;
    char b;
    if (is_bag(fd[CAY__NET_TCP_FD]) &&
        cay__fd_recv(fd[CAY__NET_TCP_FD], &b, 1, s, &n, MSG_PEEK | MSG_DONTWAIT) == 1)
        while (n > 0) {
            shutdown(s[--n], SHUT_RDWR);
            close(s[n]);
        }
    else
        shutdown(fd[CAY__NET_TCP_FD], SHUT_RDWR);
    shutdown(fd[CAY__NET_DNS_TCP], SHUT_RDWR);
}

bool netns_serve(const int *fd)
{
    struct sockaddr_in6 sa = { 0 };
    socklen_t n = sizeof sa;
    if (getsockname(fd[CAY__NET_DNS_UDP], (struct sockaddr *)&sa, &n) < 0)
        return false;
    bool bound = sa.sin6_port == htons(53);
    sa = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(53) };
    return (bound || bind(fd[CAY__NET_DNS_UDP], (const struct sockaddr *)&sa, sizeof sa) == 0) &&
           (is_bag(fd[CAY__NET_TCP_FD]) || listen(fd[CAY__NET_TCP_FD], CAY_N_BACKLOG) == 0) &&
           listen(fd[CAY__NET_DNS_TCP], CAY_N_BACKLOG) == 0;
}

/* Names that the sandbox was told, with their numbers: as old as the namespace, whoever serves it.
 */
static int make_map(void)
{
    CAY_AUTOFD fd = (int)syscall(SYS_memfd_create, "cay-names", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, sizeof(cay_n_map)) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -1;
    return CAY_STEAL_FD(fd);
}

static const char *make_sockets(netns *n)
{
    socklen_t len = sizeof n->cookie;
    if (n->how == CAY__NET_PORTS)
        n->fd[CAY__NET_TCP_FD] = make_bag();
    else
        n->fd[CAY__NET_TCP_FD] = any_socket(SOCK_STREAM, CAY__NET_PORT);
    n->fd[CAY__NET_DNS_TCP] = any_socket(SOCK_STREAM, 53);
    n->fd[CAY__NET_DNS_UDP] = any_socket(SOCK_DGRAM, 53);
    n->fd[CAY__NET_MAP] = make_map();
    CAY_EACH_OF(it, n->fd, CAY__NET_FDS)
        if (*it < 0)
            return "network sockets";
    if (cay__kernel_lacks(CAY_KERNEL_NETNS_COOKIE) ||
        getsockopt(n->fd[CAY__NET_DNS_TCP], SOL_SOCKET, SO_NETNS_COOKIE, &n->cookie, &len) < 0)
        n->cookie = 0; /* before Linux 5.14 */
    return NULL;
}

const char *netns_make(netns *out)
{
    bool six;
    *out = (netns){ .how = CAY__NET_NONE, .fd = { -1, -1, -1, -1 } };
    if (unshare(CLONE_NEWNET) < 0)
        return "net namespace";
    CAY_FAULT("zygote.netns.made");
    if (!make_links(&six))
        return "loopback";
    const char *step = NULL;
    if (!CAY__MUTANT("netfilter"))
        step = make_rules(&out->how);
    if (step)
        return step;
    /* No capability over this namespace will exist inside, so low ports are opened to everybody
     * there. Metrics would tell one flow's path to the next. */
    cay__fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    cay__fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
    if (!six)
        out->how = CAY__NET_NONE;
    if (out->how != CAY__NET_NONE && (step = make_sockets(out)))
        netns_close(out);
    CAY_FAULT("zygote.netns.ready");
    return step;
}

void netns_close(netns *n)
{
    cay__close_fds(n->fd, CAY__NET_FDS);
}
