/* SPDX-License-Identifier: Apache-2.0 */
/* The policy of a sandbox that is there: read, changed live, kept with its record, explained. */
#include "remote.h"
#include "net.h"
#include "spec.h"
#include <lib/manifest/client_mounts.h>
#include <base/fault.h>
#include <cay/policy.h>

#define AUTOPOLICY __attribute__((cleanup(cay__policy_clear))) cay__policy
#define OFF        "cay-net 1\nmode off\n"

static int read_text(int fd, char **out, size_t *len, cay_err *err)
{
    char *text = cay__alloc(CAY__POLICY_MAX + 2);
    ssize_t n = cay__fd_read_all(fd, text, CAY__POLICY_MAX + 1);
    if (n < 0 || n > (ssize_t)CAY__POLICY_MAX) {
        free(text);
        if (n < 0)
            return cay_fail_sys(err, CAY__EGRESS_CONF);
        return cay_fail_why(err, CAY_ETOOBIG, "policy_too_big",
                            CAY__EGRESS_CONF " is larger than %u bytes", CAY__POLICY_MAX);
    }
    *out = text;
    *len = (size_t)n;
    return 0;
}

int cay__operator_read(const cay_client *client, cay__policy *out, cay_err *err)
{
    CAY_AUTOFREE char *text = NULL;
    size_t len = 0;
    CAY_AUTOFD fd =
        openat(client->home_fd, CAY__EGRESS_CONF, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) /* as the keeper does */
        fd = open("/etc/cay/" CAY__EGRESS_CONF, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno != ENOENT)
        return cay_fail_sys(err, CAY__EGRESS_CONF);
    if (fd >= 0)
        CAY_TRY(read_text(fd, &text, &len, err));
    int rc = cay__policy_read(out, CAY_OR(text, ""), len, true, err);
    if (rc < 0)
        return cay_wrap(err, rc, CAY__EGRESS_CONF);
    return 0;
}

int cay_net_operator_check(cay_client *client, cay_err *err)
{
    AUTOPOLICY op = { 0 };
    if (client->remote)
        return 0;
    return cay__operator_read(client, &op, err);
}

int cay_net_operator_may(cay_client *client, const char *host, uint16_t port, const uint8_t *addr,
                         bool own, cay_err *err)
{
    AUTOPOLICY op = { 0 };
    CAY_TRY(cay__remote_none(client, "egress.conf", err));
    CAY_TRY(cay__operator_read(client, &op, err));
    /* A name of this machine has no rules of its own: they are those of its address. */
    cay__verdict v;
    if (addr)
        v = cay__decide_addr(&op, NULL, host, addr, port);
    else
        v = cay__decide_host(&op, NULL, cay__name_is_local(host) ? "127.0.0.1" : host, port, true);
    bool range = !strcmp(v.reason, "blocked_range");
    if (v.allow || (range && (own || !addr)) ||
        (!addr && !strcmp(v.reason, "default_deny") &&
         op.mode == CAY__NET_ALL)) /* ranges are judged by the address itself */
        return 0;
    if (range)
        return cay_fail_why(
            err, CAY_EPERM, "registry_private",
            "%.150s is at a private address (%s); a lift line of the operator's " CAY__EGRESS_CONF
            " may allow it",
            host, CAY_OR(v.range, ""));
    return cay_fail_why(err, CAY_EPERM, "registry_denied",
                        "the operator's " CAY__EGRESS_CONF
                        " does not let anything go to %.150s:%u; a rule there may allow it",
                        host, port);
}

static int row_of(cay_sandbox *sb, cay__row **out, cay_err *err)
{
    if (sb->owner)
        return cay__client_row(sb->owner, sb->id, out, err);
    return CAY_ENOENT;
}

static int read_recorded_policy(const cay_row *row, char **text, cay_err *err)
{
    cay__spec *spec = NULL;
    CAY_TRY(cay__spec_read(row, &spec, err));
    *text = cay__strdup(CAY_OR(spec->create.net.policy, OFF));
    cay__spec_free(spec);
    return 0;
}

