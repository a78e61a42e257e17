/* SPDX-License-Identifier: Apache-2.0 */
/* Who did what: a tenant sees its own lines. */
#include "native.h"
#include <base/base.h>
#include <cay/audit.h>

#define AT(field) offsetof(cay_audit, field)
static const cay__field line_fields[] = {
    { "seq", CAY__F_U64, AT(seq) },
    { "time_ms", CAY__F_I64, AT(time_ms) },
    { "actor", CAY__F_STR, AT(actor), .about = "key:ID, tenant:NAME, uid:N" },
    { "tenant", CAY__F_STR, AT(tenant), CAY__F_MAYBE },
    { "action", CAY__F_STR, AT(action) },
    { "object", CAY__F_STR, AT(object), CAY__F_MAYBE },
    { "verdict", CAY__F_STR, AT(verdict), .about = "ok, refused or failed" },
    { "peer", CAY__F_STR, AT(peer), CAY__F_MAYBE },
    { "request", CAY__F_STR, AT(request), CAY__F_MAYBE, .about = "X-Request-Id of its answer" },
    { "status", CAY__F_INT, AT(status), CAY__F_MAYBE },
    { "us", CAY__F_U64, AT(us), CAY__F_MAYBE, .about = "how long it took" },
    { "hash", CAY__F_STR, AT(hash) },
};
static const cay__shape line_shape =
    CAY__SHAPE("AuditLine", cay_audit, line_fields, "one thing that was done, or refused");

static int add_line(const cay_audit *a, void *arg)
{
    return cay__items_add(arg, a);
}

static const cay__query list_query[] = {
    { "object", "string", "only what was done to it" },
    { "action", "string", "only what begins so" },
    { "since_ms", "integer", "only from then on" },
    { "last", "integer", "the newest: 1 to 10000; 100" },
    { "tenant", "string", "only of this one; to scope admin" },
    { NULL },
};
const cay__doc cay__doc_audit_list = { "listAudit", "audit", "who did what, oldest first",
                                       .query = list_query,
                                       .answers = { { 200, &line_shape, .list = true }, { 400 } } };
int cay__on_audit_list(cay__req *r, cay_err *err)
{
    uint64_t last, since;
    cay__items l;
    CAY_TRY(cay__req_number(r, "last", 100, 10000, &last, err));
    CAY_TRY(cay__req_number(r, "since_ms", 0, INT64_MAX, &since, err));
    cay_audit_filter f = { .size = sizeof f,
                           .tenant = cay__req_tenant(r),
                           .object = cay__req_query(r, "object"),
                           .action = cay__req_query(r, "action"),
                           .since_ms = (int64_t)since,
                           .last = (size_t)CAY_MAX(last, 1u) };
    cay__items_begin(&l, r, &line_shape);
    int rc = cay_audit_list(r->client, &f, add_line, &l, err);
    if (rc < 0)
        cay__items_drop(&l);
    if (rc < 0)
        return rc;
    return cay__items_reply(&l, 200, err);
}

typedef struct proof {
    cay_audit_proof p;
    bool sound;
} proof;
static const cay__field proof_fields[] = {
    { "sound", CAY__F_BOOL, offsetof(proof, sound) },
    { "first", CAY__F_U64, offsetof(proof, p.first) },
    { "last", CAY__F_U64, offsetof(proof, p.last) },
    { "torn", CAY__F_U64, offsetof(proof, p.torn), .about = "lines that a crash cut" },
    { "dropped", CAY__F_U64, offsetof(proof, p.dropped), .about = "lines that were only counted" },
    { "head", CAY__F_TEXT, offsetof(proof, p.head) },
    { "why", CAY__F_TEXT, offsetof(proof, p.why), CAY__F_MAYBE },
};
static const cay__shape proof_shape =
    CAY__SHAPE("AuditProof", proof, proof_fields, "do all lines follow each other");

static const cay__query proof_query[] = {
    { "head", "string", "SEQ:HASH of an earlier proof, which has to be there still" }, { NULL }
};
const cay__doc cay__doc_audit_proof = { "proveAudit", "audit", "is it all still so",
                                        .query = proof_query,
                                        .answers = { { 200, &proof_shape }, { 400 } } };
int cay__on_audit_proof(cay__req *r, cay_err *err)
{
    proof p = { .p = { .size = sizeof p.p } };
    int rc = cay_audit_verify(r->client, cay__req_query(r, "head"), &p.p, err);
    if (rc < 0 && rc != CAY_ESTATE)
        return rc;
    p.sound = rc == 0;
    return cay__reply_shape(r, 200, &proof_shape, &p);
}
