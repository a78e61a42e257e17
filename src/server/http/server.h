/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/http/server.h - what a dialect sees of the server: its routes, a request, and the ways to
 * answer.
 *
 *   cay__req_json()     the body as JSON
 *   cay__reply_json()   answer with JSON; cay__reply_pack(), as json_pack() has it
 *   cay__req_read()     the body in pieces
 *   cay__reply_fd()     answer with what a descriptor yields
 *   cay__req_query()    ?name=value
 *   cay__reply_pump()   answer with a stream, without a thread
 *   cay__req_sandbox()  the sandbox of a route
 *   cay__reply_ws()     turn into a WebSocket
 *
 * A handler is straight-line code on a worker's small stack (256 KiB); it may block on the body and
 * on providers, within r->call. It answers exactly once and returns 0, or returns a negative code
 * with *err filled, which the dialect's fail() turns into its status and body. Everything that
 * streams is given to the loop: a handler never stays for it.
 */
#pragma once
#include <base/json.h>
#include <cay/cay.h>
#include <net/head.h>
#include <wire/op.h>

typedef struct cay__server cay__server;
typedef struct cay__req cay__req;

typedef int cay__handler(cay__req *r, cay_err *err);
/* A row of a dialect: what is asked, and who answers. Rights are flags of the operation. */
typedef struct cay__route {
    const cay__operation *op;
    cay__handler *fn;
} cay__route;
#define CAY__ROUTE(method, path, fn, ...)                                                          \
    {                                                                                              \
        &(const cay__operation){ method, path, __VA_ARGS__ }, fn                                   \
    }

typedef struct cay__dialect {
    const char *name; /* "native" */
    const char *base; /* "/api/v1" */
    const cay__route *routes;
    size_t nroutes;
    int (*fail)(cay__req *r,
                const cay_err *err); /* answers with an error; NULL: problem documents (RFC 9457) */
    /* May this operation be used, by the one who asks? Called once, before the handler, after the
     * key that was shown, if any, has told who that is (r->who). Fills r->who for tokens of its
     * own. NULL: cay__admit(). */
    int (*admit)(cay__req *r, cay_err *err);
    /* The key in a request's own way (a header, a query), or NULL; without this function:
     * Authorization: Bearer, X-API-Key. */
    const char *(*key)(cay__req *r);
    /* Requests that are its own although their path is not below its base: `first` is asked before
     * any base path is looked at (by Host, by a header), `also` when no base path fits. A path that
     * is adopted so is matched as it is, without the base. */
    bool (*first)(cay__req *r);
    bool (*also)(cay__req *r);
    /* Pages of any origin may ask: every request shows a token of its own, never a cookie. Not on
     * listeners that need no key. */
    bool any_origin;
    const struct cay__dialect *const *with; /* NULL-terminated: those that come with it on a
                                               listener of its own, by their `first`; or NULL */
    /* May a preview of that port be looked at, by rules of this protocol? Asked when no token or
     * key of ours was shown. */
    bool (*opens)(cay__req *r, const char *sandbox, unsigned port);
    /* How is the program behind that port spoken to? Sets r->as_host and r->as_tls of who may look.
     */
    void (*shows)(cay__req *r, const char *sandbox, unsigned port);
    bool pages; /* the console's pages ask for it, by their cookie: server/console.h */
} cay__dialect;

extern const cay__dialect *const cay__dialects[]; /* server/dialects.c, NULL-terminated */

/* openapi.c: the OpenAPI 3.1 document of a dialect's routes. */
json_t *cay__openapi(const cay__dialect *d, const char *title);

/* Something that lives as long as the server: opened in this order before the first connection,
 * closed in the other after the last. */
typedef struct cay__part {
    const char *name;
    int (*open)(cay__server *s, cay_err *err);
    void (*close)(cay__server *s);
} cay__part;
extern const cay__part cay__parts[]; /* server/dialects.c, ends with a NULL name */

typedef struct cay__conf {
    const char *home;                    /* the state directory; NULL: the usual one */
    const char *domain;                  /* of previews: PORT-ID.domain; "localhost" */
    const char *tls_cert, *tls_key;      /* or NULL */
    const char *hosts[17], *origins[17]; /* more that are ours, NULL-terminated */
    const char *otlp, *trace;            /* where spans go: a collector's URL, a file; or NULL */
    const char *log;                     /* file of the access log; "-": stderr; NULL: none */
    unsigned workers;                    /* at most so many */
    unsigned conns;                      /* likewise */
    unsigned head_ms, body_ms; /* how long a head may take; a body, without anything coming */
    bool insecure;             /* plain HTTP beyond this machine was asked for by name */
} cay__conf;
const cay__conf *cay__server_conf(const cay__server *s);

