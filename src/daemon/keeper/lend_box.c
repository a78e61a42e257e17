/* SPDX-License-Identifier: Apache-2.0 */
/* What is lent: the sockets of each sandbox that has a policy. */
#include "lend_inside.h"
#include <netinet/in.h>
#include <sys/socket.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

lent *lent_find(const char *id)
{
    CAY_EACH_LINK(l, lender.all)
        if (!strcmp(l->id, id))
            return l;
    return NULL;
}

/* After an adoption they come from init: each must be what it was made as, in the namespace that
 * the journal names. */
static bool has_valid_sockets(const int *fd, uint64_t cookie, bool bag)
{
    static const struct {
        int type, protocol;
        uint16_t port;
    } want[] = { { SOCK_STREAM, IPPROTO_TCP, CAY__NET_PORT },
                 { SOCK_STREAM, IPPROTO_TCP, 53 },
                 { SOCK_DGRAM, IPPROTO_UDP, 53 } };
    struct stat st;
    /* What is in it is looked at by egress, each time that it is lent. */
    if (bag && (cay__sock_get(fd[CAY__NET_TCP_FD], SO_DOMAIN) != AF_UNIX ||
                cay__sock_get(fd[CAY__NET_TCP_FD], SO_TYPE) != SOCK_SEQPACKET))
        return false;
    for (int i = bag; i < CAY__NET_MAP; i++) {
        struct sockaddr_in6 sa = { 0 };
        uint64_t is = 0;
        socklen_t n = sizeof is, len = sizeof sa;
        if (cay__sock_get(fd[i], SO_DOMAIN) != AF_INET6 ||
            cay__sock_get(fd[i], SO_TYPE) != want[i].type ||
            cay__sock_get(fd[i], SO_PROTOCOL) != want[i].protocol ||
            getsockname(fd[i], (struct sockaddr *)&sa, &len) < 0 ||
            (ntohs(sa.sin6_port) != want[i].port && (want[i].type == SOCK_STREAM || sa.sin6_port)))
            return false;
        if (cookie && (getsockopt(fd[i], SOL_SOCKET, SO_NETNS_COOKIE, &is, &n) < 0 || is != cookie))
            return false;
    }
    int seals = fcntl(fd[CAY__NET_MAP], F_GET_SEALS);
    return seals >= 0 && (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW) &&
           fstat(fd[CAY__NET_MAP], &st) == 0 && st.st_size == (off_t)sizeof(cay_n_map);
}

void lent_forget(lent *l)
{
    CAY_UNLINK(lender.all, l);
    cay__close_fds(l->fd, CAY__NET_FDS);
    cay__close_fd(&l->policy);
    free(lender.old);
    lender.old = l;
}

lent *lent_take_in(const keeper_job *job, int *fds, int nfds)
{
    lent *l = lent_find(job->net.id);
    errno = 0;
    if (l && l->cookie == job->cookie)
        return l;
    if (!job->how || nfds < CAY__NET_FDS) {
        lender_refuse(job->seq, CAY_EISOLATION, "egress_unavailable",
                      "this host cannot give a sandbox a way out, only policy off; `cay doctor` "
                      "says why (egress-policy)");
        return NULL;
    }
    if (!has_valid_sockets(fds, job->cookie, job->how == CAY__NET_PORTS)) {
        lender_refuse(job->seq, CAY_EUPSTREAM, "network_lost",
                      "the sandbox's network sockets are not its own any more; make a new sandbox");
        return NULL;
    }
    if (!netns_serve(fds)) {
        lender_refuse(job->seq, CAY_ESTATE, "port_53_taken",
                      "a program in the sandbox holds UDP port 53, where names are answered; end "
                      "it and try again");
        return NULL;
    }
    if (l)
        lent_forget(l);
    l = CAY_STEAL(lender.old) ?: cay__alloc(sizeof *l);
    *l = (lent){ .next = lender.all, .cookie = job->cookie, .policy = -1 };
    if (job->how == CAY__NET_NAT)
        l->flags = CAY_N_FALLBACK;
    else if (job->how == CAY__NET_PORTS)
        l->flags = CAY_N_PORTS;
    CAY_COPY(l->id, job->net.id);
    for (int i = 0; i < CAY__NET_FDS; i++)
        l->fd[i] = CAY_STEAL_FD(fds[i]);
    lender.all = l;
    return l;
}
