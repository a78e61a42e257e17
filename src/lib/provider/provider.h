/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/provider.h - the providers there are, and what they share.
 */
#pragma once
#include <cay/sys/provider.h>

/* CAY__PROVIDES(stat) f; declares a function as cay_provider_ops has it. */
#define CAY__PROVIDES(member) __typeof__(*((cay_provider_ops *)0)->member)

extern const cay_provider_ops cay__remote_ops;
extern const cay_provider_ops cay__provider_docker, cay__provider_podman;
extern const cay_provider_ops cay__local;
extern const cay_provider_ops cay__process;
extern const cay_provider_ops cay__provider_native;

/* Ends with NULL. */
extern const cay_provider_ops *const cay__providers[];

/* The answer of a probe() op: copies layers and all strings into one block, as cay_probe_free()
 * wants it. */
cay_probe *cay__probe_new(cay_level level, const char *mode, const cay_wall *layers,
                          size_t nlayers);
