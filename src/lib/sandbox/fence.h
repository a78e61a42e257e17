/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/sandbox/fence.h - what a call may touch.
 */
#pragma once
#include "sandbox.h"

const cay_fence *cay__fence_of(const cay_call *call); /* or NULL */
/* CAY_EPERM "fence" when the call's fence does not let path be read, or written. */
int cay__fence_path(cay_sandbox *sb, const cay_call *call, const char *path, bool write,
                    cay_err *err);
/* The call's fence becomes the command's. CAY_ENOTSUP where the provider cannot hold it. */
int cay__fence_spawn(const cay_sandbox *sb, const cay_call *call, cay_spawn *s, cay_err *err);
