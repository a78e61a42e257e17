/* SPDX-License-Identifier: Apache-2.0 */
/* The store of one machine: store.db in the state directory. sys/store.h tells what each call
 * promises. */
#include "db.h"
#include <lib/client/lifecycle.h>
#include "row.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/path.h>
#include <base/str.h>

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
    const char *texts[] = { r->id,      r->name, r->provider, cay_state_name(r->state),
                            r->reason,  r->spec, r->box,      CAY_OR(r->labels, "{}"),
                            r->metadata };
    const char *tenant = cay__text_or(r->tenant, CAY_TENANT_DEFAULT);
    const int64_t uses[] = { cay__quota_amount(r->cpu_milli), cay__quota_amount(r->memory),
                             cay__quota_amount(r->disk) };
    int64_t now = cay__clock_ms();
    if (*tenant != '.') /* nobody's: it is counted when somebody takes it */
        CAY_TRY(cay__quota_check(db, tenant, uses, true, err));
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_INSERT, err);
    if (!st)
        return err->code;
    for (size_t i = 0; i < CAY_LEN(texts); i++)
        cay__db_text(st, (int)i + 1, texts[i]);
    sqlite3_bind_int64(st, 10, CAY_OR(r->created_ms, now));
    sqlite3_bind_int64(st, 11, CAY_OR(r->changed_ms, now));
    cay__db_text(st, 12, tenant);
    cay__db_text(st, 13, r->once);
    for (int i = 0; i < (int)CAY_LEN(uses); i++)
        sqlite3_bind_int64(st, 14 + i, uses[i]);
    int rc = cay__db_step(db, st, "record the sandbox", err);
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
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_STATE, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, id);
    int rc = cay__db_step(db, st, "read the record", err);
    if (rc == 0)
        return no_row(id, err);
    if (rc < 0)
        return rc;
    *out = as_state((const char *)sqlite3_column_text(st, 0));
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
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_MOVE, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, m->id);
    cay__db_text(st, 2, cay_state_name(m->to));
    cay__db_text(st, 3, m->reason);
    if (m->box) /* unbound is NULL: leaves it */
        cay__db_text(st, 4, m->box);
    sqlite3_bind_int64(st, 5, cay__clock_ms());
    return cay__db_step(db, st, "record the change", err);
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

typedef struct respec {
    const char *id, *spec;
    int64_t version;
} respec;

static int update_spec(cay__db *db, void *arg, cay_err *err)
{
    const respec *r = arg;
    cay_state now = CAY_STATE_NONE;
    CAY_TRY(state_of(db, r->id, &now, err));
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_RESPEC, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, r->id);
    sqlite3_bind_int64(st, 2, r->version);
    cay__db_text(st, 3, r->spec);
    sqlite3_bind_int64(st, 4, cay__clock_ms());
    CAY_TRY(cay__db_step(db, st, "record the change", err));
    if (sqlite3_changes(db->sql))
        return 0;
    return cay_fail_why(err, CAY_ESTATE, "state_changed", "sandbox %s was changed meanwhile",
                        r->id);
}

typedef struct words {
    const char *id, *name, *labels, *metadata;
} words;

static int rename_row(cay__db *db, void *arg, cay_err *err)
{
    const words *w = arg;
    cay_state now = CAY_STATE_NONE;
    CAY_TRY(state_of(db, w->id, &now, err));
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_RENAME, err);
    if (!st)
        return err->code;
    const char *text[] = { w->id, w->name, w->labels, w->metadata };
    for (int i = 0; i < 4; i++) /* NULL where there is nothing to say */
        sqlite3_bind_text(st, i + 1, text[i], -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 5, cay__clock_ms());
    return cay__db_step(db, st, "record the change", err);
}

static int s_rename(void *self, const char *id, const char *name, const char *labels,
                    const char *metadata, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, rename_row, &(words){ id, name, labels, metadata },
                         err);
}

static int s_respec(void *self, const char *id, int64_t version, const char *spec, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, update_spec, &(respec){ id, spec, version }, err);
}

static int drop_keys(cay__db *db, const char *id, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_KEYS_OF_BOX, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, id);
    return cay__db_step(db, st, "remove the keys of the sandbox", err);
}

static int remove_row(cay__db *db, void *arg, cay_err *err)
{
    CAY_TRY(cay__layers_free_of(db, arg, err));
    CAY_TRY(drop_keys(db, arg, err));
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_REMOVE, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, arg);
    CAY_TRY(cay__db_step(db, st, "remove the record", err));
    if (sqlite3_changes(db->sql))
        return 0;
    return no_row(arg, err);
}

