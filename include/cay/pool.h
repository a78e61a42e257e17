/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/pool.h - sandboxes of a template that are made before anybody asks for them.
 *
 *   cay_pool_put()     keep some ready
 *   cay_pool_list()    those that are kept, and how they do
 *   cay_pool_remove()  keep none any more
 *   cay_pool_schedule()     leave work where one has fallen below its low mark
 *   cay_pool_fill()    do that work
 *
 * A pool is of one template. When fewer than `low` of its sandboxes are ready, more are made until
 * there are `high`; whoever asks for a sandbox that is made as those are is given one, with its
 * services ready. One that is ready belongs to nobody: it is in no list and in nobody's quota, and
 * the tenant that takes it is asked for its own as if it had been made for it, in the same
 * transaction.
 *
 * What may differ between a request and the sandbox that is ready: name, labels, metadata, tenant,
 * time-outs, auto_resume and the isolation that is asked for. Anything else (environment, limits,
 * user, network, mounts, …) has to be alike; when several requests for the template that were
 * granted differ from what is kept and are alike among themselves, the pool turns to their kind,
 * once in a few minutes at most. Only those of tenant default and of the pool's own tenant do, and
 * none with services, environment, network or options of their own or with limits above the
 * template's.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAY_POOL_MAX  64     /* sandboxes of a pool, and pools */
#define CAY_POOL_TASK "warm" /* the kind of its jobs (cay/jobs.h); the subject is the pool's id */

typedef struct cay_pool {
    size_t size;
    const char
        *template_; /* a name or id, looked up each time: a name that moves takes its pool along */
    const char *tenant; /* who looks it up; NULL: "default" */
    unsigned low, high; /* 1 <= low <= high <= CAY_POOL_MAX */
    /* only when reading */
    const char *id;    /* of the pool */
    const char *error; /* why the last one could not be made, or "" */
    unsigned ready, making;
} cay_pool;
typedef int cay_pool_fn(const cay_pool *pool, void *arg);

/* Again: other marks. CAY_ENOENT, "template_not_found"; CAY_ETOOBIG, "warm_too_many". */
CAY_API int cay_pool_put(cay_client *client, const cay_call *call, const cay_pool *spec,
                         cay_err *err);
CAY_API int cay_pool_list(cay_client *client, const cay_call *call, cay_pool_fn *fn, void *arg,
                          cay_err *err);
/* With the sandboxes that are ready. CAY_ENOENT, "warm_not_found". */
CAY_API int cay_pool_remove(cay_client *client, const cay_call *call, const char *tenant,
                            const char *template_, cay_err *err);

/* For who does the work of the queue: the server's controller. */
CAY_API int cay_pool_schedule(cay_client *client, cay_err *err);
CAY_API int cay_pool_fill(cay_client *client, const cay_call *call, const char *id, cay_err *err);
/* Since the client was opened: sandboxes that were given out, and requests for which none was
 * ready. */
CAY_API void cay_pool_counts(const cay_client *client, uint64_t *taken, uint64_t *missed);

#ifdef __cplusplus
}
#endif