/* Another program may change the record at the same time: the version tells, and we begin anew. */
static int record_policy(cay_sandbox *sb, const char *text, cay_err *err)
{
    cay_client *client = sb->owner;
    for (int tries = 0;; tries++) {
        CAY_AUTOFREE cay__row *row = NULL;
        CAY_AUTOFREE char *json = NULL;
        cay__spec *spec = NULL;
        int rc = row_of(sb, &row, err);
        if (rc == CAY_ENOENT) /* a throw-away one has none */
            return 0;
        CAY_TRY(rc);
        CAY_TRY(cay__spec_read(&row->row, &spec, err));
        spec->create.net.policy = text;
        rc = cay__spec_text(spec, &json, err);
        cay__spec_free(spec);
        CAY_TRY(rc);
        rc = CAY__STORE(client, respec, sb->id, row->row.version, json, err);
        if (rc != CAY_ESTATE || tries == 8)
            return rc;
    }
}

static int no_policy(const cay_sandbox *sb, cay_err *err)
{
    return cay__no_such_op(sb, "network policy", err);
}

int cay__net_live_box(cay_sandbox *sb, const cay_call *call, void **box, cay_err *err)
{
    cay_info *info = NULL;
    CAY_TRY(cay_sandbox_describe(sb, call, &info, err));
    cay_state s = info->state;
    cay_info_free(info);
    if (s == CAY_RUNNING || s == CAY_PAUSED)
        *box = atomic_load(&sb->box);
    else
        *box = NULL;
    if (s == CAY_STOPPED || *box)
        return 0;
    return cay__sandbox_ready(sb, err);
}

int cay_sandbox_set_policy(cay_sandbox *sb, const cay_call *call, const char *text,
                           uint64_t *revision, cay_err *err)
{
    CAY__OP(call, "net.set", sb->id, err);
    if (cay__remote_of(sb))
        return sb->ops->policy(sb->box, call, text, strlen(text), revision, err);
    AUTOPOLICY p = { 0 };
    CAY_AUTOFREE char *canonical = NULL, *former = NULL;
    CAY_AUTOFREE cay__row *row = NULL;
    size_t len;
    uint64_t got = 0;
    void *box = NULL;
    if (!CAY__HAS(sb->ops, policy))
        return no_policy(sb, err);
    CAY_TRY(cay__policy_read(&p, text, strlen(text), false, err));
    CAY_TRY(cay__policy_write(&p, &canonical, &len, err));
    CAY_TRY(cay__call_check(call, "policy", err));
    CAY_TRY(cay__net_live_box(sb, call, &box, err));
    int rc = row_of(sb, &row, err);
    if (rc < 0 && rc != CAY_ENOENT)
        return rc;
    if (row)
        CAY_TRY(read_recorded_policy(&row->row, &former, err));
    CAY_TRY(record_policy(sb, canonical, err));
    CAY_FAULT("policy.recorded");
    if (box && (rc = sb->ops->policy(box, call, canonical, len, &got, err)) < 0) {
        if (former) /* the former one stays, here too */
            record_policy(sb, former, NULL);
        return cay_wrap(err, rc, "policy of %s", sb->id);
    }
    if (revision)
        *revision = got;
    return 0;
}

int cay_sandbox_get_policy(cay_sandbox *sb, const cay_call *call, char **text, uint64_t *revision,
                           cay_err *err)
{
    CAY__OP(call, "net.get", sb->id, err);
    if (cay__remote_of(sb))
        return sb->ops->policy_get(sb->box, call, text, &(size_t){ 0 }, revision, err);
    CAY_AUTOFREE cay__row *row = NULL;
    uint64_t got = 0;
    size_t len;
    void *box = NULL;
    if (!CAY__HAS(sb->ops, policy_get))
        return no_policy(sb, err);
    CAY_TRY(cay__call_check(call, "policy", err));
    CAY_TRY(cay__net_live_box(sb, call, &box, err));
    if (box)
        CAY_TRY(sb->ops->policy_get(box, call, text, &len, &got, err));
    else {
        CAY_TRY(row_of(sb, &row, err));
        CAY_TRY(read_recorded_policy(&row->row, text, err));
    }
    if (revision)
        *revision = got;
    return 0;
}

static void drop_rule(cay__policy *p, size_t i)
{
    memmove(&p->rules[i], &p->rules[i + 1], (--p->nrules - i) * sizeof *p->rules);
}

/* As where rules alone hold: an allow that a deny takes away whole is a contradiction, not
 * something to pass over. */
static int not_denied(const cay__policy *p, const cay__rule *r, const char *text, cay_err *err)
{
    char deny[CAY__RULE_MAX];
    CAY_EACH_OF(rule, p->rules, p->nrules)
        if (rule->deny && !r->preset && cay__rule_covers(rule, r)) {
            cay__rule_text(rule, deny, sizeof deny);
            return cay_fail_why(err, CAY_EINVAL, "policy_conflict",
                                "rules %.70s and %.70s contradict each other: a deny comes before "
                                "any allow; set the policy without it",
                                text, deny);
        }
    return 0;
}

