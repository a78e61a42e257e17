/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision. Operator's deny; ranges that are always blocked; the sandbox's deny; its allow; no.
 *
 * An allow is the union of all that match: where several do, the widest says how the flow has to
 * look.
 */
#include "policy.h"
#include <base/mutant.h>

static const cay__verdict no = { .reason = "default_deny" };

static cay__verdict make_refusal(const char *reason, const cay__rule *rule)
{
    return (cay__verdict){ .reason = reason, .rule = rule };
}

/* What is asked for; a name that is folded, or an address, or (after look-up) both. */
typedef struct ask {
    const char *name;
    const uint8_t *addr;
    unsigned port; /* 0: whatever port */
} ask;

static bool target_fits(const cay__rule *r, const ask *q)
{
    switch (r->target) {
    case CAY__T_ANY: return true;
    case CAY__T_EXACT: return q->name && !strcmp(q->name, r->name);
    case CAY__T_BELOW: return q->name && cay__name_below(q->name, r->name);
    case CAY__T_BOTH:
        return q->name && (!strcmp(q->name, r->name) || cay__name_below(q->name, r->name));
    case CAY__T_CIDR:
        return q->addr && cay__addr_is_v4(r->addr) == cay__addr_is_v4(q->addr) &&
               cay__addr_within(q->addr, r->addr, r->bits);
    }
    return false;
}

static bool port_fits(const cay__rule *r, unsigned port)
{
    if (r->lo)
        return port >= r->lo && port <= r->hi;
    return r->deny || port == 443 || port == 80;
}

static int add_port(uint16_t *out, int n, int max, uint16_t port)
{
    CAY_EACH_OF(it, out, n)
        if (*it == port)
            return n;
    if (n < 0 || n == max)
        return -1;
    out[n] = port;
    return n + 1;
}

int cay__policy_ports(const cay__policy *p, uint16_t *out, int max)
{
    int n = 0;
    if (p->mode == CAY__NET_ALL)
        n = -1;
    for (size_t i = 0; p->mode == CAY__NET_RULES && n >= 0 && i < p->nrules; i++) {
        const cay__rule *r = &p->rules[i];
        if (r->deny)
            continue;
        if (!r->lo)
            n = add_port(out, add_port(out, n, max, 443), max, 80);
        for (unsigned port = r->lo; n >= 0 && port && port <= r->hi; port++)
            n = add_port(out, n, max, (uint16_t)port);
    }
    return n;
}

static const cay__rule *find_deny(const cay__policy *p, const ask *q)
{
    CAY_EACH_OF(rule, p->rules, p->nrules)
        if (rule->deny && target_fits(rule, q) && port_fits(rule, q->port))
            return rule;
    return NULL;
}

static bool find_allow(const cay__policy *p, const ask *q, cay__verdict *v)
{
    *v = (cay__verdict){ .allow = true, .reason = "allowed", .proto = CAY__NET_TCP };
    if (p->mode == CAY__NET_ALL)
        return true;
    for (size_t i = 0; p->mode == CAY__NET_RULES && i < p->nrules; i++) {
        const cay__rule *r = &p->rules[i];
        if (r->deny || !target_fits(r, q) || !port_fits(r, q->port))
            continue;
        cay__net_proto proto = cay__rule_proto(r, q->port);
        bool wider = !v->rule || (proto == CAY__NET_TCP && v->proto != CAY__NET_TCP) ||
                     (v->proto == CAY__NET_TLS && proto == CAY__NET_TLS && r->opaque && !v->opaque);
        if (!wider)
            continue;
        v->rule = r;
        v->proto = proto;
        v->opaque = r->opaque;
    }
    return v->rule != NULL;
}

/* The operator's word: false with the verdict, or true to go on. */
static bool operator_agrees(const cay__policy *op, const ask *q, cay__verdict *v)
{
    if (!op)
        return true;
    const cay__rule *deny = NULL;
    if (!CAY__MUTANT("net-operator"))
        deny = find_deny(op, q);
    *v = make_refusal("operator_deny", deny);
    cay__verdict unused;
    return !deny && find_allow(op, q, &unused);
}

static const cay__service_rule *find_service(const cay__policy *op, const ask *q)
{
    for (size_t i = 0; op && q->name && i < op->nservices; i++)
        if (op->services[i].port == q->port && !strcmp(op->services[i].name, q->name))
            return &op->services[i];
    return NULL;
}

static cay__verdict decide_target(const cay__policy *op, const cay__policy *p, const ask *q,
                                  bool implicit)
{
    cay__verdict v;
    if (!operator_agrees(op, q, &v))
        return v;
    const char *range;
    if (q->name) {
        if (cay__name_is_local(q->name))
            range = "loopback";
        else
            range = NULL;
    } else
        range = cay__blocked(op, q->addr);
    const cay__service_rule *service = find_service(op, q);
    if (range) {
        v = make_refusal("blocked_range", NULL);
        v.range = range;
        return v;
    }
    /* A fetch that nobody wrote a rule for must not find a service of the host. */
    if (implicit && !service)
        return (cay__verdict){ .allow = true, .reason = "implicit", .proto = CAY__NET_TCP };
    if (!p || p->mode == CAY__NET_OFF)
        return make_refusal("off", NULL);
    const cay__rule *deny = find_deny(p, q);
    if (deny)
        return make_refusal("tenant_deny", deny);
    if (!find_allow(p, q, &v))
        return no;
    if (service) {
        v.reason = "service";
        v.service = service;
    }
    return v;
}

