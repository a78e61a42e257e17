/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of store.db have in common: how they are changed, listed and looked up. */
#include "db.h"
#include <base/base.h>
#include <base/str.h>

void cay__db_text(sqlite3_stmt *st, int i, const char *s)
{
    sqlite3_bind_text(st, i, CAY_OR(s, ""), -1, SQLITE_STATIC);
}

int cay__db_change(cay__db *db, enum cay__statement q, const char *a, const char *b, const char *c,
                   const char *what, cay_err *err)
{
    const char *texts[] = { a, b, c };
    CAY_AUTOSTMT *st = cay__db_query(db, q, err);
    if (!st)
        return err->code;
    for (int i = 0; i < (int)CAY_LEN(texts); i++)
        if (texts[i])
            cay__db_text(st, i + 1, texts[i]);
    CAY_TRY(cay__db_step(db, st, what, err));
    return sqlite3_changes(db->sql);
}

int cay__db_seq(cay__db *db, enum cay__statement q, const char *after, const char *what,
                int64_t *out, cay_err *err)
{
    size_t n = strcspn(after, ".");
    CAY_AUTOSTMT *st = cay__db_query(db, q, err);
    if (!st)
        return err->code;
    sqlite3_bind_text(st, 1, after, (int)n, SQLITE_STATIC);
    if (after[n])
        sqlite3_bind_int64(st, 2, strtoll(after + n + 1, NULL, 10));
    int rc = cay__db_step(db, st, what, err);
    if (rc == 1 && sqlite3_column_type(st, 0) == SQLITE_NULL)
        return 0;
    if (rc == 1)
        *out = sqlite3_column_int64(st, 0);
    return rc;
}

void cay__db_rows_add(cay__db_rows *r, void *row)
{
    if (r->n == r->cap) {
        if (r->cap)
            r->cap = r->cap * 2;
        else
            r->cap = 32;
        r->at = realloc(r->at, r->cap * sizeof *r->at);
        if (!r->at)
            abort();
    }
    r->at[r->n++] = row;
}

void cay__db_rows_free(cay__db_rows *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->at[i]);
    free(r->at);
}

static int resolve_ref(cay__db *db, enum cay__statement q, const char *tenant, const char *ref,
                       const char *what, cay__db_ids *ids, size_t max, size_t *n, cay_err *err)
{
    int rc;
    CAY_AUTOSTMT *st = cay__db_query(db, q, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, ref);
    sqlite3_bind_int64(st, 2, (int64_t)CAY_MIN(max, (size_t)1 << 20));
    if (tenant)
        cay__db_text(st, 3, tenant);
    while ((rc = cay__db_step(db, st, what, err)) == 1)
        if (sqlite3_column_bytes(st, 0) <= CAY_ID_LEN && *n < max)
            cay__str_copy(ids[(*n)++], sizeof *ids, (const char *)sqlite3_column_text(st, 0));
    return rc;
}

int cay__db_resolve(cay__db *db, enum cay__statement q, const char *tenant, const char *ref,
                    const char *what, cay__db_ids *ids, size_t max, size_t *n, cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    size_t got = 0;
    pthread_mutex_lock(&db->lock);
    int rc = 0;
    if (*ref)
        rc = resolve_ref(db, q, tenant, ref, what, ids, max, &got, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    if (rc == 0)
        *n = got;
    return rc;
}
