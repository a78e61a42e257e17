/* SPDX-License-Identifier: Apache-2.0 */
/* The part of JSON Schema that tools and outputs use; what is not known is not judged. */
#include "run.h"

enum { DEEP = 64, STEPS = 100000, STEP_BYTES = 4096 };

typedef struct place {
    const json_t *root;
    const struct place *up;
    const char *key;
    size_t index;
    unsigned depth;
    size_t *left; /* steps of the whole check: choices of choices grow without end */
} place;

static void path_of(const place *p, cay__buf *b)
{
    if (!p->up)
        return;
    path_of(p->up, b);
    if (p->key)
        cay__buf_fmt(b, "%s%.40s", CAY_TEXT_IF(b->len, "."), p->key);
    else
        cay__buf_fmt(b, "[%zu]", p->index);
}

static int fail_schema(const place *p, cay_err *err, const char *what, const char *more)
{
    CAY_AUTOBUF b = CAY__BUF(400);
    path_of(p, &b);
    return cay_fail_why(err, CAY_EINVAL, "schema", "%s%s%s%.100s", CAY_TEXT_IF(b.len, b.data),
                        CAY_TEXT_IF(b.len, ": "), what, more);
}

static bool is_type(const json_t *v, const char *t)
{
    static const struct {
        const char *name;
        json_type type;
    } types[] = { { "string", JSON_STRING },
                  { "object", JSON_OBJECT },
                  { "array", JSON_ARRAY },
                  { "null", JSON_NULL },
                  { "integer", JSON_INTEGER } };
    if (!strcmp(t, "boolean"))
        return json_is_boolean(v);
    if (!strcmp(t, "number"))
        return json_is_number(v);
    if (!strcmp(t, "integer") && json_is_real(v))
        return json_real_value(v) > -9e15 && json_real_value(v) < 9e15 &&
               (double)(int64_t)json_real_value(v) == json_real_value(v);
    CAY_EACH(it, types)
        if (!strcmp(it->name, t))
            return json_typeof(v) == it->type;
    return true;
}

static int check_type(const place *p, const json_t *type, const json_t *v, cay_err *err)
{
    if (json_is_string(type)) {
        if (is_type(v, json_string_value(type)))
            return 0;
        return fail_schema(p, err, "want ", json_string_value(type));
    }
    CAY_EACH_ITEM(t, type)
        if (json_is_string(t) && is_type(v, json_string_value(t)))
            return 0;
    if (json_array_size(type))
        return fail_schema(p, err, "of a wrong type", "");
    return 0;
}

static int check_value(const place *p, const json_t *s, const json_t *v, cay_err *err);

static int check_object(const place *p, const json_t *s, const json_t *v, cay_err *err)
{
    const json_t *props = json_object_get(s, "properties"),
                 *more = json_object_get(s, "additionalProperties");
    CAY_EACH_ITEM(one, json_object_get(s, "required"))
        if (json_is_string(one) && !json_object_get(v, json_string_value(one)))
            return fail_schema(p, err, "lacks ", json_string_value(one));
    CAY_EACH_MEMBER(key, one, v) {
        const json_t *ps = json_object_get(props, key);
        place at = { .root = p->root, .up = p, .key = key, .depth = p->depth + 1, .left = p->left };
        if (!ps && json_is_false(more))
            return fail_schema(p, err, "there is no ", key);
        if (ps || json_is_object(more))
            CAY_TRY(check_value(&at, CAY_OR(ps, more), one, err));
    }
    return 0;
}

static int check_array(const place *p, const json_t *s, const json_t *v, cay_err *err)
{
    const json_t *items = json_object_get(s, "items");
    if ((int64_t)json_array_size(v) < cay__json_int(s, "minItems", 0) ||
        (int64_t)json_array_size(v) > cay__json_int(s, "maxItems", INT64_MAX))
        return fail_schema(p, err, "has too few or too many members", "");
    if (!json_is_object(items))
        return 0;
    CAY_EACH_ITEM(one, v) {
        place at = {
            .root = p->root, .up = p, .index = one_at, .depth = p->depth + 1, .left = p->left
        };
        CAY_TRY(check_value(&at, items, one, err));
    }
    return 0;
}

static int64_t count_characters(const json_t *v)
{
    const char *s = json_string_value(v);
    int64_t n = 0;
    CAY_EACH_OF(it, s, json_string_length(v))
        n += (*it & 0xc0) != 0x80;
    return n;
}

