/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.rules: fields that are put into requests on their way out, as bindings of secrets to
 * destinations. A value that is a secret of the store stays there; one that was given as text goes
 * there, under a name of ours and as long as the sandbox has the rule. Neither enters the sandbox.
 */
#include "e2b.h"

#define SPACE     "e2b-rule" /* secret of ours → {"sandbox", "mask", "bearer"} */
#define SECRET    "${e2b.secrets."
#define HIDDEN    "hidden:"
#define RULES_MAX 64 /* headers of all names together: as many as a policy binds */

/* A value as the store keeps it: each ${e2b.secrets.NAME} is ${store:…} there. *secret: it is one
 * secret and nothing else, by its name in the store. */
static int read_value(const char *domain, const char *value, const char **form, const char **secret,
                      cay__arena *mem, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(65536);
    *secret = NULL;
    *form = value;
    if (strstr(value, "${e2b.identity."))
        return cay_fail_why(
            err, CAY_ENOTSUP, "not_supported",
            "network.rules: %.80s: iam identity tokens are not supported by this server", domain);
    if (strstr(value, "${store:"))
        return cay_fail(err, CAY_EINVAL, "network.rules: %.80s: a secret is ${e2b.secrets.NAME}",
                        domain);
    if (!strstr(value, SECRET))
        return 0;
    for (const char *s = value, *at; *s;) {
        at = strstr(s, SECRET);
        size_t n = 0;
        if (at)
            n = strcspn(at, "}");
        cay__buf_add(&b, s, at ? (size_t)(at - s) : strlen(s));
        if (!at)
            break;
        char *name = cay__arena_str(mem, at + sizeof SECRET - 1);
        name[at[n] ? n - (sizeof SECRET - 1) : 0] = 0;
        const char *stored = e2b_secret_stored(mem, name);
        if (!stored)
            return cay_fail(err, CAY_EINVAL,
                            "network.rules: %.80s: \"%.60s\" cannot be a secret's name", domain,
                            name);
        cay__buf_fmt(&b, "${store:%s}", stored);
        s = at + n + 1;
        if (at == value && !*s)
            *secret = stored;
    }
    if (b.full)
        return cay_fail(err, CAY_EINVAL, "network.rules: %.80s: a value is longer than 64 kB",
                        domain);
    *form = cay__arena_str(mem, b.data);
    return 0;
}

static bool is_wildcard_match(const char *wild, const char *name)
{
    size_t n = strlen(wild), d = strlen(name);
    return wild[0] == '*' && wild[1] == '.' && d > n - 1 &&
           !strcasecmp(name + d - (n - 1), wild + 1);
}

/* Rules grant nothing: one for a name that is not reached is without effect. */
static bool is_domain_reachable(const json_t *network, bool internet, const char *domain)
{
    const json_t *v;
    size_t i;
    bool closed = !internet;
    json_array_foreach(json_object_get(network, "denyOut"), i, v)
        closed |= json_is_string(v) && !strcmp(json_string_value(v), "0.0.0.0/0");
    json_array_foreach(json_object_get(network, "allowOut"), i, v) {
        const char *s = json_string_value(v);
        if (s && (!strcasecmp(s, domain) || is_wildcard_match(s, domain) ||
                  is_wildcard_match(domain, s)))
            return true;
    }
    return !closed;
}

/* A name without a header would be one that is left out of a wildcard: there is no such binding,
 * and it is not passed over in silence. */
static int check_empty(const json_t *rules, const char *domain, cay_err *err)
{
    const char *other;
    json_t *v;
    json_object_foreach((json_t *)rules, other, v)
        if (is_wildcard_match(other, domain))
            return cay_fail(err, CAY_EINVAL,
                            "network.rules.%.80s has no "
                            "header, and %.80s would give it "
                            "some; give it a header of its "
                            "own",
                            domain, other);
    return 0;
}

typedef struct reading {
    cay__req *r;
    e2b_rule *v;
    size_t n;
} reading;

/* The same field again, in a later rule: that one counts. */
static e2b_rule *find_rule_slot(reading *x, size_t first, const char *header)
{
    for (size_t i = first; i < x->n; i++)
        if (!strcasecmp(x->v[i].header, header))
            return &x->v[i];
    if (x->n == RULES_MAX)
        return NULL;
    return &x->v[x->n++];
}

