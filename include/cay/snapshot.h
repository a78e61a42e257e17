/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/snapshot.h - a workspace that is kept: saved, branched, taken back.
 *
 *   cay_sandbox_snapshot()   save it as it is now         cay_client_snapshots()  those there are
 *   cay_client_fork()       N sandboxes from one         cay_snapshot_remove()    forget one
 *   cay_sandbox_undo()       back to a snapshot           cay_client_maintain()     what may wait
 *   cay_client_export()     as an archive                cay_client_import()     and back
 *   cay_snapshot_rename()    another label
 *
 * A snapshot is a stack of immutable layers, of which most are shared with others; making one costs
 * the same however many files there are, when no process of the sandbox is running. It outlives its
 * sandbox. docs/layers.md tells how.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_snapshot {
    size_t size;
    const char *id, *sandbox;
    const char *parent;   /* the one before it, which may be gone; "" without */
    const char *label;    /* unique, or "" */
    const char *metadata; /* JSON object or "" */
    const char *method;   /* how it was made: "swap", "btrfs", "reflink", "copy", "import"; "image":
                             copied out of a disk image */
    const char *digest;   /* "sha256:…" of its own layer; "" until it is settled */
    const char *provider, *template_;
    bool durable;          /* on the disk for sure */
    bool maybe_incomplete; /* the machine went down before it was: files may be cut */
    bool automatic;        /* a checkpoint after a command */
    int64_t created_ms;
    uint64_t bytes,
        files; /* of its own layer: at once where the method counts them, else once it is settled */
    uint64_t frozen_us, total_us;
    size_t depth; /* layers above the template */
    size_t users; /* sandboxes standing on it */
    const char *tenant;
} cay_snapshot;
typedef int cay_snapshot_fn(const cay_snapshot *snapshot, void *arg);

typedef struct cay_snapshot_spec {
    size_t size;
    const char *label;    /* 1 to 63 letters, digits, '.', '_', '-'; no other snapshot has it */
    const char *metadata; /* one JSON object, or NULL */
    bool quiet;       /* CAY_EBUSY, reason "processes_running", rather than while processes run */
    bool stop;        /* where processes cannot be frozen they are stopped by signals meanwhile */
    const char *once; /* a word of the caller's: of this sandbox the same word gives the same
                         snapshot as long as that is there; NULL: a new one each time */
} cay_snapshot_spec;

/* A stopped sandbox is started for it and stopped again. Free the answer with cay_snapshot_free().
 */
CAY_API int cay_sandbox_snapshot(cay_sandbox *sb, const cay_call *call,
                                 const cay_snapshot_spec *spec, cay_snapshot **out, cay_err *err);
CAY_API void cay_snapshot_free(cay_snapshot *s);
/* ref: an id, its beginning if only one has that, or a label of tenant default. */
CAY_API int cay_client_snapshot(cay_client *client, const cay_call *call, const char *ref,
                                cay_snapshot **out, cay_err *err);
/* Only among those of one tenant; NULL: ids of all, labels of tenant default. */
CAY_API int cay_client_snapshot_of(cay_client *client, const cay_call *call, const char *tenant,
                                   const char *ref, cay_snapshot **out, cay_err *err);

typedef struct cay_snapshot_filter {
    size_t size;
    const char *sandbox; /* id; NULL: of all */
    const char *label;   /* or NULL */
    const char *after; /* id after which to continue, or ID.CREATED_MS, which goes on also when that
                          one is gone; or NULL */
    size_t limit;      /* 0: all */
    const char *tenant; /* or NULL: of all */
} cay_snapshot_filter;
/* Oldest first; a non-zero return of fn stops and is returned. */
CAY_API int cay_client_snapshots(cay_client *client, const cay_call *call,
                                 const cay_snapshot_filter *filter, cay_snapshot_fn *fn, void *arg,
                                 cay_err *err);
/* The record goes at once. Layers that others stand on stay until the last of them is gone;
 * *deferred tells. */
CAY_API int cay_snapshot_remove(cay_client *client, const cay_call *call, const char *ref,
                                bool *deferred, cay_err *err);

/* Another label, or none by "". As at its making: 1 to 63 letters, digits, '.', '_', '-', and
 * CAY_EEXIST, "label_in_use". */
CAY_API int cay_snapshot_rename(cay_client *client, const cay_call *call, const char *ref,
                                const char *label, cay_err *err);

typedef struct cay_fork {
    size_t size;
    size_t n;               /* 0: one; at most 1000 */
    const char *name;       /* of the first; others get -2, -3, …; NULL: none has one */
    const cay_pair *labels; /* instead of those it had; NULL: the same */
    uint64_t ttl_ms;        /* 0: as it was */
    const char *once; /* a word of the caller's: with the same word the same sandboxes are told
                         again; NULL: new ones each time */
} cay_fork;
/* from: a sandbox, which is snapshotted first, or a snapshot. Each gets its own id, host name,
 * machine id, network and tokens; what else the sandbox was asked to be stays. All or none are
 * made; then fn gets each, with a reference that is given back afterwards. */
