/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/native/quota.h - a limit on a sandbox's disk that the kernel holds: project quota of
 * ext4 and xfs.
 *
 * The client sets it, after the keeper has made the sandbox and before anybody has a handle on it:
 * no command can have run. That needs no more rights than root's client has, and keeps it out of
 * the privileged program. The keeper's helper reads the use and forgets the limit when it removes
 * the files.
 */
#pragma once
#include <cay/client.h>

/* Root, and the state directory is on a filesystem mounted with project quota that enforces. */
bool cay__quota_there(int home_fd);
/* Gives the sandbox's directory a project of its own, if it has none yet, and that project its
 * limits. */
int cay__quota_set(int home_fd, const char *id, uint64_t disk, uint64_t inodes, cay_err *err);
/* The same for a named volume; and no limit any more, before its directory goes. */
int cay__quota_volume(int home_fd, const char *name, uint64_t bytes, cay_err *err);
void cay__quota_drop(int home_fd, const char *name);
