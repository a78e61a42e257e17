/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that are ready, in store.db. sys/store.h tells what is promised. */
#include "db.h"

typedef struct taking {
    const char *from, *name;
    const cay_row *row;
    char *id, *box;
} taking;

static int find_ready(cay__db *db, taking *t, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, CAY__Q_POOL_FIND, "look for a sandbox that is ready", &st, err,
                           t->from, t->name);
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
    int rc = cay__db_exec(db, CAY__Q_POOL_TAKE, "record the sandbox", err, t->id, r->name,
                          cay_state_name(r->state), r->spec, r->box, CAY_OR(r->labels, "{}"),
                          r->metadata, tenant, r->once, cay__clock_ms());
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

int cay__s_pool_take(void *self, const char *from, const char *name, const cay_row *row, char *id,
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

int cay__s_warm_drop(void *self, const char *from, const char *id, cay_err *err)
{
    int changed = cay__db_apply(self, CAY__TX_DURABLE | CAY__TX_FREES, CAY__Q_POOL_DROP,
                                "record the change", err, id, from, cay__clock_ms());
    if (changed == 0)
        return cay_fail_why(err, CAY_ENOENT, "warm_none",
                            "sandbox %.64s is none of those that are ready", id);
    return CAY_MIN(changed, 0);
}
