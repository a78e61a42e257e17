/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provider/local/local.h - level 0: plain processes in a real directory, only when asked for by name.
 *
 *   local.c  making, finding and ending boxes     dial.c   reaching a box's cay-local, or starting it
 *   life.c   pause, deadlines, waiting, usage     files.c  files below root/
 *   ports.c  who listens, who runs
 */
#pragma once
#include "box.h"
#include <base/base.h>
#include <base/fsop.h>
#include <cay/sys/provider.h>
#include <provider/native/client.h>
#include <provider/native/session.h>

typedef struct local {
    char *home, *libexec;
    int   home_fd, boxes; /* the state directory, and local/ below it */
    char  run[108];       /* directory of sockets */
} local;

typedef struct local_box {
    local     *l;
    cay__link  link;
    cay__sessions sessions; /* workers that serve its files */
    char       id[CAY_ID_LEN + 1];
    int        dir;
    char       reason[24];
    char       path[CAY__FS_PATH_MAX]; /* of root/ on the host */
    char       shown[CAY__FS_PATH_MAX + 512]; /* of the workspace */
} local_box;

/* The layers that are all off, for status and probe. */
extern const cay_layer cay__local_layers[];
extern const size_t    cay__local_nlayers;

/* dial.c: a connection, starting cay-local when it does not run. arg is a local_box.
 * CAY_ESTATE when the box is stopped. */
int  cay__local_dial(void *arg, const cay_call *call, int *sock, cay_err *err);
/* The same without starting it: CAY_EGONE when none runs. */
int  cay__local_reach(local_box *b, int *sock, cay_err *err);
void cay__local_unlink(local *l, const char *id); /* its socket */

/* files.c: a worker below root/ at the other end of *sock. */
int cay__local_session(void *arg, const cay_call *call, const char *user, int *sock, cay_err *err);
/* Fills in the file operations. */
int  cay__local_open_read(void *box, const cay_call *call, const char *path, const cay_read *spec, int *fd, cay_err *err);
int  cay__local_put(void *box, const cay_call *call, const char *path, const void *data, size_t len, const cay_write *spec, cay_err *err);
int  cay__local_open_write(void *box, const cay_call *call, const char *path, const cay_write *spec, void **up, int *fd, cay_err *err);
int  cay__local_stat(void *box, const cay_call *call, const char *path, bool follow, cay_stat *out, cay_err *err);
int  cay__local_mkdir(void *box, const cay_call *call, const char *path, uint32_t mode, bool parents, cay_err *err);
int  cay__local_remove(void *box, const cay_call *call, const char *path, bool recursive, cay_err *err);
int  cay__local_rename(void *box, const cay_call *call, const char *from, const char *to, cay_err *err);
int  cay__local_chmod(void *box, const cay_call *call, const char *path, uint32_t mode, cay_err *err);
int  cay__local_chown(void *box, const cay_call *call, const char *path, uint32_t uid, uint32_t gid, cay_err *err);
int  cay__local_symlink(void *box, const cay_call *call, const char *target, const char *path, cay_err *err);
int  cay__local_getxattr(void *box, const cay_call *call, const char *path, const char *name, void *buf, size_t *len, cay_err *err);
int  cay__local_setxattr(void *box, const cay_call *call, const char *path, const char *name, const void *value, size_t len, cay_err *err);
int  cay__local_listxattr(void *box, const cay_call *call, const char *path, int (*fn)(const char *, void *), void *arg, cay_err *err);
int  cay__local_list_dir(void *box, const cay_call *call, const char *path, unsigned depth, int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err);
int  cay__local_glob(void *box, const cay_call *call, const char *base, const char *pattern, int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err);
int  cay__local_grep(void *box, const cay_call *call, const char *base, const cay_grep *spec, int (*fn)(const cay_match *, void *), void *arg, cay_err *err);
int  cay__local_watch_open(void *box, const cay_call *call, const char *path, bool recursive, void **w, int *fd, cay_err *err);

/* life.c, ports.c: the rest of the operations. */
int cay__local_usage(void *box, const cay_call *call, cay_usage *out, cay_err *err);
int cay__local_pause(void *box, const cay_call *call, cay_err *err);
int cay__local_resume(void *box, const cay_call *call, cay_err *err);
int cay__local_extend(void *box, const cay_call *call, uint64_t ttl_ms, uint64_t idle_ms, cay_err *err);
int cay__local_stop(void *box, const cay_call *call, cay_err *err);
int cay__local_wait(void *box, const cay_call *call, cay_state *state, cay_err *err);
int cay__local_status(void *box, const cay_call *call, cay_box_status *out, cay_err *err);

/* events.c */
int cay__local_events(void *self, const char *id, int *fd, cay_err *err);

int cay__local_ports(void *box, const cay_call *call, int (*fn)(const cay_port *, void *), void *arg, cay_err *err);
int cay__local_connect(void *box, const cay_call *call, uint16_t port, int *fd, cay_err *err);
int cay__local_procs(void *box, const cay_call *call, int (*fn)(const cay_proc_info *, void *), void *arg, cay_err *err);
