/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants, what they may have, and keys, in store.db. sys/store.h tells what each call promises. */
#include "db.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <stdio.h>

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
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_TENANT_GET, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, tenant);
    int rc = cay__db_step(db, st, "read the tenant", err);
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
        snprintf(asked, sizeof asked, "%lld", (long long)more);
    snprintf(err->detail, sizeof err->detail,
             "{\"quota\":\"%s\",\"most\":%lld,\"used\":%lld,\"asked\":%s}", kinds[kind].name,
             (long long)most, (long long)used, asked);
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
        snprintf(err->detail, sizeof err->detail, "{\"quota\":\"%s\",\"most\":%lld,\"used\":%lld}",
                 kinds[TEMPLATES].name, (long long)most, (long long)need);
    return rc;
}

static int check_amounts(cay__db *db, const char *tenant, const budget *b, const int64_t uses[3],
                         bool fresh, cay_err *err)
{
    const int64_t more[KINDS] = { fresh, uses[0], uses[1], fresh ? uses[2] : 0 };
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_TENANT_USES, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, tenant);
    CAY_TRY(cay__db_step(db, st, "count what the tenant has", err));
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
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_TENANT_SPEND, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, tenant);
    sqlite3_bind_int64(st, 2, spent);
    sqlite3_bind_int64(st, 3, now);
    return cay__db_step(db, st, "count the new sandbox", err);
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
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_TENANT_LAYERS, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, tenant);
    int rc = cay__db_step(db, st, "count what the tenant's templates have", err);
    int64_t most = rc == 1 ? sqlite3_column_int64(st, 0) : 0,
            used = rc == 1 ? sqlite3_column_int64(st, 1) : 0;
    if (rc < 0 || !most || used <= most) {
        if (rc < 0)
            return rc;
        return 0;
    }
    return cay__quota_templates(tenant, most, used, err);
}

int cay__quota_check_start(cay__db *db, const char *id, cay_err *err)
{
    char tenant[CAY_TENANT_MAX + 1];
    int64_t uses[3];
    {
        CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_BOX_USES, err);
        if (!st)
            return err->code;
        cay__db_text(st, 1, id);
        int rc = cay__db_step(db, st, "read the record", err);
        if (rc <= 0)
            return rc;
        cay__str_copy(tenant, sizeof tenant, (const char *)sqlite3_column_text(st, 0));
        for (int i = 0; i < 3; i++)
            uses[i] = sqlite3_column_int64(st, i + 1);
    }
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
    CAY_AUTOSTMT *st = cay__db_query(db, t->once ? CAY__Q_NOTE_PUT : CAY__Q_NOTE_DROP, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, ONCE_SPACE);
    cay__db_text(st, 2, t->name);
    if (t->once)
        cay__db_text(st, 3, t->once);
    return cay__db_step(db, st, "record the tenant", err);
}

static bool made_once(cay__db *db, const cay_tenant *t, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    if (t->once)
        st = cay__db_query(db, CAY__Q_NOTE_GET, err);
    if (!st)
        return false;
    cay__db_text(st, 1, ONCE_SPACE);
    cay__db_text(st, 2, t->name);
    return cay__db_step(db, st, "look up the tenant", err) == 1 &&
           !strcmp((const char *)sqlite3_column_text(st, 0), t->once);
}

