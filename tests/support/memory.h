/* SPDX-License-Identifier: Apache-2.0 */
/* The in-memory provider's own parts: boxes and processes in memory.c, files in memory_files.c. */
#pragma once
#include "support.h"
#include <base/base.h>
#include <pthread.h>

typedef struct mfile mfile;
struct mfile {
    char    *path; /* absolute, without "." and ".." */
    char     type; /* cay_file_type */
    uint32_t mode;
    char    *data; /* or the target of a link */
    size_t   len;
    int64_t  mtime_ns;
    mfile   *next; /* sorted by path */
};

typedef struct mproc mproc;
typedef struct mbox mbox;
struct mbox {
    char      id[CAY_ID_LEN + 1];
    cay_state state;
    char      reason[24];
    mfile    *files;
    mproc    *procs;
    bool      gone;
    mbox     *next;
};

/* One lock and one condition for everything: simple, and tests are small. */
extern pthread_mutex_t memory_lock;
extern pthread_cond_t  memory_change;

mfile *memory_file_find(mbox *b, const char *path);
void   memory_files_init(mbox *b);
void   memory_files_free(mbox *b);

int  memory_open_read(void *, const cay_call *, const char *, const cay_read *, int *, cay_err *);
int  memory_put(void *, const cay_call *, const char *, const void *, size_t, const cay_write *, cay_err *);
int  memory_open_write(void *, const cay_call *, const char *, const cay_write *, void **, int *, cay_err *);
int  memory_commit_write(void *, const cay_call *, cay_err *);
void memory_abort_write(void *);
int  memory_stat(void *, const cay_call *, const char *, bool, cay_stat *, cay_err *);
int  memory_mkdir(void *, const cay_call *, const char *, uint32_t, bool, cay_err *);
int  memory_remove(void *, const cay_call *, const char *, bool, cay_err *);
int  memory_rename(void *, const cay_call *, const char *, const char *, cay_err *);
int  memory_chmod(void *, const cay_call *, const char *, uint32_t, cay_err *);
int  memory_symlink(void *, const cay_call *, const char *, const char *, cay_err *);
int  memory_list_dir(void *, const cay_call *, const char *, unsigned, int (*)(const cay_dirent *, void *), void *,
                     cay_err *);
