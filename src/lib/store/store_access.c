/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants, what they may have, and keys, in store.db. sys/store.h tells what each call promises. */
#include "db.h"

#define NO_LIMIT ((int64_t)1 << 52) /* a sum of these still fits */
#define UNIT     1000               /* creates are counted in thousandths: they come back slowly */
#define MINUTE   60000

int64_t cay__quota_amount(uint64_t v)
{
    if (v < (uint64_t)NO_LIMIT)
        return (int64_t)v;
    return NO_LIMIT;
}

static int no_tenant(const char *name, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "tenant_not_found",
                        "there is no tenant %.63s; cay tenant ls shows those there are", name);
}

enum { SANDBOXES, CPU, MEMORY, DISK, KINDS, TEMPLATES = KINDS, NAMED };
static const struct {
    const char *name, *service;
    int64_t per; /* how much of the column one of the service is */
} kinds[NAMED] = {
    [SANDBOXES] = { "sandboxes", "", 1 },           [CPU] = { "cpu", " thousandths", 1 },
    [MEMORY] = { "memory", " MiB", 1 << 20 },       [DISK] = { "disk", " MiB", 1 << 20 },
    [TEMPLATES] = { "templates", " MiB", 1 << 20 },
};

typedef struct budget {
    int64_t most[KINDS], creates, spent, spent_ms;
} budget;

static int budget_of(cay__db *db, const char *tenant, budget *b, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, CAY__Q_TENANT_GET, "read the tenant", &st, err, tenant);
    if (rc <= 0)
        return CAY_OR(rc, no_tenant(tenant, err));
    for (int i = 0; i < KINDS; i++)
        b->most[i] = sqlite3_column_int64(st, i);
    b->creates = sqlite3_column_int64(st, KINDS);
    b->spent = sqlite3_column_int64(st, KINDS + 1);
    b->spent_ms = sqlite3_column_int64(st, KINDS + 2);
    return 0;
}

static int fail_quota(const char *tenant, int kind, int64_t most, int64_t used, int64_t more,
                      cay_err *err)
{
    int64_t per = kinds[kind].per;
    bool never = more > most; /* NO_LIMIT is more than anything */
    if (more == NO_LIMIT)
        cay_fail_why(
            err, CAY_ERATE, "quota_exceeded",
            "tenant %s may have %lld%s of %s together: a sandbox without that limit does not fit",
            tenant, (long long)(most / per), kinds[kind].service, kinds[kind].name);
    else
        cay_fail_why(err, CAY_ERATE, "quota_exceeded",
                     "tenant %s may have %lld%s of %s, has %lld and asks for %lld more; %s", tenant,
                     (long long)(most / per), kinds[kind].service, kinds[kind].name,
                     (long long)(used / per), (long long)(more / per),
                     never ? "ask for less" : "remove some, or ask for less");
    if (never)
        err->retry = CAY_RETRY_NO;
    char asked[32] = "\"unlimited\"";
    if (more != NO_LIMIT)
        CAY_FORMAT(asked, "%lld", (long long)more);
    CAY_FORMAT(err->detail, "{\"quota\":\"%s\",\"most\":%lld,\"used\":%lld,\"asked\":%s}",
               kinds[kind].name, (long long)most, (long long)used, asked);
    return CAY_ERATE;
}

int cay__quota_templates(const char *tenant, int64_t most, int64_t need, cay_err *err)
{
    int rc =
        cay_fail_why(err, CAY_ERATE, "quota_exceeded",
                     "tenant %s may have %lld MiB of templates, and with this one it is %lld: "
                     "remove some, or its builds' caches (cay template prune)",
                     tenant, (long long)(most >> 20), (long long)((need + (1 << 20) - 1) >> 20));
    if (err)
        CAY_FORMAT(err->detail, "{\"quota\":\"%s\",\"most\":%lld,\"used\":%lld}",
                   kinds[TEMPLATES].name, (long long)most, (long long)need);
    return rc;
}

