/* SPDX-License-Identifier: Apache-2.0 */
/* A policy as JSON: for the store, and for whoever asks in it. */
#include "net.h"
#include <base/json.h>
#include <cay/policy.h>

static const char *const modes[] = { "auto", "off", "all", "rules" };

json_t *cay__policy_json(const char *text)
{
    cay_policy *p = NULL;
    if (cay_policy_parse(text, &p, NULL) < 0)
        return NULL;
    json_t *o = json_object(), *list = json_array(), *binds = json_array();
    json_object_set_new(o, "mode", json_string(modes[p->mode]));
    for (const char *const *r = p->rules; *r; r++)
        json_array_append_new(list, json_string(*r));
    for (const cay_bind *b = p->bindings; b->name; b++)
        json_array_append_new(
            binds, json_pack("{s:s,s:s}", "name", b->name, "destination", b->destination));
    json_object_set_new(o, "rules", list);
    if (p->rate_up)
        json_object_set_new(o, "rate_up", json_integer((json_int_t)p->rate_up));
    if (p->rate_down)
        json_object_set_new(o, "rate_down", json_integer((json_int_t)p->rate_down));
    if (p->connections)
        json_object_set_new(o, "connections", json_integer(p->connections));
    if (json_array_size(binds))
        json_object_set(o, "bindings", binds);
    json_decref(binds);
    cay_policy_free(p);
    return o;
}

static int fail_invalid_policy(const char *member, const char *want, cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "policy_invalid", "net: %.40s %s", member, want);
}

static int read_rules(const json_t *j, const char ***out, cay_err *err)
{
    size_t n = json_array_size(j);
    if (!json_is_array(j))
        return fail_invalid_policy("rules", "is not a list of strings", err);
    *out = cay__alloc((n + 1) * sizeof **out);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_array_get(j, i);
        (*out)[i] = json_string_value(s);
        if (!(*out)[i] || strlen((*out)[i]) != json_string_length(s))
            return fail_invalid_policy("rules", "is not a list of strings", err);
    }
    return 0;
}

static int read_bindings(const json_t *j, cay_bind **out, cay_err *err)
{
    size_t n = json_array_size(j);
    if (!json_is_array(j))
        return fail_invalid_policy("bindings", "is not a list of {name, destination}", err);
    *out = cay__alloc((n + 1) * sizeof **out);
    for (size_t i = 0; i < n; i++) {
        const json_t *b = json_array_get(j, i);
        (*out)[i] =
            (cay_bind){ cay__json_str(b, "name", NULL), cay__json_str(b, "destination", NULL) };
        if (!(*out)[i].name || !(*out)[i].destination || json_object_size(b) != 2)
            return fail_invalid_policy("bindings", "is not a list of {name, destination}", err);
    }
    return 0;
}

static int read_number(const json_t *j, const char *key, uint64_t most, uint64_t *out, cay_err *err)
{
    json_int_t v = json_integer_value(j);
    if (!json_is_integer(j) || v < 0 || (uint64_t)v > most)
        return fail_invalid_policy(key, "is not a number in its range", err);
    *out = (uint64_t)v;
    return 0;
}

static int read_mode(const json_t *j, cay_net_mode *out, cay_err *err)
{
    const char *s = json_string_value(j);
    for (size_t i = 0; s && i < CAY_LEN(modes); i++)
        if (!strcmp(s, modes[i]))
            return *out = (cay_net_mode)i, 0;
    return fail_invalid_policy("mode", "is not off, all or rules", err);
}

int cay_policy_from_json(const char *json, char **text, cay_err *err)
{
    CAY_AUTOJSON *j = NULL;
    cay_policy p = { .size = sizeof p };
    CAY_AUTOFREE const char **rules = NULL;
    CAY_AUTOFREE cay_bind *binds = NULL;
    uint64_t connections = 0;
    const char *key;
    json_t *v;
    CAY_TRY(cay__json_object("net", json, &j, err));
    json_object_foreach(j, key, v) {
        int rc;
        if (!strcmp(key, "mode"))
            rc = read_mode(v, &p.mode, err);
        else if (!strcmp(key, "rules"))
            rc = read_rules(v, &rules, err);
        else if (!strcmp(key, "rate_up"))
            rc = read_number(v, key, CAY__RATE_MOST, &p.rate_up, err);
        else if (!strcmp(key, "rate_down"))
            rc = read_number(v, key, CAY__RATE_MOST, &p.rate_down, err);
        else if (!strcmp(key, "connections"))
            rc = read_number(v, key, CAY__CONNECTIONS_MOST, &connections, err);
        else if (!strcmp(key, "bindings"))
            rc = read_bindings(v, &binds, err);
        else
            rc = fail_invalid_policy(key, "is not known", err);
        CAY_TRY(rc);
    }
    p.rules = rules;
    p.bindings = binds;
    p.connections = (uint32_t)connections;
    return cay_policy_text(&p, text, err);
}

int cay_policy_to_json(const char *text, char **json, cay_err *err)
{
    __attribute__((cleanup(cay__policy_clear))) cay__policy p = { 0 };
    CAY_TRY(cay__policy_read(&p, text, strlen(text), false, err));
    CAY_AUTOJSON *o = cay__policy_json(text);
    if (!(*json = cay__json_text(o, 4 * CAY__POLICY_MAX)))
        return cay_fail_why(err, CAY_ETOOBIG, "policy_too_big",
                            "the policy is too long for one answer");
    return 0;
}