static int check_scalar(const place *p, const json_t *s, const json_t *v, cay_err *err)
{
    const json_t *e = json_object_get(s, "enum"), *c = json_object_get(s, "const"),
                 *least = json_object_get(s, "minimum"), *most = json_object_get(s, "maximum");
    bool found = !json_is_array(e);
    CAY_EACH_ITEM(one, e)
        found = found || json_equal(one, v);
    if (!found || (c && !json_equal(c, v)))
        return fail_schema(p, err, "is none of the values that are allowed", "");
    if (json_is_number(v) &&
        ((json_is_number(least) && json_number_value(v) < json_number_value(least)) ||
         (json_is_number(most) && json_number_value(v) > json_number_value(most))))
        return fail_schema(p, err, "is too small or too large", "");
    if (json_is_string(v) && (count_characters(v) < cay__json_int(s, "minLength", 0) ||
                              count_characters(v) > cay__json_int(s, "maxLength", INT64_MAX)))
        return fail_schema(p, err, json_string_length(v) ? "is too short or too long" : "is empty",
                           "");
    return 0;
}

static int check_choices(const place *p, const json_t *s, const json_t *v, cay_err *err)
{
    static const char *const any[] = { "anyOf", "oneOf" };
    CAY_EACH(it, any) {
        const json_t *list = json_object_get(s, *it);
        bool fits = !json_array_size(list);
        CAY_EACH_ITEM(one, list)
            fits = fits || check_value(p, one, v, NULL) == 0;
        if (!fits)
            return fail_schema(p, err, "fits none of the forms that are allowed", "");
    }
    CAY_EACH_ITEM(one, json_object_get(s, "allOf")) {
        CAY_TRY(check_value(p, one, v, err));
    }
    return 0;
}

static const json_t *resolve_ref(const json_t *root, const char *ref)
{
    const char *name;
    if (!strncmp(ref, "#/$defs/", 8))
        name = ref + 8;
    else if (!strncmp(ref, "#/definitions/", 14))
        name = ref + 14;
    else
        name = NULL;
    const json_t *defs =
        json_object_get(root, !strncmp(ref, "#/$defs/", 8) ? "$defs" : "definitions");
    if (!strcmp(ref, "#"))
        return root;
    if (name)
        return json_object_get(defs, name);
    return NULL;
}

/* What one schema costs against one value, without what is below them. */
static bool spend_steps(const place *p, const json_t *s, const json_t *v)
{
    size_t cost = 1 + json_array_size(json_object_get(s, "enum")) +
                  json_array_size(json_object_get(s, "required")) +
                  json_array_size(json_object_get(s, "type")) + json_object_size(v) / 8 +
                  json_string_length(v) / STEP_BYTES;
    *p->left -= CAY_MIN(cost, *p->left);
    return *p->left > 0;
}

static int check_value(const place *p, const json_t *s, const json_t *v, cay_err *err)
{
    if (!spend_steps(p, s, v))
        return fail_schema(p, err, "takes too long to check", "");
    if (p->depth > DEEP)
        return fail_schema(p, err, "nested too deeply", "");
    if (!json_is_object(s)) {
        if (json_is_false(s))
            return fail_schema(p, err, "is not allowed", "");
        return 0;
    }
    const char *ref = cay__json_str(s, "$ref", NULL);
    if (ref) {
        place at = *p;
        at.depth++;
        const json_t *to = resolve_ref(p->root, ref);
        if (to)
            return check_value(&at, to, v, err);
        return 0;
    }
    CAY_TRY(check_type(p, json_object_get(s, "type"), v, err));
    CAY_TRY(check_scalar(p, s, v, err));
    CAY_TRY(check_choices(p, s, v, err));
    if (json_is_object(v))
        return check_object(p, s, v, err);
    if (json_is_array(v))
        return check_array(p, s, v, err);
    return 0;
}

int cay__schema_check(const json_t *schema, const json_t *value, cay_err *err)
{
    size_t left = STEPS;
    place p = { .root = schema, .left = &left };
    int rc = check_value(&p, schema, value, err);
    if (left)
        return rc;
    return fail_schema(&p, err,
                       "takes more than 100000 steps to check against its schema: give less of it "
                       "at once",
                       "");
}
