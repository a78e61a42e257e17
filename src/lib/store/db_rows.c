/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of store.db have in common: how they are changed, listed and looked up. */
#include "db.h"
#include <assert.h>

const char *cay__db_column(sqlite3_stmt *st, int i)
{
    return (const char *)sqlite3_column_text(st, i);
}

void cay__db_texts(sqlite3_stmt *st, const char **text, size_t *len, int n)
{
    for (int i = 0; i < n; i++) {
        text[i] = cay__db_column(st, i);
        len[i] = (size_t)sqlite3_column_bytes(st, i); /* of NULL: 0 */
    }
}

int cay__db_first_row(cay__db *db, enum cay__statement q, const char *what, sqlite3_stmt **st,
                      cay_err *err, const cay__db_value *values, size_t n)
{
    CAY_TRY(cay__db_query(db, q, st, err));
    int i = 0;
    CAY_EACH_OF(v, values, n) {
        i++;
        if (v->is_number)
            sqlite3_bind_int64(*st, i, v->number);
        else if (v->text)
            sqlite3_bind_text(*st, i, v->text, -1, SQLITE_STATIC);
        else if (v->blob)
            sqlite3_bind_blob64(*st, i, v->blob, (uint64_t)v->number, SQLITE_STATIC);
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

typedef struct single {
    enum cay__statement q;
    const char *what;
    const cay__db_value *values;
    size_t n;
    int changed;
} single;

static int apply_single(cay__db *db, void *arg, cay_err *err)
{
    single *s = arg;
    CAY_TRY(cay__db_exec_values(db, s->q, s->what, err, s->values, s->n));
    s->changed = cay__db_changed(db);
    return 0;
}

int cay__db_apply_values(cay__db *db, unsigned how, enum cay__statement q, const char *what,
                         cay_err *err, const cay__db_value *values, size_t n)
{
    single s = { q, what, values, n, 0 };
    CAY_TRY(cay__db_write(db, how, apply_single, &s, err));
    return s.changed;
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
    cay__db_value time = CAY__DB_OPTIONAL(NULL);
    if (created)
        time = cay__db_number(strtoll(created + 1, NULL, 10));
    int rc = cay__db_first(db, q, what, &st, err, id, time);
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
        r->cap = CAY_MAX(r->cap * 2, 32u);
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
        rc = cay__db_first(held, q, what, &st, err, ref, CAY_MIN(max, (size_t)1 << 20),
                           CAY__DB_OPTIONAL(tenant));
    for (; rc == 1; rc = cay__db_step(db, st, what, err))
        if (sqlite3_column_bytes(st, 0) <= CAY_ID_LEN && got < max)
            cay__str_copy(ids[got++], sizeof *ids, cay__db_column(st, 0));
    if (rc == 0)
        *n = got;
    return rc;
}
