/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper/lend.h - the helper between keeper and cay-egress.
 *
 * Part of the helper program, in the host's mount tree. It starts cay-egress at the first need and again when it dies, lends it
 * the sockets of sandboxes with a policy, and keeps each policy in sandboxes/ID/policy. A keeper's death ends it, not
 * cay-egress: the next keeper's lender finds that one by its socket.
 */
#pragma once
#include <stdbool.h>

#define EGRESS_ID 0x7ffe0000u /* who cay-egress is in root mode: above every block of a sandbox */

_Noreturn void lender_main(int sock, int mode, const char *run, const char *keeper);

/* lend_start.c */
int         egress_dial(const char *run); /* to the one that lives, or -1 */
const char *egress_start(const char *run, const char *keeper, int mode); /* NULL, or what failed with errno set */
void        egress_stop(const char *run, int sig); /* whoever started it */
int         operator_open(void); /* the operator's file, or an empty one */
