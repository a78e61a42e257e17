/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/intercept.h - what keeper and egress say to cay-intercept, and what it answers.
 *
 * The keeper speaks as it does to egress (proto/egress.h): it made the listening socket that is
 * descriptor 3, and a new keeper dials it and binds again. Secrets come in a sealed memfd that
 * nobody but this process ever maps. The vault is a memfd of the keeper's in which the sandbox's
 * own authority is kept, so that the next interceptor speaks with the same certificate.
 *
 * Egress has one end of a socket pair, made by the keeper, and hands flows over on it (CAY_N_FLOW):
 * both sockets, with the ClientHello still unread in the first and the second connected to an
 * address that the policy allows. Nothing else is dialled from here.
 */
#pragma once
#include "egress.h"

enum cay_i_type {
    CAY_I_BIND = 1, /* cay_n_box; fds: [policy] [secrets] [vault] → BOUND */
    CAY_I_DROP,     /* cay_n_box: the sandbox is gone → BOUND */
    CAY_I_EGRESS,   /* fds: [socket]: flows come from there; the former one is closed → nothing */
    CAY_I_POLICY, /* cay_n_box; fds: [policy]: it holds from now on, with the values that are there;
                     flows it forbids end → BOUND */
    CAY_I_OPERATOR, /* cay_n_box; fds: [operator's file] → BOUND */

    CAY_I_BOUND = 50, /* cay_n_ack; fds: [trust], after BIND */
};

/* The secrets' memfd, and that of the files ca.pem, bundle.pem and cacerts that a sandbox has to
 * trust: entries one after another, no gaps. */
typedef struct cay_i_secret {
    uint32_t name, value; /* lengths; the bytes follow in this order */
} cay_i_secret;
#define CAY_I_SECRETS_MAX (1u << 20)
#define CAY_I_VAULT_MAX   65536u
