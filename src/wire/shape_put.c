/* SPDX-License-Identifier: Apache-2.0 */
/* A struct as JSON, and its schema, by the same table. */
#include "shape.h"
#include <base/base.h>
#include <base/base64.h>
#include <cay/client.h>
#include <inttypes.h>
#include <stdio.h>

bool cay__utf8(const char *s, size_t n)
{
    for (size_t k; n; s += k, n -= k)
        if (!(k = cay__utf8_len(s, n)))
            return false;
    return true;
}

static void put_key(cay__buf *b, const char *name, const char *tail)
{
    char last = '{';
    if (b->len)
        last = b->data[b->len - 1];
    cay__buf_fmt(b, "%s\"%s%s\":", last == '{' ? "" : ",", name, tail);
}

static void put_str(cay__buf *b, const char *s)
{
    s = CAY_OR(s, "");
    cay__buf_json(b, s, strlen(s));
}

static void put_path(cay__buf *b, const cay__field *f, const char *s)
{
    s = CAY_OR(s, "");
    put_key(b, f->name, "");
    put_str(b, s);
    if (cay__utf8(s, strlen(s)))
        return;
    put_key(b, f->name, "_hex");
    cay__buf_str(b, "\"");
    for (const unsigned char *p = (const unsigned char *)s; *p; p++)
        cay__buf_fmt(b, "%02x", *p);
    cay__buf_str(b, "\"");
}

static void put_bytes(cay__buf *b, const cay__field *f, const char *s, size_t n)
{
    bool text = cay__utf8(CAY_OR(s, ""), n);
    put_key(b, f->name, text ? "" : "_base64");
    if (text) {
        cay__buf_json(b, CAY_OR(s, ""), n);
        return;
    }
    cay__buf_str(b, "\"");
    cay__base64_put(b, s, n);
    cay__buf_str(b, "\"");
}

static void put_pairs(cay__buf *b, const cay_pair *p)
{
    cay__buf_str(b, "{");
    for (const cay_pair *q = p; q && q->key; q++) {
        cay__buf_str(b, q == p ? "" : ",");
        put_str(b, q->key);
        cay__buf_str(b, ":");
        put_str(b, q->value);
    }
    cay__buf_str(b, "}");
}

static void put_strs(cay__buf *b, const char *const *v)
{
    cay__buf_str(b, "[");
    for (size_t i = 0; v && v[i]; i++) {
        cay__buf_str(b, i ? "," : "");
        put_str(b, v[i]);
    }
    cay__buf_str(b, "]");
}

static void put_list(cay__buf *b, const cay__field *f, const void *base)
{
    const cay__shape *s = f->more;
    const char *v = *(const char *const *)((const char *)base + f->at);
    size_t n = *(const size_t *)((const char *)base + f->count);
    cay__buf_str(b, "[");
    for (size_t i = 0; i < n; i++) {
        cay__buf_str(b, i ? "," : "");
        cay__shape_put(b, s, v + i * s->size);
    }
    cay__buf_str(b, "]");
}

static uint64_t load_number(cay__field_kind kind, const void *v)
{
    switch (kind) {
    case CAY__F_BOOL: return *(const bool *)v;
    case CAY__F_U16: return *(const uint16_t *)v;
    case CAY__F_U32:
    case CAY__F_MODE: return *(const uint32_t *)v;
    case CAY__F_SIZE: return *(const size_t *)v;
    case CAY__F_INT:
    case CAY__F_WORD:
    case CAY__F_SIGNAL: return (uint64_t) * (const int *)v;
    case CAY__F_U64:
    case CAY__F_I64:
    case CAY__F_LIMIT: return *(const uint64_t *)v;
    default: return 0;
    }
}

static bool is_empty(const cay__field *f, const void *v)
{
    switch (f->kind) {
    case CAY__F_STR:
    case CAY__F_PATH:
    case CAY__F_CHOICE:
    case CAY__F_JSON: return !*(const char *const *)v || !**(const char *const *)v;
    case CAY__F_TEXT:
    case CAY__F_PLACE: return !*(const char *)v;
    case CAY__F_BYTES:
    case CAY__F_STRS:
    case CAY__F_PAIRS:
    case CAY__F_LIST:
    case CAY__F_POINT: return !*(const void *const *)v;
    case CAY__F_OBJECT:
    case CAY__F_CALC:
    case CAY__F_BASE64: return false;
    default: return !load_number(f->kind, v);
    }
}

static void put_field(cay__buf *b, const cay__field *f, const void *base)
{
    const void *v = (const char *)base + f->at;
    switch (f->kind) {
    case CAY__F_PATH: put_path(b, f, *(const char *const *)v); return;
    case CAY__F_PLACE: put_path(b, f, v); return;
    case CAY__F_BYTES:
        put_bytes(b, f, *(const char *const *)v, *(const size_t *)((const char *)base + f->count));
        return;
    default: put_key(b, f->name, "");
    }
    switch (f->kind) {
    case CAY__F_STR:
    case CAY__F_CHOICE: put_str(b, *(const char *const *)v); break;
    case CAY__F_TEXT: put_str(b, v); break;
    case CAY__F_BOOL: cay__buf_str(b, *(const bool *)v ? "true" : "false"); break;
    case CAY__F_MODE: cay__buf_fmt(b, "\"%04o\"", *(const uint32_t *)v & 07777); break;
    case CAY__F_WORD: put_str(b, ((const char *const *)f->more)[load_number(f->kind, v)]); break;
    case CAY__F_JSON:
        cay__buf_str(b, *(const char *const *)v ? *(const char *const *)v : "{}");
        break;
    case CAY__F_STRS: put_strs(b, *(const char *const *const *)v); break;
    case CAY__F_PAIRS: put_pairs(b, *(const cay_pair *const *)v); break;
    case CAY__F_OBJECT: cay__shape_put(b, f->more, v); break;
    case CAY__F_POINT: cay__shape_put(b, f->more, *(const void *const *)v); break;
    case CAY__F_LIST: put_list(b, f, base); break;
    case CAY__F_CALC: f->put(b, v); break;
    case CAY__F_INT:
    case CAY__F_I64: cay__buf_fmt(b, "%" PRId64, (int64_t)load_number(f->kind, v)); break;
    default:
        if (f->kind == CAY__F_LIMIT && load_number(f->kind, v) == CAY_UNLIMITED)
            cay__buf_str(b, "\"unlimited\"");
        else
            cay__buf_fmt(b, "%" PRIu64, load_number(f->kind, v));
    }
}

