/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/local/local.h - sandboxes without namespaces: processes of the caller in a real
 * directory.
 *
 * Two providers share all of it. `local` is level 0: no wall, only when asked for by name.
 * `process` is level 1: each process enters a jail (jail.h) first; it stands in for native where
 * the host forbids namespaces.
 *
 *   local.c    making, finding and ending boxes
 *   dial.c     reaching a box's cay-local, or starting it
 *   life.c     pause, deadlines, waiting, usage
 *   files.c    files below root/
 *   ports.c    who listens, who runs
 *   process.c  what is level 1's own
 */
#pragma once
#include <proto/local_record.h>
#include "events.h"
#include <base/base.h>
#include <base/fsop.h>
#include <cay/sys/provider.h>
#include <lib/provider/native/client.h>
#include <lib/provider/native/session.h>

typedef struct local local;

/* What the two providers do not share. */
typedef struct local_kind {
    const char *dir; /* of its boxes, below the state directory */
    const char *run; /* of its sockets, below the runtime directory: "" or "/p" */
    cay_level level;
    int (*check)(local *l, const cay_box_spec *spec,
                 cay_err *err); /* refuses what cannot be kept */
    const cay_wall *(*layers)(size_t *n);
} local_kind;

struct local {
    const local_kind *kind;
    char *home, *libexec;
    int home_fd, boxes; /* the state directory, and kind->dir below it */
    char run[108];      /* directory of sockets */
};

typedef struct local_box {
    local *l;
    cay__link link;
    cay__sessions sessions; /* workers that serve its files */
    char id[CAY_ID_LEN + 1];
    int dir;
    char reason[24];
    char path[CAY__FS_PATH_MAX];        /* of root/ on the host */
    char shown[CAY__FS_PATH_MAX + 512]; /* of the workspace */
} local_box;

/* local.c */
int cay__local_open(const cay_provider_conf *conf, const local_kind *kind, void **self,
                    cay_err *err);

/* dial.c: makes the directory of the sockets. */
int cay__local_run(local *l, cay_err *err);
/* A connection, starting cay-local when it does not run. arg is a local_box.
 * CAY_ESTATE when the box is stopped. */
int cay__local_dial(void *arg, const cay_call *call, int *sock, cay_err *err);
/* The same without starting it: CAY_EGONE when none runs. */
int cay__local_reach(local_box *b, int *sock, cay_err *err);
void cay__local_unlink(local *l, const char *id); /* its socket */

/* files.c: a worker below root/ at the other end of *sock. */
int cay__local_session(void *arg, const cay_call *call, const char *user, int *sock, cay_err *err);
/* Fills in the file operations. */
int cay__local_open_read(void *box, const cay_call *call, const char *path, const cay_read *spec,
                         int *fd, cay_err *err);
int cay__local_put(void *box, const cay_call *call, const char *path, const void *data, size_t len,
                   const cay_write *spec, cay_err *err);
int cay__local_fill(void *box, const cay_call *call, const cay_fill *spec, cay_err *err);
int cay__local_open_write(void *box, const cay_call *call, const char *path, const cay_write *spec,
                          void **up, int *fd, cay_err *err);
int cay__local_stat(void *box, const cay_call *call, const char *path, bool follow, cay_stat *out,
                    cay_err *err);
int cay__local_mkdir(void *box, const cay_call *call, const char *path, uint32_t mode, bool parents,
                     cay_err *err);
int cay__local_remove(void *box, const cay_call *call, const char *path, bool recursive,
                      cay_err *err);
int cay__local_rename(void *box, const cay_call *call, const char *from, const char *to,
                      cay_err *err);
int cay__local_chmod(void *box, const cay_call *call, const char *path, uint32_t mode,
                     cay_err *err);
int cay__local_chown(void *box, const cay_call *call, const char *path, uint32_t uid, uint32_t gid,
                     cay_err *err);
int cay__local_symlink(void *box, const cay_call *call, const char *target, const char *path,
                       cay_err *err);
int cay__local_getxattr(void *box, const cay_call *call, const char *path, const char *name,
                        void *buf, size_t *len, cay_err *err);
int cay__local_setxattr(void *box, const cay_call *call, const char *path, const char *name,
                        const void *value, size_t len, cay_err *err);
int cay__local_listxattr(void *box, const cay_call *call, const char *path,
                         int (*fn)(const char *, void *), void *arg, cay_err *err);
int cay__local_list_dir(void *box, const cay_call *call, const char *path, unsigned depth,
                        int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err);
int cay__local_glob(void *box, const cay_call *call, const char *base, const char *pattern,
                    int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err);
int cay__local_grep(void *box, const cay_call *call, const char *base, const cay_grep *spec,
                    int (*fn)(const cay_match *, void *), void *arg, cay_err *err);
