/* SPDX-License-Identifier: Apache-2.0 */
/* What the server is made of: a row per protocol, a row per part. */
#include "dialect/dialect.h"

const cay__dialect *const cay__dialects[] = {
    &cay__dialect_root,
    &cay__dialect_native,
    &cay__dialect_sandbox_server,
    &cay__dialect_e2b_envd,
    &cay__dialect_e2b_code,
    &cay__dialect_e2b,
    NULL,
};

const cay__part cay__parts[] = {
    { NULL },
};
