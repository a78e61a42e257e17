/* SPDX-License-Identifier: Apache-2.0 */
/* lib/client/audit.h - a line of the audit log, its files, and who writes now. */
#pragma once
#include "client.h"
#include <base/sha256.h>
#include <cay/audit.h>
#include <jansson.h>

#define CAY__AUDIT_DIR  "audit"
#define CAY__AUDIT_LINE 8192 /* bytes of a line at most */
#define CAY__AUDIT_NAME 24
#define CAY__AUDIT_ZERO                                                                            \
    "0000000000000000000000000000000000000000000000000000000000000000" /* before the first */

typedef struct cay__audit_line {
    cay_audit a; /* strings in mem */
    cay__arena mem;
    json_t *j;
    char prev[CAY__SHA256_HEX], hash[CAY__SHA256_HEX];
} cay__audit_line;
/* One line without its newline. false: it is none of ours, or its hash is not its own. */
bool cay__audit_read(const char *text, size_t len, cay__audit_line *out);
void cay__audit_line_clear(cay__audit_line *l);

/* The lowest and highest number of a file; 0 when there is none. */
int cay__audit_files(int dir, unsigned *first, unsigned *last, cay_err *err);
void cay__audit_name(unsigned number, char out[CAY__AUDIT_NAME]);
int cay__audit_dir(cay_client *client, bool make, int *out, cay_err *err);
