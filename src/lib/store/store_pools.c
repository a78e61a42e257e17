/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that are ready, in store.db. sys/store.h tells what is promised. */
#include "db.h"
#include <base/base.h>

typedef struct taking {
    const char *from, *name;
    const cay_row *row;
    char *id, *box;
} taking;

static int find_ready(cay__db *db, taking *t, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, CAY__Q_POOL_FIND, "look for a sandbox that is ready", &st, err,
                           CAY__DB_TEXT(t->from), CAY__DB_TEXT(t->name));
    if (rc <= 0)
        return CAY_OR(rc, cay_fail_why(err, CAY_ENOENT, "warm_none", "none is ready"));
    cay__str_copy(t->id, CAY_ID_LEN + 1, cay__db_column(st, 0));
    free(t->box);
    t->box = cay__strdup(cay__db_column(st, 1));
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
    int rc = cay__db_exec(
        db, CAY__Q_POOL_TAKE, "record the sandbox", err, CAY__DB_TEXT(t->id), CAY__DB_TEXT(r->name),
        CAY__DB_TEXT(cay_state_name(r->state)), CAY__DB_TEXT(r->spec), CAY__DB_TEXT(r->box),
        CAY__DB_TEXT(CAY_OR(r->labels, "{}")), CAY__DB_TEXT(r->metadata), CAY__DB_TEXT(tenant),
        CAY__DB_TEXT(r->once), CAY__DB_INT(cay__clock_ms()));
    if (rc == CAY_EEXIST)
        return cay_fail_why(err, rc, "once", "a sandbox was made with the word %.60s", r->once);
    return rc;
}

/* Most requests find none: those take no transaction. */
static int check_any_ready(cay__db *self, taking *t, cay_err *err)
{
    CAY_AUTOLOCKED *db = cay__db_lock(self);
    return find_ready(db, t, err);
}

int cay__s_warm_take(void *self, const char *from, const char *name, const cay_row *row, char *id,
                     char **box, cay_err *err)
{
    taking t = { from, name, row, id, NULL };
    int rc = check_any_ready(self, &t, err);
    if (rc == 0)
        rc = cay__db_write(self, CAY__TX_DURABLE, claim_ready, &t, err);
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
    CAY_TRY(cay__db_exec(db, CAY__Q_POOL_DROP, "record the change", err, CAY__DB_TEXT(d->id),
                         CAY__DB_TEXT(d->from), CAY__DB_INT(cay__clock_ms())));
    if (cay__db_changed(db) == 1)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "warm_none",
                        "sandbox %.64s is none of those that are ready", d->id);
}

int cay__s_warm_drop(void *self, const char *from, const char *id, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE | CAY__TX_FREES, drop_ready, &(dropping){ from, id },
                         err);
}
