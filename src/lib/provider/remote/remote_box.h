/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/remote/remote_box.h - another cay server as the place where sandboxes run, over its
 * native API (docs/wire/native.md).
 *
 *   wire.c    a request with JSON both ways; a problem document becomes our error again
 *   shape.c   specs as JSON, answers as structs
 *   pump.c    threads that turn an answer's body into a descriptor
 *   box.c     sandboxes
 *   proc.c    processes
 *   files.c   files and watches
 *   net.c     policies
 *   where.c   which server, which key
 *   remote.c  a whole service that is the server's
 *
 * Over there a sandbox has an id of its own; ours is a label of it, so that it is found again
 * without any record here.
 */
#pragma once
#include <base/base.h>
#include <base/json.h>
#include <base/str.h>
#include <net/client.h>
#include <pthread.h>
#include <lib/provider/provider.h>
#include <lib/sandbox/sandbox.h>

#define CAY__FAR_API      "/api/v1"
#define CAY__FAR_MARK     64             /* where a list goes on, as the server tells it */
#define CAY__FAR_ID       "cay.id"       /* labels: our id of the sandbox, */
#define CAY__FAR_INSTANCE "cay.instance" /* and whose it is */

typedef struct cay__far {
    cay__http_client *client;
    char instance[64];
} cay__far;

typedef struct cay__far_box {
    cay__far *far;
    char id[CAY_ID_LEN + 1];     /* ours */
    char remote[CAY_ID_LEN + 1]; /* the server's */
    char *home;                  /* for uploads on their way; or NULL */
    pthread_mutex_t lock;
    json_t *seen; /* the last answer: what status() tells points into it */
    cay_wall *layers;
    struct cay__far_old {
        struct cay__far_old *next;
        json_t *seen;
        cay_wall *layers;
    } * old; /* "strings live as long as the box handle" */
} cay__far_box;

typedef struct cay__far_proc {
    cay__far_box *box;
    char id[CAY_ID_LEN + 1];
    int pid, exit_fd;
    atomic_uint breaks;
} cay__far_proc;

/* Adds "?name=value" or "&name=value", encoded. */
void cay__far_query(cay__buf *target, const char *name, const char *value);
void cay__far_query_u64(cay__buf *target, const char *name, uint64_t value);
/* "/api/v1/sandboxes/ID" and what follows. */
void cay__far_at(cay__buf *target, const cay__far_box *b, const char *rest);
#define CAY__FAR_TARGET(name) CAY_AUTOBUF name = CAY__BUF(64u << 10)

/* An answer of 2xx or 101; any other is an error, the server's own words. */
int cay__far_ask(cay__far *f, const cay_call *call, const cay__ask *ask, cay__answer **out,
                 cay_err *err);
/* body (taken) and out may be NULL. */
int cay__far_json(cay__far *f, const cay_call *call, const char *method, const cay__buf *target,
                  json_t *body, json_t **out, cay_err *err);
/* Any request, answered with JSON. */
int cay__far_send(cay__far *f, const cay_call *call, const cay__ask *ask, json_t **out,
                  cay_err *err);
/* The same with lines for the head. */
int cay__far_json_with(cay__far *f, const cay_call *call, const char *method,
                       const cay__buf *target, const char *fields, json_t *body, json_t **out,
                       cay_err *err);
/* progress.c: POST of a create; with a manifest and c->progress, that is told what the server's
 * events say of it. key: its Idempotency-Key, in fields. */
int cay__far_create_watched(cay__far *f, const cay_call *call, const cay_create *c, const char *key,
                            const cay__buf *target, const char *fields, json_t *body, json_t **out,
                            cay_err *err);

/* Members of what the server takes; CAY_ENOTSUP for what concerns this host alone. `whole`: of a
 * service that is the server's, where names of snapshots and volumes are the server's, too. */
int cay__far_create_json(const cay_create *c, bool whole, json_t **out, cay_err *err);
int cay__far_spawn_json(const cay_spawn *s, json_t **out, cay_err *err);
json_t *cay__far_pairs(const cay_pair *p);
json_t *cay__far_secrets(const cay_secret *s, size_t n);
void cay__far_exit(const json_t *j, cay_exit *out);
/* A member that may have its bytes in NAME_hex; from malloc(). */
char *cay__far_path(const json_t *j, const char *name);
bool cay__far_stat(const json_t *j, cay_stat *out);
cay_wall *cay__far_layers(const json_t *j, size_t *n);        /* points into j; from malloc() */
const char *cay__far_word(const json_t *j, const char *name); /* "" when it is not there */
const char *cay__far_id(const json_t *j, const char *name,
                        char kind); /* "" when it is none of that kind: an id is shown as it is */

/* pump.c: each ends the answer
 */

typedef int cay__far_again(void *arg, uint64_t offset, cay__answer **out);
/* The body through a descriptor. again (may be NULL): asks anew from that offset when the body is
 * cut; arg is freed at the end. */
int cay__far_pump(cay__far *f, cay__answer *a, cay__far_again *again, void *arg, int *fd,
                  cay_err *err);
/* Events as packets: fn makes one of an event; 0 bytes: none. With name NULL it tells that so many
 * were lost, since nobody took them. arg is freed at the end. ready: waits for that event first; or
 * NULL. */
