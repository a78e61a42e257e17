/* SPDX-License-Identifier: Apache-2.0 */
/* Templates in store.db. sys/store.h tells what each call promises. */
#include "db.h"
#include <lib/snapshot/snapshot_row.h>
#include <lib/template/template.h>
#include <base/base.h>
#include <base/fd.h>
#include <base/json.h>
#include <base/str.h>

enum {
    COL_ID,
    COL_TENANT,
    COL_BASE,
    COL_SOURCE,
    COL_DIGEST,
    COL_LAYERS,
    COL_CONFIG,
    COL_NAMES,
    TEXTS
};

static int no_template(const char *id, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "template_not_found",
                        "there is no template %.64s; cay template ls shows those there are", id);
}

static int change_template(cay__db *db, enum cay__statement q, const char *a, const char *b,
                           const char *c, cay_err *err)
{
    return cay__db_change(db, q, a, b, c, "record the template", err);
}

static int put_names(cay__db *db, const cay_template_row *r, cay_err *err)
{
    CAY_AUTOJSON *names = NULL;
    CAY_TRY(cay__json_any("names", CAY_OR(r->names, "[]"), &names, err));
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name)
            return cay_fail(err, CAY_EINVAL, "names: not a list of strings");
        CAY_TRY(change_template(db, CAY__Q_TPL_NAME, r->tenant, name, r->id, err));
    }
    return 0;
}

static int insert_template(cay__db *db, void *arg, cay_err *err)
{
    const cay_template_row *r = arg;
    const char *texts[] = { r->id, r->tenant, r->base, r->source, r->digest, r->layers, r->config };
    const int64_t numbers[] = { r->shared, (int64_t)r->bytes, (int64_t)r->files,
                                CAY_OR(r->created_ms, cay__clock_ms()) };
    {
        CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_TPL_INSERT, err);
        if (!st)
            return err->code;
        for (size_t i = 0; i < CAY_LEN(texts); i++)
            cay__db_text(st, (int)i + 1, texts[i]);
        for (size_t i = 0; i < CAY_LEN(numbers); i++)
            sqlite3_bind_int64(st, (int)(i + CAY_LEN(texts)) + 1, numbers[i]);
        int rc = cay__db_step(db, st, "record the template", err);
        if (rc < 0) {
            if (rc == CAY_EEXIST)
                return cay_fail_why(err, rc, "template_exists", "template %s is there already",
                                    r->id);
            return rc;
        }
    }
    CAY_TRY(cay__quota_check_template(db, r->tenant, err));
    CAY_TRY(put_names(db, r, err));
    int n = change_template(db, CAY__Q_NOTE_DROP, "lease", r->id, NULL, err);
    if (n < 0)
        return n;
    return 0;
}

int cay__s_template_insert(void *self, const cay_template_row *row, cay_err *err)
{
    cay__stack stack;
    if (!row->id || !cay__id_valid(row->id, 't') || !row->tenant)
        return cay_fail(err, CAY_EINVAL, "a record of a template needs its id and tenant");
    CAY_TRY(cay__stack_read(CAY_OR(row->layers, ""), &stack, err));
    return cay__db_write(self, CAY__TX_DURABLE, insert_template, (void *)row, err);
}

static int remove_template(cay__db *db, void *arg, cay_err *err)
{
    const char *id = arg;
    CAY_AUTOFREE char *layers = NULL;
    {
        CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_TPL_LAYERS, err);
        if (!st)
            return err->code;
        cay__db_text(st, 1, id);
        int rc = cay__db_step(db, st, "read the template", err);
        if (rc <= 0) {
            if (rc < 0)
                return rc;
            return no_template(id, err);
        }
        layers = cay__strdup((const char *)sqlite3_column_text(st, 0));
    }
    cay__stack stack;
    CAY_TRY(change_template(db, CAY__Q_TPL_REMOVE, id, NULL, NULL, err));
    CAY_TRY(change_template(db, CAY__Q_TPL_UNNAME_ALL, id, NULL, NULL, err));
    /* What is no list of layers names none that could be freed. */
    if (cay__stack_read(layers, &stack, NULL) < 0 || !stack.n)
        return 0;
    return cay__layers_free(db, layers, "", err);
}

int cay__s_template_remove(void *self, const char *id, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE | CAY__TX_FREES, remove_template, (void *)id, err);
}

/* Counted where the last one is recorded: two who give one at once do not both get the last place.
 */
static int check_names(cay__db *db, const char *id, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_TPL_NAMES, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, id);
    CAY_TRY(cay__db_step(db, st, "count the names", err));
    if (sqlite3_column_int64(st, 0) <= CAY__TEMPLATE_NAMES)
        return 0;
    return cay_fail_why(
        err, CAY_EINVAL, "template_name",
        "template %s has %d names, which is the most; cay template rm NAME forgets one", id,
        CAY__TEMPLATE_NAMES);
}

