/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/agent_audit.h - where it is written down what an agent was let do: --audit and what stands
 * beside it.
 */
#pragma once
#include "opt.h"
#include <cay/audit_sink.h>

typedef struct agent_audit {
    opt_list to;         /* files, addresses, "workspace:" */
    opt_list spool, key; /* one for each address, in their order; or none at all */
    bool detail, output;
} agent_audit;

int agent_audit_check(const agent_audit *a, cay_err *err);
int agent_audit_open(const agent_audit *a, cay_audit_sink **out,
                     cay_err *err); /* *out: what was opened so far also when it fails; NULL:
                                       nothing was asked for */
