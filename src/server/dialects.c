/* SPDX-License-Identifier: Apache-2.0 */
/* What the server is made of: a row per protocol, a row per part. */
#include "background.h"
#include <server/dialect/dialect.h>
#include "history.h"
#include <server/dialect/e2b/watchers.h>
#include <server/http/connection.h>
#include <base/base.h>
#include <server/console.h>
#include <server/telemetry.h>

static int open_controller(cay__server *s, cay_err *err)
{
    return cay__controller_start(s->client, &s->controller, err);
}

static void close_controller(cay__server *s)
{
    cay__controller_stop(s->controller);
}

static int open_builders(cay__server *s, cay_err *err)
{
    return cay__builders_start(s->client, &s->builders, err);
}

static void close_builders(cay__server *s)
{
    cay__builders_stop(s->builders);
}

static int open_watchers(cay__server *s, cay_err *err)
{
    s->watchers = e2b_watchers_new();
    return 0;
}

static void close_watchers(cay__server *s)
{
    e2b_watchers_free(s->watchers);
}

static int open_history(cay__server *s, cay_err *err)
{
    return cay__history_start(s->client, &s->history, err);
}

static void close_history(cay__server *s)
{
    cay__history_stop(s->history);
}

cay__builders *cay__server_builders(cay__server *s)
{
    return s->builders;
}

struct e2b_watchers *cay__server_watchers(cay__server *s)
{
    return s->watchers;
}

const cay__dialect *const cay__dialects[] = {
    &cay__dialect_root,           &cay__dialect_native,
    &cay__dialect_sandbox_server, &cay__dialect_e2b_envd,
    &cay__dialect_e2b_code,       &cay__dialect_e2b,
    &cay__dialect_cloudflare,     NULL,
};

const cay__part cay__parts[] = {
    { "controller", open_controller, close_controller },
    { "builders", open_builders, close_builders },
    { "watchers", open_watchers, close_watchers },
    { "figures", open_history, close_history },
    { NULL },
};

/* Paths that belong to no protocol. */

static int on_health(cay__req *r, cay_err *err)
{
    static const char text[] = "{\"status\":\"ok\"}\n";
    return cay__reply(r, 200, "application/json", text, sizeof text - 1);
}

static const cay__route routes[] = {
    CAY__ROUTE("GET", "/metrics", cay__on_metrics, CAY__OP_ADMIN),
    CAY__ROUTE("GET", "/", cay__on_console, CAY__OP_OPEN),
    CAY__ROUTE("GET", "/assets/{name}", cay__on_console_asset, CAY__OP_OPEN),
    CAY__ROUTE("GET", "/console/session", cay__on_session_get, CAY__OP_OPEN),
    CAY__ROUTE("POST", "/console/session", cay__on_session_post, CAY__OP_OPEN),
    CAY__ROUTE("DELETE", "/console/session", cay__on_session_delete, 0),
    CAY__ROUTE("POST", "/console/ticket", cay__on_ticket, 0),
    CAY__ROUTE("GET", "/console/sample", cay__on_sample, 0),
    CAY__ROUTE("GET", "/health", on_health, CAY__OP_OPEN | CAY__OP_LOOP),
};

const cay__dialect cay__dialect_root = {
    .name = "root", .base = "", .routes = routes, .nroutes = CAY_LEN(routes), .pages = true
};
