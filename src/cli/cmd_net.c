/* SPDX-License-Identifier: Apache-2.0 */
/* cay net show, set, allow, deny, why, presets: what a sandbox may reach. */
#include "main.h"
#include "show.h"
#include "parse.h"
#include <base/base.h>
#include <cay/policy.h>

CAY_DEFINE_AUTO(cay_policy, cay_policy_free)

static const char *const mode_names[] = { "off", "off", "all", "rules" };

static void show_policy(const cay_policy *p)
{
    out_fmt("%s%s%s\n", out_on(1, OUT_BOLD), mode_names[p->mode], out_off(1));
    for (const char *const *r = p->rules; *r; r++) {
        if (**r == '!')
            out_fmt("  %sdeny %s %s\n", out_on(1, OUT_BAD), out_off(1), *r + 1);
        else
            out_fmt("  %sallow%s %s\n", out_on(1, OUT_GOOD), out_off(1), *r);
    }
    for (const cay_bind *b = p->bindings; b->name; b++)
        out_fmt("  secret %s → %s\n", b->name, b->destination);
    if (p->rate_up)
        out_fmt("  up %s/s\n", out_size(p->rate_up).s);
    if (p->rate_down)
        out_fmt("  down %s/s\n", out_size(p->rate_down).s);
    if (p->connections)
        out_fmt("  at most %u connections\n", p->connections);
}

/* An edit that cannot be read changes nothing, and would do so in silence. */
void cli_net_operator(void)
{
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    if (cli_client(&client, &err) == 0 && cay_net_operator_check(client, &err) < 0)
        out_note("cay: %s; the operator's rules are still those from before", err.msg);
}

static int show_sandbox_policy(cli_call *c, cay_err *err)
{
    CAY_AUTOPTR(cay_policy) p = NULL;
    CAY_AUTOFREE char *text = NULL, *json = NULL;
    uint64_t revision = 0;
    CAY_TRY(cay_sandbox_get_policy(c->sb, NULL, &text, &revision, err));
    CAY_TRY(cay_policy_parse(text, &p, err));
    CAY_TRY(cay_policy_to_json(text, &json, err));
    if (cli.json) {
        out_json j = OUT_JSON(false);
        show_object(&j, &cay__policy_shape, &(cay__revised){ revision, json });
        js_flush(&j);
    } else if (cli.quiet) {
        for (const char *const *r = p->rules; *r; r++)
            out_fmt("%s\n", *r);
    } else {
        show_policy(p);
    }
    cli_net_operator();
    return CLI_OK;
}

const cli_verb cli_net_show = {
    "net show",
    "ID",
    "show what a sandbox may reach",
    .text = "Presets are shown as the rules they stand for.",
    .examples = "  cay net show c7f\n"
                "  cay net show --json c7f",
    .min = 1,
    .needs = CLI_SANDBOX,
    .fn = show_sandbox_policy,
};

static int print_revision(uint64_t revision)
{
    if (cli.json) {
        out_json j = OUT_JSON(false);
        show_object(&j, &cay__revision_shape, &(cay__revised){ revision, NULL });
        js_flush(&j);
    } else if (revision) {
        out_note("cay: revision %ju holds", revision);
    } else {
        out_note("cay: kept; it holds from the next start on");
    }
    cli_net_operator();
    return CLI_OK;
}

static int set_policy(cli_call *c, cay_err *err)
{
    CAY_AUTOPTR(cay_policy) now = NULL;
    CAY_AUTOFREE char *text = NULL, *before = NULL;
    uint64_t revision = 0;
    c->argv[c->argc] = NULL;
    cay_policy p = { .size = sizeof p, .rules = (const char *const *)c->argv + 1 };
    /* The words first: a mistake in them asks nobody. */
    if (cay_policy_text(&p, &text, err) < 0)
        return cli_usage(c->verb, err);
    CAY_TRY(cli_find(c, err));
    CAY_TRY(cay_sandbox_get_policy(c->sb, NULL, &before, NULL, err));
    CAY_TRY(cay_policy_parse(before, &now, err));
    /* Limits and bindings stay as they are. */
    p.rate_up = now->rate_up;
    p.rate_down = now->rate_down;
    p.connections = now->connections;
    p.bindings = now->bindings;
    free(CAY_STEAL(text));
    CAY_TRY(cay_policy_text(&p, &text, err));
    CAY_TRY(cay_sandbox_set_policy(c->sb, NULL, text, &revision, err));
    return print_revision(revision);
}

