/* SPDX-License-Identifier: Apache-2.0 */
/* lib/client/volume.h - which sandbox has which volume. */
#pragma once
#include <cay/volume.h>

/* Before the sandbox is made: every volume it names is there, and stays there as long as the
 * sandbox does. */
int cay__volumes_take(cay_client *client, const cay_call *call, const char *id, const cay_create *c,
                      cay_err *err);
void cay__volumes_forget(cay_client *client, const char *id);

/* Volumes are tenant default's, but for those that builds of a tenant make for its steps: their
 * names begin with this, 16 hex digits of the tenant's SHA-256 and a dot, and nobody else may have
 * them. */
#define CAY__VOLUME_BUILD "build."
int cay__volumes_tenant(const cay_create *c, cay_err *err);
/* Those of its builds go with it: a tenant of the same name is another one. */
void cay__volumes_tenant_gone(cay_client *client, const char *tenant);
