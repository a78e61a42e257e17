/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/mounts_inside.h - storage that a container mounts itself.
 *
 *   mounts_patterns.c  each pattern as what is run: words, variables, files
 *   mounts_inside.c    runs it in the container, and judges what was mounted
 */
#pragma once
#include "client_mounts.h"
#include <base/json.h>

#define CAY__INSIDE_PLACE                                                                          \
    "/.cay/mounts" /* CAY__PID1_PLACE. The engine's memory for each life: in no snapshot, and gone \
                      with the container */
enum { CAY__INSIDE_WORDS = 48, CAY__INSIDE_VARS = 16, CAY__INSIDE_TRIES = 3 };

/* What one is mounted by. */
typedef struct cay__helper {
    const char *argv[CAY__INSIDE_WORDS];
    size_t n;
    cay_pair env[CAY__INSIDE_VARS + 1];
    size_t nenv;
    char *name, *text;    /* a file in the place and what is in it; text NULL: none */
    char *second;         /* of rclone: NAME.file; or NULL */
    const char *tools[4]; /* programs that have to be there; "a|b": one of them */
    bool over;            /* more words or variables than there is room for */
    unsigned port; /* of nfs: what is run serves there, and is mounted by the following; else 0 */
    const char *then[CAY__INSIDE_TRIES][10];
} cay__helper;

typedef struct cay__inside {
    cay_sandbox *sb;
    const cay_call *call;
    const char *id;
    cay__arena *mem;
    size_t index;
    const char *cache; /* how the name of a directory begins that is root's and may be large */
    char name[24],
        at[sizeof CAY__INSIDE_PLACE + 24]; /* of the one that is mounted: in the place, and whole */
} cay__inside;

int cay__inside_plan(cay__inside *in, const cay__storage_mount *m, cay__helper *h, cay_err *err);
/* Room for it, or h->over. An empty value is none. */
void cay__inside_var(cay__helper *h, const char *name, const char *value);
/* A file of the container that nobody but root can have made, as root; from in->mem. CAY_EINVAL,
 * "mount_config_invalid". */
int cay__inside_file(const cay__inside *in, const cay__storage_mount *m, const char *path,
                     char **out, cay_err *err);
/* The lines of ours into the section of that name of theirs. false: there is none. */
bool cay__inside_section(const char *theirs, const char *ours, cay__buf *out);
/* "127.0.0.1:2049": of the loopback alone. */
bool cay__inside_addr(const char *addr, unsigned *port);
