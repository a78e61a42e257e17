/* SPDX-License-Identifier: Apache-2.0 */
/* The store of one machine: store.db in the state directory. sys/store.h tells what each call
 * promises. */
#include "db.h"
#include <lib/client/lifecycle.h>
#include "row.h"
#include <base/path.h>

static int s_open(const char *where, void **self, cay_err *err)
{
    int dir;
    cay__db *db;
    CAY_TRY(cay__home_open(where, &dir, err));
    CAY_TRY(cay__db_open(where, dir, &db, err));
    *self = db;
    return 0;
}

static void s_close(void *self)
{
    cay__db_close(self);
}

static const char *s_instance(void *self)
{
    return ((cay__db *)self)->instance;
}

static int no_row(const char *id, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found", "no sandbox %.64s", id);
}

static int insert_row(cay__db *db, void *arg, cay_err *err)
{
    const cay_row *r = arg;
    const char *tenant = cay__text_or(r->tenant, CAY_TENANT_DEFAULT);
    const int64_t uses[] = { cay__quota_amount(r->cpu_milli), cay__quota_amount(r->memory),
                             cay__quota_amount(r->disk) };
    int64_t now = cay__clock_ms();
    if (*tenant != '.') /* nobody's: it is counted when somebody takes it */
        CAY_TRY(cay__quota_check(db, tenant, uses, true, err));
    int rc = cay__db_exec(db, CAY__Q_INSERT, "record the sandbox", err, r->id, r->name, r->provider,
                          cay_state_name(r->state), r->reason, r->spec, r->box,
                          CAY_OR(r->labels, "{}"), r->metadata, CAY_OR(r->created_ms, now),
                          CAY_OR(r->changed_ms, now), tenant, r->once, uses[0], uses[1], uses[2]);
    if (rc == CAY_EEXIST && strstr(sqlite3_errmsg(db->sql), "once"))
        return cay_fail_why(err, rc, "once", "a sandbox was made with the word %.60s", r->once);
    if (rc == CAY_EEXIST)
        return cay_fail_why(err, rc, "sandbox_exists", "sandbox %s is there already", r->id);
    return rc;
}

static int s_insert(void *self, const cay_row *row, cay_err *err)
{
    if (!row->id || !cay__id_valid(row->id, 'c') || row->state == CAY_STATE_NONE ||
        row->state >= CAY_GONE)
        return cay_fail(err, CAY_EINVAL, "a record needs a sandbox id and a state that is kept");
    return cay__db_write(self, CAY__TX_DURABLE, insert_row, (void *)row, err);
}

typedef struct move {
    const char *id, *reason, *box;
    unsigned from;
    cay_state to;
} move;

static cay_state as_state(const char *text)
{
    cay_state s = cay_state_parse(text);
    if (s == CAY_STATE_NONE || s >= CAY_GONE)
        return CAY_DAMAGED;
    return s;
}

static int state_of(cay__db *db, const char *id, cay_state *out, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, CAY__Q_STATE, "read the record", &st, err, id);
    if (rc <= 0)
        return CAY_OR(rc, no_row(id, err));
    *out = as_state(cay__db_column(st, 0));
    return 0;
}

static int move_row(cay__db *db, void *arg, cay_err *err)
{
    const move *m = arg;
    cay_state now = CAY_STATE_NONE;
    CAY_TRY(state_of(db, m->id, &now, err));
    if (!(m->from & CAY__BIT(now)))
        return cay_fail_why(err, CAY_ESTATE, "state_changed",
                            "sandbox %s is %s and cannot become %s", m->id, cay_state_name(now),
                            cay_state_name(m->to));
    if (m->to == CAY_STOPPED && m->reason && !strcmp(m->reason, "starting"))
        CAY_TRY(cay__quota_check_start(db, m->id, err));
    return cay__db_exec(db, CAY__Q_MOVE, "record the change", err, m->id, cay_state_name(m->to),
                        m->reason, CAY__DB_OPTIONAL(m->box), /* NULL leaves it */
                        cay__clock_ms());
}

