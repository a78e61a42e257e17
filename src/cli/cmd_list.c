/* SPDX-License-Identifier: Apache-2.0 */
/* cay ls and cay inspect: which sandboxes there are, and all about one. */
#include "sandbox_options.h"
#include "main.h"
#include "out.h"
#include "show.h"
#include <base/base.h>
#include <cay/access.h>
#include <cay/policy.h>

typedef struct ls_args {
    opt_list states, labels;
    uint64_t limit;
    const char *tenant, *metadata;
} ls_args;

static const opt_def ls_defs[] = {
    OPT_LIST("-s, --state STATE", "running, paused, stopped, …", ls_args, states),
    OPT_LIST("-l, --label KEY=VALUE", "only those that carry it", ls_args, labels),
    OPT_STR("--metadata JSON", "only those whose metadata has all that this object has", ls_args,
            metadata),
    OPT_STR("--tenant NAME", "only those of one tenant", ls_args, tenant),
    OPT_NUM("-n, --limit N", "at most this many", ls_args, limit, 1),
    OPT_END
};

static void add_row(out_list *v, const cay_info *i)
{
    out_table *t = &v->table;
    out_cell(t, OUT_BOLD, i->id);
    if (strcmp(i->tenant, CAY_TENANT_DEFAULT) != 0) /* shown where it is not everybody's */
        out_row(t, "%s/%s", i->tenant, cay__text_or(i->name, "-"));
    else
        out_row(t, "-%s", i->name);
    const char *wall = show_wall(i);
    bool open = wall && i->level == CAY_LEVEL_NONE;
    out_row(t, "%c%s|%c-%s|%s|%s|%s|~-%s", show_state_style(i->state), cay_state_name(i->state),
            open ? OUT_BAD : OUT_PLAIN, wall, i->provider, out_age(v->now - i->created_ms).s,
            i->deadline_ms ? out_age(i->deadline_ms - v->now).s : "-", i->reason);
    out_list_labels(v, i->labels);
}

static int on_info(const cay_info *i, void *arg)
{
    out_list *v = arg;
    if (cli.json)
        show_info_json(&v->json, i, NULL);
    else if (!out_list_name(i->id))
        add_row(v, i);
    return out_broken();
}

static int make_filter(const ls_args *a, cli_pairs *labels, cay_filter *f, cay_err *err)
{
    *f = (cay_filter){ .size = sizeof *f,
                       .limit = (size_t)a->limit,
                       .provider = cli.provider,
                       .tenant = a->tenant,
                       .metadata = a->metadata };
    CAY_EACH_OF(state, a->states.v, a->states.n) {
        cay_state s = cay_state_parse(*state);
        if (s == CAY_STATE_NONE)
            return cay_fail(
                err, CAY_EINVAL,
                "--state \"%s\": want creating, running, paused, stopped, deleting or damaged",
                *state);
        f->states |= 1u << s;
    }
    CAY_TRY(pairs_labels(labels, &a->labels, err));
    f->labels = labels->v;
    return 0;
}

static int list_sandboxes(cli_call *c, cay_err *err)
{
    cli_pairs labels = { 0 };
    cay_filter f;
    int rc;
    if (make_filter(c->opts, &labels, &f, err) < 0) {
        rc = cli_usage(c->verb, err);
    } else {
        rc = cli_client(&c->client, err);
        if (rc == 0)
            rc = cay_client_list(c->client, NULL, &f, on_info, c->list, err);
    }
    pairs_clear(&labels);
    return rc;
}

const cli_verb cli_ls = {
    "ls",
    "[OPTIONS]",
    "list sandboxes, oldest first",
    .examples = "  cay ls\n"
                "  cay ls -q --state stopped | xargs -r cay rm\n"
                "  cay ls --label team=web --json\n"
                "  cay ls --metadata '{\"ticket\":7}'",
    CLI_OPTS(ls_defs, ls_args),
    .columns = "ID|NAME|STATE|WALL|PROVIDER|>AGE|>LEFT|REASON|LABELS",
    .fn = list_sandboxes,
};

typedef struct inspect_args {
    bool text;
} inspect_args;

static const opt_def inspect_defs[] = {
    OPT_FLAG("--text", "for people instead of JSON", inspect_args, text), OPT_END
};

static int inspect_sandbox(cay_sandbox *sb, const inspect_args *a, out_json *j, cay_err *err)
{
    cay_info *info = NULL;
    CAY_TRY(cay_sandbox_describe(sb, NULL, &info, err));
    if (a->text) {
        show_info_text(info);
        show_endpoints_text(sb);
    } else {
        CAY_AUTOFREE char *text = NULL, *net = NULL;
        CAY_AUTOFREE char *services = show_services_json(sb), *endpoints = show_endpoints_json(sb);
        /* A stopped one, or one of another provider, has none to show. */
        if (cay_sandbox_get_policy(sb, NULL, &text, NULL, NULL) == 0)
            cay_policy_to_json(text, &net, NULL);
        show_info_json(j, info, &(show_more){ net, services, endpoints });
    }
    cay_info_free(info);
    return 0;
}

static int inspect_sandboxes(cli_call *c, cay_err *err)
{
    const inspect_args *a = c->opts;
    out_json j = OUT_JSON(true);
    int code = CLI_OK;
    if (c->argc > 1)
        js_open(&j, '[');
    for (int i = 0; i < c->argc; i++) {
        CAY_AUTOPTR(cay_sandbox) sb = NULL;
        if (a->text && i)
            out_str("\n");
        if (cli_boxes->find(c->argv[i], &sb, err) < 0 || inspect_sandbox(sb, a, &j, err) < 0)
            code = cli_fail(err, CLI_FAIL);
    }
    if (c->argc > 1)
        js_close(&j, ']');
    if (!a->text && (c->argc > 1 || code == CLI_OK))
        js_flush(&j);
    cay__buf_clear(&j.b);
    return code;
}

const cli_verb cli_inspect = {
    "inspect",
    "[--text] ID…",
    "tell all that is known of a sandbox, as JSON",
    .text = "One id gives one object, several give an array.",
    .examples = "  cay inspect c7f\n"
                "  cay inspect c7f | jq -r .state\n"
                "  cay inspect --text c7f",
    CLI_OPTS(inspect_defs, inspect_args),
    .min = 1,
    .max = CLI_ANY,
    .fn = inspect_sandboxes,
};
