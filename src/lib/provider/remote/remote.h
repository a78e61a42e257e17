/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/remote/remote.h - another cay server as the place where sandboxes run, over its
 * native API (docs/wire/native.md, wire/op.h).
 *
 *   ask.c       a request by a row of wire/ops.c; a problem document becomes our error again
 *   pump.c      threads that turn an answer's body into a descriptor
 *   box.c       sandboxes          proc.c   processes        files.c  files and watches
 *   address.c   which server, which key
 *   client.c    a whole client that is the server's; archives.c and builds.c are parts of it
 *   progress.c  how far a create with a manifest is
 *
 * Over there a sandbox has an id of its own; ours is a label of it, so that it is found again
 * without any record here.
 */
#pragma once
#include <base/base.h>
#include <base/json.h>
#include <lib/client/remote.h>
#include <lib/provider/provider.h>
#include <net/client.h>
#include <pthread.h>

#define CAY__REMOTE_API      "/api/v1"
#define CAY__REMOTE_ID       "cay.id"       /* labels: our id of the sandbox, */
#define CAY__REMOTE_INSTANCE "cay.instance" /* and whose it is */

struct cay__remote {
    cay__http_client *client; /* NULL: no server was named */
    char instance[64];        /* whose sandboxes; "" of a whole client: names are the server's */
    char *provider;           /* that was named for its sandboxes, or NULL */
};

/* What status() tells: its strings live as long as the box handle. */
typedef struct cay__remote_seen {
    struct cay__remote_seen *before;
    json_t *json;
    cay_info info;
    cay__arena mem;
} cay__remote_seen;

typedef struct cay__remote_box {
    cay__remote *remote;
    char id[CAY_ID_LEN + 1];    /* ours */
    char there[CAY_ID_LEN + 1]; /* the server's */
    char *home;                 /* for uploads on their way; or NULL */
    pthread_mutex_t lock;
    cay__remote_seen *seen;
} cay__remote_box;

/* Which server is meant, and the key for it: a URL that is given; else CAY_HOST; else SANDBOX_HOST
 * with SANDBOX_PORT. A name without a scheme is http://NAME:8090. The key is CAY_API_KEY; else the
 * line "URL KEY" of ~/.config/cay/hosts, which nobody else may read; else there is none.
 * *out NULL: nobody named one, which is said when one is needed: cay__remote_no_host(). key: to be
 * preferred, or NULL. */
int cay__remote_connect(const char *url, const char *key, cay__http_client **out, cay_err *err);

int cay__remote_no_host(cay_err *err);

/* The answer, for who streams. cay__answer_end() it. */
int cay__remote_stream(const cay__remote *r, const cay_call *call, const cay__request *q,
                       cay__answer **out, cay_err *err);
/* progress.c: POST of a create; with a manifest and c->progress, that is told what the server's
 * events say of it. */
int cay__remote_create_watched(const cay__remote *r, const cay_call *call, const cay_create *c,
                               const cay__request *q, cay_info *out, cay__arena *mem, cay_err *err);
/* A body for it; CAY_ENOTSUP for what concerns this host alone. `whole`: of a client that is the
 * server's, where names of snapshots and volumes are the server's, too. net: to be freed. */
int cay__remote_create_body(const cay_create *c, bool whole, cay__create_body *out, char **net,
                            cay_err *err);
/* Gives id back, or "" when it is none of that kind: an id is shown as it is. */
const char *cay__remote_id(const char *id, char kind);
int cay__remote_no_id(const cay__remote *r, const char *of, cay_err *err);

/* pump.c: each ends the answer. */
typedef int cay__remote_again(void *arg, uint64_t offset, cay__answer **out);
/* The body through a descriptor. again (may be NULL): asks anew from that offset when the body is
 * cut; arg is freed at the end. */
int cay__remote_pump(const cay__remote *r, cay__answer *a, cay__remote_again *again, void *arg,
                     int *fd, cay_err *err);
/* Events as packets: fn makes one of an event; 0 bytes: none. With name NULL it tells that so many
 * were lost, since nobody took them. arg is freed at the end. ready: waits for that event first; or
 * NULL. */
typedef size_t cay__remote_packet(void *arg, const char *name, const json_t *data, unsigned lost,
                                  char *packet, size_t cap);
int cay__remote_packets(cay__answer *a, const cay_call *call, const char *ready,
                        cay__remote_packet *fn, void *arg, int *fd, cay_err *err);
/* Until n is 0 or buf is full. */
int cay__remote_fill(cay__answer *a, const cay_call *call, void *buf, size_t cap, size_t *n,
                     cay_err *err);

cay__remote_box *cay__remote_box_new(cay__remote *r, const char *id, const char *there,
                                     const char *home);
