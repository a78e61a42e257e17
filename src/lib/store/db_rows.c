/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of store.db have in common: how they are changed, listed and looked up. */
#include "db.h"
#include <assert.h>
#include <base/base.h>

const char *cay__db_column(sqlite3_stmt *st, int i)
{
    return (const char *)sqlite3_column_text(st, i);
}

int cay__db_first_row(cay__db *db, enum cay__statement q, const char *what, sqlite3_stmt **st,
                      cay_err *err, const cay__db_value *values, size_t n)
{
    CAY_TRY(cay__db_query(db, q, st, err));
    for (size_t i = 0; i < n; i++) {
        const cay__db_value *v = &values[i];
        if (v->is_number)
            sqlite3_bind_int64(*st, (int)i + 1, v->number);
        else if (v->text)
            sqlite3_bind_text(*st, (int)i + 1, v->text, -1, SQLITE_STATIC);
        else if (v->blob)
            sqlite3_bind_blob64(*st, (int)i + 1, v->blob, (uint64_t)v->number, SQLITE_STATIC);
    }
    return cay__db_step(db, *st, what, err);
}

int cay__db_exec_values(cay__db *db, enum cay__statement q, const char *what, cay_err *err,
                        const cay__db_value *values, size_t n)
{
    CAY_AUTOSTMT *st = NULL;
    CAY_TRY(cay__db_first_row(db, q, what, &st, err, values, n));
    return 0;
}

int cay__db_changed(cay__db *db)
{
    return sqlite3_changes(db->sql);
}

cay__db *cay__db_lock(cay__db *db)
{
    pthread_mutex_lock(&db->lock);
    return db;
}

void cay__db_unlock(cay__db **db)
{
    pthread_mutex_unlock(&(*db)->lock);
}

int cay__db_behind(cay__db *self, enum cay__statement q, const char *after, const char *what,
                   int64_t *out, cay_err *err)
{
    *out = INT64_MIN;
    if (!after)
        return 1;
    CAY_AUTOLOCKED *db = cay__db_lock(self);
    CAY_AUTOSTMT *st = NULL;
    CAY_AUTOFREE char *id = strndup(after, strcspn(after, "."));
    const char *created = strchr(after, '.');
    int rc;
    if (created)
        rc = cay__db_first(db, q, what, &st, err, CAY__DB_TEXT(id),
                           CAY__DB_INT(strtoll(created + 1, NULL, 10)));
    else
        rc = cay__db_first(db, q, what, &st, err, CAY__DB_TEXT(id));
    if (rc == 1 && sqlite3_column_type(st, 0) == SQLITE_NULL)
        return 0;
    if (rc == 1)
        *out = sqlite3_column_int64(st, 0);
    return rc;
}

void *cay__db_copy(sqlite3_stmt *st, size_t size, int first, const char **text, int n)
{
    size_t len[CAY__DB_TEXTS_MAX], need = size;
    assert(n <= CAY__DB_TEXTS_MAX);
    for (int i = 0; i < n; i++) {
        text[i] = CAY_OR(cay__db_column(st, first + i), "");
        len[i] = strlen(text[i]) + 1;
        need += len[i];
    }
    char *block = cay__alloc(need), *p = block + size;
    for (int i = 0; i < n; p += len[i++])
        text[i] = memcpy(p, text[i], len[i]);
    return block;
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
    CAY_EACH_OF(it, r->at, r->n)
        free(*it);
    free(r->at);
}

int cay__db_list_values(cay__db *db, enum cay__statement q, const char *what,
                        void *(*copy)(sqlite3_stmt *), cay__db_rows *out, cay_err *err,
                        const cay__db_value *values, size_t n)
{
    CAY_AUTOLOCKED *held = cay__db_lock(db);
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first_row(held, q, what, &st, err, values, n);
    for (; rc == 1; rc = cay__db_step(db, st, what, err))
        cay__db_rows_add(out, copy(st));
    return rc;
}

int cay__db_resolve(cay__db *db, enum cay__statement q, const char *tenant, const char *ref,
                    const char *what, cay__db_ids *ids, size_t max, size_t *n, cay_err *err)
{
    CAY_AUTOLOCKED *held = cay__db_lock(db);
    CAY_AUTOSTMT *st = NULL;
    size_t got = 0;
    int rc = 0;
    if (*ref)
        rc = cay__db_first(held, q, what, &st, err, CAY__DB_TEXT(ref),
                           CAY__DB_INT(CAY_MIN(max, (size_t)1 << 20)), CAY__DB_OPTIONAL(tenant));
    for (; rc == 1; rc = cay__db_step(db, st, what, err))
        if (sqlite3_column_bytes(st, 0) <= CAY_ID_LEN && got < max)
            cay__str_copy(ids[got++], sizeof *ids, cay__db_column(st, 0));
    if (rc == 0)
        *n = got;
    return rc;
}
