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
 *   ports.c    who listens, who runs
 *   process.c  what is level 1's own
 */
#pragma once
#include <proto/local_record.h>
#include "events.h"
#include <base/base.h>
#include <base/fsop.h>
#include <cay/sys/provider.h>
#include <lib/provider/native/box_ops.h>

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
    cay__served base;
    local *l;
    cay__link link;
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

/* life.c */
CAY__PROVIDES(stop) cay__local_stop;
CAY__PROVIDES(wait) cay__local_wait;
CAY__PROVIDES(status) cay__local_status;

CAY__PROVIDES(events) cay__local_events;

/* ports.c */
CAY__PROVIDES(ports) cay__local_ports;
CAY__PROVIDES(connect) cay__local_connect;
CAY__PROVIDES(procs) cay__local_procs;

/* local.c */
CAY__PROVIDES(close) cay__local_close;
CAY__PROVIDES(create) cay__local_create;
CAY__PROVIDES(attach) cay__local_attach;
CAY__PROVIDES(start) cay__local_start;
CAY__PROVIDES(release) cay__local_release;
CAY__PROVIDES(destroy) cay__local_destroy;
CAY__PROVIDES(list) cay__local_list;
CAY__PROVIDES(gc) cay__local_gc;
CAY__PROVIDES(remove_files) cay__local_remove_files;

/* The members of a cay_provider_ops that both tables have alike. */
#define CAY__LOCAL_OPS                                                                             \
    .size = sizeof(cay_provider_ops), CAY__SERVED_MEMBERS, .close = cay__local_close,              \
    .create = cay__local_create, .attach = cay__local_attach, .release = cay__local_release,       \
    .destroy = cay__local_destroy, .spawn = cay__served_spawn,                                     \
    .proc_attach = cay__served_proc_attach, .status = cay__local_status,                           \
    .procs = cay__local_procs, .list = cay__local_list, .start = cay__local_start,                 \
    .stop = cay__local_stop, .pause = cay__served_pause, .resume = cay__served_resume,             \
    .usage = cay__served_usage, .wait = cay__local_wait, .events = cay__local_events,              \
    .gc = cay__local_gc, .remove_files = cay__local_remove_files, .fill = cay__nf_fill,            \
    .ports = cay__local_ports, .connect = cay__local_connect
