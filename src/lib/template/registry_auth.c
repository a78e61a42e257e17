/* SPDX-License-Identifier: Apache-2.0 */
/* What a registry asks for before it answers, and what docker's config has for it. */
#include "registry.h"
#include <base/base64.h>
#include <base/json.h>
#include <base/mutant.h>
#include <ctype.h>
#include <strings.h>

static bool token_char(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static size_t count_blanks(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && (p[i] == ' ' || p[i] == '\t'))
        i++;
    return i;
}

/* A quoted string or a word at p; how far it goes, 0: neither. What does not fit is cut to nothing.
 */
static size_t value_at(const char *p, size_t n, char *out, size_t cap)
{
    size_t i = 0, k = 0;
    bool fits = true, quoted = n && p[0] == '"';
    if (quoted)
        for (i = 1; i < n && p[i] != '"'; i++) {
            if (p[i] == '\\' && i + 1 < n)
                i++;
            fits = fits && (k + 1 < cap || CAY__MUTANT("fuzz-registry"));
            if (fits)
                out[k++] = p[i];
        }
    else
        for (; i < n && token_char(p[i]); i++) {
            fits = fits && k + 1 < cap;
            if (fits)
                out[k++] = p[i];
        }
    out[fits ? k : 0] = 0;
    if (quoted) {
        if (i < n)
            return i + 1;
        return 0;
    }
    return i;
}

void cay__challenge_read(const char *value, size_t len, cay__challenge *out)
{
    cay__challenge now = { 0 }, best = { 0 };
    size_t at = 0;
    while (at < len) {
        char word[64], text[1024];
        at += count_blanks(value + at, len - at);
        if (at < len && value[at] == ',') {
            at++;
            continue;
        }
        size_t n = 0;
        while (at + n < len && token_char(value[at + n]))
            n++;
        if (!n || n >= sizeof word)
            break;
        memcpy(word, value + at, n);
        word[n] = 0;
        at += n;
        size_t gap = count_blanks(value + at, len - at);
        if (at + gap < len && value[at + gap] == '=') { /* a parameter of the present challenge */
            at += gap + 1;
            at += count_blanks(value + at, len - at);
            size_t used = value_at(value + at, len - at, text, sizeof text);
            if (!used)
                break;
            at += used;
            if (!strcasecmp(word, "realm"))
                CAY_COPY(now.realm, text);
            else if (!strcasecmp(word, "service") && !CAY_COPY(now.service, text))
                now.service[0] = 0;
            else if (!strcasecmp(word, "scope") && !CAY_COPY(now.scope, text))
                now.scope[0] = 0;
        } else { /* a new one begins */
            if (now.kind > best.kind)
                best = now;
            now = (cay__challenge){ .kind = CAY__AUTH_NONE };
            if (!strcasecmp(word, "bearer"))
                now.kind = CAY__AUTH_BEARER;
            else if (!strcasecmp(word, "basic"))
                now.kind = CAY__AUTH_BASIC;
        }
    }
    if (now.kind > best.kind)
        *out = now;
    else
        *out = best;
    if (out->kind == CAY__AUTH_BEARER && !*out->realm)
        out->kind = CAY__AUTH_NONE;
}

static const char *host_of(const char *key)
{
    const char *p = strstr(key, "://");
    if (p)
        return p + 3;
    return key;
}

bool cay__reg_docker_login(const char *text, size_t len, const char *host, char **out)
{
    json_error_t e;
    CAY_AUTOJSON *o = json_loadb(text, len, 0, &e);
    const char *key;
    json_t *v;
    if (!strcmp(host, "docker.io"))
        host = "index.docker.io";
    size_t n = strlen(host);
    json_object_foreach(json_object_get(o, "auths"), key, v) {
        const char *h = host_of(key), *auth = cay__json_str(v, "auth", NULL);
        if (strncmp(h, host, n) || (h[n] && h[n] != '/') || !auth)
            continue;
        CAY_AUTOBUF b = CAY__BUF(4096);
        if (!cay__base64_get(&b, auth, strlen(auth)) || b.full || !b.len ||
            !memchr(b.data, ':', b.len) || memchr(b.data, 0, b.len) || strpbrk(b.data, "\r\n"))
            continue;
        *out = cay__strdup(b.data);
        return true;
    }
    return false;
}
