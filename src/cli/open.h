/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/open.h - where a sandbox handle comes from.
 *
 * The full program asks the client (open_full.c); the small one asks the native provider without a
 * store, and steps aside for the full program when it cannot serve (open_hot.c).
 */
#pragma once
#include <cay/sandbox.h>

/* id: whole, a prefix, or a name. */
int cli_box_find(const char *id, cay_sandbox **out, cay_err *err);
/* spec->ephemeral tells whether it is thrown away afterwards. */
int cli_box_create(const cay_create *spec, cay_sandbox **out, cay_err *err);
/* That sandbox could not be made, which was found out when its first command was started. Returns
 * unless another program does it instead. */
void cli_box_refused(const cay_err *err);
/* For one that a person names and that stays: CAY_EEXIST, "name_taken", naming who has it. */
int cli_name_free(const char *name, cay_err *err);
/* What its template starts when nobody says what: entrypoint, then cmd. Free the answer, one piece.
 * CAY_EINVAL, "command_empty": nothing. */
int cli_box_command(const cay_create *spec, const char ***out, cay_err *err);
/* Ends a thrown-away one; the handle is given back too. */
void cli_box_discard(cay_sandbox *sb);

/* Full program only: the client, opened at first use and closed at exit. */
int cli_service(cay_client **out, cay_err *err);
extern bool cli_settling; /* we are the ones who do what was left for later: nobody else is started
                             for it at exit */
