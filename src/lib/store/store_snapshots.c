/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, the layers they stand on, and jobs, in store.db. sys/store.h tells what each call
 * promises. */
#include "db.h"
#include <lib/snapshot/snapshot_row.h>

static int no_snapshot(const char *id, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "snapshot_not_found",
                        "there is no snapshot %.64s; cay snapshots shows those there are", id);
}

static int in_use(const char *label, cay_err *err)
{
    return cay_fail_why(err, CAY_EEXIST, "label_in_use",
                        "another snapshot has the label %s; choose one, or `cay snapshot rm %s`",
                        label, label);
}

/* Jobs for those of `layers` that nobody names, sandbox `but` not counted. Their detail is who has
 * to remove them. */
static int free_layers(cay__db *db, const char *layers, const char *but, const char *provider,
                       cay_err *err)
{
    return cay__db_exec(db, CAY__Q_LAYERS_FREE, "release layers", err, layers, but, cay__clock_ms(),
                        provider);
}

int cay__layers_free(cay__db *db, const char *layers, const char *provider, cay_err *err)
{
    return free_layers(db, layers, "", provider, err);
}

static int layers_of(cay__db *db, const char *sandbox, char **out, char **provider, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    CAY_TRY(
        cay__db_first(db, CAY__Q_LAYERS_OF, "read the layers of the sandbox", &st, err, sandbox));
    *out = cay__strdup(cay__db_column(st, 0)); /* NULL without a row: "" */
    *provider = cay__strdup(cay__db_column(st, 1));
    return 0;
}

int cay__layers_free_of(cay__db *db, const char *sandbox, cay_err *err)
{
    CAY_AUTOFREE char *layers = NULL, *provider = NULL;
    cay__stack stack;
    CAY_TRY(layers_of(db, sandbox, &layers, &provider, err));
    /* What is no list of layers names none that could be freed. */
    if (cay__stack_read(layers, &stack, NULL) < 0 || !stack.n)
        return 0;
    return free_layers(db, layers, sandbox, provider, err);
}

static int insert_snapshot(cay__db *db, void *arg, cay_err *err)
{
    const cay_snap_row *r = arg;
    int rc = cay__db_exec(db, CAY__Q_SNAP_INSERT, "record the snapshot", err, r->id, r->sandbox,
                          r->parent, r->label, r->provider, r->template_, r->method, r->digest,
                          r->state, r->boot, r->mark, r->metadata, r->layers, r->spec, r->tenant,
                          r->automatic, r->durable, CAY_OR(r->created_ms, cay__clock_ms()),
                          r->bytes, r->files, r->frozen_us, r->total_us);
    if (rc != CAY_EEXIST)
        return rc;
    if (strstr(sqlite3_errmsg(db->sql), "label"))
        return in_use(r->label, err);
    return cay_fail_why(err, rc, "snapshot_exists", "snapshot %s is there already", r->id);
}

int cay__s_snap_insert(void *self, const cay_snap_row *row, cay_err *err)
{
    if (!row->id || !cay__id_valid(row->id, 's'))
        return cay_fail(err, CAY_EINVAL, "a record of a snapshot needs its id");
    return cay__db_write(self, CAY__TX_DURABLE, insert_snapshot, (void *)row, err);
}

/* The sandbox stands on `layers`, on top of which is snapshot `from`. */
static int stack_box(cay__db *db, const char *id, const char *layers, const char *from,
                     cay_err *err)
{
    CAY_TRY(cay__db_exec(db, CAY__Q_SNAP_STACK, "record the layers", err, id, layers, from,
                         cay__clock_ms()));
    if (cay__db_changed(db))
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found", "no sandbox %.64s", id);
}

/* All of `old`, and more on top: then nothing of it is free, and asking who uses what takes time
 * for each snapshot that there is. */
static bool is_layer_extension(const char *layers, const char *old)
{
    size_t n = strlen(old);
    return n > 1 && old[n - 1] == ']' && !strncmp(layers, old, n - 1) &&
           (n == 2 || layers[n - 1] == ',');
}

