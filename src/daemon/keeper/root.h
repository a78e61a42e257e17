/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/keeper/root.h - what a zygote makes in the state directory: the directories and the root
 * of one sandbox, a parked sandbox (park.c), and another root under one that runs (swap.c). */
#pragma once
#include "job.h"
#include "netns.h"
#include <stdbool.h>

#define STORE_BASE 0x70000000u /* ids on disk; above every range systemd hands out */
#define BLOCK_IDS  65536u

/* sandboxes/job->name with upper and work, or these on a disk of its own, -1: none. A kept sandbox
 * keeps its upper; *trash: a used work was put aside. */
bool root_dirs(const keeper_job *job, int disk, bool *trash);
bool root_fresh(const keeper_job *job,
                int at); /* the two alone, where they are missing, in the sandbox's directory */
bool root_trash(int at, const char *name); /* out of sight, for the sweeper */
/* The overlay of those directories over the stack job->path, whose bottom may be the directory
 * `lower`, as a detached mount; -1 with errno and *step. */
int root_make(const keeper_job *job, int lower, int disk, const char **step);
/* Root mode, when root_make() has failed with errno: the same can be mounted for the range of the
 * store itself, so that all sandboxes have to share that one. */
bool root_shared(const keeper_job *job);
/* A directory of the host, a detached mount, as an overlay whose upper is
 * sandboxes/job->name/on/upper: its owner is the sandbox's user inside. -1 with errno and *step. */
int root_on(const keeper_job *job, int lower, bool *trash, const char **step);
/* Rootless: a detached clone of a directory of ours, nosuid and nodev, for the sandbox's own
 * namespace. */
int root_clone(const char *dir, int userns);
/* Root mode: detached mounts of the store's files show them as the block's. */
bool root_map(uint32_t block, const int *mounts, int n, const char **step);
/* Read-only /usr of the host; as root with owners as the sandbox's user namespace has them. */
int root_usr(const keeper_job *job, int userns);

/* A process of the user namespace that is being made: its map, and a descriptor of it. */
bool root_write_map(int pid, const char *file, const char *text);
int root_open_userns(int pid);

/* A sandbox made ahead of time: every namespace, /proc, /dev, /run and /usr, filter, and as root
 * the default root. */
typedef struct park_result {
    int pid;
    uint64_t start;
    int pidfd, ctl, userns;
    netns net;
    bool trash;
    bool shared; /* not made, as the range of ids has to be the store's own */
} park_result;

/* keeper: where GROUPS comes from. NULL, or the step that failed with errno set and nothing left.
 */
const char *park(const keeper_job *job, int keeper, park_result *out);

/*
 * Another root under a sandbox that runs: how its upper becomes a layer, or is thrown away.
 *
 * A zygote does it while no process of the tenant is alive and the keeper starts none. In the
 * sandbox's directory stand, meanwhile: swap  where the upper is put aside: "layers/NAME", or
 * "aside" when it is to be thrown away; locked by who is at it stack.new  what the new root stands
 * on; renamed to `stack` when it is in place work.old   the work directory of the old root Whoever
 * finds them after a death goes on from there, or takes it back.
 */
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
