/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/native/client.h - speak proto/keeper.h to a keeper, or to anything that answers like
 * one.
 *
 *   cay__link_open()  a pool of connections, given how to make one
 *   cay__link_call()  one request and its answer; repeated on a new connection when the peer died
 *   cay__proc_…()     processes over a link, in the shape of cay_provider_ops
 *
 * A connection carries one request at a time. A call that is canceled or late closes its
 * connection, which is how the peer learns of it. No JSON, no stdio: the static command links this.
 */
#pragma once
#include <base/buf.h>
#include <base/str.h>
#include <lib/provider/provider.h>
#include <proto/keeper.h>
#include <pthread.h>

#define CAY__LINK_IDLE 8

typedef struct cay__link {
    /* Makes a connection, starting the peer when it is not there. May be called from any thread. */
    int (*dial)(void *arg, const cay_call *call, int *sock, cay_err *err);
    /* The peer died and another may have taken over; NULL: nobody needs to know. From any thread.
     */
    void (*broke)(void *arg);
    void *arg;
    const char *peer; /* for messages: "keeper" */
    bool adopts;      /* another takes over what a dead peer held: its death is nobody else's */
    pthread_mutex_t lock;
    int idle[CAY__LINK_IDLE];
    int nidle;
    /* Sent on the same connection before whatever comes next, and answered before it: a create that
     * its first command does not wait for. Only where one thread has the link. */
    const struct cay__link_ask *ahead;
} cay__link;

void cay__link_open(cay__link *l, int (*dial)(void *, const cay_call *, int *, cay_err *),
                    void *arg, const char *peer);
void cay__link_close(cay__link *l);

typedef struct cay__link_ask {
    uint16_t type;
    const void *body;
    size_t len;
    const void *tail;
    size_t tail_len;
    const int *fds;
    int nfds;
    uint16_t answer; /* another than proto.h names beside the type, or 0 */
} cay__link_ask;
/* A request whose body is that struct. */
#define CAY__LINK_ASK(type_, body_, ...)                                                           \
    (&(cay__link_ask){ .type = type_, .body = &(body_), .len = sizeof(body_), __VA_ARGS__ })

typedef struct cay__reply {
    uint16_t type;
    union {
        cay_m_hello hello;
        cay_m_boxinfo box;
        cay_m_usage usage;
        cay_m_netinfo net;
        cay_m_proc proc;
        cay_m_exit exit;
        cay_m_data data;
        cay_m_snapped snapped;
        cay_m_error error;
        char bytes[512];
    };
    int *fd;    /* in: where a descriptor that comes along goes, or NULL */
    char *tail; /* in: room for a tail, or NULL */
    size_t tail_cap;
    size_t tail_len; /* out */
} cay__reply;

/* ERROR answers become err; any other answer than the one proto.h names beside the request is
 * CAY_EUPSTREAM. WRITE is not repeated once it was sent: bytes must not arrive twice. When the peer
 * dies again and again: CAY_EGONE if all it held died with it, CAY_EUPSTREAM if another adopts
 * that. */
int cay__link_call(cay__link *l, const cay_call *call, const cay__link_ask *ask, cay__reply *out,
                   cay_err *err);

/* The body of one that is about a box alone; prefix: a whole id, or its beginning. */
static inline cay_m_box cay__link_of(const char *prefix)
{
    cay_m_box m = { 0 };
    CAY_COPY(m.id, prefix);
    return m;
}
/* A request about a box, by its id alone. out may be NULL. */
int cay__link_box(cay__link *l, const char *box, const cay_call *call, uint16_t type,
                  cay__reply *out, cay_err *err);
/* A worker of that user (NULL: the box's own) at the other end of *sock. */
int cay__link_session(cay__link *l, const char *box, const cay_call *call, const char *user,
                      int *sock, cay_err *err);

/* For requests that keep their connection: the same, and *sock is the caller's, to be closed or,
 * once the peer has nothing more to say on it, given back. *sock untouched on failure. */
int cay__link_begin(cay__link *l, const cay_call *call, const cay__link_ask *ask, cay__reply *out,
                    int *sock, cay_err *err);
/* The next packet on it; `want` is the type awaited, END and ERROR come as they are.
 * CAY_EGONE when the peer died. */
int cay__link_next(int sock, const cay_call *call, uint16_t want, cay__reply *out, cay_err *err);
void cay__link_give(cay__link *l, int sock);
/* CAY_EGONE of such a link as what it means to others. */
int cay__link_died(const cay__link *l, int rc, cay_err *err);

/* The link must live longer than the process handles made from it. */
int cay__proc_spawn(cay__link *l, const char *box, const cay_call *call, const cay_spawn *spec,
                    void **out, cay_err *err);
int cay__proc_attach(cay__link *l, const char *box, const cay_call *call, const char *ref,
                     void **out, cay_err *err);
CAY__PROVIDES(proc_release) cay__proc_release;
CAY__PROVIDES(proc_id) cay__proc_id;
int cay__proc_conn(
    void *proc); /* the connection on which it was started and its exit will be told */
CAY__PROVIDES(proc_output) cay__proc_output;
CAY__PROVIDES(proc_read) cay__proc_read;
CAY__PROVIDES(proc_read_at) cay__proc_read_at;
CAY__PROVIDES(proc_write) cay__proc_write;
CAY__PROVIDES(proc_close_stdin) cay__proc_close_stdin;
CAY__PROVIDES(proc_resize) cay__proc_resize;
CAY__PROVIDES(proc_signal) cay__proc_signal;
CAY__PROVIDES(proc_wait) cay__proc_wait;
CAY__PROVIDES(proc_exit_fd) cay__proc_exit_fd;
CAY__PROVIDES(proc_breaks) cay__proc_breaks;

/* Every process the peer keeps for that box. Strings live during the callback. */
typedef struct cay__kept {
    cay_m_proc p;
    const char *tag, *command, *user;
    cay_pair *labels; /* the callback's to free() */
} cay__kept;
/* "NAME=VALUE" of each with its NUL; how many. */
uint32_t cay__env_add(cay__buf *b, const cay_pair *env);
/* Labels travel as key NUL value NUL …. Back from there whatever came is made into pairs; free()
 * takes all of it. */
void cay__labels_add(cay__buf *b, const cay_pair *labels);
cay_pair *cay__labels_make(const char *text, size_t n);
int cay__procs_kept(cay__link *l, const char *box, const cay_call *call,
                    int (*fn)(const cay__kept *k, void *arg), void *arg, cay_err *err);
