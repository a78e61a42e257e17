/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/http.h - asking a server over HTTP or HTTPS.
 *
 *   cay__http_open()   a client; connections stay open between its requests
 *   cay__http_do()     one request; the answer comes in pieces
 *   cay__http_fetch()  the same with a small answer as a whole
 *
 * libcurl does the work, in a module of its own (libcay-net.so) that is opened at the first
 * request: linking it would cost every start of every program 5 ms. Redirects are not followed: a
 * request may carry a key. One client belongs to one thread.
 */
#pragma once
#include <base/buf.h>

typedef struct cay__http cay__http;

typedef struct cay__http_req {
    const char *method;         /* NULL: POST with a body, else GET */
    const char *url;            /* http or https */
    const char *const *headers; /* "Name: value", NULL-terminated; or NULL */
    const void *body;
    size_t body_len;
    uint64_t connect_ms; /* 0: 30 s */
    uint64_t idle_ms;    /* without a byte for so long; 0: 10 min */
    uint64_t total_ms;   /* 0: none besides the call's deadline */
    uint64_t max_body;   /* bytes of the answer, after decompression; 0: 64 MiB */
    /* Both may be NULL, and end the request by a negative code (err filled). on_head comes once,
     * before data. */
    int (*on_head)(int status, const char *content_type, void *arg, cay_err *err);
    int (*on_data)(const char *bytes, size_t n, void *arg, cay_err *err);
    void *arg;
    /* Each line of the answer's head; may be NULL. */
    void (*on_header)(const char *name, size_t name_len, const char *value, size_t len, void *arg);
    /* Before a connection is made: may this address (of IPv6, or IPv4 mapped into it) be asked?
     * NULL: any. With it no proxy is used. */
    bool (*may)(const uint8_t addr[16], void *arg);
    bool raw; /* the body as it is, not decompressed */
} cay__http_req;

typedef struct cay__http_reply {
    int status;
    char type[128];          /* content type in lower case, without parameters */
    char request_id[96];     /* x-request-id: for those who look for it at the other side */
    char session[256];       /* mcp-session-id */
    uint32_t retry_after_ms; /* from retry-after-ms or retry-after; 0: not told */
} cay__http_reply;

int cay__http_open(cay__http **out, cay_err *err);
void cay__http_close(cay__http *h);
/* 0 whatever the status. CAY_EUPSTREAM: not reached, or cut ("net_unreachable", "net_tls",
 * "net_cut"); CAY_ETIMEOUT; CAY_ETOOBIG; CAY_ECANCELED; CAY_EINVAL for a URL or header that is
 * none. */
int cay__http_do(cay__http *h, const cay_call *call, const cay__http_req *req,
                 cay__http_reply *reply, cay_err *err);
/* on_head, on_data and arg are used here; max_body is the room of *body. */
int cay__http_fetch(cay__http *h, const cay_call *call, const cay__http_req *req,
                    cay__http_reply *reply, cay__buf *body, cay_err *err);
/* Is a URL's host this very machine: localhost, 127.x.x.x, [::1]? */
bool cay__http_is_loopback(const char *url);

/* A connected descriptor to the host of an https:// URL that carries plain bytes both ways: TLS is
 * spoken by a thread of the module, and the certificate was checked. certs: as in cay__origin. */
int cay__http_dial(const char *url, const char *certs, const cay_call *call, int *fd, cay_err *err);

/* What the module gives: one symbol, cay__net_module. */
typedef struct cay__net_ops {
    size_t size;
    int (*open)(void **out, cay_err *err);
    void (*close)(void *self);
    int (*perform)(void *self, const cay_call *call, const cay__http_req *req,
                   cay__http_reply *reply, cay_err *err);
    int (*dial)(const char *url, const char *certs, const cay_call *call, int *fd, cay_err *err);
} cay__net_ops;
