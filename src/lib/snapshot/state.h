/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/snapshot/state.h - a session state as read: judged field by field, with nothing in it that
 * gives a right.
 *
 *   state_read.c   JSON → cay__state, strictly      state_write.c   a sandbox → JSON
 *   state_match.c  what the resumer has to give     state_resume.c  the way back
 *   state_files.c  are its files still the same     state_manifest.c  what of a manifest is shown
 *   state_js.c     the JavaScript SDK's envelope
 */
#pragma once
#include <lib/client/spec.h>
#include <jansson.h>
#include <lib/client/client.h>

#define CAY__STATE_TYPE        "cay"
#define CAY__STATE_VERSION     1
#define CAY__STATE_FINGERPRINT "cay_layers_sha256_v1"
#define CAY__STATE_MOUNTS      "__openai_agents_redacted_mount_authority"
#define CAY__STATE_GRANT_PATHS "__openai_agents_redacted_host_path_grant_paths"

/* Something that was left out: a directory, a volume, a storage mount. */
typedef struct cay__state_thing {
    const char *name; /* of a volume; else "" */
    const char *target;
    bool rw;
} cay__state_thing;

typedef struct cay__state {
    cay__arena mem;
    char id[CAY_ID_LEN + 1];
    char snapshot[CAY_ID_LEN + 1]; /* "" without */
    char fingerprint[65];          /* "" without */
    const char *provider, *template_;
    int level;
    bool ready;           /* its workspace was whole */
    cay__spec *spec;      /* name, limits, plain variables, …: nothing that gives a right */
    const char *manifest; /* redacted, JSON; NULL: none */
    bool root, on, network, mounts; /* it had these */
    const cay__state_thing *grants, *volumes;
    size_t ngrants, nvolumes;
    const char *const *secrets, *const *variables,
                                    *const *entries; /* names and paths; NULL-terminated */
} cay__state;

int cay__state_read(const char *text, size_t len, cay__state **out, cay_err *err);
void cay__state_free(cay__state *s);

/* The JavaScript SDK's envelope around a state, and what is in one: as untrusted as any. The
 * caller's reference. */
bool cay__state_is_js(const json_t *o);
json_t *cay__state_to_js(const json_t *state);
int cay__state_from_js(const json_t *envelope, json_t **out, cay_err *err);

/* SHA-256 over the snapshot's id and the manifest: layers never change, so the id stands for every
 * file. */
void cay__state_fingerprint(const char *snapshot, const char *manifest, char out[65]);

/* Is what lies below the workspace root of a stopped sandbox what the snapshot has there? Ephemeral
 * entries do not count. */
bool cay__state_same_files(cay_client *client, const cay_call *call, const cay__state *s,
                           cay_err *err);

/* Everything that was left out is given again, at most as wide as it was. "state_incomplete" lists
 * the rest. */
struct cay__state_manifest; /* given: what with->manifest brings; NULL: nothing */
int cay__state_match(const cay__state *s, const cay_create *with,
                     const struct cay__state_manifest *given, cay_err *err);

/* A manifest as a state shows it: no host path of a grant or mount,
 * nothing ephemeral. */

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
