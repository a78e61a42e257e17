/* SPDX-License-Identifier: Apache-2.0 */
/* What the server is made of: a row per protocol, a row per part. */
#include "controller.h"
#include "dialect/dialect.h"
#include "inside.h"

static int open_controller(cay__server *s, cay_err *err)
{
    return cay__controller_start(s->svc, &s->controller, err);
}

static void close_controller(cay__server *s)
{
    cay__controller_stop(s->controller);
}

const cay__dialect *const cay__dialects[] = {
    &cay__dialect_root,
    &cay__dialect_native,
    &cay__dialect_sandbox_server,
    &cay__dialect_e2b_envd,
    &cay__dialect_e2b_code,
    &cay__dialect_e2b,
    &cay__dialect_cloudflare,
    NULL,
};

const cay__part cay__parts[] = {
    { "controller", open_controller, close_controller },
    { NULL },
};
