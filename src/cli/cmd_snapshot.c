/* SPDX-License-Identifier: Apache-2.0 */
/* cay snapshot, snapshots, snapshot inspect, rename and rm: workspaces that are kept. */
#include "main.h"
#include "out.h"
#include "show.h"
#include "progress.h"
#include <base/base.h>
#include <cay/snapshot.h>

CAY_DEFINE_AUTO(cay_snapshot, cay_snapshot_free)

void cli_snapshot_print(const cay_snapshot *s)
{
    if (cli.json)
        show_print(&cay__snapshot_shape, s);
    else
        out_fmt("%s\n", s->id);
}

typedef struct take_args {
    const char *label, *metadata;
    bool quiet, stop;
} take_args;

static const opt_def take_defs[] = {
    OPT_STR("-l, --label LABEL", "a name for it, which no other snapshot has", take_args, label),
    OPT_STR("--meta JSON", "one JSON object kept with it", take_args, metadata),
    OPT_FLAG("--quiet", "refuse while a process of the sandbox is running", take_args, quiet),
    OPT_FLAG("--stop", "where processes cannot be frozen, stop them by signals for the moment",
             take_args, stop),
    OPT_END
};

static int create_snapshot(cli_call *c, cay_err *err)
{
    const take_args *a = c->opts;
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    cay_snapshot_spec spec = { .size = sizeof spec,
                               .label = a->label,
                               .metadata = a->metadata,
                               .quiet = a->quiet,
                               .stop = a->stop };
    cli_waiting w;
    waiting_begin(&w, "snapshot", c->argv[0]);
    int rc = cli_find(c, err);
    if (rc == 0)
        rc = cay_sandbox_snapshot(c->sb, NULL, &spec, &s, err);
    waiting_end(&w);
    CAY_TRY(rc);
    cli_snapshot_print(s);
    return CLI_OK;
}

const cli_verb cli_snapshot = {
    "snapshot",
    "[OPTIONS] ID",
    "keep a sandbox's files as they are now, and print the snapshot's id",
    .text = "It takes about a millisecond however many files there are, when no process runs "
            "inside; otherwise processes are held\n"
            "still for the moment it takes. Snapshots outlive their sandbox. See also `cay "
            "snapshots`, `cay fork`, `cay undo`,\n"
            "`cay snapshot inspect`, `cay snapshot rename` and `cay snapshot rm`.",
    .examples = "  cay snapshot c7f\n"
                "  cay snapshot --label tested --meta '{\"commit\":\"a1b2c3\"}' c7f\n"
                "  cay create --from tested",
    CLI_OPTS(take_defs, take_args),
    .min = 1,
    .fn = create_snapshot,
};

static int on_snapshot(const cay_snapshot *s, void *arg)
{
    out_list *r = arg;
    if (show_item(r, &cay__snapshot_shape, s, s->id))
        return out_broken();
    const char *state = "settling";
    out_style style = OUT_DIM;
    if (s->maybe_incomplete) {
        state = "maybe-incomplete";
        style = OUT_BAD;
    } else if (s->durable) {
        state = "durable";
        style = OUT_GOOD;
    }
    out_row(&r->table, "*%s|-%s|-%s|%s|%s|%zu|%zu|%c%s", s->id,
            cay__text_or(s->label, CAY_TEXT_IF(s->automatic, "(checkpoint)")), s->sandbox,
            out_age(r->now - s->created_ms).s, s->method, s->depth, s->users, style, state);
    return out_broken();
}

static int list_snapshots(cli_call *c, cay_err *err)
{
    cay_snapshot_filter f = { .size = sizeof f };
    int rc = 0;
    if (c->argc)
        rc = cli_find(c, err);
    if (rc == CAY_ENOENT && strlen(c->argv[0]) == CAY_ID_LEN)
        f.sandbox = c->argv[0]; /* snapshots outlive their sandbox */
    else if (rc < 0)
        return rc;
    if (c->sb)
        f.sandbox = cay_sandbox_id(c->sb);
    return cay_client_snapshots(c->client, NULL, &f, on_snapshot, c->list, err);
}

const cli_verb cli_snapshots = {
    "snapshots",
    "[ID]",
    "list snapshots, of all sandboxes or of one, oldest first",
    .text = "LAYERS is how many it stands on, USERS how many sandboxes stand on it. A snapshot is "
            "`settling` until it is on the disk for\n"
            "sure, which is seen to in the background, then `durable`; `maybe-incomplete` when the "
            "machine went down before that.",
    .examples = "  cay snapshots\n"
                "  cay snapshots c7f --json\n"
                "  cay snapshots -q c7f | xargs -r cay snapshot rm",
    .max = 1,
    .needs = CLI_CLIENT,
    .columns = "ID|LABEL|SANDBOX|>AGE|METHOD|>LAYERS|>USERS|STATE",
    .fn = list_snapshots,
};

static int inspect_snapshot(cli_call *c, cay_err *err)
{
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    CAY_TRY(cay_client_snapshot(c->client, NULL, c->argv[0], &s, err));
    show_print(&cay__snapshot_shape, s);
    return CLI_OK;
}

const cli_verb cli_snapshot_inspect = {
    "snapshot inspect",
    "SNAPSHOT",
    "tell all that is known of a snapshot, as JSON",
    .text = "SNAPSHOT is an id, its beginning, or a label.",
    .examples = "  cay snapshot inspect tested | jq -r .digest",
    .min = 1,
    .needs = CLI_CLIENT,
    .fn = inspect_snapshot,
};

static int rename_snapshot(cli_call *c, cay_err *err)
{
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    /* By its id from here on: another one may have got the label meanwhile. */
    CAY_TRY(cay_client_snapshot(c->client, NULL, c->argv[0], &s, err));
    CAY_TRY(cay_snapshot_rename(c->client, NULL, s->id, c->argc > 1 ? c->argv[1] : "", err));
    if (!cli.quiet)
        out_fmt("%s\n", s->id);
    return CLI_OK;
}

const cli_verb cli_snapshot_rename = {
    "snapshot rename",
    "SNAPSHOT [LABEL]",
    "give a snapshot another label, or none",
    .text = "SNAPSHOT is an id, its beginning, or a label. A checkpoint that has a label is never "
            "removed by the ones after it.",
    .examples = "  cay snapshot rename s4kq tested\n"
                "  cay snapshot rename tested",
    .min = 1,
    .max = 2,
    .needs = CLI_CLIENT,
    .fn = rename_snapshot,
};

static int remove_snapshot(cli_call *c, cay_err *err)
{
    const char *ref = c->argv[0];
    bool deferred = false;
    int rc = cay_snapshot_remove(c->client, NULL, ref, &deferred, err);
    if (rc < 0)
        return cli_forgive(c, rc);
    if (cli.json)
        out_object(false, "removed:%s, deferred?%d", ref, deferred);
    else if (!cli.quiet)
        out_fmt("%s\n", ref);
    if (deferred && !cli.json)
        out_note("cay: %s is forgotten; sandboxes or snapshots stand on its files, which stay "
                 "until the last of them is gone",
                 ref);
    return CLI_OK;
}

const cli_verb cli_snapshot_rm = {
    "snapshot rm",
    "[-f] SNAPSHOT…",
    "forget snapshots",
    .text =
        "Files that a sandbox or another snapshot stands on stay until the last of them is gone.",
    .examples = "  cay snapshot rm tested",
    CLI_OPTS(cli_force_defs, cli_force),
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_CLIENT | CLI_EACH | CLI_GO_ON,
    .fn = remove_snapshot,
};