static int check_amounts(cay__db *db, const char *tenant, const budget *b, const int64_t uses[3],
                         bool fresh, cay_err *err)
{
    const int64_t more[KINDS] = { fresh, uses[0], uses[1], fresh ? uses[2] : 0 };
    CAY_AUTOSTMT *st = NULL;
    CAY_TRY(cay__db_first(db, CAY__Q_TENANT_USES, "count what the tenant has", &st, err, tenant));
    for (int i = 0; i < KINDS; i++) {
        int64_t used =
            sqlite3_column_int64(st, i); /* total() is a real, exact as far as it matters */
        if (b->most[i] && more[i] && used + more[i] > b->most[i])
            return fail_quota(tenant, i, b->most[i], used, more[i], err);
    }
    return 0;
}

/* What was spent comes back evenly; a clock that was set back gives nothing and takes nothing. */
static int64_t still_spent(const budget *b, int64_t now)
{
    int64_t elapsed = CAY_MIN(CAY_MAX(now - b->spent_ms, 0), MINUTE);
    return CAY_MAX(b->spent - elapsed * b->creates * UNIT / MINUTE, 0);
}

static int spend_create(cay__db *db, const char *tenant, const budget *b, cay_err *err)
{
    int64_t now = cay__clock_ms(), spent = still_spent(b, now) + UNIT,
            over = spent - b->creates * UNIT;
    if (over > 0) {
        cay_fail_why(err, CAY_ERATE, "create_rate",
                     "tenant %s may make %lld sandboxes a minute; wait a little", tenant,
                     (long long)b->creates);
        err->retry = CAY_RETRY_YES;
        err->retry_after_ms = (uint32_t)CAY_MIN(over * MINUTE / (b->creates * UNIT) + 1, MINUTE);
        return CAY_ERATE;
    }
    return cay__db_exec(db, CAY__Q_TENANT_SPEND, "count the new sandbox", err, tenant, spent, now);
}

int cay__quota_check(cay__db *db, const char *tenant, const int64_t uses[3], bool fresh,
                     cay_err *err)
{
    budget b = { 0 };
    CAY_TRY(budget_of(db, tenant, &b, err));
    if (b.most[SANDBOXES] || b.most[CPU] || b.most[MEMORY] || b.most[DISK])
        CAY_TRY(check_amounts(db, tenant, &b, uses, fresh, err));
    if (fresh && b.creates)
        return spend_create(db, tenant, &b, err);
    return 0;
}

int cay__quota_check_template(cay__db *db, const char *tenant, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, CAY__Q_TENANT_LAYERS, "count what the tenant's templates have", &st,
                           err, tenant);
    if (rc <= 0)
        return rc;
    int64_t most = sqlite3_column_int64(st, 0), used = sqlite3_column_int64(st, 1);
    if (!most || used <= most)
        return 0;
    return cay__quota_templates(tenant, most, used, err);
}

int cay__quota_check_start(cay__db *db, const char *id, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    char tenant[CAY_TENANT_MAX + 1];
    int64_t uses[3];
    int rc = cay__db_first(db, CAY__Q_BOX_USES, "read the record", &st, err, id);
    if (rc <= 0)
        return rc;
    CAY_COPY(tenant, cay__db_column(st, 0));
    for (int i = 0; i < 3; i++)
        uses[i] = sqlite3_column_int64(st, i + 1);
    cay__db_done(&st);
    return cay__quota_check(db, tenant, uses, false, err);
}

typedef struct tenant_change {
    const cay_tenant *t;
    bool fresh;
} tenant_change;

#define ONCE_SPACE "tenant-once"

/* The word that it was made with goes with it, in the same transaction. */
static int keep_once(cay__db *db, const cay_tenant *t, cay_err *err)
{
    return cay__db_exec(db, t->once ? CAY__Q_NOTE_PUT : CAY__Q_NOTE_DROP, "record the tenant", err,
                        ONCE_SPACE, t->name, CAY__DB_OPTIONAL(t->once));
}

static bool made_once(cay__db *db, const cay_tenant *t, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    return t->once &&
           cay__db_first(db, CAY__Q_NOTE_GET, "look up the tenant", &st, err, ONCE_SPACE,
                         t->name) == 1 &&
           !strcmp(cay__db_column(st, 0), t->once);
}

