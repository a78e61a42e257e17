/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds that were asked for: jobs of the queue in the store, done by the server's builders
 * (server/background.h) in turns with those of other protocols, so that one which was begun is gone
 * on with by the next server. What is to be built is a file beside the store, below e2b/, as are
 * the archives that were sent for it.
 */
#pragma once
#include <server/http/server.h>

#define E2B_BUILD_KIND "e2b-build"

/* Does one that waits, as cay_build_run_next() does: 1 there was one, 0 there was none. Stopped by
 * the call it is left to who comes next. */
int e2b_build_work(cay_client *client, const cay_call *call, const char *owner, cay_err *err);
void e2b_build_sweep(cay_client *client); /* what nobody asked for in a month */

/* The directory of both, made when it is not there. */
int e2b_build_dir(cay_client *client, int *fd, cay_err *err);
void e2b_archive_name(const char *tenant, const char *hash, char out[200]);
/* *out NULL: it is not there any more, or too long. */
int e2b_recipe_load(cay_client *client, const char *build, json_t **out, cay_err *err);
int e2b_recipe_save(cay_client *client, const char *build, const json_t *o,
                    cay_err *err); /* the whole of it or nothing */

/* Accounts of registries as the SDK names them: AWS's is asked for a password by its keys, Google's
 * is one by itself. */

/* USER:PASSWORD of a `fromImageRegistry`, of whichever type. */
int e2b_registry_login(cay_client *client, const cay_call *call, const json_t *registry,
                       cay__buf *out, cay_err *err);
