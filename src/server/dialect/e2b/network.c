/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's network options as a policy of ours. */
#include "e2b.h"
#include <arpa/inet.h>
#include <cay/policy.h>
#include <stdio.h>

#define RULES_MAX 1000

static bool is_everything(const char *s)
{
    return !strcmp(s, "0.0.0.0/0");
}

static bool is_address(const char *s)
{
    unsigned char a[16];
    char host[64];
    size_t n = strcspn(s, "/");
    if (n >= sizeof host)
        return false;
    memcpy(host, s, n);
    host[n] = 0;
    return inet_pton(AF_INET, host, a) == 1 || inet_pton(AF_INET6, host, a) == 1;
}

static int member(const json_t *network, const char *key, json_t **list, cay_err *err)
{
    json_t *v = json_object_get(network, key), *one;
    size_t i;
    *list = NULL;
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_array(v) || json_array_size(v) > RULES_MAX)
        return cay_fail(err, CAY_EINVAL, "network.%s is a list of at most %d texts", key, RULES_MAX);
    json_array_foreach(v, i, one)
        if (!json_is_string(one) || strlen(json_string_value(one)) != json_string_length(one))
            return cay_fail(err, CAY_EINVAL, "network.%s[%zu] is not a text", key, i);
    *list = v;
    return 0;
}

/* What we have no way to keep is refused by its name, never left out in silence. */
static int known(const json_t *network, cay_err *err)
{
    static const char *const fields[] = { "allowOut", "denyOut", "allowPublicTraffic", "maskRequestHost" };
    static const char *const not_yet[] = { "rules", "egressProxy", "httpsPorts" };
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)network, key, v) {
        bool known = false;
        for (size_t i = 0; i < CAY_LEN(fields); i++)
            known |= !strcmp(key, fields[i]);
        for (size_t i = 0; i < CAY_LEN(not_yet); i++)
            if (!strcmp(key, not_yet[i]) && !json_is_null(v) && (json_is_string(v) || json_object_size(v) || json_array_size(v)))
                return cay_fail_why(err, CAY_ENOTSUP, "not_supported", "network.%s is not supported by this server", key);
            else
                known |= !strcmp(key, not_yet[i]);
        if (!known)
            return cay_fail(err, CAY_EINVAL, "network.%.60s is not known", key);
    }
    return 0;
}

typedef struct list {
    const char *v[2 * RULES_MAX + 2];
    size_t      n;
    cay__arena *mem;
} list;

static void add(list *l, const char *prefix, const char *target, const char *suffix)
{
    size_t n = strlen(prefix) + strlen(target) + strlen(suffix) + 1;
    char *s = cay__arena_take(l->mem, n);
    snprintf(s, n, "%s%s%s", prefix, target, suffix);
    l->v[l->n++] = s;
}

/* An address is reached on every port, a name by what can prove its name. */
static void add_allow(list *l, const char *s)
{
    if (!is_address(s))
        add(l, "", s, "");
    else if (strchr(s, ':'))
        add(l, "tcp://[", s, "]:1-65535");
    else
        add(l, "tcp://", s, ":1-65535");
}

int e2b_policy(const json_t *network, bool internet, char **text, cay_err *err)
{
    __attribute__((cleanup(cay__arena_clear))) cay__arena mem = { 0 };
    list *l = cay__arena_take(&mem, sizeof *l);
    json_t *allow = NULL, *deny = NULL, *v;
    bool closed = !internet, names = false;
    size_t i;
    l->mem = &mem;
    if (network && !json_is_object(network) && !json_is_null(network))
        return cay_fail(err, CAY_EINVAL, "network is an object");
    if (network) {
        CAY_TRY(known(network, err));
        CAY_TRY(member(network, "allowOut", &allow, err));
        CAY_TRY(member(network, "denyOut", &deny, err));
    }
    json_array_foreach(deny, i, v) {
        const char *s = json_string_value(v);
        if (!is_address(s))
            return cay_fail(err, CAY_EINVAL, "network.denyOut[%zu]: %.80s is no address or CIDR", i, s);
        closed |= is_everything(s);
    }
    json_array_foreach(allow, i, v) {
        names |= !is_address(json_string_value(v));
        add_allow(l, json_string_value(v));
    }
    if (names && !closed)
        return cay_fail(err, CAY_EINVAL, "network.allowOut names a domain, which needs 0.0.0.0/0 in network.denyOut");
    /* What is allowed wins over what is denied; where everything is open, only that matters which is denied and not allowed. */
    if (!closed) {
        l->n = 0;
        json_array_foreach(deny, i, v) {
            bool kept = true;
            size_t k;
            json_t *a;
            json_array_foreach(allow, k, a)
                kept &= strcmp(json_string_value(a), json_string_value(v)) != 0;
            if (kept)
                add(l, "!", json_string_value(v), "");
        }
    }
    cay_policy p = { .size = sizeof p, .mode = closed ? l->n ? CAY_NET_RULES : CAY_NET_OFF : CAY_NET_ALL, .rules = l->n ? l->v : NULL };
    return cay_policy_text(&p, text, err);
}
