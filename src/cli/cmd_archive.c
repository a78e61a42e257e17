/* SPDX-License-Identifier: Apache-2.0 */
/* cay snapshot export, import, push, pull: snapshots as archives, in files and stores. */
#include "main.h"
#include "progress.h"
#include "show.h"
#include <base/base.h>
#include <cay/snapshot.h>

CAY_DEFINE_AUTO(cay_snapshot, cay_snapshot_free)

static int on_progress(uint64_t files, uint64_t bytes, void *arg)
{
    cli_progress *p = arg;
    p->files = files;
    progress_add(p, bytes > p->done ? bytes - p->done : 0);
    return 0;
}

static void print_archived(const char *where, const cay_archived *a)
{
    if (cli.json) {
        out_object(true, "archive:%s, digest:%s, files:%ju, bytes:%ju", where, a->digest, a->files,
                   a->bytes);
    } else if (!cli.quiet) {
        out_fmt("%s\n", where);
    }
}

typedef struct export_args {
    const char *output, *since, *format, *auth;
} export_args;

static const opt_def export_defs[] = {
    OPT_STR("-o, --output FILE",
            "into this file, which appears when it is whole; - is standard output", export_args,
            output),
    OPT_STR("--since SNAPSHOT", "only what changed after this one", export_args, since),
    OPT_STR("--format FORMAT",
            "cay (tar.zst of everything), tar or js (the workspace, as the Agents SDKs keep it)",
            export_args, format),
    OPT_END
};

static const char *choose_suffix(const char *format)
{
    if (!format || !strcmp(format, "cay"))
        return ".tar.zst";
    if (!strcmp(format, "tar"))
        return ".tar";
    return ".json";
}

static int to_stdout(cay_client *client, const cay_export *spec, cay_archived *a, cay_err *err)
{
    if (isatty(1))
        return cay_fail_why(err, CAY_EINVAL, "output_terminal",
                            "an archive is nothing for a terminal: name a file by -o, or redirect");
    return cay_client_export(client, NULL, spec, 1, a, err);
}

static int export_run(cli_call *c, cay_err *err)
{
    const export_args *a = c->opts;
    cli_progress bar;
    char name[CAY_ID_LEN + 80];
    cay_archived got = { .size = sizeof got };
    cay_export spec = { .size = sizeof spec,
                        .ref = c->argv[0],
                        .since = a->since,
                        .format = a->format,
                        .progress = on_progress,
                        .arg = &bar };
    CAY_AUTOFREE char *where = NULL;
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    int rc = 0;
    bool out = a->output && !strcmp(a->output, "-");
    if (rc == 0 && !a->output) {
        const char *id;
        if (cay_client_snapshot(c->client, NULL, c->argv[0], &s, NULL) == 0)
            id = s->id;
        else
            id = c->argv[0];
        CAY_FORMAT(name, "%.64s%s", id, choose_suffix(a->format));
    }
    progress_begin(&bar, c->argv[0], 0);
    cay_transfer to = { .size = sizeof to, .url = CAY_OR(a->output, name) };
    if (rc == 0 && !out && strstr(to.url, "://"))
        rc = cay_fail_why(err, CAY_EINVAL, "store_url",
                          "-o takes a file; to a store goes `cay snapshot push`");
    if (rc == 0) {
        if (out)
            rc = to_stdout(c->client, &spec, &got, err);
        else
            rc = cay_snapshot_push(c->client, NULL, &spec, &to, &where, &got, err);
    }
    progress_end(&bar);
    CAY_TRY(rc);
    if (!out)
        print_archived(where, &got);
    return CLI_OK;
}

const cli_verb cli_snapshot_export = {
    "snapshot export",
    "[OPTIONS] SNAPSHOT|ID",
    "write a snapshot into an archive",
    .text = "The archive has everything above the template; with --since only what changed after "
            "another snapshot. Of a sandbox a snapshot is taken\n"
            "for it. Without -o it is named by the snapshot's id. Its digest is in it, and is "
            "checked when it is imported.",
    .examples = "  cay snapshot export tested -o tested.tar.zst\n"
                "  cay snapshot export --since ready tested\n"
                "  cay snapshot export --format tar c7f -o - | tar tv",
    CLI_OPTS(export_defs, export_args),
    .min = 1,
    .needs = CLI_CLIENT,
    .fn = export_run,
};

typedef struct import_args {
    const char *label, *metadata, *auth, *root;
} import_args;

static const opt_def import_defs[] = {
    OPT_STR("-l, --label LABEL", "a name for it, which no other snapshot has", import_args, label),
    OPT_STR("--meta JSON", "one JSON object kept with it, instead of the archive's", import_args,
            metadata),
    OPT_STR("--root DIR",
            "the directory of this host that it may stand on, if it was made with --root",
            import_args, root),
    OPT_END
};

