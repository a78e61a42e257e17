/* SPDX-License-Identifier: Apache-2.0 */
/* A whole policy as lines of text, the operator's file too; and the words of the command line. */
#include "binding.h"

#define LINE_MAX_ 1024
#define HEAD      "cay-net 1"

typedef struct reader {
    cay__policy *p;
    bool operator_;
    bool head, mode, rate[2], connections, resolver;
    cay_err *err;
} reader;

#define fail_policy(rd, ...) cay_fail_why((rd)->err, CAY_EINVAL, "policy_invalid", __VA_ARGS__)

static const char *const modes[] = { "off", "all", "rules" };

static int check_once(reader *rd, bool *seen, const char *what)
{
    if (*seen)
        return fail_policy(rd, "%s is given twice", what);
    *seen = true;
    return 0;
}

static int on_mode(reader *rd, char *rest)
{
    CAY_TRY(check_once(rd, &rd->mode, "mode"));
    CAY_EACH(name, modes)
        if (!strcmp(rest, *name)) {
            rd->p->mode = (cay__net_mode)(name - modes);
            return 0;
        }
    return fail_policy(rd, "mode \"%.20s\" is not known; there are off, all and rules", rest);
}

static int on_rule(reader *rd, char *rest)
{
    return cay__rule_add(rd->p, rest, rd->err);
}

static int on_deny(reader *rd, char *rest)
{
    char text[LINE_MAX_ + 2];
    if (*rest == '!')
        return fail_policy(rd, "deny %.60s: a deny line has no ! of its own", rest);
    CAY_JOIN(text, "!", rest);
    return cay__rule_add(rd->p, text, rd->err);
}

static int on_rate(reader *rd, char *rest)
{
    char *value = strchr(rest, ' ');
    if (value)
        *value++ = '\0';
    bool up = !strcmp(rest, "up");
    uint64_t v = 0;
    if (!value || (!up && strcmp(rest, "down") != 0))
        return fail_policy(rd, "rate %.20s: write rate up BYTES or rate down BYTES, per second",
                           rest);
    CAY_TRY(check_once(rd, &rd->rate[up], up ? "rate up" : "rate down"));
    if (!cay__str_to_size(value, &v) || v < CAY__RATE_LEAST || v > CAY__RATE_MOST)
        return fail_policy(rd,
                           "rate %s %.30s: give bytes per second, %u to %llu, such as 512k or 10m",
                           rest, value, CAY__RATE_LEAST, (unsigned long long)CAY__RATE_MOST);
    *(up ? &rd->p->rate_up : &rd->p->rate_down) = v;
    return 0;
}

static int on_connections(reader *rd, char *rest)
{
    uint64_t v;
    CAY_TRY(check_once(rd, &rd->connections, "connections"));
    if (!cay__str_to_u64(rest, &v) || !v || v > CAY__CONNECTIONS_MOST)
        return fail_policy(rd, "connections %.30s: give 1 to %u at once", rest,
                           CAY__CONNECTIONS_MOST);
    rd->p->connections = (uint32_t)v;
    return 0;
}

static int on_bind(reader *rd, char *rest)
{
    char *to = strchr(rest, ' ');
    if (!to)
        return fail_policy(rd, "bind %.40s: write bind NAME DESTINATION[,KIND][,METHODS]", rest);
    *to++ = '\0';
    return cay__binding_add(rd->p, rest, to, rd->err);
}

static int on_lift(reader *rd, char *rest)
{
    cay__rule r;
    cay__policy *p = rd->p;
    CAY_TRY(cay__rule_parse(rest, &r, rd->err));
    const char *wrong;
    if (r.deny || r.lo || r.proto || r.target != CAY__T_CIDR)
        wrong = "give an address or CIDR alone";
    else
        wrong = cay__lift_wrong(&r);
    if (wrong)
        return fail_policy(rd, "lift %.60s: %s", rest, wrong);
    CAY__GROW(p->lifts, p->nlifts, r);
    return 0;
}

/* ADDRESS:PORT as a rule for one address and one port. */
static int take_endpoint(reader *rd, const char *what, const char *text, uint16_t port,
                         uint8_t addr[16], uint16_t *out)
{
    cay__rule r;
    CAY_TRY(cay__rule_parse(text, &r, rd->err));
    if (r.deny || r.proto || r.target != CAY__T_CIDR || r.bits != 128 || r.lo != r.hi ||
        (!r.lo && !port))
        return fail_policy(rd, "%s %.60s: give one address%s", what, text,
                           port ? ", with or without a port" : " and its port");
    memcpy(addr, r.addr, 16);
    *out = CAY_OR(r.lo, port);
    return 0;
}

