/* SPDX-License-Identifier: Apache-2.0 */
/* A struct as JSON, and its schema, by the same table. */
#include "shape.h"
#include <base/base.h>
#include <base/base64.h>
#include <cay/client.h>
#include <inttypes.h>

bool cay__utf8(const char *s, size_t n)
{
    for (size_t k; n; s += k, n -= k)
        if (!(k = cay__utf8_len(s, n)))
            return false;
    return true;
}

bool cay__field_seen(const cay__shape *s, const cay__field *f, unsigned view)
{
    const unsigned uses = CAY__F_IN | CAY__F_OUT | CAY__F_KEPT | CAY__F_SHOWN;
    unsigned use = CAY_OR(f->flags & uses, s->use);
    if (use & CAY__F_OUT && !(f->flags & CAY__F_UNSHOWN))
        use |= CAY__F_SHOWN;
    unsigned needs = f->flags & (CAY__F_ADMIN | CAY__F_SECRET);
    return (use & view) && !(needs & ~view);
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

/* A text of any bytes in a record. */
static void put_kept(cay__buf *b, unsigned view, const char *s)
{
    if (!(view & CAY__F_KEPT) || !s || cay__utf8(s, strlen(s))) {
        put_str(b, s);
        return;
    }
    cay__buf_str(b, "{\"hex\":\"");
    cay__buf_hex(b, s, strlen(s));
    cay__buf_str(b, "\"}");
}

static void put_path(cay__buf *b, const cay__field *f, unsigned view, const char *s)
{
    s = CAY_OR(s, "");
    put_key(b, f->name, "");
    put_str(b, s);
    if (cay__utf8(s, strlen(s)) || view & CAY__F_IN)
        return;
    put_key(b, f->name, "_hex");
    cay__buf_str(b, "\"");
    cay__buf_hex(b, s, strlen(s));
    cay__buf_str(b, "\"");
}

static void put_base64(cay__buf *b, const char *s, size_t n)
{
    cay__buf_str(b, "\"");
    cay__base64_put(b, s, n);
    cay__buf_str(b, "\"");
}

static void put_bytes(cay__buf *b, const cay__field *f, const char *s, size_t n)
{
    bool text = cay__utf8(CAY_OR(s, ""), n);
    put_key(b, f->name, text ? "" : "_base64");
    if (text)
        cay__buf_json(b, CAY_OR(s, ""), n);
    else
        put_base64(b, s, n);
}

static void put_number(cay__buf *b, const cay__field *f, unsigned view, uint64_t n)
{
    bool shown = view & CAY__F_SHOWN;
    if (f->kind == CAY__F_INT || f->kind == CAY__F_I64)
        cay__buf_fmt(b, "%" PRId64, (int64_t)n);
    else if (f->kind == CAY__F_LIMIT && n == CAY_UNLIMITED)
        cay__buf_str(b, shown ? "null" : "\"unlimited\"");
    else if (f->flags & CAY__F_NULL && shown && !n)
        cay__buf_str(b, "null");
    else
        cay__buf_fmt(b, "%" PRIu64, n);
}

static const cay_pair *last_of_key(const cay_pair *p)
{
    const cay_pair *last = p;
    for (const cay_pair *q = p; q->key; q++)
        if (!strcmp(q->key, p->key))
            last = q;
    return last;
}

static bool is_repeated(const cay_pair *first, const cay_pair *p)
{
    while (first < p && strcmp(first->key, p->key) != 0)
        first++;
    return first < p;
}

static void put_pairs(cay__buf *b, unsigned view, const cay_pair *p)
{
    cay__buf_str(b, "{");
    for (const cay_pair *q = p; q && q->key; q++) {
        if (view & CAY__F_KEPT && is_repeated(p, q))
            continue;
        cay__buf_str(b, q == p ? "" : ",");
        put_str(b, q->key);
        cay__buf_str(b, ":");
        if (view & CAY__F_KEPT)
            put_kept(b, view, last_of_key(q)->value);
        else
            put_str(b, q->value);
    }
    cay__buf_str(b, "}");
}

static void put_strs(cay__buf *b, unsigned view, const char *const *v)
{
    cay__buf_str(b, "[");
    for (size_t i = 0; v && v[i]; i++) {
        cay__buf_str(b, i ? "," : "");
        put_kept(b, view, v[i]);
    }
    cay__buf_str(b, "]");
}

static void put_list(cay__buf *b, const cay__field *f, unsigned view, const void *base)
{
    const cay__shape *s = f->more;
    const char *v = *(const char *const *)((const char *)base + f->at);
    size_t n = *(const size_t *)((const char *)base + f->count);
    cay__buf_str(b, "[");
    for (size_t i = 0; i < n; i++) {
        cay__buf_str(b, i ? "," : "");
        cay__shape_put(b, s, view, v + i * s->size);
    }
    cay__buf_str(b, "]");
}

static void put_word(cay__buf *b, const cay__field *f, int value)
{
    const char *const *w = f->more;
    int i = value - (int)f->min;
    while (i > 0 && *w) {
        w++;
        i--;
    }
    put_str(b, i == 0 ? *w : NULL);
}

/* By the letter that each word begins with; the last one stands for all others. */
static void put_letter(cay__buf *b, const cay__field *f, const void *v)
{
    int letter = f->room == 1 ? *(const char *)v : *(const int *)v;
    const char *const *w = f->more;
    while (w[1] && w[0][0] != letter)
        w++;
    put_str(b, *w + 1);
}

uint64_t cay__field_number(cay__field_kind kind, const void *v)
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

static size_t count_of(const cay__field *f, const void *base)
{
    return *(const size_t *)((const char *)base + f->count);
}

/* Of a record: is there a first one? */
static bool has_first(const cay__field *f, const void *base)
{
    const void *v = (const char *)base + f->at;
    if (f->kind == CAY__F_LIST)
        return f->flags & CAY__F_ZERO || count_of(f, base);
    const void *const *list = *(const void *const *const *)v;
    return list && *list; /* of pairs: its key */
}

/* Of a request: does it say anything? */
static bool is_said(const cay__field *f, const void *base)
{
    const void *v = (const char *)base + f->at;
    switch (f->kind) {
    case CAY__F_STR:
    case CAY__F_PATH:
    case CAY__F_CHOICE:
    case CAY__F_STRS:
    case CAY__F_PAIRS:
    case CAY__F_BASE64:
    case CAY__F_POINT: return *(const void *const *)v;
    case CAY__F_JSON: return *(const char *const *)v && **(const char *const *)v;
    case CAY__F_LIST: return count_of(f, base);
    case CAY__F_OBJECT: return true;
    default: break;
    }
    uint64_t n = cay__field_number(f->kind, v);
    if (f->flags & CAY__F_ZERO)
        return f->kind != CAY__F_U32 || n != UINT32_MAX;
    return n != 0;
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
    default: return !cay__field_number(f->kind, v);
    }
}