static int s_remove(void *self, const char *id, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE | CAY__TX_FREES, remove_row, (void *)id, err);
}

static cay__row *take_row(sqlite3_stmt *st)
{
    cay__cols c;
    for (int i = 0; i < (int)CAY_LEN(c.text); i++) {
        c.text[i] = (const char *)sqlite3_column_text(st, i);
        if (c.text[i])
            c.len[i] = (size_t)sqlite3_column_bytes(st, i);
        else
            c.len[i] = 0;
    }
    c.created_ms = sqlite3_column_int64(st, 10);
    c.changed_ms = sqlite3_column_int64(st, 11);
    c.version = sqlite3_column_int64(st, 12);
    return cay__row_new(&c);
}

static int get_locked(cay__db *db, const char *id, cay__row **out, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_GET, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, id);
    int rc = cay__db_step(db, st, "read the record", err);
    if (rc == 1)
        *out = take_row(st);
    if (rc == 0)
        return no_row(id, err);
    if (rc < 0)
        return rc;
    return 0;
}

static int s_get(void *self, const char *id, int (*fn)(const cay_row *, void *), void *arg,
                 cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    CAY_AUTOFREE cay__row *row = NULL;
    pthread_mutex_lock(&db->lock);
    int rc = get_locked(db, id, &row, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    if (rc < 0)
        return rc;
    return fn(&row->row, arg);
}

static int list_locked(cay__db *db, const cay_filter *f, cay__db_rows *out, cay_err *err)
{
    int64_t seq = INT64_MIN;
    int rc;
    if (f && f->after &&
        (rc = cay__db_seq(db, CAY__Q_SEQ, f->after, "read the records", &seq, err)) <= 0) {
        if (rc < 0)
            return rc;
        return no_row(f->after, err);
    }
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_LIST, err);
    if (!st)
        return err->code;
    sqlite3_bind_int64(st, 1, seq);
    if (f && f->provider)
        cay__db_text(st, 2, f->provider);
    if (f && f->tenant)
        cay__db_text(st, 3, f->tenant);
    while ((rc = cay__db_step(db, st, "read the records", err)) == 1) {
        cay__row *row = take_row(st);
        if (!cay__row_matches(&row->row, f)) {
            free(row);
            continue;
        }
        cay__db_rows_add(out, row);
        if (f && f->limit && out->n == f->limit)
            return 0;
    }
    return rc;
}

static int s_list(void *self, const cay_filter *filter, int (*fn)(const cay_row *, void *),
                  void *arg, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    CAY_AUTOROWS all = { 0 };
    pthread_mutex_lock(&db->lock);
    int rc = list_locked(db, filter, &all, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    for (size_t i = 0; rc == 0 && i < all.n; i++)
        rc = fn(&((cay__row *)all.at[i])->row, arg);
    return rc;
}

static int version_locked(cay__db *db, uint64_t out[2], cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_VERSION, err);
    if (!st)
        return err->code;
    int rc = cay__db_step(db, st, "read the store", err);
    if (rc < 0)
        return rc;
    out[0] = (uint64_t)sqlite3_column_int64(st, 0); /* what others committed */
    out[1] = (uint64_t)sqlite3_total_changes64(
        db->sql); /* and we: nobody is in a transaction while the lock is ours */
    return 0;
}

static int s_version(void *self, uint64_t out[2], cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    pthread_mutex_lock(&db->lock);
    int rc = version_locked(db, out, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    return rc;
}

static int s_resolve(void *self, const char *prefix, char (*ids)[CAY_ID_LEN + 1], size_t max,
                     size_t *n, cay_err *err)
{
    if (!*prefix)
        return cay_fail(err, CAY_EINVAL,
                        "the name of the sandbox is empty; give an id, its beginning, or a name");
    return cay__db_resolve(self, CAY__Q_RESOLVE, NULL, prefix, "look up the sandbox", ids, max, n,
                           err);
}

typedef struct note {
    const char *space, *key, *value;
} note;

static int write_note(cay__db *db, void *arg, cay_err *err)
{
    const note *n = arg;
    CAY_AUTOSTMT *st = cay__db_query(db, n->value ? CAY__Q_NOTE_PUT : CAY__Q_NOTE_DROP, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, n->space);
    cay__db_text(st, 2, n->key);
    if (n->value)
        cay__db_text(st, 3, n->value);
    return cay__db_step(db, st, "keep the note", err);
}

static int s_note_put(void *self, const char *space, const char *key, const char *value,
                      cay_err *err)
{
    note n = { space, key, value };
    return cay__db_write(self, value ? 0 : CAY__TX_FREES, write_note, &n, err);
}

static int note_locked(cay__db *db, const note *n, char **out, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_NOTE_GET, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, n->space);
    cay__db_text(st, 2, n->key);
    int rc = cay__db_step(db, st, "read the note", err);
    if (rc == 0)
        return cay_fail_why(err, CAY_ENOENT, "note_not_found", "no note %s/%s", n->space, n->key);
    if (rc < 0)
        return rc;
    *out = cay__strdup((const char *)sqlite3_column_text(st, 0));
    return 0;
}

