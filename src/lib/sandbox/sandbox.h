/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/sandbox/sandbox.h - what is behind a cay_sandbox and a cay_proc, inside the library.
 *
 * `service/` makes handles and sets touch and drop; the small static command makes them straight
 * from the native provider. So `sandbox/` includes nothing of `service/`.
 */
#pragma once
#include <cay/sys/provider.h>
#include <base/base.h>
#include <stdatomic.h>

typedef char cay__id[CAY_ID_LEN + 1]; /* of a sandbox, a snapshot, … */

struct cay_sandbox {
    atomic_int refs;
    cay__id id;
    const cay_provider_ops *ops;
    _Atomic(void *) box; /* the provider's handle; NULL while it is stopped */
    _Atomic int state;   /* cay_state as last seen */
    /* Set by service/: note that the sandbox is used; drop what hangs on the handle. May be NULL.
     */
    void (*touch)(cay_sandbox *sb);
    void (*drop)(cay_sandbox *sb);
    /* A command that was started through this handle has ended and was waited for; NULL: nobody
     * cares. What goes wrong is kept for cay_sandbox_checkpoint_error(). */
    int (*ended)(cay_sandbox *sb, cay_err *err);
    unsigned checkpoint; /* automatic snapshots to keep */
    _Atomic(cay_err *) ended_err;
    void *owner; /* the cay_client, or NULL */
};

/* An operation that was added after the first release: there, and not NULL. */
#define CAY__HAS(ops, op) ((ops)->size > offsetof(cay_provider_ops, op) && (ops)->op)
/* Layers that are trees below layers/, so that what somebody else made of one can be stood on. */
#define CAY__TREES(ops) (CAY__HAS(ops, snapshot) && !CAY__HAS(ops, opaque_layers))

struct cay_proc {
    cay_sandbox *sb; /* counted */
    void *obj;
    atomic_bool untold; /* started here, and its end was not told to sb->ended yet */
};

CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref)
CAY_DEFINE_AUTO(cay_proc, cay_proc_unref)

/* A handle with one reference on a provider's box, running. The last unref calls drop, then
 * releases the box; a drop that sets box to NULL keeps it from being released. */
cay_sandbox *cay__sandbox_new(const cay_provider_ops *ops, const char *id, void *box);
/* CAY_ESTATE, naming state and remedy, unless the sandbox may run things now. Touches it. A state
 * that would refuse is asked of the provider again first: another program may have changed it. */
int cay__sandbox_ready(cay_sandbox *sb, cay_err *err);
/* The same for work on files, which a paused sandbox allows as far as its provider does. */
int cay__sandbox_files(cay_sandbox *sb, cay_err *err);
/* Every file operation begins alike: a sound path, an operation that exists, a sandbox that allows
 * it; and the path is inside the fence of whoever asks. */
int cay__file_enter(cay_sandbox *sb, const cay_call *call, bool has_op, const char *what,
                    const char *path, bool write, cay_err *err);
/* Refuses NULL, empty and over-long paths. Any other bytes may be a name. */
int cay__path_check(const char *path, cay_err *err);
/* Refuses a user name that is empty, over-long or has a byte no passwd(5) name may have. */
int cay__user_check(const char *user, cay_err *err);
/* c->net: sound, and something this provider can enforce. */
int cay__net_check(const cay_create *c, const cay_provider_ops *ops, cay_err *err);
/* CAY_ENOTSUP naming the operation and the provider. */
int cay__no_such_op(const cay_sandbox *sb, const char *op, cay_err *err);

/* What a call may touch; fence.c. */
const cay_fence *cay__fence_of(const cay_call *call); /* or NULL */
/* CAY_EPERM "fence" when the call's fence does not let path be read, or written. */
int cay__fence_path(cay_sandbox *sb, const cay_call *call, const char *path, bool write,
                    cay_err *err);
/* The call's fence becomes the command's. CAY_ENOTSUP where the provider cannot hold it. */
int cay__fence_spawn(const cay_sandbox *sb, const cay_call *call, cay_spawn *s, cay_err *err);
