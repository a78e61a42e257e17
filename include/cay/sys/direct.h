/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/sys/direct.h - native sandboxes without a client: handles straight from the keeper.
 *
 * The small static command uses these calls for the verbs that touch no store. A handle owns the
 * connection that it needs. The functions are not exported by libcay.so: a program that uses them
 * links the native provider itself.
 */
#pragma once
#include <cay/sandbox.h>
#include <cay/client.h>

#define CAY__WALLS_MAX 24

/* The running sandbox whose id begins so. CAY_ENOENT "sandbox_not_found" when there is none. */
int cay__native_find(const char *home, const char *id_prefix, cay_sandbox **out, cay_err *err);
/* A sandbox that ends with its last handle. */
int cay__native_create_ephemeral(const char *home, const cay_create *spec, cay_sandbox **out,
                                 cay_err *err);
/* The isolation of a sandbox that one of the two gave; at most CAY__WALLS_MAX. Returns how many.
 */
size_t cay__native_walls_of(cay_sandbox *sb, cay_wall *out);
