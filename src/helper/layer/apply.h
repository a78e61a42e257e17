/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/layer/apply.h - putting one change into the user's directory.
 *
 * Every step goes from the opened directory downwards by one name at a time, never by a link, never
 * onto another mounted filesystem. A file is written beside its place and renamed: whoever kills us
 * leaves the old one or the new one.
 */
#pragma once
#include "applied.h"
#include "compare.h"

/* Beside a file that is being put in place; one of these that is found is of somebody who was
 * killed. */
#define APPLY_TEMP ".cay-apply-tmp"

typedef struct apply {
    tool *t;
    int dir;   /* the user's */
    view from; /* the directory with what the sandbox wrote above it */
    applied done;
    int64_t since; /* wall clock ms: what changed later in the user's directory is the user's */
    bool dry, force;
} apply;

typedef struct item {
    char kind;  /* as of a change */
    bool named; /* the user gave its path */
    bool late;  /* takes the place of a directory: after what is in that is gone */
    char *path;
    bool mode_only;  /* its bytes are the same */
    unsigned status; /* CAY__APPLY_… */
    char why[120];
} item;

/* Fills status and why; a negative code only when nothing more can be done at all. */
int apply_put(apply *a, item *it, cay_err *err);    /* A, M and T */
int apply_remove(apply *a, item *it, cay_err *err); /* D */