static int do_tenant_put(cay__db *db, void *arg, cay_err *err)
{
    const tenant_change *c = arg;
    const cay_tenant *t = c->t;
    const cay_quota *q = &t->most;
    int rc =
        cay__db_exec(db, c->fresh ? CAY__Q_TENANT_PUT : CAY__Q_TENANT_SET, "record the tenant", err,
                     t->name, cay__quota_amount(q->sandboxes), cay__quota_amount(q->cpu_milli),
                     cay__quota_amount(q->memory), cay__quota_amount(q->disk),
                     cay__quota_amount(q->creates_per_min), cay__quota_amount(q->templates),
                     cay__clock_ms()); /* of a new one alone */
    if (rc == CAY_EEXIST && made_once(db, t, err))
        return 0;
    int changed = cay__db_changed(db);
    if (rc == 0 && c->fresh)
        rc = keep_once(db, t, err);
    if (rc == CAY_EEXIST)
        return cay_fail_why(err, rc, "tenant_exists",
                            "tenant %s is there already; cay tenant set changes its quotas",
                            t->name);
    if (rc < 0 || c->fresh || changed)
        return rc;
    return no_tenant(t->name, err);
}

int cay__s_tenant_put(void *self, const cay_tenant *t, bool fresh, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, do_tenant_put, &(tenant_change){ t, fresh }, err);
}

static int do_tenant_drop(cay__db *db, void *arg, cay_err *err)
{
    const char *name = arg;
    CAY_AUTOSTMT *st = NULL;
    CAY_TRY(cay__db_first(db, CAY__Q_TENANT_BUSY, "look what the tenant has", &st, err, name));
    long long boxes = sqlite3_column_int64(st, 0), snaps = sqlite3_column_int64(st, 1);
    long long tpls = sqlite3_column_int64(st, 2);
    if (boxes || snaps || tpls)
        return cay_fail_why(err, CAY_ESTATE, "tenant_in_use",
                            "tenant %s has %lld sandboxes, %lld snapshots and %lld templates; "
                            "remove these first",
                            name, boxes, snaps, tpls);
    CAY_TRY(cay__db_exec(db, CAY__Q_KEYS_DROP, "remove the tenant", err, name));
    CAY_TRY(cay__db_exec(db, CAY__Q_TENANT_DROP, "remove the tenant", err, name));
    if (cay__db_changed(db))
        return 0;
    return no_tenant(name, err);
}

int cay__s_tenant_drop(void *self, const char *name, cay_err *err)
{
    if (!strcmp(name, CAY_TENANT_DEFAULT))
        return cay_fail_why(err, CAY_ESTATE, "tenant_in_use", "tenant default is always there");
    return cay__db_write(self, CAY__TX_DURABLE | CAY__TX_FREES, do_tenant_drop, (void *)name, err);
}

static void *copy_tenant(sqlite3_stmt *st)
{
    const char *name;
    cay_tenant *t = cay__db_copy(st, sizeof *t, 0, &name, 1);
    uint64_t v[15];
    for (int i = 1; i < (int)CAY_LEN(v); i++)
        v[i] = (uint64_t)sqlite3_column_int64(st, i);
    budget b = { .creates = (int64_t)v[5], .spent = (int64_t)v[7], .spent_ms = (int64_t)v[8] };
    uint64_t spent = (uint64_t)(still_spent(&b, cay__clock_ms()) + UNIT - 1) / UNIT;
    *t = (cay_tenant){ .size = sizeof *t,
                       .name = name,
                       .created_ms = (int64_t)v[6],
                       .most = { v[1], v[2], v[3], v[4], v[5], v[13] },
                       .used = { v[9], v[10], v[11], v[12], spent, v[14] } };
    return t;
}

int cay__s_tenant_list(void *self, const char *name, cay_tenant_fn *fn, void *arg, cay_err *err)
{
    CAY_AUTOROWS all = { 0 };
    CAY_TRY(cay__db_list(self, CAY__Q_TENANT_LIST, "read the tenants", copy_tenant, &all, err,
                         CAY__DB_OPTIONAL(name)));
    if (name && !all.n)
        return no_tenant(name, err);
    return cay__db_tell(all, fn, arg);
}

