/* SPDX-License-Identifier: Apache-2.0 */
/* service/mounts.h - the storage that a manifest mounts, opened before the sandbox is made and bound to its life afterwards. */
#pragma once
#include "manifest.h"
#include <storage/storage.h>

#define CAY__AUTOSTORAGE __attribute__((cleanup(cay__storage_close))) cay__storage

/* Before anything is made: a storage mount that this host or provider cannot serve is refused, with the reason. */
int cay__mounts_check(const cay_mount_target *t, const char *provider, cay_err *err);
/* Serves all of f's storage and adds it to c's grants; what it makes lives in mem, and as long as *st is open. */
int cay__mounts_open(cay_service *svc, const cay_call *call, const char *id, const cay__mani *f, cay_create *c, cay__arena *mem, cay__storage *st,
                     cay_err *err);
/* The box is there: storage lives as long as its init. */
int cay__mounts_hold(cay__storage *st, const cay_provider_ops *ops, const char *id, void *box, const cay_call *call, cay_err *err);