CAY__PROVIDES(release) cay__remote_release;
/* The same as of cay__remote_*() about a box, whose id over there is the first value of the path.
 */
static inline int cay__box_do(const cay__remote_box *b, const cay_call *call, cay__request q,
                              cay_err *err)
{
    q.path[0] = b->there;
    return cay__remote_do(b->remote, call, &q, err);
}
static inline int cay__box_get(const cay__remote_box *b, const cay_call *call, cay__request q,
                               cay__arena *mem, void *out, cay_err *err)
{
    q.path[0] = b->there;
    return cay__remote_get(b->remote, call, &q, mem, out, err);
}
static inline int cay__box_stream(const cay__remote_box *b, const cay_call *call, cay__request q,
                                  cay__answer **out, cay_err *err)
{
    q.path[0] = b->there;
    return cay__remote_stream(b->remote, call, &q, out, err);
}
#define CAY__BOX_CLEAN(type_, clean_, box_, call_, q_, fn_, arg_, err_)                            \
    ({                                                                                             \
        const cay__remote_box *b_ = (box_);                                                        \
        cay__request of_ = q_;                                                                     \
        of_.path[0] = b_->there;                                                                   \
        CAY__REMOTE_CLEAN(type_, clean_, b_->remote, call_, of_, fn_, arg_, err_);                 \
    })
#define CAY__BOX_EACH(type_, box_, call_, q_, fn_, arg_, err_)                                     \
    CAY__BOX_CLEAN(type_, (void), box_, call_, q_, fn_, arg_, err_)
/* How long one question for an end may wait on the server: half a minute, or what the call has. */
cay__wait_query cay__remote_patience(const cay_call *call);
/* Events as packets of cay_event_wire; there NULL: of all. With an instance of our own names are
 * turned into ours. */
int cay__remote_hear(cay__remote *r, const char *id, const char *there, int *fd, cay_err *err);

/* A file without a name; archives.c. */
int cay__remote_tmpfile(int *fd, cay_err *err);
/* A directory with all that is in it as a tar, in such a file, which stands at its beginning; of a
 * build without what .dockerignore leaves out. builds.c */
int cay__remote_tar(int dir, const char *path, const cay_build *build, const cay_call *call,
                    int *out, uint64_t *len, cay_err *err);

/* Parts of the provider's table: proc.c, files.c. */
CAY__PROVIDES(spawn) cay__remote_spawn;
CAY__PROVIDES(proc_attach) cay__remote_proc_attach;
CAY__PROVIDES(proc_release) cay__remote_proc_release;
CAY__PROVIDES(proc_id) cay__remote_proc_id;
CAY__PROVIDES(proc_output) cay__remote_proc_output;
CAY__PROVIDES(proc_read) cay__remote_proc_read;
CAY__PROVIDES(proc_write) cay__remote_proc_write;
CAY__PROVIDES(proc_close_stdin) cay__remote_proc_close_stdin;
CAY__PROVIDES(proc_signal) cay__remote_proc_signal;
CAY__PROVIDES(proc_resize) cay__remote_proc_resize;
CAY__PROVIDES(proc_wait) cay__remote_proc_wait;
CAY__PROVIDES(proc_exit_fd) cay__remote_proc_exit_fd;
CAY__PROVIDES(procs) cay__remote_procs;
CAY__PROVIDES(open_read) cay__remote_open_read;
CAY__PROVIDES(put) cay__remote_put;
CAY__PROVIDES(open_write) cay__remote_open_write;
CAY__PROVIDES(commit_write) cay__remote_commit_write;
CAY__PROVIDES(abort_write) cay__remote_abort_write;
CAY__PROVIDES(stat) cay__remote_file_stat;
CAY__PROVIDES(mkdir) cay__remote_mkdir;
CAY__PROVIDES(remove) cay__remote_remove;
CAY__PROVIDES(rename) cay__remote_rename;
CAY__PROVIDES(chmod) cay__remote_chmod;
CAY__PROVIDES(chown) cay__remote_chown;
CAY__PROVIDES(symlink) cay__remote_symlink;
CAY__PROVIDES(getxattr) cay__remote_getxattr;
CAY__PROVIDES(setxattr) cay__remote_setxattr;
CAY__PROVIDES(listxattr) cay__remote_listxattr;
CAY__PROVIDES(list_dir) cay__remote_list_dir;
CAY__PROVIDES(glob) cay__remote_glob;
CAY__PROVIDES(grep) cay__remote_grep;
CAY__PROVIDES(watch_open) cay__remote_watch_open;
CAY__PROVIDES(watch_next) cay__remote_watch_next;
CAY__PROVIDES(watch_close) cay__remote_watch_close;
