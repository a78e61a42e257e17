/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/preview/preview.h - the parts of the preview proxy: what a sandbox serves on a port, shown
 * outside.
 *
 *   preview.c         a request comes: for which port, may it, to whom is it sent
 *   preview_name.c    PORT-ID.domain, /preview/ID/PORT/, cookies and queries: pure
 *   preview_head.c    heads written anew for the other side: pure
 *   preview_access.c  tokens and keys: who may look
 *   preview_flow.c  one request's bytes both ways, on the loop; uplink_tls.c: by TLS, where the
 *                   program wants that
 *   preview_kept.c  connections into sandboxes, which wait for the next request
 *   preview_pool.c  tokens that were good a moment ago
 *   preview_page.c  what is shown instead of an answer
 *
 * A head never passes as bytes: it is read strictly, judged, and written again from what was
 * understood, so that nobody behind us reads another message than we did.
 */
#pragma once
#include <server/http/server.h>

#define CAY__PREVIEW_TOKEN  "cay_token" /* the query's name; and the header's: */
#define CAY__PREVIEW_HEADER "x-cay-token"

typedef struct cay__preview_at {
    char id[CAY_ID_LEN + 1];
    uint16_t port;
    bool by_path;
    size_t prefix; /* by path: so many bytes of the path are ours; the rest begins with '/', or is
                      empty */
} cay__preview_at;

/* PORT-ID.domain, perhaps with :PORT of ours behind it. */
bool cay__preview_host(const char *host, const char *domain, cay__preview_at *out);
/* 1: /preview/ID/PORT…; 0: another path; -1: /preview/ and what is neither. */
int cay__preview_path(const char *path, cay__preview_at *out);

/* The value of a cookie in a Cookie line; false when it is not there or too long. */
bool cay__cookie_get(const char *line, const char *name, char *out, size_t cap);
/* The line without our cookies; nothing is added when none is left. */
void cay__cookie_strip(const char *line, cay__buf *out);
/* A Set-Cookie value that stays with the one host: without Domain. False: it is to be left out,
 * being ours or no cookie. */
bool cay__set_cookie(const char *value, cay__buf *out);
/* The query without every pair of that name, of which the first is put into value ("" without one,
 * or when it is too long). */
void cay__query_strip(const char *query, const char *name, cay__buf *rest, char *value, size_t cap);

typedef struct cay__preview_ask {
    const cay__preview_at *at;
    const cay__head *head;
    const char *query; /* without the token */
    const char *peer;
    const char *host;  /* that the program is told; NULL: localhost:PORT */
    const char *trace; /* traceparent: below our span, if there is one; NULL: as the peer has it */
    bool tls, websocket;
    bool tls_inside; /* the program speaks TLS */
} cay__preview_ask;
/* The request's head for the program inside. */
void cay__preview_request(const cay__preview_ask *a, cay__buf *out);

typedef enum cay__preview_frame {
    CAY__FRAME_NONE,
    CAY__FRAME_LENGTH,
    CAY__FRAME_CHUNKED,
    CAY__FRAME_CLOSE
} cay__preview_frame;
/* What is needed of a request when its answer comes: it lives in the flow. */
typedef struct cay__preview_back {
    cay__preview_at at;
    bool tls, head_only, http10, websocket;
    bool tls_inside;
    bool keep;          /* the peer would send another request */
    const char *origin; /* whose pages may read it: NULL: the program says, "": nobody else's, "*":
                           everybody's */
    char host[300];     /* as the peer calls us */
} cay__preview_back;
/* How the answer's body is framed for the peer. */
cay__preview_frame cay__preview_framing(const cay__preview_back *b, const cay__head *answer);
/* The answer's head for the peer. */
void cay__preview_answer(const cay__preview_back *b, const cay__head *answer,
                         cay__preview_frame frame, cay__buf *out);

/* May it? token: of the query, or "". Fills r->who. */
int cay__preview_access(cay__req *r, const cay__preview_at *at, const char *token, cay_err *err);
/* The name of our cookie. */
void cay__preview_cookie(const cay__req *r, char out[32]);

/* A page, or a problem document for programs, with status and head: into out as bytes of HTTP
 * (close: the connection ends), or as a reply. */
int cay__preview_page(cay__req *r, const cay_err *err);
void cay__preview_page_raw(const cay__preview_back *b, bool html, const char *request_id,
                           const cay_err *err, int *status, cay__buf *out);
bool cay__preview_html(const cay__head *h); /* does it want pages? */
/* 200 with a page that goes to `where` by itself. */
int cay__preview_forward(cay__req *r, const char *where);

/* A token, in the fields where programs put one; or NULL. */
const char *cay__preview_token(const cay__head *h);

struct cay__previews;
/* A token that opened this port a moment ago, and its sandbox, which the caller gives back; NULL:
 * it has to be asked for. late: a little longer than that. Whoever takes a token back is heard
 * within a second. */
cay_sandbox *cay__previews_known(struct cay__previews *p, const cay__preview_at *at,
                                 const char *token, bool late);
void cay__previews_learn(struct cay__previews *p, const cay__preview_at *at, const char *token,
                         cay_sandbox *sb);
/* For programs that speak TLS; NULL: it cannot be had. */
struct ssl_ctx_st *cay__previews_tls(struct cay__previews *p);

/* Of a flow, on its lane but for the first and second. The pump has one connection, p->kept, or
 * none. */
void cay__upstream_hold(cay__pump *p, const cay__preview_at *at, int fd); /* a new one */
void cay__upstream_free(
    cay__pump *p); /* the loop does not know it, and its descriptor is somebody's to close */
bool cay__upstream_take(cay__pump *p,
                        const cay__preview_at *at); /* one that waited; false: there is none */
void cay__upstream_give(cay__pump *p); /* it waits for the next request, or is closed */

typedef struct cay__preview_start {
    cay__preview_back back;
    cay_sandbox *sb;
    int fd;    /* -1: one that waited, or it is connected by a worker */
    bool html; /* faults are shown as pages */
    int (*dial)(cay_sandbox *sb, const cay_call *call, uint16_t port, int *fd,
                cay_err *err); /* NULL: cay_port_connect() */
} cay__preview_start;
/* Takes s->fd and *head, the request's for the program inside; answers r by cay__reply_raw(). */
int cay__preview_flow(cay__req *r, const cay__preview_start *s, cay__buf *head);
