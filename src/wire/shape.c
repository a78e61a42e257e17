/* SPDX-License-Identifier: Apache-2.0 */
/* JSON into a struct, by a table. */
#include "shape.h"
#include <base/base.h>
#include <base/base64.h>
#include <base/mutant.h>
#include <base/str.h>
#include <cay/client.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>

enum { STR_MAX = 131071, STRS_MAX = 10000, TEXT_MAX = 64 << 20 };

/* Where we are, from the inside out. */
typedef struct spot {
    const struct spot *up;
    const char *name;
    size_t index; /* of a list, with name NULL */
} spot;

typedef struct reader {
    cay__arena *mem;
    cay_err *err;
} reader;

static int read_shape(reader *r, const spot *up, const json_t *obj, const cay__shape *s, void *out);

static void format_path(cay__buf *b, const spot *s)
{
    if (s->up)
        format_path(b, s->up);
    if (s->name)
        cay__buf_fmt(b, "%s%.60s", b->len ? "." : "", s->name);
    else
        cay__buf_fmt(b, "[%zu]", s->index);
}

/* A name of the peer's may be anything: cut, and without what a terminal would obey. */
static int fail_field(reader *r, const spot *at, const char *reason, const char *fmt, ...)
{
    char text[200];
    CAY_AUTOBUF path = CAY__BUF(300);
    CAY_AUTOBUF safe = CAY__BUF(400);
    CAY_AUTOBUF detail = CAY__BUF(700);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    format_path(&path, at);
    cay__buf_safe(&safe, CAY_OR(path.data, ""), path.len, false);
    int rc = cay_fail_why(r->err, CAY_EINVAL, reason, "%.120s: %s", CAY_OR(safe.data, ""), text);
    cay__buf_str(&detail, "{\"field\":");
    cay__buf_json(&detail, CAY_OR(safe.data, ""), safe.len);
    cay__buf_str(&detail, "}");
    if (r->err && !detail.full)
        cay__str_copy(r->err->detail, sizeof r->err->detail, detail.data);
    return rc;
}

static int fail_value(reader *r, const spot *at, const char *fmt, ...)
{
    char text[180];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fail_field(r, at, "field_invalid", "want %s", text);
}

static int get_str(reader *r, const spot *at, const cay__field *f, const json_t *j,
                   const char **out)
{
    size_t max = CAY_OR(f->max, STR_MAX), n = json_string_length(j);
    if (!json_is_string(j))
        return fail_value(r, at, "a text");
    if (strlen(json_string_value(j)) != n)
        return fail_value(r, at, "a text without a NUL");
    if (n > max || n < f->min)
        return fail_value(r, at,
                          n > max ? "a text of at most %zu bytes" : "a text of at least %zu bytes",
                          n > max ? max : (size_t)f->min);
    *out = cay__arena_str(r->mem, json_string_value(j));
    return 0;
}

static uint64_t max_value(const cay__field *f)
{
    static const uint64_t room[] = {
        [CAY__F_U16] = UINT16_MAX, [CAY__F_U32] = UINT32_MAX, [CAY__F_INT] = INT32_MAX
    };
    uint64_t m = 0;
    if (f->kind < CAY_LEN(room))
        m = room[f->kind];
    return CAY_OR(f->max, CAY_OR(m, INT64_MAX));
}

static int get_number(reader *r, const spot *at, const cay__field *f, const json_t *j, void *out)
{
    int64_t v = json_integer_value(j);
    bool unlimited =
        f->kind == CAY__F_LIMIT && json_is_string(j) && !strcmp(json_string_value(j), "unlimited");
    if (unlimited) {
        *(uint64_t *)out = CAY_UNLIMITED;
        return 0;
    }
    if (!json_is_integer(j) || v < 0 || (uint64_t)v < f->min || (uint64_t)v > max_value(f))
        return fail_value(r, at, "a whole number from %" PRIu64 " to %" PRIu64 "%s", f->min,
                          max_value(f), f->kind == CAY__F_LIMIT ? ", or \"unlimited\"" : "");
    switch (f->kind) {
    case CAY__F_U16: *(uint16_t *)out = (uint16_t)v; break;
    case CAY__F_U32: *(uint32_t *)out = (uint32_t)v; break;
    case CAY__F_SIZE: *(size_t *)out = (size_t)v; break;
    case CAY__F_INT: *(int *)out = (int)v; break;
    default: *(uint64_t *)out = (uint64_t)v; break;
    }
    return 0;
}

