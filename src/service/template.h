/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service/template.h - templates from inside: names, records, and how a request comes to stand on one.
 */
#pragma once
#include "service.h"
#include "snapshot.h"
#include <base/arena.h>
#include <cay/template.h>
#include <jansson.h>

#define CAY__BASE_HOST  "host"  /* what a sandbox's record calls its template: what is below its layers */
#define CAY__BASE_IMAGE "image"

CAY_DEFINE_AUTO(cay_template, cay_template_free)

/* ------------------------------------------------------------------ template_name.c */

/* A reference taken apart. */
typedef struct cay__tname {
    char host[256];   /* "docker.io" when none is named */
    char path[256];   /* "library/python" */
    char tag[130];    /* "" with a digest and no tag */
    char digest[72];  /* "sha256:…" or "" */
    bool named_host;  /* the reference says it */
    bool named_tag;
} cay__tname;
/* CAY_EINVAL, "template_name". */
int cay__tname_parse(const char *ref, cay__tname *out, cay_err *err);
/* As it is kept: without docker.io/ and library/, with a tag or a digest. */
void cay__tname_text(const cay__tname *n, char out[CAY_TEMPLATE_NAME + 1]);
int cay__tname_clean(const char *ref, char out[CAY_TEMPLATE_NAME + 1], cay_err *err);

/* ------------------------------------------------------------------ template.c */

cay_template *cay__template_new(const cay_template_row *row);
/* The record becomes one that counts; layers that are gone meanwhile are CAY_EBUSY, "layers_gone", and nothing is recorded. */
int cay__template_record(cay_service *svc, const cay_call *call, cay_template_row *row, const char *const *names, cay_template **out, cay_err *err);
/* Judges the JSON of a config: known members have their types. */
int cay__template_config_check(const char *text, cay_err *err);

/* ------------------------------------------------------------------ template_use.c */

/* spec->template_ becomes layers, and what the template says goes where the request is silent. After cay__stack_prepare(). */
int cay__template_prepare(cay_service *svc, const cay_call *call, cay_create *c, cay__arena *mem, cay_err *err);
