/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandboxed.h - what the longer examples share: a sandbox around one function. hello.c shows the
 * same step by step.
 */
#pragma once
#include <cay/cay.h>
#include <stdio.h>

/* Opens the service, makes a sandbox, calls work, removes it. The exit code of the program. */
static inline int sandboxed(const char *name, const char *provider,
                            int (*work)(cay_sandbox *sb, cay_err *err))
{
    cay_err err = CAY_ERR_INIT;
    cay_open open = { .size = sizeof open, .provider = provider ? provider : "native" };
    cay_create spec = { .size = sizeof spec, .name = name, .life.ttl_ms = 60000 };
    cay_client *client;
    cay_sandbox *sb;

    int rc = cay_client_open(&open, &client, &err);
    if (rc == 0) {
        rc = cay_client_create(client, NULL, &spec, &sb, &err);
        if (rc == 0) {
            rc = work(sb, &err);
            int gone = cay_sandbox_remove(sb, NULL, rc < 0 ? NULL : &err);
            if (rc == 0)
                rc = gone;
            cay_sandbox_unref(sb);
        }
        cay_client_close(client);
    }
    if (rc < 0)
        fprintf(stderr, "%s: %s: %s\n", name, cay_code_name(err.code), err.msg);
    return rc < 0;
}
