/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/template/template.h - templates from inside: names, records, and how a request comes to stand
 * on one.
 */
#pragma once
#include <lib/client/client.h>
#include <lib/snapshot/snapshot.h>
#include <cay/template.h>
#include <jansson.h>

#define CAY__BASE_HOST                                                                             \
    "host" /* what a sandbox's record calls its template: what is below its layers */
#define CAY__BASE_IMAGE "image"

CAY_DEFINE_AUTO(cay_template, cay_template_free)

/* A reference taken apart. */
typedef struct cay__tname {
    char host[256];  /* "docker.io" when none is named */
    char path[256];  /* "library/python" */
    char tag[130];   /* "" with a digest and no tag */
    char digest[72]; /* "sha256:…" or "" */
    bool named_host; /* the reference says it */
    bool named_tag;
} cay__tname;
/* CAY_EINVAL, "template_name". */
int cay__tname_parse(const char *ref, cay__tname *out, cay_err *err);
/* As it is kept: without docker.io/ and library/, with a tag or a digest. */
void cay__tname_text(const cay__tname *n, char out[CAY_TEMPLATE_NAME + 1]);
#define CAY__TEMPLATE_NAMES 32 /* most of one template */
int cay__tname_clean(const char *ref, char out[CAY_TEMPLATE_NAME + 1], cay_err *err);

cay_template *cay__template_new(const cay_template_row *row);
/* To be filled: what it points to goes into *mem. cay_template_free() frees both. */
cay_template *cay__template_blank(cay__arena **mem);
/* The record becomes one that counts; layers that are gone meanwhile are CAY_EBUSY, "layers_gone",
 * and nothing is recorded. */
int cay__template_record(cay_client *client, const cay_call *call, cay_template_row *row,
                         const char *const *names, cay_template **out, cay_err *err);

/* Layers of base image show directories, or nothing, where a sandbox's own mounts and files go:
 * CAY_EINVAL, "image_root", names the one that is none. */
int cay__template_root_check(const cay_client *client, const char *base, const char *layers,
                             cay_err *err);

#define CAY__NOTE_LAYER_BYTES "layer-bytes" /* name of a layer that is no image's → its bytes */
/* What the tenant's templates may have and have; most 0: no bound. */
int cay__template_left(cay_client *client, const char *tenant, uint64_t *most, uint64_t *used,
                       cay_err *err);
/* CAY_ERATE, "quota_exceeded": so many more do not fit. */
int cay__template_fits(cay_client *client, const char *tenant, uint64_t more, cay_err *err);
/* Before a template is recorded: what its layers have, where a bound asks for it. */
int cay__template_measure(cay_client *client, const cay_call *call, const char *tenant,
                          const char *layers, cay_err *err);
/* Those of the stack are one now. */
int cay__layers_merged_bytes(cay_client *client, const cay__stack *s, const char *to, cay_err *err);
void cay__layer_bytes_forget(cay_client *client, const char *layer);
int cay__quota_templates(const char *tenant, int64_t most, int64_t need,
                         cay_err *err); /* store_access.c */

/* The request's template becomes layers, and what the template says goes where the request is
 * silent. After cay__stack_prepare(). */
int cay__template_prepare(cay_client *client, const cay_call *call, cay__spec *s, cay_err *err);
/* Those of a request that says nothing of them. image: what its template says, or NULL. */
void cay__template_limits(const char *image, cay_limits *out);
