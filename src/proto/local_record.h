/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/local_record.h - what is on disk for one sandbox without namespaces, read by the library
 * and by cay-local.
 *
 *     local/<id>/meta    a fixed record: state, deadlines, limits; replaced by rename
 *     local/<id>/config  workdir, home, then KEY=VALUE…, each NUL-terminated
 *     local/<id>/lock    held by cay-local as long as it lives
 *     local/<id>/procs   pid and start time of what was started, for whoever cleans up
 *     local/<id>/root/   what paths are resolved in: workspace, home, tmp
 *
 * Those of provider process are below process/ instead of local/. Not below sandboxes/, which is
 * the keeper's: each removes what it finds there without a record.
 */
#pragma once
#include <cay/client.h>

#define CAY__LOCAL_ROOT "root"
/* A box that works in a directory of the caller's has this file: its root is the host's own. Of
 * level 0 only, which has no wall to lose. */
#define CAY__LOCAL_OUTSIDE "outside"
/* O_PATH on its root; *path is how the host names it, "" for the host's own. -1: errno. */
int cay__local_root(int dir, int level, char *path, size_t cap);

enum { LOCAL_EXPIRE_PAUSE = 1, LOCAL_EPHEMERAL = 2 };

typedef struct local_meta {
    char magic[8];
    uint32_t version;
    uint32_t state; /* CAY_RUNNING, CAY_PAUSED, CAY_STOPPED */
    uint32_t flags;
    uint32_t crc; /* of the record with 0 here */
    char reason[24];
    char boot[40];         /* boot id of its processes */
    int64_t created_ms;    /* wall clock */
    int64_t deadline_boot; /* boot clock, which nobody sets; 0: none */
    uint64_t idle_ms, nofile;
    uint64_t memory, pids, disk; /* at level 1; 0: none */
    uint32_t level, spare;       /* cay_level: 1 puts its processes in a jail */
} local_meta;

/* As people are told it: by the wall clock of now. */
int64_t cay__local_deadline_ms(const local_meta *m);

/* Of a box that begins now; limits only where processes keep them themselves. */
local_meta cay__local_meta_first(cay_level level, const cay_create *s);
/* CAY_ENOENT: no such box. A box of another boot is given as stopped, reason "reboot". */
int cay__local_meta_read(int dir, local_meta *out, cay_err *err);
int cay__local_meta_write(int dir, local_meta *m, cay_err *err);
/* In its place, by who has the file alone; a reader that comes in between sees that the sum is
 * wrong, and looks again. */
void cay__local_meta_put(int fd, local_meta *m);
