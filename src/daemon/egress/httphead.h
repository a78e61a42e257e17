/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/egress/httphead.h - whom an HTTP/1 request is for, and where it ends.
 *
 *   http_unit()  looks at the bytes where a request, or the next piece of one, begins: may it pass,
 *                how long is it?
 *
 * Every request of a connection is looked at, not only the first, so that a kept connection cannot
 * turn to another host. Strict, because two readers of one head must not differ: what RFC 9112 lets
 * a server repair is refused. Pure.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX 32768u
#define HTTP_FIELDS   100

typedef enum http_next {
    HTTP_HEAD,      /* a request */
    HTTP_CHUNK,     /* a chunk's size, or the last one's */
    HTTP_CHUNK_END, /* the line's end behind a chunk's bytes */
    HTTP_TRAILER,   /* lines behind the last chunk */
    HTTP_ASKED,     /* an upgrade was asked for: the server's answer decides */
    HTTP_TUNNEL,    /* anything */
} http_next;

/* Small enough to be in every flow. */
typedef struct http_state {
    uint64_t left; /* bytes that may pass unseen */
    uint8_t next;  /* http_next, when left is 0 */
    uint8_t heads; /* 1: not the first request of this connection */
} http_state;

/* A piece of a head. */
typedef struct span {
    const char *p;
    size_t n;
} span;
bool span_is(span s, const char *word); /* in any case */
span span_trim(span s);                 /* without blanks at its ends */

enum { HTTP_OK, HTTP_MORE, HTTP_BAD, HTTP_OTHER };

/* With left 0 and next HEAD, CHUNK, CHUNK_END or TRAILER. An upgrade has to be the first request:
 * behind another one the answer could not be told from a body. HTTP_OK: *s tells how much may pass
 * now. HTTP_MORE: needs more than len bytes. HTTP_OTHER: for another host, which `host` (256 bytes)
 * then names. HTTP_BAD: *why is a stable word. `name` is folded. */
int http_unit(http_state *s, const char *p, size_t len, const char *name, uint16_t port,
              char host[256], const char **why);
/* The first bytes of the server's answer, when next is ASKED: HTTP_MORE until it can be told. */
int http_answer(http_state *s, const char *p, size_t len);
