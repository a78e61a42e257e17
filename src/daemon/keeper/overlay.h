/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/keeper/overlay.h - one overlay mount; made by a zygote, or, when rootless and on one
 * layer, by the binder. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct overlay_at {
    int boxes, layers; /* sandboxes/ and layers/, which may be detached mounts (Linux 6.15); -1: the
                          working directory is layers/, and sandboxes/ is its neighbour */
    int base;          /* a directory below all layers, by names the one at /l; -1: none */
    const char *const *layer; /* names below layers/, bottom first */
    size_t n;
    const char *dir; /* below sandboxes/, holds upper and work */
    bool still; /* no directory of a layer is renamed, which would stand on its old name: EXDEV, and
                   programs copy */
    bool disk;  /* `boxes` is a disk of its own, a detached mount */
} overlay_at;

/* Without descriptors names are relative: that keeps host paths out of mountinfo, and a stack
 * inside one page. Returns a detached mount, nosuid and nodev; or -1 with errno and *step.
 * spot: by names, a directory that the mount covers for a moment; NULL: there is one layer. */
int cay__overlay(const overlay_at *at, const char *spot, bool user_xattr, bool is_volatile,
                 const char **step);
