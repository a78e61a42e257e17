/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/keeper/mountinfo.h - what is mounted in a sandbox, as its init sees it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define MOUNTS_MAX 512

typedef struct mountinfo {
    struct {
        int id, parent;
        bool ro;
        char *path; /* as init names it; "/": its root, or what lies on top of that */
    } line[MOUNTS_MAX];
    size_t n;
    int root;  /* init's, by its place in the list */
    int cover; /* another root on top of it, -1: none */
    char text[65536];
} mountinfo;

/* False with errno: ENOTSUP when something is mounted right on top of something else, which by name
 * cannot be told apart. */
bool mountinfo_read(mountinfo *m, int pid);
bool mountinfo_parse(mountinfo *m); /* the same from m->text, which is changed */