static int get_mode(reader *r, const spot *at, const json_t *j, uint32_t *out)
{
    const char *s = json_string_value(j);
    char *end = NULL;
    unsigned long v = 0;
    if (s && *s >= '0' && *s <= '7' && strlen(s) <= 5)
        v = strtoul(s, &end, 8);
    if (!end || *end || v > 07777)
        return fail_value(r, at, "permissions as octal text, such as \"0644\"");
    *out = (uint32_t)v;
    return 0;
}

static int get_word(reader *r, const spot *at, const cay__field *f, const json_t *j, size_t *which)
{
    const char *const *w = f->more;
    const char *s = json_string_value(j);
    CAY_AUTOBUF list = CAY__BUF(160);
    for (size_t i = 0; w[i]; i++) {
        if (s && !strcmp(s, w[i])) {
            *which = i;
            return 0;
        }
        cay__buf_fmt(&list, "%s%s", i ? ", " : "", w[i]);
    }
    return fail_value(r, at, "one of %s", list.data);
}

/* sigabbrev_np(3) is glibc's table of their names. */
int cay__signal_parse(const json_t *j)
{
    const char *s = json_string_value(j);
    uint64_t n;
    if (json_is_integer(j)) {
        if (json_integer_value(j) >= 0 && json_integer_value(j) < NSIG)
            return (int)json_integer_value(j);
        return -1;
    }
    if (s && cay__str_to_u64(s, &n)) {
        if (n < NSIG)
            return (int)n;
        return -1;
    }
    if (s && !strncasecmp(s, "SIG", 3))
        s += 3;
    for (int i = 1; s && i < NSIG; i++)
        if (sigabbrev_np(i) && !strcasecmp(sigabbrev_np(i), s))
            return i;
    return -1;
}

static int get_strs(reader *r, const spot *up, const cay__field *f, const json_t *j,
                    const char *const **out)
{
    size_t n = json_array_size(j), max = CAY_OR(f->max, STRS_MAX);
    if (!json_is_array(j) || n > max || n < f->min)
        return fail_value(r, up, "a list of %" PRIu64 " to %zu texts", f->min, max);
    const char **v = cay__arena_take(r->mem, (n + !CAY__MUTANT("fuzz-fields")) * sizeof *v);
    for (size_t i = 0; i < n; i++) {
        spot at = { up, NULL, i };
        CAY_TRY(get_str(r, &at, &(cay__field){ 0 }, json_array_get(j, i), &v[i]));
    }
    *out = v;
    return 0;
}

static int get_pairs(reader *r, const spot *up, const json_t *j, const cay_pair **out)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    if (!json_is_object(j) || json_object_size(j) > STRS_MAX)
        return fail_value(r, up, "an object of texts, at most %d", STRS_MAX);
    cay_pair *v = cay__arena_take(r->mem, (json_object_size(j) + 1) * sizeof *v);
    json_object_foreach((json_t *)j, key, value)
    {
        spot at = { up, key, 0 };
        v[n].key = cay__arena_str(r->mem, key);
        CAY_TRY(get_str(r, &at, &(cay__field){ 0 }, value, &v[n++].value));
    }
    *out = v;
    return 0;
}

static int get_list(reader *r, const spot *up, const cay__field *f, const json_t *j, void *base)
{
    const cay__shape *s = f->more;
    size_t n = json_array_size(j), max = CAY_OR(f->max, STRS_MAX);
    if (!json_is_array(j) || n > max)
        return fail_value(r, up, "a list of at most %zu objects", max);
    char *v = cay__arena_take(r->mem, (n + 1) * s->size);
    for (size_t i = 0; i < n; i++) {
        spot at = { up, NULL, i };
        CAY_TRY(read_shape(r, &at, json_array_get(j, i), s, v + i * s->size));
    }
    *(void **)((char *)base + f->at) = v;
    *(size_t *)((char *)base + f->count) = n;
    return 0;
}

