/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/item_sink.h - what the two halves of a sink share: item_sink.c reads items and makes
 * directories and links, item_write.c writes files.
 */
#pragma once
#include "item.h"
#include <linux/openat2.h>
#include <pthread.h>

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV)
enum { BATCHES = 4, THREADS_MAX = 8 };

typedef struct batch batch;
/* A directory's own mode and time come last: making what is inside would change them. */
typedef struct late {
    struct late *next;
    bool again; /* another came before it */
    cay__item it;
    char path[];
} late;

typedef struct cay__sink_work {
    cay__sink *o;
    int root, parent; /* parent: of the last path, O_PATH */
    char parent_path[CAY__ITEM_PATH];
    cay__items_in in;
    late *dirs;
    bool begun;
    bool wanted; /* something was below `only` */
    batch *now;
    /* between the threads */
    pthread_mutex_t lock;
    pthread_cond_t more, idle;
    batch *free[BATCHES], *full[BATCHES];
    size_t nfree, nfull, busy;
    bool stop;
    int failed; /* code of the first failure of a writer, told in err */
    cay_err err;
    pthread_t thread[THREADS_MAX];
    size_t nthreads;
} cay__sink_work;

/* Owner, attributes, mode and time of what was made; refuse: errno as the error of a path. */
void cay__sink_owner(const cay__sink *o, const cay__item *it, uint32_t *uid, uint32_t *gid);
int cay__sink_attrs(cay__sink_work *s, int fd, const cay__item *it, cay_err *err);
int cay__sink_finish(cay__sink_work *s, int fd, const cay__item *it, cay_err *err);
int cay__sink_refuse(cay_err *err, const char *path);
int cay__sink_count(cay__sink_work *s, size_t bytes, cay_err *err);
/* A file, now or soon; flush: all that came so far is written. */
int cay__sink_file(cay__sink_work *s, const cay__item *it, cay_err *err);
int cay__sink_flush(cay__sink_work *s, cay_err *err);
void cay__sink_start(cay__sink_work *s);
void cay__sink_stop(cay__sink_work *s);
