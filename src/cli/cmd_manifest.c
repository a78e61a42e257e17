/* SPDX-License-Identifier: Apache-2.0 */
/* cay manifest check, schema, show, apply: what would be put into a sandbox, what was, and what is
 * put into one that runs. */
#include "main.h"
#include "sandbox_options.h"
#include "out.h"
#include <base/base.h>
#include <base/json.h>
#include <cay/manifest.h>
#include <jansson.h>

CAY_DEFINE_AUTO(cay_manifest, cay_manifest_free)

static int entry_json(const cay_entry_info *e, void *arg)
{
    out_json *j = arg;
    js_open(j, '{');
    js_put(j, "path:%s, type:%s, +source:%s, mode:%u, ephemeral?%d", e->path, e->type, e->source,
           e->mode, e->ephemeral);
    if (!e->is_dir)
        js_put(j, "bytes:%ju", e->bytes);
    js_close(j, '}');
    return 0;
}

/* What else it asks for: everything but the files. */
static json_t *manifest_to_json(const cay_manifest *m)
{
    CAY_AUTOFREE char *text = NULL;
    json_t *o = NULL;
    if (cay_manifest_to_json(m, &text, NULL) == 0)
        o = json_loads(text, 0, NULL);
    return CAY_OR(o, json_object());
}

/* Values that are taken from elsewhere, each as "WHERE from SOURCE". */
static void visit_references(const json_t *at, const char *where,
                             void (*fn)(const char *where, const char *source, void *arg),
                             void *arg)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)at, key, v) {
        char here[512];
        CAY_FORMAT(here, "%s%s%s", where, *where ? "." : "", key);
        if (!strcmp(cay__json_str(v, "type", ""), "ref"))
            fn(here, cay__json_str(v, "source", ""), arg);
        else if (json_is_object(v))
            visit_references(v, here, fn, arg);
    }
}

static void reference_json(const char *where, const char *source, void *arg)
{
    out_json *j = arg;
    js_object(j, "where:%s, source:%s", where, source);
}

static void say_line(const char *what, const char *text)
{
    out_safe("%s %s\n", what, text);
}

static void reference_text(const char *where, const char *source, void *arg)
{
    char line[1200];
    CAY_FORMAT(line, "%s from %s", where, source);
    say_line("reads secret  ", line);
}

/* What a person should have seen before saying yes to somebody's manifest. */
static void print_beside(const json_t *o)
{
    size_t i;
    json_t *v;
    const char *key;
    char line[9000];
    json_array_foreach(json_object_get(o, "extra_path_grants"), i, v) {
        const char *host = cay__json_str(v, "host_path", NULL);
        CAY_FORMAT(line, "%s%s%s", cay__json_str(v, "path", ""), host ? ", the host's " : "",
                   CAY_OR(host, ""));
        say_line(json_is_false(json_object_get(v, "read_only")) ? "may write     "
                                                                : "may read      ",
                 line);
    }
    for (const char *p = cay__json_str(o, "policy", "");
         *p;) { /* its first line is only the version */
        size_t n = strcspn(p, "\n");
        CAY_FORMAT(line, "%.*s", (int)CAY_MIN(n, sizeof line - 1), p);
        if (!cay__str_starts(line, "cay-net "))
            say_line("network       ", line);
        p += n + (p[n] == '\n');
    }
    if (json_object_get(o, "run_as"))
        say_line("runs as       ", cay__json_str(o, "run_as", ""));
    json_array_foreach(json_object_get(o, "users"), i, v)
        say_line("has user      ", cay__json_str(v, "name", ""));
    json_array_foreach(json_object_get(o, "groups"), i, v)
        say_line("has group     ", cay__json_str(v, "name", ""));
    json_object_foreach(json_object_get(json_object_get(o, "environment"), "value"), key, v)
        say_line("sets variable ", key);
    json_array_foreach(json_object_get(o, "extra_persisted_roots"), i, v)
        say_line("keeps         ", json_string_value(v));
    visit_references(json_object_get(o, "entries"), "", reference_text, NULL);
    visit_references(json_object_get(json_object_get(o, "environment"), "value"), "",
                     reference_text, NULL);
}

