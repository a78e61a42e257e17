/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/keeper/netns.h - a net namespace in which every address of the world is local, and the
 * sockets that answer for them.
 *
 * Part of the helper program: zygotes make one for each sandbox that they park. Nothing can leave
 * it; what may leave is carried by cay-egress, which is lent the three sockets.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define CAY__NET_PORT 15001 /* where all TCP arrives */
#define CAY__NET_OWN4 "198.18.0.1"
#define CAY__NET_OWN6 "fd63:6179::1"

enum { CAY__NET_TCP_FD, CAY__NET_DNS_TCP, CAY__NET_DNS_UDP, CAY__NET_MAP, CAY__NET_FDS };
/* How connections come to the listener. NONE: they are refused, and no policy but `off` can be had.
 * PORTS: nothing leads them there, so each port that a policy names gets a listener of its own. A
 * socket can be bound later but made only here: CAY_N_PORTS_MOST unbound ones lie as one message in
 * a unix socket, which stands in the listener's place and is only ever peeked at. */
enum { CAY__NET_NONE, CAY__NET_NAT, CAY__NET_TPROXY, CAY__NET_PORTS };

typedef struct netns {
    int how;
    int fd[CAY__NET_FDS]; /* three sockets and the name map of proto/egress.h; -1 when how is NONE
                           */
    uint64_t cookie;      /* SO_NETNS_COOKIE */
} netns;

/* Moves the calling process into a new one, complete. NULL, or the step that failed with errno set.
 */
const char *netns_make(netns *out);
void netns_close(netns *n);
/* From here on connections and queries wait for whoever is lent the sockets; before, they are
 * refused at once. EADDRINUSE: a program inside has UDP port 53. Again changes nothing. */
bool netns_serve(const int *fd);
void netns_unserve(const int *fd); /* back to that */
