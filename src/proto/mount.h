/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/mount.h - what the library says to cay-mount, over a SEQPACKET socket on its
 * descriptor 3.
 *
 *     cay-mount STATE-DIRECTORY
 *
 * MOUNT: strings behind the head, each with its NUL: config, second file, remote, target inside,
 * then nargs arguments. Answered with the detached mount. HOLD: serve until that process ends.
 * Answered when it is watched; then the socket is of no more use. SHOW, instead of HOLD, with the
 * one mount as descriptor: strings are a name and a target. Puts it there in the sandbox whose init
 * the process is, and serves until that ends, or until somebody connects to
 * STATE-DIRECTORY/mounts/NAME and sends HIDE: then the mount is taken away, and answered once all
 * that was written is brought away.
 *
 * From HOLD on there is STATE-DIRECTORY/mounts/ID, a mark for each mount in their order, locked
 * (flock(2)) by who serves them: a mark that says why, or a file that nobody holds, is how the
 * library learns that a mount is dead. It goes with the sandbox's init. When the socket closes
 * before HOLD or SHOW, all is given up.
 */
#pragma once
#include <stdint.h>

/* In cay-mount's own mount namespace, covered by its own memory: a path that a user without rights
 * can walk. Mount N has N.conf, N.file. */
#define CAY_MOUNT_PLACE "/mnt"
#define CAY_MOUNT_MAX   (512u << 10) /* a whole packet */
enum { CAY_MOUNT_MOUNT = 1, CAY_MOUNT_HOLD, CAY_MOUNT_SHOW, CAY_MOUNT_HIDE };

typedef struct cay_mount_ask {
    uint32_t op;
    uint32_t rw, kernel, nargs; /* MOUNT */
    int32_t pid;                /* HOLD, SHOW */
    char id[24];                /* HOLD: the sandbox's */
} cay_mount_ask;

typedef struct cay_mount_mark {
    char target[1024]; /* inside the sandbox */
    char why[120];     /* its program ended, and how; "" while it serves */
    int64_t when_ms;   /* wall clock */
} cay_mount_mark;

typedef struct cay_mount_answer {
    int32_t sys;      /* 0: done */
    uint32_t missing; /* the program that serves it is not installed */
    char msg[400];
} cay_mount_answer;
