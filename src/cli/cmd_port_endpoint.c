/* SPDX-License-Identifier: Apache-2.0 */
/* cay port endpoint: where ports are that the provider itself publishes, as an engine does those of
 * a container. */
#include "main.h"
#include "parse.h"
#include "out.h"
#include "show.h"
#include <base/base.h>

static void endpoint_json(out_json *j, const cay_endpoint *e)
{
    char url[128];
    cay_endpoint_url(e, url, sizeof url);
    js_open(j, '{');
    show_members(j, &cay__endpoint_shape, e);
    js_put(j, "url:%s", url);
    js_close(j, '}');
}

static int on_json(const cay_endpoint *e, void *arg)
{
    endpoint_json(arg, e);
    return 0;
}

char *show_endpoints_json(cay_sandbox *sb)
{
    out_json j = js_begin(false, '[');
    int rc = cay_port_endpoints(sb, NULL, on_json, &j, NULL);
    js_close(&j, ']');
    char *text = NULL;
    if (rc == 0 && j.b.data && j.b.len > 2)
        text = cay__strdup(j.b.data);
    cay__buf_clear(&j.b);
    return text;
}

/* An IPv6 address has its brackets. */
static void write_place(cay__buf *b, const cay_endpoint *e)
{
    cay__buf_fmt(b, strchr(e->host, ':') ? "[%s]:%u" : "%s:%u", e->host, e->host_port);
}

static int on_text(const cay_endpoint *e, void *arg)
{
    CAY_AUTOBUF b = CAY__BUF(200);
    write_place(&b, e);
    out_fmt("%sport %-5u%s ", out_on(1, OUT_DIM), e->port, out_off(1));
    out_safe("%s\n", b.data);
    return 0;
}

void show_endpoints_text(cay_sandbox *sb)
{
    cay_port_endpoints(sb, NULL, on_text, NULL, NULL);
}

static int on_row(const cay_endpoint *e, void *arg)
{
    out_list *v = arg;
    CAY_AUTOBUF b = CAY__BUF(200);
    write_place(&b, e);
    if (cli.json) {
        endpoint_json(&v->json, e);
    } else if (cli.quiet) {
        out_fmt("%u\n", e->port);
    } else {
        out_row(&v->table, "*%u|%s", e->port, b.data);
    }
    return 0;
}

static int print_endpoint(cli_call *c, cay_err *err)
{
    cay_endpoint e = { .size = sizeof e };
    CAY_AUTOBUF b = CAY__BUF(200);
    uint16_t port;
    if (cli_parse_port(c->argv[1], &port, err) < 0)
        return cli_usage(c->verb, err);
    CAY_TRY(cay_port_endpoint(c->sb, NULL, port, &e, err));
    write_place(&b, &e);
    if (cli.json) {
        out_json j = OUT_JSON(true);
        endpoint_json(&j, &e);
        js_flush(&j);
    } else {
        out_safe("%s\n", b.data);
    }
    return CLI_OK;
}

static int show_endpoints(cli_call *c, cay_err *err)
{
    if (c->argc > 1)
        return print_endpoint(c, err);
    return cay_port_endpoints(c->sb, NULL, on_row, c->list, err);
}

const cli_verb cli_port_endpoint = {
    "port endpoint",
    "ID [PORT]",
    "tell where ports are that the provider publishes",
    .text = "Those of a container that was made with option publish. PORT alone prints HOST:PORT; "
            "one that nobody asked for is refused.",
    .examples =
        "  cay create --provider docker --image nginx --option network=bridge --option publish=80\n"
        "  curl http://$(cay port endpoint c7f 80)/",
    .min = 1,
    .max = 2,
    .needs = CLI_SANDBOX,
    .columns = ">PORT|REACHED AT",
    .fn = show_endpoints,
};
