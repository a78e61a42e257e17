/* SPDX-License-Identifier: Apache-2.0 */
/* cli/changes.h - a change as a line for people and as JSON, for `cay diff` and `cay apply`. */
#pragma once
#include "out.h"
#include <cay/workspace.h>

/* "M src/main.c", escaped; directories end with '/'. */
void change_print(const cay_file_change *c, const char *prefix);
/* extra: more members of the object, or NULL. */
void change_json(out_json *j, const cay_file_change *c, bool patch, const char *result);
