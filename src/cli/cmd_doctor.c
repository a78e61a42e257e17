/* SPDX-License-Identifier: Apache-2.0 */
/* cay doctor: how strong the wall is here, and what would make it stronger. */
#include "main.h"
#include "out.h"
#include "show.h"
#include <base/base.h>
#include <sys/utsname.h>

typedef struct doctor_args {
    const char *need;
    opt_list require;
    bool server;
} doctor_args;

static const opt_def defs[] = {
    OPT_STR("--need LEVEL", "fail unless the host gives at least this: process, rootless, root, vm",
            doctor_args, need),
    OPT_LIST("--require FEATURE", "fail unless this layer is on", doctor_args, require),
    OPT_FLAG(
        "--server",
        "whether this host is fit to serve others, too: keys, jobs, audit log, room, limits; fail "
        "when something is off",
        doctor_args, server),
    OPT_END
};

static const char *level_text(const cay_probe *p)
{
    if (p->nwalls && !strcmp(p->walls[0].name, "engine")) {
        if (!strcmp(p->walls[0].state, "on"))
            return "a container of an engine, which makes the wall; what it has is below";
        return "no engine answers";
    }
    switch (p->level) {
    case CAY_LEVEL_NONE: return "no wall: commands run with all your rights";
    case CAY_LEVEL_PROCESS:
        return "one process tree under a filter and Landlock, on your own files' view";
    case CAY_LEVEL_ROOTLESS: return "own namespaces and filter, made without any privilege";
    case CAY_LEVEL_ROOT: return "own namespaces, filter, id range and limits that hold";
    case CAY_LEVEL_VM: return "a kernel of its own";
    }
    return "";
}

static bool layer_on(const cay_probe *p, const char *name)
{
    CAY_EACH_OF(wall, p->walls, p->nwalls)
        if (!strcmp(wall->name, name))
            return !strcmp(wall->state, "on");
    return false;
}

/* The rows of base/kernel.def that this kernel lacks. */
static void print_kernel_json(out_json *j, const doctor_trial *t)
{
    const cay__kernel_row *rows = cay__kernel_rows();
    js_key(j, "kernel_lacks");
    js_open(j, '[');
    for (int i = 0; i < CAY_KERNEL_COUNT; i++)
        if (t->kernel[i] == CAY_KERNEL_NO) {
            js_open(j, '{');
            js_put(j, "name:%s, since:%s, without:%s", rows[i].name, rows[i].since,
                   rows[i].without);
            js_close(j, '}');
        }
    js_close(j, ']');
}

static void print_kernel(const doctor_trial *t)
{
    const cay__kernel_row *rows = cay__kernel_rows();
    bool any = false;
    for (int i = 0; i < CAY_KERNEL_COUNT; i++) {
        if (t->kernel[i] != CAY_KERNEL_NO)
            continue;
        if (!any)
            out_str("\nthis kernel lacks\n");
        any = true;
        out_fmt("  %-18s Linux %-5s %s\n", rows[i].name, rows[i].since, rows[i].without);
    }
}

static void print_json(const cay_probe *p, const char *home, const doctor_rows *d,
                       const doctor_trial *t, bool ok)
{
    struct utsname u;
    out_json j = js_begin(true, '{');
    uname(&u);
    cay__doctor_told told = { .version = CAY_VERSION,
                              .kernel = u.release,
                              .machine = u.machine,
                              .home = home,
                              .level = (int)p->level,
                              .isolation = cay_level_name(p->level),
                              .mode = p->mode,
                              .layers = p->walls,
                              .nlayers = p->nwalls };
    show_members(&j, &cay__doctor_shape, &told);
    js_put(&j, "ok?%d", ok);
    if (t)
        print_kernel_json(&j, t);
    if (d->n) {
        js_key(&j, "server");
        show_walls_json(&j, d->row, d->n);
    }
    js_end(&j, '}');
}

