/* SPDX-License-Identifier: Apache-2.0 */
/* cay net log and blocked: what a sandbox did reach, and what it was refused. */
#include "main.h"
#include "out.h"
#include <base/base.h>
#include <cay/policy.h>

typedef struct net_log_args {
    uint64_t count;
    bool denied, follow;
} net_log_args;

static const opt_def log_defs[] = {
    OPT_NUM("-n, --count N", "only the last N", net_log_args, count, 1),
    OPT_FLAG("--denied", "only what was refused", net_log_args, denied),
    OPT_FLAG("-f, --follow", "go on with what comes, until interrupted", net_log_args, follow),
    OPT_END
};

typedef struct walk {
    const net_log_args *a;
    uint64_t seen, skip; /* records that fit; of them, how many are not printed */
    bool print;
} walk;

static void print_record(const cay_net_record *r)
{
    bool allow = !strcmp(r->verdict, "allow"), end = !strcmp(r->event, "end");
    bool plain = allow || !strcmp(r->verdict, "closed");
    out_style style = OUT_PLAIN;
    if (allow)
        style = OUT_GOOD;
    else if (!strcmp(r->verdict, "deny"))
        style = OUT_BAD;
    out_fmt("%s%s%s %s%-5s%s ", out_on(1, OUT_DIM), out_time(r->time_ms).s, out_off(1),
            out_on(1, style), cay__text_or(r->verdict, "-"), out_off(1));
    out_safe("%s", r->event);
    if (*r->name || *r->address) {
        const char *host = cay__text_or(r->name, r->address);
        bool v6 = r->port && strchr(host, ':');
        out_str(v6 ? " [" : " ");
        out_safe("%s", host);
        if (r->port)
            out_fmt("%s:%u", v6 ? "]" : "", r->port);
    }
    if (*r->name && *r->address)
        out_safe(" at %s", r->address);
    if (*r->secret)
        out_safe(" %s", r->secret);
    if (*r->reason &&
        (!*r->rule || !plain)) { /* of what went as the rule says, the rule is enough */
        out_str(" ");
        out_safe("%s", r->reason);
    }
    if (*r->rule)
        out_safe(" by %s", r->rule);
    if (*r->seen)
        out_safe(", said %s", r->seen);
    if (end)
        out_fmt(", up %s, down %s", out_size(r->up).s, out_size(r->down).s);
    if (r->count)
        out_fmt(" %ju records", r->count);
    if (*r->exec)
        out_fmt("  %s%s%s", out_on(1, OUT_DIM), r->exec, out_off(1));
    else if (r->execs)
        out_fmt("  %sone of %u commands%s", out_on(1, OUT_DIM), r->execs, out_off(1));
    out_str("\n");
}

static int on_record(const cay_net_record *r, void *arg)
{
    walk *w = arg;
    if (w->a->denied && strcmp(r->verdict, "deny") != 0)
        return 0;
    w->seen++;
    if (!w->print || w->seen <= w->skip)
        return 0;
    if (cli.json)
        out_fmt("%s\n", r->json);
    else
        print_record(r);
    return 0;
}

static int net_log(cli_call *c, cay_err *err)
{
    const net_log_args *a = c->opts;
    walk all = { .a = a };
    if (a->count)
        CAY_TRY(cay_net_log(c->sb, on_record, &all, err));
    walk w = { .a = a, .print = true, .skip = all.seen > a->count ? all.seen - a->count : 0 };
    for (;;) {
        w.seen = 0;
        CAY_TRY(cay_net_log(c->sb, on_record, &w, err));
        if (!a->follow || out_broken())
            return CLI_OK;
        /* A log that was turned over is shorter than what we saw: begin with what is there. */
        if (w.seen < w.skip)
            w.skip = 0;
        else
            w.skip = w.seen;
        usleep(500000);
    }
}

const cli_verb cli_net_log = {
    "net log",
    "[--denied] [-n N] [-f] ID",
    "show what a sandbox reached and was refused",
    .text = "One line for each decision and one for the end of each flow. Names and addresses, "
            "never paths, queries or headers.\n"
            "At the end of a line is the command that was the only one running when the program "
            "asked (its id, as cay ps has it), or how many were.\n"
            "With --json the records as they were written, one a line, with exec or execs.",
    .examples =
        "  cay net log c7f\n"
        "  cay net log --denied -f c7f\n"
        "  cay net log --json c7f | jq -r 'select(.event == \"end\") | .name' | sort | uniq -c",
    CLI_OPTS(log_defs, net_log_args),
    .min = 1,
    .needs = CLI_SANDBOX,
    .fn = net_log,
};

typedef struct refused {
    char host[256], reason[40];
    uint16_t port;
    bool read; /* by what adds secrets: the place was allowed, the request was not */
    uint64_t count;
    int64_t last_ms;
} refused;

enum { PLACES = 4096 };
typedef struct places {
    refused *at;
    size_t n;
    uint64_t more; /* that did not fit */
} places;

static int on_refused(const cay_net_record *r, void *arg)
{
    places *p = arg;
    const char *host = cay__text_or(r->name, r->address);
    bool read = !strcmp(r->event, "credential");
    if (strcmp(r->verdict, "deny") != 0 || !*host)
        return 0;
    CAY_EACH_OF(it, p->at, p->n)
        if (it->port == r->port && it->read == read && !strcmp(it->host, host) &&
            !strcmp(it->reason, r->reason)) {
            it->count++;
            it->last_ms = r->time_ms;
            return 0;
        }
    if (p->n == PLACES) {
        p->more++;
        return 0;
    }
    refused *n = &p->at[p->n++];
    *n = (refused){ .port = r->port, .read = read, .count = 1, .last_ms = r->time_ms };
    CAY_COPY(n->host, host);
    CAY_COPY(n->reason, r->reason);
    return 0;
}

