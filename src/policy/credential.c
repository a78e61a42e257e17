/* SPDX-License-Identifier: Apache-2.0 */
/* How a credential's value stands in a request. */
#include "binding.h"
#include <base/mutant.h>
#include <stdio.h>

const char *cay__binding_header(const cay__binding *b)
{
    if (b->kind == CAY__BIND_QUERY)
        return NULL;
    if (b->kind == CAY__BIND_HEADER)
        return b->arg;
    return "Authorization";
}

static void add_base64(cay__buf *out, const unsigned char *s, size_t n)
{
    static const char abc[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        unsigned v =
            (unsigned)s[i] << 16 | (i + 1 < n ? s[i + 1] : 0u) << 8 | (i + 2 < n ? s[i + 2] : 0u);
        const char four[4] = { abc[v >> 18], abc[v >> 12 & 63], i + 1 < n ? abc[v >> 6 & 63] : '=',
                               i + 2 < n ? abc[v & 63] : '=' };
        cay__buf_add(out, four, 4);
    }
}

static void add_percent(cay__buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i], hex[4];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        snprintf(hex, sizeof hex, "%%%02X", (unsigned char)c);
        cay__buf_add(out, plain ? &c : hex, plain ? 1 : 3);
    }
}

bool cay__binding_render(const cay__binding *b, const char *value, size_t len, cay__buf *out)
{
    if (!len || len > CAY__SECRET_MAX)
        return false;
    for (size_t i = 0; i < len; i++) /* a line's end would begin another header */
        if (((unsigned char)value[i] < 0x20 || value[i] == 0x7f) && !CAY__MUTANT("fuzz-binding"))
            return false;
    switch (b->kind) {
    case CAY__BIND_BEARER:
        cay__buf_str(out, "Bearer ");
        cay__buf_add(out, value, len);
        break;
    case CAY__BIND_HEADER: cay__buf_add(out, value, len); break;
    case CAY__BIND_QUERY: add_percent(out, value, len); break;
    case CAY__BIND_BASIC: {
        CAY_AUTOBUF pair = CAY__BUF(CAY__SECRET_MAX + sizeof b->arg + 2);
        cay__buf_fmt(&pair, "%s:", b->arg);
        cay__buf_add(&pair, value, len);
        cay__buf_str(out, "Basic ");
        add_base64(out, (const unsigned char *)pair.data, pair.len);
        explicit_bzero(pair.data, pair.len);
        break;
    }
    }
    return !out->full;
}

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Whether s, percent-decoded, is key. */
static bool key_is(const char *s, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++, key++) {
        char c = s[i];
        if (c == '%' && i + 2 < n && hex_of(s[i + 1]) >= 0 && hex_of(s[i + 2]) >= 0) {
            c = (char)(hex_of(s[i + 1]) * 16 + hex_of(s[i + 2]));
            i += 2;
        }
        if (!*key || c != *key)
            return false;
    }
    return !*key;
}

void cay__query_without(const char *query, size_t len, const char *key, cay__buf *out)
{
    size_t before = out->len;
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        /* Some servers part pairs by ';' too. */
        while (at + n < len && query[at + n] != '&' && query[at + n] != ';')
            n++;
        const char *eq = memchr(query + at, '=', n);
        if (n && !key_is(query + at, eq ? (size_t)(eq - query) - at : n, key)) {
            if (out->len > before)
                cay__buf_add(out, "&", 1);
            cay__buf_add(out, query + at, n);
        }
        at += n + 1;
    }
}
