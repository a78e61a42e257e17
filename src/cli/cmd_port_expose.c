/* SPDX-License-Identifier: Apache-2.0 */
/* cay port expose, unexpose, exposed: tokens for ports, for the preview proxy of a server. */
#include "main.h"
#include "show.h"
#include "parse.h"
#include <base/base.h>

typedef struct expose_args {
    uint64_t expires_ms;
} expose_args;

static const opt_def expose_defs[] = { OPT_MS("--expires TIME",
                                              "how long the token holds (default 1d, at most 7d)",
                                              expose_args, expires_ms, 1000, 7 * 86400000ull),
                                       OPT_END };

static int expose_port(cli_call *c, cay_err *err)
{
    const expose_args *a = c->opts;
    cay_exposed e = { .size = sizeof e };
    uint16_t port;
    if (cli_parse_port(c->argv[1], &port, err) < 0)
        return cli_usage(c->verb, err);
    CAY_TRY(cli_find(c, err));
    CAY_TRY(cay_port_expose(c->sb, port, a->expires_ms, &e, err));
    if (cli.json) {
        cay__exposed_told told = { .e = e };
        show_print(&cay__exposed_shape, &told);
        explicit_bzero(&told, sizeof told);
    } else {
        out_fmt("%s\n", e.token);
        out_note("cay: opens port %u of %s until %s; it is not shown again", port,
                 cay_sandbox_id(c->sb), out_time(e.expires_ms).s);
    }
    explicit_bzero(&e, sizeof e);
    return CLI_OK;
}

const cli_verb cli_port_expose = {
    "port expose",
    "[--expires TIME] ID PORT",
    "make a token that opens a port to whoever has it",
    .text = "For the preview proxy of a server. The token is printed once and kept as a hash; a "
            "new one makes the former void.",
    .examples = "  cay port expose c7f 8000\n"
                "  cay port expose --expires 2h --json c7f 8000",
    CLI_OPTS(expose_defs, expose_args),
    .min = 2,
    .fn = expose_port,
};

static int unexpose_port(cli_call *c, cay_err *err)
{
    uint16_t port;
    if (cli_parse_port(c->argv[1], &port, err) < 0)
        return cli_usage(c->verb, err);
    CAY_TRY(cli_find(c, err));
    return cay_port_unexpose(c->sb, port, err);
}

const cli_verb cli_port_unexpose = {
    "port unexpose",
    "ID PORT",
    "take the token of a port back",
    .examples = "  cay port unexpose c7f 8000",
    .min = 2,
    .fn = unexpose_port,
};

static int on_exposed(const cay_exposed *e, void *arg)
{
    out_list *r = arg;
    char port[8];
    const cay__exposed_told told = { .e = *e };
    CAY_FORMAT(port, "%u", e->port);
    if (!show_item(r, &cay__exposed_shape, &told, port)) {
        out_row(&r->table, "*%s|%s", port, out_time(e->expires_ms).s);
    }
    return 0;
}

static int list_exposed(cli_call *c, cay_err *err)
{
    return cay_port_exposed(c->sb, on_exposed, c->list, err);
}

const cli_verb cli_port_exposed = {
    "port exposed",
    "ID",
    "list the ports that a token opens",
    .examples = "  cay port exposed c7f",
    .min = 1,
    .needs = CLI_SANDBOX,
    .columns = ">PORT|EXPIRES",
    .fn = list_exposed,
};