typedef struct ready {
    const cay_snap_row *row;
    bool stacked;
} ready;

static int record_ready(cay__db *db, void *arg, cay_err *err)
{
    const ready *a = arg;
    const cay_snap_row *r = a->row;
    CAY_TRY(cay__db_exec(db, CAY__Q_SNAP_READY, "record the snapshot", err, r->id, r->method,
                         r->layers, r->bytes, r->files, r->frozen_us, r->total_us));
    if (!cay__db_changed(db))
        return no_snapshot(r->id, err);
    CAY_AUTOFREE char *old = NULL, *provider = NULL;
    CAY_TRY(layers_of(db, r->sandbox, &old, &provider, err));
    if (!a->stacked && !*old)
        return 0;
    /* Of a copy the sandbox's own stack knows nothing; but it descends from it, and undo goes back
     * to it. */
    int rc = stack_box(db, r->sandbox, a->stacked ? r->layers : old, r->id, err);
    if (rc == CAY_ENOENT)
        return 0; /* removed meanwhile; the snapshot outlives it */
    CAY_TRY(rc);
    if (!a->stacked || !*old || is_layer_extension(r->layers, old))
        return 0;
    return free_layers(db, old, "", provider, err); /* it changed over to a merged one */
}

int cay__s_snap_ready(void *self, const cay_snap_row *row, bool stacked, cay_err *err)
{
    return cay__db_write(self, 0, record_ready, &(ready){ row, stacked }, err);
}

int cay__s_snap_settled(void *self, const char *id, const char *digest, bool durable,
                        uint64_t bytes, uint64_t files, cay_err *err)
{
    CAY_TRY(cay__db_apply(self, CAY__TX_DURABLE, CAY__Q_SNAP_SETTLED, "record the digest", err, id,
                          digest, durable ? "1" : "0", bytes, files));
    return 0;
}

int cay__s_snap_label(void *self, const char *id, const char *label, cay_err *err)
{
    int changed = cay__db_apply(self, CAY__TX_DURABLE, CAY__Q_SNAP_LABEL, "record the label", err,
                                id, CAY__DB_OPTIONAL(label));
    if (changed == CAY_EEXIST)
        return in_use(label, err);
    if (changed == 0)
        return no_snapshot(id, err);
    return CAY_MIN(changed, 0);
}

static void *take_row(sqlite3_stmt *st)
{
    cay__snap_cols c;
    int64_t *const numbers[] = { &c.automatic, &c.durable,   &c.created_ms, &c.bytes,
                                 &c.files,     &c.frozen_us, &c.total_us,   &c.users };
    cay__db_texts(st, c.text, c.len, CAY_LEN(c.text));
    for (int i = 0; i < (int)CAY_LEN(numbers); i++)
        *numbers[i] = sqlite3_column_int64(st, (int)CAY_LEN(c.text) + i);
    return cay__snaprow_new(&c);
}

static int read_snapshot(cay__db *db, const char *id, cay__snaprow **out, cay_err *err)
{
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, CAY__Q_SNAP_GET, "read the snapshot", &st, err, id);
    if (rc <= 0)
        return CAY_OR(rc, no_snapshot(id, err));
    *out = take_row(st);
    return 0;
}

static int remove_snapshot(cay__db *db, void *arg, cay_err *err)
{
    const char *id = arg;
    CAY_AUTOFREE cay__snaprow *row = NULL;
    char own[CAY_ID_LEN + 8];
    CAY_TRY(read_snapshot(db, id, &row, err));
    CAY_TRY(cay__db_exec(db, CAY__Q_SNAP_REMOVE, "remove the record", err, id));
    CAY_TRY(free_layers(db, row->row.layers, "", row->row.provider, err));
    CAY_JOIN(own, "[\"", id, "\"]"); /* one that was being made is not in its list */
    CAY_TRY(free_layers(db, own, "", row->row.provider, err));
    own[2] = 'o'; /* what was written above a directory of the host, if there was one */
    if (strstr(row->row.spec, "\"on\""))
        return free_layers(db, own, "", row->row.provider, err);
    return 0;
}

