/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/multipart.h - multipart/form-data (RFC 7578), read as it comes.
 *
 *   cay__multipart_open()   from a Content-Type and whoever has the bytes
 *   cay__multipart_next()   the next part
 *   cay__multipart_bytes()  what it holds, in pieces
 *
 * Memory is constant, whatever the parts hold. CRLF alone ends a line; a part without a name, a
 * head of more than 8 KiB, more than 1,000 parts and a body that ends before the last delimiter are
 * CAY_EINVAL, reason "multipart_invalid".
 */
#pragma once
#include <cay/error.h>

typedef struct cay__multipart cay__multipart;
/* Gives the next bytes; *n 0 at the end. cay__req_read() has this form. */
typedef int cay__multipart_read(void *arg, void *buf, size_t cap, size_t *n, cay_err *err);

typedef struct cay__form_part {
    char name[256], filename[1024], type[128]; /* type as sent, "" without one */
    bool file;                                 /* it has a filename, be it "" */
} cay__form_part;

int cay__multipart_open(const char *content_type, cay__multipart_read *read, void *arg,
                        cay__multipart **out, cay_err *err);
void cay__multipart_close(cay__multipart *m); /* NULL is fine */
/* 1: *out is filled; 0: that was the last. What is left of the part before is skipped. */
int cay__multipart_next(cay__multipart *m, cay__form_part *out, cay_err *err);
/* *n 0 at the end of the part. */
int cay__multipart_bytes(cay__multipart *m, void *buf, size_t cap, size_t *n, cay_err *err);
/* A part as one string of at most max bytes, NUL-terminated, the caller's; more is CAY_ETOOBIG, a
 * NUL inside CAY_EINVAL. */
int cay__multipart_text(cay__multipart *m, size_t max, char **out, cay_err *err);
