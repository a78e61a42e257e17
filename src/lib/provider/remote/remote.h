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
/* Runs fn(arg) on a thread of its own that nobody waits for. */
int cay__remote_thread(void *(*fn)(void *), void *arg, cay_err *err);
/* Until n is 0 or buf is full. */
int cay__remote_fill(cay__answer *a, const cay_call *call, void *buf, size_t cap, size_t *n,
                     cay_err *err);

cay__remote_box *cay__remote_box_new(cay__remote *r, const char *id, const char *there,
                                     const char *home);
void cay__remote_release(void *box);
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
int cay__remote_spawn(void *box, const cay_call *call, const cay_spawn *spec, void **proc,
                      cay_err *err);
int cay__remote_proc_attach(void *box, const cay_call *call, const char *ref, void **proc,
                            cay_err *err);
void cay__remote_proc_release(void *proc);
const char *cay__remote_proc_id(void *proc, int *pid);
int cay__remote_proc_output(void *proc, const cay_call *call, cay_stream which, uint64_t offset,
                            int *fd, cay_err *err);
int cay__remote_proc_read(void *proc, const cay_call *call, cay_stream which, uint64_t *offset,
                          void *buf, size_t cap, size_t *n, uint64_t *lost, bool *eof,
                          cay_err *err);
int cay__remote_proc_write(void *proc, const cay_call *call, const void *data, size_t len,
                           cay_err *err);
int cay__remote_proc_close_stdin(void *proc, const cay_call *call, cay_err *err);
int cay__remote_proc_signal(void *proc, const cay_call *call, int sig, cay_scope scope,
                            cay_err *err);
int cay__remote_proc_resize(void *proc, const cay_call *call, uint16_t cols, uint16_t rows,
                            cay_err *err);
int cay__remote_proc_wait(void *proc, const cay_call *call, cay_exit *out, cay_err *err);
int cay__remote_proc_exit_fd(void *proc, cay_err *err);
int cay__remote_procs(void *box, const cay_call *call, int (*fn)(const cay_proc_info *, void *),
                      void *arg, cay_err *err);
int cay__remote_open_read(void *box, const cay_call *call, const char *path, const cay_read *spec,
                          int *fd, cay_err *err);
int cay__remote_put(void *box, const cay_call *call, const char *path, const void *data, size_t len,
                    const cay_write *spec, cay_err *err);
int cay__remote_open_write(void *box, const cay_call *call, const char *path, const cay_write *spec,
                           void **up, int *fd, cay_err *err);
int cay__remote_commit_write(void *up, const cay_call *call, cay_err *err);
void cay__remote_abort_write(void *up);
int cay__remote_file_stat(void *box, const cay_call *call, const char *path, bool follow,
                          cay_stat *out, cay_err *err);
int cay__remote_mkdir(void *box, const cay_call *call, const char *path, uint32_t mode,
                      bool parents, cay_err *err);
int cay__remote_remove(void *box, const cay_call *call, const char *path, bool recursive,
                       cay_err *err);
int cay__remote_rename(void *box, const cay_call *call, const char *from, const char *to,
                       cay_err *err);
int cay__remote_chmod(void *box, const cay_call *call, const char *path, uint32_t mode,
                      cay_err *err);
int cay__remote_chown(void *box, const cay_call *call, const char *path, uint32_t uid, uint32_t gid,
                      cay_err *err);
int cay__remote_symlink(void *box, const cay_call *call, const char *target, const char *path,
                        cay_err *err);
int cay__remote_getxattr(void *box, const cay_call *call, const char *path, const char *name,
                         void *buf, size_t *len, cay_err *err);
int cay__remote_setxattr(void *box, const cay_call *call, const char *path, const char *name,
                         const void *value, size_t len, cay_err *err);
int cay__remote_listxattr(void *box, const cay_call *call, const char *path,
                          int (*fn)(const char *, void *), void *arg, cay_err *err);
int cay__remote_list_dir(void *box, const cay_call *call, const char *path, unsigned depth,
                         int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err);
int cay__remote_glob(void *box, const cay_call *call, const char *base, const char *pattern,
                     int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err);
int cay__remote_grep(void *box, const cay_call *call, const char *base, const cay_grep *spec,
                     int (*fn)(const cay_match *, void *), void *arg, cay_err *err);
int cay__remote_watch_open(void *box, const cay_call *call, const char *path, bool recursive,
                           void **w, int *fd, cay_err *err);
int cay__remote_watch_next(void *w, const cay_call *call, cay_watch_event *out, cay_err *err);
void cay__remote_watch_close(void *w);
