/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"
#include <base/base.h>
#include <base/mutant.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_add(text *t, const char *s, size_t n)
{
    if (t->cap - t->len < n + 1) {
        t->cap = 2 * (t->len + n) + 64;
        t->p = realloc(t->p, t->cap);
        if (!t->p)
            abort();
    }
    if (n)
        memcpy(t->p + t->len, s, n);
    t->len += n;
    t->p[t->len] = 0;
}

void text_str(text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

void text_fmt(text *t, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    text_add(t, line, n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

void text_cut(text *t, size_t n)
{
    memmove(t->p, t->p + n, t->len - n);
    t->len -= n;
}

void text_clear(text *t)
{
    free(t->p);
    *t = (text){ 0 };
}

/* Bytes of the character at s, 0 when it is none: no overlong form, no surrogate, nothing beyond
 * the last. */
static size_t measure_utf8(const unsigned char *s, size_t n)
{
    size_t k;
    if (s[0] < 0x80)
        k = 1;
    else if (s[0] < 0xc2)
        k = 0;
    else if (s[0] < 0xe0)
        k = 2;
    else if (s[0] < 0xf0)
        k = 3;
    else if (s[0] < 0xf5)
        k = 4;
    else
        k = 0;
    if (!k || (k > n && !CAY__MUTANT("fuzz-kernel_json")))
        return 0;
    for (size_t i = 1; i < k; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool odd = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
               (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
    if (odd)
        return 0;
    return k;
}

void text_json(text *t, const char *s, size_t n)
{
    char hex[8];
    text_add(t, "\"", 1);
    for (size_t i = 0, k; i < n; i += CAY_OR(k, 1)) {
        unsigned char c = (unsigned char)s[i];
        k = measure_utf8((const unsigned char *)s + i, n - i);
        if (!k) {
            text_str(t, "\xef\xbf\xbd");
        } else if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f) {
            snprintf(hex, sizeof hex, "\\u%04x", c);
            text_str(t, hex);
        } else {
            text_add(t, s + i, k);
        }
    }
    text_add(t, "\"", 1);
}

static const char *skip_blanks(const char *s, const char *end)
{
    while (s < end && (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r'))
        s++;
    return s;
}

/* Behind the text that begins at s with its quote; NULL: it does not end. */
static const char *past_text(const char *s, const char *end)
{
    for (s++; s < end && *s != '"'; s++)
        if (*s == '\\')
            s++;
    if (s < end)
        return s + 1;
    return NULL;
}

/* Behind a value of any kind. */
static const char *skip_value(const char *s, const char *end)
{
    size_t depth = 0;
    while (s && s < end) {
        if (*s == '"') {
            s = past_text(s, end);
            if (!depth)
                return s;
            continue;
        }
        if (*s == '{' || *s == '[') {
            depth++;
        } else if (*s == '}' || *s == ']') {
            if (!depth)
                return s;
            if (!--depth)
                return s + 1;
        } else if (*s == ',' && !depth) {
            return s;
        }
        s++;
    }
    if (depth)
        return NULL;
    return s;
}

bool json_next(const char **s, const char *end, const char **name, size_t *len, const char **at,
               const char **stop)
{
    const char *p = skip_blanks(*s, end);
    if (p < end && *p == ',')
        p = skip_blanks(p + 1, end);
    if (p >= end || *p != '"')
        return false;
    const char *q = past_text(p, end);
    if (!q)
        return false;
    *name = p + 1;
    *len = (size_t)(q - p) - 2;
    p = skip_blanks(q, end);
    if (p >= end || *p != ':')
        return false;
    *at = skip_blanks(p + 1, end);
    *stop = skip_value(*at, end);
    if (!*stop || *stop == *at)
        return false;
    *s = *stop;
    return true;
}

bool json_member(const char *s, const char *end, const char *name, const char **at,
                 const char **stop)
{
    const char *key;
    size_t n;
    s = skip_blanks(s, end);
    if (s >= end || *s++ != '{')
        return false;
    while (json_next(&s, end, &key, &n, at, stop))
        if (n == strlen(name) && !memcmp(key, name, n))
            return true;
    return false;
}

static bool parse_hex4(const char *s, const char *end, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        char c = 0;
        if (s + i < end)
            c = s[i];
        unsigned v;
        if (c >= '0' && c <= '9')
            v = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = (unsigned)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            v = (unsigned)(c - 'A') + 10;
        else
            v = 16;
        if (v > 15)
            return false;
        *out = *out << 4 | v;
    }
    return true;
}

static void add_utf8(text *t, unsigned c)
{
    char b[4];
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
        b[i] = (char)(0x80 | (c & 0x3f));
    b[0] = (char)(first[n] | c);
    if (n > 1 || b[0])
        text_add(t, b, n);
}

/* \uXXXX at s, behind its 'u'; a pair is one character, half of one is U+FFFD. Returns what
 * follows, NULL: it is none. */
static const char *decode_escape(const char *s, const char *end, text *out)
{
    unsigned c, low;
    if (!parse_hex4(s, end, &c))
        return NULL;
    s += 4;
    if (c >= 0xd800 && c < 0xdc00 && end - s >= 6 && s[0] == '\\' && s[1] == 'u' &&
        parse_hex4(s + 2, end, &low) && low >= 0xdc00 && low < 0xe000) {
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        s += 6;
    }
    add_utf8(out, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
    return s;
}

bool json_text(const char *at, const char *stop, text *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    out->len = 0;
    text_add(out, "", 0);
    if (stop - at < 2 || *at != '"')
        return false;
    const char *end = stop - 1;
    for (const char *s = at + 1; s < end;) {
        size_t n = 0;
        while (s + n < end && s[n] && s[n] != '\\')
            n++;
        text_add(out, s, n);
        s += n;
        if (s < end && !*s)
            s++; /* no JSON, and nothing that a line could have */
        if (s >= end || *s != '\\')
            continue;
        const char *k = NULL;
        if (s + 1 < end && s[1])
            k = strchr(from, s[1]);
        if (k) {
            text_add(out, &to[k - from], 1);
            s += 2;
        } else if (s + 1 < end && s[1] == 'u') {
            if (!(s = decode_escape(s + 2, end, out)))
                return false;
        } else {
            return false;
        }
    }
    return true;
}

enum { DEPTH = 64 };

static const char *check_value(const char *s, const char *end, int depth);

static const char *sound_text(const char *s, const char *end)
{
    unsigned c;
    for (s++; s < end && *s != '"';) {
        size_t k = measure_utf8((const unsigned char *)s, (size_t)(end - s));
        if (!k || (unsigned char)*s < 0x20)
            return NULL;
        if (*s != '\\') {
            s += k;
        } else if (s + 1 < end && s[1] && strchr("\"\\/bfnrt", s[1])) {
            s += 2;
        } else if (s + 1 < end && s[1] == 'u' && parse_hex4(s + 2, end, &c)) {
            s += 6;
        } else {
            return NULL;
        }
    }
    if (s < end)
        return s + 1;
    return NULL;
}

static const char *skip_digits(const char *s, const char *end)
{
    const char *from = s;
    while (s < end && *s >= '0' && *s <= '9')
        s++;
    if (s > from)
        return s;
    return NULL;
}

static const char *check_number(const char *s, const char *end)
{
    s += *s == '-';
    const char *whole_part = s;
    if (!(s = skip_digits(s, end)) || (*whole_part == '0' && s > whole_part + 1))
        return NULL;
    if (s < end && *s == '.' && !(s = skip_digits(s + 1, end)))
        return NULL;
    if (s < end && (*s == 'e' || *s == 'E')) {
        s++;
        s += s < end && (*s == '+' || *s == '-');
        s = skip_digits(s, end);
    }
    return s;
}

/* Behind the list or object that begins at s. */
static const char *check_container(const char *s, const char *end, int depth)
{
    char last = ']';
    if (*s == '{')
        last = '}';
    bool named = *s == '{';
    s = skip_blanks(s + 1, end);
    if (s < end && *s == last)
        return s + 1;
    while (s && s < end) {
        if (named) {
            if (*s != '"' || !(s = sound_text(s, end)) || (s = skip_blanks(s, end)) >= end ||
                *s != ':')
                return NULL;
            s = skip_blanks(s + 1, end);
        }
        if (!(s = check_value(s, end, depth)) || (s = skip_blanks(s, end)) >= end)
            return NULL;
        if (*s == last)
            return s + 1;
        if (*s != ',')
            return NULL;
        s = skip_blanks(s + 1, end);
    }
    return NULL;
}

static const char *check_value(const char *s, const char *end, int depth)
{
    static const char *const words[] = { "true", "false", "null" };
    if (s >= end || depth > DEPTH)
        return NULL;
    if (*s == '"')
        return sound_text(s, end);
    if (*s == '{' || *s == '[')
        return check_container(s, end, depth + 1);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(end - s) >= n && !memcmp(s, words[i], n))
            return s + n;
    }
    if (*s == '-' || (*s >= '0' && *s <= '9'))
        return check_number(s, end);
    return NULL;
}

bool json_sound(const char *s, const char *end)
{
    s = check_value(skip_blanks(s, end), end, 0);
    return s && skip_blanks(s, end) == end;
}
