/* SPDX-License-Identifier: Apache-2.0 */
#include "openapi.h"
#include <base/base.h>
#include <ctype.h>
#include <stdio.h>

/* Of RFC 9457; written by problem.c. This table is for the document alone, so its offsets mean
 * nothing. */
static const cay__field problem_fields[] = {
    { "type", CAY__F_STR, 0, CAY__F_REQUIRED },
    { "title", CAY__F_STR, 0, CAY__F_REQUIRED },
    { "status", CAY__F_INT, 0, CAY__F_REQUIRED },
    { "detail", CAY__F_STR, 0, CAY__F_REQUIRED, .about = "one line for people" },
    { "code", CAY__F_STR, 0, CAY__F_REQUIRED, .about = "decide by this one: ENOENT, …" },
    { "reason", CAY__F_STR, 0, CAY__F_REQUIRED, .about = "a stable word" },
    { "retry", CAY__F_STR, 0, CAY__F_REQUIRED,
      .about = "would the same request help: yes, no or unknown" },
    { "retry_after_ms", CAY__F_U32, 0 },
    { "errno", CAY__F_INT, 0 },
    { "info", CAY__F_JSON, 0 },
    { "request", CAY__F_STR, 0, CAY__F_REQUIRED, .about = "the request's id: it is in the log" },
};
static const cay__shape problem = { "Problem", problem_fields, CAY_LEN(problem_fields), 0,
                                    "what went wrong" };

static void add_schema(json_t *schemas, const cay__shape *s)
{
    if (!s || json_object_get(schemas, s->name))
        return;
    json_object_set_new(schemas, s->name, cay__shape_schema(s));
    for (size_t i = 0; i < s->n; i++)
        if (s->fields[i].kind == CAY__F_OBJECT || s->fields[i].kind == CAY__F_POINT ||
            s->fields[i].kind == CAY__F_LIST)
            add_schema(schemas, s->fields[i].more);
}

static json_t *reference_schema(json_t *schemas, const cay__shape *s)
{
    char text[100];
    add_schema(schemas, s);
    snprintf(text, sizeof text, "#/components/schemas/%s", s->name);
    return json_pack("{s:s}", "$ref", text);
}

static json_t *describe_content(const char *type, json_t *schema)
{
    return json_pack("{s:{s:o}}", type, "schema", schema);
}

static json_t *describe_answer(json_t *schemas, const cay__answer *a)
{
    static const struct {
        int status;
        const char *text;
    } names[] = { { 101, "switching protocols" },
                  { 200, "ok" },
                  { 201, "made" },
                  { 204, "done" },
                  { 206, "a part" },
                  { 304, "not modified" },
                  { 400, "the request is wrong" },
                  { 404, "not there" },
                  { 409, "there already, of another kind, or in another state" },
                  { 410, "gone" },
                  { 413, "too big" },
                  { 416, "beyond the end" },
                  { 422, "the host cannot give that isolation" } };
    const char *text = "error";
    for (size_t i = 0; i < CAY_LEN(names); i++)
        if (names[i].status == a->status)
            text = names[i].text;
    json_t *j = json_pack("{s:s}", "description", text);
    if (a->status >= 400)
        json_object_set_new(
            j, "content",
            describe_content("application/problem+json", reference_schema(schemas, &problem)));
    else if (a->type)
        json_object_set_new(j, "content", describe_content(a->type, json_object()));
    else if (a->list)
        json_object_set_new(
            j, "content",
            describe_content("application/json",
                             json_pack("{s:s, s:{s:{s:s, s:o}, s:{s:s}}, s:[s], s:b}", "type",
                                       "object", "properties", "items", "type", "array", "items",
                                       reference_schema(schemas, a->shape), "next", "type",
                                       "string", "required", "items", "additionalProperties", 0)));
    else if (a->shape)
        json_object_set_new(
            j, "content",
            describe_content("application/json", reference_schema(schemas, a->shape)));
    return j;
}

