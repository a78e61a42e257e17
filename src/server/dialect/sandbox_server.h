/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/dialect/sandbox_server.h - what the two halves of the sandbox-server protocol share.
 *
 *   sandbox_server.c        the life of a sandbox, and its records
 *   sandbox_server_work.c   what is done in one: commands, files, ports
 *
 * A sandbox has a UUID here. What the protocol knows of it and nobody else does is a note under
 * that UUID (cay/note.h).
 */
#pragma once
#include "dialect.h"

typedef struct cay__ss_box {
    char id[40];     /* as the client calls it: the UUID, or the sandbox's own id */
    cay_sandbox *sb; /* the request's */
    json_t *note;    /* the request's; {} of a sandbox that was not made here */
    json_t *body;    /* the request's, of those that have one */
} cay__ss_box;

/* A member of the body; CAY_EINVAL names it. A string that need not be there is NULL without it. */
int cay__ss_str(const json_t *body, const char *name, bool needed, const char **out, cay_err *err);
int cay__ss_bool(const json_t *body, const char *name, bool none, bool *out, cay_err *err);
int cay__ss_int(const json_t *body, const char *name, int64_t min, int64_t max, int64_t *out,
                cay_err *err);
/* Text for people and programs alike: what is no UTF-8 becomes U+FFFD. */
json_t *cay__ss_text(const char *s, size_t n);

/* A sandbox by the name that the client has for it, for work in it: one that is paused is resumed,
 * its time starts anew, its activity is noted. CAY_ESTATE when it is neither running nor paused. */
int cay__ss_connect(cay__req *r, const char *id, cay__ss_box *out, cay_err *err);
/* The body, and the sandbox that its "sandbox_id" names, connected. */
int cay__ss_begin(cay__req *r, cay__ss_box *out, cay_err *err);
int cay__ss_done(cay__req *r, const char *message); /* {"success": true, "message": …} */

cay__handler cay__ss_expose, cay__ss_urls, cay__ss_run, cay__ss_write, cay__ss_read, cay__ss_upload,
    cay__ss_upload_url, cay__ss_download, cay__ss_download_stream, cay__ss_download_url,
    cay__ss_mkdir;