static void print_beside_json(json_t *o, out_json *j)
{
    static const char *const keys[] = {
        "extra_path_grants",    "policy", "run_as", "users", "groups", "environment",
        "extra_persisted_roots"
    };
    js_put(j, "references:[");
    visit_references(json_object_get(o, "entries"), "", reference_json, j);
    visit_references(json_object_get(json_object_get(o, "environment"), "value"), "",
                     reference_json, j);
    js_close(j, ']');
    CAY_EACH(key, keys) {
        json_t *v = json_object_get(o, *key);
        CAY_AUTOFREE char *text = NULL;
        if (v)
            text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        if (!text)
            continue;
        js_key(j, *key);
        js_raw(j, text);
    }
}

static int print_json(const cay_manifest *m, const cay_manifest_totals *s)
{
    CAY_AUTOJSON *o = manifest_to_json(m);
    out_json j = js_begin(true, '{');
    js_put(&j,
           "root:%s, files:%ju, bytes:%ju, ephemeral:%ju, mounts:%ju, fetched:%ju, skipped:%ju, "
           "entries:[",
           cay_manifest_root(m), s->files, s->bytes, s->ephemeral, s->mounts, s->fetched,
           s->skipped);
    cay_manifest_entries(m, entry_json, &j);
    js_close(&j, ']');
    print_beside_json(o, &j);
    js_end(&j, '}');
    return CLI_OK;
}

static int print_text(const cay_manifest *m, const cay_manifest_totals *s)
{
    CAY_AUTOFREE char *tree = cay_manifest_describe(m, 3);
    CAY_AUTOJSON *o = manifest_to_json(m);
    for (const char *line = tree;
         *line;) { /* line by line, so that no name can drive the terminal */
        size_t n = strcspn(line, "\n");
        CAY_AUTOBUF safe = CAY__BUF(65536);
        cay__buf_safe(&safe, line, n, false);
        out_fmt("%s\n", CAY_OR(safe.data, ""));
        line += n + (line[n] == '\n');
    }
    out_str("\n");
    print_beside(o);
    out_fmt("%ju entries: %ju files, %s", s->entries, s->files, out_size(s->bytes).s);
    if (s->fetched)
        out_fmt("; %ju to be fetched", s->fetched);
    if (s->ephemeral)
        out_fmt("; %ju ephemeral, written after each start", s->ephemeral);
    if (s->mounts)
        out_fmt("; %ju mounts", s->mounts);
    if (s->skipped)
        out_fmt("; %ju sockets, pipes and devices left out", s->skipped);
    out_str("\n");
    return CLI_OK;
}

static int check_manifest(cli_call *c, cay_err *err)
{
    __attribute__((cleanup(cli_manifest_clear))) cli_manifest file = { 0 };
    CAY_AUTOPTR(cay_manifest) m = NULL;
    cay_manifest_totals sum = { .size = sizeof sum };
    CAY_TRY(cli_manifest_read(c->argv[0], &file, err));
    CAY_TRY(cay_manifest_parse(file.text, file.len, CAY_MANIFEST_TRUSTED, &m, err));
    CAY_TRY(cay_manifest_measure(m, file.base, &sum, err));
    if (cli.json)
        return print_json(m, &sum);
    return print_text(m, &sum);
}

const cli_verb cli_manifest_check = {
    "manifest check",
    "FILE",
    "judge a manifest and tell what it would put into a sandbox",
    .text = "Everything is checked that `cay create --manifest FILE` would check: words, paths, "
            "local sources. Nothing is read from the\n"
            "network and nothing is made. Relative host paths start where FILE is; - reads "
            "standard input. Below the tree is told what\n"
            "else it asks for: directories of the host, network, accounts, variables, and where "
            "secret values would be read from.",
    .examples = "  cay manifest check agent.json\n"
                "  cay --json manifest check agent.json | jq .bytes",
    .min = 1,
    .fn = check_manifest,
};

static int print_schema(cli_call *c, cay_err *err)
{
    CAY_AUTOFREE char *text = cay_manifest_schema();
    out_str(text);
    out_str("\n");
    return CLI_OK;
}

const cli_verb cli_manifest_schema = {
    "manifest schema",
    "",
    "the form of a manifest as JSON Schema, for editors",
    .text = "An editor that knows JSON Schema completes and marks manifests by it. `cay manifest "
            "check` judges more: what depends on two\n"
            "places at once, and what is on this host.",
    .examples = "  cay manifest schema >cay-manifest.schema.json",
    .fn = print_schema,
};

