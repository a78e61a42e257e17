/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, the layers they stand on, and jobs, in store.db. sys/store.h tells what each call
 * promises. */
#include "db.h"
#include <lib/snapshot/snapshot_row.h>
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>

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
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_LAYERS_FREE, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, layers);
    cay__db_text(st, 2, but);
    sqlite3_bind_int64(st, 3, cay__clock_ms());
    cay__db_text(st, 4, provider);
    return cay__db_step(db, st, "release layers", err);
}

int cay__layers_free(cay__db *db, const char *layers, const char *provider, cay_err *err)
{
    return free_layers(db, layers, "", provider, err);
}

static int layers_of(cay__db *db, const char *sandbox, char **out, char **provider, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_LAYERS_OF, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, sandbox);
    CAY_TRY(cay__db_step(db, st, "read the layers of the sandbox", err));
    *out = cay__strdup((const char *)sqlite3_column_text(st, 0)); /* NULL without a row: "" */
    *provider = cay__strdup((const char *)sqlite3_column_text(st, 1));
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
    const char *texts[] = { r->id,        r->sandbox,  r->parent, r->label, r->provider,
                            r->template_, r->method,   r->digest, r->state, r->boot,
                            r->mark,      r->metadata, r->layers, r->spec,  r->tenant };
    const int64_t numbers[] = {
        r->automatic,        r->durable,        CAY_OR(r->created_ms, cay__clock_ms()),
        (int64_t)r->bytes,   (int64_t)r->files, (int64_t)r->frozen_us,
        (int64_t)r->total_us
    };
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_SNAP_INSERT, err);
    if (!st)
        return err->code;
    for (size_t i = 0; i < CAY_LEN(texts); i++)
        cay__db_text(st, (int)i + 1, texts[i]);
    for (size_t i = 0; i < CAY_LEN(numbers); i++)
        sqlite3_bind_int64(st, (int)(i + CAY_LEN(texts)) + 1, numbers[i]);
    int rc = cay__db_step(db, st, "record the snapshot", err);
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
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_SNAP_STACK, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, id);
    cay__db_text(st, 2, layers);
    cay__db_text(st, 3, from);
    sqlite3_bind_int64(st, 4, cay__clock_ms());
    CAY_TRY(cay__db_step(db, st, "record the layers", err));
    if (sqlite3_changes(db->sql))
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
    const int64_t numbers[] = { (int64_t)r->bytes, (int64_t)r->files, (int64_t)r->frozen_us,
                                (int64_t)r->total_us };
    {
        CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_SNAP_READY, err);
        if (!st)
            return err->code;
        cay__db_text(st, 1, r->id);
        cay__db_text(st, 2, r->method);
        cay__db_text(st, 3, r->layers);
        for (size_t i = 0; i < CAY_LEN(numbers); i++)
            sqlite3_bind_int64(st, (int)i + 4, numbers[i]);
        CAY_TRY(cay__db_step(db, st, "record the snapshot", err));
    }
    if (!sqlite3_changes(db->sql))
        return no_snapshot(r->id, err);
    CAY_AUTOFREE char *old = NULL, *provider = NULL;
    CAY_TRY(layers_of(db, r->sandbox, &old, &provider, err));
    if (!a->stacked && !*old)
        return 0;
    /* Of a copy the sandbox's own stack knows nothing; but it descends from it, and undo goes back
     * to it. */
    int rc = stack_box(db, r->sandbox, a->stacked ? r->layers : old, r->id, err);
    if (rc == 0 && a->stacked && *old &&
        !is_layer_extension(r->layers, old)) /* it changed over to a merged one */
        rc = free_layers(db, old, "", provider, err);
    if (rc == CAY_ENOENT)
        return 0;
    return rc; /* removed meanwhile; the snapshot outlives it */
}

