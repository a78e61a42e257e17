/* SPDX-License-Identifier: Apache-2.0 */
/* cay manifest check, show: what would be put into a sandbox, and what was. */
#include "main.h"
#include "manifest.h"
#include "open.h"
#include "out.h"
#include <base/base.h>
#include <cay/manifest.h>

CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref)
CAY_DEFINE_AUTO(cay_manifest, cay_manifest_free)

static int entry_json(const cay_entry_info *e, void *arg)
{
    out_json *j = arg;
    js_open(j, '{');
    js_kstr(j, "path", e->path);
    js_kstr(j, "type", e->type);
    if (*e->source)
        js_kstr(j, "source", e->source);
    js_ku64(j, "mode", e->mode);
    js_kbool(j, "ephemeral", e->ephemeral);
    if (!e->is_dir)
        js_ku64(j, "bytes", e->bytes);
    js_close(j, '}');
    return 0;
}

static int print_json(const cay_manifest *m, const cay_manifest_sum *s)
{
    out_json j = OUT_JSON(true);
    js_open(&j, '{');
    js_kstr(&j, "root", cay_manifest_root(m));
    js_ku64(&j, "files", s->files);
    js_ku64(&j, "bytes", s->bytes);
    js_ku64(&j, "ephemeral", s->ephemeral);
    js_ku64(&j, "mounts", s->mounts);
    js_ku64(&j, "fetched", s->fetched);
    js_ku64(&j, "skipped", s->skipped);
    js_key(&j, "entries");
    js_open(&j, '[');
    cay_manifest_entries(m, entry_json, &j);
    js_close(&j, ']');
    js_close(&j, '}');
    js_flush(&j);
    cay__buf_clear(&j.b);
    return CLI_OK;
}

static int print_text(const cay_manifest *m, const cay_manifest_sum *s)
{
    CAY_AUTOFREE char *tree = cay_manifest_describe(m, 3);
    char bytes[OUT_HUMAN];
    for (const char *line = tree; *line;) { /* line by line, so that no name can drive the terminal */
        size_t n = strcspn(line, "\n");
        CAY_AUTOBUF safe = CAY__BUF(65536);
        cay__buf_safe(&safe, line, n, false);
        out_fmt("%s\n", safe.data ? safe.data : "");
        line += n + (line[n] == '\n');
    }
    out_fmt("\n%llu entries: %llu files, %s", (unsigned long long)s->entries, (unsigned long long)s->files, out_size(bytes, s->bytes));
    if (s->fetched)
        out_fmt("; %llu to be fetched", (unsigned long long)s->fetched);
    if (s->ephemeral)
        out_fmt("; %llu ephemeral, written after each start", (unsigned long long)s->ephemeral);
    if (s->mounts)
        out_fmt("; %llu mounts", (unsigned long long)s->mounts);
    if (s->skipped)
        out_fmt("; %llu sockets, pipes and devices left out", (unsigned long long)s->skipped);
    out_str("\n");
    return CLI_OK;
}

static int check(void *opts, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    __attribute__((cleanup(cli_manifest_clear))) cli_manifest file = { 0 };
    CAY_AUTOPTR(cay_manifest) m = NULL;
    cay_manifest_sum sum = { .size = sizeof sum };
    (void)opts, (void)argc;
    if (cli_manifest_read(argv[0], &file, &err) < 0 || cay_manifest_parse(file.text, file.len, CAY_MANIFEST_TRUSTED, &m, &err) < 0 ||
        cay_manifest_look(m, file.base, &sum, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    return cli.json ? print_json(m, &sum) : print_text(m, &sum);
}

const cli_verb cli_manifest_check = {
    .name = "manifest check",
    .operands = "FILE",
    .summary = "judge a manifest and tell what it would put into a sandbox",
    .text = "Everything is checked that `cay create --manifest FILE` would check: words, paths, local sources. Nothing is read from the\n"
            "network and nothing is made. Relative host paths start where FILE is; - reads standard input.",
    .examples = "  cay manifest check agent.json\n"
                "  cay --json manifest check agent.json | jq .bytes",
    .min = 1,
    .max = 1,
    .fn = check,
};

static int show(void *opts, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    CAY_AUTOFREE char *json = NULL;
    (void)opts, (void)argc;
    if (cli_box_find(argv[0], &sb, &err) < 0 || cay_sandbox_manifest(sb, NULL, &json, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    out_str(json);
    out_str("\n");
    return CLI_OK;
}

const cli_verb cli_manifest_show = {
    .name = "manifest show",
    .operands = "ID",
    .summary = "the manifest that a sandbox was made with, as JSON",
    .text = "Secret and ephemeral values are not in it; what was left out is marked.",
    .examples = "  cay manifest show c7f",
    .min = 1,
    .max = 1,
    .fn = show,
};