/* What is said later wins over what was said before, where one of both could not hold. */
static int add_rules(cay__policy *p, const char *words, cay_err *err)
{
    AUTOPOLICY add = { 0 };
    CAY_TRY(cay__policy_words(&add, words, err));
    CAY_TRY(cay__policy_check(&add, err));
    if (add.mode != CAY__NET_RULES || !add.nrules)
        return cay_fail_why(err, CAY_EINVAL, "policy_invalid",
                            "\"%.40s\": give rules here; off and all are set as a whole", words);
    CAY_EACH_OF(r, add.rules, add.nrules) {
        for (size_t i = p->nrules; i-- > 0;)
            if (p->rules[i].deny != r->deny && (r->deny ? cay__rule_covers(r, &p->rules[i])
                                                        : cay__rule_same_target(r, &p->rules[i]) &&
                                                              cay__rule_covers(&p->rules[i], r)))
                drop_rule(p, i);
        bool needless;
        if (r->deny)
            needless = p->mode == CAY__NET_OFF;
        else
            needless = p->mode == CAY__NET_ALL;
        char text[CAY__RULE_MAX];
        cay__rule_text(r, text, sizeof text);
        if (needless && !r->deny) /* all of the rest is open: what is asked for has to be, too */
            CAY_TRY(not_denied(p, r, text, err));
        if (needless)
            continue;
        CAY_TRY(cay__rule_add(p, text, err));
        if (p->mode == CAY__NET_OFF)
            p->mode = CAY__NET_RULES;
    }
    return cay__policy_check(p, err);
}

int cay_sandbox_net_add(cay_sandbox *sb, const cay_call *call, const char *const *rules,
                        uint64_t *revision, cay_err *err)
{
    CAY__OP(call, "net.add", sb->id, err);
    cay__revised done = { 0 };
    if (cay__remote_of(sb)) {
        cay__net_rules body = { .rules = rules };
        CAY_TRY(cay__remote_get(cay__remote_of(sb), call,
                                &CAY__REQUEST(net_rules, .path = { sb->id }, .body = &body), NULL,
                                &done, err));
        if (revision)
            *revision = done.revision;
        return 0;
    }
    AUTOPOLICY p = { 0 };
    CAY_AUTOFREE char *now = NULL, *text = NULL;
    size_t len;
    CAY_TRY(cay_sandbox_get_policy(sb, call, &now, NULL, err));
    CAY_TRY(cay__policy_read(&p, now, strlen(now), false, err));
    for (; *rules; rules++)
        CAY_TRY(add_rules(&p, *rules, err));
    CAY_TRY(cay__policy_write(&p, &text, &len, err));
    return cay_sandbox_set_policy(sb, call, text, revision, err);
}

static void fill_remedy(const cay__verdict *v, const char *host, uint16_t port,
                        cay_net_verdict *out)
{
    char rule[CAY__RULE_MAX], asked[300];
    if (!port || port == 443 || port == 80)
        CAY_FORMAT(asked, "%.253s", host);
    else if (strchr(host, ':'))
        CAY_FORMAT(asked, "[%.253s]:%d", host, (int)port);
    else
        CAY_FORMAT(asked, "%.253s:%d", host, (int)port);
    if (v->rule)
        cay__rule_text(v->rule, rule, sizeof rule);
    if (!strcmp(v->reason, "default_deny") || !strcmp(v->reason, "off"))
        CAY_FORMAT(out->remedy, "%.300s", asked);
    else if (!strcmp(v->reason, "tenant_deny"))
        CAY_FORMAT(out->remedy, "take rule %.300s away", rule);
    else if (!strcmp(v->reason, "operator_deny"))
        CAY_FORMAT(out->remedy, "only the operator can: %s", CAY__EGRESS_CONF);
    else if (!strcmp(v->reason, "blocked_range"))
        CAY_FORMAT(out->remedy, "only the operator can: a lift or service line of %s",
                   CAY__EGRESS_CONF);
}

