/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/fetch_source.h - a repository, a file or an archive from elsewhere.
 *
 *   cay__source_identity()  what the remote holds now     cay__source_bring()  bring it
 *
 * Each runs git or cay-fetch in a sandbox of its own that is gone afterwards, whatever happens. Its
 * network is the policy of the sandbox that is being made and, for this one fetch, the scheme, host
 * and port that the entry names; the operator's rules and the blocked ranges hold. A redirect to
 * another host so needs a rule. Credentials are put into the requests on their way out: the sandbox
 * that fetches has them no more than any other. What it brings is hostile, and passes cay-unpack
 * and the sink.
 */
#pragma once
#include <cay/client.h>

typedef enum cay__source_kind {
    CAY__SOURCE_GIT,
    CAY__SOURCE_FILE,
    CAY__SOURCE_DIR
} cay__source_kind;

typedef struct cay__fetch_source {
    cay__source_kind kind;
    const char *entry; /* its path in the manifest, for messages; or NULL */
    const char *url;   /* http or https, without user part */
    const char *net;   /* policy of the sandbox it is for, as text; NULL: none */
    /* git */
    const char *ref;           /* NULL: the default branch */
    unsigned depth;            /* commits of history; 0: 1 */
    bool whole;                /* all of its history */
    const char *const *sparse; /* directories, NULL-terminated; or NULL */
    const char
        *subpath; /* of a repository or archive: only what is in there; NULL, "" or ".": all */
    const char *credentials; /* where a token is: "env:…", "file:…", "cmd:…", "store:…"; or NULL */
    /* remote file and directory */
    const cay_pair *headers; /* a value that begins like a source is read from there, outside; ends
                                with a NULL key */
    const char *sha256;      /* 64 hex digits, or NULL */
    uint64_t max_bytes;      /* 0: 256 MiB a file, 1 GiB an archive */
    const char *format;      /* "tar", "zip"; NULL: as it looks */
    /* Now and then; negative stops. May be NULL. */
    int (*progress)(uint64_t bytes, void *arg, cay_err *err);
    void *arg;
} cay__fetch_source;

#define CAY__IDENTITY 128
/* "git:" and the commit, "sha256:" and the digest, "etag:" and a hash of URL and tag; "" when only
 * fetching would tell. A whole commit and a SHA-256 cost no request. */
int cay__source_identity(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                         char identity[CAY__IDENTITY], cay_err *err);

typedef struct cay__brought {
    char
        identity[CAY__IDENTITY]; /* of what came: as it was asked for, else "git:…" or "sha256:…" */
    uint64_t bytes, items;
} cay__brought;
/* Into the empty directory `dir`: a repository's or archive's tree, or one file named "file".
 * identity: what it has to be, or NULL; CAY_EBUSY, "git_moved" or "fetch_changed", when the remote
 * has that no more. What it made before a failure is the caller's to remove. Reasons:
 * git_missing_in_image, git_clone_error, git_ref_not_found, git_copy_error, fetch_refused,
 * fetch_failed, fetch_status, fetch_digest, fetch_too_big, redirect_refused, too_many_redirects,
 * archive_…. */
int cay__source_bring(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                      const char *identity, int dir, cay__brought *out, cay_err *err);

/* A directory of the state directory for something that is not whole
 * yet.
 *
 * Locked by who made it, so that whoever comes after a crash knows that it is nobody's, and removes
 * it. */

typedef struct cay__fetch_stage {
    int home, fd;  /* the state directory, and the staging one */
    char name[32]; /* below fetch/ */
} cay__fetch_stage;

int cay__stage_make(cay_client *client, cay__fetch_stage *out, cay_err *err);
void cay__stage_remove(cay__fetch_stage *s); /* with all that is in it */
