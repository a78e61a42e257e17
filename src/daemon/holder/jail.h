/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/holder/jail.h - what holds a process of level 1: limits, no privilege to gain, no
 * capability, Landlock, a system call filter. There is no namespace, so all of it is entered by the
 * process itself before it executes.
 *
 *   cay__jail_limits()  bounds on what one process may take
 *   cay__jail_enter()   the walls, for ever
 *
 * Each command has a Landlock domain of its own: those of one sandbox can no more signal or trace
 * each other than the host's; cay-local, which is outside, can.
 */
#pragma once
#include <stdint.h>

typedef struct jail {
    int root;        /* the one tree that may be written */
    uint64_t memory; /* bytes of data segment per process; 0: no bound. So for all of these */
    uint64_t disk;   /* bytes per file */
    uint64_t tasks;  /* processes and threads of the user, those outside included */
} jail;

/* Each gives NULL, or the name of the step that failed, with errno. */
const char *cay__jail_limits(const jail *j);
/* tty: path of the terminal that may be opened by name, or NULL. */
const char *cay__jail_enter(int root, const char *tty);

/* How many processes and threads the user has that are not below this process. */
uint64_t cay__jail_others(void);
