/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sandboxes used: a thread looks at those that run, every five seconds at those that E2B's protocol made and every fifteen at the others, and
 * keeps a day of it, one small file for each below e2b/ of the state directory and one for all of them together. A file is a ring whose place for a moment is known by its time, so nobody has to agree with anybody.
 */
#pragma once
#include <base/base.h>
#include <cay/service.h>

enum { E2B_STEP_MS = 5000, E2B_MOMENTS = 17280 /* a day */, E2B_POINTS = 1000 /* of one answer */ };

#define E2B_ALL "all" /* in place of an id: the sum over those that run */

typedef struct e2b_moment {
    int64_t  ms; /* wall clock */
    uint64_t cpu_us, memory, disk;
} e2b_moment;

int e2b_history_put(int dir, const char *id, const e2b_moment *m);
/* Those from start to end, oldest first, at most E2B_POINTS of them: of a longer time fewer, evenly. cpu: of one CPU, since the moment before, in
 * percent. The number of them. */
size_t e2b_history_read(int dir, const char *id, int64_t start_ms, int64_t end_ms, void (*fn)(const e2b_moment *m, double cpu, void *arg), void *arg);
void   e2b_history_drop(int dir, const char *id);
/* Drops those whose sandbox is not known to alive(). */
void   e2b_history_sweep(int dir, bool (*alive)(const char *id, void *arg), void *arg);
int    e2b_history_dir(cay_service *svc, int *fd, cay_err *err);

struct e2b_history;
int  e2b_history_start(cay_service *svc, struct e2b_history **out, cay_err *err);
void e2b_history_stop(struct e2b_history *h);
