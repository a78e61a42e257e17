/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/pool.h - warm pools from inside.
 *
 * A pool is a note (space "warm", its id as the key). Its sandboxes are rows of a tenant that
 * nobody can be, with the pool's id as a label; the name of one that is ready tells its kind: the
 * hash of all that cannot be changed after it was made. Taking one is a change of its row, after
 * which it is being made like any other: a maker that dies then leaves nothing.
 */
#pragma once
#include "client.h"
#include "spec.h"

struct cay__mani;
#include <base/json.h>

#define CAY__WARM_MAKING ".making"
#define CAY__WARM_LABEL  "cay.pool"
#define CAY__WARM_KIND   40 /* "." and 32 digits */

typedef struct cay__pool_note {
    char id[24];
    json_t *all; /* template, tenant, low, high, template_id, of, request, other, others, turned_ms,
                    error, failed_ms */
    unsigned low, high;
} cay__pool_note;

/* The words of a pool, by its id; json_decref(out->all). */
int cay__pool_read(cay_client *client, const char *id, cay__pool_note *out, cay_err *err);
int cay__pool_write(cay_client *client, const cay__pool_note *n, cay_err *err);
/* ready and making of a pool; fn may be NULL, and gets every row of it. */
int cay__pool_rows(cay_client *client, const char *pool, cay_row_fn *fn, void *arg, unsigned *ready,
                   unsigned *making, cay_err *err);
/* Removes one that is still nobody's; what somebody took meanwhile stays. */
void cay__pool_drop(cay_client *client, const cay_call *call, const char *id);

/* A pool of an engine's image is called PROVIDER:IMAGE, as docker:debian:12-slim: the provider's
 * own name, or NULL: it is a template's. */
const char *cay__pool_engine(cay_client *client, const char *name, const char **image);
/* What the pool's name means now, as a word that changes when that does. */
int cay__pool_means(cay_client *client, const cay_call *call, const json_t *pool, char *out,
                    size_t cap, cay_err *err);

/* What a sandbox of a request that is prepared and judged has to be like, as a name; false: it is
 * one that is never kept ready. */
bool cay__pool_kind(const cay__spec *s, char out[CAY__WARM_KIND]);
/* pool_take.c: 0: *out is the request's. CAY_ENOENT: none is ready, and it has to be made; *missed
 * when a pool could have had one. */
int cay__pool_take(cay_client *client, const cay_call *call, const cay__spec *s,
                   const struct cay__mani *f, bool *missed, cay_sandbox **out, cay_err *err);
/* Is it one that could be taken, and has a manifest? That has to be built first. */
bool cay__pool_with_files(const cay__spec *s);
/* It was made: what is asked for and had is what pools may turn to. given: the request before it
 * was prepared. */
void cay__pool_missed(cay_client *client, const cay__spec *s, const cay_create *given);
/* create.c: as cay_client_create(), for nobody. */
int cay__create_warm(cay_client *client, const cay_call *call, const cay_create *given,
                     cay_sandbox **out, cay_err *err);
