/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/native/session_call.h - one request to a worker and its answers, checked.
 */
#pragma once
#include "session.h"
#include <proto/session.h>

typedef struct cay__ses_ask {
    uint16_t op, flags;
    const char *path, *second; /* NULL: "" */
    const void *data;
    size_t len;
    uint64_t a, b;
    const char *user;
    int fd;           /* travels along; 0: none */
    const char *what; /* for messages: "read" */
} cay__ses_ask;
#define CAY__SES_ASK(op_, what_, ...)                                                              \
    (&(cay__ses_ask){ .op = CAY_SES_##op_, .what = what_, __VA_ARGS__ })

/* A request on its way. */
typedef struct cay__ses_conn {
    int sock;
    uint16_t op;
    uint32_t seq;
    char user[CAY__SESSION_USER];
} cay__ses_conn;

/* Sends; on failure nothing is left open. The ask's paths become those inside. */
int cay__ses_begin(cay__sessions *s, const cay_call *call, cay__ses_ask *ask, cay__ses_conn *c,
                   cay_err *err);
/* The next answer into buf of cap bytes, at least a head. An errno in it becomes err. fd may be
 * NULL: none is expected. */
int cay__ses_next(cay__ses_conn *c, const cay_call *call, const cay__ses_ask *ask, void *buf,
                  size_t cap, cay_ses_rep **rep, int *fd, cay_err *err);
/* Another request on the same session. */
int cay__ses_again(cay__ses_conn *c, const cay_call *call, const cay__ses_ask *ask, cay_err *err);
void cay__ses_give(cay__sessions *s, cay__ses_conn *c); /* the worker waits for its next request */
void cay__ses_hang_up(cay__ses_conn *c);
/* One of both, by what next() gave: a worker that answered with an errno, which is in rep, is ready
 * for more; any other state is unknown. */
void cay__ses_release(cay__sessions *s, cay__ses_conn *c, const cay_ses_rep *rep, int rc);

/* All of it for a request that is answered once: into buf, which begins with zeros where a head
 * goes. */
int cay__ses_once(cay__sessions *s, const cay_call *call, cay__ses_ask *ask, void *buf, size_t cap,
                  cay_ses_rep **rep, int *fd, cay_err *err);
/* And without records. */
int cay__ses_simple(cay__sessions *s, const cay_call *call, cay__ses_ask *ask, cay_err *err);

/* Records of an answer, taken from its front. Each returns false when the worker lied. */
typedef struct cay__ses_rd {
    const char *p;
    size_t left;
} cay__ses_rd;
bool cay__ses_take(cay__ses_rd *r, void *dst, size_t n);
/* n bytes without NUL into dst of cap bytes, with a NUL behind. */
bool cay__ses_take_str(cay__ses_rd *r, size_t n, char *dst, size_t cap);
/* The same for a name below a directory: not absolute, no "." or ".." or empty part. A client that
 * copies a tree out of a box joins these to a path of its own. */
bool cay__ses_take_path(cay__ses_rd *r, size_t n, char *dst, size_t cap);

/* Each record of each answer; `each` returns 0 to go on, 1 when the record is bad, 2 to stop with
 * *stop. */
enum { CAY__SES_BAD = 1, CAY__SES_STOP = 2 };
int cay__ses_stream(cay__sessions *s, const cay_call *call, cay__ses_ask *ask,
                    int (*each)(cay__ses_rd *r, void *arg), void *arg, const int *stop,
                    cay_err *err);
/* All of it into a pipe whose reader is the worker. */
int cay__ses_feed(int fd, const cay_call *call, const char *data, size_t len, cay_err *err);
int cay__ses_lied(const cay__ses_ask *ask, cay_err *err);
