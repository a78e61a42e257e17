/* SPDX-License-Identifier: Apache-2.0 */
/* helper/layer/patch.h - a change as git writes it, so that `git apply` takes it. */
#pragma once
#include "compare.h"

#define PATCH_FILE_MAX (2u << 20)  /* a longer file is only named */
#define PATCH_MAX      (64u << 20) /* of one difference; what comes after is only named */

/* Adds nothing for directories. What has no place in a patch (binary, too long, devices) is a line
 * that starts with '#'. */
void patch_add(const change *ch, unsigned context, cay__buf *out);
/* A path as git quotes it: with "…" and octal numbers where it has anything but plain ASCII. */
void patch_quote(const char *prefix, const char *path, cay__buf *out);
