/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds that were asked for: jobs of the queue in the store, done by the server's builders
 * (server/builders.h) in turns with those of other protocols, so that one which was begun is gone
 * on with by the next server. What is to be built is a file beside the store, below e2b/, as are
 * the archives that were sent for it.
 */
#pragma once
#include <jansson.h>
#include <server/http/server.h>

#define E2B_BUILD_KIND "e2b-build"

/* Does one that waits, as cay_build_work() does: 1 there was one, 0 there was none. Stopped by the
 * call it is left to who comes next. */
int e2b_build_work(cay_client *client, const cay_call *call, const char *owner, cay_err *err);
void e2b_build_sweep(cay_client *client); /* what nobody asked for in a month */

/* The directory of both, made when it is not there. */
int e2b_build_dir(cay_client *client, int *fd, cay_err *err);
void e2b_archive_name(const char *tenant, const char *hash, char out[200]);
void e2b_recipe_name(const char *build, char out[64]);
int e2b_recipe_save(cay_client *client, const char *build, const json_t *o,
                    cay_err *err); /* the whole of it or nothing */
