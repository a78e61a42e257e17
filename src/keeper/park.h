/* SPDX-License-Identifier: Apache-2.0 */
/* keeper/park.h - a sandbox made ahead of time: every namespace, /proc, /dev and /run, filter, no root yet. */
#pragma once
#include "job.h"
#include "netns.h"

typedef struct park_result {
    int      pid;
    uint64_t start;
    int      pidfd, ctl, userns;
    int      boxes, layers; /* detached clones of sandboxes/ and layers/ */
    netns    net;
} park_result;

/* fds as listed in job.h. NULL, or the step that failed with errno set and nothing left. */
const char *park(const cay_job *job, const int *fds, park_result *out);
