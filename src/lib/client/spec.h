/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/spec.h - a create request kept as JSON, and read back. What judges it is in
 * lib/sandbox/limits.h.
 */
#pragma once
#include <base/base.h>
#include <base/buf.h>
#include <cay/sys/provider.h>
#include <cay/sys/store.h>
#include <jansson.h>

#define CAY__SPEC_MAX (1u << 20) /* of its JSON text */

/* A request while it is completed for its provider, or as a record keeps it. */
typedef struct cay__spec {
    cay_create create;
    cay_box_spec box; /* what the provider gets besides; create is set by cay__spec_box() */
    const char *template_config; /* what its template says (cay/template.h: config); or NULL */
    uint64_t on_since_ms; /* since when create.on is worked on, which may be before this sandbox was
                             made from another's snapshot */
    const cay_fill_item *seeds; /* the template's files for settings */
    size_t nseeds;
    cay__arena *mem; /* of all that was added; a copy shares it */
} cay__spec;

/* What the provider is given, as long as *spec stays where it is. */
const cay_box_spec *cay__spec_box(cay__spec *spec);
/* Everything but provider, name, labels, metadata and tenant, which have columns of their own. The
 * caller frees. */
int cay__spec_text(const cay__spec *spec, char **out, cay_err *err);
/* The request behind a record, these included. CAY_EINVAL names the field that is wrong. */
int cay__spec_read(const cay_row *row, cay__spec **out, cay_err *err);
void cay__spec_free(cay__spec *s);
CAY_DEFINE_AUTO(cay__spec, cay__spec_free)

/* Pairs as a JSON object's text; NULL when a key or value is not UTF-8 or all is too long. */
char *cay__pairs_text(const cay_pair *pairs);
/* And back, in mem, ended by a NULL key. NULL when a member is not a string. */
cay_pair *cay__pairs_read(cay__arena *mem, const json_t *obj);
