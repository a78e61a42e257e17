/* SPDX-License-Identifier: Apache-2.0 */
/* cay purge: everything of a state directory goes, once it was named and agreed to. */
#include "main.h"
#include "out.h"
#include <base/base.h>
#include <base/path.h>
#include <cay/access.h>
#include <cay/snapshot.h>
#include <cay/template.h>
#include <cay/volume.h>

typedef struct purge_args {
    bool yes, dry, force;
} purge_args;

static const opt_def purge_defs[] = {
    OPT_FLAG("-y, --yes", "do not ask", purge_args, yes),
    OPT_FLAG("-n, --dry-run", "only tell what would go", purge_args, dry),
    OPT_FLAG(
        "-f, --force",
        "go on when a sandbox cannot be removed, as one of a provider that does not answer: it is "
        "forgotten",
        purge_args, force),
    OPT_END
};

/* What there is, as text for a person and as JSON. */
typedef struct purge_view {
    cay__buf text;
    out_json json;
    size_t n[4], running; /* sandboxes, snapshots, templates, volumes */
} purge_view;

/* tenant: NULL, or whose it is, which is told of others than tenant default: an operator removes
 * what is theirs. */
static void add_item(purge_view *v, size_t kind, const char *id, const char *more,
                     const char *tenant)
{
    v->n[kind]++;
    js_str(&v->json, id);
    cay__buf_str(&v->text, "  ");
    cay__buf_safe(&v->text, id, strlen(id), false);
    if (more && *more) {
        cay__buf_str(&v->text, "  ");
        cay__buf_safe(&v->text, more, strlen(more), false);
    }
    if (tenant && *tenant && strcmp(tenant, CAY_TENANT_DEFAULT)) {
        cay__buf_str(&v->text, "  of tenant ");
        cay__buf_safe(&v->text, tenant, strlen(tenant), false);
    }
    cay__buf_str(&v->text, "\n");
}

static int on_box(const cay_info *i, void *arg)
{
    purge_view *v = arg;
    char more[200];
    CAY_FORMAT(more, "%s %.160s", cay_state_name(i->state), CAY_OR(i->name, ""));
    v->running += i->state == CAY_RUNNING || i->state == CAY_PAUSED;
    add_item(v, 0, i->id, more, i->tenant);
    return 0;
}

static int on_snapshot(const cay_snapshot *s, void *arg)
{
    add_item(arg, 1, s->id, s->label, s->tenant);
    return 0;
}

static int on_template(const cay_template *t, void *arg)
{
    add_item(arg, 2, t->id, t->names && t->names[0] ? t->names[0] : "", t->tenant);
    return 0;
}

static int on_volume(const cay_volume *w, void *arg)
{
    add_item(arg, 3, w->name, "", NULL);
    return 0;
}

static const char *get_location(cay_client *client)
{
    if (cay_client_host(client))
        return cay_client_host(client);
    return cay_client_home(client);
}

static int collect_items(cay_client *client, purge_view *v, cay_err *err)
{
    static const char *const kinds[] = { "sandboxes", "snapshots", "templates", "volumes" };
    int rc = 0;
    js_open(&v->json, '{');
    js_put(&v->json, cli_host() ? "host:%s" : "home:%s", get_location(client));
    for (size_t k = 0; rc == 0 && k < CAY_LEN(kinds); k++) {
        size_t at = v->text.len;
        cay__buf_fmt(&v->text, "%s:\n", kinds[k]);
        js_key(&v->json, kinds[k]);
        js_open(&v->json, '[');
        if (k == 0)
            rc = cay_client_list(client, NULL, &(cay_filter){ .size = sizeof(cay_filter) }, on_box,
                                 v, err);
        else if (k == 1)
            rc = cay_client_snapshots(client, NULL, NULL, on_snapshot, v, err);
        else if (k == 2)
            rc = cay_template_list(client, NULL, NULL, on_template, v, err);
        else
            rc = cay_volume_list(client, NULL, on_volume, v, err);
        if (rc == CAY_EPERM && cli_host())
            rc = 0; /* the server's, and not this key's */
        js_close(&v->json, ']');
        if (!v->n[k])
            v->text.len = at;
    }
    return rc;
}

