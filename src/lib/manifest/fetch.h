/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/fetch.h - what entries of a manifest take from elsewhere: git repositories, files
 * and archives by URL.
 *
 * Asked twice: first for the identity alone, which costs a question to the remote and decides
 * whether the layer is there already; then, if it is not, for the content too. Credentials and
 * headers are read from their sources here, used outside the sandbox, and never handed on.
 */
#pragma once
#include <cay/client.h>
#include <jansson.h>

typedef struct cay__fetch_ask {
    const char *entry;    /* its path, for messages */
    const char *type;     /* "git_repo", "remote_file", "remote_dir" */
    const json_t *fields; /* as lib/manifest/kinds.c has judged them */
    const char *net; /* policy of the sandbox that is being made, as text; NULL: none. A redirect to
                        another host needs a rule of it */
    const char *known; /* the identity that the first question gave: the content has to be that;
                          NULL: the first question */
} cay__fetch_ask;

typedef struct cay__fetched {
    char identity[200]; /* commit, SHA-256 or ETag, and a hash of type and fields: the same word
                           means the same bytes, asked for in the same way of the same place. What
                           cannot be told without fetching comes with the content at once */
    int fd; /* the directory (git_repo, remote_dir) or the file (remote_file), readable by path too
               until cleared; -1: not asked for */
    void *own; /* of who fetched */
    void (*drop)(struct cay__fetched *f);
} cay__fetched;

int cay__fetch_entry(cay_client *client, const cay_call *call, const cay__fetch_ask *ask,
                     cay__fetched *out, cay_err *err);
void cay__fetched_clear(cay__fetched *f); /* closes fd and removes what was made for it */