static int do_tenant_put(cay__db *db, void *arg, cay_err *err)
{
    const tenant_change *c = arg;
    const cay_quota *q = &c->t->most;
    const uint64_t amounts[] = { q->sandboxes, q->cpu_milli,       q->memory,
                                 q->disk,      q->creates_per_min, q->templates };
    CAY_AUTOSTMT *st = cay__db_query(db, c->fresh ? CAY__Q_TENANT_PUT : CAY__Q_TENANT_SET, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, c->t->name);
    for (int i = 0; i < (int)CAY_LEN(amounts); i++)
        sqlite3_bind_int64(st, i + 2, cay__quota_amount(amounts[i]));
    if (c->fresh)
        sqlite3_bind_int64(st, 8, cay__clock_ms());
    int rc = cay__db_step(db, st, "record the tenant", err);
    if (rc == CAY_EEXIST && made_once(db, c->t, err))
        return 0;
    if (rc == 0 && c->fresh)
        rc = keep_once(db, c->t, err);
    if (rc == CAY_EEXIST)
        return cay_fail_why(err, rc, "tenant_exists",
                            "tenant %s is there already; cay tenant set changes its quotas",
                            c->t->name);
    if (rc < 0)
        return rc;
    if (c->fresh || sqlite3_changes(db->sql))
        return 0;
    return no_tenant(c->t->name, err);
}

int cay__s_tenant_put(void *self, const cay_tenant *t, bool fresh, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, do_tenant_put, &(tenant_change){ t, fresh }, err);
}

static int drop_rows(cay__db *db, enum cay__statement q, const char *name, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, q, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, name);
    CAY_TRY(cay__db_step(db, st, "remove the tenant", err));
    return sqlite3_changes(db->sql);
}

static int do_tenant_drop(cay__db *db, void *arg, cay_err *err)
{
    const char *name = arg;
    {
        CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_TENANT_BUSY, err);
        if (!st)
            return err->code;
        cay__db_text(st, 1, name);
        CAY_TRY(cay__db_step(db, st, "look what the tenant has", err));
        long long boxes = sqlite3_column_int64(st, 0), snaps = sqlite3_column_int64(st, 1);
        long long tpls = sqlite3_column_int64(st, 2);
        if (boxes || snaps || tpls)
            return cay_fail_why(err, CAY_ESTATE, "tenant_in_use",
                                "tenant %s has %lld sandboxes, %lld snapshots and %lld templates; "
                                "remove these first",
                                name, boxes, snaps, tpls);
    }
    CAY_TRY(drop_rows(db, CAY__Q_KEYS_DROP, name, err));
    int n = drop_rows(db, CAY__Q_TENANT_DROP, name, err);
    if (n < 0)
        return n;
    if (n)
        return 0;
    return no_tenant(name, err);
}

int cay__s_tenant_drop(void *self, const char *name, cay_err *err)
{
    if (!strcmp(name, CAY_TENANT_DEFAULT))
        return cay_fail_why(err, CAY_ESTATE, "tenant_in_use", "tenant default is always there");
    return cay__db_write(self, CAY__TX_DURABLE | CAY__TX_FREES, do_tenant_drop, (void *)name, err);
}

typedef struct tenants {
    struct {
        cay_tenant t;
        char name[CAY_TENANT_MAX + 1];
    } * at;
    size_t n;
} tenants;

static void tenants_free(tenants *t)
{
    free(t->at);
}

static void tenant_add(tenants *all, sqlite3_stmt *st)
{
    int64_t v[15];
    all->at = realloc(all->at, (all->n + 1) * sizeof *all->at);
    if (!all->at)
        abort();
    cay_tenant *t = &all->at[all->n].t;
    for (int i = 1; i < (int)CAY_LEN(v); i++)
        v[i] = sqlite3_column_int64(st, i);
    budget b = { .creates = v[5], .spent = v[7], .spent_ms = v[8] };
    *t = (cay_tenant){ .size = sizeof *t,
                       .created_ms = v[6],
                       .most = { (uint64_t)v[1], (uint64_t)v[2], (uint64_t)v[3], (uint64_t)v[4],
                                 (uint64_t)v[5], (uint64_t)v[13] },
                       .used = { (uint64_t)v[9], (uint64_t)v[10], (uint64_t)v[11], (uint64_t)v[12],
                                 (uint64_t)((still_spent(&b, cay__clock_ms()) + UNIT - 1) / UNIT),
                                 (uint64_t)v[14] } };
    cay__str_copy(all->at[all->n++].name, sizeof all->at->name,
                  (const char *)sqlite3_column_text(st, 0));
}

