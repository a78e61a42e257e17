/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/preview/uplink.h - bytes on their way from the peer into a sandbox, from a pump: what the
 * program there does not take holds the peer back.
 */
#pragma once
#include <server/http/server.h>

typedef struct cay__uplink {
    int fd;             /* a socket; whoever opened it closes it */
    cay__buf wait;      /* what could not be sent yet */
    size_t sent;        /* of it */
    bool broken;        /* the other side takes no more; what is for it is thrown away */
    struct ssl_st *tls; /* NULL: plain; else cay__uplink_tls() made it */
    bool hears, tells;  /* with TLS: nothing goes before something came; something has to go before
                           more can come */
} cay__uplink;

#define CAY__UPLINK_MAX (1u << 20) /* never reached: the peer is held back long before */

struct ssl_ctx_st;
/* From now on what goes is encrypted. Who answers proves nothing: the way ends inside the sandbox.
 * false: there is no memory. */
bool cay__uplink_tls(cay__uplink *u, struct ssl_ctx_st *ctx);
struct ssl_ctx_st *cay__uplink_tls_new(void); /* for all of them; NULL: OpenSSL does not start */
void cay__uplink_tls_free(struct ssl_ctx_st *ctx);
/* As recv(2) and send(2), both of which do not wait. */
ssize_t cay__uplink_recv(cay__uplink *u, void *p, size_t n);
ssize_t cay__uplink_send(cay__uplink *u, const void *p, size_t n);
bool cay__uplink_more(
    const cay__uplink *u); /* read from the socket, and not yet by cay__uplink_recv() */
bool cay__uplink_agreed(const cay__uplink *u); /* plain, or its handshake is over */
void cay__uplink_finish(cay__uplink *u);       /* nothing will follow */
void cay__uplink_close(cay__uplink *u);

void cay__uplink_add(cay__uplink *u, const void *data, size_t n);
/* Sends what goes, and tells the pump, whose descriptor `which` it is, what to wait for. */
void cay__uplink_flush(cay__uplink *u, cay__pump *p, unsigned which);
static inline bool cay__uplink_empty(const cay__uplink *u)
{
    return u->sent == u->wait.len;
}

/* 101, and bytes both ways between the peer and a socket, which it takes. */
int cay__reply_tunnel(cay__req *r, const char *protocol, int fd);