typedef size_t cay__far_packet(void *arg, const char *name, const json_t *data, unsigned lost,
                               char *packet, size_t cap);
int cay__far_events(cay__answer *a, const cay_call *call, const char *ready, cay__far_packet *fn,
                    void *arg, int *fd, cay_err *err);
/* Runs fn(arg) on a thread of its own that nobody waits for. */
int cay__far_thread(void *(*fn)(void *), void *arg, cay_err *err);

int cay__far_box_new(cay__far *f, const char *id, const char *remote, const char *home,
                     cay__far_box **out);
void cay__far_release(void *box);
/* Events as packets of cay_event_wire; remote NULL: of all. With an instance of our own names are
 * turned into ours. */
int cay__far_hear(cay__far *f, const char *id, const char *remote, int *fd, cay_err *err);
int cay__far_policy(void *box, const cay_call *call, const char *text, size_t len,
                    uint64_t *revision, cay_err *err);
int cay__far_policy_get(void *box, const cay_call *call, char **text, size_t *len,
                        uint64_t *revision, cay_err *err);

/* service_list.c */
int cay__far_services(void *box, const cay_call *call, int (*fn)(const cay_service_info *, void *),
                      int (*more)(void *), void *arg, cay_err *err);
int cay__far_service_act(void *box, const cay_call *call, const char *name, int op, cay_err *err);

int cay__far_spawn(void *box, const cay_call *call, const cay_spawn *spec, void **proc,
                   cay_err *err);
int cay__far_proc_attach(void *box, const cay_call *call, const char *ref, void **proc,
                         cay_err *err);
void cay__far_proc_release(void *proc);
const char *cay__far_proc_id(void *proc, int *pid);
int cay__far_proc_output(void *proc, const cay_call *call, cay_stream which, uint64_t offset,
                         int *fd, cay_err *err);
int cay__far_proc_read(void *proc, const cay_call *call, cay_stream which, uint64_t *offset,
                       void *buf, size_t cap, size_t *n, uint64_t *lost, bool *eof, cay_err *err);
int cay__far_proc_write(void *proc, const cay_call *call, const void *data, size_t len,
                        cay_err *err);
int cay__far_proc_close_stdin(void *proc, const cay_call *call, cay_err *err);
int cay__far_proc_signal(void *proc, const cay_call *call, int sig, cay_scope scope, cay_err *err);
int cay__far_proc_resize(void *proc, const cay_call *call, uint16_t cols, uint16_t rows,
                         cay_err *err);
int cay__far_proc_wait(void *proc, const cay_call *call, cay_exit *out, cay_err *err);
int cay__far_proc_exit_fd(void *proc, cay_err *err);
int cay__far_procs(void *box, const cay_call *call, int (*fn)(const cay_proc_info *, void *),
                   void *arg, cay_err *err);

int cay__far_open_read(void *box, const cay_call *call, const char *path, const cay_read *spec,
                       int *fd, cay_err *err);
int cay__far_put(void *box, const cay_call *call, const char *path, const void *data, size_t len,
                 const cay_write *spec, cay_err *err);
int cay__far_open_write(void *box, const cay_call *call, const char *path, const cay_write *spec,
                        void **up, int *fd, cay_err *err);
int cay__far_commit_write(void *up, const cay_call *call, cay_err *err);
void cay__far_abort_write(void *up);
int cay__far_file_stat(void *box, const cay_call *call, const char *path, bool follow,
                       cay_stat *out, cay_err *err);
int cay__far_mkdir(void *box, const cay_call *call, const char *path, uint32_t mode, bool parents,
                   cay_err *err);
int cay__far_remove(void *box, const cay_call *call, const char *path, bool recursive,
                    cay_err *err);
int cay__far_rename(void *box, const cay_call *call, const char *from, const char *to,
                    cay_err *err);
int cay__far_chmod(void *box, const cay_call *call, const char *path, uint32_t mode, cay_err *err);
int cay__far_chown(void *box, const cay_call *call, const char *path, uint32_t uid, uint32_t gid,
                   cay_err *err);
int cay__far_symlink(void *box, const cay_call *call, const char *target, const char *path,
                     cay_err *err);
int cay__far_getxattr(void *box, const cay_call *call, const char *path, const char *name,
                      void *buf, size_t *len, cay_err *err);
int cay__far_setxattr(void *box, const cay_call *call, const char *path, const char *name,
                      const void *value, size_t len, cay_err *err);
int cay__far_listxattr(void *box, const cay_call *call, const char *path,
                       int (*fn)(const char *, void *), void *arg, cay_err *err);
int cay__far_list_dir(void *box, const cay_call *call, const char *path, unsigned depth,
                      int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err);
int cay__far_glob(void *box, const cay_call *call, const char *base, const char *pattern,
                  int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err);
int cay__far_grep(void *box, const cay_call *call, const char *base, const cay_grep *spec,
                  int (*fn)(const cay_match *, void *), void *arg, cay_err *err);
int cay__far_watch_open(void *box, const cay_call *call, const char *path, bool recursive, void **w,
                        int *fd, cay_err *err);
int cay__far_watch_next(void *w, const cay_call *call, cay_watch_event *out, cay_err *err);
void cay__far_watch_close(void *w);