static int do_key_put(cay__db *db, void *arg, cay_err *err)
{
    const cay_key_row *r = arg;
    const cay_key *k = &r->key;
    int rc = cay__db_exec(db, CAY__Q_KEY_PUT, "record the key", err, k->id, r->hash, k->tenant,
                          cay_key_scope_name(k->scope), k->name, k->sandbox,
                          k->scope == CAY_KEY_CONSOLE_LOGIN ? k->from : k->path, k->port,
                          CAY_OR(k->created_ms, cay__clock_ms()), k->expires_ms);
    if (rc == CAY_EEXIST)
        return cay_fail_why(err, rc, "key_exists", "key %s is there already", k->id);
    if (rc < 0 || cay__db_changed(db))
        return rc;
    return no_tenant(k->tenant, err);
}

int cay__s_key_put(void *self, const cay_key_row *row, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, do_key_put, (void *)row, err);
}

static void *copy_key(sqlite3_stmt *st)
{
    const char *text[7];
    cay_key_row *r = cay__db_copy(st, sizeof *r, 0, text, CAY_LEN(text));
    *r = (cay_key_row){ .hash = text[1],
                        .key = { .size = sizeof r->key,
                                 .id = text[0],
                                 .tenant = text[2],
                                 .scope = cay_key_scope_parse(text[3]),
                                 .name = text[4],
                                 .sandbox = text[5],
                                 .path = text[6],
                                 .port = (uint16_t)sqlite3_column_int64(st, 7),
                                 .created_ms = sqlite3_column_int64(st, 8),
                                 .expires_ms = sqlite3_column_int64(st, 9),
                                 .revoked_ms = sqlite3_column_int64(st, 10),
                                 .used_ms = sqlite3_column_int64(st, 11),
                                 .from = "" } };
    if (r->key.scope == CAY_KEY_CONSOLE_LOGIN) { /* which has no path */
        r->key.from = text[6];
        r->key.path = "";
    }
    return r;
}

static int no_key(const char *id, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "key_not_found",
                        "there is no key %.16s; cay key ls shows those there are", id);
}

static int each_key(cay__db *db, enum cay__statement q, const char *what, bool one,
                    cay_key_row_fn *fn, void *arg, cay_err *err)
{
    CAY_AUTOROWS all = { 0 };
    CAY_TRY(cay__db_list(db, q, "read the keys", copy_key, &all, err, CAY__DB_OPTIONAL(what)));
    if (one && !all.n)
        return no_key(what, err);
    return cay__db_tell(all, fn, arg);
}

int cay__s_key_get(void *self, const char *id, cay_key_row_fn *fn, void *arg, cay_err *err)
{
    return each_key(self, CAY__Q_KEY_GET, id, true, fn, arg, err);
}

int cay__s_key_list(void *self, const char *tenant, cay_key_row_fn *fn, void *arg, cay_err *err)
{
    return each_key(self, CAY__Q_KEY_LIST, tenant, false, fn, arg, err);
}

int cay__s_key_revoke(void *self, const char *id, int64_t at_ms, cay_err *err)
{
    int changed = cay__db_apply(self, CAY__TX_DURABLE | CAY__TX_FREES, CAY__Q_KEY_REVOKE,
                                "revoke the key", err, id, at_ms);
    if (changed == 0)
        return no_key(id, err);
    return CAY_MIN(changed, 0);
}

int cay__s_key_used(void *self, const char *id, int64_t at_ms, cay_err *err)
{
    CAY_TRY(cay__db_apply(self, 0, CAY__Q_KEY_USED, "note the use of the key", err, id, at_ms));
    return 0;
}

int cay__s_key_sweep(void *self, int64_t before_ms, cay_err *err)
{
    CAY_TRY(cay__db_apply(self, CAY__TX_FREES, CAY__Q_KEY_SWEEP, "forget old sessions", err,
                          before_ms));
    return 0;
}

int cay__s_once_find(void *self, const char *tenant, const char *once, char *id, cay_err *err)
{
    CAY_AUTOLOCKED *db = cay__db_lock(self);
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, CAY__Q_ONCE_FIND, "look up the sandbox", &st, err, tenant, once);
    if (rc <= 0)
        return CAY_OR(rc, cay_fail_why(err, CAY_ENOENT, "sandbox_not_found",
                                       "no sandbox was made with that word"));
    cay__str_copy(id, CAY_ID_LEN + 1, cay__db_column(st, 0));
    return 0;
}