void cay__shape_put(cay__buf *b, const cay__shape *s, const void *obj)
{
    cay__buf_str(b, "{");
    for (size_t i = 0; i < s->n; i++) {
        const cay__field *f = &s->fields[i];
        if (!((f->flags & CAY__F_MAYBE || f->kind == CAY__F_POINT) &&
              is_empty(f, (const char *)obj + f->at)))
            put_field(b, f, obj);
    }
    cay__buf_str(b, "}");
}

static json_t *make_ref(const cay__shape *s)
{
    char text[100];
    snprintf(text, sizeof text, "#/components/schemas/%s", s->name);
    return json_pack("{s:s}", "$ref", text);
}

static json_t *make_enum(const char *const *w)
{
    json_t *a = json_array();
    for (; *w; w++)
        json_array_append_new(a, json_string(*w));
    return json_pack("{s:s, s:o}", "type", "string", "enum", a);
}

static json_t *make_integer(const cay__field *f)
{
    json_t *j = json_pack("{s:s}", "type", "integer");
    if (f->kind != CAY__F_INT && f->kind != CAY__F_I64)
        json_object_set_new(j, "minimum", json_integer((json_int_t)f->min));
    if (f->max)
        json_object_set_new(j, "maximum", json_integer((json_int_t)f->max));
    return j;
}

static json_t *schema_of(const cay__field *f)
{
    switch (f->kind) {
    case CAY__F_BOOL: return json_pack("{s:s}", "type", "boolean");
    case CAY__F_U16:
    case CAY__F_U32:
    case CAY__F_U64:
    case CAY__F_SIZE:
    case CAY__F_INT:
    case CAY__F_I64: return make_integer(f);
    case CAY__F_LIMIT:
        return json_pack("{s:[o, {s:s}]}", "oneOf", make_integer(f), "const", "unlimited");
    case CAY__F_MODE: return json_pack("{s:s, s:s}", "type", "string", "pattern", "^[0-7]{1,5}$");
    case CAY__F_WORD:
    case CAY__F_CHOICE: return make_enum(f->more);
    case CAY__F_SIGNAL: return json_pack("{s:[s, s]}", "type", "string", "integer");
    case CAY__F_STRS:
        return json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string");
    case CAY__F_PAIRS:
        return json_pack("{s:s, s:{s:s}}", "type", "object", "additionalProperties", "type",
                         "string");
    case CAY__F_JSON:
        if (f->flags & CAY__F_ANY)
            return json_object();
        return json_pack("{s:s}", "type", "object");
    case CAY__F_OBJECT:
    case CAY__F_POINT: return make_ref(f->more);
    case CAY__F_LIST: return json_pack("{s:s, s:o}", "type", "array", "items", make_ref(f->more));
    case CAY__F_CALC: return json_loads(f->more, JSON_DECODE_ANY, NULL);
    case CAY__F_BASE64:
        return json_pack("{s:s, s:s}", "type", "string", "contentEncoding", "base64");
    case CAY__F_STR:
    case CAY__F_TEXT:
    case CAY__F_PATH:
    case CAY__F_PLACE:
    case CAY__F_BYTES: break;
    }
    return json_pack("{s:s}", "type", "string");
}

/* The twin of a member whose bytes may be no text. */
static void add_encoded_member(json_t *props, const cay__field *f, const char *tail,
                               const char *about)
{
    char name[80];
    snprintf(name, sizeof name, "%s_%s", f->name, tail);
    json_object_set_new(props, name,
                        json_pack("{s:s, s:s}", "type", "string", "description", about));
}

json_t *cay__shape_schema(const cay__shape *s)
{
    json_t *props = json_object(), *required = json_array();
    for (size_t i = 0; i < s->n; i++) {
        const cay__field *f = &s->fields[i];
        json_t *j = schema_of(f);
        if (f->about && !json_object_get(j, "$ref"))
            json_object_set_new(j, "description", json_string(f->about));
        json_object_set_new(props, f->name, j);
        if (f->flags & CAY__F_REQUIRED)
            json_array_append_new(required, json_string(f->name));
        if (f->kind == CAY__F_PATH || f->kind == CAY__F_PLACE)
            add_encoded_member(props, f, "hex", "all its bytes, when it is not UTF-8");
        if (f->kind == CAY__F_BYTES)
            add_encoded_member(props, f, "base64", "instead, when it is not UTF-8");
    }
    json_t *out = json_pack("{s:s, s:o, s:b}", "type", "object", "properties", props,
                            "additionalProperties", 0);
    if (json_array_size(required))
        json_object_set(out, "required", required);
    json_decref(required);
    if (s->about)
        json_object_set_new(out, "description", json_string(s->about));
    return out;
}