const cli_verb cli_net_set = {
    "net set",
    "ID off|all|RULE…",
    "put other rules in place of those that hold",
    .text = "Takes effect at once: flows that the new rules forbid are cut within 2 s. Limits and "
            "bound secrets stay. When a rule\n"
            "cannot be read nothing changes.",
    .examples = "  cay net set c7f off\n"
                "  cay net set c7f pypi npm '!registry.npmjs.org:80'",
    .min = 2,
    .max = CLI_ANY,
    .fn = set_policy,
};

enum { ALLOW, DENY };

static int add_rules(cli_call *c, cay_err *err)
{
    const char *rules[OPT_LIST_MAX + 1];
    char *owned[OPT_LIST_MAX] = { 0 };
    uint64_t revision = 0;
    int n = c->argc - 1, rc = 0;
    bool deny = c->verb->arg == DENY;
    if (n > OPT_LIST_MAX)
        return cli_misuse(c, "more than %d rules at once", OPT_LIST_MAX);
    for (int i = 0; i < n; i++) {
        const char *word = c->argv[i + 1];
        bool has = *word == '!';
        size_t len = strlen(word) + 2;
        if (has && !deny)
            rc = cli_misuse(c, "\"%.60s\" denies; use `cay net deny`", word);
        owned[i] = cay__alloc(len);
        cay__str_join(owned[i], len, deny && !has ? "!" : "", word, NULL);
        rules[i] = owned[i];
    }
    rules[n] = NULL;
    if (rc == 0)
        rc = cli_find(c, err);
    if (rc == 0)
        rc = cay_sandbox_net_add(c->sb, NULL, rules, &revision, err);
    CAY_EACH_OF(it, owned, n)
        free(*it);
    if (rc == 0)
        return print_revision(revision);
    return rc;
}

const cli_verb cli_net_allow = {
    "net allow",
    "ID RULE…",
    "let a running sandbox reach more",
    .text = "A deny of exactly that is taken away. A wider deny stays, and is named.",
    .examples = "  cay net allow c7f pypi\n"
                "  cay net allow c7f db.example.com:5432",
    .min = 2,
    .max = CLI_ANY,
    .arg = ALLOW,
    .fn = add_rules,
};

const cli_verb cli_net_deny = {
    "net deny",
    "ID RULE…",
    "let a running sandbox reach less",
    .text = "Allows that it covers are taken away; live flows to there are cut within 2 s. Without "
            "a port it holds for all.",
    .examples = "  cay net deny c7f evil.example.com\n"
                "  cay net deny c7f '**.example.com' 203.0.113.0/24",
    .min = 2,
    .max = CLI_ANY,
    .arg = DENY,
    .fn = add_rules,
};

/* HOST, HOST:PORT, [ADDRESS]:PORT. */
static int take_place(const char *text, char *host, size_t cap, uint16_t *port, cay_err *err)
{
    const char *colon = strrchr(text, ':'), *end = NULL;
    *port = 0;
    bool bracket = *text == '[', plain_v6 = !bracket && colon && strchr(text, ':') != colon;
    if (bracket) {
        end = strchr(text, ']');
        if (!end || (end[1] && end[1] != ':'))
            return cay_fail(err, CAY_EINVAL, "\"%.80s\": after [ADDRESS] comes :PORT or nothing",
                            text);
        if (end[1])
            colon = end + 1;
        else
            colon = NULL;
    } else {
        if (colon && !plain_v6)
            end = colon;
        else
            end = text + strlen(text);
    }
    if (colon && !plain_v6)
        CAY_TRY(cli_parse_port(colon + 1, port, err));
    size_t n = (size_t)(end - text) - bracket;
    if (!n || n >= cap)
        return cay_fail(err, CAY_EINVAL, "\"%.80s\": want HOST, HOST:PORT or [ADDRESS]:PORT", text);
    memcpy(host, text + bracket, n);
    host[n] = '\0';
    return 0;
}

