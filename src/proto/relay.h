/* SPDX-License-Identifier: Apache-2.0 */
/* proto/relay.h - what both ends of a tunnel into a container know. */
#pragma once

#define CAY__PID1_CTL   "/.cay/ctl"
#define CAY__PID1_DOOR  "hello" /* in it: where a client waits for pid 1, door.c */
#define CAY__RELAY_WORD "cay1"  /* the relay's first bytes, once whom it leads to has answered */

/* What a client hands over at the door, with one descriptor: the directory as the host has it. The
 * answer is one byte, once pid 1 listens. */
typedef struct cay__pid1_door {
    char id[24]; /* of the sandbox */
} cay__pid1_door;

int cay__relay_main(int argc, char **argv);

/* attach.c: storage inside. What it ends with. */
#define CAY__PID1_PLACE "/.cay/mounts"
enum {
    CAY__ATTACH_PLACE = 3,
    CAY__ATTACH_WAY,
    CAY__ATTACH_FAILED
}; /* the place is not the engine's; a part of the target is a link or no directory */
int cay__attach_main(int argc, char **argv);
/* target below root, made where it is not there, no link followed; -1 with errno. */
int cay__attach_open(int root, const char *target);