static void print_counts(const purge_view *v, const char *last)
{
    out_fmt("%zu sandbox%s, %zu snapshot%s, %zu template%s%s %zu volume%s", v->n[0],
            out_plural(v->n[0], "es"), v->n[1], out_plural(v->n[1], "s"), v->n[2],
            out_plural(v->n[2], "s"), last, v->n[3], out_plural(v->n[3], "s"));
}

static void print_summary(const char *home, const purge_view *v)
{
    if (v->text.len)
        out_write(v->text.data, v->text.len);
    out_safe("%s: ", home);
    print_counts(v, ",");
    out_fmt("; %zu of the sandboxes alive%s\n", v->running,
            cli_host() ? ""
                       : ",\nand all keys, tenants, stored secrets, logs and talks kept there");
}

static bool confirm_removal(void)
{
    char line[16] = "";
    out_str("Remove all of it for ever? Type yes: ");
    return fgets(line, sizeof line, stdin) && !strcmp(line, "yes\n");
}

static void on_left(const char *what, void *arg)
{
    purge_view *v = arg;
    js_str(&v->json, what);
    if (!cli.json)
        out_note("cay: left: %s", what);
}

/* Opening the client would make the directory anew. */
static bool has_store(char *home, size_t cap, cay_err *err)
{
    char path[4096];
    return cay__home_find(cli.home, home, cap, err) == 0 &&
           ((CAY_JOIN(path, home, "/store.db") && access(path, F_OK) == 0) ||
            (CAY_JOIN(path, home, "/keeper.log") && access(path, F_OK) == 0));
}

static int purge_store(cay_client *client, const purge_args *a, purge_view *v, cay_err *err)
{
    CAY_TRY(collect_items(client, v, err));
    if (!cli.json && !cli.quiet && !a->yes)
        print_summary(get_location(client), v);
    js_put(&v->json, "left:[");
    bool sure = !a->dry && (a->yes || confirm_removal());
    if (!sure && !a->dry)
        return cay_fail(err, CAY_ECANCELED, "nothing was removed");
    if (sure)
        CAY_TRY(cay_client_purge(client, NULL, a->force, on_left, v, err));
    js_close(&v->json, ']');
    js_put(&v->json, "removed?%d", sure);
    js_close(&v->json, '}');
    if (cli.json)
        js_flush(&v->json);
    else if (sure && !cli.quiet) {
        print_counts(v, " and");
        out_str(" removed\n");
    }
    return 0;
}

static int run_purge(cli_call *c, cay_err *err)
{
    const purge_args *a = c->opts;
    char home[4096] = "";
    purge_view v = { .text = CAY__BUF(64u << 20), .json = OUT_JSON(true) };
    if (!a->yes && !a->dry && (!isatty(0) || !isatty(1) || cli.json))
        return cli_misuse(
            c, "there is no terminal to ask on: say --yes to remove everything, or --dry-run to "
               "see what that is");
    if (!cli_host() && !has_store(home, sizeof home, err)) {
        if (err->code)
            return err->code;
        if (cli.json)
            out_str("{\"removed\":false}\n");
        else
            out_note("cay: %s holds nothing of cay", home);
        return CLI_OK;
    }
    cli_settling = true; /* there is no later */
    int rc = cli_client(&c->client, err);
    if (rc == 0)
        rc = purge_store(c->client, a, &v, err);
    cay__buf_clear(&v.text);
    cay__buf_clear(&v.json.b);
    return rc;
}

const cli_verb cli_purge = {
    "purge",
    "[OPTIONS]",
    "remove everything cay holds here: sandboxes, snapshots, templates, volumes, keys, "
    "and the keeper",
    .text = "Tells what goes and asks first. Containers and sandboxes of other providers that are "
            "recorded here are removed, too.\n"
            "egress.conf, secrets.conf and files that are not ours stay, named. Nothing may be "
            "mounted below the state directory,\n"
            "and no server may use it. With --host: what the key may remove of that server's "
            "sandboxes, snapshots, templates and volumes,\n"
            "a key of scope admin those of all tenants, which are named; its keys, tenants and "
            "secrets stay.",
    .examples = "  cay purge --dry-run\n"
                "  cay --home /tmp/try purge --yes",
    CLI_OPTS(purge_defs, purge_args),
    .fn = run_purge,
};
