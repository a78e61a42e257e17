/* SPDX-License-Identifier: Apache-2.0 */
/* One rule: from text, and back. */
#include "policy.h"
#include <strings.h>

#define fail_rule(err, ...) cay_fail_why(err, CAY_EINVAL, "policy_invalid", __VA_ARGS__)

static cay__net_proto usual_proto(unsigned port)
{
    if (port == 443)
        return CAY__NET_TLS;
    if (port == 80)
        return CAY__NET_HTTP;
    return CAY__NET_TCP;
}

cay__net_proto cay__rule_proto(const cay__rule *r, unsigned port)
{
    return CAY_OR(r->proto, usual_proto(port));
}

void cay__rule_ports(const cay__rule *r, unsigned i, unsigned *lo, unsigned *hi)
{
    *lo = *hi = i ? 80 : 443;
    if (r->lo) {
        *lo = r->lo;
        *hi = r->hi;
    }
}

static int take_port(const char *s, const char *end, uint16_t *out, cay_err *err)
{
    unsigned v = 0;
    const char *c = s;
    for (; c < end && *c >= '0' && *c <= '9' && c - s < 6; c++)
        v = v * 10 + (unsigned)(*c - '0');
    if (c == s || c != end || *s == '0' || v > 65535)
        return fail_rule(err,
                         "\"%.*s\" is not a port; give 1 to 65535, or a range such as 8000-8100",
                         (int)CAY_MIN(end - s, 12), s);
    *out = (uint16_t)v;
    return 0;
}

static int take_ports(const char *s, cay__rule *r, cay_err *err)
{
    const char *dash = strchr(s, '-'), *end = s + strlen(s);
    CAY_TRY(take_port(s, CAY_OR(dash, end), &r->lo, err));
    r->hi = r->lo;
    if (dash)
        CAY_TRY(take_port(dash + 1, end, &r->hi, err));
    if (r->hi < r->lo)
        return fail_rule(err, "the range of ports ends before it begins");
    return 0;
}

static const struct scheme {
    const char *name;
    cay__net_proto proto;
    bool opaque;
    uint16_t port; /* when none is given */
} schemes[] = {
    { "tls://", CAY__NET_TLS, false, 443 },
    { "tls+opaque://", CAY__NET_TLS, true, 443 },
    { "http://", CAY__NET_HTTP, false, 80 },
    { "tcp://", CAY__NET_TCP, false, 0 },
};

static int take_scheme(const char **s, cay__rule *r, uint16_t *port, cay_err *err)
{
    const char *sep = strstr(*s, "://");
    if (!sep)
        return 0;
    CAY_EACH(scheme, schemes)
        if (cay__str_starts(*s, scheme->name)) {
            if (r->deny)
                return fail_rule(err, "a deny has no scheme: name the port instead");
            r->proto = scheme->proto;
            r->opaque = scheme->opaque;
            *port = scheme->port;
            *s += strlen(scheme->name);
            return 0;
        }
    if (cay__str_starts(*s, "https://"))
        return fail_rule(err, "write tls:// for https, or leave the scheme away");
    return fail_rule(err, "scheme \"%.*s\" is not known; there are tls, tls+opaque, http and tcp",
                     (int)CAY_MIN(sep - *s, 16), *s);
}

static int take_address(const char *s, cay__rule *r, cay_err *err)
{
    char text[CAY__ADDR_MAX + 8];
    if (!CAY_COPY(text, s))
        return fail_rule(err, "that is no address");
    char *slash = strchr(text, '/');
    if (slash)
        *slash++ = '\0';
    if (strchr(text, '%'))
        return fail_rule(
            err, "an address with a zone reaches only this host's links; leave the zone away");
    if (!cay__addr_parse(text, r->addr))
        return fail_rule(
            err, strchr(text, ':')
                     ? "that is no IPv6 address; IPv4 ones are written 192.0.2.1"
                     : "addresses are four decimal numbers, 0 to 255, without leading zeros");
    bool v4 = cay__addr_is_v4(r->addr);
    uint64_t most = v4 ? 32 : 128, bits = most;
    if (slash && (!cay__str_to_u64(slash, &bits) || bits > most || (slash[0] == '0' && slash[1])))
        return fail_rule(err, "\"/%.6s\" is not a prefix length; give /0 to /%d", slash, (int)most);
    r->target = CAY__T_CIDR;
    r->bits = (uint8_t)(bits + (v4 ? 96 : 0));
    uint8_t net[16] = { 0 };
    for (unsigned i = 0; i < r->bits; i++)
        net[i / 8] |= (uint8_t)(r->addr[i / 8] & 0x80 >> i % 8);
    if (memcmp(net, r->addr, 16) != 0) {
        char want[CAY__ADDR_MAX];
        cay__addr_text(net, want);
        return fail_rule(err, "it has bits behind its prefix; the network is %s/%d", want,
                         (int)bits);
    }
    return 0;
}

