/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/workspace.h - what changed in a sandbox, and putting it into a directory of yours.
 *
 *   cay_service_diff()    between any two points        cay_sandbox_apply()   into the directory it was made on
 *
 * A point is a sandbox as it is now, running or stopped, or a snapshot. docs/workspaces.md tells more.
 */
#pragma once
#include <cay/service.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_file_change {
    size_t      size;
    char        kind;   /* 'A' added, 'M' modified, 'D' deleted, 'T' of another type now, 'R' a directory that was renamed */
    const char *path;   /* below /workspace; with `all` from / on. Any bytes but NUL: escape it before a terminal sees it */
    const char *from;   /* R: what it was called before; else "" */
    uint32_t    old_mode, new_mode; /* type and permissions, 0: it was not, or is no more */
    uint64_t    old_size, new_size;
    bool        content, mode, owner; /* M: which of them changed */
    const char *text;   /* with `patch`: this change as git writes it; any bytes. NULL: it has none */
    size_t      text_len;
} cay_file_change;

typedef struct cay_diff {
    size_t      size;
    const char *a;       /* sandbox or snapshot: id, unique prefix, name or label */
    const char *b;       /* likewise; NULL: from what sandbox a started from to what it is now */
    bool        all;     /* the whole root, not only /workspace */
    bool        every;   /* each file below deleted and renamed directories, not only these */
    bool        patch;   /* with the text of each change; implies `every` */
    unsigned    context; /* lines around a change; 0: three */
} cay_diff;

/* Calls fn for each change, in the order of paths; a non-zero return stops and is returned. A sandbox may go on meanwhile.
 * CAY_ETOOBIG beyond a million changes. *left_out (may be NULL): how many texts a patch of more than 64 MiB leaves out. */
CAY_API int cay_service_diff(cay_service *svc, const cay_call *call, const cay_diff *diff, int (*fn)(const cay_file_change *, void *), void *arg,
                             uint64_t *left_out, cay_err *err);

#ifdef __cplusplus
}
#endif
