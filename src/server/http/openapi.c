/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenAPI 3.1 document of a dialect, from the rows of its operations. */
#include "server.h"
#include <base/base.h>
#include <ctype.h>

static void add_schema(json_t *schemas, const cay__shape *s)
{
    if (!s || json_object_get(schemas, s->name))
        return;
    json_object_set_new(schemas, s->name, cay__shape_schema(s));
    CAY_EACH_OF(field, s->fields, s->n)
        if (field->kind == CAY__F_OBJECT || field->kind == CAY__F_POINT ||
            field->kind == CAY__F_LIST)
            add_schema(schemas, field->more);
}

static json_t *reference_schema(json_t *schemas, const cay__shape *s)
{
    char text[100];
    add_schema(schemas, s);
    CAY_FORMAT(text, "#/components/schemas/%s", s->name);
    return json_pack("{s:s}", "$ref", text);
}

static json_t *describe_content(const char *type, json_t *schema)
{
    return json_pack("{s:{s:o}}", type, "schema", schema);
}

static json_t *describe_answer(json_t *schemas, const cay__op_answer *a)
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
    CAY_EACH(name, names)
        if (name->status == a->status)
            text = name->text;
    json_t *j = json_pack("{s:s}", "description", text);
    if (a->status >= 400)
        json_object_set_new(j, "content",
                            describe_content("application/problem+json",
                                             reference_schema(schemas, &cay__problem_shape)));
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

static const char *query_type(const cay__field *f)
{
    switch (f->kind) {
    case CAY__F_STR:
    case CAY__F_STRS:
    case CAY__F_PAIRS: return "string";
    case CAY__F_BOOL: return "boolean";
    default: return "integer";
    }
}

static void add_query_params(json_t *params, const cay__shape *query)
{
    for (size_t i = 0; query && i < query->n; i++) {
        const cay__field *f = &query->fields[i];
        json_t *schema = json_pack("{s:s}", "type", query_type(f));
        if (f->kind == CAY__F_STRS || f->kind == CAY__F_PAIRS) /* it may come again */
            schema = json_pack("{s:s, s:o}", "type", "array", "items", schema);
        json_array_append_new(params,
                              json_pack("{s:s, s:s, s:s, s:b, s:o}", "name", f->name, "in", "query",
                                        "description", f->about, "required",
                                        (f->flags & CAY__F_REQUIRED) != 0, "schema", schema));
    }
}

static void add_answer(json_t *answers, json_t *schemas, const cay__op_answer *a)
{
    char status[12];
    CAY_FORMAT(status, "%d", a->status);
    json_object_set_new(answers, status, describe_answer(schemas, a));
}

static json_t *describe_answers(json_t *schemas, const cay__operation *op)
{
    json_t *answers = json_object();
    for (size_t i = 0; i < CAY_LEN(op->answers) && op->answers[i].status; i++)
        add_answer(answers, schemas, &op->answers[i]);
    for (size_t i = 0; cay__operation_fails[i]; i++)
        if (op->fails & (1u << i))
            add_answer(answers, schemas, &(cay__op_answer){ cay__operation_fails[i] });
    json_object_set_new(answers, "default", describe_answer(schemas, &(cay__op_answer){ 500 }));
    return answers;
}

static json_t *describe_operation(json_t *schemas, const cay__operation *op)
{
    json_t *params = json_array(), *body = NULL;
    path_params(params, op->path);
    add_query_params(params, op->query);
    if (op->flags & CAY__OP_CREATE)
        json_array_append_new(
            params,
            json_pack(
                "{s:s, s:s, s:s, s:b, s:{s:s, s:i}}", "name", "Idempotency-Key", "in", "header",
                "description",
                "the same key and request give the same answer for a day, and make nothing twice",
                "required", 0, "schema", "type", "string", "maxLength", 255));
    json_t *out =
        json_pack("{s:s, s:[s], s:s, s:o, s:o}", "operationId", op->id, "tags", op->tag, "summary",
                  op->about, "parameters", params, "responses", describe_answers(schemas, op));
    if (op->body)
        body = describe_content("application/json", reference_schema(schemas, op->body));
    else if (op->body_type)
        body = describe_content(op->body_type, json_object());
    if (body)
        json_object_set_new(out, "requestBody", json_pack("{s:o}", "content", body));
    if (op->flags & CAY__OP_OPEN)
        json_object_set_new(out, "security", json_array());
    return out;
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
    CAY_EACH_OF(route, d->routes, d->nroutes) {
        const cay__operation *op = route->op;
        char path[200], method[8] = "";
        if (!op->id)
            continue;
        plain_path(path, sizeof path, op->path);
        for (size_t k = 0; op->method[k] && k < sizeof method - 1; k++)
            method[k] = (char)tolower((unsigned char)op->method[k]);
        if (!json_object_get(paths, path))
            json_object_set_new(paths, path, json_object());
        json_object_set_new(json_object_get(paths, path), method, describe_operation(schemas, op));
    }
    return json_pack("{s:s, s:{s:s, s:s}, s:[{s:s}], s:[{s:[]}], s:o, s:{s:o, s:{s:{s:s, s:s}}}}",
                     "openapi", "3.1.0", "info", "title", title, "version", CAY_VERSION, "servers",
                     "url", d->base, "security", "key", "paths", paths, "components", "schemas",
                     schemas, "securitySchemes", "key", "type", "http", "scheme", "bearer");
}
