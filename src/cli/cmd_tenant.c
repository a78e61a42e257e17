/* SPDX-License-Identifier: Apache-2.0 */
/* cay tenant create, ls, set, rm: who shares this machine, and how much each may have. */
#include "main.h"
#include "show.h"
#include <base/base.h>
#include <cay/access.h>

typedef struct quota_args {
    uint64_t sandboxes, cpu_milli, memory, disk, creates, templates;
} quota_args;

static const opt_def quota_defs[] = {
    OPT_NUM("--sandboxes N", "sandboxes that exist", quota_args, sandboxes, 1),
    OPT_CPUS("--cpus N", "CPUs of those that run, together", quota_args, cpu_milli),
    OPT_SIZE("-m, --memory SIZE", "memory of those that run, together", quota_args, memory),
    OPT_SIZE("--disk SIZE", "disk of all, together", quota_args, disk),
    OPT_NUM("--creates N", "new sandboxes a minute", quota_args, creates, 1, 1000000),
    OPT_SIZE("--templates SIZE", "layers of its templates and caches of its builds, together",
             quota_args, templates),
    OPT_END
};

/* What is not given stays; "unlimited" takes the bound away. */
static void lay_over(uint64_t *to, uint64_t given)
{
    if (given == CAY_UNLIMITED)
        *to = 0;
    else if (given)
        *to = given;
}

static cay_tenant fill_tenant(const cli_call *c, cay_quota most)
{
    const quota_args *a = c->opts;
    cay_tenant t = { .size = sizeof t, .name = c->argv[0], .most = most };
    lay_over(&t.most.sandboxes, a->sandboxes);
    lay_over(&t.most.cpu_milli, a->cpu_milli);
    lay_over(&t.most.memory, a->memory);
    lay_over(&t.most.disk, a->disk);
    lay_over(&t.most.creates_per_min, a->creates);
    lay_over(&t.most.templates, a->templates);
    return t;
}

static int create_tenant(cli_call *c, cay_err *err)
{
    cay_tenant t = fill_tenant(c, (cay_quota){ 0 });
    CAY_TRY(cay_tenant_create(c->client, &t, err));
    cli_audit("tenant.create", t.name, NULL);
    return CLI_OK;
}

const cli_verb cli_tenant_create = {
    "tenant create",
    "[OPTIONS] NAME",
    "let somebody else use this machine, within bounds",
    .text = "What is not bounded here has no bound. Keys for it are made by cay key create "
            "--tenant NAME.",
    .examples = "  cay tenant create acme --sandboxes 50 --memory 64g --creates 120",
    CLI_OPTS(quota_defs, quota_args),
    .min = 1,
    .needs = CLI_CLIENT,
    .fn = create_tenant,
};

static int take_most(const cay_tenant *t, void *arg)
{
    *(cay_quota *)arg = t->most;
    return 0;
}

static int set_tenant(cli_call *c, cay_err *err)
{
    cay_quota most = { 0 };
    CAY_TRY(cay_tenant_get(c->client, c->argv[0], take_most, &most, err));
    cay_tenant t = fill_tenant(c, most);
    CAY_TRY(cay_tenant_set(c->client, &t, err));
    cli_audit("tenant.set", t.name, NULL);
    return CLI_OK;
}

const cli_verb cli_tenant_set = {
    "tenant set",
    "[OPTIONS] NAME",
    "change a tenant's bounds",
    .text = "What is not named stays; unlimited takes a bound away. What exists stays in any case.",
    .examples = "  cay tenant set acme --memory unlimited",
    CLI_OPTS(quota_defs, quota_args),
    .min = 1,
    .needs = CLI_CLIENT,
    .fn = set_tenant,
};

static void of_cell(out_table *t, const char *used, const char *most)
{
    out_cellf(t, OUT_PLAIN, most ? "%s of %s" : "%s", used, most);
}

static void count_cell(out_table *t, uint64_t used, uint64_t most, unsigned per)
{
    if (most)
        out_cellf(t, OUT_PLAIN, "%.4g of %.4g", (double)used / per, (double)most / per);
    else
        out_cellf(t, OUT_PLAIN, "%.4g", (double)used / per);
}

static int on_tenant(const cay_tenant *t, void *arg)
{
    out_list *r = arg;
    out_table *table = &r->table;
    if (!show_item(r, &cay__tenant_shape, t, t->name)) {
        out_cell(table, OUT_BOLD, t->name);
        count_cell(table, t->used.sandboxes, t->most.sandboxes, 1);
        count_cell(table, t->used.cpu_milli, t->most.cpu_milli, 1000);
        of_cell(table, out_size(t->used.memory).s,
                t->most.memory ? out_size(t->most.memory).s : NULL);
        of_cell(table, out_size(t->used.disk).s, t->most.disk ? out_size(t->most.disk).s : NULL);
        count_cell(table, t->used.creates_per_min, t->most.creates_per_min, 1);
        of_cell(table, out_size(t->used.templates).s,
                t->most.templates ? out_size(t->most.templates).s : NULL);
    }
    return 0;
}

static int list_tenants(cli_call *c, cay_err *err)
{
    return cay_tenant_list(c->client, on_tenant, c->list, err);
}

const cli_verb cli_tenant_ls = {
    "tenant ls",
    "",
    "list tenants with what they have and may have",
    .examples = "  cay tenant ls",
    .needs = CLI_CLIENT,
    .columns = "NAME|>SANDBOXES|>CPUS|>MEMORY|>DISK|>CREATES|>TEMPLATES",
    .fn = list_tenants,
};

static int remove_tenant(cli_call *c, cay_err *err)
{
    CAY_TRY(cay_tenant_remove(c->client, c->argv[0], err));
    cli_audit("tenant.rm", c->argv[0], NULL);
    return CLI_OK;
}

const cli_verb cli_tenant_rm = {
    "tenant rm",
    "NAME…",
    "forget tenants that have nothing any more, with their keys",
    .examples = "  cay tenant rm acme",
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_CLIENT | CLI_EACH,
    .fn = remove_tenant,
};
