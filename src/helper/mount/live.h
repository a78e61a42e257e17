/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/mount/live.h - a mount into a sandbox that runs, and out of it again.
 *
 * The kernel takes a mount only from who is in the mount namespace it goes to. So for the moment of
 * one call a process of ours is in the sandbox's, and in none of its others: nobody inside sees it,
 * it executes nothing, and it walks no path there. The place was opened from outside, below the
 * root of the sandbox's init and through no link; what is taken away is the mount itself, by its
 * descriptor.
 */
#pragma once
#include <stdbool.h>

/* 0, or -1 with errno. pidfd and pid: the sandbox's init. */
int cay__live_show(int tree, int pidfd, int pid, const char *target);
int cay__live_hide(int tree, int pidfd);
/* A socket of that name in dir; EEXIST when somebody listens there already. */
int cay__live_listen(int dir, const char *name);
bool cay__live_dead(int pidfd);
