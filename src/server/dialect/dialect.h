/* SPDX-License-Identifier: Apache-2.0 */
/* server/dialect/dialect.h - the protocols by name, for the server's table. */
#pragma once
#include <server/http/server.h>

extern const cay__dialect cay__dialect_root; /* what belongs to no protocol: /health */
extern const cay__dialect cay__dialect_native;
extern const cay__dialect cay__dialect_sandbox_server;
extern const cay__dialect cay__dialect_cloudflare; /* cloudflare/cloudflare.h */
extern const cay__dialect cay__dialect_e2b, cay__dialect_e2b_envd,
    cay__dialect_e2b_code; /* e2b/e2b.h */
