/* SPDX-License-Identifier: Apache-2.0 */
/* The in-memory provider's own parts: boxes and processes in memory.c, files in memory_files.c,
 * layers in memory_layers.c. */
#pragma once
#include "support.h"
#include <base/base.h>
#include <pthread.h>

typedef struct mfile mfile;
struct mfile {
    char *path; /* absolute, without "." and ".." */
    char type;  /* cay_file_type */
    uint32_t mode;
    char *data; /* or the target of a link */
    size_t len;
    int64_t mtime_ns;
    mfile *next; /* sorted by path */
};

/* A layer holds all of the workspace as it was, and has an empty directory on disk, where the
 * service looks for it. */
typedef struct mlayer mlayer;
struct mlayer {
    char name[CAY_LAYER_NAME];
    mfile *files;
    mlayer *next;
};

typedef struct mproc mproc;
typedef struct mbox mbox;
typedef struct memory {
    mbox *boxes;
    mlayer *layers;
    int home; /* the state directory, or -1 */
} memory;

struct mbox {
    memory *m;
    char id[CAY_ID_LEN + 1];
    cay_state state;
    char reason[24];
    mfile *files;
    mproc *procs;
    bool gone;
    mbox *next;
};

/* One lock and one condition for everything: simple, and tests are small. */
extern pthread_mutex_t memory_lock;
extern pthread_cond_t memory_change;

bool memory_runs(const mbox *b); /* a process of it is alive; under the lock */
void memory_kill_all(mbox *b);

mfile *memory_files_copy(const mfile *files);
void memory_files_drop(mfile *files);

int memory_layers_open(memory *m, const char *home);
void memory_layers_close(memory *m);
void memory_upper_make(mbox *b); /* sandboxes/ID/upper, as empty as the layers */
void memory_upper_drop(mbox *b);
int memory_stand_on(mbox *b, const char *const *layers, size_t n, cay_err *err);
int memory_snapshot(void *, const cay_call *, const cay_snap *, cay_snapped *, cay_err *);
int memory_restack(void *, const cay_call *, const char *const *, size_t, cay_err *);
int memory_layer_remove(void *, const cay_call *, const char *, cay_err *);

mfile *memory_file_find(mbox *b, const char *path);
void memory_files_init(mbox *b);
void memory_files_free(mbox *b);

int memory_open_read(void *, const cay_call *, const char *, const cay_read *, int *, cay_err *);
int memory_put(void *, const cay_call *, const char *, const void *, size_t, const cay_write *,
               cay_err *);
int memory_open_write(void *, const cay_call *, const char *, const cay_write *, void **, int *,
                      cay_err *);
int memory_commit_write(void *, const cay_call *, cay_err *);
void memory_abort_write(void *);
int memory_stat(void *, const cay_call *, const char *, bool, cay_stat *, cay_err *);
int memory_mkdir(void *, const cay_call *, const char *, uint32_t, bool, cay_err *);
int memory_remove(void *, const cay_call *, const char *, bool, cay_err *);
int memory_rename(void *, const cay_call *, const char *, const char *, cay_err *);
int memory_chmod(void *, const cay_call *, const char *, uint32_t, cay_err *);
int memory_symlink(void *, const cay_call *, const char *, const char *, cay_err *);
int memory_list_dir(void *, const cay_call *, const char *, unsigned,
                    int (*)(const cay_dirent *, void *), void *, cay_err *);
