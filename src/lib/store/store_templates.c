/* SPDX-License-Identifier: Apache-2.0 */
/* Templates in store.db. sys/store.h tells what each call promises. */
#include "db.h"
#include <lib/snapshot/snapshot_row.h>
#include <lib/template/template.h>
#include <base/json.h>

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
    return cay__db_exec(db, q, "record the template", err, a, CAY__DB_OPTIONAL(b),
                        CAY__DB_OPTIONAL(c));
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
    int rc = cay__db_exec(db, CAY__Q_TPL_INSERT, "record the template", err, r->id, r->tenant,
                          r->base, r->source, r->digest, r->layers, r->config, r->shared, r->bytes,
                          r->files, CAY_OR(r->created_ms, cay__clock_ms()));
    if (rc == CAY_EEXIST)
        return cay_fail_why(err, rc, "template_exists", "template %s is there already", r->id);
    CAY_TRY(rc);
    CAY_TRY(cay__quota_check_template(db, r->tenant, err));
    CAY_TRY(put_names(db, r, err));
    return change_template(db, CAY__Q_NOTE_DROP, "lease", r->id, NULL, err);
}

int cay__s_template_insert(void *self, const cay_template_row *row, cay_err *err)
{
    cay__stack stack;
    if (!row->id || !cay__id_valid(row->id, 't') || !row->tenant)
        return cay_fail(err, CAY_EINVAL, "a record of a template needs its id and tenant");
    CAY_TRY(cay__stack_read(CAY_OR(row->layers, ""), &stack, err));
    return cay__db_write(self, CAY__TX_DURABLE, insert_template, (void *)row, err);
}

/* layers: a copy, unless NULL. */
static int read_layers(cay__db *db, const char *id, char **layers, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, CAY__Q_TPL_LAYERS, "read the template", &st, err, id);
    if (rc <= 0)
        return CAY_OR(rc, no_template(id, err));
    if (layers)
        *layers = cay__strdup(cay__db_column(st, 0));
    return 0;
}

static int remove_template(cay__db *db, void *arg, cay_err *err)
{
    const char *id = arg;
    CAY_AUTOFREE char *layers = NULL;
    cay__stack stack;
    CAY_TRY(read_layers(db, id, &layers, err));
    CAY_TRY(change_template(db, CAY__Q_TPL_REMOVE, id, NULL, NULL, err));
    CAY_TRY(change_template(db, CAY__Q_TPL_UNNAME_ALL, id, NULL, NULL, err));
    /* Text that is no list of layers names none that could be freed. */
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
    CAY_AUTOSTMT *st = NULL;
    CAY_TRY(cay__db_first(db, CAY__Q_TPL_NAMES, "count the names", &st, err, id));
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
    if (!n->id)
        return change_template(db, CAY__Q_TPL_UNNAME, n->tenant, n->name, NULL, err);
    CAY_TRY(read_layers(db, n->id, NULL, err));
    CAY_TRY(change_template(db, CAY__Q_TPL_NAME, n->tenant, n->name, n->id, err));
    return check_names(db, n->id, err);
}

int cay__s_template_name(void *self, const char *tenant, const char *name, const char *id,
                         cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, name_template, &(naming){ tenant, name, id }, err);
}

int cay__s_template_share(void *self, const char *id, bool shared, cay_err *err)
{
    int changed = cay__db_apply(self, CAY__TX_DURABLE, CAY__Q_TPL_SHARE, "record the template", err,
                                id, shared ? "1" : "0");
    if (changed == 0)
        return no_template(id, err);
    return CAY_MIN(changed, 0);
}

static void *copy_row(sqlite3_stmt *st)
{
    const char *text[TEXTS];
    cay_template_row *r = cay__db_copy(st, sizeof *r, 0, text, TEXTS);
    *r = (cay_template_row){ .size = sizeof *r,
                             .id = text[COL_ID],
                             .tenant = text[COL_TENANT],
                             .base = text[COL_BASE],
                             .source = text[COL_SOURCE],
                             .digest = text[COL_DIGEST],
                             .layers = text[COL_LAYERS],
                             .config = text[COL_CONFIG],
                             .names = text[COL_NAMES],
                             .shared = sqlite3_column_int64(st, TEXTS) != 0,
                             .bytes = (uint64_t)sqlite3_column_int64(st, TEXTS + 1),
                             .files = (uint64_t)sqlite3_column_int64(st, TEXTS + 2),
                             .created_ms = sqlite3_column_int64(st, TEXTS + 3),
                             .users = (size_t)sqlite3_column_int64(st, TEXTS + 4) };
    return r;
}

int cay__s_template_list(void *self, const char *tenant, const char *id, const char *after,
                         cay_template_row_fn *fn, void *arg, cay_err *err)
{
    CAY_AUTOROWS all = { 0 };
    int64_t seq;
    int rc = cay__db_behind(self, CAY__Q_TPL_SEQ, after, "read the templates", &seq, err);
    if (rc <= 0)
        return CAY_OR(rc, no_template(after, err));
    CAY_TRY(cay__db_list(self, CAY__Q_TPL_LIST, "read the templates", copy_row, &all, err, seq,
                         CAY__DB_OPTIONAL(tenant), CAY__DB_OPTIONAL(id)));
    if (id && !all.n)
        return no_template(id, err);
    return cay__db_tell(all, fn, arg);
}

int cay__s_template_resolve(void *self, const char *tenant, const char *ref, cay__db_ids *ids,
                            size_t max, size_t *n, cay_err *err)
{
    return cay__db_resolve(self, CAY__Q_TPL_RESOLVE, tenant, ref, "look up the template", ids, max,
                           n, err);
}
