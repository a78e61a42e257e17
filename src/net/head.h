/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/head.h - the head of an HTTP/1.1 message: bytes to fields, strictly, and back.
 *
 *   cay__request_read() what has come so far           cay__head_field()  a field by its name
 *   cay__head_list()   is a word in a list field?      cay__url_decode()  %XX to bytes
 *
 * One reading only: what two programs could understand differently is refused, never guessed. CRLF
 * alone ends a line; no folding, no blank before a colon, one Content-Length of digits, none beside
 * Transfer-Encoding, which is exactly `chunked`; one Host.
 */
#pragma once
#include <base/buf.h>

#define CAY__HEAD_MAX    32768 /* bytes of a head */
#define CAY__HEAD_FIELDS 100

typedef struct cay__field_line {
    const char *name, *value; /* in the head's own bytes, NUL-terminated; names in lower case,
                                 values without blanks around */
    size_t value_len;
} cay__field_line;

typedef enum cay__body_kind {
    CAY__BODY_NONE = 0,
    CAY__BODY_LENGTH,
    CAY__BODY_CHUNKED,
    CAY__BODY_TO_END /* answers alone */
} cay__body_kind;

typedef struct cay__head {
    char *bytes,
        *cut; /* the head's own copies, cut into strings; whoever holds the head owns them */
    const char *method, *target; /* of a request */
    const char *path, *query;    /* of the target: as sent, not decoded; query without '?', or "" */
    int status;                  /* of an answer */
    int minor;                   /* HTTP/1.minor: 0 or 1 */
    cay__body_kind body;
    uint64_t length; /* with CAY__BODY_LENGTH */
    bool keep_alive, expect_continue;
    const char *upgrade; /* the protocol asked for, when Connection names it; or NULL */
    const char *host;    /* of a request; "" in HTTP/1.0 without one */
    size_t nfields;
    cay__field_line fields[CAY__HEAD_FIELDS];
} cay__head;

/* Looks at n bytes. >0: so many were the head, *out is filled (cay__head_clear() frees); 0: more is
 * needed; negative: CAY_EINVAL (answer 400), CAY_ETOOBIG (431), CAY_ENOTSUP (501 or 505, told by
 * err->reason). *scanned remembers between calls how far was looked; starts as 0. */
int cay__request_read(const char *data, size_t n, size_t *scanned, cay__head *out, cay_err *err);
int cay__answer_read(const char *data, size_t n, size_t *scanned, bool to_head_request,
                     cay__head *out, cay_err *err);
void cay__head_clear(cay__head *h);
const char *cay__head_field(const cay__head *h,
                            const char *lower_name); /* the first; NULL when there is none */
bool cay__head_list(
    const cay__head *h, const char *lower_name,
    const char *word); /* in any of the lines of that name, without regard to case */
/* %XX to bytes; plus: '+' is a blank, as in queries. out holds n + 1. False when it is broken, or
 * has a NUL. */
bool cay__url_decode(const char *s, size_t n, bool plus, char *out);
