/* SPDX-License-Identifier: Apache-2.0 */
/* What needs nothing of the server: envelopes (envelope.c), signatures (sign.c), steps of a
 * template (steps.c), accounts of a sandbox (account.c). */
#pragma once
#include <base/base.h>
#include <jansson.h>

#define E2B_MESSAGE_MAX ((size_t)8 << 20)

void e2b_envelope(cay__buf *out, unsigned flags, const char *json, size_t len);
void e2b_envelope_json(cay__buf *out, json_t *j);         /* takes j */
void e2b_envelope_end(cay__buf *out, const cay_err *err); /* NULL: all went well */
/* How an error is told: the status that the control plane gives it, the daemon, and its RPCs with
 * Connect's word. */
typedef struct e2b_fault {
    int code, control, daemon, rpc;
    const char *word;
} e2b_fault;
const e2b_fault *e2b_fault_of(const cay_err *err);
/* The first of several: 1 and how many bytes it has with its head, 0 when more of it is to come. */
int e2b_next(const char *data, size_t n, size_t *used, const char **text, size_t *len,
             cay_err *err);
bool e2b_whole(const char *data, size_t n); /* e2b_next() would have something to say */
/* The one message that a stream's request is. */
int e2b_unwrap(const char *data, size_t n, const char **text, size_t *len, cay_err *err);

bool e2b_same(const char *a, const char *b); /* in constant time */
/* "v1_" and the hash that a signed URL of a file has. exp: its text, or NULL. */
void e2b_signature(const char *path, const char *op, const char *user, const char *token,
                   const char *exp, char out[64]);
bool e2b_expired(const char *exp, long long now); /* or it is no time at all */

bool e2b_is_hash(const char *s); /* of files: 64 hexadecimal digits */
/* The SDK's steps as those of a template file; image: they begin as on an image of E2B's. */
int e2b_read_steps(const json_t *steps, bool image, json_t *out, cay_err *err);

/* Field `want` of the first line of a passwd(5) or group(5) whose field `by` is key; false: there
 * is none, or it is empty or too long. */
bool e2b_account(const char *text, size_t len, unsigned by, const char *key, unsigned want,
                 char *out, size_t cap);
