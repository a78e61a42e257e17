/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/template/image.h - images: what their documents say, and how their layers become ours.
 *
 *   cay__image_read()     an index or manifest: the next one to ask for, or config and layers
 *   cay__image_config()   an image's config as a template's
 *   cay__image_make()     layers and record of a template
 *   cay__members_read()   what a plain tar has, by name and place
 *
 * Documents come from strangers: image-spec 1.1 manifest.md, image-index.md, config.md; Docker's
 * manifest v2, schema 2.
 */
#pragma once
#include "template.h"

#define CAY__IMAGE_LAYERS  127
#define CAY__IMAGE_DOC_MAX (4u << 20) /* bytes of a manifest or config */
/* Name of a layer → {"chain","bytes","files","opaque","by"}: it is whole; by: tenants that have
 * brought its bytes. */
#define CAY__NOTE_LAYER "layer"
#define CAY__BLOBS_DIR  "blobs"

typedef struct cay__blob {
    char digest[72]; /* "sha256:…" */
    uint64_t size;
} cay__blob;

typedef struct cay__image {
    bool index; /* `next` is to be read, the rest is empty */
    cay__blob next;
    cay__blob config;
    cay__blob layers[CAY__IMAGE_LAYERS];
    size_t n;
    char diff_id[CAY__IMAGE_LAYERS][72]; /* as the config says */
    char digest[72];                     /* of the manifest, when it is known */
    char *text;                          /* the template's config; the caller frees */
} cay__image;

/* platform: "os/architecture[/variant]"; NULL: this machine's. */
int cay__image_read(const char *text, size_t len, const char *platform, cay__image *out,
                    cay_err *err);
/* Fills diff_id and text. */
int cay__image_config(const char *text, size_t len, cay__image *im, cay_err *err);
void cay__image_platform(char *out, size_t cap);
bool cay__digest_ok(const char *s);
/* Fills *out from so many bytes, or all there are, from `at` on; where an OCI layout has it. */
int cay__blob_digest(int fd, uint64_t at, uint64_t size, cay__blob *out, const char *what,
                     cay_err *err);
void cay__blob_path(const char *digest, char out[100]);

typedef struct cay__image_member {
    char name[256];
    uint64_t at, size;
} cay__image_member;
typedef struct cay__members {
    cay__image_member *v;
    size_t n;
} cay__members;
/* Regular files of a tar that is not compressed, in their order, as far as it is sound; *out is
 * empty when it is no tar. At most 10,000. */
int cay__members_read(int fd, cay__members *out, cay_err *err);
const cay__image_member *cay__members_find(const cay__members *m, const char *name);
void cay__members_clear(cay__members *m);

typedef struct cay__image_spec {
    const char *tenant, *source;
    const char *const *names;
    bool hidden;
    /* The bytes of layer i, from the beginning. Who gives them has seen that their digest is the
     * one that names the layer: that is the proof by which a tenant gets one that is here already.
     */
    int (*blob)(void *arg, size_t i, int *fd, cay_err *err);
    void *arg;
    int (*progress)(const cay_template_progress *p, void *arg);
    void *progress_arg;
} cay__image_spec;
int cay__image_make(cay_client *client, const cay_call *call, const cay__image_spec *spec,
                    const cay__image *im, cay_template **out, cay_err *err);
/* Blobs of pulls that nobody came back to for a day; template_pull.c. */
void cay__blobs_sweep(cay_client *client);
/* Nobody removes layers of images meanwhile. Close it. */
int cay__layers_lock(cay_client *client, bool remove, int *fd, cay_err *err);
/* Which of its layers the tenant has to bring: they are not here, or not for it. */
int cay__image_missing(cay_client *client, const char *tenant, const cay__image *im, bool *missing,
                       cay_err *err);
