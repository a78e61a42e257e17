/* SPDX-License-Identifier: Apache-2.0 */
/* Who may look at a port: whoever has its token, or a key that may use the sandbox. Private until
 * then. */
#include "preview.h"
#include <base/base.h>
#include <base/mutant.h>
#include <strings.h>

void cay__preview_cookie(const cay__req *r, char out[32])
{
    /* Browsers take __Host- from encrypted connections only; elsewhere servers on other ports of
     * this host share the jar. */
    if (r->tls)
        cay__str_copy(out, 32, "__Host-cay");
    else
        snprintf(out, 32, "cay_%s", cay__server_instance(r->server));
}

/* A secret that begins with `kind`, in the fields where programs put it; or NULL. */
static const char *find_secret(const cay__head *h, const char *kind)
{
    static const char *const fields[] = { CAY__PREVIEW_HEADER, "e2b-traffic-access-token",
                                          "x-api-key" };
    CAY_EACH(field, fields) {
        const char *v = cay__head_field(h, *field);
        if (v && cay__str_starts(v, kind))
            return v;
    }
    const char *v = cay__head_field(h, "authorization");
    if (!v || strncasecmp(v, "bearer ", 7) != 0)
        return NULL;
    v += 7 + strspn(v + 7, " ");
    if (cay__str_starts(v, kind))
        return v;
    return NULL;
}

const char *cay__preview_token(const cay__head *h)
{
    return find_secret(h, "cayp_");
}

static bool has_field_value(const cay__head *h, const char *field, const char *value)
{
    const char *v = cay__head_field(h, field);
    return v && !strcasecmp(v, value);
}

/* A browser sends a cookie along with whatever another page asks for. Previews of one domain are
 * one site to it, so SameSite does not keep one sandbox's page from using the cookie of another's
 * preview: its Origin, and what it says of the fetch, do. */
static bool own_page(const cay__req *r)
{
    const cay__head *h = &r->head;
    const char *origin = cay__head_field(h, "origin"), *site = cay__head_field(h, "sec-fetch-site");
    CAY_AUTOBUF own = CAY__BUF(512);
    cay__buf_fmt(&own, "%s://%s", cay__scheme(r->tls), h->host);
    if (CAY__MUTANT("preview-page"))
        return true;
    if (origin && (own.full || strcasecmp(origin, own.data) != 0))
        return false;
    if (!site || !strcasecmp(site, "none") || !strcasecmp(site, "same-origin"))
        return true;
    return has_field_value(h, "sec-fetch-mode", "navigate") &&
           (!strcmp(h->method, "GET") || !strcmp(h->method, "HEAD"));
}

static int by_token(cay__req *r, const cay__preview_at *at, const char *token, cay_err *err)
{
    if (!CAY__MUTANT("preview-token"))
        CAY_TRY(cay_port_token_check(r->client, at->id, at->port, token, err));
    r->who = (cay__actor){ .scope = CAY__SCOPE_PORT, .port = at->port };
    CAY_COPY(r->who.sandbox, at->id);
    return 0;
}

/* By another protocol's rules for its own sandboxes. */
static bool grant_by_dialect(cay__req *r, const cay__preview_at *at)
{
    for (const cay__dialect *const *d = cay__dialects; *d; d++)
        if ((*d)->opens && (*d)->opens(r, at->id, at->port)) {
            r->who = (cay__actor){ .scope = CAY__SCOPE_PORT, .port = at->port };
            CAY_COPY(r->who.sandbox, at->id);
            return true;
        }
    return false;
}

int cay__preview_access(cay__req *r, const cay__preview_at *at, const char *token, cay_err *err)
{
    const cay__head *h = &r->head;
    char name[32], kept[128];
    const char *t = cay__preview_token(h), *key = find_secret(h, "e2b_"),
               *cookies = cay__head_field(h, "cookie");
    if (t)
        return by_token(r, at, t, err);
    if (*token)
        return by_token(r, at, token, err);
    if (key) {
        CAY_TRY(cay__auth_key(r, key, err));
        bool other = r->who.scope == CAY__SCOPE_FILE ||
                     (r->who.scope == CAY__SCOPE_PORT && r->who.port != at->port);
        if (other)
            return cay_fail_why(err, CAY_EPERM, "token_refused",
                                "that key does not open this port");
        return 0;
    }
    cay__preview_cookie(r, name);
    if (!at->by_path && grant_by_dialect(r, at))
        return 0;
    if (at->by_path || !cookies || !cay__cookie_get(cookies, name, kept, sizeof kept))
        return cay_fail_why(err, CAY_EAUTH, "preview_token_missing",
                            "this preview is private: open it with ?" CAY__PREVIEW_TOKEN
                            "=TOKEN, which `cay port expose %s %u` makes",
                            at->id, at->port);
    if (!own_page(r))
        return cay_fail_why(
            err, CAY_EPERM, "preview_foreign_page",
            "a page of another origin asked for this; only its own pages use a preview's cookie");
    return by_token(r, at, kept, err);
}
