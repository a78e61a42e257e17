/* SPDX-License-Identifier: Apache-2.0 */
/* The queue in store.db. Every claim and every end is one transaction, so of two who want a task
 * one gets it. */
#include "db.h"
#include <lib/client/client.h>
#include <base/base.h>
#include <base/fault.h>
#include <base/fd.h>
#include <base/str.h>

enum { TEXTS = 9 };
typedef struct job_copy {
    cay_job task;
    char *text[TEXTS];
} job_copy;
typedef struct tasks {
    job_copy *at;
    size_t n;
} tasks;

static void tasks_free(tasks *all)
{
    for (size_t i = 0; i < all->n; i++)
        for (int c = 0; c < TEXTS; c++)
            free(all->at[i].text[c]);
    free(all->at);
}
#define AUTOTASKS __attribute__((cleanup(tasks_free))) tasks

/* Unbound is NULL: any. */
static void bind_some(sqlite3_stmt *st, int i, const char *s)
{
    if (s)
        cay__db_text(st, i, s);
}

static int no_task(const char *id, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "task_not_found",
                        "there is no job %.20s; cay jobs ls shows those there are", id);
}

/* Column 0 is for the query's own use. */
static void add_job(tasks *all, sqlite3_stmt *st)
{
    all->at = realloc(all->at, (all->n + 1) * sizeof *all->at);
    if (!all->at)
        abort();
    job_copy *c = &all->at[all->n++];
    for (int i = 0; i < TEXTS; i++)
        c->text[i] = cay__strdup((const char *)sqlite3_column_text(st, i + 1));
    int64_t v[8];
    for (int i = 0; i < (int)CAY_LEN(v); i++)
        v[i] = sqlite3_column_int64(st, i + 1 + TEXTS);
    c->task = (cay_job){ .size = sizeof c->task,
                         .id = c->text[0],
                         .kind = c->text[1],
                         .subject = c->text[2],
                         .tenant = c->text[3],
                         .key = c->text[4],
                         .detail = c->text[5],
                         .state = c->text[6],
                         .owner = c->text[7],
                         .error = c->text[8],
                         .due_ms = v[0],
                         .attempts = (unsigned)v[1],
                         .most = (unsigned)v[2],
                         .backoff_ms = (uint64_t)v[3],
                         .fence = (uint64_t)v[4],
                         .lease_ms = v[5],
                         .created_ms = v[6],
                         .changed_ms = v[7] };
}

typedef struct putting {
    const cay_job *t;
    unsigned how;
    char *id;
} putting;

static int find_same(cay__db *db, const putting *p, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_SAME, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, p->t->kind);
    cay__db_text(st, 2, p->t->key);
    int rc = cay__db_step(db, st, "look for the job", err);
    if (rc == 1)
        cay__str_copy(p->id, CAY_ID_LEN + 1, (const char *)sqlite3_column_text(st, 0));
    return rc;
}

static int replace_job(cay__db *db, const cay_job *t, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_REPLACE, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, t->kind);
    cay__db_text(st, 2, t->key);
    sqlite3_bind_int64(st, 3, cay__clock_ms());
    return cay__db_step(db, st, "replace the job", err);
}

/* How many wait, counted where the next one is recorded: two who ask at once do not both get the
 * last place. */
static int check_waiting(cay__db *db, const cay_job *t, cay_err *err)
{
    if (!t->waiting_most)
        return 0;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_WAITING, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, t->kind);
    cay__db_text(st, 2, t->tenant);
    int rc = cay__db_step(db, st, "count the jobs", err);
    if (rc < 0)
        return rc;
    int64_t n = sqlite3_column_int64(st, 0);
    if (n < t->waiting_most)
        return 0;
    return cay__queue_full(t->tenant, t->kind, (unsigned)n, t->waiting_most, err);
}

static int insert_job(cay__db *db, void *arg, cay_err *err)
{
    const putting *p = arg;
    const cay_job *t = p->t;
    const char *texts[] = { p->id, t->kind, t->subject, t->tenant, t->key, t->detail };
    int64_t now = cay__clock_ms();
    if (t->key && *t->key) {
        int rc;
        if (p->how == CAY_JOB_REPLACE)
            rc = replace_job(db, t, err);
        else
            rc = find_same(db, p, err);
        if (rc) {
            if (rc < 0)
                return rc;
            return 0;
        } /* it stays */
    }
    CAY_TRY(check_waiting(db, t, err));
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_PUT, err);
    if (!st)
        return err->code;
    for (size_t i = 0; i < CAY_LEN(texts); i++)
        cay__db_text(st, (int)i + 1, texts[i]);
    sqlite3_bind_int64(st, 7, CAY_OR(t->due_ms, now));
    sqlite3_bind_int64(st, 8, t->most);
    sqlite3_bind_int64(st, 9, (int64_t)t->backoff_ms);
    sqlite3_bind_int64(st, 10, now);
    return cay__db_step(db, st, "record the job", err);
}

