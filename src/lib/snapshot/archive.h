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
/* All of a file, from its beginning. */
int cay__archive_copy(int from, int to, cay_err *err);
/* cay-unpack reads fd in a sandbox of its own, and cay-pack does what `ask` says with that; talk
 * hears of it. */
int cay__archive_unpack(cay_client *client, const cay_call *call, int fd, const char *const *argv,
                        cay__layer_ask ask,
                        int (*talk)(void *arg, cay__layer_conn *c, cay_err *err), void *arg,
                        cay_err *err);
/* The digest that an archive of all of it has, "sha256:…": what a difference stands on is known by
 * it, wherever it is. */
int cay__archive_digest(cay_client *client, const cay_call *call, cay__snaprow *snap,
                        char digest[72], cay_err *err);

/* A workspace as a tar, in the form in which the Agents SDK keeps it,
 * through the file calls of a sandbox: for providers whose snapshots are not trees below layers/.
 */

/* All that is below root, written to fd; names from ".", files, directories and links. */
int cay__workspace_save(cay_sandbox *sb, const cay_call *call, const char *root,
                        const cay_export *spec, int fd, cay_archived *out, cay_err *err);
/* What is below root goes, and what the tar has comes there. fd: a file, read from its start. */
int cay__workspace_fill(cay_sandbox *sb, const cay_call *call, const char *root, int fd,
                        cay_err *err);
/* The tar of a snapshot that such a provider keeps: out of a sandbox that is made of it for this.
 */
int cay__workspace_export(cay_client *client, const cay_call *call, const cay_snap_row *snap,
                          const cay_export *spec, int fd, cay_archived *out, cay_err *err);
/* The files of snapshot `from`, which is trees, into a box that is of another provider. */
int cay__workspace_hydrate(cay_client *client, const cay_call *call, const cay_create *c,
                           const cay_provider_ops *ops, const char *id, void *box, cay_err *err);
/* Is a request of that kind? Its record has the snapshot and no layers. */
static inline bool cay__workspace_wanted(const cay__spec *s, const cay_provider_ops *ops)
{
    return s->create.from.snapshot && !s->box.nlayers && CAY__HAS(ops, opaque_layers);
}
