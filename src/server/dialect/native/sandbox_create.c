/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox from a request. What reaches into the host is asked for by scope admin alone. */
#include "native.h"
#include <server/events.h>

enum { CREATE_BODY = 64 << 20 };

static int only_admin(const char *what, cay_err *err)
{
    return cay_fail_why(err, CAY_EPERM, "admin_only",
                        "%s reaches into the host; it needs a key of scope admin", what);
}

int cay__native_sources(const cay__req *r, const cay_secret *list, size_t n, cay_err *err)
{
    for (size_t i = 0; r->who.scope != CAY__SCOPE_ADMIN && i < n; i++)
        if (!cay__str_starts(list[i].source, "store:") && !cay__str_starts(list[i].source, "fill:"))
            return only_admin("secrets[].source other than store:NAME", err);
    return 0;
}

static int check_rights(const cay__req *r, const cay__create_body *b, cay_err *err)
{
    const cay_create *c = &b->c;
    if (r->who.scope == CAY__SCOPE_ADMIN)
        return 0;
    if (c->tenant && strcmp(c->tenant, r->who.tenant))
        return cay_fail_why(err, CAY_EPERM, "admin_only",
                            "tenant: another one than your own needs a key of scope admin");
    /* Without namespaces a command runs as us, and what we own can be changed by chmod(2) from
     * there, the state directory first. */
    if (c->provider && (!strcmp(c->provider, "local") || !strcmp(c->provider, "process")))
        return only_admin(*c->provider == 'l' ? "provider local" : "provider process", err);
    for (const cay_pair *p = c->options; p && p->key; p++)
        if (strcmp(p->key, "image") && strcmp(p->key, "pull") && strcmp(p->key, "read_only"))
            return only_admin("options other than image, pull and read_only", err);
    return cay__native_sources(r, c->net.secrets, c->net.nsecrets, err);
}

/* "none" is the one level that has to be asked for by name, and it means provider local. */
static int take_isolation(cay__create_body *b, cay_err *err)
{
    if (!b->isolation)
        return 0;
    b->c.isolation.min_level = cay_level_parse(b->isolation);
    if (b->c.isolation.min_level != CAY_LEVEL_NONE)
        return 0;
    if (b->c.provider && strcmp(b->c.provider, "local"))
        return cay_fail_why(err, CAY_EINVAL, "field_invalid",
                            "isolation: none and provider %.40s exclude each other", b->c.provider);
    b->c.provider = "local";
    return 0;
}

static int take_net(cay__req *r, cay__create_body *b, cay_err *err)
{
    CAY_AUTOJSON *j = NULL;
    char *text = NULL;
    int rc;
    if (!b->net)
        return 0;
    CAY_TRY(cay__json_any("net", b->net, &j, err));
    if (json_is_array(j)) {
        size_t n = json_array_size(j);
        const char **rules = cay__arena_take(&r->arena, (n + 1) * sizeof *rules);
        for (size_t i = 0; i < n; i++) {
            const json_t *rule = json_array_get(j, i);
            if (!json_is_string(rule) ||
                strlen(json_string_value(rule)) != json_string_length(rule))
                return cay_fail_why(
                    err, CAY_EINVAL, "field_invalid",
                    "net[%zu]: want a rule, such as \"pypi\" or \"api.example.com\"", i);
            rules[i] = json_string_value(rule);
        }
        if (n)
            rc = cay_policy_text(&(cay_policy){ .size = sizeof(cay_policy), .rules = rules }, &text,
                                 err);
        else
            rc = 0;
    } else {
        if (json_is_object(j))
            rc = cay_policy_from_json(b->net, &text, err);
        else
            rc = cay_fail_why(err, CAY_EINVAL, "field_invalid",
                              "net: want a list of rules, or a policy object");
    }
    if (rc < 0)
        return rc;
    if (text)
        b->c.net.policy = cay__arena_adopt(&r->arena, text);
    else
        b->c.net.policy = NULL;
    return 0;
}

enum { TELL_MS = 100 };
typedef struct watched {
    cay__req *r;
    const char *tenant, *key;
    int64_t told_ms;
} watched;

static void on_progress(const cay_manifest_progress *p, void *arg)
{
    watched *w = arg;
    int64_t now = cay__now_ms();
    bool all = p->entries == p->entries_total && p->bytes >= p->bytes_total;
    if (!all && now - w->told_ms < TELL_MS)
        return;
    w->told_ms = now;
    cay__hub_progress(cay__server_hub(w->r->server), w->tenant, w->key, p);
}

static uint64_t no_end(uint64_t ms)
{
    if (ms == CAY_UNLIMITED)
        return 0;
    return ms;
}

int cay__on_sandbox_create(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    cay__create_body b = { .c = { .size = sizeof b.c } };
    json_t *j;
    CAY_TRY(cay__req_json(r, CREATE_BODY, &j, err));
    CAY_TRY(cay__shape_read(&r->arena, j, r->route->op->body, CAY__F_IN | cay__native_view(r), &b,
                            err));
    CAY_TRY(take_isolation(&b, err));
    CAY_TRY(check_rights(r, &b, err));
    CAY_TRY(take_net(r, &b, err));
    b.c.tenant = CAY_OR(b.c.tenant, r->who.tenant);
    b.c.idempotency_key = cay__req_once(r);
    b.c.life.ttl_ms = no_end(b.c.life.ttl_ms);
    b.c.life.idle_ms = no_end(b.c.life.idle_ms);
    watched w = { .r = r, .tenant = b.c.tenant, .key = b.c.idempotency_key };
    b.c.manifest.progress = on_progress;
    b.c.manifest.progress_arg = &w;
    CAY_TRY(cay_client_create(r->client, &r->call, &b.c, &sb, err));
    cay__req_about(r, cay_sandbox_id(sb));
    r->sb = sb;
    int rc = cay__on_sandbox_get(r, err);
    r->sb = NULL; /* ours */
    return rc;
}
