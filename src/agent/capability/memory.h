/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/capability/memory.h - the memory capability from the inside: memory.c binds it,
 * memory_record.c writes what happened, memory_make.c makes memories of it, memory_store.c carries
 * files between sandbox and host.
 */
#pragma once
#include <agent/run.h>
#include <cay/sys/capability.h>
#include <pthread.h>

enum {
    CAY__MEMORY_FILE = 16 << 20,
    CAY__MEMORY_SUMMARY_TOKENS = 15000,
    CAY__MEMORY_ROLLOUT_TOKENS = 150000,
    CAY__MEMORY_FILES = 8192
};

/* A rollout that waits to be made into memories. */
typedef struct cay__rollout_job cay__rollout_job;
struct cay__rollout_job {
    char sandbox[CAY_ID_LEN + 1], id[136];
    cay__rollout_job *next;
};

typedef struct cay__memory {
    cay_memory_options o;
    char *memories, *sessions, *extra, *store;
    cay_memory_store own;        /* what o.keeper names, as far as we know it */
    cay_model_settings one, two; /* of the phases */
    pthread_mutex_t keeping; /* held while files go between a sandbox and the store: it sees one run
                                at a time */
    pthread_mutex_t lock;    /* of what follows: several runs may use one description */
    cay__rollout_job *jobs;
    cay_tokens usage;
    struct cay__later *later; /* what is to be made in the background (memory_later.c) */
    pthread_t thread;
    pthread_cond_t idle;
    bool busy;    /* the thread lives */
    int stop;     /* eventfd: its cancel descriptor; 0: none yet */
    cay_err late; /* the first failure */
} cay__memory;

/* Where it works. */
typedef struct cay__memory_at {
    cay__memory *m;
    cay_run *run; /* whose spans tell of it; NULL outside of one */
    cay_sandbox *sb;
    const cay_call *call;
    const char *root, *user;
} cay__memory_at;

int cay__memory_of(const cay_capability *c, cay__memory **out, cay_err *err);
/* memory_later.c: both phases, and keeping, on the thread of this capability. Takes over the
 * sandbox's end where `owned`. */
void cay__memory_later(cay__memory *m, cay_sandbox *sb, const char *root, const char *user,
                       cay_model *model, bool owned);
void cay__memory_later_end(cay__memory *m);
/* When whoever waits for a memory looks again whether it may go on. */
struct timespec cay__memory_step(void);
void cay__memory_tell(cay__memory *m, const char *phase, unsigned done, unsigned total,
                      const cay_err *why);
void cay__memory_time(char buf[40]);
int cay__memory_read(const cay__memory_at *at, const char *dir, const char *name, char **out,
                     size_t *len, cay_err *err); /* CAY_ENOENT */
int cay__memory_write(const cay__memory_at *at, const char *dir, const char *name, const char *text,
                      size_t len, bool append, cay_err *err);

/* Files of one directory of the workspace, to look at (notes.c) and to patch (filesystem.c): all
 * that those need who only keep notes. */
cay_capability *cay__cap_notes(const char *dir);
cay_capability *cay__cap_patch_below(const char *dir);

int cay__memory_record(const cay__memory_at *at, const cay_rollout *r, cay_err *err);
int cay__memory_begin(const cay__memory_at *at, const char *id,
                      cay_err *err); /* a record without a run; without a sandbox in the store */
/* Both phases for the jobs of this sandbox. */
int cay__memory_make(const cay__memory_at *at, cay_model *model, unsigned *made, cay_err *err);
/* How the segments of a record ended, told in a few words; *last is the state of the last one.
 * Lines come from the sandbox and may be anything. */
void cay__memory_states(const char *jsonl, cay__buf *out, const char **last);
bool cay__memory_keeps(const cay__memory *m);                    /* there is a store of some kind */
int cay__memory_db(const char *path, void **self, cay_err *err); /* a store in a SQLite file */
extern const cay_memory_store cay__memory_db_store;
void *cay__memory_remote(cay_client *client, const char *url,
                         const char *auth); /* one archive in a snapshot store */
extern const cay_memory_store cay__memory_remote_store;
int cay__memory_fetch(const cay__memory_at *at, cay_err *err); /* store → sandbox */
int cay__memory_keep(const cay__memory_at *at, cay_err *err);  /* sandbox → store */
int cay__memory_keep_record(const cay__memory_at *at, const char *name, const char *text,
                            size_t len, cay_err *err); /* one file of sessions, by no sandbox */

extern const char cay__memory_read_prompt[], cay__memory_live_prompt[], cay__memory_fixed_prompt[],
    cay__memory_extract_prompt[], cay__memory_consolidate_prompt[];
