/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#define LARGE                                                                                      \
    16384 /* where a second reader, which may leave it to the first after all, is worth it */

static int parse_text(const char *what, const char *text, size_t flags, json_t **out, cay_err *err)
{
    json_error_t je;
    size_t len = strlen(text);
    json_t *j = NULL;
    if (len >= LARGE)
        j = cay__json_quick(text, len);
    j = CAY_OR(j, json_loads(text, flags | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je));
    if (!j)
        return cay_fail(err, CAY_EINVAL, "%s is not sound JSON: line %d, column %d: %.100s", what,
                        je.line, je.column, je.text);
    *out = j;
    return 0;
}

int cay__json_any(const char *what, const char *text, json_t **out, cay_err *err)
{
    return parse_text(what, text, JSON_DECODE_ANY, out, err);
}

int cay__json_object(const char *what, const char *text, json_t **out, cay_err *err)
{
    json_t *j;
    CAY_TRY(parse_text(what, text, JSON_DECODE_ANY, &j, err));
    if (!json_is_object(j)) {
        json_decref(j);
        return cay_fail(err, CAY_EINVAL, "%s is not a JSON object; write it as {…}", what);
    }
    *out = j;
    return 0;
}

/* jansson minds the locale's decimal point. 15 digits are enough for what people write; 17 for all.
 */
static void print_real(cay__buf *b, const json_t *j)
{
    char *s = json_dumps(j, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    json_t *back = NULL;
    if (s)
        back = json_loads(s, JSON_DECODE_ANY, NULL);
    if (!back || json_real_value(back) != json_real_value(j)) {
        free(s);
        s = json_dumps(j, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    }
    json_decref(back);
    cay__buf_str(b, CAY_OR(s, "0"));
    free(s);
}

/* As deep as jansson reads, which is 2048. */
static void print_value(cay__buf *b, const json_t *j)
{
    const char *key, *sep = "";
    json_t *v;
    size_t i;
    if (!j) {
        cay__buf_str(b, "null");
        return;
    }
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        cay__buf_str(b, "{");
        json_object_foreach((json_t *)j, key, v) {
            cay__buf_str(b, sep);
            cay__buf_json(b, key, strlen(key));
            cay__buf_str(b, ":");
            print_value(b, v);
            sep = ",";
        }
        cay__buf_str(b, "}");
        break;
    case JSON_ARRAY:
        cay__buf_str(b, "[");
        json_array_foreach(j, i, v) {
            cay__buf_str(b, sep);
            print_value(b, v);
            sep = ",";
        }
        cay__buf_str(b, "]");
        break;
    case JSON_STRING: cay__buf_json(b, json_string_value(j), json_string_length(j)); break;
    case JSON_INTEGER: cay__buf_fmt(b, "%" JSON_INTEGER_FORMAT, json_integer_value(j)); break;
    case JSON_REAL: print_real(b, j); break;
    case JSON_TRUE: cay__buf_str(b, "true"); break;
    case JSON_FALSE: cay__buf_str(b, "false"); break;
    case JSON_NULL: cay__buf_str(b, "null"); break;
    }
}

char *cay__json_text(const json_t *j, size_t max)
{
    CAY_AUTOBUF b = CAY__BUF(max);
    print_value(&b, j);
    if (b.full)
        return NULL;
    return CAY_STEAL(b.data);
}

const char *cay__json_cstr(const json_t *v)
{
    const char *s = json_string_value(v);
    if (s && strlen(s) == json_string_length(v))
        return s;
    return NULL;
}

const char *cay__json_str(const json_t *obj, const char *key, const char *none)
{
    return CAY_OR(cay__json_cstr(json_object_get(obj, key)), none);
}

const char **cay__json_strings(cay__arena *mem, const json_t *list, size_t *n)
{
    size_t i, k = 0;
    json_t *v;
    const char **out = cay__arena_take(mem, (json_array_size(list) + 1) * sizeof *out);
    json_array_foreach(list, i, v)
        if (json_is_string(v))
            out[k++] = cay__arena_str(mem, json_string_value(v));
    if (n)
        *n = k;
    return out;
}

int64_t cay__json_int(const json_t *obj, const char *key, int64_t none)
{
    const json_t *v = json_object_get(obj, key);
    if (json_is_integer(v))
        return (int64_t)json_integer_value(v);
    return none;
}

bool cay__json_bool(const json_t *obj, const char *key, bool none)
{
    const json_t *v = json_object_get(obj, key);
    if (json_is_boolean(v))
        return json_is_true(v);
    return none;
}

json_t *cay__json_object_in(json_t *obj, const char *key)
{
    if (!json_is_object(json_object_get(obj, key)))
        json_object_set_new(obj, key, json_object());
    return json_object_get(obj, key);
}

json_t *cay__json_list_in(json_t *obj, const char *key)
{
    if (!json_is_array(json_object_get(obj, key)))
        json_object_set_new(obj, key, json_array());
    return json_object_get(obj, key);
}

void cay__json_put(json_t *obj, const char *key, const char *text)
{
    json_object_set_new(obj, key, json_string(text));
}

void cay__json_put_int(json_t *obj, const char *key, int64_t n)
{
    json_object_set_new(obj, key, json_integer(n));
}

json_t *cay__json_bytes(const char *s)
{
    json_t *j = json_string(s); /* NULL when it is not UTF-8 */
    if (j)
        return j;
    CAY_AUTOBUF hex = CAY__BUF(2 * strlen(s) + 1);
    cay__buf_hex(&hex, s, strlen(s));
    return json_pack("{s:s}", "hex", hex.data);
}

char *cay__json_to_bytes(const json_t *j)
{
    const char *s = cay__json_cstr(j);
    if (s)
        return cay__strdup(s);
    const char *hex = cay__json_str(j, "hex", NULL);
    size_t n = 1;
    if (hex)
        n = strlen(hex);
    if (n % 2 || (hex && cay__hex_len(hex) != n))
        return NULL;
    char *out = cay__alloc(n / 2 + 1);
    if (!cay__hex_get(out, hex, n / 2) || memchr(out, 0, n / 2)) {
        free(out);
        return NULL;
    }
    return out;
}

char *cay__json_plain(const json_t *j, size_t max)
{
    if (!j)
        return NULL;
    if (json_is_string(j))
        return cay__strdup(json_string_value(j));
    return cay__json_text(j, max);
}