CAY_API int cay_client_fork(cay_client *client, const cay_call *call, const char *from,
                            const cay_fork *spec, int (*fn)(cay_sandbox *, void *), void *arg,
                            cay_err *err);

/* Processes end, what was written since goes; id, network and ports stay. to: a snapshot of this
 * sandbox or one that it descends from. NULL: the last one; when that is the checkpoint after the
 * last command, the one before it. */
CAY_API int cay_sandbox_undo(cay_sandbox *sb, const cay_call *call, const char *to,
                             cay_snapshot **out, cay_err *err);
/* What kept the last automatic checkpoint of this handle from being made; 0 when nothing did. */
CAY_API int cay_sandbox_checkpoint_error(cay_sandbox *sb, cay_err *err);

/* What snapshots leave for later: bringing them to the disk, digests, merging deep stacks, removing
 * layers that nobody names. The command line does it after its answer; other programs call it now
 * and then, on a thread that may wait. One program at a time does it; another one returns at once.
 */
CAY_API int cay_client_maintain(cay_client *client, const cay_call *call, cay_err *err);
/* Is there anything for it to do that nobody is at? Cheap. */
CAY_API bool cay_client_needs_maintenance(cay_client *client);

typedef struct cay_export {
    size_t size;
    const char *ref; /* a snapshot, or a sandbox, of which one is taken for it */
    const char
        *since; /* a snapshot: only what changed after it; NULL: all that is above the template */
    const char *format; /* "cay" (tar.zst), "tar" (the workspace, as the Agents SDK keeps it), "js"
                           (as its JavaScript does); NULL: "cay" */
    int (*progress)(uint64_t files, uint64_t bytes,
                    void *arg); /* now and then; not 0 stops. May be NULL */
    void *arg;
} cay_export;
typedef struct cay_archived {
    size_t size;
    char digest[72]; /* "sha256:…" of what is in it */
    uint64_t files, bytes;
} cay_archived;
/* Writes it to fd. The layers are checked against their digests first: "snapshot_damaged". out may
 * be NULL. */
CAY_API int cay_client_export(cay_client *client, const cay_call *call, const cay_export *spec,
                              int fd, cay_archived *out, cay_err *err);

typedef struct cay_import {
    size_t size;
    const char *label;    /* of the new snapshot, or NULL */
    const char *metadata; /* one JSON object; NULL: what the archive has */
    int (*progress)(uint64_t files, uint64_t bytes, void *arg);
    void *arg;
    const char *root; /* the directory of this host that it may stand on, when it was made with
                         cay_create.from.root; else "import_root" */
} cay_import;
/* Reads one of those three kinds from fd; it is judged inside a sandbox, and its digest is checked.
 * A difference needs the snapshot that it was made from: CAY_ENOENT, "parent_missing"; CAY_EINVAL,
 * "parent_differs". A foreign archive becomes /workspace. All or nothing. Free the answer. */
CAY_API int cay_client_import(cay_client *client, const cay_call *call, const cay_import *spec,
                              int fd, cay_snapshot **out, cay_err *err);

/* To and from a store: a directory, an http or https URL (PUT and GET; a header by `auth`), or
 * s3://BUCKET/KEY by rclone. url names one archive; a directory gets one named by the snapshot's
 * id. *where (may be NULL): its URL or path; the caller frees. */
typedef struct cay_transfer {
    size_t size;
    const char *url;
    const char *auth; /* where the value of the Authorization header is: "env:…", "file:…", "cmd:…",
                         "store:…"; or NULL */
} cay_transfer;
CAY_API int cay_snapshot_push(cay_client *client, const cay_call *call, const cay_export *spec,
                              const cay_transfer *to, char **where, cay_archived *out,
                              cay_err *err);
CAY_API int cay_snapshot_pull(cay_client *client, const cay_call *call, const cay_import *spec,
                              const cay_transfer *from, cay_snapshot **out, cay_err *err);
/* Bytes of any kind to such a store, and back: whole or not at all. A path names a file. CAY_ENOENT
 * when there is nothing; *data is malloc'ed and ends with a NUL. */
CAY_API int cay_store_put(cay_client *client, const cay_call *call, const cay_transfer *to,
                          const void *data, size_t len, cay_err *err);
CAY_API int cay_store_get(cay_client *client, const cay_call *call, const cay_transfer *from,
                          size_t max, char **data, size_t *len, cay_err *err);

#ifdef __cplusplus
}
#endif
