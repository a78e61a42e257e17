/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.rules: fields that are put into requests on their way out, as bindings of secrets to destinations. A value that is a secret of the
 * store stays there; one that was given as text goes there, under a name of ours and as long as the sandbox lives. Neither enters the sandbox.
 */
#include "e2b.h"
#include <base/str.h>
#include <cay/note.h>
#include <cay/policy.h>
#include <stdio.h>
#include <strings.h>

#define SPACE     "e2b-rule" /* secret of ours → {"sandbox"} */
#define SECRET    "${e2b.secrets."
#define RULES_MAX 64

static int not_here(const char *domain, const char *what, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOTSUP, "not_supported", "network.rules: %.80s: %s", domain, what);
}

/* What a rule's value stands for: a secret of the store, whole or behind "Bearer ", or the text itself. */
static int read_value(const char *domain, const char *header, const char *value, const char **secret, bool *bearer, cay__arena *mem, cay_err *err)
{
    *bearer = !strcasecmp(header, "authorization") && !strncasecmp(value, "Bearer ", 7);
    const char *v = *bearer ? value + 7 : value;
    if (strstr(value, "${e2b.identity."))
        return not_here(domain, "iam identity tokens are not supported by this server", err);
    if (!strstr(value, SECRET)) {
        *secret = NULL;
        *bearer = false;
        return 0;
    }
    size_t n = strcspn(v, "}");
    if (!cay__str_starts(v, SECRET) || strcmp(v + n, "}"))
        return not_here(domain, "a value is a text, ${e2b.secrets.NAME}, or \"Bearer ${e2b.secrets.NAME}\"", err);
    char *name = cay__arena_str(mem, v + sizeof SECRET - 1);
    name[strlen(name) - 1] = 0;
    *secret = e2b_secret_stored(mem, name);
    return *secret ? 0 : cay_fail(err, CAY_EINVAL, "network.rules: %.80s: \"%.60s\" cannot be a secret's name", domain, name);
}

/* The one header of a domain's list of transforms. */
static int read_headers(const char *domain, const json_t *list, const char **header, const char **value, cay_err *err)
{
    const json_t *one;
    const char *key;
    json_t *v;
    size_t i;
    *header = NULL;
    if (!json_is_array(list))
        return cay_fail(err, CAY_EINVAL, "network.rules.%.80s is a list of rules", domain);
    json_array_foreach(list, i, one) {
        json_t *headers = json_object_get(json_object_get(one, "transform"), "headers");
        if (headers && !json_is_object(headers))
            return cay_fail(err, CAY_EINVAL, "network.rules.%.80s: transform.headers is an object of texts", domain);
        json_object_foreach(headers, key, v) {
            if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v) || !*json_string_value(v))
                return cay_fail(err, CAY_EINVAL, "network.rules.%.80s: header %.60s is not a text", domain, key);
            if (*header)
                return not_here(domain, "more than one header for a name is not supported by this server", err);
            *header = key;
            *value = json_string_value(v);
        }
    }
    return 0;
}

/* Rules grant nothing: one for a name that is not reached is without effect. */
static bool reached(const json_t *network, bool internet, const char *domain)
{
    const json_t *v;
    size_t i;
    bool closed = !internet;
    json_array_foreach(json_object_get(network, "denyOut"), i, v)
        closed |= json_is_string(v) && !strcmp(json_string_value(v), "0.0.0.0/0");
    json_array_foreach(json_object_get(network, "allowOut"), i, v) {
        const char *s = json_string_value(v);
        size_t n = strlen(s ? s : ""), d = strlen(domain);
        if (s && (!strcasecmp(s, domain) || (s[0] == '*' && s[1] == '.' && d > n - 1 && !strcasecmp(domain + d - (n - 1), s + 1))))
            return true;
    }
    return !closed;
}

static const char *name_of(cay__arena *mem, const char *domain)
{
    char name[32];
    snprintf(name, sizeof name, "E2B_RULE_%08X", cay__hash(domain, strlen(domain)));
    return cay__arena_str(mem, name);
}

static const char *destination(cay__arena *mem, const char *domain, const char *header, bool bearer)
{
    size_t n = strlen(domain) + strlen(header) + 32;
    char *s = cay__arena_take(mem, n);
    cay__str_join(s, n, "https://", domain, bearer ? ",bearer" : ",header:", bearer ? "" : header, NULL);
    return s;
}

