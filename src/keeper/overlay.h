/* SPDX-License-Identifier: Apache-2.0 */
/* keeper/overlay.h - one overlay mount; made by a zygote as root, by the binder when rootless. */
#pragma once
#include <stdbool.h>

/* Where the layers are: open directories, which may be of a detached mount (Linux 6.15), or, without any, names. */
typedef struct overlay_at {
    int         lower, upper, work; /* all or none of them is -1 */
    const char *layer; /* names: below layers/, or NULL for the directory /l */
    const char *dir;   /* names: below sandboxes/, holds upper and work */
} overlay_at;

/* Names are taken from the working directory: that keeps host paths out of mountinfo and inside the 255 bytes of fsconfig.
 * Returns a detached mount, nosuid and nodev; or -1 with errno and *step. */
int cay__overlay(const overlay_at *at, bool user_xattr, bool is_volatile, const char **step);
