/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/snapshot/snapshot.h - snapshots from inside: their records, the stacks of sandboxes, and who
 * works on them now.
 *
 * The row is there, in state "making", before the provider is asked; whoever opens the client
 * after a crash completes it when layers/ID exists and drops it otherwise. Changes of a sandbox's
 * stack happen under its lock.
 */
#pragma once
#include <lib/client/client.h>
#include "snapshot_row.h"
#include <lib/client/spec.h>
#include <cay/snapshot.h>

#define CAY__LAYERS_DIR "layers"
#define CAY__NOTE_LEASE "lease" /* sandboxes without record: id → {"layers":[…],"creator":{…}} */
#define CAY__MARKS_DIR                                                                             \
    "checkpoint" /* a file for each sandbox that wants one after every command, for the small      \
                    program */

/* By id, unique beginning or label; only one that is whole. free() it. */
int cay__snap_find(cay_client *client, const char *ref, cay__snaprow **out, cay_err *err);
/* Only among those of one tenant; NULL: of all. */
int cay__snap_find_of(cay_client *client, const char *tenant, const char *ref, cay__snaprow **out,
                      cay_err *err);
int cay__snap_row(cay_client *client, const char *id, cay__snaprow **out, cay_err *err);
cay_snapshot *cay__snapshot_new(const cay_snap_row *row); /* cay_snapshot_free() */
/* To be filled: what it points to goes into *mem. cay_snapshot_free() frees both. */
cay_snapshot *cay__snapshot_blank(cay__arena **mem);
/* Its label, when one is given: a name as of a sandbox, and not to be taken for an id. */
int cay__snap_label_check(const char *label, cay_err *err);
void cay__boot_id(char *buf, size_t cap);
bool cay__layer_there(const cay_client *client, const char *layer); /* layers/NAME */
/* One without a name in the state directory; `what`, for the error: "the archive". */
int cay__temp_file(const cay_client *client, const char *what, int *fd, cay_err *err);

/* The whole of taking one; id holds CAY_ID_LEN + 1 bytes. */
int cay__snap_take(cay_sandbox *sb, const cay_call *call, const cay_snapshot_spec *spec,
                   bool automatic, char *id, cay_err *err);
/* Until the descriptor is closed nobody else changes the stack of that sandbox. wait false:
 * CAY_EBUSY at once. */
int cay__box_lock(cay_client *client, const cay_call *call, const char *id, bool wait, int *fd,
                  cay_err *err);
/* CAY_ENOTSUP: its layers are no trees that anybody could look into
 * (cay_provider_ops.opaque_layers). */
int cay__snap_trees(cay_client *client, const cay_snap_row *s, cay_err *err);
/* A box of the sandbox to work on, which ops->release() gives back; a stopped one is started, and
 * *started set. */
int cay__box_awake(cay_sandbox *sb, const cay_call *call, const char *verb, void **box,
                   bool *started, cay_err *err);
/* What names the directory into which the sandbox writes: it changes when that becomes a layer or
 * is thrown away. "": none. */
#define CAY__MARK 80
void cay__upper_mark(const cay_client *client, const char *path, char *buf);
void cay__upper_path(char *buf, size_t cap, const char *id);

/* After a crash: rows in state "making" and undos that were begun, and that nobody is at. Never
 * fails because of one. only: those of one sandbox, whose lock the caller has. */
void cay__snap_reconcile(cay_client *client, const char *only);

/* The directory of the host that it is above, or "", and since when that is worked on. */
int cay__snap_on(const cay_snap_row *s, char *dir, size_t cap, int64_t *since_ms, cay_err *err);
/* The snapshot of a request becomes its layers, provider and template. */
int cay__stack_prepare(cay_client *client, cay__spec *s, cay_err *err);
/* The request is recorded: is what it stands on still there? From now on it stays. */
int cay__stack_hold(cay_client *client, const char *id, const cay_box_spec *b, cay_err *err);
/* Somebody whose record names no layers: a note does, as long as its maker lives. */
int cay__lease_put(cay_client *client, const char *id, const char *const *layers, size_t n,
                   cay_err *err);
/* A sandbox without record is gone. */
void cay__stack_release(cay_client *client, const char *id);
/* Ends an undo of it that somebody died over, under its lock: another must not take that one's
 * record. CAY_EBUSY, "undo_unfinished". */
int cay__stack_settle(cay_client *client, const char *id, cay_err *err);
/* Before it starts again: what somebody left unfinished, and merges that were made while it ran.
 * Its row is read anew. *lock: hold it until it runs. */
int cay__stack_renew(cay_client *client, const cay_call *call, const char *id, cay__row **row,
                     int *lock, cay_err *err);
/* The same files in fewer layers, where some were merged; false when there is nothing to change. */
bool cay__stack_merged(cay_client *client, cay__stack *s);
/* Leases of makers that are dead. */
void cay__leases_drop(cay_client *client);

/* From now on a snapshot after each command that is started and waited for through this handle. */
void cay__checkpoint_arm(cay_sandbox *sb, unsigned keep);
void cay__checkpoint_look(cay_sandbox *sb,
                          const cay_row *row); /* arms it when the record asks for it */
int cay__checkpoint_mark(cay_client *client, const char *id, cay_err *err);
/* Those of a sandbox that goes, but for labelled ones; their layers stay while somebody stands on
 * them. */
int cay__checkpoint_drop(cay_client *client, const char *sandbox, cay_err *err);
void cay__checkpoint_unmark(cay_client *client, const char *id);
/* Arms it and takes the first one, so that the first command can be undone. */
int cay__checkpoint_begin(cay_sandbox *sb, const cay_call *call, unsigned keep, cay_err *err);

/* Removes layers that nobody names and that are older than the grace; counts them. */
int cay__layers_sweep(cay_client *client, const cay_call *call, size_t *removed, cay_err *err);
/* Who removes and merges layers, by the name of a provider or "". */
int cay__layers_place(cay_client *client, const char *provider, cay__place **place, void **self,
                      cay_err *err);
/* By the provider, which lets go of what it keeps ready on that layer. */
int cay__layer_drop(cay_client *client, const cay_call *call, const char *layer,
                    const char *provider, cay_err *err);