int cay__s_snap_remove(void *self, const char *id, cay_err *err)
{
    return cay__db_write(self, CAY__TX_FREES, remove_snapshot, (void *)id, err);
}

typedef struct restack {
    const char *id, *layers, *from;
} restack;

static int restack_box(cay__db *db, void *arg, cay_err *err)
{
    const restack *r = arg;
    CAY_AUTOFREE char *old = NULL, *provider = NULL;
    CAY_TRY(layers_of(db, r->id, &old, &provider, err));
    CAY_TRY(stack_box(db, r->id, r->layers, r->from, err));
    CAY_TRY(cay__db_exec(db, CAY__Q_LAYER_JOB_DROP, "record the layers", err, "undo", r->id));
    if (*old)
        return free_layers(db, old, "", provider, err);
    return 0;
}

int cay__s_restack(void *self, const char *id, const char *layers, const char *from, cay_err *err)
{
    return cay__db_write(self, 0, restack_box, &(restack){ id, layers, from }, err);
}

typedef struct merge {
    const char *layers, *merged, *provider, *id;
    size_t *left;
} merge;

static int merge_layers(cay__db *db, void *arg, cay_err *err)
{
    const merge *m = arg;
    char to[CAY_ID_LEN + 8];
    CAY_AUTOFREE char *from =
        cay__strdup(m->layers); /* as a beginning: without the bracket that ends it */
    if (*from)
        from[strlen(from) - 1] = 0;
    CAY_JOIN(to, "[\"", m->merged, "\"");
    if (!m->id) {
        CAY_TRY(cay__db_exec(db, CAY__Q_MERGE_SNAPS, "record the merge", err, from, to));
        CAY_TRY(cay__db_exec(db, CAY__Q_MERGE_TPLS, "record the merge", err, from, to));
    }
    CAY_TRY(cay__db_exec(db, CAY__Q_MERGE_BOXES, "record the merge", err, from, to,
                         CAY__DB_OPTIONAL(m->id)));
    CAY_AUTOSTMT *st = NULL;
    CAY_TRY(cay__db_first(db, CAY__Q_MERGE_LEFT, "record the merge", &st, err, from));
    *m->left = (size_t)sqlite3_column_int64(st, 0);
    cay__db_done(&st);
    /* Who merged, or its successor, is told by job "merge" or "merged"; as long as it is there the
     * new layer is in use. */
    return free_layers(db, m->layers, "", m->provider, err);
}

int cay__s_layers_merge(void *self, const char *layers, const char *merged, const char *provider,
                        const char *id, size_t *left, cay_err *err)
{
    size_t none;
    return cay__db_write(self, CAY__TX_DURABLE, merge_layers,
                         &(merge){ layers, merged, provider, id, CAY_OR(left, &none) }, err);
}

int cay__s_snap_get(void *self, const char *id, cay_snap_row_fn *fn, void *arg, cay_err *err)
{
    CAY_AUTOROWS all = { 0 };
    CAY_TRY(cay__db_list(self, CAY__Q_SNAP_GET, "read the snapshot", take_row, &all, err, id));
    if (!all.n)
        return no_snapshot(id, err);
    return cay__db_tell(all, fn, arg);
}

int cay__s_snap_list(void *self, const char *sandbox, const char *after, cay_snap_row_fn *fn,
                     void *arg, cay_err *err)
{
    CAY_AUTOROWS all = { 0 };
    int64_t seq;
    int rc = cay__db_behind(self, CAY__Q_SNAP_SEQ, after, "read the snapshots", &seq, err);
    if (rc <= 0)
        return CAY_OR(rc, no_snapshot(after, err));
    CAY_TRY(cay__db_list(self, CAY__Q_SNAP_LIST, "read the snapshots", take_row, &all, err, seq,
                         CAY__DB_OPTIONAL(sandbox)));
    return cay__db_tell(all, fn, arg);
}

