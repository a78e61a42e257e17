/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/lifecycle.h - the states of a sandbox and the ways between them, in one table.
 */
#pragma once
#include <cay/client.h>

#define CAY__BIT(state) (1u << (state))

/* Bits of the states from which a record may be moved to `to`; 0 when it is never recorded. */
unsigned cay__state_from(cay_state to);
bool cay__state_may(cay_state from, cay_state to);
/* Its processes exist, so a provider is asked what it knows. */
bool cay__state_live(cay_state s);
