/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/sandbox_options.h - the options that describe a sandbox to be made: of create, run and shell.
 */
#pragma once
#include "opt.h"
#include "progress.h"
#include <cay/client.h>

typedef struct box_opts {
    const char *name, *hostname, *user, *workdir, *template_, *root, *isolation, *metadata,
        *on_expiry, *from, *on, *manifest, *image, *dockerfile;
    opt_list env, env_files, labels, mounts, volumes, require, net, secrets, options, build_args,
        settings;
    cay_limits limits;
    uint64_t ttl_ms, idle_ms, net_up, net_down, net_connections, checkpoint;
    bool sudo, no_pin, durable;
} box_opts;
extern const opt_def box_opt_defs[];

/* Pairs that end with a NULL key. */
typedef struct cli_pairs {
    cay_pair *v;
    char **owned; /* what to free */
    size_t n, nowned;
} cli_pairs;
/* -e and --env-file; a bare KEY takes our own value, and is left out when we have none. */
int pairs_env(cli_pairs *p, const opt_list *env, const opt_list *files, cay_err *err);
int pairs_labels(cli_pairs *p, const opt_list *labels, cay_err *err);
void pairs_add(cli_pairs *p, const char *key, const char *value);
void pairs_clear(cli_pairs *p);

/* The request, and what its pointers point to. */
typedef struct box_spec {
    cay_create create;
    cli_pairs env, labels, options, settings;
    struct cli_mount *mounts;
    cay_grant *grants;
    cay_volume_use *volumes;
    struct cli_volume *volume_texts; /* what they point into */
    const char *require[OPT_LIST_MAX + 1];
    char *net;
    cay_secret *secrets;
    char **secret_texts; /* what they point into */
    size_t nsecret_texts;
    char *on, *root; /* whole paths */
    uint32_t *had;   /* of each grant, as bits: what was there of base/guarded.h */
    bool drawn;      /* a line of what is being fetched is on the terminal */
} box_spec;
/* NAME=SOURCE@DESTINATION, cut in place; *path: allocated when a relative one was made whole. */
int secret_take(char *text, char **path, cay_secret *out, cay_err *err);
int box_spec_make(const box_opts *o, box_spec *out, cay_err *err); /* clear it in any case */
/* What the user should hear aloud: no wall, writable grants. */
void box_spec_tell(box_spec *s);
/* And of the limits that were asked for those that do not hold, by the layers of what was made. */
void box_limits_tell(const cay_limits *asked, const cay_wall *layers, size_t n);
/* Afterwards: what appeared meanwhile in writable grants that tools of the host obey. */
void box_spec_look(const box_spec *s);
void box_spec_clear(box_spec *s);

/*
 * manifest.c: a manifest from a file of the caller's: it is trusted, and its relative paths
 * start where the file is.
 */

typedef struct cli_manifest {
    char *text, *base;
    size_t len;
    cli_progress bar;
    bool drawn;
} cli_manifest;

/* "-": standard input, and paths start in the working directory. */
int cli_manifest_read(const char *file, cli_manifest *out, cay_err *err);
/* Into a request, with a bar for who waits; nothing when none was read. */
void cli_manifest_give(cli_manifest *m, cay_create *c);
void cli_manifest_clear(cli_manifest *m);
