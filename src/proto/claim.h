/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/claim.h - who may work on what at once: pieces of a manifest, handed to a pool of threads.
 *
 * Pieces of one entry stand together. At most `entries` entries are in work at a time, and at most
 * `each` threads on the pieces of one; 0 means no bound. Pieces are handed out in their order. The
 * first failure ends it: nothing more is handed out.
 */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cay__run {
    size_t at, end; /* the next piece, and behind the last */
    unsigned active;
} cay__run;

typedef struct cay__claim {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    cay__run *runs;
    size_t n, first; /* first: all runs before are handed out */
    unsigned active, entries, each;
    bool stop;
} cay__claim;

typedef struct cay__share {
    size_t run, at, end; /* pieces at … end-1 */
} cay__share;

/* of[i]: the entry of piece i. */
void cay__claim_open(cay__claim *c, const uint32_t *of, size_t n, unsigned entries, unsigned each);
/* Waits until something may be done; false: there is nothing more. */
bool cay__claim_take(cay__claim *c, cay__share *out);
void cay__claim_done(cay__claim *c, const cay__share *s, bool failed);
void cay__claim_close(cay__claim *c);
