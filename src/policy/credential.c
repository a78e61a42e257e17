/* SPDX-License-Identifier: Apache-2.0 */
/* How a credential's value stands in a request. */
#include "binding.h"
#include <base/base64.h>
#include <base/mutant.h>

const char *cay__binding_header(const cay__binding *b)
{
    if (b->kind == CAY__BIND_QUERY)
        return NULL;
    if (b->kind == CAY__BIND_HEADER)
        return b->arg;
    return "Authorization";
}

static void add_percent(cay__buf *out, const char *s, size_t n)
{
    CAY_EACH_OF(it, s, n) {
        char c = *it;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        if (plain)
            cay__buf_add(out, &c, 1);
        else
            cay__buf_fmt(out, "%%%02X", (unsigned char)c);
    }
}

bool cay__binding_render(const cay__binding *b, const char *value, size_t len, cay__buf *out)
{
    if (!len || len > CAY__SECRET_MAX)
        return false;
    CAY_EACH_OF(it, value, len) /* a line's end would begin another header */
        if (((unsigned char)*it < 0x20 || *it == 0x7f) && !CAY__MUTANT("fuzz-binding"))
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
        cay__base64_put(out, pair.data, pair.len);
        explicit_bzero(pair.data, pair.len);
        break;
    }
    }
    return !out->full;
}

/* Whether s, percent-decoded, is key. */
static bool key_is(const char *s, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++, key++) {
        char c = s[i];
        if (c == '%' && i + 2 < n && cay__hex_get(&c, s + i + 1, 1))
            i += 2;
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
