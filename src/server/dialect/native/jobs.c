/* SPDX-License-Identifier: Apache-2.0 */
/* What is due later. */
#include "native.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <cay/jobs.h>

#define AT(field) offsetof(cay_job, field)
static const cay__field job_fields[] = {
    { "id", CAY__F_STR, AT(id) },
    { "kind", CAY__F_STR, AT(kind) },
    { "subject", CAY__F_STR, AT(subject) },
    { "tenant", CAY__F_STR, AT(tenant) },
    { "key", CAY__F_STR, AT(key), CAY__F_MAYBE },
    { "detail", CAY__F_JSON, AT(detail), CAY__F_MAYBE },
    { "state", CAY__F_STR, AT(state), .about = "waiting, running, done, dead or canceled" },
    { "due_ms", CAY__F_I64, AT(due_ms) },
    { "attempts", CAY__F_U32, AT(attempts) },
    { "most", CAY__F_U32, AT(most) },
    { "error", CAY__F_STR, AT(error), CAY__F_MAYBE, .about = "of the last attempt" },
    { "created_ms", CAY__F_I64, AT(created_ms) },
    { "changed_ms", CAY__F_I64, AT(changed_ms) },
};
static const cay__shape job_shape =
    CAY__SHAPE("Job", cay_job, job_fields, "work that outlives who left it");

typedef struct job_body {
    const char *kind, *sandbox;
    int64_t due_ms;
    uint64_t in_ms;
} job_body;
static const char *const kinds[] = { "pause", "kill", "remove", NULL };
static const cay__field job_body_fields[] = {
    { "kind", CAY__F_CHOICE, offsetof(job_body, kind), CAY__F_REQUIRED, .more = kinds },
    { "sandbox", CAY__F_STR, offsetof(job_body, sandbox), CAY__F_REQUIRED,
      .about = "what it is done to" },
    { "due_ms", CAY__F_I64, offsetof(job_body, due_ms), .about = "wall clock; left out: now" },
    { "in_ms", CAY__F_U64, offsetof(job_body, in_ms), .max = 1ull << 42,
      .about = "instead: so long from now" },
};
static const cay__shape job_body_shape =
    CAY__SHAPE("JobCreate", job_body, job_body_fields,
               "what to do to a sandbox later; takes the place of one of the same kind");

typedef struct answering {
    cay__req *r;
    int status;
    bool found;
} answering;

static int reply_job(const cay_job *t, void *arg)
{
    answering *a = arg;
    a->found = true;
    if (a->status)
        return cay__reply_shape(a->r, a->status, &job_shape, t);
    return 0;
}

/* Of the asker's tenant; others are not there. status 0: only looks. */
static int tell_job(cay__req *r, const char *id, int status, cay_err *err)
{
    answering a = { .r = r, .status = status };
    CAY_TRY(cay_job_list(
        r->client,
        &(cay_job_filter){ .size = sizeof(cay_job_filter), .id = id, .tenant = cay__req_tenant(r) },
        reply_job, &a, err));
    if (a.found)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "task_not_found", "there is no job %.20s", id);
}

const cay__doc cay__doc_job_create = { "createJob", "jobs", "do something to a sandbox later",
                                       .body = &job_body_shape,
                                       .answers = { { 201, &job_shape }, { 400 }, { 404 } } };
int cay__on_job_create(cay__req *r, cay_err *err)
{
    job_body b = { 0 };
    char id[CAY_ID_LEN + 1];
    cay_sandbox *sb;
    cay_info *info = NULL;
    CAY_TRY(cay__req_shape(r, &job_body_shape, &b, err));
    if (b.in_ms && b.due_ms)
        return cay_fail_why(err, CAY_EINVAL, "field_invalid",
                            "in_ms: it stands instead of due_ms, not beside it");
    CAY_TRY(cay__req_sandbox(r, b.sandbox, &sb, err));
    CAY_TRY(
        cay_sandbox_describe(sb, &r->call, &info, err)); /* an admin may mean another tenant's */
    cay_job t = { .size = sizeof t,
                  .kind = b.kind,
                  .subject = info->id,
                  .key = info->id,
                  .tenant = info->tenant,
                  .due_ms = b.in_ms ? cay__clock_ms() + (int64_t)b.in_ms : b.due_ms };
    int rc = cay_job_put(r->client, &t, CAY_JOB_REPLACE, id, err);
    cay_info_free(info);
    CAY_TRY(rc);
    cay__req_about(r, id);
    return tell_job(r, id, 201, err);
}

static int add_job(const cay_job *t, void *arg)
{
    return cay__items_add(arg, t);
}

static const cay__query list_query[] = {
    { "state", "string", "waiting, running, done, dead or canceled" },
    { "kind", "string", "pause, kill, …" },
    { "sandbox", "string", "only what is done to this one" },
    { "tenant", "string", "only of this one; to scope admin" },
    { "limit", "integer", "how many at most: 1 to 1000; 100" },
    { NULL },
};
const cay__doc cay__doc_job_list = { "listJobs", "jobs", "by the time they are due",
                                     .query = list_query,
                                     .answers = { { 200, &job_shape, .list = true }, { 400 } } };
int cay__on_job_list(cay__req *r, cay_err *err)
{
    uint64_t limit;
    cay__items l;
    CAY_TRY(cay__req_number(r, "limit", 100, 1000, &limit, err));
    if (!limit)
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?limit=0: want 1 to 1000");
    cay_job_filter f = { .size = sizeof f,
                         .state = cay__req_query(r, "state"),
                         .kind = cay__req_query(r, "kind"),
                         .subject = cay__req_query(r, "sandbox"),
                         .tenant = cay__req_tenant(r),
                         .limit = (size_t)limit };
    cay__items_begin(&l, r, &job_shape);
    int rc = cay_job_list(r->client, &f, add_job, &l, err);
    if (rc < 0)
        cay__items_drop(&l);
    if (rc < 0)
        return rc;
    return cay__items_reply(&l, 200, err);
}

const cay__doc cay__doc_job_get = { "getJob", "jobs", "one of them",
                                    .answers = { { 200, &job_shape }, { 404 } } };
int cay__on_job_get(cay__req *r, cay_err *err)
{
    return tell_job(r, r->param[0], 200, err);
}

static int update_job(cay__req *r, int (*fn)(cay_client *, const char *, cay_err *), cay_err *err)
{
    CAY_TRY(tell_job(r, r->param[0], 0, err));
    CAY_TRY(fn(r->client, r->param[0], err));
    return tell_job(r, r->param[0], 200, err);
}

const cay__doc cay__doc_job_cancel = { "cancelJob", "jobs", "take one back that waits or runs",
                                       .answers = { { 200, &job_shape }, { 404 }, { 409 } } };
int cay__on_job_cancel(cay__req *r, cay_err *err)
{
    return update_job(r, cay_job_cancel, err);
}

const cay__doc cay__doc_job_replay = { "replayJob", "jobs", "a dead or canceled one once more",
                                       .answers = { { 200, &job_shape }, { 404 }, { 409 } } };
int cay__on_job_replay(cay__req *r, cay_err *err)
{
    return update_job(r, cay_job_replay, err);
}
