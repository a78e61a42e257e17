/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/keeper/swap.h - another root under a sandbox that runs: how its upper becomes a layer, or
 * is thrown away.
 *
 * A zygote does it while no process of the tenant is alive and the keeper starts none. In the
 * sandbox's directory stand, meanwhile: swap  where the upper is put aside: "layers/NAME", or
 * "aside" when it is to be thrown away; locked by who is at it stack.new  what the new root stands
 * on; renamed to `stack` when it is in place work.old   the work directory of the old root Whoever
 * finds them after a death goes on from there, or takes it back.
 */
#pragma once
#include "job.h"
#include <stdbool.h>

typedef struct swap_result {
    int old;      /* the old root, for the last to close; -1: none */
    bool swapped; /* it stands on the new one */
    bool trash;
} swap_result;

/* Does job SWAP, or, with job->rec, what is left of an earlier one. fds as in daemon/keeper/job.h.
 * NULL, or the step that failed, with errno: EBUSY: something is open for writing. What is not
 * swapped then is as it was. */
const char *swap_run(const keeper_job *job, const int *fds, int nfds, swap_result *out);

/* The same where the sandbox does not run: an upper that became a layer stays one, and one that was
 * to be thrown away is back. */
bool swap_bury(int at, bool *trash);
