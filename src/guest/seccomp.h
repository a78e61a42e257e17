/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest/seccomp.h - put this process and all its children under a system call filter, for ever.
 *
 * The filters are constant arrays that tools/gen-seccomp.c makes from seccomp_table.def; what each
 * lets through is told in docs/seccomp.md. The caller has set PR_SET_NO_NEW_PRIVS.
 */
#pragma once

/* The order is that of the columns in seccomp_table.def. */
enum cay_profile {
    CAY_PROFILE_DEFAULT,
    CAY_PROFILE_STRICT,
    CAY_PROFILE_NESTED,
};

/* 0, or -errno: -EINVAL for a profile that does not exist, -EACCES without no_new_privs. A second
 * filter may be stacked; the stricter answer wins. */
int cay__seccomp_install(int profile);

/* For level 1, on top of a profile: host sockets and IPC are out of reach, because no namespace of
 * our own stands between. Pairs of connected UNIX sockets stay; INET and NETLINK only with network.
 */
int cay__seccomp_level1(int network);
