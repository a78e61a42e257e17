/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy's text and the matcher. First byte: tenant's or operator's file. The first line is
 * what is asked for, HOST PORT; the rest is the file. What is read must be written as it was read,
 * and the decision must hold its own rules.
 */
#include <policy/policy.h>
#include <base/str.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void round_trip(const cay__policy *p, bool operator_)
{
    char *text = NULL, *again = NULL;
    size_t n, m;
    cay__policy q;
    if (cay__policy_write(p, &text, &n, NULL) < 0)
        return; /* a preset made it too long */
    must(cay__policy_read(&q, text, n, operator_, NULL) == 0);
    must(cay__policy_write(&q, &again, &m, NULL) == 0 && m == n && !memcmp(text, again, n));
    must(p->nrules == q.nrules && p->mode == q.mode);
    free(text);
    free(again);
    cay__policy_clear(&q);
}

static void ask(const cay__policy *op, const cay__policy *p, const char *host, uint16_t port)
{
    uint8_t addr[16];
    char folded[CAY__NAME_MAX + 1];
    cay__verdict one = cay__decide_host(op, p, host, port, false),
                 fetch = cay__decide_host(op, p, host, port, true);
    must(one.reason && fetch.reason && (!one.allow || one.proto) &&
         (!one.allow || !one.rule || !one.rule->deny));
    must(!one.allow || fetch.allow); /* a fetch may do what a program may */
    if (cay__addr_parse(host, addr)) {
        must(!one.allow || !cay__blocked(op, addr));
        must(!fetch.allow || !cay__blocked(op, addr));
        must(!cay__name_fold(host, strlen(host), folded)); /* nothing is both */
    } else {
        cay__verdict up = cay__decide_lookup(op, p, host);
        must(!one.allow || up.allow); /* what may be reached may be looked up */
        if (one.allow) {
            must(cay__name_fold(host, strlen(host), folded));
            must(cay__decide_host(op, p, folded, port, false).allow);
        }
    }
    if (p && p->mode == CAY__NET_OFF)
        must(!one.allow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char host[300];
    if (len < 2)
        return 0;
    bool operator_ = data[0] & 1;
    const uint8_t *nl = memchr(data + 1, '\n', len - 1);
    size_t n = nl ? (size_t)(nl - data) - 1 : 0;
    if (!nl || n >= sizeof host)
        return 0;
    memcpy(host, data + 1, n);
    host[n] = 0;
    uint64_t port = 443;
    char *blank = strchr(host, ' ');
    if (blank)
        *blank = 0, cay__str_to_u64(blank + 1, &port);
    size_t rest = len - n - 2;
    char *file = malloc(rest ? rest : 1); /* of the exact size */
    must(file != NULL);
    memcpy(file, nl + 1, rest);
    cay__policy p, q = { .mode = CAY__NET_ALL };
    cay_err err = CAY_ERR_INIT;
    int rc = cay__policy_read(&p, file, rest, operator_, &err);
    must((rc == 0) == !*err.msg);
    must(rc == 0 || (!p.rules && !p.lifts && !p.services));
    if (rc == 0) {
        round_trip(&p, operator_);
        ask(operator_ ? &p : NULL, operator_ ? &q : &p, host, (uint16_t)port);
    }
    char folded[CAY__NAME_MAX + 1];
    if (cay__name_fold(host, strlen(host), folded)) {
        char twice[CAY__NAME_MAX + 1];
        must(cay__name_fold(folded, strlen(folded), twice) && !strcmp(folded, twice));
    }
    cay__rule r;
    if (cay__rule_parse(host, &r, NULL) == 0) {
        char text[CAY__RULE_MAX];
        cay__rule back;
        must(cay__rule_text(&r, text, sizeof text) < (int)sizeof text);
        must(cay__rule_parse(text, &back, NULL) == 0 && cay__rule_same(&r, &back));
    }
    cay__policy_clear(&p);
    free(file);
    return 0;
}