static void put_field(cay__buf *b, const cay__field *f, unsigned view, const void *base)
{
    const void *v = (const char *)base + f->at;
    switch (f->kind) {
    case CAY__F_PATH: put_path(b, f, view, *(const char *const *)v); return;
    case CAY__F_PLACE: put_path(b, f, view, v); return;
    case CAY__F_BYTES: put_bytes(b, f, *(const char *const *)v, count_of(f, base)); return;
    default: put_key(b, f->name, "");
    }
    switch (f->kind) {
    case CAY__F_STR:
    case CAY__F_CHOICE: put_kept(b, view, *(const char *const *)v); break;
    case CAY__F_TEXT: put_str(b, v); break;
    case CAY__F_BOOL: cay__buf_str(b, *(const bool *)v ? "true" : "false"); break;
    case CAY__F_MODE: cay__buf_fmt(b, "\"%04o\"", *(const uint32_t *)v & 07777); break;
    case CAY__F_WORD: put_word(b, f, *(const int *)v); break;
    case CAY__F_LETTER: put_letter(b, f, v); break;
    case CAY__F_BASE64: put_base64(b, *(const char *const *)v, count_of(f, base)); break;
    case CAY__F_JSON:
        if (view & CAY__F_SHOWN && is_empty(f, v))
            cay__buf_str(b, "null");
        else
            cay__buf_str(b, CAY_OR(*(const char *const *)v, "{}"));
        break;
    case CAY__F_STRS: put_strs(b, view, *(const char *const *const *)v); break;
    case CAY__F_PAIRS: put_pairs(b, view, *(const cay_pair *const *)v); break;
    case CAY__F_OBJECT: cay__shape_put(b, f->more, view, v); break;
    case CAY__F_POINT:
        if (*(const void *const *)v)
            cay__shape_put(b, f->more, view, *(const void *const *)v);
        else
            cay__buf_str(b, "null");
        break;
    case CAY__F_LIST: put_list(b, f, view, base); break;
    case CAY__F_CALC: f->put(b, v); break;
    default: put_number(b, f, view, cay__field_number(f->kind, v));
    }
}