int cay__s_snap_ready(void *self, const cay_snap_row *row, bool stacked, cay_err *err)
{
    return cay__db_write(self, 0, record_ready, &(ready){ row, stacked }, err);
}

typedef struct settled {
    const char *id, *digest;
    bool durable;
    uint64_t bytes, files;
} settled;

static int record_settled(cay__db *db, void *arg, cay_err *err)
{
    const settled *s = arg;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_SNAP_SETTLED, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, s->id);
    cay__db_text(st, 2, CAY_OR(s->digest, ""));
    cay__db_text(st, 3, s->durable ? "1" : "0");
    sqlite3_bind_int64(st, 4, (int64_t)s->bytes);
    sqlite3_bind_int64(st, 5, (int64_t)s->files);
    return cay__db_step(db, st, "record the digest", err);
}

int cay__s_snap_settled(void *self, const char *id, const char *digest, bool durable,
                        uint64_t bytes, uint64_t files, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, record_settled,
                         &(settled){ id, digest, durable, bytes, files }, err);
}

static int label_snapshot(cay__db *db, void *arg, cay_err *err)
{
    const char *const *to = arg; /* id, label */
    int n = cay__db_change(db, CAY__Q_SNAP_LABEL, to[0], to[1], NULL, "record the label", err);
    if (n == CAY_EEXIST)
        return in_use(to[1], err);
    if (n < 0)
        return n;
    if (n)
        return 0;
    return no_snapshot(to[0], err);
}

int cay__s_snap_label(void *self, const char *id, const char *label, cay_err *err)
{
    return cay__db_write(self, CAY__TX_DURABLE, label_snapshot, (const char *[]){ id, label }, err);
}

static cay__snaprow *take_row(sqlite3_stmt *st)
{
    cay__snap_cols c;
    int64_t *const numbers[] = { &c.automatic, &c.durable,   &c.created_ms, &c.bytes,
                                 &c.files,     &c.frozen_us, &c.total_us,   &c.users };
    for (int i = 0; i < (int)CAY_LEN(c.text); i++) {
        c.text[i] = (const char *)sqlite3_column_text(st, i);
        if (c.text[i])
            c.len[i] = (size_t)sqlite3_column_bytes(st, i);
        else
            c.len[i] = 0;
    }
    for (int i = 0; i < (int)CAY_LEN(numbers); i++)
        *numbers[i] = sqlite3_column_int64(st, (int)CAY_LEN(c.text) + i);
    return cay__snaprow_new(&c);
}

static int get_locked(cay__db *db, const char *id, cay__snaprow **out, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_SNAP_GET, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, id);
    int rc = cay__db_step(db, st, "read the snapshot", err);
    if (rc == 1)
        *out = take_row(st);
    if (rc == 0)
        return no_snapshot(id, err);
    if (rc < 0)
        return rc;
    return 0;
}

static int remove_snapshot(cay__db *db, void *arg, cay_err *err)
{
    const char *id = arg;
    CAY_AUTOFREE cay__snaprow *row = NULL;
    char own[CAY_ID_LEN + 8];
    CAY_TRY(get_locked(db, id, &row, err));
    CAY_TRY(cay__db_change(db, CAY__Q_SNAP_REMOVE, id, NULL, NULL, "remove the record", err));
    CAY_TRY(free_layers(db, row->row.layers, "", row->row.provider, err));
    cay__str_join(own, sizeof own, "[\"", id, "\"]",
                  NULL); /* one that was being made is not in its list */
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
    CAY_TRY(
        cay__db_change(db, CAY__Q_LAYER_JOB_DROP, "undo", r->id, NULL, "record the layers", err));
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
    cay__str_join(to, sizeof to, "[\"", m->merged, "\"", NULL);
    if (!m->id) {
        CAY_TRY(cay__db_change(db, CAY__Q_MERGE_SNAPS, from, to, NULL, "record the merge", err));
        CAY_TRY(cay__db_change(db, CAY__Q_MERGE_TPLS, from, to, NULL, "record the merge", err));
    }
    CAY_TRY(cay__db_change(db, CAY__Q_MERGE_BOXES, from, to, m->id, "record the merge", err));
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_MERGE_LEFT, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, from);
    CAY_TRY(cay__db_step(db, st, "record the merge", err));
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

