/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/snapshot/diff.h - points that can be compared, and where apply finds what a sandbox wrote.
 */
#pragma once
#include "snapshot.h"
#include <cay/workspace.h>
#include "layer.h"
#include <limits.h>

#define CAY__NOTE_START "start" /* the layers that a sandbox stood on when it was made, if any */

/* A stack above the template, and what a sandbox has written above it. */
typedef struct cay__point {
    cay__stack stack;
    char id[CAY_ID_LEN + 1]; /* of a sandbox; "" of a snapshot */
    char root[PATH_MAX];     /* directory instead of the template, or "" */
    char base[16];           /* the template, "host" or "image" */
    char top[64];            /* sandboxes/ID/upper, or "" */
    char on[PATH_MAX];       /* host directory below /workspace, or "" */
    char on_top[64];    /* what is written above it: sandboxes/ID/on/upper, layers/o…/upper */
    int64_t created_ms; /* of `on`: since when it is worked on */
    char mounts[8192]; /* where directories and volumes are shown in it, each with its NUL; the last
                          is "" */
} cay__point;

int cay__point_find(cay_client *client, const cay_call *call, const char *ref, cay__point *out,
                    cay_err *err);
/* The directory underneath, as it is now. */
int cay__on_open(const char *dir, const char *id, int *fd, cay_err *err);
/* What is written above it, from a snapshot; verbs of helper/layer/on.c. */
int cay__on_ask(cay_client *client, const cay_call *call, const char *verb, const char *id,
                const char *snapshot, cay_err *err);
/* Asks cay-layer for a difference; lock (may be NULL) is closed once it has opened both sides. */
int cay__diff_ask(cay_client *client, const cay_call *call, const char *const *words, size_t n,
                  int dir, int *lock, int (*fn)(const cay_file_change *, void *), void *arg,
                  uint64_t *left_out, cay_err *err);

/* Keeps what a sandbox starts from, beyond its template; forgets it with the sandbox. */
void cay__start_note(cay_client *client, const char *id, const cay_box_spec *b);
void cay__start_forget(cay_client *client, const char *id);

/* One change of a server's sandbox, into a directory of this machine. */

typedef struct cay__apply_far {
    cay_sandbox *sb;
    const cay_call *call;
    int dir;
    bool force, dry;
} cay__apply_far;

typedef struct cay__apply_change {
    const cay_file_change *c;
    bool named; /* by the caller, with just this path */
    char why[200];
} cay__apply_change;

/* The directory, locked for one apply at a time. */
int cay__apply_open(const char *path, bool dry, int *out, cay_err *err);
cay_apply_result cay__apply_put(cay__apply_far *a, cay__apply_change *x);
cay_apply_result cay__apply_remove(cay__apply_far *a, cay__apply_change *x);
