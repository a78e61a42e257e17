/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that belong to no protocol. */
#include "dialect.h"
#include <base/base.h>
#include <server/console.h>
#include <server/metrics.h>
#include <server/login.h>

static int on_health(cay__req *r, cay_err *err)
{
    static const char text[] = "{\"status\":\"ok\"}\n";
    (void)err;
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
