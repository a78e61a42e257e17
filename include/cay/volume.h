/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/volume.h - named directories that outlive sandboxes and are shown in any number of them at
 * once.
 *
 *   cay_volume_create()  make one
 *   cay_volume_find()    one, with what it holds and who uses it
 *   cay_volume_list()    all of them
 *   cay_volume_remove()  remove it with all that is in it
 *
 *   cay_sandbox_mount()    a bucket into a sandbox that runs
 *   cay_sandbox_unmount()  and away again
 *
 * cay_create.files.volumes shows them inside. They belong to the sandboxes' user 1000 whichever
 * sandbox looks, are never part of a snapshot, and count in no sandbox's disk limit. Calls may
 * block.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAY_VOLUME_NAME                                                                            \
    48 /* longest name: letters, digits, '.', '_', '-', beginning with a letter or digit */

typedef struct cay_volume {
    size_t size;
    const char *name, *provider;
    uint64_t limit;    /* bytes; 0: none */
    const char *quota; /* "on": the kernel holds the limit; "soft": it is only watched; "none" */
    uint64_t used, inodes;
    int64_t created_ms; /* wall clock */
    const char *const
        *users; /* ids of the sandboxes that have it, stopped ones too; NULL-terminated */
    size_t nusers;
} cay_volume;
typedef int cay_volume_fn(const cay_volume *volume, void *arg);

typedef struct cay_volume_spec {
    size_t size;
    const char *name;
    const char *provider; /* NULL: the client's default */
    uint64_t limit;       /* bytes; 0: none */
    const char *once; /* a word of one time, at most 320 bytes: one of this name that was made with
                         it is the one, and no error; or NULL */
    bool hard; /* the kernel has to hold the limit: by project quota, or else in a disk image of
                  that size */
} cay_volume_spec;

/* CAY_EEXIST when the name is taken, CAY_ENOTSUP where the provider has no volumes, CAY_EISOLATION,
 * reason "feature_missing", where a limit that has to hold cannot. */
CAY_API int cay_volume_create(cay_client *client, const cay_call *call, const cay_volume_spec *spec,
                              cay_err *err);
/* The caller frees the answer with cay_volume_free(). */
CAY_API int cay_volume_find(cay_client *client, const cay_call *call, const char *name,
                            cay_volume **out, cay_err *err);
CAY_API void cay_volume_free(cay_volume *v);
/* By name; a non-zero return of fn stops and is returned. */
CAY_API int cay_volume_list(cay_client *client, const cay_call *call, cay_volume_fn *fn, void *arg,
                            cay_err *err);
/* CAY_EBUSY, reason "volume_used", naming a sandbox, while one has it. */
CAY_API int cay_volume_remove(cay_client *client, const cay_call *call, const char *name,
                              cay_err *err);

/* Storage of others, served by rclone outside of the sandbox and shown inside; keys enter neither
 * it nor any record. As root, with provider native, rclone and /dev/fuse: else CAY_ENOTSUP with the
 * remedy. */
typedef struct cay_mount {
    size_t size;
    const char *type;   /* "s3_mount", "r2_mount", "gcs_mount", "azure_blob_mount", "box_mount" */
    const char *target; /* absolute path of a directory that is there, not behind a link, and not
                           the system's own */
    const char *fields; /* JSON object: what a manifest's entry of that type has
                           (docs/session-state.md), keys as they are */
    bool rw;
} cay_mount;
/* What can be said of target before anything is done. CAY_EINVAL, reason "mount_target". */
CAY_API int cay_mount_check(const cay_mount *spec, cay_err *err);
/* It is there until it is taken away or the sandbox stops; a snapshot has nothing of it. CAY_EEXIST
 * when something of this kind is on target. */
CAY_API int cay_sandbox_mount(cay_sandbox *sb, const cay_call *call, const cay_mount *spec,
                              cay_err *err);
/* Returns when all that was written is brought away. CAY_ENOENT when nothing was mounted there by
 * cay_sandbox_mount(). */
CAY_API int cay_sandbox_unmount(cay_sandbox *sb, const cay_call *call, const char *target,
                                cay_err *err);

#ifdef __cplusplus
}
#endif