static int judge_remote(cay_sandbox *sb, const cay_call *call, const char *host, uint16_t port,
                        cay_net_verdict *out, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    cay__net_judged j = { .host = CAY_OR(host, ""), .port = port };
    CAY_TRY(cay__remote_get(cay__remote_of(sb), call,
                            &CAY__REQUEST(net_why, .path = { sb->id }, .query = &j), &mem, &j,
                            err));
    j.v.size = sizeof j.v;
    cay__answer_give(out, &j.v, sizeof j.v);
    return 0;
}

int cay_net_evaluate(cay_sandbox *sb, const cay_call *call, const char *host, uint16_t port,
                     cay_net_verdict *out, cay_err *err)
{
    CAY__OP(call, "net.why", sb->id, err);
    if (cay__remote_of(sb))
        return judge_remote(sb, call, host, port, out, err);
    AUTOPOLICY p = { 0 }, op = { 0 };
    CAY_AUTOFREE char *text = NULL;
    cay_net_verdict a = { .size = sizeof a };
    char name[CAY__NAME_MAX + 1];
    uint8_t addr[16];
    bool is_addr = cay__addr_parse(host, addr);
    if (!is_addr && !cay__name_fold(host, strlen(host), name))
        return cay_fail_why(err, CAY_EINVAL, "host_invalid",
                            "\"%.60s\" is no host name or address; names are given in A-label form",
                            host);
    if (is_addr)
        cay__addr_text(addr, name);
    CAY_TRY(cay_sandbox_get_policy(sb, call, &text, NULL, err));
    CAY_TRY(cay__policy_read(&p, text, strlen(text), false, err));
    if (sb->owner)
        CAY_TRY(cay__operator_read(sb->owner, &op, err));
    else
        op.mode = CAY__NET_ALL;
    cay__verdict v;
    if (port || is_addr)
        v = cay__decide_host(&op, &p, name, CAY_OR(port, 443), false);
    else
        v = cay__decide_lookup(&op, &p, name);
    a.allow = v.allow;
    CAY_COPY(a.reason, v.reason);
    CAY_COPY(a.range, CAY_OR(v.range, ""));
    if (v.rule)
        cay__rule_text(v.rule, a.rule, sizeof a.rule);
    const char *proto = "tcp";
    if (v.proto == CAY__NET_TLS)
        proto = "tls";
    else if (v.proto == CAY__NET_HTTP)
        proto = "http";
    if (v.allow && (port || is_addr))
        CAY_COPY(a.proto, proto);
    if (!v.allow)
        fill_remedy(&v, name, port, &a);
    cay__answer_give(out, &a, sizeof a);
    return 0;
}

/*
 * A policy where the network is an engine's, which has no rules: "off" is a container without a
 * network, and "all" the network that the request or the operator (CAY_DOCKER_NETWORK) names. Rules
 * are refused by whoever looks next.
 */

static const char *lookup_option(const cay_create *c, const char *name)
{
    for (const cay_pair *p = c->options; p && p->key; p++)
        if (!strcmp(p->key, name))
            return p->value;
    return NULL;
}

static void add_option(cay_create *c, const char *key, const char *value, cay__arena *mem)
{
    size_t n = 0;
    while (c->options && c->options[n].key)
        n++;
    cay_pair *list = cay__arena_take(mem, (n + 2) * sizeof *list);
    if (n)
        memcpy(list, c->options, n * sizeof *list);
    list[n] = (cay_pair){ key, value };
    list[n + 1] = (cay_pair){ NULL, NULL };
    c->options = list;
}

int cay__net_engine(cay_create *c, const char *provider, cay__arena *mem, cay_err *err)
{
    const char *asked = lookup_option(c, "network"), *named = getenv("CAY_DOCKER_NETWORK");
    bool closed = c->net.policy && !strcmp(c->net.policy, "cay-net 1\nmode off\n"),
         open = c->net.policy && !strcmp(c->net.policy, "cay-net 1\nmode all\n");
    bool lacks = !c->net.is_default;
    if (asked)
        lacks = !strcmp(asked, "none");
    if (!cay__mounts_by_container(provider) || (!closed && !open))
        return 0;
    if (closed && asked && strcmp(asked, "none") != 0)
        return cay_fail_why(err, CAY_EINVAL, "option_invalid",
                            "net off and option network=%.60s exclude each other; leave one away",
                            asked);
    if (open && !asked && named && *named)
        add_option(c, "network", cay__arena_str(mem, named), mem);
    else if (open && lacks)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "net all: provider %s has networks of its engine, without a policy; "
                            "give option network=bridge, or name one by CAY_DOCKER_NETWORK",
                            provider);
    c->net.policy = NULL;
    return 0;
}
