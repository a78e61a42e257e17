/* SPDX-License-Identifier: Apache-2.0 */
/* lib/provider/docker/box.h - one sandbox that is a container. */
#pragma once
#include "docker.h"
#include <lib/provider/native/box_ops.h>
#include <stdatomic.h>

typedef struct cay__docker_box {
    cay__served base;
    cay__docker *d;
    cay__link link; /* to its pid 1 */
    int dir, ctl;   /* docker/ID and its ctl/ */
    atomic_int pid; /* of pid 1 on the host, as the engine told; 0: not known */
    char reason[24];
    cay_wall layers[CAY__DOCKER_LAYERS];
    cay__docker_walls walls;
} cay__docker_box;

/* What the engine says of it now. */
typedef struct cay__docker_view {
    cay_state state; /* CAY_RUNNING, CAY_PAUSED, CAY_STOPPED */
    int pid;
    bool oom;
    char container[72];
} cay__docker_view;

/* box.c */
int cay__docker_box_open(cay__docker *d, const char *id, cay__docker_box **out, cay_err *err);
CAY__PROVIDES(release) cay__docker_release;
CAY_DEFINE_AUTO(cay__docker_box, cay__docker_release)
/* By its labels, to end it: CAY_EGONE, there is none, or it is not ours. all: its words,
 * or NULL. */
int cay__docker_find(cay__docker_box *b, const cay_call *call, cay__docker_view *out, json_t **all,
                     cay_err *err);
/* To use it: CAY_EGONE as well when it has a network that it was made without. */
int cay__docker_look(cay__docker_box *b, const cay_call *call, cay__docker_view *out, json_t **all,
                     cay_err *err);
/* "/containers/REF" and what follows. */
void cay__docker_at(const cay__docker_box *b, cay__buf *path, const char *rest);
CAY__PROVIDES(create) cay__docker_create;
CAY__PROVIDES(start) cay__docker_start;
int cay__docker_remove(cay__docker *d, const cay_call *call, const char *id,
                       cay_err *err); /* container and files */
int cay__docker_noted(const cay__docker_box *b, char *container,
                      size_t cap); /* its pid, or 0; container as it was where nothing is noted */
int cay__docker_note(cay__docker_box *b, const char *container,
                     cay_err *err); /* it and pid, for every handle from now on */
/* Runs its container, unless that runs, and comes back when its pid 1 answers. */
int cay__docker_bring_up(cay__docker_box *b, const cay_call *call, const cay_create *spec,
                         bool runs, cay_err *err);

/* reach.c */
int cay__docker_dial(void *arg, const cay_call *call, int *sock, cay_err *err);
int cay__docker_reach(cay__docker_box *b, int *sock, int *pid,
                      cay_err *err); /* without asking the engine; CAY_EGONE: nobody listens, or
                                        with *pid -1 too many wait already */
int cay__docker_judge(cay__docker_box *b, const cay_call *call, int pid,
                      cay_err *err); /* is that who the engine calls its first process? */
int cay__docker_ready(void *arg, cay_err *err); /* CAY_ESTATE when it is paused */
int cay__docker_engine(const cay__docker *d, cay__engine **out, cay_err *err);

/* door.c */
int cay__docker_door(
    cay__docker_box *b, int *out,
    cay_err *err); /* where pid 1 fetches what it may write, until the descriptor is closed */
bool cay__docker_door_wait(cay__docker_box *b, const cay_call *call, int door,
                           int ms); /* true: it has come, and listens */

/* far.c: boxes whose walls.far is set. */
int cay__docker_far_check(const cay__docker_options *o, const cay__engine_info *info, cay_err *err);
int cay__docker_far_put(cay__docker_box *b, const cay_call *call,
                        cay_err *err); /* before each start */
int cay__docker_far_dial(cay__docker_box *b, const cay_call *call, int *sock, cay_err *err);
int cay__docker_far_connect(cay__docker_box *b, const cay_call *call, uint16_t port, int *fd,
                            cay_err *err);
bool cay__docker_far_meta(cay__docker_box *b, const cay_call *call, local_meta *out);

/* life.c */
CAY__PROVIDES(status) cay__docker_status;
CAY__PROVIDES(pause) cay__docker_pause;
CAY__PROVIDES(resume) cay__docker_resume;
CAY__PROVIDES(stop) cay__docker_stop;
CAY__PROVIDES(wait) cay__docker_wait;

/* volume.c: storage is the client's word, [{"target","read_only","driver","options"}], or NULL. */
void cay__docker_volumes_show(json_t *mounts, const char *storage,
                              const char *id);       /* in the container's request */
int cay__docker_volumes_mark(int dir, cay_err *err); /* there may be some from now on */
int cay__docker_volumes_make(cay__docker_box *b, const cay_call *call, const char *storage,
                             cay_err *err);
/* What the engine has with our label, or with that of sandbox id: what is its path, up to the
 * filters. */
int cay__docker_labelled(cay__docker *d, const cay_call *call, const char *what, const char *id,
                         json_t **out, cay_err *err);
void cay__docker_volumes_redact(const char *storage, cay_err *err);
void cay__docker_volumes_remove(cay__docker *d, const cay_call *call, const char *id);
size_t cay__docker_volumes_reap(cay__docker *d, const cay_call *call);

/* Snapshots as images of the engine, and going back to one. */

#define CAY__DOCKER_LAYER "io.cay.layer" /* label of an image: which layer it is */

CAY__PROVIDES(snapshot) cay__docker_snapshot;
CAY__PROVIDES(restack) cay__docker_restack;
CAY__PROVIDES(layer_remove) cay__docker_layer_remove;
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
