/* SPDX-License-Identifier: Apache-2.0 */
/* base/cgfind.h - where this process's groups are, from the text of mountinfo and
 * /proc/self/cgroup. */
#pragma once
#include <stdbool.h>

enum { CG_MEMORY, CG_PIDS, CG_CPU, CG_IO, CG_V1_COUNT };

typedef struct cgfind {
    char v2[512];              /* our own group; "" when there is none */
    char v2_top[512];          /* where the hierarchy is mounted */
    bool v2_root;              /* that directory is the hierarchy's root */
    char v1[CG_V1_COUNT][512]; /* "" when that controller is not on v1 */
} cgfind;

/* Both texts are changed. */
void cgfind_parse(char *mountinfo, char *cgroup, cgfind *out);
