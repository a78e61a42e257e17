/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/docker/docker.h - containers of an engine that people run already, with our own pid
 * 1 in them.
 *
 *   engine.c   the engine's API
 *   errors.c   what its errors mean
 *   options.c  what a request may choose
 *   image.c    found, pulled, judged
 *   build.c    built of a Dockerfile
 *   auth.c     who pulls
 *   spec.c     a request as a container
 *   box.c      one sandbox's life
 *   reach.c    the way to its pid 1
 *   docker.c   the tables; all sandboxes
 *   volume.c  storage that the engine mounts
 *   walls.c  what it is worth
 *   where.c  where an engine is
 *   pid1.c   cay-pid1: what answers inside
 *   far.c    the way without a shared directory: tunnel.c and demux.c over the engine's exec, to
 *            relay.c, cay-pid1's other end
 *
 * On disk, below the state directory, docker/ID/ (podman/ID/):
 *     ctl/       shown in the container at /.cay/ctl: config, meta (proto/local_record.h), procs,
 *                sock
 *     container  the engine's id of it, and the pid of its first process
 * docker/owner is a random word that our containers carry in a label: one without it is nobody we
 * touch. docker/.up/ID is made anew when a sandbox begins to run, which is how events find it.
 */
#pragma once
#include "engine.h"
#include <base/fsop.h>
#include <cay/sys/provider.h>
#include <proto/local_record.h>

#define CAY__DOCKER_OWNER   "io.cay.owner"   /* labels: proof that it is ours, */
#define CAY__DOCKER_SANDBOX "io.cay.sandbox" /* and which sandbox */
#define CAY__DOCKER_UP      ".up"

/* One engine's habits. */
typedef struct cay__docker_kind {
    const char *name;             /* of the provider, and of its directory */
    const char *env;              /* variable that names the socket */
    const char *sock, *user_sock; /* where it is as root; below $XDG_RUNTIME_DIR */
} cay__docker_kind;

typedef struct cay__docker {
    const cay__docker_kind *kind;
    char *home, *libexec;
    int boxes; /* docker/ */
    char dir[4096];
    char owner[40];
    cay__engine *engine;
    cay_err engine_err; /* why there is none */
    bool known; /* what the engine said when the last sandbox was made, for who only wants to know
                   how one is */
    cay__engine_info info;
} cay__docker;

/* docker.c: the directory and the word in it; made when the first sandbox is. */
int cay__docker_home(cay__docker *d, cay_err *err);

/* Notes it for those who come later. */
void cay__docker_know(cay__docker *d, const cay__engine_info *info);

/* options.c: what is this provider's alone; strings are the request's. */
typedef struct cay__docker_options {
    const char *transport, *image, *pull, *network, *publish, *cap_add, *seccomp, *runtime,
        *volumes, *platform, *dockerfile, *build_args;
    bool read_only;
    /* The client's own words, in no list of a request's: */
    bool mounts, fuse; /* its manifest has storage that is mounted inside: that needs SYS_ADMIN; and
                          /dev/fuse */
    const char *storage; /* its manifest has storage that the engine mounts: JSON, volume.c */
} cay__docker_options;
extern const char *const cay__docker_option_names[];
bool cay__docker_storage(const cay_create *c); /* the client's word mounts is there */
int cay__docker_options_read(const cay_box_spec *spec, cay__docker_options *out, cay_err *err);

/* image.c */
typedef struct cay__docker_image {
    char id[80];
    json_t *config; /* its Config */
    char *of;       /* what it was called when it was asked for; from malloc() */
} cay__docker_image;
void cay__docker_image_clear(cay__docker_image *i);
int cay__docker_image_find(cay__engine *e, const cay_call *call, const cay__docker_options *o,
                           const cay_create *c, cay__docker_image *out, cay_err *err);
/* list: [TENANT=]PATTERN with commas, as of fnmatch(3); may be NULL. */
bool cay__docker_image_listed(const char *list, const char *tenant, const char *image);
/* One that the engine has, by its name or id. */
int cay__docker_image_seen(cay__engine *e, const cay_call *call, const char *ref,
                           cay__docker_image *out, cay_err *err);
/* build.c: the one that option dockerfile is about. CAY_ENOENT "dockerfile_not_found"; CAY_EINVAL
 * "dockerfile_invalid", "build_failed". */
int cay__docker_build(cay__docker *d, const cay_call *call, const cay__docker_options *o,
                      const cay_create *c, cay__docker_image *out, cay_err *err);
/* Calls c->progress, if there is one; text is untrusted. */
void cay__docker_making(const cay_create *c, const char *what, const char *text, size_t n,
                        bool brief);
/* The same of what an engine says of a pull, if the line is about one. */
void cay__docker_making_line(const cay_create *c, const json_t *line);
/* auth.c: the X-Registry-Auth of an image's registry by the user's Docker configuration and its
 * credential helpers; *out from malloc(), "" when there is none. CAY_ENOENT, "credential_helper":
 * the configuration names one that cannot be run. */
int cay__docker_auth(const cay_call *call, const char *image, char **out, cay_err *err);
void cay__docker_registry(const char *image, char *out, size_t cap);

/* spec.c: pure. */
typedef struct cay__docker_place {
    const char *id, *owner, *ctl, *pid1; /* ctl, pid1: paths of the host */
    bool far;                            /* of no use: the engine does not see them */
} cay__docker_place;
int cay__docker_spec(const cay_create *c, const cay__docker_options *o,
                     const cay__docker_image *image, const cay__engine_info *engine,
                     const cay__docker_place *at, json_t **out, cay_err *err);
/* What pid 1 reads. */
int cay__docker_config(const cay_box_spec *spec, const cay__docker_image *image, cay__buf *out,
                       cay_err *err);
/* Refuses what an engine cannot keep. */
int cay__docker_check(const cay_create *c, const cay__docker_options *o,
                      const cay__engine_info *engine, cay_err *err);

/* walls.c: what a request took out of them, kept in docker/ID/walls. */
typedef struct cay__docker_walls {
    char caps[200], seccomp[12], network[128]; /* as asked for */
    bool far;                                  /* reached by the engine: far.c */
    bool opened;                               /* root inside is not held by the engine any more */
    char why_caps[300], why_net[200];
} cay__docker_walls;
void cay__docker_walls_of(const cay__docker_options *o, cay__docker_walls *out);
int cay__docker_walls_save(int dir, const cay__docker_walls *w, cay_err *err);
void cay__docker_walls_load(int dir, cay__docker_walls *out);
#define CAY__DOCKER_LAYERS 24
/* w NULL: nothing. What is told points into w. */
size_t cay__docker_layers(const cay__engine_info *i, const cay__docker_walls *w, cay_wall *out,
                          size_t max);
cay_level cay__docker_level(const cay__engine_info *i, const cay__docker_walls *w);
bool cay__docker_has_quota(const cay__engine_info *i);