static int tenants_locked(cay__db *db, const char *name, tenants *out, cay_err *err)
{
    int rc;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_TENANT_LIST, err);
    if (!st)
        return err->code;
    if (name)
        cay__db_text(st, 1, name);
    while ((rc = cay__db_step(db, st, "read the tenants", err)) == 1)
        tenant_add(out, st);
    return rc;
}

int cay__s_tenant_list(void *self, const char *name, int (*fn)(const cay_tenant *, void *),
                       void *arg, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    __attribute__((cleanup(tenants_free))) tenants all = { 0 };
    pthread_mutex_lock(&db->lock);
    int rc = tenants_locked(db, name, &all, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    if (rc == 0 && name && !all.n)
        return no_tenant(name, err);
    for (size_t i = 0; rc == 0 && i < all.n; i++) {
        all.at[i].t.name = all.at[i].name;
        rc = fn(&all.at[i].t, arg);
    }
    return rc;
}

static int do_key_put(cay__db *db, void *arg, cay_err *err)
{
    const cay_key_row *r = arg;
    const cay_key *k = &r->key;
    const char *texts[] = { k->id,
                            r->hash,
                            k->tenant,
                            cay_key_scope_name(k->scope),
                            k->name,
                            k->sandbox,
                            k->scope == CAY_KEY_LOGIN ? k->from : k->path };
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_KEY_PUT, err);
    if (!st)
        return err->code;
    for (size_t i = 0; i < CAY_LEN(texts); i++)
        cay__db_text(st, (int)i + 1, texts[i]);
    sqlite3_bind_int64(st, 8, k->port);
    sqlite3_bind_int64(st, 9, CAY_OR(k->created_ms, cay__clock_ms()));
    sqlite3_bind_int64(st, 10, k->expires_ms);
    int rc = cay__db_step(db, st, "record the key", err);
    if (rc == CAY_EEXIST)
        return cay_fail_why(err, rc, "key_exists", "key %s is there already", k->id);
    if (rc < 0)
        return rc;
    if (sqlite3_changes(db->sql))
        return 0;
    return no_tenant(k->tenant, err);
}

int cay__s_key_put(void *self, const cay_key_row *row, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, do_key_put, (void *)row, err);
}

enum { KEY_TEXTS = 7 };
typedef struct key_copy {
    cay_key_row row;
    char *text[KEY_TEXTS];
} key_copy;
typedef struct keys {
    key_copy *at;
    size_t n;
} keys;

static void keys_free(keys *k)
{
    for (size_t i = 0; i < k->n; i++)
        for (int c = 0; c < KEY_TEXTS; c++)
            free(k->at[i].text[c]);
    free(k->at);
}

static void key_add(keys *all, sqlite3_stmt *st)
{
    all->at = realloc(all->at, (all->n + 1) * sizeof *all->at);
    if (!all->at)
        abort();
    key_copy *c = &all->at[all->n++];
    for (int i = 0; i < KEY_TEXTS; i++)
        c->text[i] = cay__strdup((const char *)sqlite3_column_text(st, i));
    c->row = (cay_key_row){ .hash = c->text[1],
                            .key = { .size = sizeof c->row.key,
                                     .id = c->text[0],
                                     .tenant = c->text[2],
                                     .scope = cay_key_scope_parse(c->text[3]),
                                     .name = c->text[4],
                                     .sandbox = c->text[5],
                                     .path = c->text[6],
                                     .port = (uint16_t)sqlite3_column_int64(st, 7),
                                     .created_ms = sqlite3_column_int64(st, 8),
                                     .expires_ms = sqlite3_column_int64(st, 9),
                                     .revoked_ms = sqlite3_column_int64(st, 10),
                                     .used_ms = sqlite3_column_int64(st, 11),
                                     .from = "" } };
    if (c->row.key.scope == CAY_KEY_LOGIN) { /* a session has no path */
        c->row.key.from = c->text[6];
        c->row.key.path = "";
    }
}

