/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/clone.h - how the library starts cay-clone, and its one answer.
 *
 *     cay-clone SANDBOX LAYER [--stop|--go] [--apart]
 *       3: the state directory   4: a connection to its keeper   5: the answer
 *       6: the keeper's user namespace, unless we are plain root
 */
#pragma once
#include <stdint.h>

#define CLONE_HOME   3
#define CLONE_KEEPER 4
#define CLONE_ANSWER 5
#define CLONE_USER   6

/* The one record written to CLONE_ANSWER. code 0: the layer is there. */
typedef struct clone_answer {
    int32_t code, sys; /* a cay_code; errno */
    char reason[40];
    char msg[216];
    char method[16];
    uint64_t frozen_us, total_us, bytes, files;
} clone_answer;