static int no_name(const char *s, size_t len, cay_err *err)
{
    CAY_EACH_OF(it, s, len)
        if ((unsigned char)*it >= 0x80)
            return fail_rule(err,
                             "names are given in A-label form (xn--…); idn2(1) tells it for a name "
                             "with other letters");
    if (memchr(s, '*', len))
        return fail_rule(err,
                         "a wildcard stands alone at the front: *.name is below it, **.name it and "
                         "below; any is everything");
    if (memchr(s, '/', len))
        return fail_rule(err, "a rule has no path; it ends with the port");
    if (memmem(s, len, "..", 2) || *s == '.')
        return fail_rule(err, "it has an empty label");
    if (len > CAY__NAME_MAX)
        return fail_rule(err, "a name has at most %d bytes", CAY__NAME_MAX);
    return fail_rule(
        err,
        "that is no host name: labels of 1 to 63 letters, digits, '-' (not at their ends) or '_'");
}

static int take_name(const char *s, size_t len, cay__rule *r, cay_err *err)
{
    r->target = CAY__T_EXACT;
    if (len > 3 && !memcmp(s, "**.", 3)) {
        r->target = CAY__T_BOTH;
        s += 3, len -= 3;
    } else if (len > 2 && !memcmp(s, "*.", 2)) {
        r->target = CAY__T_BELOW;
        s += 2, len -= 2;
    }
    if (!cay__name_fold(s, len, r->name)) {
        char plain[16];
        size_t n = CAY_MIN(len, sizeof plain - 1), dots = 0;
        CAY_EACH_OF(item, s, len)
            dots += *item == '.';
        memcpy(plain, s, n), plain[n] = '\0';
        CAY_EACH_OF(it, plain, n)
            *it = (char)(*it >= 'A' && *it <= 'Z' ? *it + 32 : *it);
        if (len <= n && dots <= 3 && len && s[len - 1] != '.' && cay__name_is_number(plain))
            return fail_rule(err, "that is an address in an odd spelling; write it as four decimal "
                                  "numbers, such as 192.0.2.1");
        return no_name(s, len, err);
    }
    if (s[len - 1] == '.')
        return fail_rule(err, "a name is given without the dot at its end: %.60s", r->name);
    if (cay__name_is_local(r->name))
        return fail_rule(err,
                         "localhost is the sandbox itself; a service of the host is offered by the "
                         "operator's egress.conf");
    return 0;
}

static bool four_numbers(const char *s, size_t len)
{
    size_t dots = 0;
    CAY_EACH_OF(it, s, len) {
        dots += *it == '.';
        if (!(*it >= '0' && *it <= '9') && *it != '.')
            return false;
    }
    return dots == 3;
}

static const char *const *preset_rules(const char *word)
{
    const char *name;
    const char *const *rules;
    for (size_t i = 0; (name = cay__preset(i, &rules)); i++)
        if (!strcasecmp(name, word))
            return rules;
    return NULL;
}

/* Splits TARGET from :PORT. An address of IPv6 has colons of its own; with a port it stands in
 * brackets. */
static int take_target(const char *s, cay__rule *r, cay_err *err)
{
    char text[CAY__RULE_MAX];
    const char *colon = strchr(s, ':');
    bool v6 = colon && strchr(colon + 1, ':');
    if (*s == '[') {
        const char *end = strchr(s, ']');
        if (!end || (end[1] && end[1] != ':'))
            return fail_rule(err, "after [ADDRESS] comes :PORT or nothing");
        if (end[1])
            CAY_TRY(take_ports(end + 2, r, err));
        CAY_FORMAT(text, "%.*s", (int)CAY_MIN(end - s - 1, (long)sizeof text), s + 1);
        if (strchr(text, ':'))
            return take_address(text, r, err);
        return fail_rule(err, "brackets are for IPv6 addresses");
    }
    if (v6)
        return take_address(s, r, err);
    if (colon)
        CAY_TRY(take_ports(colon + 1, r, err));
    size_t len = strcspn(s, ":");
    if (!CAY_PART(text, s, len))
        return fail_rule(err, "it is too long");
    const char *slash = strchr(text, '/');
    if (!len)
        return fail_rule(err, "it names nothing; give a name, an address or any");
    if (!strcasecmp(text, "any"))
        return r->target = CAY__T_ANY, 0;
    if (!strcmp(text, "*") || !strcmp(text, "**"))
        return fail_rule(err, "write any for everything");
    if (four_numbers(text, slash ? (size_t)(slash - text) : len))
        return take_address(text, r, err);
    CAY_TRY(take_name(text, len, r, err));
    if (r->target == CAY__T_EXACT && (!strcmp(r->name, "any") || preset_rules(r->name)))
        return fail_rule(err, "%s is a word of ours and no host",
                         r->name); /* "any." must not come back as any */
    if (r->target == CAY__T_EXACT && !strchr(r->name, '.') && !colon)
        return fail_rule(
            err, "no preset has that name (cay net presets lists them); a host of one label "
                 "needs its port");
    return 0;
}