int cay__s_task_put(void *self, const cay_job *t, unsigned how, char *id, cay_err *err)
{
    cay__id_make(id, 'j');
    return cay__db_write(self, CAY__TX_DURABLE, insert_job, &(putting){ t, how, id }, err);
}

typedef struct claim {
    const char *kinds, *owner;
    int64_t now_ms, lease_ms, next_ms;
    enum cay__statement which;
    tasks got;
} claim;

static int mark_dead_jobs(cay__db *db, int64_t now, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_BURY, err);
    if (!st)
        return err->code;
    sqlite3_bind_int64(st, 1, now);
    return cay__db_step(db, st, "look for jobs", err);
}

static int find_due(cay__db *db, claim *c, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, c->which, err);
    if (!st)
        return err->code;
    sqlite3_bind_int64(st, 1, c->now_ms);
    bind_some(st, 2, c->kinds);
    if (c->which == CAY__Q_JOB_TURN) {
        cay__db_text(st, 3, c->owner);
        sqlite3_bind_int64(st, 4, CAY_JOB_TENANT_MAX);
        sqlite3_bind_int64(st, 5, CAY_JOB_SHARED_MAX);
    }
    int rc = cay__db_step(db, st, "look for jobs", err);
    if (rc == 1)
        add_job(&c->got, st);
    return rc;
}

static int find_next(cay__db *db, claim *c, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_NEXT, err);
    if (!st)
        return err->code;
    bind_some(st, 2, c->kinds);
    CAY_TRY(cay__db_step(db, st, "look for jobs", err));
    c->next_ms = sqlite3_column_int64(st, 0);
    return 0;
}

static int claim_job(cay__db *db, void *arg, cay_err *err)
{
    claim *c = arg;
    tasks_free(&c->got); /* of an attempt before */
    c->got = (tasks){ 0 };
    CAY_TRY(mark_dead_jobs(db, c->now_ms, err));
    int rc = find_due(db, c, err);
    if (rc <= 0) {
        if (rc < 0)
            return rc;
        return find_next(db, c, err);
    }
    cay_job *t = &c->got.at[0].task;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_TAKE, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, t->id);
    cay__db_text(st, 2, c->owner);
    sqlite3_bind_int64(st, 3, c->lease_ms);
    sqlite3_bind_int64(st, 4, c->now_ms);
    CAY_TRY(cay__db_step(db, st, "take the job", err));
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
    tasks_free(&c->got);
}

/* A look without a lock first: most of the time there is nothing, and a write would be on the disk
 * for it. */
static int find_next_locked(cay__db *db, claim *c, cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    pthread_mutex_lock(&db->lock);
    int rc = find_next(db, c, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    return rc;
}

static int nothing_due(const claim *c, int64_t *next_ms, cay_err *err)
{
    *next_ms = c->next_ms;
    return cay_fail_why(err, CAY_ENOENT, "task_none", "no job is due");
}

static int claim_by(void *self, enum cay__statement which, const char *kinds, const char *owner,
                    int64_t now_ms, int64_t lease_ms, int (*fn)(const cay_job *, void *), void *arg,
                    int64_t *next_ms, cay_err *err)
{
    __attribute__((cleanup(claim_clear))) claim c = {
        .which = which, .kinds = kinds, .owner = owner, .now_ms = now_ms, .lease_ms = lease_ms
    };
    CAY_TRY(find_next_locked(self, &c, err));
    if (!c.next_ms || c.next_ms > now_ms)
        return nothing_due(&c, next_ms, err);
    CAY_TRY(cay__db_write(self, CAY__TX_DURABLE, claim_job, &c, err));
    CAY_FAULT("task.claimed");
    if (c.got.n)
        return fn(&c.got.at[0].task, arg);
    return nothing_due(&c, next_ms, err);
}

int cay__s_task_claim(void *self, const char *kinds, const char *owner, int64_t now_ms,
                      int64_t lease_ms, int (*fn)(const cay_job *, void *), void *arg,
                      int64_t *next_ms, cay_err *err)
{
    return claim_by(self, CAY__Q_JOB_DUE, kinds, owner, now_ms, lease_ms, fn, arg, next_ms, err);
}

int cay__s_task_claim_fair(void *self, const char *kinds, const char *owner, int64_t now_ms,
                           int64_t lease_ms, int (*fn)(const cay_job *, void *), void *arg,
                           int64_t *next_ms, cay_err *err)
{
    return claim_by(self, CAY__Q_JOB_TURN, kinds, owner, now_ms, lease_ms, fn, arg, next_ms, err);
}

typedef struct ending {
    const char *id, *state, *error;
    uint64_t fence;
    int64_t when_ms;
} ending;

static int end_job(cay__db *db, void *arg, cay_err *err)
{
    const ending *e = arg;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_END, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, e->id);
    sqlite3_bind_int64(st, 2, (int64_t)e->fence);
    cay__db_text(st, 3, e->state);
    sqlite3_bind_int64(st, 4, e->when_ms);
    bind_some(st, 5, e->error);
    sqlite3_bind_int64(st, 6, cay__clock_ms());
    CAY_TRY(cay__db_step(db, st, "record the end of the job", err));
    if (sqlite3_changes(db->sql))
        return 0;
    return cay_fail_why(err, CAY_ESTATE, "task_lost", "job %.20s was canceled, or another has it",
                        e->id);
}

