/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/provider.h - the providers there are, and what they share.
 */
#pragma once
#include <cay/sys/provider.h>

/* CAY__PROVIDES(stat) f; declares a function as cay_provider_ops has it. */
#define CAY__PROVIDES(member) __typeof__(*((cay_provider_ops *)0)->member)

/* Who is told of each of several boxes; what is not 0 ends it. */
typedef int cay__on_id(const char *id, void *arg);

extern const cay_provider_ops cay__remote_ops;
extern const cay_provider_ops cay__provider_docker, cay__provider_podman;
extern const cay_provider_ops cay__local;
extern const cay_provider_ops cay__process;
extern const cay_provider_ops cay__provider_native;

/* Ends with NULL. */
extern const cay_provider_ops *const cay__providers[];

/* Directories of boxes, one of each id below `boxes`; .new-ID is being made, .old-ID being removed.
 * list: -1, or what fn gave that was not 0. remove: the box is whole or not there for whoever
 * looks. sweep: what was left half-made or half-gone for a minute; how many went. */
int cay__boxes_list(int boxes, cay__on_id *fn, void *arg);
int cay__boxes_remove(int boxes, const char *id, cay_err *err);
size_t cay__boxes_sweep(int boxes);

/* Runs fn(arg) on a thread of its own that nobody waits for. */
int cay__provider_thread(void *(*fn)(void *), void *arg, cay_err *err);

/* The answer of a probe() op: copies layers and all strings into one block, as cay_probe_free()
 * wants it. */
cay_probe *cay__probe_new(cay_level level, const char *mode, const cay_wall *layers,
                          size_t nlayers);