static int parse_rule(const char *text, cay__rule *r, cay_err *err)
{
    uint16_t port = 0;
    memset(r, 0, sizeof *r);
    const char *s = text;
    r->deny = *s == '!';
    s += r->deny;
    CAY_TRY(take_scheme(&s, r, &port, err));
    for (const char *c = s; *c; c++)
        if (*c == ' ' || *c == '\t')
            return fail_rule(err, "a rule has no blanks");
    CAY_TRY(take_target(s, r, err));
    if (!r->lo && r->proto == CAY__NET_TCP)
        return fail_rule(err, "tcp:// needs a port; 1-65535 for all");
    if (!r->lo && r->proto)
        r->lo = r->hi = port;
    /* One way to say one thing. */
    if (!r->opaque && r->lo && r->lo == r->hi && r->proto == usual_proto(r->lo))
        r->proto = 0;
    if (r->opaque && r->target == CAY__T_CIDR)
        return fail_rule(err, "a rule for addresses has no name to hide; leave +opaque away");
    return 0;
}

int cay__rule_parse(const char *text, cay__rule *r, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(256);
    int rc = parse_rule(text, r, err);
    if (rc == 0)
        return 0;
    cay__buf_safe(&b, text, CAY_MIN(strlen(text), (size_t)60), false);
    return cay_wrap(err, rc, "rule \"%s\"", CAY_OR(b.data, ""));
}

bool cay__rule_same(const cay__rule *a, const cay__rule *b)
{
    return a->deny == b->deny && a->opaque == b->opaque && a->target == b->target &&
           a->proto == b->proto && a->lo == b->lo && a->hi == b->hi && a->bits == b->bits &&
           !memcmp(a->addr, b->addr, 16) && !strcmp(a->name, b->name);
}

static int append_rule(cay__policy *p, const cay__rule *r, cay_err *err)
{
    CAY_EACH_OF(rule, p->rules, p->nrules)
        if (cay__rule_same(rule, r)) {
            rule->preset &= r->preset;
            return 0;
        }
    if (p->nrules >= CAY__RULES_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "policy_too_big",
                            "a policy has at most %u rules; use wildcards or CIDRs",
                            CAY__RULES_MAX);
    CAY__GROW(p->rules, p->nrules, *r);
    return 0;
}

int cay__rule_add(cay__policy *p, const char *text, cay_err *err)
{
    cay__rule r;
    bool deny = *text == '!';
    char word[32];
    size_t len = strcspn(text + deny, ":");
    CAY_FORMAT(word, "%.*s", (int)CAY_MIN(len, sizeof word), text + deny);
    const char *const *list = NULL;
    if (len < sizeof word)
        list = preset_rules(word);
    if (list && text[deny + len])
        return cay_fail_why(err, CAY_EINVAL, "policy_invalid",
                            "rule \"%.40s\": a preset has ports of its own; leave yours away",
                            text);
    if (!list) {
        CAY_TRY(cay__rule_parse(text, &r, err));
        return append_rule(p, &r, err);
    }
    for (; *list; list++) {
        CAY_TRY(cay__rule_parse(*list, &r, err));
        r.preset = true;
        if (deny) { /* whatever the port */
            r.deny = true;
            r.opaque = false;
            r.proto = 0;
            r.lo = r.hi = 0;
        }
        CAY_TRY(append_rule(p, &r, err));
    }
    return 0;
}

int cay__rule_text(const cay__rule *r, char *buf, size_t size)
{
    static const char *const scheme[] = { "", "tls://", "http://", "tcp://" };
    char target[CAY__NAME_MAX + 8], port[16] = "", addr[CAY__ADDR_MAX], bits[8] = "";
    bool v4 = cay__addr_is_v4(r->addr);
    if (r->lo)
        CAY_FORMAT(port, r->hi > r->lo ? ":%d-%d" : ":%d", (int)r->lo, (int)r->hi);
    switch (r->target) {
    case CAY__T_ANY: CAY_FORMAT(target, "any"); break;
    case CAY__T_EXACT: CAY_FORMAT(target, "%s", r->name); break;
    case CAY__T_BELOW: CAY_FORMAT(target, "*.%s", r->name); break;
    case CAY__T_BOTH: CAY_FORMAT(target, "**.%s", r->name); break;
    case CAY__T_CIDR:
        cay__addr_text(r->addr, addr);
        if (r->bits < 128)
            CAY_FORMAT(bits, "/%d", v4 ? r->bits - 96 : r->bits);
        CAY_FORMAT(target, *port && !v4 ? "[%s%s]" : "%s%s", addr, bits);
        break;
    }
    return snprintf(buf, size, "%s%s%s%s", r->deny ? "!" : "",
                    r->opaque ? "tls+opaque://" : scheme[r->proto], target, port);
}
