/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that cannot all be meant: refused as a whole, naming both. */
#include "binding.h"

static void get_ports(const cay__rule *r, unsigned i, unsigned *lo, unsigned *hi)
{
    cay__rule_ports(r, i, lo, hi);
    if (!r->lo && r->deny) {
        *lo = 1;
        *hi = 65535;
    }
}

/* Every port of b is one of a. */
static bool covers_ports(const cay__rule *a, const cay__rule *b)
{
    unsigned alo, ahi, blo, bhi;
    get_ports(a, 0, &alo, &ahi);
    for (unsigned i = 0; i < 2; i++) {
        get_ports(b, i, &blo, &bhi);
        if (blo < alo || bhi > ahi)
            return false;
    }
    return true;
}

/* Every name and address of b is one of a. */
static bool covers_target(const cay__rule *a, const cay__rule *b)
{
    bool same = !strcmp(a->name, b->name), below = cay__name_below(b->name, a->name);
    switch (a->target) {
    case CAY__T_ANY: return true;
    case CAY__T_EXACT: return b->target == CAY__T_EXACT && same;
    case CAY__T_BELOW:
        return (b->target == CAY__T_BELOW && same) ||
               (b->target != CAY__T_CIDR && b->target != CAY__T_ANY && below);
    case CAY__T_BOTH: return b->target != CAY__T_CIDR && b->target != CAY__T_ANY && (same || below);
    case CAY__T_CIDR:
        return b->target == CAY__T_CIDR && a->bits <= b->bits &&
               cay__addr_is_v4(a->addr) == cay__addr_is_v4(b->addr) &&
               cay__addr_within(b->addr, a->addr, a->bits);
    }
    return false;
}

bool cay__rule_covers(const cay__rule *a, const cay__rule *b)
{
    return covers_target(a, b) && covers_ports(a, b);
}

static int fail_conflict(const cay__rule *a, const cay__rule *b, const char *why, cay_err *err)
{
    char x[CAY__RULE_MAX], y[CAY__RULE_MAX];
    cay__rule_text(a, x, sizeof x);
    cay__rule_text(b, y, sizeof y);
    return cay_fail_why(err, CAY_EINVAL, "policy_conflict",
                        "rules %.70s and %.70s contradict each other: %s", x, y, why);
}

bool cay__rule_same_target(const cay__rule *a, const cay__rule *b)
{
    return a->target == b->target && !strcmp(a->name, b->name) && a->bits == b->bits &&
           !memcmp(a->addr, b->addr, 16);
}

/* A flow cannot have to be both. tcp beside either is the wider grant, and holds. */
static bool has_proto_conflict(const cay__rule *a, const cay__rule *b)
{
    unsigned alo, ahi, blo, bhi;
    for (unsigned i = 0; i < 4; i++) {
        get_ports(a, i & 1, &alo, &ahi);
        get_ports(b, i >> 1, &blo, &bhi);
        unsigned lo = CAY_MAX(alo, blo), hi = CAY_MIN(ahi, bhi);
        const unsigned look[] = { lo, 80, 443 };
        CAY_EACH(it, look) {
            unsigned x = *it;
            cay__net_proto pa = cay__rule_proto(a, x), pb = cay__rule_proto(b, x);
            if (x >= lo && x <= hi && pa != pb && pa != CAY__NET_TCP && pb != CAY__NET_TCP)
                return true;
        }
    }
    return false;
}

/* `github,!github.com:22` means the preset without that one; `github,!github` nothing that anybody
 * means. */
static int prune_rules(cay__policy *p, cay_err *err)
{
    size_t kept = 0, gone = 0, allows = 0;
    for (size_t i = 0; i < p->nrules; i++) {
        bool dead = false;
        for (size_t k = 0; k < p->nrules && p->rules[i].preset && !p->rules[i].deny && !dead; k++)
            dead = p->rules[k].deny && covers_target(&p->rules[k], &p->rules[i]) &&
                   covers_ports(&p->rules[k], &p->rules[i]);
        gone += dead;
        allows += !dead && !p->rules[i].deny;
        if (!dead)
            p->rules[kept++] = p->rules[i];
    }
    p->nrules = kept;
    if (gone && !allows && p->mode == CAY__NET_RULES)
        return cay_fail_why(err, CAY_EINVAL, "policy_conflict",
                            "the denies take away every rule of the presets: nothing is allowed; "
                            "write off for that");
    return 0;
}

int cay__policy_check(cay__policy *p, cay_err *err)
{
    CAY_TRY(prune_rules(p, err));
    if (p->mode == CAY__NET_OFF && p->nrules)
        return cay_fail_why(err, CAY_EINVAL, "policy_conflict",
                            "off and rules are both given; leave one away");
    for (size_t i = 0; i < p->nrules; i++) {
        const cay__rule *b = &p->rules[i];
        if (b->deny)
            continue;
        if (p->mode == CAY__NET_ALL) {
            char text[CAY__RULE_MAX];
            cay__rule_text(b, text, sizeof text);
            return cay_fail_why(err, CAY_EINVAL, "policy_conflict",
                                "all and rule %.80s are both given; all allows it already: beside "
                                "all only denies have a meaning",
                                text);
        }
        for (size_t k = 0; k < p->nrules; k++) {
            const cay__rule *a = &p->rules[k];
            if (a->deny && covers_target(a, b) && covers_ports(a, b))
                return fail_conflict(
                    b, a, "a deny comes before any allow, so the first would never hold", err);
            if (!a->deny && k > i && cay__rule_same_target(a, b) && has_proto_conflict(a, b))
                return fail_conflict(b, a, "one port as tls and as http; tcp:// takes both", err);
        }
    }
    return cay__bindings_check(p, err);
}
