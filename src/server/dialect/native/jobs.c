/* SPDX-License-Identifier: Apache-2.0 */
/* What is due later. */
#include "native.h"

typedef struct finding {
    cay__req *r;
    bool reply, found;
} finding;

static int on_job(const cay_job *t, void *arg)
{
    finding *f = arg;
    f->found = true;
    return f->reply ? cay__reply_object(f->r, t) : 0;
}

/* Of the asker's tenant; others are not there. */
static int find_job(cay__req *r, const char *id, bool reply, cay_err *err)
{
    finding f = { .r = r, .reply = reply };
    cay_job_filter filter = { .size = sizeof filter, .id = id, .tenant = cay__req_tenant(r) };
    CAY_TRY(cay_job_list(r->client, &filter, on_job, &f, err));
    if (f.found)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "task_not_found", "there is no job %.20s", id);
}

int cay__on_job_create(cay__req *r, cay_err *err)
{
    cay__job_body b = { 0 };
    char id[CAY_ID_LEN + 1];
    cay_sandbox *sb;
    CAY_AUTOPTR(cay_info) info = NULL;
    CAY_TRY(cay__req_body(r, &b, err));
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
    CAY_TRY(cay_job_put(r->client, &t, CAY_JOB_REPLACE, id, err));
    cay__req_about(r, id);
    return find_job(r, id, true, err);
}

CAY__ITEMS_ADD(add_job, cay_job)

int cay__on_job_list(cay__req *r, cay_err *err)
{
    cay_job_filter f = { .size = sizeof f, .limit = 100 };
    CAY_TRY(cay__req_asked(r, &f, err));
    if (!f.limit)
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?limit=0: want 1 to 1000");
    f.tenant = cay__req_tenant(r);
    cay__items l = cay__items_of(r);
    return cay__items_finish(&l, cay_job_list(r->client, &f, add_job, &l, err), err);
}

int cay__on_job_get(cay__req *r, cay_err *err)
{
    return find_job(r, r->param[0], true, err);
}

static int update_job(cay__req *r, int (*fn)(cay_client *, const char *, cay_err *), cay_err *err)
{
    CAY_TRY(find_job(r, r->param[0], false, err));
    CAY_TRY(fn(r->client, r->param[0], err));
    return find_job(r, r->param[0], true, err);
}

int cay__on_job_cancel(cay__req *r, cay_err *err)
{
    return update_job(r, cay_job_cancel, err);
}

int cay__on_job_replay(cay__req *r, cay_err *err)
{
    return update_job(r, cay_job_replay, err);
}
