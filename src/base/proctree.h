/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/proctree.h - the processes below one process, as /proc tells them.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct tree_proc {
    pid_t pid, ppid;
    char state;
    bool below;     /* a descendant of the root that was asked for */
    uint64_t start; /* clock ticks since boot: with the pid it names a process for ever */
    uint64_t cpu_us, rss, threads;
} tree_proc;

/* Calls fn for each descendant of root, not root itself. A non-zero return ends it and is returned;
 * -1 with errno when /proc cannot be read. */
int cay__tree_walk(pid_t root, int (*fn)(const tree_proc *p, void *arg), void *arg);
/* Sends sig to each descendant. SIGKILL stops all of them first, so that none forks away meanwhile.
 * Returns how many were found. */
int cay__tree_signal(pid_t root, int sig);
/* The state of one process; false when there is none. */
bool cay__tree_look(pid_t pid, tree_proc *out);
/* Kills the process if it still is the one that began at `start`. */
bool cay__tree_kill_exact(pid_t pid, uint64_t start, int sig);
