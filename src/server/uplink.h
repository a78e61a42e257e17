/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/uplink.h - bytes on their way from the peer into a sandbox, from a pump: what the program there does not take holds the peer back.
 */
#pragma once
#include "server.h"

typedef struct cay__uplink {
    int      fd;   /* a socket; whoever opened it closes it */
    cay__buf wait; /* what could not be sent yet */
    size_t   sent; /* of it */
    bool     broken; /* the other side takes no more; what is for it is thrown away */
} cay__uplink;

#define CAY__UPLINK_MAX (1u << 20) /* never reached: the peer is held back long before */

void cay__uplink_add(cay__uplink *u, const void *data, size_t n);
/* Sends what goes, and tells the pump, whose descriptor `which` it is, what to wait for. */
void cay__uplink_flush(cay__uplink *u, cay__pump *p, unsigned which);
static inline bool cay__uplink_empty(const cay__uplink *u)
{
    return u->sent == u->wait.len;
}

/* 101, and bytes both ways between the peer and a socket, which it takes. */
int cay__reply_tunnel(cay__req *r, const char *protocol, int fd);
