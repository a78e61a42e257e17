/* SPDX-License-Identifier: Apache-2.0 */
/* lib/provider/docker/snapshot.h - snapshots as images of the engine, and going back to one. */
#pragma once
#include "box.h"

#define CAY__DOCKER_LAYER "io.cay.layer" /* label of an image: which layer it is */

int cay__docker_snapshot(void *box, const cay_call *call, const cay_snap *spec, cay_snapped *out,
                         cay_err *err);
int cay__docker_restack(void *box, const cay_call *call, const char *const *layers, size_t n,
                        cay_err *err);
int cay__docker_layer_remove(void *self, const cay_call *call, const char *layer, cay_err *err);
/* What a crash left of them; how many went. */
size_t cay__docker_layers_reap(cay__docker *d, const cay_call *call);

/* The image to start from; asked: what the request names, or NULL. CAY_EGONE "snapshot_gone": the
 * engine has it no more. */
int cay__docker_layer_image(cay__docker *d, const cay_call *call, const char *layer,
                            const char *asked, cay__docker_image *out, cay_err *err);
/* What a container was made by, kept for the one that takes its place; dir: the sandbox's. */
int cay__docker_request_write(int dir, const cay__docker_image *image, json_t *body, cay_err *err);
/* A container of sandbox id, as the engine lists it, that another one has taken the place of, or
 * that never took it: is it removed? Not one that somebody may be making just now. */
bool cay__docker_remove_other(cay__docker *d, const cay_call *call, const char *id,
                              const json_t *listed);
/* All that was ever put in the place of another, when the sandbox goes. */
void cay__docker_remove_others(cay__docker *d, const cay_call *call, const char *id);
