/* SPDX-License-Identifier: Apache-2.0 */
/* The queue in store.db. Every claim and every end is one transaction, so of two who want a task
 * one gets it. */
#include "db.h"
#include <lib/client/client.h>
#include <base/fault.h>

static int no_task(const char *id, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "task_not_found",
                        "there is no job %.20s; cay jobs ls shows those there are", id);
}

/* Column 0 is for the query's own use. */
static void *copy_job(sqlite3_stmt *st)
{
    const char *text[9];
    cay_job *t = cay__db_copy(st, sizeof *t, 1, text, CAY_LEN(text));
    int64_t v[8];
    for (int i = 0; i < (int)CAY_LEN(v); i++)
        v[i] = sqlite3_column_int64(st, i + 1 + (int)CAY_LEN(text));
    *t = (cay_job){ .size = sizeof *t,
                    .id = text[0],
                    .kind = text[1],
                    .subject = text[2],
                    .tenant = text[3],
                    .key = text[4],
                    .detail = text[5],
                    .state = text[6],
                    .owner = text[7],
                    .error = text[8],
                    .due_ms = v[0],
                    .attempts = (unsigned)v[1],
                    .most = (unsigned)v[2],
                    .backoff_ms = (uint64_t)v[3],
                    .fence = (uint64_t)v[4],
                    .lease_ms = v[5],
                    .created_ms = v[6],
                    .changed_ms = v[7] };
    return t;
}

typedef struct putting {
    const cay_job *t;
    unsigned how;
    char *id;
} putting;

/* 1: one is there, and its id is p->id. */
static int find_same(cay__db *db, const putting *p, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    int rc =
        cay__db_first(db, CAY__Q_JOB_SAME, "look for the job", &st, err, p->t->kind, p->t->key);
    if (rc == 1)
        cay__str_copy(p->id, CAY_ID_LEN + 1, cay__db_column(st, 0));
    return rc;
}

/* How many wait, counted where the next one is recorded: two who ask at once do not both get the
 * last place. */
static int check_waiting(cay__db *db, const cay_job *t, cay_err *err)
{
    if (!t->waiting_most)
        return 0;
    CAY_AUTOSTMT *st = NULL;
    CAY_TRY(cay__db_first(db, CAY__Q_JOB_WAITING, "count the jobs", &st, err, t->kind, t->tenant));
    int64_t n = sqlite3_column_int64(st, 0);
    if (n < t->waiting_most)
        return 0;
    return cay__queue_full(t->tenant, t->kind, (unsigned)n, t->waiting_most, err);
}

static int insert_job(cay__db *db, void *arg, cay_err *err)
{
    const putting *p = arg;
    const cay_job *t = p->t;
    int64_t now = cay__clock_ms();
    int same = 0;
    if (*cay__text_or(t->key, "") && p->how == CAY_JOB_REPLACE)
        CAY_TRY(cay__db_exec(db, CAY__Q_JOB_REPLACE, "replace the job", err, t->kind, t->key, now));
    else if (*cay__text_or(t->key, ""))
        CAY_TRY(same = find_same(db, p, err));
    if (same)
        return 0; /* it stays */
    CAY_TRY(check_waiting(db, t, err));
    return cay__db_exec(db, CAY__Q_JOB_PUT, "record the job", err, p->id, t->kind, t->subject,
                        t->tenant, t->key, t->detail, CAY_OR(t->due_ms, now), t->most,
                        t->backoff_ms, now);
}

int cay__s_job_put(void *self, const cay_job *t, unsigned how, char *id, cay_err *err)
{
    cay__id_make(id, 'j');
    return cay__db_write(self, CAY__TX_DURABLE, insert_job, &(putting){ t, how, id }, err);
}

typedef struct claim {
    const char *kinds, *owner;
    int64_t now_ms, lease_ms, next_ms;
    enum cay__statement which;
    cay_job *got; /* a block of copy_job() */
} claim;

static int find_next(cay__db *db, claim *c, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    CAY_TRY(cay__db_first(db, CAY__Q_JOB_NEXT, "look for jobs", &st, err, CAY__DB_OPTIONAL(NULL),
                          CAY__DB_OPTIONAL(c->kinds)));
    c->next_ms = sqlite3_column_int64(st, 0);
    return 0;
}

static int find_due(cay__db *db, claim *c, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    /* the last three are for CAY__Q_JOB_TURN alone */
    int rc =
        cay__db_first(db, c->which, "look for jobs", &st, err, c->now_ms,
                      CAY__DB_OPTIONAL(c->kinds), c->owner, CAY_JOB_TENANT_MAX, CAY_JOB_SHARED_MAX);
    if (rc == 1)
        c->got = copy_job(st);
    return rc;
}

static int claim_job(cay__db *db, void *arg, cay_err *err)
{
    claim *c = arg;
    free(CAY_STEAL(c->got)); /* of an attempt before */
    CAY_TRY(cay__db_exec(db, CAY__Q_JOB_BURY, "look for jobs", err, c->now_ms));
    CAY_TRY(find_due(db, c, err));
    cay_job *t = c->got;
    if (!t)
        return find_next(db, c, err);
    CAY_TRY(cay__db_exec(db, CAY__Q_JOB_TAKE, "take the job", err, t->id, c->owner, c->lease_ms,
                         c->now_ms));
    t->attempts++;
    t->fence++;
    t->lease_ms = c->lease_ms;
    t->changed_ms = c->now_ms;
    t->state = "running";
    t->owner = c->owner;
    return 0;
}

