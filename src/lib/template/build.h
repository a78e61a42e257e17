/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/template/build.h - how a recipe becomes a template, from inside.
 *
 *   plan.c    stages and steps with all their words known, each with the key by which its result is
 *             found again
 *   stage.c   a stage: from the last step whose result is there to its end
 *   put.c     files into the sandbox
 *   report.c  log and record
 *   unpack.c  archives, in a sandbox of their own
 *   build.c   all of it together
 *   get.c     an image from its registry, instead of steps
 *   mount*.c  RUN --mount
 *
 * It stands on the public calls alone: a build can do nothing that another program could not.
 */
#pragma once
#include "build_tree.h"
#include <base/base.h>
#include <base/json.h>
#include <cay/build.h>
#include <cay/volume.h>
#include <cay/snapshot.h>
#include <cay/template.h>
#include "recipe.h"
#include "template.h"
#include <lib/sandbox/sandbox.h>
#include <lib/client/remote.h>
#include <base/sha256.h>

CAY_DEFINE_AUTO(cay_snapshot, cay_snapshot_free)

#define CAY__BUILD_LABEL   "cay.build" /* of sandboxes that a build made: who is at it */
#define CAY__BUILD_LOG_MAX (16u << 20)
#define CAY__STEP_MS       3600000u /* most for one RUN, unless told */
#define CAY__BUILD_HOST    "host"
#define CAY__BUILD_SCRATCH "scratch"

typedef struct cay__report {
    cay_client *client;
    const cay_build *spec;
    char id[CAY_ID_LEN + 1];
    json_t *record;
    int fd;
    uint64_t bytes;
    unsigned step, steps;
    cay__buf line[2]; /* of standard output and error, until it is whole */
    cay__buf tail;    /* last lines that the step printed */
} cay__report;

/* Where COPY takes from. */
typedef enum cay__copy_from {
    CAY__FROM_CONTEXT = 0,
    CAY__FROM_STAGE,
    CAY__FROM_TEMPLATE,
    CAY__FROM_ARCHIVE,
    CAY__FROM_URL
} cay__copy_from;

/* What is shown to one RUN: a volume, or a file that is put in place for it and taken away again.
 */
typedef struct cay__bmount {
    char type;          /* as in cay__run_mount */
    const char *target; /* absolute; of a secret that is only a variable NULL */
    const char *id, *env;
    unsigned mode;
    uint32_t uid, gid;
    bool rw, locked, required;
    struct cay__task *copy;           /* bind: what is copied */
    bool dir;                         /* bind: a directory */
    char volume[CAY_VOLUME_NAME + 1]; /* "" while there is none */
    int lock;
    bool placed;      /* a file at the target, by us */
    bool bytes;       /* of a secret, below /run */
    char aside[32];   /* name that the file had meanwhile which was there before; or "" */
    const char *made; /* uppermost directory that was made for it, or NULL */
} cay__bmount;

/* A step with all its words known. */
typedef struct cay__task {
    const cay__step *step;
    char key[CAY__SHA256_HEX];
    unsigned no;              /* from 1; 0: it is not told of */
    bool saves;               /* a snapshot is taken after it */
    const char *const *words; /* as in the step, expanded */
    const char *user, *cwd, *chown;
    const cay_pair *env;
    const char *const *shell;
    unsigned mode; /* of --chmod, or 0 */
    cay__copy_from origin;
    size_t stage;     /* FROM_STAGE */
    const char *from; /* FROM_TEMPLATE: its id; FROM_ARCHIVE: the hash by which it is asked for */
    cay__pick pick;   /* FROM_CONTEXT */
    const cay__twig **tars; /* ADD: sources that are unpacked, NULL-terminated; or NULL */
    cay__bmount *mounts;    /* RUN */
    size_t nmounts;
    int fetched; /* FROM_URL: a file, or -1 */
    uint64_t fetched_len;
} cay__task;

typedef struct cay__bstage {
    const cay__stage *st;
    bool wanted;
    long base;       /* another stage, or -1 */
    const char *ref; /* template: "host", "scratch" or an id */
    bool host;
    char base_key[CAY__SHA256_HEX], key[CAY__SHA256_HEX]; /* key: of its end */
    json_t *config;                                       /* of its end */
    const char *base_user;                                /* of what it began with, or "" */
    cay__task *tasks;
    size_t ntasks;
    char done[80]; /* id of the snapshot at its end; "" while not made */
} cay__bstage;

/* An archive that was unpacked in a sandbox of its own. */
typedef struct cay__opened {
    struct cay__opened *next;
    char hash[CAY__SHA256_HEX];
    cay_sandbox *sb;
    cay__tree tree;
} cay__opened;

typedef struct cay__builder {
    cay_client *client;
    const cay_build *spec;
    cay_call call; /* the caller's, or cut short by a cancel of the record */
    cay__arena mem;
    cay__recipe recipe;
    const char *file; /* name of the recipe, for errors */
    cay__report report;
    cay__tree context;
    bool has_context;
    cay__opened *opened;
    cay__bstage *stages;
    size_t nstages, target;
    char *net;         /* policy text */
    char who[64];      /* value of the label */
    const char **used; /* names of args that were asked for */
    size_t nused;
    unsigned steps, done, at; /* that work; that had to; the last one told of */
    char kept[CAY_ID_LEN + 1];
    char loose[16][CAY_ID_LEN + 1]; /* snapshots without a name of their own, to be forgotten */
    size_t nloose;
} cay__builder;

