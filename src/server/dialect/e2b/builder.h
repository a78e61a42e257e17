/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who does the builds that were asked for: two threads that take them from the queue in the store, so that one which was begun is gone on with
 * by the next server. What is to be built is a file beside the store, below e2b/, as are the archives that were sent for it.
 */
#pragma once
#include <jansson.h>
#include <server/server.h>

#define E2B_BUILD_KIND "e2b-build"

struct e2b_builder;
int  e2b_builder_start(cay_service *svc, struct e2b_builder **out, cay_err *err);
void e2b_builder_stop(struct e2b_builder *b);
struct e2b_builder *cay__server_builder(cay__server *s);
void e2b_builder_wake(struct e2b_builder *b); /* there may be something to do */

/* The directory of both, made when it is not there. */
int  e2b_build_dir(cay_service *svc, int *fd, cay_err *err);
void e2b_archive_name(const char *tenant, const char *hash, char out[200]);
void e2b_recipe_name(const char *build, char out[64]);
int  e2b_recipe_save(cay_service *svc, const char *build, const json_t *o, cay_err *err); /* the whole of it or nothing */
