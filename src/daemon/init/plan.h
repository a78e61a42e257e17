/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/init/plan.h - one command on its way: of the API, of a service, of sudo.
 */
#pragma once
#include "init.h"

/* What the child needs, and where it says why it could not. It runs in our memory. */
typedef struct plan {
    const cay_g_spawn *m;
    ident id;
    const char *cwd;
    char **argv, **envp;
    const char *path;  /* PATH value for the search */
    const char *fence; /* grants, or NULL */
    size_t nfence;
    int io[3];
    int into,
        group; /* its cgroup: the directory to be born in, the file to move by where that fails */
    int slave;
    gproc *g;
    volatile int sys;
    const char *volatile step;
} plan;

/* Lays out argv and environment by the blob of a spawn and starts it; p has m, io, group, into,
 * slave and g. Its pid, or -1, errno and the step. *master: of a terminal, if m asks for one. g may
 * be NULL unless m asks for a sub-reaper. */
int plan_start(plan *p, const char *blob, size_t len, int *master, const char **step);

/* layout.c: room for the words that are made; argv and environment of p by the blob, in room. */
typedef struct layout_names {
    char home[160], user[80], logname[80], shell[80];
} layout_names;
size_t config_env_count(void);
int lay_out(plan *p, layout_names *nm, char *room, size_t cap, const char *blob, size_t len,
            const char **step);