static int read_header(reading *x, size_t first, const char *domain, const char *header,
                       const json_t *value, cay_err *err)
{
    cay__arena *mem = &x->r->arena;
    const char *given = cay__json_cstr(value);
    if (!given || !*given)
        return cay_fail(err, CAY_EINVAL, "network.rules.%.80s: header %.60s is not a text", domain,
                        header);
    const char *text =
        cay__arena_str(mem, given); /* in the request it is masked before we are done with it */
    e2b_rule *one = find_rule_slot(x, first, header);
    if (!one)
        return cay_fail(err, CAY_EINVAL, "network.rules: more than %d headers", RULES_MAX);
    *one = (e2b_rule){ .domain = domain, .header = header, .text = text };
    /* The word before a token is no secret: told apart, the token is covered in answers by itself
     * too. */
    one->bearer =
        !strcasecmp(header, "authorization") && !strncasecmp(text, "Bearer ", 7) && text[7];
    CAY_TRY(read_value(domain, text + (one->bearer ? 7 : 0), &one->value, &one->secret, mem, err));
    one->name = cay__req_text(x->r, "E2B_RULE_%zu", (size_t)(one - x->v));
    return 0;
}

static int read_domain(reading *x, const json_t *rules, const char *domain, const json_t *list,
                       cay_err *err)
{
    size_t first = x->n, i;
    const json_t *one;
    const char *key;
    json_t *v;
    if (!json_is_array(list))
        return cay_fail(err, CAY_EINVAL, "network.rules.%.80s is a list of rules", domain);
    json_array_foreach(list, i, one) {
        json_t *headers = json_object_get(json_object_get(one, "transform"), "headers");
        if (headers && !json_is_object(headers))
            return cay_fail(err, CAY_EINVAL,
                            "network.rules.%.80s: transform.headers is an object of texts", domain);
        json_object_foreach(headers, key, v)
            CAY_TRY(read_header(x, first, domain, key, v, err));
    }
    if (x->n == first)
        return check_empty(rules, domain, err);
    return 0;
}

int e2b_rules_read(cay__req *r, const json_t *network, bool internet, e2b_rule **out, size_t *n,
                   cay_err *err)
{
    json_t *rules = e2b_member(network, "rules"), *list;
    const char *domain;
    *n = 0;
    if (rules && !json_is_object(rules))
        return cay_fail(err, CAY_EINVAL, "network.rules is an object of names");
    reading x = { .r = r, .v = cay__arena_take(&r->arena, (RULES_MAX + 1) * sizeof *x.v) };
    json_object_foreach(rules, domain, list) {
        size_t first = x.n;
        if (strchr(domain, ',') || strchr(domain, '/') || strchr(domain, ':'))
            return cay_fail(err, CAY_EINVAL,
                            "network.rules: \"%.80s\" is no name of a host, nor *. before one",
                            domain);
        CAY_TRY(read_domain(&x, rules, domain, list, err));
        if (!is_domain_reachable(network, internet, domain))
            x.n = first;
    }
    *out = x.v;
    *n = x.n;
    return 0;
}

static int mask_of(cay__req *r, const char *text, char out[E2B_TOKEN_LEN + 8], cay_err *err)
{
    char token[E2B_TOKEN_LEN + 1];
    CAY_TRY(e2b_token(r, "rule", text, token, err));
    snprintf(out, E2B_TOKEN_LEN + 8, HIDDEN "%.16s", token);
    return 0;
}

/* A value that was given as text is not kept where it can be read: what stands for it tells only
 * whether another is the same. */
int e2b_rules_mask(cay__req *r, json_t *network, cay_err *err)
{
    json_t *list, *one, *v;
    const char *domain, *key;
    char text[E2B_TOKEN_LEN + 8];
    size_t i;
    json_object_foreach(json_object_get(network, "rules"), domain, list)
        json_array_foreach(list, i, one) {
            json_t *headers = json_object_get(json_object_get(one, "transform"), "headers");
            json_object_foreach(headers, key, v) {
                const char *s = json_string_value(v);
                if (!s || strstr(s, SECRET) || cay__str_starts(s, HIDDEN))
                    continue;
                CAY_TRY(mask_of(r, s, text, err));
                json_object_set_new(headers, key, json_string(text));
            }
        }
    return 0;
}

typedef struct seek {
    const char *sandbox, *mask;
    char own[64];
    bool bearer;
} seek;

static int same_mask(const char *key, const char *json, void *arg)
{
    seek *s = arg;
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("note", json, &o, NULL) < 0 ||
        strcmp(cay__json_str(o, "sandbox", ""), s->sandbox) ||
        strcmp(cay__json_str(o, "mask", ""), s->mask))
        return 0;
    s->bearer = cay__json_bool(o, "bearer", false);
    return CAY_COPY(s->own, key);
}

