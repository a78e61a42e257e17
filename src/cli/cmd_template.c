/* SPDX-License-Identifier: Apache-2.0 */
/* cay template ls, inspect, tag, rm, save: what sandboxes start from. */
#include "remove_many.h"
#include "main.h"
#include "open.h"
#include "rows.h"
#include "show.h"
#include <base/base.h>
#include <cay/template.h>

CAY_DEFINE_AUTO(cay_template, cay_template_free)

void show_template_json(out_json *j, const cay_template *t)
{
    js_open(j, '{');
    js_kstr(j, "id", t->id);
    js_key(j, "names");
    js_open(j, '[');
    for (const char *const *p = t->names; *p; p++)
        js_str(j, *p);
    js_close(j, ']');
    js_kstr(j, "tenant", t->tenant);
    js_kbool(j, "shared", t->shared);
    js_kstr(j, "base", t->base);
    js_kstr(j, "source", t->source);
    js_kstr(j, "digest", t->digest);
    js_ku64(j, "bytes", t->bytes);
    js_ku64(j, "files", t->files);
    js_ki64(j, "created_ms", t->created_ms);
    js_ku64(j, "users", t->users);
    js_key(j, "layers");
    js_open(j, '[');
    for (size_t i = 0; i < t->nlayers; i++)
        js_str(j, t->layers[i]);
    js_close(j, ']');
    js_key(j, "config");
    js_raw(j, t->config);
    js_close(j, '}');
}

static void print_json(const cay_template *t)
{
    out_json j = OUT_JSON(true);
    show_template_json(&j, t);
    js_flush(&j);
    cay__buf_clear(&j.b);
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
    rows *r = arg;
    out_table *o = &r->table;
    char text[OUT_HUMAN];
    if (cli.json) {
        show_template_json(&r->json, t);
        return out_broken();
    }
    if (cli.quiet) {
        out_fmt("%s\n", t->id);
        return out_broken();
    }
    for (const char *const *p = t->names;; p++) { /* a line for each name */
        out_cell(o, OUT_BOLD, *p ? *p : "-");
        out_cell(o, OUT_PLAIN, t->id);
        out_cell(o, OUT_PLAIN, t->base);
        out_cellf(o, OUT_PLAIN, "%zu", t->nlayers);
        out_cell(o, OUT_PLAIN,
                 t->bytes || !t->nlayers ? out_size(text, t->bytes)
                                         : "-"); /* of one that was built nobody has counted */
        out_cell(o, OUT_PLAIN, out_span(text, (uint64_t)CAY_MAX(r->now - t->created_ms, 0)));
        out_cellf(o, OUT_PLAIN, "%zu", t->users);
        out_cell(o, OUT_DIM, t->source);
        if (!*p || !p[1])
            return out_broken();
    }
}

static int list_templates(void *opts, int argc, char **argv)
{
    static const char *const titles[] = { "NAME", "ID",     "BASE",   ">LAYERS", ">SIZE",
                                          ">AGE", ">USERS", "SOURCE", NULL };
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    cay_template_filter f = { .size = sizeof f, .name = argc ? argv[0] : NULL };
    rows r;
    (void)opts;
    if (cli_service(&client, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    rows_open(&r, titles);
    return rows_done(&r, cay_template_list(client, NULL, &f, on_template, &r, &err), &err);
}

const cli_verb cli_template_ls = {
    .name = "template ls",
    .operands = "[NAME]",
    .summary = "list templates, oldest first",
    .text = "Template `host` is always there and not listed. BASE is what the layers stand on: "
            "`image` is a root filesystem of its own, `host` the\n"
            "programs of this machine. USERS is how many sandboxes were made from it.",
    .examples = "  cay template ls\n"
                "  cay template ls python --json",
    .max = 1,
    .fn = list_templates,
};

static int inspect_template(void *opts, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOPTR(cay_template) t = NULL;
    cay_client *client;
    (void)opts, (void)argc;
    if (cli_service(&client, &err) < 0 ||
        cay_template_find(client, NULL, NULL, argv[0], &t, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    print_json(t);
    return CLI_OK;
}

const cli_verb cli_template_inspect = {
    .name = "template inspect",
    .operands = "TEMPLATE",
    .summary = "tell all that is known of a template, as JSON",
    .text = "TEMPLATE is a name, an id, or the beginning of an id.",
    .examples = "  cay template inspect python:3.11 | jq .config.env",
    .min = 1,
    .max = 1,
    .fn = inspect_template,
};

static int tag_template(void *opts, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    (void)opts, (void)argc;
    if (cli_service(&client, &err) < 0 ||
        cay_template_name(client, NULL, NULL, argv[0], argv[1], &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    return CLI_OK;
}

const cli_verb cli_template_tag = {
    .name = "template tag",
    .operands = "TEMPLATE NAME",
    .summary = "give a template one more name",
    .text = "NAME goes from the template that had it.",
    .examples = "  cay template tag python:3.11-slim python:3.11",
    .min = 2,
    .max = 2,
    .fn = tag_template,
};

static int remove_template(cay_client *client, const char *ref, cay_err *err)
{
    return cay_template_remove(client, NULL, NULL, ref, err);
}

static int remove_templates(void *opts, int argc, char **argv)
{
    return forget_all(opts, argc, argv, remove_template);
}

const cli_verb cli_template_rm = {
    .name = "template rm",
    .operands = "[OPTIONS] TEMPLATE…",
    .summary = "forget templates",
    .text = "A name that is not the last one of its template goes alone. Sandboxes and snapshots "
            "that stand on it keep working; its layers go when nobody\n"
            "stands on them any more.",
    .examples = "  cay template rm python:3.11\n"
                "  cay template ls -q | xargs -r cay template rm",
    .opts = { { forget_defs, 0 } },
    .size = sizeof(forget_args),
    .min = 1,
    .max = 1000,
    .fn = remove_templates,
};

typedef struct save_args {
    const char *config;
    bool hidden;
} save_args;

static const opt_def save_defs[] = { { "config", 0, "JSON",
                                       "what it tells its sandboxes: env, user, workdir, …; "
                                       "without it what the sandbox had from its own template",
                                       OPT_STR, offsetof(save_args, config) },
                                     { "hidden", 0, NULL, "not for other tenants", OPT_FLAG,
                                       offsetof(save_args, hidden) },
                                     OPT_END };

static int save_template(void *opts, int argc, char **argv)
{
    const save_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOPTR(cay_template) t = NULL;
    cay_client *client;
    const char *names[CLI_TEMPLATE_NAMES + 1];
    cay_template_spec spec = { .size = sizeof spec,
                               .from = argv[0],
                               .names = cli_template_names(names, argc - 1, argv + 1),
                               .config = a->config,
                               .hidden = a->hidden };
    if (cli_service(&client, &err) < 0 || cay_template_publish(client, NULL, &spec, &t, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    cli_template_print(t);
    return CLI_OK;
}

const cli_verb cli_template_save = {
    .name = "template save",
    .operands = "[OPTIONS] SANDBOX|SNAPSHOT [NAME…]",
    .summary = "make a template of a sandbox's files as they are now, and print its id",
    .text = "Nothing is copied. What is mounted into the sandbox is no part of it.",
    .examples = "  cay template save c7f tools:1\n"
                "  cay run --template tools:1 -- make",
    .opts = { { save_defs, 0 } },
    .size = sizeof(save_args),
    .min = 1,
    .max = 1 + CLI_TEMPLATE_NAMES,
    .fn = save_template,
};
