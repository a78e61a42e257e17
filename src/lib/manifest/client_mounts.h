/* SPDX-License-Identifier: Apache-2.0 */
/* lib/manifest/client_mounts.h - the storage that a manifest mounts, opened before the sandbox is
 * made and bound to its life afterwards. */
#pragma once
#include "client_manifest.h"
#include "storage.h"

#define CAY__AUTOSTORAGE __attribute__((cleanup(cay__storage_close))) cay__storage

/* The storage of a manifest, keys and all; deepest first. */
typedef struct cay__mount_list {
    cay_client *client;
    const cay__mani *f;
    cay__arena *mem;
    cay__storage_mount m[CAY__STORAGE_MOST + 1];
    size_t n;
    cay_err *err;
} cay__mount_list;
#define CAY__AUTOMOUNTS __attribute__((cleanup(cay__mounts_clear))) cay__mount_list
int cay__mounts_read(cay__mount_list *l);
void cay__mounts_clear(cay__mount_list *l);
/* Is it one whose containers mount storage themselves? */
bool cay__mounts_by_container(const char *provider);
/* Strategy docker_volume: a driver of the engine mounts it, before the container starts. */
bool cay__mounts_by_engine(const cay__storage_mount *m);
/* Does this provider's container mount some of f's itself, each time it starts? */
bool cay__mounts_wants_inside(const cay__mani *f, const char *provider);
/* mounts_volume.c: what a driver of the engine mounts, as
 * [{"target":…,"read_only":…,"driver":…,"options":{…}}]; *out "" when there is none. */
int cay__mounts_volumes(const cay__mount_list *l, const char *id, const char **out);
/* A key of l that has to stay away from root inside, and whose it is; NULL: none has. */
const char *cay__mounts_exposed(const cay__mount_list *l, const char **entry);
int cay__mounts_refuse(const char *entry, const char *key, cay_err *err); /* "mount_credentials" */
/* By what it is called alone. */
bool cay__mounts_is_root(const char *user);
/* mounts_inside.c: all of f's storage, by programs of the container that runs for c. Nobody else
 * works in it yet. */
int cay__mounts_inside(cay_client *client, const cay_call *call, const char *id, const cay__mani *f,
                       const cay__spec *s, const cay_provider_ops *ops, void *box, cay_err *err);
/* Is there storage (fuse, nfs) on top at path, by the text of a mountinfo? dev: its device, as in
 * there. */
bool cay__mounts_seen(const char *mountinfo, const char *path, char *dev, size_t cap);
/* create.c: what a box that was made (fresh) or started needs before anybody works in it. plain:
 * the request `whole` with what its manifest adds, and without secrets. */
int cay__box_fill(cay_client *client, const cay_call *call, const cay_provider_ops *ops,
                  const char *id, const cay_create *whole, const cay__spec *plain,
                  const cay__mani *f, cay__storage *storage, bool fresh, void *box, cay_err *err);

/* Before anything is made: a storage mount that this host or provider cannot serve is refused, with
 * the reason. */
int cay__mounts_check(const cay_mount_target *t, const char *provider, cay_err *err);
/* Serves all of f's storage and adds it to c's grants; what it makes lives in mem, and as long as
 * *st is open. */
int cay__mounts_open(cay_client *client, const cay_call *call, const char *id, const cay__mani *f,
                     cay__spec *s, cay__storage *st, cay_err *err);
/* The box is there: storage lives as long as its init. */
int cay__mounts_hold(cay__storage *st, const cay_provider_ops *ops, const char *id, void *box,
                     const cay_call *call, cay_err *err);