int cay__local_watch_open(void *box, const cay_call *call, const char *path, bool recursive,
                          void **w, int *fd, cay_err *err);

/* life.c, ports.c: the rest of the operations. */
int cay__local_usage(void *box, const cay_call *call, cay_usage *out, cay_err *err);
int cay__local_pause(void *box, const cay_call *call, cay_err *err);
int cay__local_resume(void *box, const cay_call *call, cay_err *err);
int cay__local_extend(void *box, const cay_call *call, uint64_t ttl_ms, uint64_t idle_ms,
                      cay_err *err);
int cay__local_stop(void *box, const cay_call *call, cay_err *err);
int cay__local_wait(void *box, const cay_call *call, cay_state *state, cay_err *err);
int cay__local_status(void *box, const cay_call *call, cay_box_status *out, cay_err *err);

/* events.c */
int cay__local_events(void *self, const char *id, int *fd, cay_err *err);

int cay__local_ports(void *box, const cay_call *call, int (*fn)(const cay_port *, void *),
                     void *arg, cay_err *err);
int cay__local_connect(void *box, const cay_call *call, uint16_t port, int *fd, cay_err *err);
int cay__local_procs(void *box, const cay_call *call, int (*fn)(const cay_proc_info *, void *),
                     void *arg, cay_err *err);

void cay__local_close(void *self);
int cay__local_create(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                      void **box, cay_err *err);
int cay__local_attach(void *self, const cay_call *call, const char *id, const cay_json *state,
                      void **box, cay_err *err);
int cay__local_start(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                     void **box, cay_err *err);
void cay__local_release(void *box);
int cay__local_destroy(void *box, const cay_call *call, cay_err *err);
int cay__local_list(void *self, const cay_call *call, int (*fn)(const char *id, void *arg),
                    void *arg, cay_err *err);
int cay__local_gc(void *self, const cay_call *call, int (*known)(const char *id, void *arg),
                  void *arg, size_t *removed, cay_err *err);
int cay__local_remove_files(void *self, const cay_call *call, const char *id, cay_err *err);
int cay__local_spawn(void *box, const cay_call *call, const cay_spawn *spec, void **proc,
                     cay_err *err);
int cay__local_proc_attach(void *box, const cay_call *call, const char *ref, void **proc,
                           cay_err *err);

/* The members of a cay_provider_ops that both tables have alike. */
#define CAY__LOCAL_OPS                                                                             \
    .size = sizeof(cay_provider_ops), .close = cay__local_close, .create = cay__local_create,      \
    .attach = cay__local_attach, .release = cay__local_release, .destroy = cay__local_destroy,     \
    .spawn = cay__local_spawn, .proc_attach = cay__local_proc_attach,                              \
    .proc_release = cay__proc_release, .proc_id = cay__proc_id, .proc_output = cay__proc_output,   \
    .proc_write = cay__proc_write, .proc_close_stdin = cay__proc_close_stdin,                      \
    .proc_signal = cay__proc_signal, .proc_wait = cay__proc_wait,                                  \
    .proc_exit_fd = cay__proc_exit_fd, .status = cay__local_status, .proc_read = cay__proc_read,   \
    .proc_read_at = cay__proc_read_at, .proc_breaks = cay__proc_breaks,                            \
    .proc_resize = cay__proc_resize, .procs = cay__local_procs, .list = cay__local_list,           \
    .start = cay__local_start, .stop = cay__local_stop, .pause = cay__local_pause,                 \
    .resume = cay__local_resume, .extend = cay__local_extend, .usage = cay__local_usage,           \
    .wait = cay__local_wait, .events = cay__local_events, .gc = cay__local_gc,                     \
    .remove_files = cay__local_remove_files, .open_read = cay__local_open_read,                    \
    .put = cay__local_put, .fill = cay__local_fill, .open_write = cay__local_open_write,           \
    .commit_write = cay__nf_commit_write, .abort_write = cay__nf_abort_write,                      \
    .stat = cay__local_stat, .mkdir = cay__local_mkdir, .remove = cay__local_remove,               \
    .rename = cay__local_rename, .chmod = cay__local_chmod, .chown = cay__local_chown,             \
    .symlink = cay__local_symlink, .getxattr = cay__local_getxattr,                                \
    .setxattr = cay__local_setxattr, .listxattr = cay__local_listxattr,                            \
    .list_dir = cay__local_list_dir, .glob = cay__local_glob, .grep = cay__local_grep,             \
    .watch_open = cay__local_watch_open, .watch_next = cay__nf_watch_next,                         \
    .watch_close = cay__nf_watch_close, .ports = cay__local_ports, .connect = cay__local_connect