typedef enum cay__scope {
    CAY__SCOPE_NOBODY = 0,
    CAY__SCOPE_PORT,
    CAY__SCOPE_FILE,
    CAY__SCOPE_SANDBOX,
    CAY__SCOPE_TENANT,
    CAY__SCOPE_ADMIN
} cay__scope;
typedef struct cay__actor {
    cay__scope scope;
    char tenant[64];              /* "default" until others are made */
    char key[16];                 /* id of the key; "" without one */
    char sandbox[CAY_ID_LEN + 1]; /* with the narrow scopes: the only one it may touch */
    uint16_t port;                /* with scope port: the only one */
    const char *path;             /* with scope file: at and below it */
} cay__actor;

/* Fills r->who. Called once a request, before it is admitted; of operations that need no key as
 * well, where a missing one is no error. */
int cay__auth(cay__req *r, cay_err *err);
/* By the scope of the key and the flags of the operation: what dialects without an admit() of their
 * own do. Before the body is waited for. */
int cay__admit(cay__req *r, cay_err *err);
/* May the one who asks use what belongs to the whole service? */
int cay__req_shared(const cay__req *r, const char *what, cay_err *err);
/* server/http/cors.c: other origins, for dialects with any_origin. */
bool cay__cors(cay__req *r); /* true: the origin is welcome, and the answer says so */
const cay__route *cay__cors_preflight(
    cay__req *r); /* the row that answers a browser's question before the request, or NULL */
/* How an address of ours begins. */
static inline const char *cay__scheme(bool tls)
{
    return tls ? "https" : "http";
}
/* The key that the request shows: by the dialect's own way, else Authorization: Bearer, else
 * X-API-Key; NULL without. */
const char *cay__req_key(cay__req *r);

struct cay__req {
    const char
        *as_host; /* of a preview: the Host that the program inside is told; NULL: localhost:PORT */
    bool as_tls;  /* likewise: the program speaks TLS */
    cay__server *server;
    cay_client *client;
    const cay__dialect *dialect;
    const cay__route *route;
    cay__head head;
    const char *param[4]; /* what the {…} of the route matched, in order, decoded; ids are checked
                             for their form by cay__req_sandbox() */
    cay_sandbox *sb;      /* of operations with CAY__OP_FIND */
    cay__actor who;
    const char *shown; /* the secret that says so; NULL: none was needed */
    void *admitted;    /* what dialect->admit found, for its handler; in the arena */
    cay_call call;     /* its deadline; canceled when the peer hangs up; its trace and actor */
    cay__arena arena;  /* lives as long as the request */
    char id[CAY_ID_LEN +
            1];       /* of this request: in the answer (X-Request-Id), in errors, in the log */
    const char *peer; /* address, for the log */
    const char *as;   /* the listener's --as TENANT: no key is needed; or NULL */
    bool tls;         /* it came encrypted */
    struct cay__conn *conn;   /* the server's own */
    struct cay__reply *reply; /* likewise: what was answered so far */
};

/* fn(p) when the request ends, the last one first; also when p was given by a handler that fails.
 */
void cay__req_defer(cay__req *r, void (*fn)(void *p), void *p);

json_t *cay__req_keep(cay__req *r, json_t *j); /* json_decref() then; gives j back */
/* A list of texts, NULL-terminated, behind `first` unless that is NULL; an object of texts as
 * pairs, likewise. CAY_EINVAL names the one that is none: WHAT[N], WHAT.KEY. */
int cay__req_texts(cay__req *r, const char *what, const char *first, const json_t *list,
                   const char *const **out, cay_err *err);
int cay__req_pairs(cay__req *r, const char *what, const cay_pair *first, const json_t *object,
                   const cay_pair **out, cay_err *err);
