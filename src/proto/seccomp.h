/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/seccomp.h - put this process and all its children under a system call filter, for ever.
 *
 * The filters are constant arrays that tools/gen-seccomp.c makes from seccomp_table.def; what each
 * lets through is told in docs/seccomp.md. The caller has set PR_SET_NO_NEW_PRIVS.
 */
#pragma once
#include <stdint.h>

/* The order is that of the columns in seccomp_table.def. */
enum cay_profile {
    CAY_PROFILE_DEFAULT,
    CAY_PROFILE_STRICT,
    CAY_PROFILE_NESTED,
};

/* 0, or -errno: -EINVAL for a profile that does not exist, -EACCES without no_new_privs. A second
 * filter may be stacked; the stricter answer wins. */
int cay__seccomp_install(int profile);

/* The default profile for a pid 1 that starts commands by clone3(2) straight into their group. No
 * filter can look at clone3's flags, but it sees all six argument registers, of which the call uses
 * two: with the key in the other four it passes, and otherwise it is ENOSYS as ever. The key is
 * random, and stays in memory that no tenant can read. */
#define CAY_CLONE_KEY 4
int cay__seccomp_install_keyed(const uint64_t key[CAY_CLONE_KEY]);

/* For level 1, on top of a profile: host sockets and IPC are out of reach, because no namespace of
 * our own stands between. Pairs of connected UNIX sockets stay; INET and NETLINK only with network.
 */
int cay__seccomp_level1(int network);