static int get_json(reader *r, const spot *at, const cay__field *f, const json_t *j,
                    const char **out)
{
    if (!(f->flags & CAY__F_ANY) && !json_is_object(j))
        return fail_value(r, at, "an object");
    char *text = cay__json_text(j, CAY_OR(f->max, TEXT_MAX));
    if (!text)
        return fail_value(r, at, "less of it");
    *out = cay__arena_adopt(r->mem, text);
    return 0;
}

static int get_base64(reader *r, const spot *at, const cay__field *f, const json_t *j, void *base)
{
    cay__buf b = CAY__BUF(TEXT_MAX);
    if (!json_is_string(j) || !cay__base64_get(&b, json_string_value(j), json_string_length(j))) {
        cay__buf_clear(&b);
        return fail_value(r, at, "base64 with its padding, and nothing between");
    }
    *(const char **)((char *)base + f->at) = b.data ? cay__arena_adopt(r->mem, b.data) : "";
    *(size_t *)((char *)base + f->count) = b.len;
    return 0;
}

static int get_field(reader *r, const spot *at, const cay__field *f, const json_t *j, void *base)
{
    void *out = (char *)base + f->at;
    size_t which;
    switch (f->kind) {
    case CAY__F_STR:
    case CAY__F_PATH: return get_str(r, at, f, j, out);
    case CAY__F_BOOL:
        if (!json_is_boolean(j))
            return fail_value(r, at, "true or false");
        *(bool *)out = json_is_true(j);
        return 0;
    case CAY__F_U16:
    case CAY__F_U32:
    case CAY__F_U64:
    case CAY__F_SIZE:
    case CAY__F_INT:
    case CAY__F_I64:
    case CAY__F_LIMIT: return get_number(r, at, f, j, out);
    case CAY__F_MODE: return get_mode(r, at, j, out);
    case CAY__F_WORD:
        CAY_TRY(get_word(r, at, f, j, &which));
        *(int *)out = (int)which;
        return 0;
    case CAY__F_CHOICE:
        CAY_TRY(get_word(r, at, f, j, &which));
        *(const char **)out = ((const char *const *)f->more)[which];
        return 0;
    case CAY__F_SIGNAL:
        *(int *)out = cay__signal_parse(j);
        if (*(int *)out < 0)
            return fail_value(r, at, "a signal's name or number, such as \"TERM\"");
        return 0;
    case CAY__F_STRS: return get_strs(r, at, f, j, out);
    case CAY__F_PAIRS: return get_pairs(r, at, j, out);
    case CAY__F_JSON: return get_json(r, at, f, j, out);
    case CAY__F_OBJECT: return read_shape(r, at, j, f->more, out);
    case CAY__F_LIST: return get_list(r, at, f, j, base);
    case CAY__F_BASE64: return get_base64(r, at, f, j, base);
    case CAY__F_TEXT:
    case CAY__F_PLACE:
    case CAY__F_BYTES:
    case CAY__F_CALC:
    case CAY__F_POINT: break;
    }
    return fail_field(r, at, "field_unknown", "is told, never asked for");
}

static const cay__field *row_of(const cay__shape *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->fields[i].name, name))
            return &s->fields[i];
    return NULL;
}

static int read_shape(reader *r, const spot *up, const json_t *obj, const cay__shape *s, void *out)
{
    const char *key;
    json_t *value;
    if (!json_is_object(obj))
        return fail_value(r, CAY_OR(up, &(spot){ .name = "body" }), "an object");
    json_object_foreach((json_t *)obj, key, value)
    {
        spot at = { up, key, 0 };
        const cay__field *f = row_of(s, key);
        if (!f)
            return fail_field(r, &at, "field_unknown", "there is no such member");
        if (!json_is_null(value))
            CAY_TRY(get_field(r, &at, f, value, out));
    }
    for (size_t i = 0; i < s->n; i++) {
        const json_t *j = json_object_get(obj, s->fields[i].name);
        spot at = { up, s->fields[i].name, 0 };
        if (s->fields[i].flags & CAY__F_REQUIRED && (!j || json_is_null(j)))
            return fail_field(r, &at, "field_missing", "is needed");
    }
    return 0;
}

int cay__shape_read(cay__arena *mem, const json_t *obj, const cay__shape *s, void *out,
                    cay_err *err)
{
    reader r = { mem, err };
    return read_shape(&r, NULL, obj, s, out);
}
