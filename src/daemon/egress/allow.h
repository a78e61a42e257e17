/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/egress/allow.h - what cay-egress and cay-intercept let happen: the system calls that each
 * keeps, and connections of the keeper's alone. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The frequent ones first: a filter is walked from its top. All others end in EPERM, those of a
 * foreign architecture in death. `inet`: socket(2) as well, for IPv4 and IPv6. -1 with errno. Needs
 * no_new_privs. */
int allow_calls(const int *calls, size_t n, bool inet);
/* The next connection, which does not block; -1: it is nobody's that may ask, or there is no room.
 */
int accept_keeper(int listener, bool room);
