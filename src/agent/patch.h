/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/patch.h - patches from the inside.
 */
#pragma once
#include <cay/patch.h>

/* Comparisons of lines, weighted, that one patch may cost: about a second. */
#define CAY__PATCH_STEPS 200000000ull

/* As cay_patch_update(); *left is what is left of the patch's steps. */
int cay__patch_update(const char *text, size_t len, const char *diff, uint64_t *left, char **out,
                      size_t *out_len, unsigned *fuzz, cay_err *err);
/* Where path leads below root, links looked through: CAY_EINVAL "apply_patch_invalid_path" when it
 * leads out. buf holds 4096 bytes. */
int cay__patch_resolve(cay_sandbox *sb, const cay_call *call, const char *root, const char *cwd,
                       const char *path, char *buf, cay_err *err);