int cay__s_task_end(void *self, const char *id, uint64_t fence, const char *state, int64_t when_ms,
                    const char *error, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE | CAY__TX_FREES, end_job,
                         &(ending){ id, state, error, fence, when_ms }, err);
}

static int state_of(cay__db *db, const char *id, char *out, size_t cap, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_STATE, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, id);
    int rc = cay__db_step(db, st, "look up the job", err);
    if (rc == 1)
        cay__str_copy(out, cap, (const char *)sqlite3_column_text(st, 0));
    if (rc == 0)
        return no_task(id, err);
    if (rc < 0)
        return rc;
    return 0;
}

static int wrong_state(cay__db *db, const char *id, const char *what, cay_err *err)
{
    char state[16];
    CAY_TRY(state_of(db, id, state, sizeof state, err));
    return cay_fail_why(err, CAY_ESTATE, "task_state", "job %.20s is %s and cannot be %s", id,
                        state, what);
}

typedef struct canceling {
    const char *id, *kind, *subject;
    size_t n;
} canceling;

static int cancel_jobs(cay__db *db, void *arg, cay_err *err)
{
    canceling *c = arg;
    {
        CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_CANCEL, err);
        if (!st)
            return err->code;
        bind_some(st, 1, c->id);
        bind_some(st, 2, c->kind);
        bind_some(st, 3, c->subject);
        sqlite3_bind_int64(st, 4, cay__clock_ms());
        CAY_TRY(cay__db_step(db, st, "cancel the job", err));
    }
    c->n = (size_t)sqlite3_changes(db->sql);
    if (c->n || !c->id)
        return 0;
    return wrong_state(db, c->id, "canceled", err);
}

int cay__s_task_cancel(void *self, const char *id, const char *kind, const char *subject, size_t *n,
                       cay_err *err)
{
    canceling c = { id, kind, subject, 0 };
    int rc = cay__db_write(self, CAY__TX_DURABLE | CAY__TX_FREES, cancel_jobs, &c, err);
    if (rc == 0 && n)
        *n = c.n;
    return rc;
}

static int replay_job(cay__db *db, void *arg, cay_err *err)
{
    const ending *e = arg;
    int rc, changed;
    {
        CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_REPLAY, err);
        if (!st)
            return err->code;
        cay__db_text(st, 1, e->id);
        sqlite3_bind_int64(st, 2, e->when_ms);
        rc = cay__db_step(db, st, "replay the job", err);
        if (rc == 0)
            changed = sqlite3_changes(db->sql);
        else
            changed = 0;
    }
    if (rc == CAY_EEXIST)
        return cay_fail_why(err, CAY_ESTATE, "task_state", "another job like %.20s waits already",
                            e->id);
    if (rc < 0)
        return rc;
    if (changed)
        return 0;
    return wrong_state(db, e->id, "replayed", err);
}

int cay__s_task_replay(void *self, const char *id, int64_t now_ms, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, replay_job,
                         &(ending){ .id = id, .when_ms = now_ms }, err);
}

static int sweep_jobs(cay__db *db, void *arg, cay_err *err)
{
    int64_t *v = arg; /* before when; how many */
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_SWEEP, err);
    if (!st)
        return err->code;
    sqlite3_bind_int64(st, 1, v[0]);
    CAY_TRY(cay__db_step(db, st, "forget old jobs", err));
    v[1] = sqlite3_changes(db->sql);
    return 0;
}

int cay__s_task_sweep(void *self, int64_t before_ms, size_t *n, cay_err *err)
{
    int64_t v[2] = { before_ms, 0 };
    CAY_TRY(cay__db_write(self, CAY__TX_FREES, sweep_jobs, v, err));
    if (n)
        *n = (size_t)v[1];
    return 0;
}

static int list_locked(cay__db *db, const cay_job_filter *f, tasks *out, cay_err *err)
{
    const char *const words[] = { f->state, f->kind, f->subject, f->tenant, f->id };
    int rc;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_JOB_LIST, err);
    if (!st)
        return err->code;
    for (int i = 0; i < (int)CAY_LEN(words); i++)
        bind_some(st, i + 1, words[i]);
    sqlite3_bind_int64(st, 6, f->limit ? (int64_t)CAY_MIN(f->limit, (size_t)INT32_MAX) : -1);
    while ((rc = cay__db_step(db, st, "read the jobs", err)) == 1)
        add_job(out, st);
    return rc;
}

int cay__s_task_list(void *self, const cay_job_filter *f, int (*fn)(const cay_job *, void *),
                     void *arg, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    AUTOTASKS all = { 0 };
    pthread_mutex_lock(&db->lock);
    int rc = list_locked(db, f, &all, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    for (size_t i = 0; rc == 0 && i < all.n; i++)
        rc = fn(&all.at[i].task, arg);
    return rc;
}
