/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/keeper/lend.h - the helper between keeper and cay-egress.
 *
 * Part of the helper program, in the host's mount tree. It starts cay-egress at the first need and
 * again when it dies, lends it the sockets of sandboxes with a policy, and keeps each policy in
 * sandboxes/ID/policy. A keeper's death ends it, not cay-egress: the next keeper's lender finds
 * that one by its socket.
 */
#pragma once
#include "job.h"
#include <stdbool.h>

#define EGRESS_ID 0x7ffe0000u /* who cay-egress is in root mode: above every block of a sandbox */

_Noreturn void lender_main(int sock, int mode, const char *run, const char *keeper);

/* lend.c, for the parts below */
void lender_answer(uint32_t seq, int code, int sys, const char *reason, const char *msg,
                   const cay_m_netinfo *net, int fd);

/* lend_secrets.c: cay-intercept, which holds the values of secrets. It is started at the first of
 * them. */
void secrets_open(const char *run, const char *keeper, int mode);
void secrets_job(const keeper_job *job, const int *fds); /* CAY_NET_SECRETS */
void secrets_policy(const char *id, int policy);         /* another one holds */
void secrets_operator(int fd);
void secrets_drop(const char *id);
int secrets_fd(void);                      /* becomes readable when it died */
void secrets_lost(void);                   /* then: the next one gets what the last one had */
void secrets_pair(int egress, bool fresh); /* egress, or a fresh one, hands its flows over */

/* lend_start.c */
enum outside { OUT_EGRESS, OUT_INTERCEPT };
int outside_dial(const char *run, enum outside who); /* to the one that lives, or -1 */
const char *outside_start(const char *run, const char *keeper, int mode,
                          enum outside who); /* NULL, or what failed with errno set */
void outside_stop(const char *run, enum outside who, int sig); /* whoever started it */
int operator_open(void); /* the operator's file, or an empty one */
