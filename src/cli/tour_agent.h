/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/tour_agent.h - the step of `cay tour` in which an agent mends something.
 */
#pragma once
#include <cay/sandbox.h>

int tour_agent(cay_sandbox *sb, char *said, size_t cap, cay_err *err);