static int on_service(reader *rd, char *rest)
{
    cay__rule r;
    cay__policy *p = rd->p;
    cay__service_rule s = { 0 };
    char *to = strchr(rest, ' ');
    if (to)
        *to++ = '\0';
    if (!to)
        return fail_policy(rd, "service %.60s: write service NAME:PORT ADDRESS:PORT", rest);
    CAY_TRY(cay__rule_parse(rest, &r, rd->err));
    if (r.deny || r.opaque || r.target != CAY__T_EXACT || !r.lo || r.lo != r.hi)
        return fail_policy(rd, "service %.60s: it is offered under one name and one port", rest);
    memcpy(s.name, r.name, sizeof s.name);
    s.port = r.lo;
    CAY_EACH_OF(service, p->services, p->nservices)
        if (service->port == s.port && !strcmp(service->name, s.name))
            return fail_policy(rd, "service %.60s is given twice", rest);
    CAY_TRY(take_endpoint(rd, "service", to, 0, s.to, &s.to_port));
    CAY__GROW(p->services, p->nservices, s);
    return 0;
}

static int on_resolver(reader *rd, char *rest)
{
    CAY_TRY(check_once(rd, &rd->resolver, "resolver"));
    return take_endpoint(rd, "resolver", rest, 53, rd->p->resolver, &rd->p->resolver_port);
}

static int on_roots(reader *rd, char *rest)
{
    if (rd->p->roots[0])
        return fail_policy(rd, "roots is given twice");
    if (rest[0] != '/' || !CAY_COPY(rd->p->roots, rest))
        return fail_policy(rd, "roots %.60s: give the absolute path of a file in PEM form", rest);
    return 0;
}

static const struct {
    const char *word;
    enum { BOTH, SANDBOX, OPERATOR } whose;
    int (*fn)(reader *rd, char *rest);
} lines[] = {
    { "mode", BOTH, on_mode },
    { "rule", BOTH, on_rule },
    { "rate", SANDBOX, on_rate },
    { "connections", SANDBOX, on_connections },
    { "bind", SANDBOX, on_bind },
    { "deny", OPERATOR, on_deny },
    { "lift", OPERATOR, on_lift },
    { "service", OPERATOR, on_service },
    { "resolver", OPERATOR, on_resolver },
    { "roots", OPERATOR, on_roots },
};

