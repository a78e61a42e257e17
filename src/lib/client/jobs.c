/* SPDX-License-Identifier: Apache-2.0 */
/* The queue's rules: what may be put, how long to wait before another attempt. */
#include "remote.h"
#include "client.h"
#include <base/json.h>
#include <cay/jobs.h>

enum {
    MOST = 4,
    MOST_MAX = 100,
    WORD = 64,
    KEY = 255,
    DETAIL = 65536,
    BACKOFF = 60000,
    DAY = 86400000,
    ERROR = 500
};

static int fail_job_spec(const char *what, cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "task_spec", "job: %s", what);
}

static int check_spec(const cay_job *t, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    size_t n = 0;
    if (t->kind)
        n = strlen(t->kind);
    if (!n || n > WORD || strspn(t->kind, "abcdefghijklmnopqrstuvwxyz0123456789._-") != n)
        return fail_job_spec("its kind has 1 to 64 small letters, digits, '.', '_' and '-'", err);
    if ((t->subject && strlen(t->subject) > KEY) || (t->key && strlen(t->key) > KEY))
        return fail_job_spec("its subject and its key have at most 255 bytes", err);
    if (t->tenant)
        CAY_TRY(cay__tenant_check(t->tenant, err));
    if (t->detail && strlen(t->detail) > DETAIL)
        return fail_job_spec("its detail has at most 64 KiB", err);
    if (t->detail && *t->detail)
        CAY_TRY(cay__json_object("detail", t->detail, &o, err));
    if (t->most > MOST_MAX || t->backoff_ms > DAY || t->due_ms < 0)
        return fail_job_spec(
            "at most 100 attempts, a day before the next, and a time that is not before 1970", err);
    return 0;
}

int cay_job_put(cay_client *client, const cay_job *given, unsigned how, char *id, cay_err *err)
{
    CAY_TRY(cay__remote_none(client, "jobs", err));
    cay_job t;
    cay__id mine;
    CAY_TRY(cay__spec_take(&t, sizeof t, given, "cay_job", err));
    CAY_TRY(check_spec(&t, err));
    t.tenant = CAY_OR(t.tenant, CAY_TENANT_DEFAULT);
    t.most = CAY_OR(t.most, MOST);
    t.backoff_ms = CAY_OR(t.backoff_ms, BACKOFF);
    return CAY__STORE(client, job_put, &t, how, CAY_OR(id, mine), err);
}

static int copy_job(const cay_job *t, void *arg)
{
    const char *from[] = { t->kind, t->subject, t->tenant, t->key,  t->detail,
                           t->id,   t->state,   t->owner,  t->error };
    size_t need = sizeof *t;
    CAY_EACH(one, from)
        need += strlen(*one) + 1;
    cay_job *to = cay__alloc(need);
    const char **at[] = { &to->kind, &to->subject, &to->tenant, &to->key,  &to->detail,
                          &to->id,   &to->state,   &to->owner,  &to->error };
    char *p = (char *)(to + 1);
    *to = *t;
    for (size_t i = 0; i < CAY_LEN(from); i++) {
        size_t n = strlen(from[i]) + 1;
        memcpy(p, from[i], n);
        *at[i] = p;
        p += n;
    }
    *(cay_job **)arg = to;
    return 0;
}

void cay_job_free(cay_job *t)
{
    free(t);
}

int cay__queue_full(const char *tenant, const char *kind, unsigned waiting, unsigned most,
                    cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    cay_fail_why(&own, CAY_ERATE, "queue_full",
                 "%u jobs of kind %s wait for tenant %s, which is the most: try again when some "
                 "are done, or cancel one",
                 waiting, kind, tenant);
    own.retry = CAY_RETRY_YES;
    own.retry_after_ms = 5000;
    CAY_FORMAT(own.detail, "{\"queue\":%u,\"most\":%u}", waiting, most);
    if (err)
        *err = own;
    return CAY_ERATE;
}

static int claim_job(cay_client *client, bool turn, const char *const *kinds, const char *owner,
                     uint64_t lease_ms, cay_job **out, cay_err *err)
{
    CAY_TRY(cay__remote_none(client, "jobs", err));
    CAY_AUTOJSON *list = NULL;
    if (kinds)
        list = json_array();
    cay_err own = CAY_ERR_INIT;
    int64_t now = cay__clock_ms(), next = 0;
    for (; kinds && *kinds; kinds++)
        json_array_append_new(list, json_string(*kinds));
    CAY_AUTOFREE char *text = NULL;
    if (list)
        text = cay__json_text(list, DETAIL);
    if ((list && !text) || !lease_ms || lease_ms > DAY)
        return fail_job_spec("a lease is 1 ms to a day", err);
    int rc = (turn ? client->store->job_claim_fair
                   : client->store->job_claim)(client->db, text, CAY_OR(owner, ""), now,
                                               now + (int64_t)lease_ms, copy_job, out, &next, &own);
    if (rc == CAY_ENOENT && next)
        own.retry_after_ms = (uint32_t)CAY_MIN(CAY_MAX(next - now, 1), (int64_t)UINT32_MAX);
    return cay__err_pass(rc, &own, err);
}

