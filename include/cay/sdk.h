/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/sdk.h - our errors by the names that the Agents SDKs have for them. docs/sdk-map.md has everything else.
 *
 *   cay_sdk_error_of()   "WorkspaceReadNotFoundError", "workspace_read_not_found", …
 */
#pragma once
#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_sdk_error {
    const char *name;      /* of the class: "ExecTimeoutError"; never NULL */
    char        alias[48]; /* without its end: "ExecTimeout" */
    const char *code;      /* error_code: "exec_timeout" */
    int         retry;     /* CAY_RETRY_… : what the SDK would say */
} cay_sdk_error;

/* op: what was tried: start, stop, exec, read, write, persist_workspace, hydrate_workspace, snapshot_persist, snapshot_restore,
 * resolve_exposed_port; or NULL. Reasons that say enough decide without it. */
CAY_API cay_sdk_error cay_sdk_error_of(const cay_err *err, const char *op);

#ifdef __cplusplus
}
#endif
