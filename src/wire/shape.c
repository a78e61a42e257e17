/* SPDX-License-Identifier: Apache-2.0 */
/* JSON into a struct, by a table: what a peer asks, every member of which is checked, and what a
 * server answers, of which we take what we know. */
#include "shape.h"
#include <base/base.h>
#include <base/base64.h>
#include <base/mutant.h>
#include <cay/client.h>
#include <inttypes.h>
#include <signal.h>
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
    unsigned view;
    cay_err *err; /* NULL with CAY__F_OUT: what does not fit is skipped */
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
__attribute__((format(printf, 4, 5))) static int fail_field(reader *r, const spot *at,
                                                            const char *reason, const char *fmt,
                                                            ...)
{
    char text[200];
    CAY_AUTOBUF path = CAY__BUF(300);
    CAY_AUTOBUF safe = CAY__BUF(400);
    CAY_AUTOBUF detail = CAY__BUF(700);
    va_list ap;
    if (!r->err)
        return CAY_EINVAL;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    format_path(&path, at);
    cay__buf_safe(&safe, CAY_OR(path.data, ""), path.len, false);
    if (r->view & CAY__F_KEPT) /* no fault of whoever asks now */
        return cay_fail(r->err, CAY_EINVAL, "record: %.120s: %s", CAY_OR(safe.data, ""), text);
    int rc = cay_fail_why(r->err, CAY_EINVAL, reason, "%.120s: %s", CAY_OR(safe.data, ""), text);
    cay__buf_str(&detail, "{\"field\":");
    cay__buf_json(&detail, CAY_OR(safe.data, ""), safe.len);
    cay__buf_str(&detail, "}");
    if (!detail.full)
        CAY_COPY(r->err->detail, detail.data);
    return rc;
}

__attribute__((format(printf, 3, 4))) static int fail_value(reader *r, const spot *at,
                                                            const char *fmt, ...)
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
    char *bytes = CAY_IF(r->view & CAY__F_KEPT, cay__json_to_bytes(j));
    if (bytes) {
        *out = cay__arena_adopt(r->mem, bytes);
        return 0;
    }
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
    bool answer = r->view & CAY__F_OUT && json_is_integer(j);
    if (!answer &&
        (!json_is_integer(j) || v < 0 || (uint64_t)v < f->min || (uint64_t)v > max_value(f)))
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

/* skip: letters before each word, which are not part of it. */
static int get_word(reader *r, const spot *at, const cay__field *f, const json_t *j, size_t skip,
                    size_t *which)
{
    const char *const *w = f->more;
    const char *s = json_string_value(j);
    CAY_AUTOBUF list = CAY__BUF(160);
    for (size_t i = 0; w[i]; i++) {
        if (s && !strcmp(s, w[i] + skip)) {
            *which = i;
            return 0;
        }
        cay__buf_fmt(&list, "%s%s", i ? ", " : "", w[i] + skip);
    }
    return fail_value(r, at, "one of %s", list.data);
}