/* A text that lives as long as the request. */
char *cay__req_text(cay__req *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const char *cay__req_query(
    cay__req *r, const char *name); /* decoded, the first of that name; NULL when there is none */
bool cay__req_flag(cay__req *r, const char *name); /* ?name, ?name=1, ?name=true */
/* A query that is a number; CAY_EINVAL naming it. */
int cay__req_number(cay__req *r, const char *name, uint64_t none, uint64_t max, uint64_t *out,
                    cay_err *err);
/* The whole body: an object of at most 8 MiB (manifests and templates pass more), content type
 * application/json, depth 64. Without a body: {}. Lives in the request's arena: nothing to free. */
int cay__req_json(cay__req *r, size_t max, json_t **out, cay_err *err);
/* The next bytes of the body, decoded from chunks; *n 0 at its end. Sends 100 Continue when it is
 * waited for. */
int cay__req_read(cay__req *r, void *buf, size_t cap, size_t *n, cay_err *err);
/* All of it into a descriptor, which stays the caller's. More than max: CAY_ETOOBIG. */
int cay__req_to_fd(cay__req *r, int fd, uint64_t max, uint64_t *n, cay_err *err);
/* A sandbox that the one who asks may use, by whole id (or a foreign alias); else CAY_ENOENT, alike
 * for those of others. Wakes nothing. The handle is given back with the request. */
int cay__req_sandbox(cay__req *r, const char *id, cay_sandbox **out, cay_err *err);
/* Whose things a list shows, for cay_filter.tenant: the asker's; of an admin NULL (all), or
 * ?tenant=. What is made belongs to r->who.tenant. */
const char *cay__req_tenant(cay__req *r);
/* As cay_client_create(), with our sudo inside, which users of hosted sandboxes are used to;
 * without it where there is nobody to become. */
int cay__create_sudo(cay__req *r, cay_create *c, cay_sandbox **out, cay_err *err);
/* Of a route that makes something: its Idempotency-Key, for cay_create.idempotency_key, or NULL. */
const char *cay__req_once(cay__req *r);
const char *cay__req_once_of(cay__req *r); /* with the tenant before it */
/* Of a route with CAY__OP_RAW that makes something: its body is in this file, and nothing was
 * done yet. What is not 0 is handed on: a request that was answered before, or is under way. Others
 * have that done by cay__req_json(). */
int cay__once_file(cay__req *r, int fd, uint64_t len, cay_err *err);
/* Of a route with CAY__OP_SECRET: a secret that is about to be made, text of that length, is
 * kept for who follows if this server dies at it; if one died at it, it becomes what that had
 * chosen. */
int cay__once_choose(cay__req *r, char *text, size_t len, cay_err *err);
/* What the request is about, for the audit log; without it what the first {…} of the route matched.
 */
void cay__req_about(cay__req *r, const char *object);

/* A problem document (RFC 9457): status, code, reason, whether a retry helps, the request's id. Of
 * CAY_ESYS the text stays in the log: it may name paths of the host. */
int cay__reply_problem(cay__req *r, const cay_err *err);

void cay__reply_field(cay__req *r, const char *name,
                      const char *value); /* one more line of the head, before the answer */
int cay__reply(cay__req *r, int status, const char *type, const void *data,
               size_t len); /* copied; type NULL: no body */
int cay__reply_empty(cay__req *r, int status);
int cay__reply_json(cay__req *r, int status, json_t *j); /* takes j */
/* The same of json_pack(fmt, …). */
int cay__reply_pack(cay__req *r, int status, const char *fmt, ...);
/* Yields fd to the peer and closes it. len -1: until its end (chunked). The bytes go from the loop,
 * by splice(2) or sendfile(2) where that works. */
int cay__reply_fd(cay__req *r, int status, const char *type, int fd, int64_t len);

/* A stream. Its functions run on the loop and never block; what has to wait says CAY__PUMP_WORK and
 * goes on in work() on a worker, while nothing else of it runs. `out` is what goes to the peer;
 * pull() is not called while more than 256 KiB wait to be sent. beat_ms: pull() is called with
 * ready 0 at least that often. close() comes once, last, on any thread. */
enum {
    CAY__PUMP_ON = 0,
    CAY__PUMP_END = 1,
    CAY__PUMP_WORK = 2
}; /* negative: the connection is cut */
typedef struct cay__upstream cay__upstream;
typedef struct cay__pump {
    int fd[3]; /* watched for reading; -1: none. pull() may change them; they stay its own */
    cay__upstream *kept; /* fd[0] is this one's, and may outlive the stream (preview_kept.c); NULL:
                            it is plain */
    unsigned write;      /* bits of those that are watched for writing, too: bit 4 + i of ready */
    bool hold; /* nothing is taken from the peer meanwhile: push() is not called, and TCP lets it
                  wait */
    unsigned beat_ms;
    void *self;
    int (*pull)(struct cay__pump *p, unsigned ready,
                cay__buf *out); /* bit i of ready: fd[i] is readable or at its end */
    int (*work)(struct cay__pump *p, cay__buf *out);
    /* What the peer sends after an upgrade: of a WebSocket whole messages of kind CAY__WS_…, else
     * bytes. data NULL: it sends no more. */
    int (*push)(struct cay__pump *p, int kind, const char *data, size_t len, cay__buf *out);
    /* The server ends: last words, for what would go on for long; answers as pull() does. NULL: a
     * stream of events or frames is told to come back and ends, a tunnel is cut, and what is left
     * has CAY__DRAIN_MS to come to its end. */
    int (*last)(struct cay__pump *p, cay__buf *out);
    void (*close)(struct cay__pump *p);
} cay__pump;
int cay__reply_pump(cay__req *r, int status, const char *type,
                    const cay__pump *pump); /* copied; chunked */
/* One event of an SSE stream into out: id and event may be NULL. */
void cay__sse_event(cay__buf *out, const char *id, const char *event, const char *data, size_t len);

enum { CAY__WS_TEXT = 1, CAY__WS_BINARY = 2 };
/* 101, then frames. Checks version and key first; Origin was checked with the request. protocol:
 * the subprotocol chosen, or NULL. */
int cay__reply_ws(cay__req *r, const char *protocol, const cay__pump *pump, cay_err *err);
void cay__ws_send(cay__buf *out, int kind, const void *data, size_t len);
void cay__ws_close(cay__buf *out, unsigned code, const char *why); /* then return CAY__PUMP_END */
/* 101 and plain bytes both ways. */
int cay__reply_upgrade(cay__req *r, const char *protocol, const cay__pump *pump);

/* The proxy's way: pull() writes the whole answer, its head and framing included, whenever that
 * comes; push() gets the rest of the request's body, decoded, and NULL at its end (at once without
 * a body). Before cay__reply_raw() nothing of the body may be read. After `tunnel` was set push()
 * gets bytes as they come. CAY__PUMP_END: with `keep`, and when the body was all taken, another
 * request may follow on the connection; else it is closed once everything is sent. */
typedef struct cay__raw {
    cay__pump pump; /* first: pull() and the others get its address, so they find the rest */
    bool keep, tunnel;
    int status; /* for the log, once it is known */
} cay__raw;
int cay__reply_raw(cay__req *r, const cay__raw *raw); /* copied */

/* Whether what was opened since, as the nth try, is what st tells of: 0, or 1: look at it and open
 * it again. After CAY__FILE_TRIES, each of which loses to a writer who comes within some hundred
 * microseconds, one to which somebody writes all the time is taken as it is, one that is replaced
 * all the time is CAY_EBUSY, "file_changing". */
enum { CAY__FILE_TRIES = 50 };
int cay__file_again(cay_sandbox *sb, const cay_call *call, const char *path, const cay_stat *st,
                    int nth, cay_err *err);
/* Opens the file that *st tells of; when another was put in its place, that one, of which *st tells
 * then. user: with whose rights, or NULL. */
int cay__file_open(cay__req *r, cay_sandbox *sb, const char *path, const char *user, cay_stat *st,
                   int *fd, cay_err *err);

/* Asked first for every head: a row when it is for a preview, by its Host or, where paths are not a
 * protocol's own, its path. Its dialect is cay__preview_dialect, its route is open and raw;
 * cay__auth() is not called for it, since its rules about Host and Origin are others. */
const cay__route *cay__preview_route(const cay__server *s, const cay__head *h, bool by_path);
extern const cay__dialect cay__preview_dialect;
struct cay__previews *cay__previews_new(void); /* what the server keeps for them */
void cay__previews_free(struct cay__previews *p);
bool cay__previews_sweep(
    struct cay__previews *p); /* now and then; true while there is something left to sweep */
struct cay__previews *cay__server_previews(cay__server *s);
struct cay__hub *cay__server_hub(cay__server *s); /* server/events.h */
const char *cay__server_domain(
    const cay__server *s); /* that preview hosts are below: "localhost" */
const char *cay__server_instance(
    const cay__server *s); /* 8 hex digits that no other server has, the same after a restart */
/* server/http/auth.c: fills r->who for that key, nothing else; CAY_EAUTH. */
int cay__auth_key(cay__req *r, const char *key, cay_err *err);