static int s_move(void *self, const char *id, unsigned from, cay_state to, const char *reason,
                  const char *box, cay_err *err)
{
    move m = { id, reason, box, from, to };
    bool final = to == CAY_STOPPED || to == CAY_DELETING;
    if (to == CAY_STATE_NONE || to >= CAY_GONE)
        return cay_fail(err, CAY_EINVAL, "state %s is never recorded", cay_state_name(to));
    return cay__db_write(self, final ? CAY__TX_DURABLE | CAY__TX_FREES : 0, move_row, &m, err);
}

/* NULL where there is nothing to say */
static int s_rename(void *self, const char *id, const char *name, const char *labels,
                    const char *metadata, cay_err *err)
{
    int changed = cay__db_apply(self, CAY__TX_DURABLE, CAY__Q_RENAME, "record the change", err, id,
                                CAY__DB_OPTIONAL(name), CAY__DB_OPTIONAL(labels),
                                CAY__DB_OPTIONAL(metadata), cay__clock_ms());
    if (changed == 0)
        return no_row(id, err);
    return CAY_MIN(changed, 0);
}

static int s_respec(void *self, const char *id, int64_t version, const char *spec, cay_err *err)
{
    cay_state now;
    int changed = cay__db_apply(self, CAY__TX_DURABLE, CAY__Q_RESPEC, "record the change", err, id,
                                version, spec, cay__clock_ms());
    if (changed)
        return CAY_MIN(changed, 0);
    CAY_AUTOLOCKED *db = cay__db_lock(self);
    CAY_TRY(state_of(db, id, &now, err));
    return cay_fail_why(err, CAY_ESTATE, "state_changed", "sandbox %s was changed meanwhile", id);
}

static int remove_row(cay__db *db, void *arg, cay_err *err)
{
    const char *id = arg;
    CAY_TRY(cay__layers_free_of(db, id, err));
    CAY_TRY(cay__db_exec(db, CAY__Q_KEYS_OF_BOX, "remove the keys of the sandbox", err, id));
    CAY_TRY(cay__db_exec(db, CAY__Q_REMOVE, "remove the record", err, id));
    if (cay__db_changed(db))
        return 0;
    return no_row(id, err);
}

static int s_remove(void *self, const char *id, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE | CAY__TX_FREES, remove_row, (void *)id, err);
}

static void *take_row(sqlite3_stmt *st)
{
    cay__cols c;
    cay__db_texts(st, c.text, c.len, CAY_LEN(c.text));
    c.created_ms = sqlite3_column_int64(st, 10);
    c.changed_ms = sqlite3_column_int64(st, 11);
    c.version = sqlite3_column_int64(st, 12);
    return cay__row_new(&c);
}

static int s_get(void *self, const char *id, cay_row_fn *fn, void *arg, cay_err *err)
{
    CAY_AUTOROWS all = { 0 };
    CAY_TRY(cay__db_list(self, CAY__Q_GET, "read the record", take_row, &all, err, id));
    if (!all.n)
        return no_row(id, err);
    return cay__db_tell(all, fn, arg);
}

static int list_rows(cay__db *self, const cay_filter *f, cay__db_rows *out, cay_err *err)
{
    int64_t seq;
    int rc = cay__db_behind(self, CAY__Q_SEQ, f->after, "read the records", &seq, err);
    if (rc <= 0)
        return CAY_OR(rc, no_row(f->after, err));
    CAY_AUTOLOCKED *db = cay__db_lock(self);
    CAY_AUTOSTMT *st = NULL;
    rc = cay__db_first(db, CAY__Q_LIST, "read the records", &st, err, seq,
                       CAY__DB_OPTIONAL(f->provider), CAY__DB_OPTIONAL(f->tenant));
    for (; rc == 1; rc = cay__db_step(db, st, "read the records", err)) {
        cay__row *row = take_row(st);
        if (!cay__row_matches(&row->row, f)) {
            free(row);
            continue;
        }
        cay__db_rows_add(out, row);
        if (f->limit && out->n == f->limit)
            return 0;
    }
    return rc;
}

