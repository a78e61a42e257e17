/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sandboxes used: a thread looks at those that run, every five seconds at those that E2B's
 * protocol made and every fifteen at the others, and keeps a day of it, one small file for each
 * below history/ of the state directory and one for all of them together. A file is a ring whose
 * place for a moment is known by its time, so nobody has to agree with anybody.
 */
#pragma once
#include <base/base.h>
#include <cay/client.h>

enum {
    CAY__HISTORY_STEP_MS = 5000,
    CAY__HISTORY_MOMENTS = 17280 /* a day */,
    CAY__HISTORY_POINTS = 1000 /* of one answer */
};

#define CAY__HISTORY_ALL "all" /* in place of an id: the sum over those that run */

typedef struct cay__moment {
    int64_t ms; /* wall clock */
    uint64_t cpu_us, memory, disk, net_rx, net_tx;
} cay__moment;

/* What counters grew by since the moment before; 0 where that tells nothing. */
typedef struct cay__pace {
    double cpu;            /* of one CPU, in percent */
    double net_rx, net_tx; /* bytes a second */
} cay__pace;

int cay__history_put(int dir, const char *id, const cay__moment *m);
/* Those from start to end, oldest first, at most CAY__HISTORY_POINTS of them: of a longer time
 * fewer, evenly. The number of them. */
size_t cay__history_read(int dir, const char *id, int64_t start_ms, int64_t end_ms,
                         void (*fn)(const cay__moment *m, const cay__pace *pace, void *arg),
                         void *arg);
void cay__history_drop(int dir, const char *id);
/* Drops those whose sandbox is not known to alive(). */
void cay__history_sweep(int dir, bool (*alive)(const char *id, void *arg), void *arg);
int cay__history_dir(cay_client *client, int *fd, cay_err *err);

struct cay__history;
int cay__history_start(cay_client *client, struct cay__history **out, cay_err *err);
void cay__history_stop(struct cay__history *h);
