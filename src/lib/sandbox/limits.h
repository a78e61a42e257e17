/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/sandbox/limits.h - what a create request may say: every limit with its range and default, and
 * the judge of the rest. No JSON: the small static command asks it too.
 */
#pragma once
#include <cay/sys/provider.h>

typedef struct cay__limit {
    const char *name;
    size_t at; /* in cay_limits */
    uint64_t least, most, normal;
} cay__limit;

#define CAY__LIMITS 9
extern const cay__limit cay__limit_table[CAY__LIMITS];

/* 0 becomes the default that cay/client.h names. */
void cay__limits_fill(cay_limits *l);

/* Every field for itself but metadata: form, range, and that what it names on the host is there and
 * may be shown. home_fd and run: the state and runtime directories, which are never shown. */
int cay__create_check(const cay_box_spec *spec, int home_fd, const char *run, cay_err *err);
/* The source of a grant that the library itself gives: a detached mount behind this descriptor of
 * ours. Nobody can ask for one, because sources with control characters are refused. */
#define CAY__GRANT_MOUNT "\001mount:"
/* Is it a volume's name? */
bool cay__volume_name(const char *name);
/* The directory that a sandbox is made on. It is known by its real path, so a link on the way was
 * put there since, by somebody who may want another directory of the caller's shown or packed:
 * EPERM, "source_refused". */
int cay__on_dir(const char *path, int flags, int *out, cay_err *err);
#define CAY__SOURCE_ON "on"
/* One host directory that is to be shown inside; `what` names the field, and of CAY__SOURCE_ON no
 * link is followed. out: NULL, or the very directory that was looked at; a second look at the path
 * may find another. */
int cay__source_check(const char *what, const char *path, int home_fd, const char *run, int *out,
                      cay_err *err);
