/* SPDX-License-Identifier: Apache-2.0 */
/* cay pool set, ls, rm: sandboxes of a template that are ready before anybody asks. */
#include "main.h"
#include "show.h"
#include <base/base.h>
#include <cay/pool.h>

typedef struct set_args {
    uint64_t low, high;
    const char *tenant;
} set_args;

static const opt_def set_defs[] = {
    OPT_NUM("--low N", "with fewer ready, more are made; default: 1", set_args, low, 1,
            CAY_POOL_MAX),
    OPT_NUM("--high N", "until so many are; default: that of --low, or 2", set_args, high, 1,
            CAY_POOL_MAX),
    OPT_STR("--tenant NAME", "who looks the template up; default: default", set_args, tenant),
    OPT_END
};

static int set_pool(cli_call *c, cay_err *err)
{
    const set_args *a = c->opts;
    cay_pool w = { .size = sizeof w,
                   .template_ = c->argv[0],
                   .tenant = a->tenant,
                   .low = (unsigned)(CAY_OR(a->low, 1)) };
    w.high = (unsigned)(CAY_OR(a->high, CAY_MAX(w.low, 2u)));
    CAY_TRY(cay_pool_put(c->client, NULL, &w, err));
    cli_audit("pool.set", c->argv[0], NULL);
    return CLI_OK;
}

const cli_verb cli_pool_set = {
    "pool set",
    "[OPTIONS] TEMPLATE",
    "keep sandboxes of a template ready, services and all",
    .text = "cay serve makes them: when fewer than --low are ready, until --high are. Whoever asks "
            "for a sandbox like them is given one. They count\n"
            "for nobody until then. Again changes the marks; a template that is built anew under "
            "the same name takes its pool along.\n"
            "docker:IMAGE or podman:IMAGE keeps started containers of an image.",
    .examples = "  cay pool set code-server --low 2 --high 5\n"
                "  cay pool set docker:debian:12-slim --high 4",
    CLI_OPTS(set_defs, set_args),
    .min = 1,
    .needs = CLI_CLIENT,
    .fn = set_pool,
};

static int on_pool(const cay_pool *w, void *arg)
{
    out_list *r = arg;
    if (!show_item(r, &cay__pool_shape, w, w->template_)) {
        out_row(&r->table, "*%s|%s|%u|%u|%u|%u|%c-%s", w->template_, w->tenant, w->low, w->high,
                w->ready, w->making, *w->error ? OUT_BOLD : OUT_PLAIN, w->error);
    }
    return 0;
}

static int list_pools(cli_call *c, cay_err *err)
{
    return cay_pool_list(c->client, NULL, on_pool, c->list, err);
}

const cli_verb cli_pool_ls = {
    "pool ls",
    "",
    "list pools, and how many of each are ready",
    .examples = "  cay pool ls",
    .needs = CLI_CLIENT,
    .columns = "TEMPLATE|TENANT|>LOW|>HIGH|>READY|>MAKING|TROUBLE",
    .fn = list_pools,
};

typedef struct pool_rm_args {
    const char *tenant;
} pool_rm_args;

static const opt_def rm_defs[] = {
    OPT_STR("--tenant NAME", "whose pool it is; default: default", pool_rm_args, tenant), OPT_END
};

static int remove_pool(cli_call *c, cay_err *err)
{
    const pool_rm_args *a = c->opts;
    CAY_TRY(cay_pool_remove(c->client, NULL, a->tenant, c->argv[0], err));
    cli_audit("pool.rm", c->argv[0], NULL);
    return CLI_OK;
}

const cli_verb cli_pool_rm = {
    "pool rm",
    "[OPTIONS] TEMPLATE…",
    "keep none of it ready any more",
    .examples = "  cay pool rm code-server",
    CLI_OPTS(rm_defs, pool_rm_args),
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_CLIENT | CLI_EACH,
    .fn = remove_pool,
};
