/* SPDX-License-Identifier: Apache-2.0 */
/* keeper/overlay.h - one overlay mount; made by the keeper as root, by the binder when rootless. */
#pragma once
#include <stdbool.h>

/* The working directory is the state directory (or its clone). Layer: below layers/, or NULL for the absolute
 * directory `lower`. dir: below sandboxes/, holds upper and work. Returns a detached mount, nosuid and nodev; or -1
 * with errno and *step. Relative names keep host paths out of mountinfo and inside the 255 bytes of fsconfig. */
int cay__overlay(const char *layer, const char *lower, const char *dir, bool user_xattr, bool is_volatile,
                 const char **step);
