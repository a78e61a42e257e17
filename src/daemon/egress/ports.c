/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The third choice, where a kernel has neither TPROXY nor nat for us: every address of the world is
 * still local in the sandbox's namespace, so a socket bound to any address and one port takes what
 * is dialled at that port, wherever to. Each port that the policy names gets such a listener; at
 * all others a connection is refused. A policy that means every port cannot be had.
 */
#include "egress.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int ports_take(egress_box *b, int bag, cay_err *err)
{
    int fd[CAY_N_PORTS_MOST], n = CAY_N_PORTS_MOST, rc = 0;
    char word;
    if (cay__fd_recv(bag, &word, 1, fd, &n, MSG_PEEK | MSG_DONTWAIT) != 1)
        return cay_fail_sys_as(err, CAY_EINVAL, "lend %s: there are no sockets for its ports",
                               b->id);
    if (!sock_room(b->e, (unsigned)n))
        rc = cay_fail_why(err, CAY_ENOSPACE, "descriptors_limit",
                          "lend %s: egress has no descriptors left", b->id);
    b->doors = cay__alloc(CAY_N_PORTS_MOST * sizeof *b->doors);
    for (int i = 0; i < CAY_N_PORTS_MOST; i++) {
        door *p = &b->doors[i];
        struct sockaddr_in6 sa = { 0 };
        socklen_t len = sizeof sa;
        *p = (door){ .w = { .fd = i < n ? fd[i] : -1, .events = EPOLLIN, .fn = on_port }, .b = b };
        b->e->fds += i < n;
        if (rc < 0 || i >= n)
            continue;
        rc = check_socket(b->id, fd[i], "socket for a port", SOCK_STREAM, false, b->cookie, err);
        if (rc == 0 &&
            (getsockname(fd[i], (struct sockaddr *)&sa, &len) < 0 || sa.sin6_family != AF_INET6))
            rc = cay_fail(err, CAY_EINVAL, "lend %s: the socket for a port is no such socket",
                          b->id);
        p->number = ntohs(sa.sin6_port); /* an egress before us bound it */
    }
    return rc;
}

static door *of_number(egress_box *b, uint16_t number)
{
    for (door *p = b->doors; p < b->doors + CAY_N_PORTS_MOST; p++)
        if (p->w.fd >= 0 && p->number == number)
            return p;
    return NULL;
}

static int listen_on_port(egress_box *b, uint16_t number, cay_err *err)
{
    struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = htons(number) };
    door *p = of_number(b, number);
    if (p && p->watched)
        return 0;
    bool bound = p;
    if (!p && !(p = of_number(b, 0)))
        return cay_fail_why(err, CAY_ENOSPACE, "too_many_ports",
                            "port %u: this host has no nftables, so a sandbox has at most %d ports "
                            "in its life, and they are spent; make a new one",
                            number, CAY_N_PORTS_MOST);
    if (!bound && bind(p->w.fd, (struct sockaddr *)&sa, sizeof sa) < 0)
        return cay_fail_why(err, CAY_ESTATE, "policy_port_taken",
                            "port %u: a program in the sandbox holds it, and without nftables that "
                            "is where connections to it arrive; end it and try again",
                            number);
    p->number = number;
    cay__sock_reset(p->w.fd, true);
    cay__sock_set(p->w.fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (listen(p->w.fd, CAY_N_BACKLOG) < 0 || !cay__loop_add(&b->e->loop, &p->w))
        return cay_fail_sys(err, "listen at port %u of %s", number, b->id);
    p->watched = true;
    return 0;
}

int ports_serve(egress_box *b, const cay__policy *p, cay_err *err)
{
    uint16_t want[CAY_N_PORTS_MOST];
    if (p->mode == CAY__NET_OFF)
        return 0;
    int n = cay__policy_ports(p, want, CAY_N_PORTS_MOST);
    if (n < 0)
        return cay_fail_why(
            err, CAY_EISOLATION, "too_many_ports",
            "this host has no nftables: a policy can name %d ports at most, one by one "
            "(any:443,any:80 instead of all); `cay doctor` says more (egress-policy)",
            CAY_N_PORTS_MOST);
    CAY_EACH_OF(it, want, n)
        CAY_TRY(listen_on_port(b, *it, err));
    return 0;
}

void ports_wake(egress_box *b)
{
    for (door *p = b->doors; p < b->doors + CAY_N_PORTS_MOST; p++)
        if (p->watched)
            cay__loop_set(&b->e->loop, &p->w, EPOLLIN);
}

void ports_drop(egress_box *b)
{
    for (door *p = b->doors; p && p < b->doors + CAY_N_PORTS_MOST; p++) {
        if (p->watched)
            cay__loop_del(&b->e->loop, &p->w);
        if (p->w.fd >= 0)
            sock_close(b->e, NULL, p->w.fd);
    }
    free(b->doors);
    b->doors = NULL;
}
