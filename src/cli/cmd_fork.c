/* SPDX-License-Identifier: Apache-2.0 */
/* cay fork and cay undo: several ways on from one point, and the way back. */
#include "sandbox_options.h"
#include "main.h"
#include "out.h"
#include "show.h"
#include "progress.h"
#include <base/base.h>
#include <cay/snapshot.h>

CAY_DEFINE_AUTO(cay_snapshot, cay_snapshot_free)

/* The bar goes before the first id comes. */
typedef struct forked {
    out_json j;
    cli_waiting w;
} forked;

typedef struct fork_args {
    uint64_t n, ttl_ms;
    const char *name;
    opt_list labels;
} fork_args;

static const opt_def fork_defs[] = {
    OPT_NUM("-n, --count N", "how many (default 1)", fork_args, n, 1, 1000),
    OPT_STR("--name NAME", "a name; with several, the others get NAME-2, NAME-3, …", fork_args,
            name),
    OPT_LIST("-l, --label KEY=VALUE", "labels instead of those it has", fork_args, labels),
    OPT_MS("--ttl TIME", "end them after this time", fork_args, ttl_ms, 1), OPT_END
};

static int on_fork(cay_sandbox *sb, void *arg)
{
    forked *f = arg;
    cay_info *info = NULL;
    waiting_end(&f->w);
    if (!cli.json) {
        out_fmt("%s\n", cay_sandbox_id(sb));
    } else if (cay_sandbox_describe(sb, NULL, &info, NULL) == 0) {
        show_info_json(&f->j, info, NULL);
        cay_info_free(info);
    }
    return 0;
}

static int create_forks(const fork_args *a, const char *from, cli_pairs *labels)
{
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    forked f = { .j = OUT_JSON(true) };
    cay_fork spec = { .size = sizeof spec,
                      .n = (size_t)a->n,
                      .name = a->name,
                      .labels = labels->v,
                      .ttl_ms = a->ttl_ms };
    js_open(&f.j, '[');
    waiting_begin(&f.w, "fork", from);
    int rc = cli_client(&client, &err);
    if (rc == 0)
        rc = cay_client_fork(client, NULL, from, &spec, on_fork, &f, &err);
    waiting_end(&f.w);
    js_close(&f.j, ']');
    if (rc == 0 && cli.json)
        js_flush(&f.j);
    cay__buf_clear(&f.j.b);
    if (rc < 0)
        return cli_fail(&err, CLI_FAIL);
    return CLI_OK;
}

static int fork_sandbox(cli_call *c, cay_err *err)
{
    const fork_args *a = c->opts;
    cli_pairs labels = { 0 };
    int code;
    if (pairs_labels(&labels, &a->labels, err) < 0)
        code = cli_usage(c->verb, err);
    else
        code = create_forks(a, c->argv[0], &labels);
    pairs_clear(&labels);
    return code;
}

const cli_verb cli_fork = {
    "fork",
    "[-n N] [--name NAME] ID|SNAPSHOT",
    "make sandboxes that go on from a sandbox or snapshot, and print their ids",
    .text = "A sandbox is snapshotted first and goes on as it was. Each fork has its own id, host "
            "name, machine id, network and tokens;\n"
            "limits, environment and policy are those of the first. No process comes along. All "
            "are made or none.",
    .examples =
        "  cay fork c7f\n"
        "  for id in $(cay fork -n 3 c7f); do cay exec \"$id\" -- ./try-something & done; wait\n"
        "  cay fork --name second tested",
    CLI_OPTS(fork_defs, fork_args),
    .min = 1,
    .fn = fork_sandbox,
};

typedef struct undo_args {
    const char *to;
} undo_args;

static const opt_def undo_defs[] = {
    OPT_STR("--to SNAPSHOT",
            "back to this one (default: the last; with --checkpoint, before the last command)",
            undo_args, to),
    OPT_END
};

static int undo_changes(cli_call *c, cay_err *err)
{
    const undo_args *a = c->opts;
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    cli_waiting w;
    waiting_begin(&w, "undo", c->argv[0]);
    int rc = cli_boxes->find(c->argv[0], &c->sb, err);
    if (rc == 0)
        rc = cay_sandbox_undo(c->sb, NULL, a->to, &s, err);
    waiting_end(&w);
    CAY_TRY(rc);
    cli_snapshot_print(s);
    return CLI_OK;
}

const cli_verb cli_undo = {
    "undo",
    "[--to SNAPSHOT] ID",
    "take a sandbox back to a snapshot, and print which",
    .text = "Its processes end and what it wrote since is gone; id, network, ports and limits "
            "stay. The snapshot may be one of this sandbox\n"
            "or one that it came from. In a sandbox with --checkpoint each undo takes one command "
            "back.",
    .examples = "  id=$(cay create --checkpoint)\n"
                "  cay exec $id -- rm -rf src\n"
                "  cay undo $id\n"
                "  cay undo --to tested $id",
    CLI_OPTS(undo_defs, undo_args),
    .min = 1,
    .fn = undo_changes,
};
