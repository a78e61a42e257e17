/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/egress/allow.h - a process that keeps only the system calls it names. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The frequent ones first: a filter is walked from its top. All others end in EPERM, those of a
 * foreign architecture in death. `inet`: socket(2) as well, for IPv4 and IPv6. -1 with errno. Needs
 * no_new_privs. */
int allow_calls(const int *calls, size_t n, bool inet);
