/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/client_manifest.h - a create request's manifest: what it asks of the request, its
 * layer, and what comes after the start.
 *
 * In a record c->manifest is not the text but its key (kind 't'): manifest_kept.c keeps the text,
 * without secret values, under it. A request that has such a key stands on the layer already; only
 * what is ephemeral is done for it.
 */
#pragma once
#include <lib/client/client.h>
#include <lib/client/spec.h>
#include <base/sha256.h>
#include <cay/manifest.h>
#include "plan.h"

#define CAY__NOTE_MANIFEST "manifest"
#define CAY__NOTE_UNUSED   "manifest-unused" /* when a sweep saw first that nobody needs a text */

#define CAY__SEEN_KEY      CAY__SHA256_HEX

/* Values for variables that a manifest calls ephemeral, for one start: no record has them. */
typedef struct cay__given {
    const cay_pair *env; /* ends with a NULL key; or NULL */
    bool strict;         /* another variable among them is an error */
    char *missing;       /* names that nobody gave, with commas; malloc'ed, or NULL */
} cay__given;
/* life.c: cay_sandbox_resume() with them; given may be NULL. */
int cay__sandbox_resume(cay_sandbox *sb, const cay_call *call, cay__given *given, cay_err *err);

typedef struct cay__mani {
    cay__given *given; /* or NULL */
    cay_client *client;
    cay_manifest *m; /* NULL: the request has none */
    cay__plan plan;
    bool planned;
    const char *base;
    bool trusted;
    bool done;                 /* its layer is below already */
    bool apply;                /* no layer: all of it goes through the file calls */
    char print[CAY__SEEN_KEY]; /* of a large text: its fingerprint */
    char seen[CAY__SEEN_KEY];  /* manifest_seen.c: under which note a large text is remembered; ""
                                  when it is not large */
    const char *layer, *key;   /* what that note said; then m has no entries */
    cay_pair *extra; /* variables that no record has; ends with a NULL key. Wiped at the end */
} cay__mani;
#define CAY__AUTOMANI __attribute__((cleanup(cay__mani_clear))) cay__mani
void cay__mani_clear(cay__mani *f);

/* Reads it and works it into the request: root, user, policy, plain variables, grants and binds.
 * Nothing is made. */
int cay__mani_prepare(cay_client *client, cay_create *c, cay__arena *mem, cay__mani *f,
                      cay_err *err);
/* Reads what it refers to, makes the layer if it is not there and puts it on top of the request's
 * stack; keeps the text. */
int cay__mani_build(cay_client *client, const cay_call *call, const cay_provider_ops *ops,
                    cay__spec *s, cay__mani *f, cay_err *err);
/* The request's variables and those that no record has, in mem. */
const cay_pair *cay__mani_env(const cay__mani *f, const cay_pair *env, cay__arena *mem);
/* After the start: ephemeral entries, or all where there is no layer. */
int cay__mani_apply(const cay__mani *f, const cay_provider_ops *ops, const char *id, void *box,
                    const cay_call *call, cay_err *err);
/* Services that need what comes after the start, files or secrets, wait for it. */
static inline bool cay__services_wait(const cay__spec *s, const cay__mani *f)
{
    return s->box.nservices &&
           (s->create.net.nsecrets || (f->planned && (f->apply || f->plan.ephemeral)));
}
/* Ephemeral entries are not part of a snapshot: away before it, there again behind it. f is cleared
 * by the second. */
int cay__mani_hide(cay_sandbox *sb, const cay_call *call, cay__mani *f, cay_err *err);
int cay__mani_unhide(cay_sandbox *sb, const cay_call *call, cay__mani *f, cay_err *err);
/* Is the layer there? Touched, so that a sweep sees that it is wanted. */
bool cay__mani_there(cay_client *client, const char *name, bool touch);

/* Keeps it under a key, in mem. given: the text it was read from, NULL when it was not. */
int cay__kept_put(cay_client *client, const cay__mani *f, const char *given, cay__arena *mem,
                  const char **key, cay_err *err);
/* brief: for what is passing in it alone; entries may be missing that are not. */
int cay__kept_get(cay_client *client, const char *key, bool brief, cay__arena *mem, cay__mani *f,
                  cay_err *err);
/* For who sweeps: a descriptor that keeps writers away until it is closed, -1 where there is
 * nothing to keep; negative while somebody writes. */
int cay__kept_alone(cay_client *client, int *dir);
void cay__kept_drop(cay_client *client, int dir, const char *key);
void cay__kept_strays(cay_client *client, int dir);

/* What it makes depends on nothing but its text, and none of it is passing. */
bool cay__mani_text_alone(const cay_manifest *m);
bool cay__seen_find(cay_client *client, const cay_create *c, cay__arena *mem, cay__mani *f);
void cay__seen_put(cay_client *client, const cay__mani *f, const char *layer, const char *key);
/* Notes that no record needs any more. */
void cay__mani_sweep(cay_client *client);
/* The text behind a record's key, as cay_manifest_to_json() gives it; NULL for NULL. The caller
 * frees. */
int cay__mani_text(cay_client *client, const char *key, char **text, cay_err *err);
