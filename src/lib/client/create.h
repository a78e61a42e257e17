/* SPDX-License-Identifier: Apache-2.0 */
/* lib/client/create.h - what making a sandbox shares with taking one that is ready. */
#pragma once
#include "client.h"

/* The record of a sandbox that is being made by this program. spec and labels are the row's, to be
 * freed after it. */
int cay__create_row(const cay_create *c, cay_row *row, char **spec, char **labels, char *creator,
                    size_t cap, cay_err *err);
/* Nothing half-made stays; what cannot be undone now is left as a recorded deletion for whoever
 * opens next. */
void cay__create_undo(cay_client *client, const char *id, const cay_create *c);