int cay_job_claim(cay_client *client, const char *const *kinds, const char *owner,
                  uint64_t lease_ms, cay_job **out, cay_err *err)
{
    return claim_job(client, false, kinds, owner, lease_ms, out, err);
}

int cay_job_claim_fair(cay_client *client, const char *const *kinds, const char *owner,
                       uint64_t lease_ms, cay_job **out, cay_err *err)
{
    return claim_job(client, true, kinds, owner, lease_ms, out, err);
}

int cay_job_renew(cay_client *client, const cay_job *t, uint64_t lease_ms, cay_err *err)
{
    return CAY__STORE(client, job_end, t->id, t->fence, "running",
                      cay__clock_ms() + (int64_t)CAY_MIN(lease_ms, (uint64_t)DAY), NULL, err);
}

int cay_job_done(cay_client *client, const cay_job *t, cay_err *err)
{
    return CAY__STORE(client, job_end, t->id, t->fence, "done", 0, "", err);
}

int cay_job_fail(cay_client *client, const cay_job *t, const char *why, cay_err *err)
{
    char text[ERROR + 1];
    CAY_COPY(text, CAY_OR(why, ""));
    if (t->attempts >= t->most)
        return CAY__STORE(client, job_end, t->id, t->fence, "dead", 0, text, err);
    uint64_t wait = t->backoff_ms;
    for (unsigned i = 0; i < t->attempts && wait < DAY; i++)
        wait *= 2;
    return CAY__STORE(client, job_end, t->id, t->fence, "waiting",
                      cay__clock_ms() + (int64_t)CAY_MIN(wait, (uint64_t)DAY), text, err);
}

static int check_id(const char *id, cay_err *err)
{
    if (id && cay__id_valid(id, 'j'))
        return 0;
    return fail_job_spec("it is named by its whole id, which begins with j", err);
}

int cay_job_cancel(cay_client *client, const char *id, cay_err *err)
{
    CAY_TRY(check_id(id, err));
    if (client->remote)
        return CAY__REMOTE_DO(client->remote, err, job_cancel, .path = { id });
    return CAY__STORE(client, job_cancel, id, NULL, NULL, NULL, err);
}

int cay_job_cancel_of(cay_client *client, const char *kind, const char *subject, size_t *n,
                      cay_err *err)
{
    if (!subject || !*subject)
        return fail_job_spec("name what it is about", err);
    return CAY__STORE(client, job_cancel, NULL, kind, subject, n, err);
}

int cay_job_replay(cay_client *client, const char *id, cay_err *err)
{
    CAY_TRY(check_id(id, err));
    if (client->remote)
        return CAY__REMOTE_DO(client->remote, err, job_replay, .path = { id });
    return CAY__STORE(client, job_replay, id, cay__clock_ms(), err);
}

int cay_job_sweep(cay_client *client, int64_t before_ms, size_t *n, cay_err *err)
{
    return CAY__STORE(client, job_sweep, before_ms, n, err);
}

static bool is_state(const char *s)
{
    static const char *const states[] = { "waiting", "running", "done", "dead", "canceled" };
    CAY_EACH(state, states)
        if (!strcmp(s, *state))
            return true;
    return false;
}

int cay_job_list(cay_client *client, const cay_job_filter *given, cay_job_fn *fn, void *arg,
                 cay_err *err)
{
    cay_job_filter f;
    CAY_TRY(cay__spec_take(&f, sizeof f, given, "cay_job_filter", err));
    if (f.state && !is_state(f.state))
        return cay_fail_why(err, CAY_EINVAL, "task_spec",
                            "state %.20s: want waiting, running, done, dead or canceled", f.state);
    if (client->remote) {
        f.limit = CAY_MIN(CAY_OR(f.limit, (size_t)1000), (size_t)1000);
        return CAY__REMOTE_EACH(cay_job, client->remote, NULL, CAY__REQUEST(job_list, .query = &f),
                                fn, arg, err);
    }
    return CAY__STORE(client, job_list, &f, fn, arg, err);
}