static void print_text(const cay_probe *p, const char *home, const char *host, const doctor_rows *d)
{
    struct utsname u;
    uname(&u);
    if (host)
        out_str("the host of the server at ");
    else
        out_fmt("cay %s on Linux %s (%s), state in ", CAY_VERSION, u.release, u.machine);
    out_safe("%s\n", CAY_OR(host, home));
    out_fmt("isolation %s%d %s%s (%s): %s\n\n",
            out_on(1, p->level >= CAY_LEVEL_ROOTLESS ? OUT_GOOD : OUT_WARN), p->level,
            cay_level_name(p->level), out_off(1), CAY_OR(p->mode, ""), level_text(p));
    show_walls(p->walls, p->nwalls);
    if (d->n) {
        out_str("\nas a server\n");
        show_walls(d->row, d->n);
    }
}

/* Sandboxes of this host, not of a server or an engine. */
static bool is_native(cay_client *client)
{
    const char *name = cli_provider();
    return !cay_client_host(client) && (!name || !strcmp(name, "native"));
}

/* 0 when everything asked for is there. */
static int check_needs(const doctor_args *a, int need, const cay_probe *p, const doctor_rows *d,
                       cay_err *err)
{
    CAY_EACH_OF(item, d->row, d->n)
        if (!strcmp(item->state, "off"))
            return cay_fail(err, CAY_ESTATE, "%s: %s", item->name, item->why);
    if (need > (int)p->level)
        return cay_fail(err, CAY_EISOLATION,
                        "this host gives isolation %s (%d), less than the %s (%d) that is needed",
                        cay_level_name(p->level), p->level, cay_level_name((cay_level)need), need);
    CAY_EACH_OF(it, a->require.v, a->require.n)
        if (!layer_on(p, *it))
            return cay_fail(err, CAY_EISOLATION, "%s is not on here", *it);
    return 0;
}

static int run_doctor(cli_call *c, cay_err *err)
{
    const doctor_args *a = c->opts;
    cay_probe *p = NULL;
    int need = 0;
    if (a->need)
        need = cay_level_parse(a->need);
    if (need < 0)
        return cli_misuse(c, "--need \"%s\": want none, process, rootless, root or vm", a->need);
    CAY_TRY(cli_client(&c->client, err));
    CAY_TRY(cay_client_probe(c->client, cli_provider(), &p, err));
    doctor_rows *d = cay__alloc(sizeof *d);
    CAY_AUTOFREE doctor_trial *t = NULL;
    cay_probe seen = *p;
    if (is_native(c->client)) {
        t = cay__alloc(sizeof *t);
        doctor_try(c->client, p, t);
        seen.level = t->level;
        seen.walls = t->wall;
        seen.nwalls = t->n;
    }
    if (a->server)
        doctor_server(c->client, d);
    int rc = check_needs(a, need, &seen, d, err);
    if (cli.json)
        print_json(&seen, cay_client_home(c->client), d, t, rc == 0);
    else if (!cli.quiet)
        print_text(&seen, cay_client_home(c->client), cay_client_host(c->client), d);
    if (t && !cli.json && !cli.quiet)
        print_kernel(t);
    if (t)
        cay__arena_clear(&t->mem);
    free(d);
    cli_net_operator();
    cay_probe_free(p);
    if (rc < 0 && !cli.json)
        out_note("cay: %s", err->msg);
    if (rc < 0)
        return CLI_FAIL;
    return CLI_OK;
}

const cli_verb cli_doctor = {
    "doctor",
    "[--need LEVEL] [--server]",
    "tell how strong the wall is on this host, layer by layer, with remedies",
    .text = "on: enforced. soft: accounted or partly there. off: missing; the arrow says what "
            "would help.",
    .examples = "  cay doctor\n"
                "  cay doctor --need root && cay run -- ./untrusted\n"
                "  cay doctor --server\n"
                "  cay doctor --json | jq -r '.layers[] | select(.state != \"on\") | .name'",
    CLI_OPTS(defs, doctor_args),
    .fn = run_doctor,
};
