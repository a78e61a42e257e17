/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/client.h - a server that is asked again and again, with bodies that stream and connections
 * that become something else.
 *
 *   cay__http_client_open()   whom, and with which key
 *   cay__http_client_ask()    a request; the answer's head
 *   cay__answer_bytes()  its body, piece by piece
 *   cay__answer_end()    done with it
 *
 * For many threads at once: each request has a connection of its own, and those that are free again
 * wait for the next one. Nothing is followed, nothing is decompressed. net/http.h is for asking
 * strangers.
 */
#pragma once
#include "chunk.h"
#include "dial.h"
#include "head.h"
#include <base/base.h>

typedef struct cay__http_client cay__http_client;

/* key NULL: none. It is sent as Authorization: Bearer. */
int cay__http_client_open(const char *url, const char *key, cay__http_client **out, cay_err *err);
/* Of https, before the first request: see cay__origin. false: the path is too long. */
bool cay__http_client_certs(cay__http_client *c, const char *dir);
cay__http_client *cay__http_client_ref(cay__http_client *c);
void cay__http_client_unref(cay__http_client *c);
const char *cay__http_client_url(const cay__http_client *c); /* as it was given */

typedef struct cay__ask {
    const char *method, *target; /* target: path and query below the URL's own path, encoded */
    const char *type;            /* of the body; NULL: application/json */
    const char *fields;          /* more lines, each with its CR LF; or NULL */
    const void *body;
    size_t len;
    int fd;                /* with from_fd: the body is `len` bytes of this descriptor */
    bool from_fd, upgrade; /* upgrade: nothing beyond the head is read; 101 makes cay__answer_take()
                              possible */
} cay__ask;

typedef struct cay__answer cay__answer;
/* CAY_EUPSTREAM "net_unreachable", "net_cut", "net_answer". Whatever the status. */
int cay__http_client_ask(cay__http_client *c, const cay_call *call, const cay__ask *ask,
                         cay__answer **out, cay_err *err);
const cay__head *cay__answer_head(const cay__answer *a);
/* *n 0 at the end. A body that was cut is CAY_EUPSTREAM, "net_cut". */
int cay__answer_bytes(cay__answer *a, const cay_call *call, void *buf, size_t cap, size_t *n,
                      cay_err *err);
/* For poll(2); bytes may be here already although it is not readable. */
int cay__answer_fd(const cay__answer *a);
bool cay__answer_has(const cay__answer *a); /* they are */
int cay__answer_take(cay__answer *a);       /* after 101: the connection, the caller's; ends a */
void cay__answer_end(cay__answer *a);       /* NULL is fine */
CAY_DEFINE_AUTO(cay__answer, cay__answer_end)