/* What was refused although a rule allows the place: what would help is in the reason, and no rule
 * for name and port alone. */
static const struct {
    const char *reason; /* or how it begins, with a `_` at its end */
    const char *scheme; /* of the rule that would; NULL: none */
    const char *words;
} beyond[] = {
    { "tls_name_mismatch", "tcp", NULL },
    { "tls_", "tls+opaque", NULL },
    { "http_", "tcp", NULL },
    { "blocked_range", NULL, "only the operator can: a lift or service line of egress.conf" },
    { "own_address", NULL, "only the operator can: a service line of egress.conf" },
    { "connections_limit", NULL, "no rule: as many were open as may be at once" },
    { "descriptors_limit", NULL, "no rule: as many were open as may be at once" },
    { "no_interceptor", NULL, "no rule: what adds secrets was not there" },
    { "hello_timeout", NULL, "no rule: the program said nothing" },
};

static size_t beyond_of(const char *reason)
{
    for (size_t i = 0; i < CAY_LEN(beyond); i++) {
        size_t n = strlen(beyond[i].reason);
        if (beyond[i].reason[n - 1] == '_' ? !strncmp(reason, beyond[i].reason, n)
                                           : !strcmp(reason, beyond[i].reason))
            return i;
    }
    return CAY_LEN(beyond);
}

/* Then what goes there is read, whatever a rule says. */
static bool bound_to(cay_sandbox *sb, const char *host)
{
    CAY_AUTOFREE char *text = NULL;
    cay_policy *p = NULL;
    bool is = false;
    if (cay_sandbox_get_policy(sb, NULL, &text, NULL, NULL) < 0 ||
        cay_policy_parse(text, &p, NULL) < 0)
        return false;
    for (const cay_bind *b = p->bindings; b && b->name && !is; b++) {
        const char *at = strstr(b->destination, "://");
        if (at)
            at = at + 3;
        else
            at = b->destination;
        bool below = *at == '*';
        at += below;
        size_t len = strcspn(at, ":/,"), all = strlen(host);
        is = (below ? all > len : all == len) && !strncmp(host + all - len, at, len);
    }
    cay_policy_free(p);
    return is;
}

/* What would let it pass by the policy of now. */
static void find_remedy(cay_sandbox *sb, const refused *r, char *out, size_t cap)
{
    cay_net_verdict v = { .size = sizeof v };
    size_t i = beyond_of(r->reason);
    const char *scheme = NULL;
    if (i < CAY_LEN(beyond))
        scheme = beyond[i].scheme;
    if (cay_net_evaluate(sb, NULL, r->host, r->port, &v, NULL) < 0)
        cay__str_copy(out, cap, "");
    else if (!v.allow)
        cay__str_copy(out, cap, v.remedy);
    else if (i < CAY_LEN(beyond) && !scheme)
        cay__str_copy(out, cap, beyond[i].words);
    else if ((scheme || r->read) && bound_to(sb, r->host))
        cay__str_copy(out, cap, "no rule: a secret is bound to it, and what goes there is read");
    else if (!scheme || r->read || !strcmp(v.proto, "tcp") ||
             (!strcmp(scheme, "tls+opaque") && strstr(v.rule, "+opaque")))
        cay__str_copy(out, cap, "allowed now");
    else
        snprintf(out, cap, strchr(r->host, ':') ? "%s://[%s]:%u" : "%s://%s:%u", scheme, r->host,
                 r->port);
}

static void blocked_json(cay_sandbox *sb, const places *p)
{
    out_json j = js_begin(true, '[');
    char allow[400];
    CAY_EACH_OF(r, p->at, p->n) {
        find_remedy(sb, r, allow, sizeof allow);
        js_object(&j, "host:%s, port:%u, reason:%s, count:%ju, last_ms:%jd, allow:%s", r->host,
                  r->port, r->reason, r->count, r->last_ms, allow);
    }
    js_end(&j, ']');
}

static void blocked_table(cay_sandbox *sb, const places *p)
{
    out_table t;
    char allow[400];
    out_table_open(&t, "HOST|>PORT|REASON|>TIMES|LAST|WOULD ALLOW IT");
    CAY_EACH_OF(r, p->at, p->n) {
        find_remedy(sb, r, allow, sizeof allow);
        out_row(&t, "*%s|-%u|%s|%ju|~%s|%s", r->host, r->port, r->reason, r->count,
                out_time(r->last_ms).s, allow);
    }
    out_table_print(&t);
}

static int list_blocked(cli_call *c, cay_err *err)
{
    CAY_AUTOFREE refused *room = cay__alloc(PLACES * sizeof *room);
    places p = { .at = room };
    CAY_TRY(cay_net_log(c->sb, on_refused, &p, err));
    if (cli.json)
        blocked_json(c->sb, &p);
    else if (p.n)
        blocked_table(c->sb, &p);
    else
        out_note("cay: nothing was refused");
    if (p.more)
        out_note("cay: %ju more refusals are not shown", p.more);
    return CLI_OK;
}

const cli_verb cli_net_blocked = {
    "net blocked",
    "ID",
    "list what was refused, and the rule that would allow it",
    .examples = "  cay net blocked c7f\n"
                "  cay net allow c7f $(cay net blocked --json c7f | jq -r '.[0].allow')",
    .min = 1,
    .needs = CLI_SANDBOX,
    .fn = list_blocked,
};
