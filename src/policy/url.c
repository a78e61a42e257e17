/* SPDX-License-Identifier: Apache-2.0 */
#include "url.h"
#include <strings.h>

static int fail_url(const char *url, const char *why, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(300);
    /* A query may hold a token: messages end before it. */
    cay__buf_safe(&b, url, CAY_MIN(strcspn(url, "?#@"), (size_t)80), false);
    return cay_fail_why(err, CAY_EINVAL, "url_invalid", "url %s: %s", CAY_OR(b.data, ""), why);
}

static int check_chars(const char *url, cay_err *err)
{
    if (strlen(url) >= CAY__URL_MAX)
        return fail_url(url, "longer than 4095 bytes", err);
    for (const char *c = url; *c; c++) {
        if ((unsigned char)*c <= 0x20 || *c == 0x7f)
            return fail_url(url, "it has a blank or control character; encode it as %20", err);
        if ((unsigned char)*c >= 0x80)
            return fail_url(
                url, "it has a byte beyond ASCII; encode paths by %XX and names as xn--…", err);
        if (*c == '\\')
            return fail_url(url, "a backslash is read in two ways; write / or %5C", err);
    }
    return 0;
}

static int take_host(const char *url, const char *s, size_t n, cay__url *u, cay_err *err)
{
    char text[CAY__NAME_MAX + 64];
    uint8_t addr[16];
    const char *port = NULL;
    if (memchr(s, '@', n))
        return fail_url(url, "a name or password before the host; credentials are bound as secrets",
                        err);
    if (!n || !CAY_PART(text, s, n))
        return fail_url(url, "it names no host", err);
    if (*text == '[') {
        char *end = strchr(text, ']');
        if (!end || (end[1] && end[1] != ':'))
            return fail_url(url, "after [ADDRESS] comes :PORT or nothing", err);
        if (end[1])
            port = end + 2;
        else
            port = NULL;
        *end = '\0';
        if (!strchr(text, ':') || !cay__addr_parse(text + 1, addr))
            return fail_url(url, "that is no plain IPv6 address", err);
        cay__addr_text(addr, u->host);
    } else {
        char *colon = strchr(text, ':');
        if (colon)
            *colon = '\0', port = colon + 1;
        if (cay__addr_parse(text, addr))
            cay__addr_text(addr, u->host);
        else if (!cay__name_fold(text, strlen(text), u->host))
            return fail_url(url, "its host is no name, or an address in an odd spelling", err);
    }
    uint64_t v = 80;
    if (u->tls)
        v = 443;
    if (port && (!cay__str_to_u64(port, &v) || !v || v > 65535 || *port == '0'))
        return fail_url(url, "its port is not 1 to 65535", err);
    u->port = (uint16_t)v;
    return 0;
}

int cay__url_parse(const char *text, cay__url *out, cay_err *err)
{
    cay__url u = { 0 };
    CAY_TRY(check_chars(text, err));
    const char *s = text;
    if (!strncasecmp(s, "https://", 8))
        u.tls = true, s += 8;
    else if (!strncasecmp(s, "http://", 7))
        s += 7;
    else
        return fail_url(text, "only https:// and http:// are fetched", err);
    size_t n = strcspn(s, "/?#");
    CAY_TRY(take_host(text, s, n, &u, err));
    s += n;
    size_t len = strcspn(s, "#");
    CAY_FORMAT(u.target, "%s%.*s", *s == '/' ? "" : "/", (int)len, s);
    *out = u;
    return 0;
}

bool cay__url_same_place(const cay__url *a, const cay__url *b)
{
    return a->tls == b->tls && a->port == b->port && !strcmp(a->host, b->host);
}

/* A segment ".." of the target may not climb above its root; servers see what we judged. */
static int join_path(const cay__url *at, const char *location, cay__url *out, cay_err *err)
{
    size_t dir = strcspn(at->target, "?");
    size_t path = dir;
    while (dir && at->target[dir - 1] != '/')
        dir--;
    const char *tail = location;
    size_t keep;
    if (*location == '/')
        keep = 0;
    else if (*location == '?')
        keep = path;
    else if (!*location || *location == '#')
        keep = strlen(at->target);
    else
        keep = dir;
    size_t len = strcspn(tail, "#");
    if (keep + len >= sizeof out->target)
        return fail_url(location, "the redirect is too long", err);
    cay__url u = *at;
    memcpy(u.target + keep, tail, len);
    u.target[keep + len] = '\0';
    *out = u;
    return 0;
}

int cay__url_join(const cay__url *at, const char *location, cay__url *out, cay_err *err)
{
    char whole[CAY__URL_MAX + 8];
    CAY_TRY(check_chars(location, err));
    if (location[0] == '/' && location[1] == '/') {
        CAY_FORMAT(whole, "%s:%s", at->tls ? "https" : "http", location);
        return cay__url_parse(whole, out, err);
    }
    size_t n = strcspn(location, ":/?#");
    if (location[n] == ':')
        return cay__url_parse(location, out, err);
    return join_path(at, location, out, err);
}