static int read_line(reader *rd, char *s)
{
    for (char *c = s; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return fail_policy(rd, "it has a control character");
    if (!rd->head && (!strcmp(s, HEAD) || !rd->operator_)) {
        if (strcmp(s, HEAD) != 0)
            return fail_policy(rd, "a policy begins with the line %s", HEAD);
        rd->head = true;
        return 0;
    }
    if (!*s || *s == '#')
        return 0;
    rd->head = true;
    char *rest = strchr(s, ' ');
    if (rest)
        *rest++ = '\0';
    CAY_EACH(line, lines) {
        if (strcmp(s, line->word) != 0)
            continue;
        if (rd->operator_ && line->whose == SANDBOX)
            return fail_policy(rd, "%s is for a sandbox's policy, not for egress.conf", s);
        if (line->whose == OPERATOR && !rd->operator_)
            return fail_policy(rd, "%s is for the operator's egress.conf only", s);
        if (!rest || !*rest)
            return fail_policy(rd, "%s needs a value", s);
        return line->fn(rd, rest);
    }
    return fail_policy(rd, "\"%.20s\" is not known", s);
}

static int read_lines(reader *rd, const char *text, size_t len)
{
    char line[LINE_MAX_];
    for (size_t at = 0, n = 1; at < len; n++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t k = len - at;
        if (end)
            k = (size_t)(end - text) - at;
        int rc;
        if (!CAY_PART(line, text + at, k))
            rc = fail_policy(rd, "longer than %d bytes", LINE_MAX_ - 1);
        else if (memchr(line, 0, k))
            rc = fail_policy(rd, "it has a control character");
        else
            rc = read_line(rd, line);
        if (rc < 0)
            return cay_wrap(rd->err, rc, "line %zu", n);
        at += k + 1;
    }
    if (!rd->head && !rd->operator_)
        return fail_policy(rd, "a policy begins with the line %s", HEAD);
    if (!rd->mode) {
        if (rd->operator_)
            rd->p->mode = CAY__NET_ALL;
        else if (rd->p->nrules)
            rd->p->mode = CAY__NET_RULES;
        else
            rd->p->mode = CAY__NET_OFF;
    }
    return cay__policy_check(rd->p, rd->err);
}

int cay__policy_read(cay__policy *p, const char *text, size_t len, bool operator_, cay_err *err)
{
    reader rd = { .p = p, .operator_ = operator_, .err = err };
    memset(p, 0, sizeof *p);
    if (len > CAY__POLICY_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "policy_too_big", "a policy has at most %u bytes",
                            CAY__POLICY_MAX);
    int rc = read_lines(&rd, text, len);
    if (rc < 0)
        cay__policy_clear(p);
    return rc;
}

static void add_endpoint(cay__buf *b, const uint8_t addr[16], uint16_t port)
{
    char text[CAY__ADDR_MAX];
    bool v4 = cay__addr_is_v4(addr);
    cay__addr_text(addr, text);
    cay__buf_fmt(b, v4 ? "%s:%d" : "[%s]:%d", text, (int)port);
}

int cay__policy_write(const cay__policy *p, char **text, size_t *len, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(CAY__POLICY_MAX);
    char one[CAY__RULE_MAX];
    cay__buf_fmt(&b, HEAD "\nmode %s\n", modes[p->mode]);
    CAY_EACH_OF(rule, p->rules, p->nrules) {
        cay__rule_text(rule, one, sizeof one);
        cay__buf_fmt(&b, "rule %s\n", one);
    }
    if (p->rate_up)
        cay__buf_fmt(&b, "rate up %llu\n", (unsigned long long)p->rate_up);
    if (p->rate_down)
        cay__buf_fmt(&b, "rate down %llu\n", (unsigned long long)p->rate_down);
    if (p->connections)
        cay__buf_fmt(&b, "connections %u\n", p->connections);
    CAY_EACH_OF(binding, p->bindings, p->nbindings) {
        char bound[CAY__BINDING_TEXT];
        cay__binding_text(binding, bound, sizeof bound);
        cay__buf_fmt(&b, "bind %s %s\n", binding->name, bound);
    }
    CAY_EACH_OF(lift, p->lifts, p->nlifts) {
        cay__rule_text(lift, one, sizeof one);
        cay__buf_fmt(&b, "lift %s\n", one);
    }
    CAY_EACH_OF(service, p->services, p->nservices) {
        cay__buf_fmt(&b, "service %s:%d ", service->name, (int)service->port);
        add_endpoint(&b, service->to, service->to_port);
        cay__buf_str(&b, "\n");
    }
    if (p->resolver_port) {
        cay__buf_str(&b, "resolver ");
        add_endpoint(&b, p->resolver, p->resolver_port);
        cay__buf_str(&b, "\n");
    }
    if (p->roots[0])
        cay__buf_fmt(&b, "roots %s\n", p->roots);
    if (b.full)
        return cay_fail_why(err, CAY_ETOOBIG, "policy_too_big", "a policy has at most %u bytes",
                            CAY__POLICY_MAX);
    *len = b.len;
    *text = CAY_STEAL(b.data);
    return 0;
}

void cay__policy_clear(cay__policy *p)
{
    free(p->rules);
    free(p->lifts);
    free(p->services);
    free(p->bindings);
    memset(p, 0, sizeof *p);
}

static int add_word(cay__policy *p, const char *word, bool first, cay_err *err)
{
    bool off = !strcmp(word, "off"), all = !strcmp(word, "all");
    if (!*word)
        return cay_fail_why(
            err, CAY_EINVAL, "policy_invalid",
            "a network rule is empty; give off, all, a preset or rules between commas");
    if ((off && !first) || (!off && p->mode == CAY__NET_OFF && !first))
        return cay_fail_why(err, CAY_EINVAL, "policy_conflict",
                            "off and rules are both given; leave one away");
    if (off)
        return 0;
    if (all)
        return p->mode = CAY__NET_ALL, 0;
    CAY_TRY(cay__rule_add(p, word, err));
    if (p->mode != CAY__NET_ALL)
        p->mode = CAY__NET_RULES;
    return 0;
}

int cay__policy_words(cay__policy *p, const char *words, cay_err *err)
{
    char word[LINE_MAX_];
    for (const char *s = words;; s++) {
        size_t n = strcspn(s, ",");
        if (!CAY_PART(word, s, n))
            return cay_fail_why(err, CAY_EINVAL, "policy_invalid",
                                "rule \"%.40s…\": longer than %d bytes", s, LINE_MAX_ - 1);
        CAY_TRY(add_word(p, word, !p->words, err));
        p->words = true;
        s += n;
        if (!*s)
            return 0;
    }
}
