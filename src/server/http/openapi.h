/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/http/openapi.h - what a route says of itself, and the OpenAPI 3.1 document that is made of
 * it.
 *
 *     static const cay__query list_query[] = { { "limit", "integer", "how many at most" }, { NULL }
 * }; const cay__doc cay__doc_sandbox_list = { "listSandboxes", "sandboxes", "those there are",
 * .query = list_query, .answers = { { 200, &cay__sandbox_shape, .list = true }, { 400 } } };
 *
 * Every status that a handler answers with is named, but for those that any request may meet, which
 * the document has as "default": 401, 403, 405, 413, 415, 429, 431, 500, 501, 502, 503, 504, 507.
 */
#pragma once
#include <wire/shape.h>
#include "server.h"

typedef struct cay__query {
    const char *name, *type, *about; /* "string", "integer", "boolean" */
    bool required, many;             /* many: it may come again */
} cay__query;

typedef struct cay__answer {
    int status;
    const cay__shape *shape; /* NULL: no body, or one of `type`; from 400 on a problem document */
    bool list;               /* {"items": [shape…], "next"} */
    const char *type;        /* another content type than JSON */
} cay__answer;

typedef struct cay__doc {
    const char *id; /* operationId */
    const char *tag;
    const char *about;       /* one line */
    const cay__query *query; /* ends with a NULL name; or NULL */
    const cay__shape *body;  /* JSON */
    const char *body_type;   /* the body is of this type instead */
    cay__answer answers[8];  /* up to the first with status 0 */
} cay__doc;

/* The document of a dialect's routes. */
json_t *cay__openapi(const cay__dialect *d, const char *title);