int cay__s_snap_get(void *self, const char *id, int (*fn)(const cay_snap_row *, void *), void *arg,
                    cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    CAY_AUTOFREE cay__snaprow *row = NULL;
    pthread_mutex_lock(&db->lock);
    int rc = get_locked(db, id, &row, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    if (rc < 0)
        return rc;
    return fn(&row->row, arg);
}

static int list_locked(cay__db *db, const char *sandbox, const char *after, cay__db_rows *out,
                       cay_err *err)
{
    int64_t seq = INT64_MIN;
    int rc;
    if (after &&
        (rc = cay__db_seq(db, CAY__Q_SNAP_SEQ, after, "read the snapshots", &seq, err)) <= 0) {
        if (rc < 0)
            return rc;
        return no_snapshot(after, err);
    }
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_SNAP_LIST, err);
    if (!st)
        return err->code;
    sqlite3_bind_int64(st, 1, seq);
    if (sandbox)
        cay__db_text(st, 2, sandbox);
    while ((rc = cay__db_step(db, st, "read the snapshots", err)) == 1)
        cay__db_rows_add(out, take_row(st));
    return rc;
}

int cay__s_snap_list(void *self, const char *sandbox, const char *after,
                     int (*fn)(const cay_snap_row *, void *), void *arg, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    CAY_AUTOROWS all = { 0 };
    pthread_mutex_lock(&db->lock);
    int rc = list_locked(db, sandbox, after, &all, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    for (size_t i = 0; rc == 0 && i < all.n; i++)
        rc = fn(&((cay__snaprow *)all.at[i])->row, arg);
    return rc;
}

int cay__s_snap_resolve(void *self, const char *tenant, const char *ref,
                        char (*ids)[CAY_ID_LEN + 1], size_t max, size_t *n, cay_err *err)
{
    return cay__db_resolve(self, CAY__Q_SNAP_RESOLVE, tenant, ref, "look up the snapshot", ids, max,
                           n, err);
}

static int last_locked(cay__db *db, const char *sandbox, const char *layers, char *id, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_SNAP_LAST, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, sandbox);
    cay__db_text(st, 2, layers);
    int rc = cay__db_step(db, st, "look up the last copy", err);
    cay__str_copy(id, CAY_ID_LEN + 1, rc == 1 ? (const char *)sqlite3_column_text(st, 0) : "");
    if (rc < 0)
        return rc;
    return 0;
}

