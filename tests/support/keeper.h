/* SPDX-License-Identifier: Apache-2.0 */
/*
 * support/keeper.h - the keeper's objects without a keeper: no namespace, no helper, no init. What
 * it would say to them goes into sockets that nobody but the test reads.
 */
#pragma once
#include <daemon/keeper/keeper.h>

#define FAKE_BOX  "caaaaaaaaaaaaaaaaaaa" /* a live sandbox */
#define FAKE_PROC "paaaaaaaaaaaaaaaaaaa" /* a command in it, with three pipes */
#define FAKE_TTY  "pttttttttttttttttttt" /* one on a terminal */
#define FAKE_POOL "baaaaaaaaaaaaaaaaaaa" /* a sandbox bound ahead of time */

typedef struct fake {
    char dir[64];
    int helper;  /* the helpers' ends */
    int init;    /* init's end of FAKE_BOX */
    int peer[2]; /* the other ends of two clients */
    client *c[2];
    keeper_box *b;
    int out, err, in; /* the command's own ends of its pipes */
    int tty;          /* slave of the terminal */
} fake;

void fake_open(fake *f);  /* keeper is new, with everything named above */
void fake_turn(fake *f);  /* a few rounds of the loop; answers of helpers; sockets drained */
void fake_close(fake *f); /* nothing of it is left */
client *fake_client(int *peer);
keeper_box *fake_box(const char *id, enum box_phase phase, int *peer);
