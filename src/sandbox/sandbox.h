/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox/sandbox.h - what is behind a cay_sandbox and a cay_proc, inside the library.
 *
 * `service/` makes handles and sets touch and drop; the small static command makes them straight from
 * the native provider. So `sandbox/` includes nothing of `service/`.
 */
#pragma once
#include <cay/sys/provider.h>
#include <stdatomic.h>

struct cay_sandbox {
    atomic_int              refs;
    char                    id[CAY_ID_LEN + 1];
    const cay_provider_ops *ops;
    void                   *box; /* the provider's handle */
    _Atomic int             state; /* cay_state as last seen */
    /* Set by service/: note that the sandbox is used; drop what hangs on the handle. May be NULL. */
    void                  (*touch)(cay_sandbox *sb);
    void                  (*drop)(cay_sandbox *sb);
    void                   *owner; /* the cay_service, or NULL */
};

struct cay_proc {
    cay_sandbox *sb; /* counted */
    void        *obj;
};

/* A handle with one reference on a provider's box. */
cay_sandbox *cay__sandbox_new(const cay_provider_ops *ops, const char *id, void *box);
/* CAY_ESTATE, naming state and remedy, unless the sandbox may run things now. Touches it. */
int cay__sandbox_ready(cay_sandbox *sb, cay_err *err);
/* Refuses NULL, empty, over-long paths and those with a newline. */
int cay__path_check(const char *path, cay_err *err);
/* CAY_ENOTSUP naming the operation and the provider. */
int cay__no_such_op(const cay_sandbox *sb, const char *op, cay_err *err);