int cay__s_snap_resolve(void *self, const char *tenant, const char *ref, cay__db_ids *ids,
                        size_t max, size_t *n, cay_err *err)
{
    return cay__db_resolve(self, CAY__Q_SNAP_RESOLVE, tenant, ref, "look up the snapshot", ids, max,
                           n, err);
}

int cay__s_snap_last(void *self, const char *sandbox, const char *layers, char *id, cay_err *err)
{
    CAY_AUTOLOCKED *db = cay__db_lock(self);
    CAY_AUTOSTMT *st = NULL;
    *id = 0;
    CAY_TRY(
        cay__db_first(db, CAY__Q_SNAP_LAST, "look up the last copy", &st, err, sandbox, layers));
    cay__str_copy(id, CAY_ID_LEN + 1, cay__text_or(cay__db_column(st, 0), ""));
    return 0;
}

/* Commits are in the log until a checkpoint, which syncs by itself. */
int cay__s_sync(void *self, cay_err *err)
{
    cay__db *db = self;
    CAY_AUTOFD fd = openat(db->dir, "store.db-wal", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 ? errno != ENOENT : fdatasync(fd) < 0)
        return cay_fail_sys(err, "write the store to the disk");
    return 0;
}

/* The one number that a query with up to two texts gives; as it is when there is no row. */
static int query_number(cay__db *self, enum cay__statement q, const char *a, const char *b,
                        int64_t *out, cay_err *err)
{
    CAY_AUTOLOCKED *db = cay__db_lock(self);
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, q, "read the store", &st, err, a, CAY__DB_OPTIONAL(b));
    if (rc == 1)
        *out = sqlite3_column_int64(st, 0);
    return CAY_MIN(rc, 0);
}

int cay__s_layer_used(void *self, const char *layer, bool *used, cay_err *err)
{
    int64_t n = 1;
    int rc = query_number(self, CAY__Q_LAYER_USED, layer, "", &n, err);
    *used = n != 0;
    return rc;
}

int cay__s_unsettled(void *self, const char *boot, unsigned *what, cay_err *err)
{
    int64_t n = 0;
    int rc = query_number(self, CAY__Q_UNSETTLED, boot, NULL, &n, err);
    *what = (unsigned)n;
    return rc;
}

int cay__s_layer_job_put(void *self, const char *kind, const char *subject, const char *detail,
                         cay_err *err)
{
    CAY_TRY(cay__db_apply(self, CAY__TX_DURABLE, CAY__Q_LAYER_JOB_PUT, "record the job", err, kind,
                          subject, detail, cay__clock_ms()));
    return 0;
}

int cay__s_layer_job_drop(void *self, const char *kind, const char *subject, cay_err *err)
{
    CAY_TRY(cay__db_apply(self, CAY__TX_FREES, CAY__Q_LAYER_JOB_DROP, "end the job", err, kind,
                          subject));
    return 0;
}

static void *copy_layer_job(sqlite3_stmt *st)
{
    const char *text[3];
    cay_layer_job *j = cay__db_copy(st, sizeof *j, 0, text, CAY_LEN(text));
    *j = (cay_layer_job){ .size = sizeof *j,
                          .kind = text[0],
                          .subject = text[1],
                          .detail = text[2],
                          .created_ms = sqlite3_column_int64(st, 3) };
    return j;
}

int cay__s_layer_job_list(void *self, const char *kind, cay_layer_job_fn *fn, void *arg,
                          cay_err *err)
{
    CAY_AUTOROWS all = { 0 };
    CAY_TRY(cay__db_list(self, CAY__Q_LAYER_JOB_LIST, "read the jobs", copy_layer_job, &all, err,
                         kind));
    return cay__db_tell(all, fn, arg);
}
