/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/mount/rclone.h - rclone as a process with no right at all.
 *
 * It reads what a server on the Internet sends, so it must not be root. What needs root is done
 * here before it starts: /dev/fuse is opened and mounted. rclone asks a program called fusermount3
 * for that descriptor, which is ours too (cay__fusermount_main()): it hands over the one that
 * rclone inherited and mounts nothing.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#define CAY__RCLONE_ID                                                                             \
    0x7ffd0000u /* and the number of its cache: nobody else's id, below cay-egress's and above     \
                   every block of a sandbox */
#define CAY__RCLONE_FD                                                                             \
    200 /* where it inherits the descriptor of /dev/fuse; low ones are its children's */

/* A descriptor of /dev/fuse that is mounted at `at`, for `id`; -1 with errno. */
int cay__fuse_mount(const char *at, uid_t id, bool rw);
/* Never returns: gives up every right and becomes the program at `exe`. */
_Noreturn void cay__rclone_run(int exe, int fuse, uid_t id, char *const argv[], char *const env[]);
/* As "fusermount3 … -- DIR" of rclone's: hands over the descriptor; "-u" is done by who mounted. */
int cay__fusermount_main(int argc, char **argv);
