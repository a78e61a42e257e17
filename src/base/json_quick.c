/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON several times as fast as jansson reads it, for texts of megabytes: a manifest with ten
 * thousand files in it. What it takes it reads as jansson does with JSON_REJECT_DUPLICATES,
 * JSON_ALLOW_NUL and JSON_DECODE_ANY, and fuzz_json_quick.c holds it to that. Everything else,
 * reals, deep nesting and whatever is wrong, is NULL: then jansson reads it, and tells what is
 * wrong and where.
 */
#include "json.h"
#include "mutant.h"
#include <stdint.h>

#define DEEP 256

typedef struct text {
    const char *p, *end;
    unsigned depth;
    cay__buf room; /* a string with escapes, as it reads */
} text;

static json_t *parse_value(text *t);

static void skip_blanks(text *t)
{
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\n' || *t->p == '\r' || *t->p == '\t'))
        t->p++;
}

static bool accept_char(text *t, char c)
{
    skip_blanks(t);
    return t->p < t->end && *t->p == c && t->p++;
}

typedef unsigned char sixteen __attribute__((vector_size(16)));

/* Bytes at the front that stand for themselves: no quote, backslash, control character or part of a
 * longer one. */
static size_t count_plain(const char *s, size_t n)
{
    size_t k = 0;
    for (; n - k >= sizeof(sixteen); k += sizeof(sixteen)) {
        sixteen v;
        uint64_t odd[2];
        memcpy(&v, s + k, sizeof v);
        v = (sixteen)((v == '"') | (v == '\\') | (v < 0x20) | (v > 0x7f));
        memcpy(odd, &v, sizeof odd);
        if (odd[0] | odd[1])
            break;
    }
    while (k < n && (unsigned char)s[k] >= 0x20 && (unsigned char)s[k] < 0x80 && s[k] != '"' &&
           s[k] != '\\')
        k++;
    return k;
}

static bool parse_hex(text *t, unsigned *out)
{
    unsigned v = 0;
    if (t->end - t->p < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = *t->p++;
        unsigned d;
        if (c >= '0' && c <= '9')
            d = (unsigned)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            d = (unsigned)((c | 32) - 'a') + 10;
        else
            d = 16;
        if (d == 16)
            return false;
        v = v << 4 | d;
    }
    *out = v;
    return true;
}

/* After "\u": one of two halves alone is none. */
static bool parse_unicode(text *t)
{
    unsigned c, low;
    if (!parse_hex(t, &c))
        return false;
    if (c >= 0xd800 && c < 0xe000) {
        if (c >= 0xdc00 || t->end - t->p < 2 || t->p[0] != '\\' || t->p[1] != 'u')
            return false;
        t->p += 2;
        if (!parse_hex(t, &low) || low < 0xdc00 || low >= 0xe000)
            return false;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    char out[4];
    size_t n;
    if (c < 0x80)
        n = 1;
    else if (c < 0x800)
        n = 2;
    else if (c < 0x10000)
        n = 3;
    else
        n = 4;
    static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[n] | c);
    cay__buf_add(&t->room, out, n);
    return true;
}

static bool parse_escape(text *t)
{
    static const char names[] = "\"\\/bfnrt", are[] = "\"\\/\b\f\n\r\t";
    if (t->p == t->end || !*t->p)
        return false;
    if (*t->p == 'u')
        return t->p++, parse_unicode(t);
    const char *at = strchr(names, *t->p++);
    if (at)
        cay__buf_add(&t->room, are + (at - names), 1);
    return at;
}

/* After the quote. *s is in the text or, when it had escapes, in t->room until the next string. */
static bool parse_string(text *t, const char **s, size_t *n)
{
    const char *from = t->p;
    bool apart = false;
    t->room.len = 0;
    for (;;) {
        t->p += count_plain(t->p, (size_t)(t->end - t->p));
        if (t->p == t->end || ((unsigned char)*t->p < 0x20 && !CAY__MUTANT("fuzz-json_quick")))
            return false;
        if (*t->p == '"')
            break;
        if (*t->p != '\\') {
            size_t k = cay__utf8_len(t->p, (size_t)(t->end - t->p));
            if (!k)
                return false;
            t->p += k;
            continue;
        }
        cay__buf_add(&t->room, from, (size_t)(t->p++ - from));
        if (!parse_escape(t))
            return false;
        apart = true;
        from = t->p;
    }
    *s = from;
    *n = (size_t)(t->p++ - from);
    if (!apart)
        return true;
    cay__buf_add(&t->room, *s, *n);
    *s = t->room.data;
    *n = t->room.len;
    return !t->room.full;
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
    const char *key;
    size_t n, before = json_object_size(o);
    if (!accept_char(t, '"') || !parse_string(t, &key, &n) || memchr(key, 0, n))
        return false;
    if (key == t->room.data) { /* where the value's strings go */
        own = cay__alloc(n + 1);
        memcpy(own, key, n);
        key = own;
    }
    json_t *v = NULL;
    if (accept_char(t, ':'))
        v = parse_value(t);
    return v && json_object_setn_new_nocheck(o, key, n, v) == 0 && json_object_size(o) > before;
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
    const char *s;
    size_t n;
    skip_blanks(t);
    switch (t->p < t->end ? *t->p : 0) {
    case '{': return parse_nested(t, parse_object);
    case '[': return parse_nested(t, parse_array);
    case '"': return t->p++, parse_string(t, &s, &n) ? json_stringn_nocheck(s, n) : NULL;
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