static int s_list(void *self, const cay_filter *filter, cay_row_fn *fn, void *arg, cay_err *err)
{
    CAY_AUTOROWS all = { 0 };
    CAY_TRY(list_rows(self, CAY_OR(filter, &(cay_filter){ 0 }), &all, err));
    return cay__db_tell(all, fn, arg);
}

static int s_version(void *self, uint64_t out[2], cay_err *err)
{
    CAY_AUTOLOCKED *db = cay__db_lock(self);
    CAY_AUTOSTMT *st = NULL;
    CAY_TRY(cay__db_first(db, CAY__Q_VERSION, "read the store", &st, err));
    out[0] = (uint64_t)sqlite3_column_int64(st, 0); /* what others committed */
    out[1] = (uint64_t)sqlite3_total_changes64(
        db->sql); /* and we: nobody is in a transaction while the lock is ours */
    return 0;
}

static int s_resolve(void *self, const char *prefix, cay__db_ids *ids, size_t max, size_t *n,
                     cay_err *err)
{
    if (!*prefix)
        return cay_fail(err, CAY_EINVAL,
                        "the name of the sandbox is empty; give an id, its beginning, or a name");
    return cay__db_resolve(self, CAY__Q_RESOLVE, NULL, prefix, "look up the sandbox", ids, max, n,
                           err);
}

static int s_note_put(void *self, const char *space, const char *key, const char *value,
                      cay_err *err)
{
    if (value)
        CAY_TRY(cay__db_apply(self, 0, CAY__Q_NOTE_PUT, "keep the note", err, space, key, value));
    else
        CAY_TRY(
            cay__db_apply(self, CAY__TX_FREES, CAY__Q_NOTE_DROP, "keep the note", err, space, key));
    return 0;
}

static void *copy_value(sqlite3_stmt *st)
{
    return cay__strdup(cay__db_column(st, 0));
}

static int s_note_get(void *self, const char *space, const char *key,
                      int (*fn)(const char *, void *), void *arg, cay_err *err)
{
    CAY_AUTOROWS all = { 0 };
    CAY_TRY(
        cay__db_list(self, CAY__Q_NOTE_GET, "read the note", copy_value, &all, err, space, key));
    if (!all.n)
        return cay_fail_why(err, CAY_ENOENT, "note_not_found", "no note %s/%s", space, key);
    return cay__db_tell(all, fn, arg);
}

static void *copy_note(sqlite3_stmt *st)
{
    const char *text[2];
    cay_pair *p = cay__db_copy(st, sizeof *p, 0, text, CAY_LEN(text));
    *p = (cay_pair){ text[0], text[1] };
    return p;
}

static int s_note_list(void *self, const char *space, const char *prefix,
                       int (*fn)(const char *, const char *, void *), void *arg, cay_err *err)
{
    CAY_AUTOROWS all = { 0 };
    int rc =
        cay__db_list(self, CAY__Q_NOTE_LIST, "read the notes", copy_note, &all, err, space, prefix);
    for (size_t i = 0; rc == 0 && i < all.n; i++) {
        const cay_pair *p = all.at[i];
        rc = fn(p->key, p->value, arg);
    }
    return rc;
}

#define STORE_OP(op) .op = cay__s_##op,
const cay_store_ops cay__store_sqlite = {
    CAY__STORE_OPS(STORE_OP).size = sizeof cay__store_sqlite,
    .name = "sqlite",
    .open = s_open,
    .close = s_close,
    .instance = s_instance,
    .insert = s_insert,
    .move = s_move,
    .remove = s_remove,
    .get = s_get,
    .list = s_list,
    .version = s_version,
    .resolve = s_resolve,
    .note_put = s_note_put,
    .note_get = s_note_get,
    .note_list = s_note_list,
    .respec = s_respec,
    .rename = s_rename,
};
