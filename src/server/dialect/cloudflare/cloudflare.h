/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Cloudflare sandbox bridge, as the OpenAI Agents SDK speaks it: /v1/sandbox. docs/wire/cloudflare.md tells what is answered.
 */
#pragma once
#include <base/base.h>
#include <server/dialect/dialect.h>

#define CF_ROOT     "/workspace"
#define CF_BODY_MAX ((uint64_t)32 << 20)

/* A file's path as the route has it, without its leading slash: absolute, clean, and in the workspace; else CAY_EPERM. */
int cf_path(cay__req *r, const char *given, const char **out, cay_err *err);
bool cf_session_valid(const char *id);
/* exec.c, pty.c */
int cf_exec(cay__req *r, cay_err *err);
int cf_pty(cay__req *r, cay_err *err);
int cf_ok(cay__req *r); /* {"ok":true} */
/* mount.c, extra.c */
int cf_mount(cay__req *r, cay_err *err), cf_unmount(cay__req *r, cay_err *err), cf_pool_stats(cay__req *r, cay_err *err), cf_pool_ok(cay__req *r, cay_err *err);
int cf_openapi(cay__req *r, cay_err *err), cf_openapi_page(cay__req *r, cay_err *err);
