/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/keeper/quota.h - the project quota of a sandbox's directory, as the sweeper sees it. The
 * client sets it (lib/provider/native/quota.h).
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define QUOTA_FIRST 0x40000000u /* projects of ours, as lib/provider/native/quota.c picks them */

/* The project of a directory below the working directory; 0: none. */
uint32_t quota_project(const char *dir);
/* What the project's files take; false when the kernel does not count. */
bool quota_used(uint32_t project, uint64_t *bytes, uint64_t *inodes);
/* Takes the limits away, so that the kernel's table does not grow for ever. */
void quota_forget(uint32_t project);
