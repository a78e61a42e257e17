/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/jobs.h - a queue in the store: work that is due at a time, done by whoever takes it, and not
 * lost with him.
 *
 *   cay_job_put()     leave work
 *   cay_job_claim()   take what is due, for a while
 *   cay_job_done()    it is done
 *   cay_job_fail()    it failed: again later, or dead at last
 *   cay_job_renew()   a while longer
 *   cay_job_cancel()  it is not wanted any more
 *   cay_job_replay()  a dead one once more
 *   cay_job_list()    all of them
 *
 * waiting → running → done; running → waiting again after a failure or when a lease runs out, with
 * a back-off that doubles; dead after its last attempt; canceled from waiting and running. A task
 * runs at least once, so its effect has to be one that may come twice. Each claim has a higher
 * fence: who lost his lease cannot end what another has taken since. Times are wall clock, since
 * they outlive the machine's boot.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_job {
    size_t size;
    const char
        *kind; /* 1 to 64 of [a-z0-9._-]; the server does "pause", "kill", "remove", "settle", "gc",
                  "warm" (cay/pool.h) and "build" (cay/build.h), and leaves others alone */
    const char *subject; /* what it is about: the id of a sandbox; or NULL */
    const char *tenant;  /* NULL: "default" */
    const char
        *key; /* of those of a kind that wait or run, only one has it; NULL: many may be alike */
    const char *detail; /* one JSON object, at most 64 KiB; or NULL */
    int64_t due_ms;     /* 0: now */
    unsigned most;      /* attempts; 0: 4 */
    uint64_t
        backoff_ms; /* before attempt n + 1: that much, doubled n times, a day at most; 0: 60,000 */
    /* only when reading */
    const char *id, *state, *owner, *error;
    unsigned attempts;
    uint64_t fence;
    int64_t lease_ms, created_ms, changed_ms;
    /* only when putting */
    unsigned waiting_most; /* CAY_ERATE, "queue_full", when so many of this kind wait for the tenant
                              already; 0: as many as come */
} cay_job;
typedef int cay_job_fn(const cay_job *job, void *arg);

/* One with the same kind and key that waits or runs: it stays and its id is told; or it is canceled
 * and the new one takes its place. */
enum { CAY_JOB_KEEP = 0, CAY_JOB_REPLACE = 1 };
/* On the disk when it returns. id: CAY_ID_LEN + 1 bytes, or NULL. */
CAY_API int cay_job_put(cay_client *client, const cay_job *spec, unsigned how, char *id,
                        cay_err *err);

/* The one that has been due for longest, of these kinds (NULL: of all), until lease_ms from now.
 * owner: for people. CAY_ENOENT, "task_none", when nothing is due; then err->retry_after_ms tells
 * when something will be, or 0. Give the answer to cay_job_free(). */
CAY_API int cay_job_claim(cay_client *client, const char *const *kinds, const char *owner,
                          uint64_t lease_ms, cay_job **out, cay_err *err);
/* The same in turn: of the tenant that has the fewest at work, and of those the one whose turn is
 * longest ago; none of a tenant of which this owner has CAY_JOB_TENANT_MAX at work, of whatever
 * kind. When he has CAY_JOB_SHARED_MAX of these kinds at work, what is left is for those who have
 * none. */
enum { CAY_JOB_TENANT_MAX = 2, CAY_JOB_SHARED_MAX = 3 };
CAY_API int cay_job_claim_fair(cay_client *client, const char *const *kinds, const char *owner,
                               uint64_t lease_ms, cay_job **out, cay_err *err);
CAY_API void cay_job_free(cay_job *t);
/* By who claimed it. CAY_ESTATE, "task_lost": it was canceled, or another has it. */
CAY_API int cay_job_renew(cay_client *client, const cay_job *t, uint64_t lease_ms, cay_err *err);
CAY_API int cay_job_done(cay_client *client, const cay_job *t, cay_err *err);
CAY_API int cay_job_fail(cay_client *client, const cay_job *t, const char *why, cay_err *err);

CAY_API int cay_job_cancel(cay_client *client, const char *id,
                           cay_err *err); /* CAY_ENOENT; CAY_ESTATE when it has ended */
/* All of a kind (NULL: any) that wait or run about one thing; *n (or NULL) tells how many. */
CAY_API int cay_job_cancel_of(cay_client *client, const char *kind, const char *subject, size_t *n,
                              cay_err *err);
CAY_API int cay_job_replay(
    cay_client *client, const char *id,
    cay_err *err); /* a dead or canceled one: due now, with all its attempts */
/* Those that ended well or were canceled before that time; dead ones stay until they are replayed
 * or named. */
CAY_API int cay_job_sweep(cay_client *client, int64_t before_ms, size_t *n, cay_err *err);

typedef struct cay_job_filter {
    size_t size;
    const char *state, *kind, *subject, *tenant, *id; /* or NULL */
    size_t limit;                                     /* 0: all */
} cay_job_filter;
/* By the time they are due. */
CAY_API int cay_job_list(cay_client *client, const cay_job_filter *filter, cay_job_fn *fn,
                         void *arg, cay_err *err);

#ifdef __cplusplus
}
#endif