/* A request tells what it says, an answer all that is not left out when it is empty. */
static bool is_put(const cay__field *f, unsigned view, const void *obj)
{
    bool many = f->kind == CAY__F_STRS || f->kind == CAY__F_PAIRS || f->kind == CAY__F_LIST;
    if (view & CAY__F_KEPT && many)
        return has_first(f, obj);
    if (view & (CAY__F_IN | CAY__F_KEPT))
        return f->flags & CAY__F_REQUIRED || is_said(f, obj);
    if (f->kind == CAY__F_POINT && f->flags & CAY__F_NULL)
        return true;
    if (view & CAY__F_SHOWN && f->flags & CAY__F_FULL)
        return true;
    if (view & CAY__F_SHOWN && f->kind == CAY__F_PAIRS && f->flags & CAY__F_MAYBE)
        return is_said(f, obj) && (*(const cay_pair *const *)((const char *)obj + f->at))->key;
    bool may_lack = f->flags & CAY__F_MAYBE || f->kind == CAY__F_POINT;
    return !may_lack || !is_empty(f, (const char *)obj + f->at);
}

void cay__shape_put(cay__buf *b, const cay__shape *s, unsigned view, const void *obj)
{
    cay__buf_str(b, "{");
    CAY_EACH_OF(f, s->fields, s->n)
        if (cay__field_seen(s, f, view) && is_put(f, view, obj))
            put_field(b, f, view, obj);
    cay__buf_str(b, "}");
}

static bool is_text(const char *s)
{
    return !s || cay__utf8(s, strlen(s));
}

static bool field_utf8(const cay__field *f, const void *base)
{
    const void *v = (const char *)base + f->at;
    const cay__shape *s = f->more;
    bool ok = true;
    switch (f->kind) {
    case CAY__F_STR:
    case CAY__F_PATH:
    case CAY__F_JSON: return is_text(*(const char *const *)v);
    case CAY__F_STRS:
        for (const char *const *p = *(const char *const *const *)v; ok && p && *p; p++)
            ok = is_text(*p);
        return ok;
    case CAY__F_PAIRS:
        for (const cay_pair *p = *(const cay_pair *const *)v; ok && p && p->key; p++)
            ok = is_text(p->key) && is_text(p->value);
        return ok;
    case CAY__F_OBJECT: return cay__shape_utf8(s, v);
    case CAY__F_LIST:
        for (size_t i = 0; ok && i < count_of(f, base); i++)
            ok = cay__shape_utf8(s, *(const char *const *)v + i * s->size);
        return ok;
    default: return true;
    }
}

bool cay__shape_utf8(const cay__shape *s, const void *obj)
{
    CAY_EACH_OF(field, s->fields, s->n)
        if (!field_utf8(field, obj))
            return false;
    return true;
}

static json_t *make_ref(const cay__shape *s)
{
    char text[100];
    CAY_FORMAT(text, "#/components/schemas/%s", s->name);
    return json_pack("{s:s}", "$ref", text);
}

/* skip: letters before each word, of which two may stand for the same. */
static json_t *make_enum(const char *const *w, size_t skip)
{
    json_t *a = json_array();
    for (const char *last = ""; *w; last = *w++ + skip)
        if (strcmp(last, *w + skip) != 0)
            json_array_append_new(a, json_string(*w + skip));
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
    case CAY__F_CHOICE: return make_enum(f->more, 0);
    case CAY__F_LETTER: return make_enum(f->more, 1);
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
    case CAY__F_POINT:
        if (f->flags & CAY__F_NULL)
            return json_pack("{s:[o, {s:s}]}", "oneOf", make_ref(f->more), "type", "null");
        return make_ref(f->more);
    case CAY__F_OBJECT: return make_ref(f->more);
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
    CAY_FORMAT(name, "%s_%s", f->name, tail);
    json_object_set_new(props, name,
                        json_pack("{s:s, s:s}", "type", "string", "description", about));
}

json_t *cay__shape_schema(const cay__shape *s)
{
    json_t *props = json_object(), *required = json_array();
    CAY_EACH_OF(f, s->fields, s->n) {
        if (!cay__field_seen(s, f, CAY__F_IN | CAY__F_OUT | CAY__F_ADMIN | CAY__F_SECRET))
            continue; /* it does not travel */
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
