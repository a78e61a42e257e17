/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/init/sudo.h - becoming another user inside. No set-uid program gains anything here;
 * instead a client, our own sudo and su, hands what is to be run and its three descriptors to init
 * over a socket, and init starts it as it starts every command.
 *
 *   sudo.c         init's side: who asks, the command, signals and its end
 *   sudo_client.c  the programs
 *
 * One packet of cay_g_sudo with its blob, as of a spawn, and exactly three descriptors; the answer
 * is a cay_g_sudo_told when it has started, or why it has not, and one when it has ended. Further
 * packets of the client are signals, an int32_t each.
 */
#pragma once
#include "init.h"
#include <poll.h>

#define SUDO_DIR    "/run/cay"
#define SUDO_SOCKET "/run/cay/sudo"
#define SUDO_BIN    "/run/cay/bin"
#define SUDO_MAGIC  0x6f647573u
#define SUDO_VISITS 16 /* at once; who comes then waits */

typedef struct cay_g_sudo {
    uint32_t magic;
    uint32_t
        tty; /* bit per descriptor: it is the terminal that the command is to have for its own */
    uint32_t argc, envc, blob;
} cay_g_sudo;

enum { SUDO_STARTED = 1, SUDO_ENDED, SUDO_REFUSED, SUDO_FAILED };
typedef struct cay_g_sudo_told {
    int32_t what, value; /* STARTED: pid; ENDED: wait status; FAILED: errno */
    char step[24];
} cay_g_sudo_told;

/* init's side */
void sudo_open(void);            /* makes socket and programs; once, after the root is there */
int sudo_poll(struct pollfd *p); /* at most 1 + SUDO_VISITS entries */
void sudo_ready(const struct pollfd *p, int n); /* what poll(2) said of them */
int sudo_wait(void);                            /* ms until something is due, -1: nothing */
void sudo_reaped(int pid, int status);
