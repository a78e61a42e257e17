/* SPDX-License-Identifier: Apache-2.0 */
/* lib/snapshot/apply_remote.h - one change of a server's sandbox, into a directory of this machine.
 */
#pragma once
#include <cay/workspace.h>

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