static int s_note_get(void *self, const char *space, const char *key,
                      int (*fn)(const char *, void *), void *arg, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    CAY_AUTOFREE char *value = NULL;
    pthread_mutex_lock(&db->lock);
    int rc = note_locked(db, &(note){ space, key, NULL }, &value, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    if (rc < 0)
        return rc;
    return fn(value, arg);
}

typedef struct pair {
    char *key, *value;
} pair;
typedef struct pairs {
    pair *at;
    size_t n;
} pairs;

static void pairs_free(pairs *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->at[i].key);
        free(p->at[i].value);
    }
    free(p->at);
}

static int notes_locked(cay__db *db, const char *space, const char *prefix, pairs *out,
                        cay_err *err)
{
    int rc;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_NOTE_LIST, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, space);
    cay__db_text(st, 2, prefix);
    while ((rc = cay__db_step(db, st, "read the notes", err)) == 1) {
        out->at = realloc(out->at, (out->n + 1) * sizeof *out->at);
        if (!out->at)
            abort();
        out->at[out->n].key = cay__strdup((const char *)sqlite3_column_text(st, 0));
        out->at[out->n++].value = cay__strdup((const char *)sqlite3_column_text(st, 1));
    }
    return rc;
}

static int s_note_list(void *self, const char *space, const char *prefix,
                       int (*fn)(const char *, const char *, void *), void *arg, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    __attribute__((cleanup(pairs_free))) pairs all = { 0 };
    pthread_mutex_lock(&db->lock);
    int rc = notes_locked(db, space, CAY_OR(prefix, ""), &all, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    for (size_t i = 0; rc == 0 && i < all.n; i++)
        rc = fn(all.at[i].key, all.at[i].value, arg);
    return rc;
}

const cay_store_ops cay__store_sqlite = {
    .size = sizeof cay__store_sqlite,
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
    .snap_insert = cay__s_snap_insert,
    .snap_ready = cay__s_snap_ready,
    .snap_settled = cay__s_snap_settled,
    .snap_label = cay__s_snap_label,
    .snap_remove = cay__s_snap_remove,
    .snap_list = cay__s_snap_list,
    .snap_get = cay__s_snap_get,
    .snap_last = cay__s_snap_last,
    .sync = cay__s_sync,
    .snap_resolve = cay__s_snap_resolve,
    .restack = cay__s_restack,
    .layer_used = cay__s_layer_used,
    .layers_merge = cay__s_layers_merge,
    .layer_job_put = cay__s_job_put,
    .layer_job_drop = cay__s_job_drop,
    .layer_job_list = cay__s_job_list,
    .unsettled = cay__s_unsettled,
    .tenant_put = cay__s_tenant_put,
    .tenant_drop = cay__s_tenant_drop,
    .tenant_list = cay__s_tenant_list,
    .key_put = cay__s_key_put,
    .key_get = cay__s_key_get,
    .key_list = cay__s_key_list,
    .key_revoke = cay__s_key_revoke,
    .key_used = cay__s_key_used,
    .once_find = cay__s_once_find,
    .template_insert = cay__s_template_insert,
    .template_remove = cay__s_template_remove,
    .template_name = cay__s_template_name,
    .template_share = cay__s_template_share,
    .template_list = cay__s_template_list,
    .template_resolve = cay__s_template_resolve,
    .idempotency_begin = cay__s_idempotency_begin,
    .idempotency_end = cay__s_idempotency_end,
    .key_sweep = cay__s_key_sweep,
    .idempotency_sweep = cay__s_idempotency_sweep,
    .job_put = cay__s_task_put,
    .job_claim = cay__s_task_claim,
    .job_claim_fair = cay__s_task_claim_fair,
    .job_end = cay__s_task_end,
    .job_cancel = cay__s_task_cancel,
    .job_replay = cay__s_task_replay,
    .job_sweep = cay__s_task_sweep,
    .job_list = cay__s_task_list,
    .pool_take = cay__s_warm_take,
    .warm_drop = cay__s_warm_drop,
};
