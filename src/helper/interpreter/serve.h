/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/interpreter/serve.h - the code interpreter of a sandbox: HTTP on port 49999 of its
 * loopback, and kernels behind it.
 *
 *   serve.c     connections: requests in, answers out, on one loop
 *   routes.c    what is asked for
 *   contexts.c  contexts, the kernel of each and who waits for it
 *   host.c      a kernel of bash or node, which speak no lines of their own
 */
#pragma once
#include <base/base.h>
#include <base/json_scan.h>
#include <net/chunk.h>
#include <net/head.h>
#include <poll.h>

#define INTERPRETER_PORT 49999
/* Bodies, results and backlogs have bounds of their own below this. */
#define TEXT CAY__BUF((size_t)1 << 30)
enum { BACKLOG = 256 << 10 }; /* that an asker has not taken: more is not read from its kernel */

typedef struct context context;

typedef struct http_conn {
    struct http_conn *next;
    int fd, polled; /* polled: its place in this turn's list, -1: none */
    cay__buf in, body, out;
    size_t scanned, sent;
    cay__head head;
    cay__chunk chunk;
    bool has_head, answered, whole, gone; /* whole: nothing is added to out any more */
    bool last, parting;                   /* no other request comes behind it; all was said */
    int64_t due,
        quiet_since; /* until when something has to move; since when its stream says nothing */
    /* Of an execution. */
    context *at;              /* that does it, or will; NULL: it is over */
    struct http_conn *behind; /* who comes next there */
    char id[24];
    cay__buf ask; /* the line for the kernel, until its turn */
} http_conn;

/* serve.c */
int64_t now_ms(void);
void answer(http_conn *c, int status, const char *type, const char *body, size_t n);
void stream_begin(http_conn *c);
void stream_line(http_conn *c, const char *line, size_t n); /* with its newline */
void stream_end(http_conn *c);

/* routes.c: a request that is whole. */
void on_request(http_conn *c);
void answer_error(http_conn *c, const cay_err *err);

/* contexts.c. Those of another language than there are: CAY_EINVAL, or CAY_ENOTSUP; without its
 * program CAY_EINVAL; unknown ids: CAY_ENOENT. */
int context_open(const char *id, const char *language, context **out,
                 cay_err *err); /* id "" or "default-…": made and started when it is not there */
int context_new(const char *language, const char *cwd, cay__buf *json, cay_err *err);
int context_remove(const char *id, cay_err *err);
int context_restart(const char *id, cay_err *err);
void context_list(cay__buf *json);
void context_ask(context *x,
                 http_conn *c);  /* takes c->ask; its events go to c's stream, which has begun */
void context_left(http_conn *c); /* nobody listens to it any more */
void contexts_begin(
    const char *self,
    char *const *languages); /* self: the path of this program, beside which the scripts are */
/* On the loop: how many places they need, which those are, and what became of them. */
size_t contexts_count(void);
size_t contexts_poll(struct pollfd *p);
void contexts_turn(const struct pollfd *p);

/* host.c */
int host_main(int argc, char **argv);
