/* SPDX-License-Identifier: Apache-2.0 */
/* helper/layer/account.h - lines of /etc/passwd and /etc/group, which a template's maker or a
 * sandbox wrote. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define ACCOUNT_IDS 65536u /* a sandbox has ids below that; beyond them lie those of others */

/* The line of a name, or NULL. */
const char *account_find(const char *text, const char *name);
/* The number in a field of the line, counted from 0; false when that is missing, no number, or not
 * below ACCOUNT_IDS. */
bool account_id(const char *line, unsigned field, uint32_t *id);
/* Has a line this number in its third field? */
bool account_used(const char *text, uint32_t id);
