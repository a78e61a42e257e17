/* SPDX-License-Identifier: Apache-2.0 */
/* base/guard.h - paths below a directory of the user's that nothing from a sandbox should take by
 * surprise. */
#pragma once
#include <stdbool.h>

/* Is it one of base/guarded.h, or inside one, at any depth and in any case? What tools run or obey
 * without being asked. */
bool cay__path_guarded(const char *path);
/* Would a link at `path` with this target point out of the directory that path is relative to?
 * Absolute ones do, and those that go up after a name may: that can be another link. */
bool cay__link_leaves(const char *path, const char *target);
/* Is `path` the same as `top`, or below it? A trailing slash of top does not count; "" and "." are
 * above all. */
bool cay__path_within(const char *path, const char *top);