/* build.c: what builds that died left. */
void cay__build_sweep(cay_client *client);

/* report.c */
int cay__report_open(cay__report *r, cay_client *client, const cay_build *spec, cay_err *err);
void cay__report_say(cay__report *r, cay_build_event_kind kind, bool cached, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void cay__report_bytes(cay__report *r, cay_build_event_kind kind, const char *data,
                       size_t len);                                   /* output of a step */
void cay__report_flush(cay__report *r);                               /* lines without an end */
void cay__report_set(cay__report *r, const char *key, json_t *value); /* takes value */
int cay__report_save(cay__report *r, cay_err *err);
bool cay__report_canceled(cay__report *r);
void cay__report_close(cay__report *r);
/* The record's pid and start time belong to a living process. */
bool cay__report_alive(const json_t *record);
/* A note that is a JSON object, or NULL; back into the store. */
json_t *cay__note_object(cay_client *client, const char *space, const char *key);
int cay__note_save(cay_client *client, const char *space, const char *key, const json_t *o,
                   cay_err *err);
bool cay__record_is(const json_t *record, const char *state);
/* It waits again, as if nobody had tried. */
void cay__report_again(cay_client *client, const char *id);

/* plan.c */
int cay__plan_stages(cay__builder *b, cay_err *err);
int cay__plan_bad(const cay__builder *b, const cay__step *s, int rc,
                  cay_err *err); /* puts file, line and instruction before it */
/* A list or an object in a config, made where it is missing. */
json_t *cay__config_part(json_t *config, const char *name, json_type type);
/* A stage before that one by its name or number; -1: there is none. */
long cay__plan_stage(const cay__builder *b, const char *name, size_t before);
/* plan_files.c: what a COPY or ADD takes, and the sum of it. */
int cay__plan_copy(cay__builder *b, cay__bstage *st, cay__task *t, cay__sha256 *sum, cay_err *err);
void cay__plan_sum(cay__sha256 *sum, const char *text); /* with its end */
int cay__plan_context(cay__builder *b, cay_err *err);   /* b->context is there afterwards */

/* mount_plan.c: mounts of a RUN with all their words known; what of them counts in its key. */
typedef int (*cay__mount_word)(void *arg, const char *word, const char **out, cay_err *err);
int cay__lent_plan(cay__builder *b, cay__bstage *st, cay__task *t, cay__mount_word word, void *arg,
                   cay__sha256 *sum, cay_err *err);
const cay_build_secret *cay__mount_secret(const cay__builder *b,
                                          const cay__bmount *m); /* or NULL */
/* mounts.c: before the step's sandbox is made; in it; before it is saved or kept; after it is gone.
 */
int cay__lent_open(cay__builder *b, const cay__task *t, cay_err *err);
size_t cay__lent_volumes(const cay__task *t, cay_volume_use *out); /* room for CAY__RECIPE_MOUNTS */
int cay__lent_place(cay__builder *b, cay_sandbox *sb, const cay__task *t, cay_err *err);
int cay__lent_clear(cay_sandbox *sb, const cay__task *t, cay_err *err);
void cay__lent_close(cay__builder *b, const cay__task *t);
/* mount_keep.c: volumes of builds, by note: those of builds that are no more, and caches. */
int cay__mount_volume(cay__builder *b, const cay__bmount *m, char name[CAY_VOLUME_NAME + 1],
                      cay_err *err);
void cay__cache_used(
    cay__builder *b,
    const cay__bmount *m); /* after a step: when, how much; forgotten when it is too much */
bool cay__mount_forget(cay_client *client, const char *volume);
void cay__lent_sweep(cay_client *client);
void cay__lent_prune(cay_client *client, const char *tenant, const json_t *busy, size_t *n);

/* interpreter.c: the steps that put it in; the service of a config, or NULL, which the caller gives
 * back; and that service in a config whose own services took the place of the base's: made anew
 * where the recipe says so, else the base's. */
int cay__interpreter_steps(cay__builder *b, cay_err *err);
json_t *cay__interpreter_of(const json_t *config);
int cay__interpreter_service(const cay__recipe *r, json_t *config, json_t *base, cay_err *err);

/* get.c: spec->pull */
int cay__build_get(cay__builder *b, char id[CAY_ID_LEN + 1], cay_err *err);
/* A template by name, or an image that is not here and comes from its registry. */
int cay__build_need(cay__builder *b, const char *name, cay_template **out, cay_err *err);

/* stage.c */
int cay__bstage_make(cay__builder *b, size_t which, cay_err *err);
bool cay__bstage_saved(
    const cay_snapshot *s); /* a step's result, not one that somebody labelled alike */
/* A sandbox that stands on a snapshot or, without, on what a stage begins with. */
int cay__bstage_box(cay__builder *b, const cay__bstage *st, const char *snapshot, bool net,
                    cay_sandbox **out, cay_err *err);
/* run.c */
int cay__task_run(cay__builder *b, cay_sandbox *sb, const cay__task *t, cay_err *err);
/* put.c */
int cay__task_put(cay__builder *b, cay_sandbox *sb, const cay__task *t, cay_err *err);
int cay__task_workdir(cay__builder *b, cay_sandbox *sb, const cay__task *t, cay_err *err);
/* unpack.c: in a sandbox of its own, which the builder owns. */
int cay__unpack(cay__builder *b, int fd, const char *hash, bool owners, const cay__opened **out,
                cay_err *err);
void cay__builder_throw(cay__builder *b, cay_sandbox *sb); /* removes and drops it */