static void path_params(json_t *params, const char *path)
{
    for (const char *p = strchr(path, '{'); p; p = strchr(p, '{')) {
        size_t n = strcspn(++p, "*}");
        json_array_append_new(params, json_pack("{s:s%, s:s, s:b, s:{s:s}}", "name", p, n, "in",
                                                "path", "required", 1, "schema", "type", "string"));
    }
}

static void add_query_params(json_t *params, const cay__query *q)
{
    for (; q && q->name; q++) {
        json_t *schema = json_pack("{s:s}", "type", q->type);
        if (q->many)
            schema = json_pack("{s:s, s:o}", "type", "array", "items", schema);
        json_array_append_new(params, json_pack("{s:s, s:s, s:s, s:b, s:o}", "name", q->name, "in",
                                                "query", "description", q->about, "required",
                                                (int)q->required, "schema", schema));
    }
}

static json_t *describe_operation(json_t *schemas, const cay__route *r)
{
    const cay__doc *d = r->doc;
    json_t *params = json_array(), *answers = json_object();
    path_params(params, r->path);
    add_query_params(params, d->query);
    if (r->flags & CAY__ROUTE_CREATE)
        json_array_append_new(
            params,
            json_pack(
                "{s:s, s:s, s:s, s:b, s:{s:s, s:i}}", "name", "Idempotency-Key", "in", "header",
                "description",
                "the same key and request give the same answer for a day, and make nothing twice",
                "required", 0, "schema", "type", "string", "maxLength", 255));
    for (size_t i = 0; i < CAY_LEN(d->answers) && d->answers[i].status; i++) {
        char status[8];
        snprintf(status, sizeof status, "%u", (unsigned)d->answers[i].status % 1000);
        json_object_set_new(answers, status, describe_answer(schemas, &d->answers[i]));
    }
    json_object_set_new(answers, "default", describe_answer(schemas, &(cay__answer){ 500 }));
    json_t *op = json_pack("{s:s, s:[s], s:s, s:o, s:o}", "operationId", d->id, "tags", d->tag,
                           "summary", d->about, "parameters", params, "responses", answers);
    if (d->body || d->body_type)
        json_object_set_new(op, "requestBody",
                            json_pack("{s:o}", "content",
                                      d->body ? describe_content("application/json",
                                                                 reference_schema(schemas, d->body))
                                              : describe_content(d->body_type, json_object())));
    if (r->flags & CAY__ROUTE_OPEN)
        json_object_set_new(op, "security", json_array());
    return op;
}

/* "{rest*}" is our own way to say that slashes are welcome. */
static void plain_path(char *dst, size_t cap, const char *src)
{
    size_t n = 0;
    for (; *src && n + 1 < cap; src++)
        if (*src != '*')
            dst[n++] = *src;
    dst[n] = 0;
}

json_t *cay__openapi(const cay__dialect *d, const char *title)
{
    json_t *paths = json_object(), *schemas = json_object();
    for (size_t i = 0; i < d->nroutes; i++) {
        const cay__route *r = &d->routes[i];
        char path[200], method[8] = "";
        if (!r->doc)
            continue;
        plain_path(path, sizeof path, r->path);
        for (size_t k = 0; r->method[k] && k < sizeof method - 1; k++)
            method[k] = (char)tolower((unsigned char)r->method[k]);
        if (!json_object_get(paths, path))
            json_object_set_new(paths, path, json_object());
        json_object_set_new(json_object_get(paths, path), method, describe_operation(schemas, r));
    }
    return json_pack("{s:s, s:{s:s, s:s}, s:[{s:s}], s:[{s:[]}], s:o, s:{s:o, s:{s:{s:s, s:s}}}}",
                     "openapi", "3.1.0", "info", "title", title, "version", CAY_VERSION, "servers",
                     "url", d->base, "security", "key", "paths", paths, "components", "schemas",
                     schemas, "securitySchemes", "key", "type", "http", "scheme", "bearer");
}
