/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/sdk.h - our errors by the names that the Agents SDKs have for them. docs/sdk-map.md has
 * everything else.
 *
 *   cay_sdk_error_of()   "WorkspaceReadNotFoundError", "workspace_read_not_found", …
 *   cay_sdk_error_is()   it, or a kind of it: "WorkspaceIOError", "SandboxError"
 */
#pragma once
#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_sdk_error {
    const char *name; /* of the class: "ExecTimeoutError"; never NULL */
    char alias[48];   /* without its end: "ExecTimeout" */
    const char *code; /* error_code: "exec_timeout" */
    int retry;        /* CAY_RETRY_… : what the SDK would say */
} cay_sdk_error;

/* op: what was tried: start, stop, exec, read, write, persist_workspace, hydrate_workspace,
 * snapshot_persist, snapshot_restore, resolve_exposed_port, apply_patch; or NULL. Reasons that say
 * enough decide without it. */
CAY_API cay_sdk_error cay_sdk_error_of(const cay_err *err, const char *op);
/* As except or instanceof would say: by the name of its class, of one above it (those of the run
 * are "AgentsError"s), or its short form. */
CAY_API bool cay_sdk_error_is(const cay_sdk_error *e, const char *name);

#ifdef __cplusplus
}
#endif
