/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/keeper/root.h - the directories and the root of one sandbox, made by a zygote in the state
 * directory. */
#pragma once
#include "job.h"
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