static int show_manifest(cli_call *c, cay_err *err)
{
    CAY_AUTOFREE char *json = NULL;
    CAY_TRY(cay_sandbox_manifest(c->sb, NULL, &json, err));
    out_str(json);
    out_str("\n");
    return CLI_OK;
}

const cli_verb cli_manifest_show = {
    "manifest show",
    "ID",
    "the manifest that a sandbox was made with, as JSON",
    .text = "Secret and ephemeral values are not in it; what was left out is marked.",
    .examples = "  cay manifest show c7f",
    .min = 1,
    .needs = CLI_SANDBOX,
    .fn = show_manifest,
};

typedef struct manifest_apply_args {
    bool replace, dry;
} manifest_apply_args;

static const opt_def apply_defs[] = {
    OPT_FLAG("--replace", "entries that are there may get other content and permissions",
             manifest_apply_args, replace),
    OPT_FLAG("-n, --dry-run", "tell what would be done, and do nothing", manifest_apply_args, dry),
    OPT_END
};

static int say_delta(const cay_manifest_delta *d, void *arg)
{
    out_json *j = arg;
    if (cli.json) {
        js_object(j, "what:%s, name:%s, action:%s, +refused:%s", d->what, d->name, d->action,
                  d->why);
    } else if (!cli.quiet) {
        out_fmt("%s%-8s%s%s ", out_on(1, d->why ? OUT_BAD : OUT_GOOD), d->action, out_off(1),
                d->what);
        out_safe("%s", d->name);
        out_fmt("%s%s\n", d->why ? ": " : "", CAY_OR(d->why, ""));
    }
    return 0;
}

/* What leads from what it has to what is wanted; CAY_ESTATE when a sandbox that runs cannot follow.
 */
static int tell_change(cay_sandbox *sb, const cli_manifest *file, unsigned flags, cay_err *err)
{
    CAY_AUTOPTR(cay_manifest) old = NULL;
    CAY_AUTOPTR(cay_manifest) new_ = NULL;
    CAY_AUTOFREE char *text = NULL;
    out_json j = OUT_JSON(true);
    int rc = cay_sandbox_manifest(sb, NULL, &text, err);
    if (rc == CAY_ENOENT && cay_err_is(err, CAY_REASON_MANIFEST_MISSING))
        old = cay_manifest_new();
    else if (rc < 0 ||
             (rc = cay_manifest_parse(text, strlen(text), CAY_MANIFEST_TRUSTED, &old, err)) < 0)
        return rc;
    CAY_TRY(cay_manifest_parse(file->text, file->len, CAY_MANIFEST_TRUSTED, &new_, err));
    if (cli.json)
        js_open(&j, '[');
    rc = cay_manifest_change(old, new_, flags, say_delta, &j, err);
    if (cli.json) {
        js_close(&j, ']');
        js_flush(&j);
    }
    return rc;
}

static int apply_manifest(cli_call *c, cay_err *err)
{
    const manifest_apply_args *a = c->opts;
    __attribute__((cleanup(cli_manifest_clear))) cli_manifest file = { 0 };
    unsigned flags = 0;
    if (a->replace)
        flags = CAY_MANIFEST_REPLACE;
    CAY_TRY(cli_manifest_read(c->argv[1], &file, err));
    CAY_TRY(cli_find(c, err));
    CAY_TRY(tell_change(c->sb, &file, flags, err));
    if (a->dry)
        return CLI_OK;
    return cay_sandbox_set_manifest(c->sb, NULL, file.text, file.base, flags, err);
}

const cli_verb cli_manifest_apply = {
    "manifest apply",
    "[--replace] [--dry-run] ID FILE",
    "put what a manifest has more into a sandbox that runs",
    .text = "FILE is the whole manifest that the sandbox is to have. It is judged whole first, and "
            "printed is what leads there. New entries\n"
            "are written, and with --replace entries that changed. What a running process could be "
            "using is not taken away, and root,\n"
            "environment, accounts, mounts and network are made with a sandbox: a manifest that "
            "wants others is refused, and nothing is done.",
    .examples = "  cay manifest show c7f >m.json; edit m.json; cay manifest apply c7f m.json\n"
                "  cay manifest apply --replace --dry-run c7f m.json",
    CLI_OPTS(apply_defs, manifest_apply_args),
    .min = 2,
    .fn = apply_manifest,
};