static int keys_locked(cay__db *db, enum cay__statement q, const char *what, keys *out,
                       cay_err *err)
{
    int rc;
    CAY_AUTOSTMT *st = cay__db_query(db, q, err);
    if (!st)
        return err->code;
    if (what)
        cay__db_text(st, 1, what);
    while ((rc = cay__db_step(db, st, "read the keys", err)) == 1)
        key_add(out, st);
    return rc;
}

static int no_key(const char *id, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "key_not_found",
                        "there is no key %.16s; cay key ls shows those there are", id);
}

static int each_key(cay__db *db, enum cay__statement q, const char *what, bool one,
                    int (*fn)(const cay_key_row *, void *), void *arg, cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    __attribute__((cleanup(keys_free))) keys all = { 0 };
    pthread_mutex_lock(&db->lock);
    int rc = keys_locked(db, q, what, &all, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    if (rc == 0 && one && !all.n)
        return no_key(what, err);
    for (size_t i = 0; rc == 0 && i < all.n; i++)
        rc = fn(&all.at[i].row, arg);
    return rc;
}

int cay__s_key_get(void *self, const char *id, int (*fn)(const cay_key_row *, void *), void *arg,
                   cay_err *err)
{
    return each_key(self, CAY__Q_KEY_GET, id, true, fn, arg, err);
}

int cay__s_key_list(void *self, const char *tenant, int (*fn)(const cay_key_row *, void *),
                    void *arg, cay_err *err)
{
    return each_key(self, CAY__Q_KEY_LIST, tenant, false, fn, arg, err);
}

typedef struct revocation {
    const char *id;
    int64_t at_ms;
} revocation;

static int revoke_key(cay__db *db, void *arg, cay_err *err)
{
    const revocation *r = arg;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_KEY_REVOKE, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, r->id);
    sqlite3_bind_int64(st, 2, r->at_ms);
    CAY_TRY(cay__db_step(db, st, "revoke the key", err));
    if (sqlite3_changes(db->sql))
        return 0;
    return no_key(r->id, err);
}

int cay__s_key_revoke(void *self, const char *id, int64_t at_ms, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE | CAY__TX_FREES, revoke_key,
                         &(revocation){ id, at_ms }, err);
}

static int record_key_use(cay__db *db, void *arg, cay_err *err)
{
    const revocation *r = arg;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_KEY_USED, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, r->id);
    sqlite3_bind_int64(st, 2, r->at_ms);
    return cay__db_step(db, st, "note the use of the key", err);
}

int cay__s_key_used(void *self, const char *id, int64_t at_ms, cay_err *err)
{
    return cay__db_write(self, 0, record_key_use, &(revocation){ id, at_ms }, err);
}

static int sweep_sessions(cay__db *db, void *arg, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_KEY_SWEEP, err);
    if (!st)
        return err->code;
    sqlite3_bind_int64(st, 1, *(int64_t *)arg);
    return cay__db_step(db, st, "forget old sessions", err);
}

int cay__s_key_sweep(void *self, int64_t before_ms, cay_err *err)
{
    return cay__db_write(self, CAY__TX_FREES, sweep_sessions, &before_ms, err);
}

static int once_locked(cay__db *db, const char *tenant, const char *once, char *id, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_ONCE_FIND, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, tenant);
    cay__db_text(st, 2, once);
    int rc = cay__db_step(db, st, "look up the sandbox", err);
    if (rc == 1)
        cay__str_copy(id, CAY_ID_LEN + 1, (const char *)sqlite3_column_text(st, 0));
    if (rc == 0)
        return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found",
                            "no sandbox was made with that word");
    if (rc < 0)
        return rc;
    return 0;
}

int cay__s_once_find(void *self, const char *tenant, const char *once, char *id, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    pthread_mutex_lock(&db->lock);
    int rc = once_locked(db, tenant, once, id, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    return rc;
}