static const char *why_text(const cay_net_verdict *v)
{
    static const struct {
        const char *reason, *text;
    } rows[] = {
        { "allowed", "allowed" },
        { "service", "allowed: a service of the host that the operator offers" },
        { "off", "refused: its network is off" },
        { "default_deny", "refused: no rule allows it" },
        { "tenant_deny", "refused by its own rule" },
        { "operator_deny", "refused by the operator" },
        { "blocked_range", "refused: addresses of that range are never reached" },
    };
    CAY_EACH(row, rows)
        if (!strcmp(row->reason, v->reason))
            return row->text;
    return v->reason;
}

static int explain_verdict(cli_call *c, cay_err *err)
{
    cay_net_verdict v = { .size = sizeof v };
    char host[300];
    uint16_t port;
    if (take_place(c->argv[1], host, sizeof host, &port, err) < 0)
        return cli_usage(c->verb, err);
    CAY_TRY(cli_find(c, err));
    CAY_TRY(cay_net_evaluate(c->sb, NULL, host, port, &v, err));
    cli_net_operator();
    if (cli.json) {
        show_print(&cay__verdict_shape, &(cay__net_judged){ host, port, v });
        if (v.allow)
            return CLI_OK;
        return CLI_FAIL;
    }
    out_fmt("%s%s%s", out_on(1, v.allow ? OUT_GOOD : OUT_BAD), why_text(&v), out_off(1));
    if (*v.rule)
        out_fmt(", rule %s", v.rule);
    if (*v.range)
        out_fmt(" (%s)", v.range);
    if (v.allow && *v.proto && strcmp(v.proto, "tcp") != 0)
        out_fmt(", as %s", v.proto);
    out_str("\n");
    if (*v.remedy && (!strcmp(v.reason, "default_deny") || !strcmp(v.reason, "off")))
        out_fmt("try: cay net allow %s %s\n", cay_sandbox_id(c->sb), v.remedy);
    else if (*v.remedy)
        out_fmt("%s\n", v.remedy);
    if (v.allow)
        return CLI_OK;
    return CLI_FAIL;
}

const cli_verb cli_net_why = {
    "net why",
    "ID HOST[:PORT]",
    "tell whether it may be reached, and which rule says so",
    .text = "Without a port: may the name be looked up. The exit code is 0 when it is allowed and "
            "1 when it is not. Nothing is sent;\n"
            "where a name leads is judged when it is dialled.",
    .examples = "  cay net why c7f pypi.org:443\n"
                "  cay net why c7f 169.254.169.254:80",
    .min = 2,
    .fn = explain_verdict,
};

static int list_presets(cli_call *c, cay_err *err)
{
    const char *name;
    const char *const *rules;
    bool found = false;
    out_json j = js_begin(true, '{');
    for (size_t i = 0; (name = cay_net_preset(i, &rules)); i++) {
        if (c->argc && strcmp(c->argv[0], name) != 0)
            continue;
        found = true;
        js_key(&j, name);
        js_open(&j, '[');
        if (!cli.json)
            out_fmt("%s%-9s%s", out_on(1, OUT_BOLD), name, out_off(1));
        for (const char *const *r = rules; *r; r++) {
            js_str(&j, *r);
            if (!cli.json && !cli.quiet)
                out_fmt(" %s", *r);
        }
        if (!cli.json)
            out_str("\n");
        js_close(&j, ']');
    }
    js_close(&j, '}');
    if (cli.json && found)
        js_flush(&j);
    cay__buf_clear(&j.b);
    if (found)
        return CLI_OK;
    return cay_fail(err, CAY_ENOENT, "no preset %.40s; `cay net presets` lists them", c->argv[0]);
}

const cli_verb cli_net_presets = {
    "net presets",
    "[NAME]",
    "list the words that stand for several rules",
    .examples = "  cay net presets\n"
                "  cay net presets github",
    .max = 1,
    .fn = list_presets,
};
