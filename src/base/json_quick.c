/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON several times as fast as jansson reads it, for texts of megabytes: a manifest with ten
 * thousand files in it. What it takes it reads as jansson does with JSON_REJECT_DUPLICATES,
 * JSON_ALLOW_NUL and JSON_DECODE_ANY, and fuzz_json_quick.c holds it to that. Everything else,
 * reals, deep nesting and whatever is wrong, is NULL: then jansson reads it, and tells what is
 * wrong and where.
 */
#include "json.h"
#include "json_scan.h"

#define DEEP 256

typedef struct text {
    const char *p, *end;
    unsigned depth;
    cay__buf room; /* a string with escapes, as it reads */
} text;

static json_t *parse_value(text *t);

static void skip_blanks(text *t)
{
    t->p = cay__scan_blanks(t->p, t->end);
}

static bool accept_char(text *t, char c)
{
    skip_blanks(t);
    return t->p < t->end && *t->p == c && t->p++;
}

/* At the quote. Half of a surrogate pair is an error of jansson's. */
static bool parse_string(text *t, cay__scanned *out)
{
    const char *stop = cay__scan_string(t->p, t->end, &t->room, out);
    if (!stop || out->half)
        return false;
    t->p = stop;
    return true;
}

static json_t *parse_number(text *t)
{
    const char *from = t->p;
    bool less = *t->p == '-' && t->p++;
    json_int_t v = 0;
    const char *digits = t->p;
    while (t->p < t->end && *t->p >= '0' && *t->p <= '9' && t->p - digits < 18)
        v = 10 * v + (*t->p++ - '0');
    bool more = t->p < t->end && (strchr(".eE", *t->p) ||
                                  (*t->p >= '0' && *t->p <= '9')); /* a real, too big, or a NUL */
    if (t->p == digits || (*digits == '0' && t->p - digits > 1) || more) {
        t->p = from;
        return NULL;
    }
    return json_integer(less ? -v : v);
}

static json_t *parse_word(text *t, const char *w, json_t *is)
{
    size_t n = strlen(w);
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, w, n))
        return NULL;
    t->p += n;
    return is;
}

static json_t *parse_array(text *t)
{
    CAY_AUTOJSON *a = json_array();
    if (accept_char(t, ']'))
        return CAY_STEAL(a);
    do {
        json_t *v = parse_value(t);
        if (!v || json_array_append_new(a, v) < 0)
            return NULL;
    } while (accept_char(t, ','));
    if (accept_char(t, ']'))
        return CAY_STEAL(a);
    return NULL;
}

/* One member more, or false: its name is there already, for instance. */
static bool parse_member(text *t, json_t *o)
{
    CAY_AUTOFREE char *own = NULL;
    cay__scanned key;
    size_t before = json_object_size(o);
    skip_blanks(t);
    if (t->p == t->end || *t->p != '"' || !parse_string(t, &key) || memchr(key.p, 0, key.len))
        return false;
    if (key.p == t->room.data) /* where the value's strings go */
        key.p = own = memcpy(cay__alloc(key.len + 1), key.p, key.len);
    json_t *v = NULL;
    if (accept_char(t, ':'))
        v = parse_value(t);
    return v && json_object_setn_new_nocheck(o, key.p, key.len, v) == 0 &&
           json_object_size(o) > before;
}

static json_t *parse_object(text *t)
{
    CAY_AUTOJSON *o = json_object();
    if (accept_char(t, '}'))
        return CAY_STEAL(o);
    do {
        if (!parse_member(t, o))
            return NULL;
    } while (accept_char(t, ','));
    if (accept_char(t, '}'))
        return CAY_STEAL(o);
    return NULL;
}

static json_t *parse_nested(text *t, json_t *(*fn)(text *))
{
    if (++t->depth > DEEP)
        return NULL;
    t->p++;
    json_t *j = fn(t);
    t->depth--;
    return j;
}

static json_t *parse_value(text *t)
{
    cay__scanned s;
    skip_blanks(t);
    if (t->p == t->end)
        return NULL;
    switch (*t->p) {
    case '{': return parse_nested(t, parse_object);
    case '[': return parse_nested(t, parse_array);
    case '"':
        if (parse_string(t, &s))
            return json_stringn_nocheck(s.p, s.len);
        return NULL;
    case 't': return parse_word(t, "true", json_true());
    case 'f': return parse_word(t, "false", json_false());
    case 'n': return parse_word(t, "null", json_null());
    case '-':
    case '0' ... '9': return parse_number(t);
    default: return NULL;
    }
}

json_t *cay__json_quick(const char *data, size_t len)
{
    text t = { .p = data, .end = data + len, .room = CAY__BUF(len + 1) };
    CAY_AUTOJSON *j = parse_value(&t);
    skip_blanks(&t);
    cay__buf_clear(&t.room);
    if (t.p == t.end)
        return CAY_STEAL(j);
    return NULL;
}