static void claim_clear(claim *c)
{
    free(c->got);
}

/* A look without a lock first: most of the time there is nothing, and a write would be on the disk
 * for it. */
static int look_ahead(cay__db *self, claim *c, cay_err *err)
{
    CAY_AUTOLOCKED *db = cay__db_lock(self);
    return find_next(db, c, err);
}

static int nothing_due(const claim *c, int64_t *next_ms, cay_err *err)
{
    *next_ms = c->next_ms;
    return cay_fail_why(err, CAY_ENOENT, "task_none", "no job is due");
}

static int claim_by(void *self, enum cay__statement which, const char *kinds, const char *owner,
                    int64_t now_ms, int64_t lease_ms, cay_job_fn *fn, void *arg, int64_t *next_ms,
                    cay_err *err)
{
    __attribute__((cleanup(claim_clear))) claim c = {
        .which = which, .kinds = kinds, .owner = owner, .now_ms = now_ms, .lease_ms = lease_ms
    };
    CAY_TRY(look_ahead(self, &c, err));
    if (!c.next_ms || c.next_ms > now_ms)
        return nothing_due(&c, next_ms, err);
    CAY_TRY(cay__db_write(self, CAY__TX_DURABLE, claim_job, &c, err));
    CAY_FAULT("task.claimed");
    if (c.got)
        return fn(c.got, arg);
    return nothing_due(&c, next_ms, err);
}

int cay__s_job_claim(void *self, const char *kinds, const char *owner, int64_t now_ms,
                     int64_t lease_ms, cay_job_fn *fn, void *arg, int64_t *next_ms, cay_err *err)
{
    return claim_by(self, CAY__Q_JOB_DUE, kinds, owner, now_ms, lease_ms, fn, arg, next_ms, err);
}

int cay__s_job_claim_fair(void *self, const char *kinds, const char *owner, int64_t now_ms,
                          int64_t lease_ms, cay_job_fn *fn, void *arg, int64_t *next_ms,
                          cay_err *err)
{
    return claim_by(self, CAY__Q_JOB_TURN, kinds, owner, now_ms, lease_ms, fn, arg, next_ms, err);
}

int cay__s_job_end(void *self, const char *id, uint64_t fence, const char *state, int64_t when_ms,
                   const char *error, cay_err *err)
{
    int changed = cay__db_apply(self, CAY__TX_DURABLE | CAY__TX_FREES, CAY__Q_JOB_END,
                                "record the end of the job", err, id, fence, state, when_ms,
                                CAY__DB_OPTIONAL(error), cay__clock_ms());
    if (changed == 0)
        return cay_fail_why(err, CAY_ESTATE, "task_lost",
                            "job %.20s was canceled, or another has it", id);
    return CAY_MIN(changed, 0);
}

static int wrong_state(cay__db *self, const char *id, const char *what, cay_err *err)
{
    CAY_AUTOLOCKED *db = cay__db_lock(self);
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, CAY__Q_JOB_STATE, "look up the job", &st, err, id);
    if (rc <= 0)
        return CAY_OR(rc, no_task(id, err));
    return cay_fail_why(err, CAY_ESTATE, "task_state", "job %.20s is %.15s and cannot be %s", id,
                        cay__db_column(st, 0), what);
}

int cay__s_job_cancel(void *self, const char *id, const char *kind, const char *subject, size_t *n,
                      cay_err *err)
{
    int changed = cay__db_apply(self, CAY__TX_DURABLE | CAY__TX_FREES, CAY__Q_JOB_CANCEL,
                                "cancel the job", err, CAY__DB_OPTIONAL(id), CAY__DB_OPTIONAL(kind),
                                CAY__DB_OPTIONAL(subject), cay__clock_ms());
    if (changed == 0 && id)
        return wrong_state(self, id, "canceled", err);
    CAY_TRY(changed);
    if (n)
        *n = (size_t)changed;
    return 0;
}

int cay__s_job_replay(void *self, const char *id, int64_t now_ms, cay_err *err)
{
    int changed =
        cay__db_apply(self, CAY__TX_DURABLE, CAY__Q_JOB_REPLAY, "replay the job", err, id, now_ms);
    if (changed == CAY_EEXIST)
        return cay_fail_why(err, CAY_ESTATE, "task_state", "another job like %.20s waits already",
                            id);
    if (changed == 0)
        return wrong_state(self, id, "replayed", err);
    return CAY_MIN(changed, 0);
}

int cay__s_job_sweep(void *self, int64_t before_ms, size_t *n, cay_err *err)
{
    int swept =
        cay__db_apply(self, CAY__TX_FREES, CAY__Q_JOB_SWEEP, "forget old jobs", err, before_ms);
    CAY_TRY(swept);
    if (n)
        *n = (size_t)swept;
    return 0;
}

int cay__s_job_list(void *self, const cay_job_filter *f, cay_job_fn *fn, void *arg, cay_err *err)
{
    CAY_AUTOROWS all = { 0 };
    int64_t limit = f->limit ? (int64_t)CAY_MIN(f->limit, (size_t)INT32_MAX) : -1;
    CAY_TRY(cay__db_list(self, CAY__Q_JOB_LIST, "read the jobs", copy_job, &all, err,
                         CAY__DB_OPTIONAL(f->state), CAY__DB_OPTIONAL(f->kind),
                         CAY__DB_OPTIONAL(f->subject), CAY__DB_OPTIONAL(f->tenant),
                         CAY__DB_OPTIONAL(f->id), limit));
    return cay__db_tell(all, fn, arg);
}
