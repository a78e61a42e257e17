/* SPDX-License-Identifier: Apache-2.0 */
/* lib/snapshot/archive.h - what export, import and transfer share. */
#pragma once
#include "snapshot.h"

CAY_DEFINE_AUTO(cay_snapshot, cay_snapshot_free)

/* Id of a snapshot elsewhere, of a whole one with "/" and its archive's digest → id of the one
 * here. */
#define CAY__NOTE_IMPORT "import"
#define CAY__NOTE_WHOLE  "whole" /* id of a snapshot here → digest of its whole archive */

/* A file without a name gets one, by one rename; transfer.c. */
int cay__path_put(int dir, const char *name, int file, cay_err *err);
/* The digest that an archive of all of it has, "sha256:…": what a difference stands on is known by
 * it, wherever it is. */
int cay__archive_digest(cay_client *client, const cay_call *call, cay__snaprow *snap,
                        char digest[72], cay_err *err);
