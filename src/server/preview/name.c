/* SPDX-License-Identifier: Apache-2.0 */
#include "preview.h"
#include <base/base.h>
#include <base/mutant.h>
#include <ctype.h>
#include <strings.h>

/* 1 to 65535 in n digits, written in one way only. */
static bool port_of(const char *s, size_t n, uint16_t *out)
{
    unsigned v = 0;
    if (!n || n > 5 || *s == '0')
        return false;
    CAY_EACH_OF(it, s, n) {
        if (*it < '0' || *it > '9')
            return false;
        v = v * 10 + (unsigned)(*it - '0');
    }
    *out = (uint16_t)v;
    return v <= 65535;
}

static bool id_of(const char *s, char out[CAY_ID_LEN + 1])
{
    if (strnlen(s, CAY_ID_LEN) < CAY_ID_LEN)
        return false;
    for (size_t i = 0; i < CAY_ID_LEN; i++)
        out[i] = (char)tolower((unsigned char)s[i]);
    out[CAY_ID_LEN] = '\0';
    return cay__id_valid(out, 'c');
}

bool cay__preview_host(const char *host, const char *domain, cay__preview_at *out)
{
    cay__preview_at at = { 0 };
    const char *dash = strchr(host, '-');
    size_t n = strlen(domain);
    uint16_t ours;
    if (!dash || !port_of(host, (size_t)(dash - host), &at.port) || !id_of(dash + 1, at.id))
        return false;
    const char *rest = dash + 1 + CAY_ID_LEN;
    if (*rest != '.' || strncasecmp(rest + 1, domain, n) != 0)
        return false;
    rest += 1 + n;
    if (*rest && !(*rest == ':' && port_of(rest + 1, strlen(rest + 1), &ours)))
        return false;
    *out = at;
    return true;
}

int cay__preview_path(const char *path, cay__preview_at *out)
{
    cay__preview_at at = { .by_path = true };
    if (!cay__str_starts(path, "/preview/"))
        return 0;
    const char *id = path + strlen("/preview/");
    /* In lower case alone: one preview has one path. */
    if (!id_of(id, at.id) || memcmp(id, at.id, CAY_ID_LEN) != 0 || id[CAY_ID_LEN] != '/')
        return -1;
    const char *port = id + CAY_ID_LEN + 1;
    size_t n = strcspn(port, "/");
    if (!port_of(port, n, &at.port))
        return -1;
    at.prefix = (size_t)(port + n - path);
    *out = at;
    return 1;
}

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

static size_t trim_length(const char *s, size_t n)
{
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
        n--;
    return n;
}

bool cay__cookie_get(const char *line, const char *name, char *out, size_t cap)
{
    size_t want = strlen(name);
    for (const char *p = skip_blanks(line); *p; p = skip_blanks(p)) {
        size_t n = strcspn(p, ";");
        if (n > want && p[want] == '=' && !memcmp(p, name, want)) {
            size_t len = trim_length(p + want + 1, n - want - 1);
            if (len >= cap)
                return false;
            memcpy(out, p + want + 1, len);
            out[len] = '\0';
            return true;
        }
        p += n + (p[n] == ';');
    }
    return false;
}

/* Is that name, of n bytes, one of our own cookies? */
static bool is_own_cookie(const char *name, size_t n)
{
    static const char secure[] = "__Host-cay", plain[] = "cay_";
    if (n == sizeof secure - 1 && !strncasecmp(name, secure, n))
        return true;
    if (n != sizeof plain - 1 + 8 || strncasecmp(name, plain, sizeof plain - 1) != 0)
        return false;
    for (size_t i = sizeof plain - 1; i < n; i++)
        if (cay__hex_digit(name[i]) < 0)
            return false;
    return true;
}

void cay__cookie_strip(const char *line, cay__buf *out)
{
    bool any = false;
    for (const char *p = skip_blanks(line); *p; p = skip_blanks(p)) {
        size_t n = strcspn(p, ";"), len = trim_length(p, n), eq = strcspn(p, "=;");
        if (len && !is_own_cookie(p, trim_length(p, CAY_MIN(eq, len)))) {
            cay__buf_str(out, any ? "; " : "");
            cay__buf_add(out, p, len);
            any = true;
        }
        p += n + (p[n] == ';');
    }
}

bool cay__set_cookie(const char *value, cay__buf *out)
{
    const char *p = skip_blanks(value);
    size_t n = strcspn(p, ";"), len = trim_length(p, n);
    const char *eq = memchr(p, '=', len);
    if (!eq || eq == p || is_own_cookie(p, trim_length(p, (size_t)(eq - p))))
        return false;
    cay__buf_add(out, p, len);
    for (p += n; *p; p += n) {
        p = skip_blanks(p + 1);
        n = strcspn(p, ";");
        len = trim_length(p, n);
        size_t name = trim_length(p, CAY_MIN(strcspn(p, "=;"), len));
        /* A cookie for the whole domain would be sent to other sandboxes' previews. */
        if (!len || (name == 6 && !strncasecmp(p, "domain", 6) && !CAY__MUTANT("preview-domain")))
            continue;
        cay__buf_str(out, "; ");
        cay__buf_add(out, p, len);
    }
    return true;
}

void cay__query_strip(const char *query, const char *name, cay__buf *rest, char *value, size_t cap)
{
    size_t want = strlen(name);
    bool any = false, found = false;
    *value = '\0';
    for (const char *p = query;; p++) {
        size_t n = strcspn(p, "&");
        bool it = n >= want && !memcmp(p, name, want) && (n == want || p[want] == '=');
        if (it && !found && n > want && n - want - 1 < cap) {
            size_t len = n - want - !CAY__MUTANT("fuzz-preview");
            memcpy(value, p + want + 1, len);
            value[len] = '\0';
        }
        found |= it;
        if (!it && (n || any || p[n])) {
            cay__buf_str(rest, any ? "&" : "");
            cay__buf_add(rest, p, n);
            any = true;
        }
        p += n;
        if (!*p)
            return;
    }
}
