/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/tool/cdp.h - a headless Chromium in the sandbox, driven by the DevTools protocol over
 * its standard streams: no port is opened.
 */
#pragma once
#include <base/buf.h>
#include <base/json.h>
#include <cay/sandbox.h>

typedef struct cay__cdp {
    cay_proc *p;
    int fd;
    cay__buf in;
    int64_t id;
    char session[80]; /* of its one page; "" until it is there */
} cay__cdp;

/* CAY_ENOENT naming the remedy when there is no Chromium inside. *out is malloc'ed. */
int cay__cdp_open(cay_sandbox *sb, const char *user, const char *cwd, const cay_pair *env,
                  const cay_call *call, cay__cdp **out, cay_err *err);
void cay__cdp_close(cay__cdp *c); /* ends the browser; NULL is nothing */
/* One command to the page. Takes params (or NULL); *result (may be NULL) is the caller's.
 * CAY_EUPSTREAM "browser_failed" for what the browser refuses, CAY_ESTATE when it has ended. */
int cay__cdp_call(cay__cdp *c, const cay_call *call, const char *method, json_t *params,
                  json_t **result, cay_err *err);
/* The value of an expression, by value. CAY_EUPSTREAM with what it threw. */
int cay__cdp_eval(cay__cdp *c, const cay_call *call, const char *script, json_t **value,
                  cay_err *err);
