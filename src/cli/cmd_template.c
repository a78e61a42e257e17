/* SPDX-License-Identifier: Apache-2.0 */
/* cay template ls, inspect, tag, rm, save: what sandboxes start from. */
#include "main.h"
#include "out.h"
#include "show.h"
#include <base/base.h>
#include <cay/template.h>

CAY_DEFINE_AUTO(cay_template, cay_template_free)

void show_template_json(out_json *j, const cay_template *t)
{
    show_object(j, &cay__template_shape, &(cay__template_view){ .t = *t });
}

static void print_json(const cay_template *t)
{
    out_json j = OUT_JSON(true);
    show_template_json(&j, t);
    js_flush(&j);
}

void cli_template_print(const cay_template *t)
{
    if (cli.json)
        print_json(t);
    else
        out_fmt("%s\n", t->id);
}

const char *const *cli_template_names(const char **room, int n, char **words)
{
    for (int i = 0; i < n; i++)
        room[i] = words[i];
    room[n] = NULL;
    return room;
}

static int on_template(const cay_template *t, void *arg)
{
    out_list *r = arg;
    if (cli.json)
        show_template_json(&r->json, t);
    if (cli.json || out_list_name(t->id))
        return out_broken();
    for (const char *const *p = t->names;; p++) { /* a line for each name */
        bool counted = t->bytes || !t->nlayers;   /* one that was built has not been, by anybody */
        out_row(&r->table, "*-%s|%s|%s|%zu|%s|%s|%zu|~%s", *p, t->id, t->base, t->nlayers,
                counted ? out_size(t->bytes).s : "-", out_age(r->now - t->created_ms).s, t->users,
                t->source);
        if (!*p || !p[1])
            return out_broken();
    }
}

static int list_templates(cli_call *c, cay_err *err)
{
    cay_template_filter f = { .size = sizeof f, .name = c->argc ? c->argv[0] : NULL };
    return cay_template_list(c->client, NULL, &f, on_template, c->list, err);
}

const cli_verb cli_template_ls = {
    "template ls",
    "[NAME]",
    "list templates, oldest first",
    .text = "Template `host` is always there and not listed. BASE is what the layers stand on: "
            "`image` is a root filesystem of its own, `host` the\n"
            "programs of this machine. USERS is how many sandboxes were made from it.",
    .examples = "  cay template ls\n"
                "  cay template ls python --json",
    .max = 1,
    .needs = CLI_CLIENT,
    .columns = "NAME|ID|BASE|>LAYERS|>SIZE|>AGE|>USERS|SOURCE",
    .fn = list_templates,
};

static int inspect_template(cli_call *c, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    CAY_TRY(cay_template_find(c->client, NULL, NULL, c->argv[0], &t, err));
    print_json(t);
    return CLI_OK;
}

const cli_verb cli_template_inspect = {
    "template inspect",
    "TEMPLATE",
    "tell all that is known of a template, as JSON",
    .text = "TEMPLATE is a name, an id, or the beginning of an id.",
    .examples = "  cay template inspect python:3.11 | jq .config.env",
    .min = 1,
    .needs = CLI_CLIENT,
    .fn = inspect_template,
};

static int tag_template(cli_call *c, cay_err *err)
{
    return cay_template_name(c->client, NULL, NULL, c->argv[0], c->argv[1], err);
}

const cli_verb cli_template_tag = {
    "template tag",
    "TEMPLATE NAME",
    "give a template one more name",
    .text = "NAME goes from the template that had it.",
    .examples = "  cay template tag python:3.11-slim python:3.11",
    .min = 2,
    .needs = CLI_CLIENT,
    .fn = tag_template,
};

static int remove_template(cli_call *c, cay_err *err)
{
    return cli_forgive(c, cay_template_remove(c->client, NULL, NULL, c->argv[0], err));
}

const cli_verb cli_template_rm = {
    "template rm",
    "[OPTIONS] TEMPLATE…",
    "forget templates",
    .text = "A name that is not the last one of its template goes alone. Sandboxes and snapshots "
            "that stand on it keep working; its layers go when nobody\n"
            "stands on them any more.",
    .examples = "  cay template rm python:3.11\n"
                "  cay template ls -q | xargs -r cay template rm",
    CLI_OPTS(cli_force_defs, cli_force),
    .min = 1,
    .max = 1000,
    .needs = CLI_CLIENT | CLI_EACH | CLI_GO_ON,
    .fn = remove_template,
};

typedef struct save_args {
    const char *config;
    bool hidden;
} save_args;

static const opt_def save_defs[] = {
    OPT_STR("--config JSON",
            "what it tells its sandboxes: env, user, workdir, …; "
            "without it what the sandbox had from its own template",
            save_args, config),
    OPT_FLAG("--hidden", "not for other tenants", save_args, hidden), OPT_END
};

static int save_template(cli_call *c, cay_err *err)
{
    const save_args *a = c->opts;
    CAY_AUTOPTR(cay_template) t = NULL;
    const char *names[CLI_TEMPLATE_NAMES + 1];
    cay_template_spec spec = { .size = sizeof spec,
                               .from = c->argv[0],
                               .names = cli_template_names(names, c->argc - 1, c->argv + 1),
                               .config = a->config,
                               .hidden = a->hidden };
    CAY_TRY(cay_template_publish(c->client, NULL, &spec, &t, err));
    cli_template_print(t);
    return CLI_OK;
}

const cli_verb cli_template_save = {
    "template save",
    "[OPTIONS] SANDBOX|SNAPSHOT [NAME…]",
    "make a template of a sandbox's files as they are now, and print its id",
    .text = "Nothing is copied. What is mounted into the sandbox is no part of it.",
    .examples = "  cay template save c7f tools:1\n"
                "  cay run --template tools:1 -- make",
    CLI_OPTS(save_defs, save_args),
    .min = 1,
    .max = 1 + CLI_TEMPLATE_NAMES,
    .needs = CLI_CLIENT,
    .fn = save_template,
};
