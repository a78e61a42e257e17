/* SPDX-License-Identifier: Apache-2.0 */
/* cay apply: what a sandbox changed, into the directory it was made on. */
#include "show.h"
#include "main.h"
#include "out.h"
#include <base/base.h>

typedef struct apply_args {
    bool yes, dry, force;
    const char *to, *since;
} apply_args;

static const opt_def defs[] = {
    OPT_FLAG("-y, --yes", "take everything over without asking", apply_args, yes),
    OPT_FLAG("-n, --dry-run", "say what would be done, and write nothing", apply_args, dry),
    OPT_FLAG("--force", "also where the directory changed since the sandbox was made", apply_args,
             force),
    OPT_STR("--to DIR", "into this directory instead of the one it was made on", apply_args, to),
    OPT_STR("--since SNAPSHOT", "with --host: what changed since then, not since it was made",
            apply_args, since),
    OPT_END
};

typedef struct apply_view {
    bool all, asks;
    out_json json;
} apply_view;

static const char *const words[] = { "applied", "conflict", "guarded", "refused",
                                     "gone",    "declined", "same" };

static void on_change_result(const cay_file_change *c, cay_apply_result r, const char *why,
                             void *arg)
{
    apply_view *v = arg;
    if (cli.json) {
        change_json(&v->json, c, false, words[r]);
        return;
    }
    if (r == CAY_APPLY_DONE && !cli.quiet && !v->asks)
        change_print(c, "");
    if (r == CAY_APPLY_DONE || r == CAY_APPLY_DECLINED || r == CAY_APPLY_SAME)
        return;
    CAY_AUTOBUF b = CAY__BUF(8192);
    cay__buf_safe(&b, c->path, strlen(c->path), false);
    fprintf(stderr, "cay: %s: %s (%s)\n", CAY_OR(b.data, "?"), why, words[r]);
}

static void show_text(const cay_file_change *c)
{
    if (c->text)
        out_data(1, c->text, c->text_len);
    else
        out_str("(nothing to show: a directory, or permissions alone)\n");
}

/* y takes it, n leaves it, d shows it, a takes all that follow, q ends before anything is written.
 */
static int ask_change(const cay_file_change *c, void *arg)
{
    apply_view *v = arg;
    char line[64];
    if (v->all)
        return 1;
    for (;;) {
        change_print(c, "");
        out_str("  apply? [y/n/d/a/q] ");
        if (!fgets(line, sizeof line, stdin))
            return -1;
        switch (line[0]) {
        case 'y': return 1;
        case 'n': return 0;
        case 'q': return -1;
        case 'a': return v->all = true;
        case 'd': show_text(c); break;
        default:
            out_str("  y takes it, n leaves it, d shows it, a takes all that follow, q stops and "
                    "writes nothing\n");
        }
    }
}

static int print_summary(const cay_applied *sum, const apply_args *a, apply_view *v)
{
    if (cli.json) {
        js_close(&v->json, ']');
        js_flush(&v->json);
    } else {
        out_note("cay: %zu %s%s", sum->done, a->dry ? "would be applied" : "applied",
                 sum->left ? "; what was left is named above" : "");
    }
    cay__buf_clear(&v->json.b);
    if (sum->left)
        return CLI_FAIL;
    return CLI_OK;
}

static int apply_changes(cli_call *c, cay_err *err)
{
    const apply_args *a = c->opts;
    cay_applied sum = { .size = sizeof sum };
    apply_view v = { .all = a->yes, .json = OUT_JSON(true) };
    bool asks = !a->yes && !a->dry;
    if (asks && (!isatty(0) || !isatty(1) || cli.json))
        return cli_misuse(
            c, "there is no terminal to ask on: say --yes to take everything over, or --dry-run "
               "to see what that is");
    v.asks = asks;
    CAY_AUTOFREE char *to = NULL;
    if (a->to)
        to = realpath(a->to, NULL);
    if (a->to && !to) {
        return cay_fail_sys(err, "--to %s", a->to);
    }
    cay_apply spec = { .size = sizeof spec,
                       .dir = to,
                       .paths = (const char *const *)c->argv + 1,
                       .npaths = (size_t)c->argc - 1,
                       .force = a->force,
                       .dry = a->dry,
                       .text = asks,
                       .choose = asks ? ask_change : NULL,
                       .told = on_change_result,
                       .arg = &v,
                       .since = a->since };
    js_open(&v.json, '[');
    if (cli_boxes->find(c->argv[0], &c->sb, err) < 0 ||
        cay_sandbox_apply(c->sb, NULL, &spec, &sum, err) < 0) {
        cay__buf_clear(&v.json.b);
        return cli_fail(err, CLI_FAIL);
    }
    return print_summary(&sum, a, &v);
}

const cli_verb cli_apply = {
    "apply",
    "[OPTIONS] ID [PATH…]",
    "take over what a sandbox changed into the directory it was made on",
    .text = "For sandboxes of `cay run --on DIR` and `cay create --on DIR`. Asks for each change "
            "on a terminal. What changed in\n"
            "the directory meanwhile is a conflict and left, unless --force. Files that tools run "
            "or obey without being asked\n"
            "(.git, .envrc, .vscode, …) and links that leave the directory are only taken when "
            "their PATH is given.\n"
            "With --host, of any sandbox of the server: --to DIR is a directory of this machine, "
            "and what is there has to be what the\n"
            "sandbox began with, or had at --since SNAPSHOT; else it is a conflict.\n"
            "Leaves with 1 when something was left.",
    .examples = "  cay apply c7f2            # one by one\n"
                "  cay apply c7f2 --yes      # all that is not in the way of anything\n"
                "  cay apply c7f2 src README.md --yes\n"
                "  cay apply c7f2 --dry-run\n"
                "  cay --host box apply --since before --to . web --yes",
    CLI_OPTS(defs, apply_args),
    .min = 1,
    .max = CLI_ANY,
    .fn = apply_changes,
};