int cay__s_snap_last(void *self, const char *sandbox, const char *layers, char *id, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    pthread_mutex_lock(&db->lock);
    int rc = last_locked(db, sandbox, layers, id, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    return rc;
}

/* Commits are in the log until a checkpoint, which syncs by itself. */
int cay__s_sync(void *self, cay_err *err)
{
    cay__db *db = self;
    CAY_AUTOFD fd = openat(db->dir, "store.db-wal", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 ? errno != ENOENT : fdatasync(fd) < 0)
        return cay_fail_sys(err, CAY_ESYS, "write the store to the disk");
    return 0;
}

/* The one number that a query with up to two texts gives. */
static int query_number(cay__db *db, enum cay__statement q, const char *a, const char *b,
                        int64_t *out, cay_err *err)
{
    CAY_AUTOSTMT *st = cay__db_query(db, q, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, a);
    if (b)
        cay__db_text(st, 2, b);
    int rc = cay__db_step(db, st, "read the store", err);
    if (rc == 1)
        *out = sqlite3_column_int64(st, 0);
    if (rc < 0)
        return rc;
    return 0;
}

int cay__s_layer_used(void *self, const char *layer, bool *used, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    int64_t n = 1;
    pthread_mutex_lock(&db->lock);
    int rc = query_number(db, CAY__Q_LAYER_USED, layer, "", &n, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    *used = n != 0;
    return rc;
}

int cay__s_unsettled(void *self, const char *boot, unsigned *what, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    int64_t n = 0;
    pthread_mutex_lock(&db->lock);
    int rc = query_number(db, CAY__Q_UNSETTLED, boot, NULL, &n, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    *what = (unsigned)n;
    return rc;
}

static int insert_layer_job(cay__db *db, void *arg, cay_err *err)
{
    const cay_layer_job *j = arg;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_LAYER_JOB_PUT, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, j->kind);
    cay__db_text(st, 2, j->subject);
    cay__db_text(st, 3, j->detail);
    sqlite3_bind_int64(st, 4, cay__clock_ms());
    return cay__db_step(db, st, "record the job", err);
}

int cay__s_job_put(void *self, const char *kind, const char *subject, const char *detail,
                   cay_err *err)
{
    cay_layer_job j = { .size = sizeof j, .kind = kind, .subject = subject, .detail = detail };
    return cay__db_write(self, CAY__TX_DURABLE, insert_layer_job, &j, err);
}

static int drop_layer_job(cay__db *db, void *arg, cay_err *err)
{
    const cay_layer_job *j = arg;
    int n =
        cay__db_change(db, CAY__Q_LAYER_JOB_DROP, j->kind, j->subject, NULL, "end the job", err);
    if (n < 0)
        return n;
    return 0;
}

int cay__s_job_drop(void *self, const char *kind, const char *subject, cay_err *err)
{
    cay_layer_job j = { .size = sizeof j, .kind = kind, .subject = subject };
    return cay__db_write(self, CAY__TX_FREES, drop_layer_job, &j, err);
}

typedef struct jobs {
    char *text[3];
    int64_t created_ms;
} jobs;
typedef struct job_rows {
    jobs *at;
    size_t n;
} job_rows;

static void job_rows_free(job_rows *r)
{
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < CAY_LEN(r->at[i].text); k++)
            free(r->at[i].text[k]);
    free(r->at);
}

static int jobs_locked(cay__db *db, const char *kind, job_rows *out, cay_err *err)
{
    int rc;
    CAY_AUTOSTMT *st = cay__db_query(db, CAY__Q_LAYER_JOB_LIST, err);
    if (!st)
        return err->code;
    cay__db_text(st, 1, kind);
    while ((rc = cay__db_step(db, st, "read the jobs", err)) == 1) {
        out->at = realloc(out->at, (out->n + 1) * sizeof *out->at);
        if (!out->at)
            abort();
        jobs *j = &out->at[out->n++];
        for (int k = 0; k < (int)CAY_LEN(j->text); k++)
            j->text[k] = cay__strdup((const char *)sqlite3_column_text(st, k));
        j->created_ms = sqlite3_column_int64(st, 3);
    }
    return rc;
}

int cay__s_job_list(void *self, const char *kind, int (*fn)(const cay_layer_job *, void *),
                    void *arg, cay_err *err)
{
    cay__db *db = self;
    cay_err own = CAY_ERR_INIT;
    __attribute__((cleanup(job_rows_free))) job_rows all = { 0 };
    pthread_mutex_lock(&db->lock);
    int rc = jobs_locked(db, kind, &all, CAY_OR(err, &own));
    pthread_mutex_unlock(&db->lock);
    for (size_t i = 0; rc == 0 && i < all.n; i++) {
        const jobs *j = &all.at[i];
        cay_layer_job job = { .size = sizeof job,
                              .kind = j->text[0],
                              .subject = j->text[1],
                              .detail = j->text[2],
                              .created_ms = j->created_ms };
        rc = fn(&job, arg);
    }
    return rc;
}
