/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that belong to no protocol. */
#include "dialect.h"
#include <base/base.h>
#include <server/metrics.h>

static int on_health(cay__req *r, cay_err *err)
{
    static const char text[] = "{\"status\":\"ok\"}\n";
    (void)err;
    return cay__reply(r, 200, "application/json", text, sizeof text - 1);
}

static const cay__route routes[] = {
    { "GET", "/metrics", cay__on_metrics, CAY__ROUTE_ADMIN, NULL },
    { "GET", "/health", on_health, CAY__ROUTE_OPEN | CAY__ROUTE_LOOP, NULL },
};

const cay__dialect cay__dialect_root = { .name = "root", .base = "", .routes = routes, .nroutes = CAY_LEN(routes) };
