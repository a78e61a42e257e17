/* SPDX-License-Identifier: Apache-2.0 */
/* lib/snapshot/state_manifest.h - a manifest as a state shows it: no host path of a grant or mount,
 * nothing ephemeral. */
#pragma once
#include <lib/client/client.h>
#include <jansson.h>

typedef struct cay__state_manifest {
    char *text;          /* canonical and redacted; NULL: there is none */
    bool mounts;         /* it has some: whoever resumes brings their sources and keys */
    json_t *variables;   /* names of values that are not in it */
    json_t *ephemeral;   /* paths of entries that are written at each start */
    json_t *grant_paths; /* of path grants that were taken out */
    json_t *targets;     /* where its mounts appear */
    bool policy;         /* it says what may be reached */
} cay__state_manifest;

/* One that is trusted: a record's or the caller's; NULL: none. Clear *out in any case. */
int cay__state_manifest_of(const char *text, cay__state_manifest *out, cay_err *err);
void cay__state_manifest_clear(cay__state_manifest *m);

/* The same paths, types and strategies, and the same variables left out? CAY_EINVAL,
 * "state_topology", names the first difference. */
int cay__state_topology(const char *state, const char *given, cay_err *err);
bool cay__state_has(const json_t *names, const char *name);
