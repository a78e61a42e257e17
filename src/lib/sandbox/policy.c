/* SPDX-License-Identifier: Apache-2.0 */
/* A policy as the caller fills it, as text, and back. */
#include "sandbox.h"
#include <cay/policy.h>
#include <policy/binding.h>

static int take_rules(const cay_policy *c, cay__policy *p, cay_err *err)
{
    size_t n = 0;
    for (const char *const *r = c->rules; r && *r; r++, n++)
        CAY_TRY(cay__policy_words(p, *r, err));
    switch (c->mode) {
    case CAY_NET_AUTO: break;
    case CAY_NET_OFF:
    case CAY_NET_ALL:
    case CAY_NET_RULES: p->mode = (cay__net_mode)(c->mode - CAY_NET_OFF); break;
    default:
        return cay_fail_why(err, CAY_EINVAL, "policy_invalid", "mode %d is not known",
                            (int)c->mode);
    }
    bool allows = p->mode != CAY__NET_RULES || c->mode == CAY_NET_RULES;
    CAY_EACH_OF(rule, p->rules, p->nrules)
        allows |= !rule->deny;
    if (!allows)
        return cay_fail_why(
            err, CAY_EINVAL, "policy_conflict",
            "there are only denies, so nothing would be allowed; put `all` in front of them");
    return 0;
}

static int take_numbers(const cay_policy *c, cay__policy *p, cay_err *err)
{
    const uint64_t rates[] = { c->rate_up, c->rate_down };
    for (size_t i = 0; i < 2; i++)
        if (rates[i] && (rates[i] < CAY__RATE_LEAST || rates[i] > CAY__RATE_MOST))
            return cay_fail_why(err, CAY_EINVAL, "policy_invalid",
                                "rate %s is %llu; give %u to %llu bytes per second",
                                i ? "down" : "up", (unsigned long long)rates[i], CAY__RATE_LEAST,
                                (unsigned long long)CAY__RATE_MOST);
    if (c->connections > CAY__CONNECTIONS_MOST)
        return cay_fail_why(err, CAY_EINVAL, "policy_invalid", "connections is %u; give at most %u",
                            c->connections, CAY__CONNECTIONS_MOST);
    p->rate_up = c->rate_up;
    p->rate_down = c->rate_down;
    p->connections = c->connections;
    return 0;
}

int cay_policy_text(const cay_policy *given, char **text, cay_err *err)
{
    cay_policy c;
    size_t len;
    __attribute__((cleanup(cay__policy_clear))) cay__policy p = { 0 };
    CAY_TRY(cay__spec_take(&c, sizeof c, given, "cay_policy", err));
    CAY_TRY(take_rules(&c, &p, err));
    CAY_TRY(take_numbers(&c, &p, err));
    for (const cay_bind *b = c.bindings; b && b->name; b++)
        CAY_TRY(cay__binding_add(&p, b->name, CAY_OR(b->destination, ""), err));
    CAY_TRY(cay__policy_check(&p, err));
    return cay__policy_write(&p, text, &len, err);
}

typedef struct parsed {
    cay_policy policy;
    cay__arena mem;
} parsed;

int cay_policy_parse(const char *text, cay_policy **out, cay_err *err)
{
    __attribute__((cleanup(cay__policy_clear))) cay__policy p = { 0 };
    CAY_TRY(cay__policy_read(&p, text, strlen(text), false, err));
    parsed *x = cay__alloc(sizeof *x);
    char one[CAY__BINDING_TEXT];
    const char **rules = cay__arena_take(&x->mem, (p.nrules + 1) * sizeof *rules);
    cay_bind *binds = cay__arena_take(&x->mem, (p.nbindings + 1) * sizeof *binds);
    for (size_t i = 0; i < p.nrules; i++) {
        cay__rule_text(&p.rules[i], one, sizeof one);
        rules[i] = cay__arena_str(&x->mem, one);
    }
    for (size_t i = 0; i < p.nbindings; i++) {
        cay__binding_text(&p.bindings[i], one, sizeof one);
        binds[i] =
            (cay_bind){ cay__arena_str(&x->mem, p.bindings[i].name), cay__arena_str(&x->mem, one) };
    }
    x->policy = (cay_policy){ .size = sizeof x->policy,
                              .mode = (cay_net_mode)p.mode + CAY_NET_OFF,
                              .rules = rules,
                              .rate_up = p.rate_up,
                              .rate_down = p.rate_down,
                              .connections = p.connections,
                              .bindings = binds };
    *out = &x->policy;
    return 0;
}

void cay_policy_free(cay_policy *p)
{
    parsed *x = (parsed *)(void *)p; /* its first member */
    if (!x)
        return;
    cay__arena_clear(&x->mem);
    free(x);
}

const char *cay_net_preset(size_t i, const char *const **rules)
{
    return cay__preset(i, rules);
}

/* Refused before anything is made: a wall that this provider cannot build. */
int cay__net_check(const cay_create *c, const cay_provider_ops *ops, cay_err *err)
{
    __attribute__((cleanup(cay__policy_clear))) cay__policy p = { 0 };
    if (!c->net.policy)
        return 0;
    CAY_TRY(cay__policy_read(&p, c->net.policy, strlen(c->net.policy), false, err));
    if (!CAY__HAS(ops, policy))
        return cay_fail_why(
            err, CAY_ENOTSUP, "not_supported",
            "net: provider %s has no network policy; leave --net away or use another provider",
            ops->name);
    return 0;
}
