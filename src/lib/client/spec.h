/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/spec.h - a create request kept as JSON, and read back. What judges it is in
 * lib/sandbox/limits.h.
 */
#pragma once
#include <base/arena.h>
#include <cay/sys/store.h>
#include <jansson.h>

#define CAY__SPEC_MAX (1u << 20) /* of its JSON text */

typedef struct cay__spec {
    cay_create create; /* all it points to lives in mem */
    cay__arena mem;
} cay__spec;

/* Everything but provider, name, labels, metadata and tenant, which have columns of their own. The
 * caller frees. */
int cay__spec_text(const cay_create *spec, char **out, cay_err *err);
/* The request behind a record, these included. CAY_EINVAL names the field that is wrong. */
int cay__spec_read(const cay_row *row, cay__spec **out, cay_err *err);
void cay__spec_free(cay__spec *s);

/* Pairs as a JSON object's text; NULL when a key or value is not UTF-8 or all is too long. */
char *cay__pairs_text(const cay_pair *pairs);
/* And back, in mem, ended by a NULL key. NULL when a member is not a string. */
cay_pair *cay__pairs_read(cay__arena *mem, const json_t *obj);
