/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/audit.h - who did what: lines that are only ever added, each bound to the one before by its
 * hash.
 *
 *   cay_audit_put()     one more line          cay_audit_list()   what was done
 *   cay_audit_verify()  is it all still so?
 *
 * In audit/ below the state directory: 00000001.jsonl and so on, a new file when one is full. Old
 * files may be taken away from the beginning; what is left still proves itself. Whoever can write
 * there can also write a whole new chain: keep the head that cay_audit_verify() tells somewhere
 * else, and give it back later.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_audit {
    size_t size;
    const char *actor;          /* "key:0123abcd", "tenant:acme", "uid:0" */
    const char *tenant;         /* or NULL */
    const char *action;         /* "POST /sandboxes", "key.create" */
    const char *object;         /* id of what it was done to, or NULL */
    const char *verdict;        /* "ok", "refused", "failed" */
    const char *peer, *request; /* address; id of the request; or NULL */
    int status;                 /* of the answer, or 0 */
    uint64_t us;                /* how long it took */
    /* only when reading */
    uint64_t seq;
    int64_t time_ms;
    const char *hash;
} cay_audit;
typedef int cay_audit_fn(const cay_audit *audit, void *arg);

/* In the file when it returns 0. Never content, environment or output. Too many at once are counted
 * instead, and the count is the next line: those that were refused count apart, so that nobody can
 * push others out. Safe with other threads and programs. */
CAY_API int cay_audit_put(cay_client *client, const cay_audit *a, cay_err *err);

typedef struct cay_audit_filter {
    size_t size;
    const char *tenant, *object, *action; /* action: its beginning; or NULL */
    int64_t since_ms;
    size_t last; /* only so many, the newest; 0: all */
} cay_audit_filter;
/* Oldest first. Lines that cannot be read are left out: cay_audit_verify() tells of them. */
CAY_API int cay_audit_list(cay_client *client, const cay_audit_filter *filter, cay_audit_fn *fn,
                           void *arg, cay_err *err);

typedef struct cay_audit_proof {
    size_t size;
    uint64_t first, last; /* numbers; 0: there is none */
    uint64_t torn;        /* lines that a crash cut; nothing is missing because of them */
    uint64_t dropped;     /* that were counted instead of written */
    char head[65];        /* hash of the last line */
    char why[160];        /* what is wrong, with file and line; "" when all is well */
} cay_audit_proof;
/* CAY_ESTATE, "audit_broken", when a line was changed, taken out or put in; *out is filled in any
 * case. head: of an earlier proof, "SEQ:HASH", which has to be in the chain; or NULL. */
CAY_API int cay_audit_verify(cay_client *client, const char *head, cay_audit_proof *out,
                             cay_err *err);

#ifdef __cplusplus
}
#endif
