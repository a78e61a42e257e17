/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/layer/applied.h - what earlier applies left in the user's directory, so that it is not
 * taken for a change of the user's.
 *
 * A file that was put in place is remembered by inode and time of its last change; the kernel sets
 * that time and nobody can set it back. Kept in sandboxes/ID/on/applied, where only we can write.
 */
#pragma once
#include "tool.h"

typedef struct applied {
    struct applied_mark *v; /* a hash table */
    size_t n, cap;
    int fd;
} applied;

/* dir: sandboxes/ID/on */
int applied_open(applied *a, int dir, cay_err *err);
void applied_close(applied *a);
bool applied_has(const applied *a, const struct stat *st);
/* Best effort: what is not remembered is a conflict next time, which is the safe side. */
void applied_add(applied *a, const struct stat *st);