static int import_run(cli_call *c, cay_err *err)
{
    const import_args *a = c->opts;
    cli_progress bar;
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    cay_import spec = { .size = sizeof spec,
                        .label = a->label,
                        .metadata = a->metadata,
                        .progress = on_progress,
                        .arg = &bar,
                        .root = a->root };
    bool in = !strcmp(c->argv[0], "-");
    CAY_AUTOFD fd = -1;
    if (!in)
        fd = open(c->argv[0], O_RDONLY | O_CLOEXEC);
    int rc;
    if (fd < 0 && !in)
        rc = cay_fail_sys(err, "open %.150s", c->argv[0]);
    else
        rc = cli_client(&c->client, err);
    progress_begin(&bar, c->argv[0], 0);
    if (rc == 0)
        rc = cay_client_import(c->client, NULL, &spec, in ? 0 : fd, &s, err);
    progress_end(&bar);
    CAY_TRY(rc);
    cli_snapshot_print(s);
    return CLI_OK;
}

const cli_verb cli_snapshot_import = {
    "snapshot import",
    "[OPTIONS] FILE",
    "make a snapshot of an archive, and print its id",
    .text =
        "FILE is what `cay snapshot export` wrote, or a tar (plain or compressed) or JSON of an "
        "Agents SDK, which becomes /workspace; - is standard\n"
        "input. It is read inside a sandbox, and nothing of it is used unless all of it is sound.",
    .examples = "  cay snapshot import tested.tar.zst --label tested\n"
                "  cay run --from $(cay snapshot import workspace.tar) -- ls",
    CLI_OPTS(import_defs, import_args),
    .min = 1,
    .fn = import_run,
};

static const opt_def push_defs[] = {
    OPT_STR("--since SNAPSHOT", "only what changed after this one", export_args, since),
    OPT_STR(
        "--auth SOURCE",
        "where the value of the Authorization header is: env:NAME, file:PATH, cmd:NAME, store:NAME",
        export_args, auth),
    OPT_END
};

static int push_run(cli_call *c, cay_err *err)
{
    const export_args *a = c->opts;
    cli_progress bar;
    cay_archived got = { .size = sizeof got };
    cay_export spec = { .size = sizeof spec,
                        .ref = c->argv[0],
                        .since = a->since,
                        .progress = on_progress,
                        .arg = &bar };
    cay_transfer to = { .size = sizeof to, .url = c->argv[1], .auth = a->auth };
    CAY_AUTOFREE char *where = NULL;
    progress_begin(&bar, c->argv[0], 0);
    int rc = cay_snapshot_push(c->client, NULL, &spec, &to, &where, &got, err);
    progress_end(&bar);
    CAY_TRY(rc);
    print_archived(where, &got);
    return CLI_OK;
}

const cli_verb cli_snapshot_push = {
    "snapshot push",
    "[OPTIONS] SNAPSHOT|ID STORE",
    "keep a snapshot's archive in a store",
    .text = "STORE is a directory, http://… or https://… (one PUT), or s3://BUCKET/KEY by rclone, "
            "with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and\n"
            "AWS_ENDPOINT_URL of the environment. It gets the whole archive or nothing.",
    .examples =
        "  cay snapshot push tested /mnt/backup\n"
        "  cay snapshot push tested https://store.example/tested.tar.zst --auth env:STORE_AUTH\n"
        "  cay snapshot push tested s3://bucket/tested.tar.zst",
    CLI_OPTS(push_defs, export_args),
    .min = 2,
    .needs = CLI_CLIENT,
    .fn = push_run,
};

static const opt_def pull_defs[] = {
    OPT_STR("-l, --label LABEL", "a name for it, which no other snapshot has", import_args, label),
    OPT_STR(
        "--auth SOURCE",
        "where the value of the Authorization header is: env:NAME, file:PATH, cmd:NAME, store:NAME",
        import_args, auth),
    OPT_STR("--root DIR",
            "the directory of this host that it may stand on, if it was made with --root",
            import_args, root),
    OPT_END
};

static int pull_run(cli_call *c, cay_err *err)
{
    const import_args *a = c->opts;
    cli_progress bar;
    cay_import spec = { .size = sizeof spec,
                        .label = a->label,
                        .progress = on_progress,
                        .arg = &bar,
                        .root = a->root };
    cay_transfer from = { .size = sizeof from, .url = c->argv[0], .auth = a->auth };
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    progress_begin(&bar, c->argv[0], 0);
    int rc = cay_snapshot_pull(c->client, NULL, &spec, &from, &s, err);
    progress_end(&bar);
    CAY_TRY(rc);
    cli_snapshot_print(s);
    return CLI_OK;
}

const cli_verb cli_snapshot_pull = {
    "snapshot pull",
    "[OPTIONS] STORE",
    "make a snapshot of an archive in a store, and print its id",
    .text = "STORE names one archive: a file, http://…, https://… or s3://BUCKET/KEY; see `cay "
            "snapshot push`. It is whole before it is read, and read as\n"
            "`cay snapshot import` reads it.",
    .examples = "  cay snapshot pull https://store.example/tested.tar.zst --label tested\n"
                "  cay snapshot pull s3://bucket/tested.tar.zst",
    CLI_OPTS(pull_defs, import_args),
    .min = 1,
    .needs = CLI_CLIENT,
    .fn = pull_run,
};
