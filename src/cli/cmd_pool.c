/* SPDX-License-Identifier: Apache-2.0 */
/* cay pool set, ls, rm: sandboxes of a template that are ready before anybody asks. */
#include "main.h"
#include "open.h"
#include "rows.h"
#include <base/base.h>
#include <cay/pool.h>

typedef struct set_args {
    uint64_t low, high;
    const char *tenant;
} set_args;

static const opt_def set_defs[] = {
    { "low", 0, "N", "with fewer ready, more are made; default: 1", OPT_NUM,
      offsetof(set_args, low), 1, CAY_POOL_MOST },
    { "high", 0, "N", "until so many are; default: that of --low, or 2", OPT_NUM,
      offsetof(set_args, high), 1, CAY_POOL_MOST },
    { "tenant", 0, "NAME", "who looks the template up; default: default", OPT_STR,
      offsetof(set_args, tenant) },
    OPT_END
};

static int set_pool(void *opts, int argc, char **argv)
{
    const set_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    cay_pool w = { .size = sizeof w,
                   .template_ = argv[0],
                   .tenant = a->tenant,
                   .low = (unsigned)(CAY_OR(a->low, 1)) };
    (void)argc;
    w.high = (unsigned)(CAY_OR(a->high, CAY_MAX(w.low, 2u)));
    if (cli_service(&client, &err) < 0 || cay_pool_put(client, NULL, &w, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    cli_audit("pool.set", argv[0], NULL);
    return CLI_OK;
}

const cli_verb cli_pool_set = {
    .name = "pool set",
    .operands = "[OPTIONS] TEMPLATE",
    .summary = "keep sandboxes of a template ready, services and all",
    .text = "cay serve makes them: when fewer than --low are ready, until --high are. Whoever asks "
            "for a sandbox like them is given one. They count\n"
            "for nobody until then. Again changes the marks; a template that is built anew under "
            "the same name takes its pool along.\n"
            "docker:IMAGE or podman:IMAGE keeps started containers of an image.",
    .examples = "  cay pool set code-server --low 2 --high 5\n"
                "  cay pool set docker:debian:12-slim --high 4",
    .opts = { { set_defs, 0 } },
    .size = sizeof(set_args),
    .min = 1,
    .max = 1,
    .fn = set_pool,
};

static int on_pool(const cay_pool *w, void *arg)
{
    rows *r = arg;
    if (cli.json) {
        js_open(&r->json, '{');
        js_kstr(&r->json, "id", w->id);
        js_kstr(&r->json, "template", w->template_);
        js_kstr(&r->json, "tenant", w->tenant);
        js_ku64(&r->json, "low", w->low);
        js_ku64(&r->json, "high", w->high);
        js_ku64(&r->json, "ready", w->ready);
        js_ku64(&r->json, "making", w->making);
        js_kstr(&r->json, "error", w->error);
        js_close(&r->json, '}');
    } else if (cli.quiet) {
        out_fmt("%s\n", w->template_);
    } else {
        out_cell(&r->table, OUT_BOLD, w->template_);
        out_cell(&r->table, OUT_PLAIN, w->tenant);
        out_cellf(&r->table, OUT_PLAIN, "%u", w->low);
        out_cellf(&r->table, OUT_PLAIN, "%u", w->high);
        out_cellf(&r->table, OUT_PLAIN, "%u", w->ready);
        out_cellf(&r->table, OUT_PLAIN, "%u", w->making);
        out_cell(&r->table, *w->error ? OUT_BOLD : OUT_PLAIN, cay__text_or(w->error, "-"));
    }
    return 0;
}

static int list_pools(void *opts, int argc, char **argv)
{
    static const char *const titles[] = { "TEMPLATE", "TENANT",  ">LOW",    ">HIGH",
                                          ">READY",   ">MAKING", "TROUBLE", NULL };
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    rows r;
    (void)opts, (void)argc, (void)argv;
    if (cli_service(&client, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    rows_open(&r, titles);
    return rows_done(&r, cay_pool_list(client, NULL, on_pool, &r, &err), &err);
}

const cli_verb cli_pool_ls = {
    .name = "pool ls",
    .operands = "",
    .summary = "list pools, and how many of each are ready",
    .examples = "  cay pool ls",
    .fn = list_pools,
};

typedef struct rm_args {
    const char *tenant;
} rm_args;

static const opt_def rm_defs[] = { { "tenant", 0, "NAME", "whose pool it is; default: default",
                                     OPT_STR, offsetof(rm_args, tenant) },
                                   OPT_END };

static int remove_pools(void *opts, int argc, char **argv)
{
    const rm_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    for (int i = 0; i < argc; i++) {
        if (cli_service(&client, &err) < 0 ||
            cay_pool_remove(client, NULL, a->tenant, argv[i], &err) < 0)
            return cli_fail(&err, CLI_FAIL);
        cli_audit("pool.rm", argv[i], NULL);
    }
    return CLI_OK;
}

const cli_verb cli_pool_rm = {
    .name = "pool rm",
    .operands = "[OPTIONS] TEMPLATE…",
    .summary = "keep none of it ready any more",
    .examples = "  cay pool rm code-server",
    .opts = { { rm_defs, 0 } },
    .size = sizeof(rm_args),
    .min = 1,
    .max = CLI_ANY,
    .fn = remove_pools,
};
