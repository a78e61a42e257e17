/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/keeper/park.h - a sandbox made ahead of time: every namespace, /proc, /dev, /run and /usr,
 * filter, and as root the default root. */
#pragma once
#include "job.h"
#include "netns.h"
#include <stdbool.h>

typedef struct park_result {
    int pid;
    uint64_t start;
    int pidfd, ctl, userns;
    netns net;
    bool trash;
} park_result;

/* keeper: where GROUPS comes from. NULL, or the step that failed with errno set and nothing left.
 */
const char *park(const keeper_job *job, int keeper, park_result *out);