typedef struct naming {
    const char *tenant, *name, *id;
} naming;

static int name_template(cay__db *db, void *arg, cay_err *err)
{
    const naming *n = arg;
    int done;
    if (!n->id) {
        done = change_template(db, CAY__Q_TPL_UNNAME, n->tenant, n->name, NULL, err);
        if (done < 0)
            return done;
        return 0;
    }
    {
        CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_TPL_LAYERS, err);
        if (!st)
            return err->code;
        cay__db_text(st, 1, n->id);
        int rc = cay__db_step(db, st, "read the template", err);
        if (rc <= 0) {
            if (rc < 0)
                return rc;
            return no_template(n->id, err);
        }
    }
    done = change_template(db, CAY__Q_TPL_NAME, n->tenant, n->name, n->id, err);
    if (done < 0)
        return done;
    return check_names(db, n->id, err);
}

int cay__s_template_name(void *self, const char *tenant, const char *name, const char *id,
                         cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, name_template, &(naming){ tenant, name, id }, err);
}

typedef struct sharing {
    const char *id;
    bool shared;
} sharing;

static int share_template(cay__db *db, void *arg, cay_err *err)
{
    const sharing *s = arg;
    int n = change_template(db, CAY__Q_TPL_SHARE, s->id, s->shared ? "1" : "0", NULL, err);
    if (n < 0)
        return n;
    if (n)
        return 0;
    return no_template(s->id, err);
}

int cay__s_template_share(void *self, const char *id, bool shared, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, share_template, &(sharing){ id, shared }, err);
}

typedef struct kept {
    cay_template_row row;
    char text[];
} kept;

static kept *copy_row(sqlite3_stmt *st)
{
    const char *text[TEXTS], *at[TEXTS];
    size_t len[TEXTS], need = 0;
    for (int i = 0; i < TEXTS; i++) {
        text[i] = (const char *)sqlite3_column_text(st, i);
        if (text[i])
            len[i] = strlen(text[i]);
        else
            len[i] = 0;
        need += len[i] + 1;
    }
    kept *k = cay__alloc(sizeof *k + need);
    char *p = k->text;
    for (int i = 0; i < TEXTS; i++) {
        at[i] = p;
        if (len[i])
            memcpy(p, text[i], len[i]);
        p += len[i] + 1;
    }
    k->row = (cay_template_row){ .size = sizeof k->row,
                                 .id = at[COL_ID],
                                 .tenant = at[COL_TENANT],
                                 .base = at[COL_BASE],
                                 .source = at[COL_SOURCE],
                                 .digest = at[COL_DIGEST],
                                 .layers = at[COL_LAYERS],
                                 .config = at[COL_CONFIG],
                                 .names = at[COL_NAMES],
                                 .shared = sqlite3_column_int64(st, TEXTS) != 0,
                                 .bytes = (uint64_t)sqlite3_column_int64(st, TEXTS + 1),
                                 .files = (uint64_t)sqlite3_column_int64(st, TEXTS + 2),
                                 .created_ms = sqlite3_column_int64(st, TEXTS + 3),
                                 .users = (size_t)sqlite3_column_int64(st, TEXTS + 4) };
    return k;
}

static int list_locked(cay__db *db, const char *tenant, const char *id, const char *after,
                       cay__db_rows *out, cay_err *err)
{
    int64_t seq = INT64_MIN;
    int rc;
    if (after &&
        (rc = cay__db_seq(db, CAY__Q_TPL_SEQ, after, "read the templates", &seq, err)) <= 0) {
        if (rc < 0)
            return rc;
        return no_template(after, err);
    }
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_TPL_LIST, err);
    if (!st)
        return err->code;
    sqlite3_bind_int64(st, 1, seq);
    if (tenant)
        cay__db_text(st, 2, tenant);
    if (id)
        cay__db_text(st, 3, id);
    while ((rc = cay__db_step(db, st, "read the templates", err)) == 1)
        cay__db_rows_add(out, copy_row(st));
    return rc;
}

int cay__s_template_list(void *self, const char *tenant, const char *id, const char *after,
                         int (*fn)(const cay_template_row *, void *), void *arg, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    CAY_AUTOROWS all = { 0 };
    pthread_mutex_lock(&db->lock);
    int rc = list_locked(db, tenant, id, after, &all, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    if (rc == 0 && id && !all.n)
        rc = no_template(id, err);
    for (size_t i = 0; rc == 0 && i < all.n; i++)
        rc = fn(&((kept *)all.at[i])->row, arg);
    return rc;
}

int cay__s_template_resolve(void *self, const char *tenant, const char *ref,
                            char (*ids)[CAY_ID_LEN + 1], size_t max, size_t *n, cay_err *err)
{
    return cay__db_resolve(self, CAY__Q_TPL_RESOLVE, tenant, ref, "look up the template", ids, max,
                           n, err);
}