cay__verdict cay__decide_name(const cay__policy *op, const cay__policy *p, const char *name,
                              uint16_t port, bool implicit)
{
    char folded[CAY__NAME_MAX + 1];
    if (!port || !cay__name_fold(name, strlen(name), folded))
        return no;
    cay__verdict v = decide_target(op, p, &(ask){ .name = folded, .port = port }, implicit);
    if (v.allow && implicit && !strcmp(v.reason, "implicit") &&
        p) { /* a rule that allows it anyway says so */
        cay__verdict own = decide_target(op, p, &(ask){ .name = folded, .port = port }, false);
        if (own.allow)
            return own;
        return v;
    }
    return v;
}

cay__verdict cay__decide_addr(const cay__policy *op, const cay__policy *p, const char *name,
                              const uint8_t addr[16], uint16_t port)
{
    ask q = { .addr = addr, .port = port };
    if (!port)
        return no;
    if (!name)
        return decide_target(op, p, &q, false);
    /* The name's rule has allowed it; what is left is where it leads. Only rules about addresses
     * can speak to that. */
    const cay__policy *const both[] = { op, p };
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; both[k] && i < both[k]->nrules; i++) {
            const cay__rule *r = &both[k]->rules[i];
            if (r->deny && r->target == CAY__T_CIDR && target_fits(r, &q) && port_fits(r, port))
                return make_refusal(k ? "tenant_deny" : "operator_deny", r);
        }
        const char *range = NULL;
        if (!k)
            range = cay__blocked(op, addr);
        if (range) {
            cay__verdict v = make_refusal("blocked_range", NULL);
            v.range = range;
            return v;
        }
    }
    return (cay__verdict){ .allow = true, .reason = "allowed", .proto = CAY__NET_TCP };
}

cay__verdict cay__decide_host(const cay__policy *op, const cay__policy *p, const char *host,
                              uint16_t port, bool implicit)
{
    uint8_t addr[16];
    if (!cay__addr_parse(host, addr))
        return cay__decide_name(op, p, host, port, implicit);
    if (port)
        return decide_target(op, p, &(ask){ .addr = addr, .port = port }, implicit);
    return no;
}

/* The first port from lo to hi that no deny of either takes; 0: none. */
static unsigned open_port(const cay__policy *op, const cay__policy *p, const char *name,
                          unsigned lo, unsigned hi, const cay__rule **by, bool *operators)
{
    for (unsigned port = lo; port <= hi;) {
        ask q = { .name = name, .port = port };
        const cay__rule *deny = NULL;
        if (op)
            deny = find_deny(op, &q);
        *operators = deny != NULL;
        if (!deny && p)
            deny = find_deny(p, &q);
        if (!deny)
            return port;
        *by = deny;
        if (deny->lo)
            port = deny->hi + 1u;
        else
            port = 65536u;
    }
    return 0;
}

/* An interval that the sandbox's side allows, cut by each of the operator's. */
static unsigned open_below(const cay__policy *op, const cay__policy *p, const char *name,
                           unsigned lo, unsigned hi, cay__verdict *v)
{
    const cay__rule *by = NULL;
    bool operators = false;
    unsigned port = 0;
    if (!op || op->mode == CAY__NET_ALL)
        port = open_port(op, p, name, lo, hi, &by, &operators);
    else
        operators = true;
    for (size_t i = 0; op && op->mode == CAY__NET_RULES && i < op->nrules && !port; i++) {
        const cay__rule *r = &op->rules[i];
        for (unsigned k = 0; k < 2 && !port && !r->deny && target_fits(r, &(ask){ .name = name });
             k++) {
            unsigned olo, ohi;
            cay__rule_ports(r, k, &olo, &ohi);
            port = open_port(op, p, name, CAY_MAX(lo, olo), CAY_MIN(hi, ohi), &by, &operators);
        }
    }
    if (!port)
        *v = make_refusal(by && !operators ? "tenant_deny" : "operator_deny", by);
    return port;
}

cay__verdict cay__decide_lookup(const cay__policy *op, const cay__policy *p, const char *given)
{
    char name[CAY__NAME_MAX + 1];
    cay__verdict v = no;
    if (!cay__name_fold(given, strlen(given), name))
        return no;
    if (op && op->mode == CAY__NET_OFF)
        return make_refusal("operator_deny", NULL);
    if (cay__name_is_local(name)) {
        v.reason = "blocked_range";
        v.range = "loopback";
        return v;
    }
    if (!p || p->mode == CAY__NET_OFF)
        return make_refusal("off", NULL);
    if (p->mode == CAY__NET_ALL && open_below(op, p, name, 1, 65535, &v))
        return (cay__verdict){ .allow = true, .reason = "allowed", .proto = CAY__NET_TCP };
    for (size_t i = 0; p->mode == CAY__NET_RULES && i < p->nrules; i++) {
        const cay__rule *r = &p->rules[i];
        if (r->deny || !target_fits(r, &(ask){ .name = name }))
            continue;
        for (unsigned k = 0; k < 2; k++) {
            unsigned lo, hi;
            cay__rule_ports(r, k, &lo, &hi);
            unsigned port = open_below(op, p, name, lo, hi, &v);
            if (port)
                return (cay__verdict){ .allow = true,
                                       .reason = "allowed",
                                       .rule = r,
                                       .proto = cay__rule_proto(r, port),
                                       .opaque = r->opaque };
        }
    }
    if (!strcmp(
            v.reason,
            "default_deny")) { /* no allow speaks of it; perhaps a deny does, which tells more */
        ask q = { .name = name, .port = 65535 };
        const cay__rule *deny = NULL;
        if (op)
            deny = find_deny(op, &q);
        if (deny && !deny->lo)
            return make_refusal("operator_deny", deny);
        if ((deny = find_deny(p, &q)) && !deny->lo)
            return make_refusal("tenant_deny", deny);
    }
    return v;
}