/* What stands for a value that this sandbox has: that one is meant. */
static int find_hidden(cay__req *r, const char *sandbox, e2b_rule *one, cay_err *err)
{
    seek s = { .sandbox = CAY_OR(sandbox, ""), .mask = one->text };
    if (sandbox)
        cay_note_list(r->client, SPACE, "", same_mask, &s, NULL);
    if (!*s.own)
        return cay_fail(err, CAY_EINVAL,
                        "network.rules: \"%.40s\" stands for a value that this sandbox does not "
                        "have; give the value",
                        one->text);
    one->own = cay__arena_str(&r->arena, s.own);
    one->kept = true;
    one->bearer = s.bearer && !strcasecmp(one->header, "authorization");
    return 0;
}

int e2b_rules_store(cay__req *r, e2b_rule *v, size_t n, const char *sandbox, const cay_secret **out,
                    cay_err *err)
{
    cay_secret *list = cay__arena_take(&r->arena, (n + 1) * sizeof *list);
    if (n)
        CAY_TRY(cay__req_shared(r, "network.rules: secrets", err));
    for (size_t i = 0; i < n; i++) {
        if (cay__str_starts(v[i].text, HIDDEN)) {
            CAY_TRY(find_hidden(r, sandbox, &v[i], err));
        } else if (!v[i].secret) {
            const char *own = cay__req_text(r, "E2B_BOX_%s_%zu", r->id, i);
            CAY_TRY(cay_secret_put(r->client, own, v[i].value, strlen(v[i].value), err));
            v[i].own = own;
        }
        list[i] =
            (cay_secret){ .name = v[i].name,
                          .source = cay__req_text(r, "%s:%.64s", v[i].secret ? "store" : "fill",
                                                  CAY_OR(v[i].secret, v[i].own)),
                          .destination = cay__req_text(r, "https://%s,%s%s", v[i].domain,
                                                       v[i].bearer ? "bearer" : "header:",
                                                       CAY_TEXT_IF(!v[i].bearer, v[i].header)) };
    }
    *out = list;
    return 0;
}

void e2b_rules_made(cay__req *r, const e2b_rule *v, size_t n, const char *sandbox)
{
    CAY_EACH_OF(it, v, n) {
        char mask[E2B_TOKEN_LEN + 8] = "";
        if (!it->own || it->kept)
            continue;
        mask_of(r, it->text, mask, NULL);
        CAY_AUTOJSON *note = json_pack("{s:s,s:s,s:b}", "sandbox", CAY_OR(sandbox, ""), "mask",
                                       mask, "bearer", it->bearer);
        CAY_AUTOFREE char *text = cay__json_text(note, 1000);
        if (!sandbox)
            cay_secret_remove(r->client, it->own, NULL);
        else
            cay_note_put(r->client, SPACE, it->own, text, NULL);
    }
}

static int on_list_note(const char *key, const char *json, void *arg)
{
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("note", json, &o, NULL) == 0)
        json_object_set_new(arg, key, json_string(cay__json_str(o, "sandbox", "")));
    return 0;
}

static void remove_secret(cay__req *r, const char *own)
{
    cay_secret_remove(r->client, own, NULL);
    cay_note_put(r->client, SPACE, own, NULL, NULL);
}

void e2b_rules_only(cay__req *r, const e2b_rule *v, size_t n, const char *sandbox)
{
    CAY_AUTOJSON *all = json_object();
    const char *key;
    json_t *of;
    if (cay_note_list(r->client, SPACE, "", on_list_note, all, NULL) < 0)
        return;
    json_object_foreach(all, key, of) {
        bool used = strcmp(json_string_value(of), sandbox) != 0;
        CAY_EACH_OF(it, v, n)
            used |= it->own && !strcmp(it->own, key);
        if (!used)
            remove_secret(r, key);
    }
}

void e2b_rules_sweep(cay__req *r)
{
    CAY_AUTOJSON *all = json_object();
    const char *key;
    json_t *v;
    if (cay_note_list(r->client, SPACE, "", on_list_note, all, NULL) < 0)
        return;
    json_object_foreach(all, key, v) {
        cay_sandbox *sb;
        cay_err err = CAY_ERR_INIT;
        int rc = cay_client_find(r->client, &r->call, json_string_value(v), &sb, &err);
        if (rc == 0)
            cay_sandbox_unref(sb);
        if (rc == CAY_ENOENT || rc == CAY_EGONE)
            remove_secret(r, key);
    }
}
