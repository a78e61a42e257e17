/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are given again, in store.db. */
#include "db.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>

#define DAY_MS 86400000

static void bind_name(sqlite3_stmt *st, const cay_idempotency_record *a)
{
    cay__db_text(st, 1, a->tenant);
    cay__db_text(st, 2, a->route);
    cay__db_text(st, 3, a->key);
}

/* A row as found. */
typedef struct found {
    bool there;
    cay_idempotency_record a;
    char *request, *owner, *type;
    void *body;
    int64_t expires_ms;
} found;

static void found_clear(found *f)
{
    free(f->request);
    free(f->owner);
    free(f->type);
    free(f->body);
    *f = (found){ 0 };
}

typedef struct beginning {
    const cay_idempotency_record *ask;
    const char *owner, *dead;
    found f;
    bool mine;
} beginning;

static int lookup_answer(cay__db *db, beginning *b, cay_err *err)
{
    found *f = &b->f;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_ANSWER_GET, err);
    if (!st)
        return err->code;
    bind_name(st, b->ask);
    int rc = cay__db_step(db, st, "look for an answer", err);
    if (rc <= 0)
        return rc;
    f->there = true;
    f->request = cay__strdup((const char *)sqlite3_column_text(st, 0));
    f->owner = cay__strdup((const char *)sqlite3_column_text(st, 1));
    f->type = cay__strdup((const char *)sqlite3_column_text(st, 3));
    size_t len = (size_t)sqlite3_column_bytes(st, 4);
    f->body = cay__alloc(len + 1);
    if (len)
        memcpy(f->body, sqlite3_column_blob(st, 4), len);
    f->expires_ms = sqlite3_column_int64(st, 5);
    f->a = *b->ask;
    f->a.request = f->request;
    f->a.status = (int)sqlite3_column_int64(st, 2);
    f->a.type = f->type;
    f->a.body = f->body;
    f->a.len = len;
    return 0;
}

static int begin_answer(cay__db *db, void *arg, cay_err *err)
{
    beginning *b = arg;
    int64_t now = cay__clock_ms();
    found_clear(&b->f);
    CAY_TRY(lookup_answer(db, b, err));
    found *f = &b->f;
    bool over = f->there && ((!*f->owner && f->expires_ms < now) ||
                             (*f->owner && b->dead && !strcmp(b->dead, f->owner)));
    if (f->there && !over)
        return 0;
    CAY_AUTOSTMT *st = cay__db_query(db, f->there ? CAY__Q_ANSWER_TAKE : CAY__Q_ANSWER_PUT, err);
    if (!st)
        return err->code;
    bind_name(st, b->ask);
    cay__db_text(st, 4, b->ask->request);
    cay__db_text(st, 5, b->owner);
    sqlite3_bind_int64(st, 6, now + DAY_MS);
    /* What a dead one chose stays, for whoever comes after the next one that dies. */
    if (f->there)
        sqlite3_bind_int(st, 7, *f->owner && !strcmp(f->request, b->ask->request));
    b->mine = true;
    return cay__db_step(db, st, "record the request", err);
}

static void beginning_clear(beginning *b)
{
    found_clear(&b->f);
}

int cay__s_idempotency_begin(void *self, const cay_idempotency_record *ask, const char *owner,
                             const char *dead,
                             int (*fn)(const cay_idempotency_record *, const char *, void *),
                             void *arg, cay_err *err)
{
    __attribute__((cleanup(beginning_clear)))
    beginning b = { .ask = ask, .owner = owner, .dead = dead };
    CAY_TRY(cay__db_write(self, 0, begin_answer, &b, err));
    if (b.mine && b.f.there && *b.f.owner && b.f.a.status && !strcmp(b.f.request, ask->request))
        fn(&b.f.a, "", arg); /* what the dead one left */
    if (b.mine)
        return 0;
    if (strcmp(b.f.request, ask->request) != 0)
        return cay_fail_why(
            err, CAY_EEXIST, "idempotency_conflict",
            "that Idempotency-Key came before with another request; choose a new one");
    fn(&b.f.a, b.f.owner, arg);
    if (*b.f.owner)
        return cay_fail_why(err, CAY_EBUSY, "idempotency_busy",
                            "the same request is being answered; try again soon");
    return cay_fail_why(err, CAY_EEXIST, "idempotency_replay", "answered before");
}

typedef struct ending {
    const cay_idempotency_record *a;
    const char *owner;
    int64_t expires_ms;
} ending;

static int end_answer(cay__db *db, void *arg, cay_err *err)
{
    const ending *e = arg;
    CAY_AUTOSTMT *st =
        cay__db_query(db, e->a->status ? CAY__Q_ANSWER_END : CAY__Q_ANSWER_DROP, err);
    if (!st)
        return err->code;
    bind_name(st, e->a);
    cay__db_text(st, 4, e->owner);
    if (e->a->status) {
        sqlite3_bind_int64(st, 5, e->a->status);
        cay__db_text(st, 6, e->a->type);
        sqlite3_bind_blob64(st, 7, e->a->len ? e->a->body : "", e->a->len, SQLITE_STATIC);
        sqlite3_bind_int64(st, 8, e->expires_ms);
        cay__db_text(st, 9, e->a->begun ? e->owner : "");
    }
    return cay__db_step(db, st, "keep the answer", err);
}

int cay__s_idempotency_end(void *self, const cay_idempotency_record *a, const char *owner,
                           int64_t expires_ms, cay_err *err)
{
    return cay__db_write(self, a->status ? 0 : CAY__TX_FREES, end_answer,
                         &(ending){ a, owner, expires_ms }, err);
}

static int sweep_answers(cay__db *db, void *arg, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_ANSWER_SWEEP, err);
    if (!st)
        return err->code;
    sqlite3_bind_int64(st, 1, *(int64_t *)arg);
    return cay__db_step(db, st, "forget old answers", err);
}

int cay__s_idempotency_sweep(void *self, int64_t now_ms, cay_err *err)
{
    return cay__db_write(self, CAY__TX_FREES, sweep_answers, &now_ms, err);
}
