/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that are ready, in store.db. sys/store.h tells what is promised. */
#include "db.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>

typedef struct taking {
    const char *from, *name;
    const cay_row *row;
    char *id, *box;
} taking;

static int find_ready(cay__db *db, taking *t, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_POOL_FIND, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, t->from);
    cay__db_text(st, 2, t->name);
    int rc = cay__db_step(db, st, "look for a sandbox that is ready", err);
    if (rc <= 0)
        return CAY_OR(rc, cay_fail_why(err, CAY_ENOENT, "warm_none", "none is ready"));
    cay__str_copy(t->id, CAY_ID_LEN + 1, (const char *)sqlite3_column_text(st, 0));
    t->box = cay__strdup((const char *)sqlite3_column_text(st, 1));
    return 0;
}

static int claim_ready(cay__db *db, void *arg, cay_err *err)
{
    taking *t = arg;
    const cay_row *r = t->row;
    const char *tenant = cay__text_or(r->tenant, CAY_TENANT_DEFAULT);
    const int64_t uses[] = { cay__quota_amount(r->cpu_milli), cay__quota_amount(r->memory),
                             cay__quota_amount(r->disk) };
    CAY_TRY(find_ready(db, t, err));
    CAY_TRY(cay__quota_check(db, tenant, uses, true, err));
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_POOL_TAKE, err);
    if (!st)
        return err->code;
    const char *text[] = { t->id,       r->name, cay_state_name(r->state),
                           r->spec,     r->box,  CAY_OR(r->labels, "{}"),
                           r->metadata, tenant,  r->once };
    for (size_t i = 0; i < CAY_LEN(text); i++)
        cay__db_text(st, (int)i + 1, text[i]);
    sqlite3_bind_int64(st, 10, cay__clock_ms());
    int rc = cay__db_step(db, st, "record the sandbox", err);
    if (rc == CAY_EEXIST)
        return cay_fail_why(err, rc, "once", "a sandbox was made with the word %.60s", r->once);
    return rc;
}

/* Most requests find none: those take no transaction. */
static int check_any_ready(cay__db *db, taking *t, cay_err *err)
{
    pthread_mutex_lock(&db->lock);
    int rc = find_ready(db, t, err);
    pthread_mutex_unlock(&db->lock);
    free(CAY_STEAL(t->box));
    return rc;
}

int cay__s_warm_take(void *self, const char *from, const char *name, const cay_row *row, char *id,
                     char **box, cay_err *err)
{
    taking t = { from, name, row, id, NULL };
    cay_err own = CAY_ERR_INIT;
    CAY_TRY(check_any_ready(self, &t, CAY_OR(err, &own)));
    int rc = cay__db_write(self, CAY__TX_DURABLE, claim_ready, &t, err);
    if (rc == 0)
        *box = CAY_STEAL(t.box);
    free(t.box);
    return rc;
}

typedef struct dropping {
    const char *from, *id;
} dropping;

static int drop_ready(cay__db *db, void *arg, cay_err *err)
{
    const dropping *d = arg;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_POOL_DROP, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, d->id);
    cay__db_text(st, 2, d->from);
    sqlite3_bind_int64(st, 3, cay__clock_ms());
    CAY_TRY(cay__db_step(db, st, "record the change", err));
    if (sqlite3_changes(db->sql) == 1)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "warm_none",
                        "sandbox %.64s is none of those that are ready", d->id);
}

int cay__s_warm_drop(void *self, const char *from, const char *id, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE | CAY__TX_FREES, drop_ready, &(dropping){ from, id },
                         err);
}