int e2b_rules_read(cay__req *r, const json_t *network, bool internet, e2b_rule **out, size_t *n, cay_err *err)
{
    json_t *rules = json_object_get(network, "rules"), *list;
    const char *domain;
    *n = 0;
    if (!rules || json_is_null(rules))
        return 0;
    if (!json_is_object(rules) || json_object_size(rules) > RULES_MAX)
        return cay_fail(err, CAY_EINVAL, "network.rules is an object of at most %d names", RULES_MAX);
    e2b_rule *v = *out = cay__arena_take(&r->arena, (json_object_size(rules) + 1) * sizeof *v);
    json_object_foreach(rules, domain, list) {
        const char *header, *value;
        bool bearer;
        CAY_TRY(read_headers(domain, list, &header, &value, err));
        if (!header)
            continue;
        if (strchr(domain, '*'))
            return not_here(domain, "a header goes to one exact name", err);
        e2b_rule *one = &v[*n];
        CAY_TRY(read_value(domain, header, value, &one->secret, &bearer, &r->arena, err));
        if (!reached(network, internet, domain))
            continue;
        one->value = value;
        one->name = name_of(&r->arena, domain);
        one->destination = destination(&r->arena, domain, header, bearer);
        ++*n;
    }
    v[*n] = (e2b_rule){ 0 };
    return 0;
}

/* A value that was given as text is not kept where it can be read: what stands for it tells only whether another is the same. */
int e2b_rules_mask(cay__req *r, json_t *network, cay_err *err)
{
    json_t *list, *one, *v;
    const char *domain, *key;
    char token[E2B_TOKEN_LEN + 1], text[E2B_TOKEN_LEN + 8];
    size_t i;
    json_object_foreach(json_object_get(network, "rules"), domain, list)
        json_array_foreach(list, i, one) {
            json_t *headers = json_object_get(json_object_get(one, "transform"), "headers");
            json_object_foreach(headers, key, v) {
                if (!json_is_string(v) || strstr(json_string_value(v), SECRET) || cay__str_starts(json_string_value(v), "hidden:"))
                    continue;
                CAY_TRY(e2b_token(r, "rule", json_string_value(v), token, err));
                snprintf(text, sizeof text, "hidden:%.16s", token);
                json_object_set_new(headers, key, json_string(text));
            }
        }
    return 0;
}

/* ------------------------------------------------------------------ with a sandbox */

int e2b_rules_store(cay__req *r, e2b_rule *v, size_t n, cay_create *c, cay_err *err)
{
    cay_secret *list = cay__arena_take(&r->arena, (n + 1) * sizeof *list);
    if (n)
        CAY_TRY(e2b_shared(r, "network.rules: secrets", err));
    for (size_t i = 0; i < n; i++) {
        char own[64];
        if (!v[i].secret) {
            snprintf(own, sizeof own, "E2B_BOX_%s_%zu", r->id, i);
            CAY_TRY(cay_secret_put(r->svc, own, v[i].value, strlen(v[i].value), err));
            v[i].own = cay__arena_str(&r->arena, own);
        }
        size_t len = strlen(v[i].secret ? v[i].secret : v[i].own) + 7;
        char *source = cay__arena_take(&r->arena, len);
        cay__str_join(source, len, "store:", v[i].secret ? v[i].secret : v[i].own, NULL);
        list[i] = (cay_secret){ .name = v[i].name, .source = source, .destination = v[i].destination };
    }
    c->secrets = list;
    c->nsecrets = n;
    return 0;
}

void e2b_rules_made(cay__req *r, const e2b_rule *v, size_t n, const char *sandbox)
{
    for (size_t i = 0; i < n; i++) {
        CAY_AUTOJSON *note = json_pack("{s:s}", "sandbox", sandbox ? sandbox : "");
        CAY_AUTOFREE char *text = cay__json_text(note, 1000);
        if (!v[i].own)
            continue;
        if (!sandbox)
            cay_secret_remove(r->svc, v[i].own, NULL);
        else
            cay_note_put(r->svc, SPACE, v[i].own, text, NULL);
    }
}


static int keep(const char *key, const char *json, void *arg)
{
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("note", json, &o, NULL) == 0)
        json_object_set_new(arg, key, json_string(cay__json_str(o, "sandbox", "")));
    return 0;
}

void e2b_rules_sweep(cay__req *r)
{
    CAY_AUTOJSON *all = json_object();
    const char *key;
    json_t *v;
    if (cay_note_list(r->svc, SPACE, "", keep, all, NULL) < 0)
        return;
    json_object_foreach(all, key, v) {
        cay_sandbox *sb;
        cay_err err = CAY_ERR_INIT;
        int rc = cay_service_find(r->svc, &r->call, json_string_value(v), &sb, &err);
        if (rc == 0)
            cay_sandbox_unref(sb);
        if (rc != CAY_ENOENT && rc != CAY_EGONE)
            continue;
        cay_secret_remove(r->svc, key, NULL);
        cay_note_put(r->svc, SPACE, key, NULL, NULL);
    }
}
