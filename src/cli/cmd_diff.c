/* SPDX-License-Identifier: Apache-2.0 */
/* cay diff: what a sandbox changed. */
#include "show.h"
#include "main.h"
#include "out.h"
#include <base/base.h>

typedef struct diff_args {
    bool patch, all, every, exit_code;
    uint64_t context;
} diff_args;

static const opt_def defs[] = {
    OPT_FLAG("-p, --patch", "as a patch that `git apply` takes", diff_args, patch),
    OPT_NUM("-U, --unified N", "lines around each change of a patch (default 3)", diff_args,
            context, 1, 1000),
    OPT_FLAG("-a, --all", "the whole root, not only /workspace", diff_args, all),
    OPT_FLAG("--every", "each file below deleted and renamed directories", diff_args, every),
    OPT_FLAG("--exit-code", "leave with 1 when anything changed", diff_args, exit_code),
    OPT_END
};

typedef struct diff_view {
    const diff_args *a;
    out_json json;
    uint64_t n;
} diff_view;

static int on_change(const cay_file_change *c, void *arg)
{
    diff_view *v = arg;
    v->n++;
    if (cli.json)
        change_json(&v->json, c, v->a->patch, NULL);
    else if (v->a->patch && c->text)
        out_data(1, c->text, c->text_len);
    else if (!v->a->patch && !cli.quiet)
        change_print(c, v->a->all ? "/" : "");
    if (out_broken())
        return CAY_ECANCELED;
    return 0;
}

static int show_diff(cli_call *c, cay_err *err)
{
    const diff_args *a = c->opts;
    uint64_t left = 0;
    diff_view v = { .a = a, .json = OUT_JSON(true) };
    cay_diff d = { .size = sizeof d,
                   .a = c->argv[0],
                   .b = c->argc > 1 ? c->argv[1] : NULL,
                   .all = a->all,
                   .every = a->every,
                   .patch = a->patch || a->context,
                   .context = (unsigned)a->context };
    diff_args as = *a;
    as.patch = d.patch;
    v.a = &as;
    js_open(&v.json, '[');
    int rc = cay_client_diff(c->client, NULL, &d, on_change, &v, &left, err);
    if (rc < 0 && out_broken()) {
        cay__buf_clear(&v.json.b);
        return CLI_OK;
    }
    if (rc < 0) {
        cay__buf_clear(&v.json.b);
        return cli_fail(err, CLI_FAIL);
    }
    js_close(&v.json, ']');
    if (cli.json)
        js_flush(&v.json);
    cay__buf_clear(&v.json.b);
    if (left)
        out_note("cay: the patch is longer than 64 MiB; %ju changes are left out of it", left);
    if (a->exit_code && v.n)
        return CLI_FAIL;
    return CLI_OK;
}

const cli_verb cli_diff = {
    "diff",
    "[OPTIONS] A [B]",
    "show what changed, as a list or a patch",
    .text = "A and B are sandboxes, as they are now, or snapshots. Without B: from what sandbox A "
            "started from to what it is\n"
            "now; for one made on a directory (--on), from that directory. A added, M modified, D "
            "deleted, T of another type,\n"
            "R a renamed directory. Names are escaped; on a terminal a patch is, too.",
    .examples = "  cay diff c7f2             # what it did in /workspace\n"
                "  cay diff -p c7f2 > p.diff # as a patch\n"
                "  cay diff s2ab s9xy        # between two snapshots",
    CLI_OPTS(defs, diff_args),
    .min = 1,
    .max = 2,
    .needs = CLI_CLIENT,
    .fn = show_diff,
};