/* "TERM", "SIGTERM", "15" or 15; -1 when it is none. */
static int parse_signal(const json_t *j)
{
    const char *s = json_string_value(j);
    uint64_t n = 0;
    bool number = json_is_integer(j) || (s && cay__str_to_u64(s, &n));
    if (json_is_integer(j))
        n = (uint64_t)json_integer_value(j);
    if (number && n >= NSIG)
        return -1;
    if (number)
        return (int)n;
    if (s && !strncasecmp(s, "SIG", 3))
        s += 3;
    for (int i = 1; s && i < NSIG; i++)
        if (cay__signal_name(i) && !strcasecmp(cay__signal_name(i), s))
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
    json_object_foreach((json_t *)j, key, value) {
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

static void put_letter(const cay__field *f, char letter, void *out)
{
    if (f->room == 1)
        *(char *)out = letter;
    else
        *(int *)out = (unsigned char)letter;
}

/* Kinds that only answers have. */
static int get_told(reader *r, const spot *at, const cay__field *f, const json_t *j, void *base)
{
    void *out = (char *)base + f->at;
    const cay__shape *inside = f->more;
    if (!(r->view & CAY__F_OUT))
        return fail_field(r, at, "field_unknown", "is told, never asked for");
    switch (f->kind) {
    case CAY__F_TEXT:
    case CAY__F_PLACE:
        if (json_is_string(j))
            cay__str_copy(out, f->room, json_string_value(j));
        return 0;
    case CAY__F_BYTES:
        CAY_TRY(get_str(r, at, &(cay__field){ .max = TEXT_MAX }, j, out));
        *(size_t *)((char *)base + f->count) = json_string_length(j);
        return 0;
    case CAY__F_CALC:
        if (f->get)
            f->get(j, out);
        return 0;
    case CAY__F_POINT: {
        void *v = cay__arena_take(r->mem, inside->size);
        CAY_TRY(read_shape(r, at, j, inside, v));
        *(void **)out = v;
        return 0;
    }
    default: return 0;
    }
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
        CAY_TRY(get_word(r, at, f, j, 0, &which));
        *(int *)out = (int)(which + f->min);
        return 0;
    case CAY__F_LETTER:
        CAY_TRY(get_word(r, at, f, j, 1, &which));
        put_letter(f, ((const char *const *)f->more)[which][0], out);
        return 0;
    case CAY__F_CHOICE:
        CAY_TRY(get_word(r, at, f, j, 0, &which));
        *(const char **)out = ((const char *const *)f->more)[which];
        return 0;
    case CAY__F_SIGNAL:
        *(int *)out = parse_signal(j);
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
    return get_told(r, at, f, j, base);
}

static const cay__field *row_of(const cay__shape *s, const char *name)
{
    CAY_EACH_OF(field, s->fields, s->n)
        if (!strcmp(field->name, name))
            return field;
    return NULL;
}

/* NAME_hex has all bytes of a path that is not UTF-8, NAME_base64 those of an output. */
static void get_encoded(reader *r, const json_t *obj, const cay__field *f, void *base)
{
    char name[80];
    bool bytes = f->kind == CAY__F_BYTES;
    if (!bytes && f->kind != CAY__F_PATH && f->kind != CAY__F_PLACE)
        return;
    CAY_FORMAT(name, "%s%s", f->name, bytes ? "_base64" : "_hex");
    const json_t *j = json_object_get(obj, name);
    if (bytes && j) {
        get_base64(r, NULL, f, j, base);
        return;
    }
    CAY_AUTOJSON *hex = j ? json_pack("{s:O}", "hex", j) : NULL;
    char *text = hex ? cay__json_to_bytes(hex) : NULL;
    if (!text)
        return;
    cay__arena_adopt(r->mem, text);
    if (f->kind == CAY__F_PATH)
        *(const char **)((char *)base + f->at) = text;
    else
        cay__str_copy((char *)base + f->at, f->room, text);
}

/* A text or a list that is not there is empty. */
static void fill_empty(const cay__field *f, void *base)
{
    static const char *const none[] = { NULL };
    static const cay_pair no_pair[] = { { NULL, NULL } };
    const void *empty = NULL;
    void **out = (void **)((char *)base + f->at);
    switch (f->kind) {
    case CAY__F_STR:
    case CAY__F_PATH:
    case CAY__F_BYTES:
    case CAY__F_CHOICE:
    case CAY__F_JSON: empty = ""; break;
    case CAY__F_STRS: empty = none; break;
    case CAY__F_PAIRS: empty = no_pair; break;
    default: return;
    }
    if (!*out)
        *(const void **)out = empty;
}

static int read_answer(reader *r, const json_t *obj, const cay__shape *s, void *out)
{
    if (!json_is_object(obj))
        return CAY_EINVAL;
    if (s->use & CAY__F_SIZED)
        *(size_t *)out = s->size;
    CAY_EACH_OF(f, s->fields, s->n) {
        const json_t *j = json_object_get(obj, f->name);
        if (!cay__field_seen(s, f, r->view))
            continue;
        if (j && !json_is_null(j))
            (void)get_field(r, NULL, f, j, out); /* of another type: as if it were not there */
        get_encoded(r, obj, f, out);
        fill_empty(f, out);
    }
    return 0;
}

/* An empty list asks for nothing. */
static bool is_nothing(const json_t *j)
{
    return json_is_null(j) || (json_is_array(j) && json_array_size(j) == 0);
}

static int read_member(reader *r, const spot *at, const cay__shape *s, const json_t *j, void *out)
{
    const cay__field *f = row_of(s, at->name);
    bool known = f && cay__field_seen(s, f, r->view | CAY__F_ADMIN);
    if (!known && r->view & CAY__F_KEPT)
        return 0;
    if (!known)
        return fail_field(r, at, "field_unknown", "there is no such member");
    if (!cay__field_seen(s, f, r->view) && !is_nothing(j))
        return cay_fail_why(r->err, CAY_EPERM, "admin_only",
                            "%s reaches into the host; it needs a key of scope admin", f->name);
    if (json_is_null(j))
        return 0;
    return get_field(r, at, f, j, out);
}

static int read_shape(reader *r, const spot *up, const json_t *obj, const cay__shape *s, void *out)
{
    const char *key;
    json_t *value;
    if (r->view & CAY__F_OUT)
        return read_answer(r, obj, s, out);
    if (!json_is_object(obj))
        return fail_value(r, CAY_OR(up, &(spot){ .name = "body" }), "an object");
    json_object_foreach((json_t *)obj, key, value) {
        spot at = { up, key, 0 };
        CAY_TRY(read_member(r, &at, s, value, out));
    }
    CAY_EACH_OF(field, s->fields, s->n) {
        const json_t *j = json_object_get(obj, field->name);
        spot at = { up, field->name, 0 };
        if (field->flags & CAY__F_REQUIRED && (!j || json_is_null(j)))
            return fail_field(r, &at, "field_missing", "is needed");
    }
    return 0;
}

int cay__shape_read(cay__arena *mem, const json_t *obj, const cay__shape *s, unsigned view,
                    void *out, cay_err *err)
{
    cay_err none = CAY_ERR_INIT;
    if (view & CAY__F_OUT) { /* whoever asked may see all that was answered */
        reader r = { mem, view | CAY__F_ADMIN | CAY__F_SECRET, NULL };
        if (read_shape(&r, NULL, obj, s, out) < 0)
            return cay_fail_why(err, CAY_EUPSTREAM, "bad_answer", "the answer is no object");
        return 0;
    }
    reader r = { mem, view | CAY__F_SECRET, CAY_OR(err, &none) };
    return read_shape(&r, NULL, obj, s, out);
}
