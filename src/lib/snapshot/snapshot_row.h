/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/snapshot/snapshot_row.h - a snapshot's record as it comes from disk: judged before anybody
 * believes it, and kept.
 */
#pragma once
#include <cay/sys/provider.h>
#include <cay/sys/store.h>

#define CAY__STACK_MAX (CAY_STACK_MAX - 1) /* layers above the template */

/* The columns as read, in this order; lengths tell a NUL inside. */
enum {
    CAY__SNAP_ID,
    CAY__SNAP_SANDBOX,
    CAY__SNAP_PARENT,
    CAY__SNAP_LABEL,
    CAY__SNAP_PROVIDER,
    CAY__SNAP_TEMPLATE,
    CAY__SNAP_METHOD,
    CAY__SNAP_DIGEST,
    CAY__SNAP_STATE,
    CAY__SNAP_BOOT,
    CAY__SNAP_MARK,
    CAY__SNAP_METADATA,
    CAY__SNAP_LAYERS,
    CAY__SNAP_SPEC,
    CAY__SNAP_TENANT,
    CAY__SNAP_TEXTS
};
typedef struct cay__snap_cols {
    const char *text[CAY__SNAP_TEXTS];
    size_t len[CAY__SNAP_TEXTS];
    int64_t automatic, durable, created_ms, bytes, files, frozen_us, total_us, users;
} cay__snap_cols;

/* A row that owns its strings; free() it. One that cannot be believed has state "damaged" and no
 * layers. */
typedef struct cay__snaprow {
    cay_snap_row row;
    char text[];
} cay__snaprow;
cay__snaprow *cay__snaprow_new(const cay__snap_cols *cols);
cay__snaprow *cay__snaprow_copy(const cay_snap_row *row);

/* A name below layers/ that is ours to make and remove: of a snapshot, a manifest, a merge, or an
 * image. */
bool cay__layer_name_ok(const char *name);
/* Also what was written above a directory of the host when a snapshot was taken: o… of snapshot s…,
 * which is in no stack. */
bool cay__layer_removable(const char *name);

/* A stack as names. */
typedef struct cay__stack {
    const char *name[CAY__STACK_MAX + 1]; /* ends with NULL */
    size_t n;
    char text[(CAY__STACK_MAX + 1) * (CAY_ID_LEN + 1)];
} cay__stack;
/* From a JSON list; CAY_EINVAL when it is none of layer names, or too long. */
int cay__stack_read(const char *json, cay__stack *out, cay_err *err);
/* From names. CAY_ETOOBIG, "stack_too_deep". */
int cay__stack_of(const char *const *names, size_t n, cay__stack *out, cay_err *err);
int cay__stack_push(cay__stack *s, const char *name, cay_err *err);
/* As JSON: ["…","…"], without blanks. The caller frees. */
char *cay__stack_text(const cay__stack *s);
