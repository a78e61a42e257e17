/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are given again, in store.db. */
#include "db.h"

#define DAY_MS 86400000

/* The values that name it. */
#define NAME_OF(a) (a)->tenant, (a)->route, (a)->key

/* A row as found. */
typedef struct found {
    cay_idempotency_record a;
    const char *owner;
    int64_t expires_ms;
    char body[]; /* and behind it the texts */
} found;

typedef struct beginning {
    const cay_idempotency_record *ask;
    const char *owner, *dead;
    found *found; /* or NULL */
    bool mine;
} beginning;

static int lookup_answer(cay__db *db, beginning *b, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, CAY__Q_ANSWER_GET, "look for an answer", &st, err, NAME_OF(b->ask));
    if (rc <= 0)
        return rc;
    const char *text[4]; /* request, owner, status, type */
    size_t len = (size_t)sqlite3_column_bytes(st, 4);
    found *f = cay__db_copy(st, sizeof *f + len + 1, 0, text, CAY_LEN(text));
    if (len)
        memcpy(f->body, sqlite3_column_blob(st, 4), len);
    f->owner = text[1];
    f->expires_ms = sqlite3_column_int64(st, 5);
    f->a = *b->ask;
    f->a.request = text[0];
    f->a.status = (int)sqlite3_column_int64(st, 2);
    f->a.type = text[3];
    f->a.body = f->body;
    f->a.len = len;
    b->found = f;
    return 0;
}

static int begin_answer(cay__db *db, void *arg, cay_err *err)
{
    beginning *b = arg;
    int64_t now = cay__clock_ms();
    free(CAY_STEAL(b->found));
    CAY_TRY(lookup_answer(db, b, err));
    const found *f = b->found;
    b->mine = !f || (!*f->owner && f->expires_ms < now) ||
              (*f->owner && b->dead && !strcmp(b->dead, f->owner));
    if (!b->mine)
        return 0;
    if (!f)
        return cay__db_exec(db, CAY__Q_ANSWER_PUT, "record the request", err, NAME_OF(b->ask),
                            b->ask->request, b->owner, now + DAY_MS);
    /* The answer that a dead owner left stays, for the next one after this one dies. */
    bool keep = *f->owner && !strcmp(f->a.request, b->ask->request);
    return cay__db_exec(db, CAY__Q_ANSWER_TAKE, "record the request", err, NAME_OF(b->ask),
                        b->ask->request, b->owner, now + DAY_MS, keep);
}

static void beginning_clear(beginning *b)
{
    free(b->found);
}

int cay__s_idempotency_begin(void *self, const cay_idempotency_record *ask, const char *owner,
                             const char *dead,
                             int (*fn)(const cay_idempotency_record *, const char *, void *),
                             void *arg, cay_err *err)
{
    __attribute__((cleanup(beginning_clear)))
    beginning b = { .ask = ask, .owner = owner, .dead = dead };
    CAY_TRY(cay__db_write(self, 0, begin_answer, &b, err));
    const found *f = b.found;
    bool same = f && !strcmp(f->a.request, ask->request);
    if (b.mine && same && *f->owner && f->a.status)
        fn(&f->a, "", arg); /* the answer that a dead owner left */
    if (b.mine)
        return 0;
    if (!same)
        return cay_fail_why(
            err, CAY_EEXIST, "idempotency_conflict",
            "that Idempotency-Key came before with another request; choose a new one");
    fn(&f->a, f->owner, arg);
    if (*f->owner)
        return cay_fail_why(err, CAY_EBUSY, "idempotency_busy",
                            "the same request is being answered; try again soon");
    return cay_fail_why(err, CAY_EEXIST, "idempotency_replay", "answered before");
}

int cay__s_idempotency_end(void *self, const cay_idempotency_record *a, const char *owner,
                           int64_t expires_ms, cay_err *err)
{
    cay__db_value body = { .blob = a->len ? a->body : "", .number = (int64_t)a->len };
    if (!a->status)
        CAY_TRY(cay__db_apply(self, CAY__TX_FREES, CAY__Q_ANSWER_DROP, "keep the answer", err,
                              NAME_OF(a), owner));
    else
        CAY_TRY(cay__db_apply(self, 0, CAY__Q_ANSWER_END, "keep the answer", err, NAME_OF(a), owner,
                              a->status, a->type, body, expires_ms, CAY_TEXT_IF(a->begun, owner)));
    return 0;
}

int cay__s_idempotency_sweep(void *self, int64_t now_ms, cay_err *err)
{
    CAY_TRY(
        cay__db_apply(self, CAY__TX_FREES, CAY__Q_ANSWER_SWEEP, "forget old answers", err, now_ms));
    return 0;
}
