/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/kernel.h - what cay uses of kernels newer than Linux 5.10: the table base/kernel.def.
 *
 * Each row is tried where it is used, by doing, and has a way without it or a refusal that names
 * it. `cay doctor` tries all of them (base/kernel.c) and names those that are
 * missing; docs/kernels.md is this table as a page (tools/kernel-table).
 *
 *     if (cay__kernel_lacks(CAY_KERNEL_OVERLAY_FD))
 *         … as an older kernel would answer
 *
 * Test builds (-Dfaults=true) read the environment variable CAY_LACK, names separated by commas:
 * those features are then as absent as on a kernel before them. In other builds nothing of this is
 * left.
 */
#pragma once
#include <stdbool.h>

typedef enum cay__kernel {
#define CAY_KERNEL(id, name, since, used, without) CAY_KERNEL_##id,
#include "kernel.def"
#undef CAY_KERNEL
    CAY_KERNEL_COUNT
} cay__kernel;

typedef enum cay__kernel_answer {
    CAY_KERNEL_UNKNOWN = -1, /* what it would be tried with is not there */
    CAY_KERNEL_NO,
    CAY_KERNEL_YES
} cay__kernel_answer;

typedef struct cay__kernel_row {
    const char *name, *since, *used, *without;
} cay__kernel_row;
const cay__kernel_row *cay__kernel_rows(void);           /* CAY_KERNEL_COUNT of them */
void cay__kernel_try(signed char out[CAY_KERNEL_COUNT]); /* a cay__kernel_answer each; some ms */

#ifdef CAY_FAULTS
bool cay__kernel_lacks(cay__kernel feature); /* sets errno to EINVAL when it does */
#else
#define cay__kernel_lacks(feature) false
#endif
