/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/store/db.h - one SQLite connection: open and upgrade, statements, transactions, the disk
 * reserve.
 *
 * store_sqlite.c builds the store on it. One mutex guards the connection; no callback of a caller
 * runs while it is held.
 */
#pragma once
#include <base/base.h>
#include <cay/sys/store.h>
#include <pthread.h>
#include <sqlite3.h>

enum cay__statement {
    CAY__Q_BEGIN,
    CAY__Q_COMMIT,
    CAY__Q_ROLLBACK,
    CAY__Q_FULL,
    CAY__Q_NORMAL,
    CAY__Q_INSTANCE,
    CAY__Q_VERSION,
    CAY__Q_INSERT,
    CAY__Q_STATE,
    CAY__Q_MOVE,
    CAY__Q_RESPEC,
    CAY__Q_RENAME,
    CAY__Q_REMOVE,
    CAY__Q_GET,
    CAY__Q_SEQ,
    CAY__Q_LIST,
    CAY__Q_RESOLVE,
    CAY__Q_POOL_FIND,
    CAY__Q_POOL_TAKE,
    CAY__Q_POOL_DROP,
    CAY__Q_NOTE_PUT,
    CAY__Q_NOTE_DROP,
    CAY__Q_NOTE_GET,
    CAY__Q_NOTE_LIST,
    CAY__Q_SNAP_INSERT,
    CAY__Q_SNAP_READY,
    CAY__Q_SNAP_STACK,
    CAY__Q_SNAP_SETTLED,
    CAY__Q_SNAP_LABEL,
    CAY__Q_SNAP_REMOVE,
    CAY__Q_SNAP_GET,
    CAY__Q_SNAP_LIST,
    CAY__Q_SNAP_SEQ,
    CAY__Q_SNAP_LAST,
    CAY__Q_SNAP_RESOLVE,
    CAY__Q_LAYERS_FREE,
    CAY__Q_LAYERS_OF,
    CAY__Q_LAYER_USED,
    CAY__Q_MERGE_SNAPS,
    CAY__Q_MERGE_BOXES,
    CAY__Q_MERGE_LEFT,
    CAY__Q_LAYER_JOB_PUT,
    CAY__Q_LAYER_JOB_DROP,
    CAY__Q_LAYER_JOB_LIST,
    CAY__Q_UNSETTLED,
    CAY__Q_TPL_INSERT,
    CAY__Q_TPL_REMOVE,
    CAY__Q_TPL_SHARE,
    CAY__Q_TPL_LAYERS,
    CAY__Q_TPL_LIST,
    CAY__Q_TPL_SEQ,
    CAY__Q_TPL_RESOLVE,
    CAY__Q_TPL_NAME,
    CAY__Q_TPL_NAMES,
    CAY__Q_TPL_UNNAME,
    CAY__Q_TPL_UNNAME_ALL,
    CAY__Q_MERGE_TPLS,
    CAY__Q_TENANT_PUT,
    CAY__Q_TENANT_SET,
    CAY__Q_TENANT_DROP,
    CAY__Q_TENANT_BUSY,
    CAY__Q_TENANT_LIST,
    CAY__Q_TENANT_GET,
    CAY__Q_TENANT_USES,
    CAY__Q_TENANT_LAYERS,
    CAY__Q_TENANT_SPEND,
    CAY__Q_KEYS_DROP,
    CAY__Q_KEYS_OF_BOX,
    CAY__Q_KEY_PUT,
    CAY__Q_KEY_GET,
    CAY__Q_KEY_LIST,
    CAY__Q_KEY_REVOKE,
    CAY__Q_KEY_USED,
    CAY__Q_KEY_SWEEP,
    CAY__Q_ONCE_FIND,
    CAY__Q_BOX_USES,
    CAY__Q_ANSWER_PUT,
    CAY__Q_ANSWER_GET,
    CAY__Q_ANSWER_TAKE,
    CAY__Q_ANSWER_END,
    CAY__Q_ANSWER_DROP,
    CAY__Q_ANSWER_SWEEP,
    CAY__Q_JOB_PUT,
    CAY__Q_JOB_SAME,
    CAY__Q_JOB_REPLACE,
    CAY__Q_JOB_DUE,
    CAY__Q_JOB_TURN,
    CAY__Q_JOB_WAITING,
    CAY__Q_JOB_NEXT,
    CAY__Q_JOB_BURY,
    CAY__Q_JOB_TAKE,
    CAY__Q_JOB_END,
    CAY__Q_JOB_CANCEL,
    CAY__Q_JOB_STATE,
    CAY__Q_JOB_REPLAY,
    CAY__Q_JOB_SWEEP,
    CAY__Q_JOB_LIST,
    CAY__Q_COUNT,
};

typedef struct cay__db {
    pthread_mutex_t lock;
    sqlite3 *sql;
    sqlite3_stmt *stmt[CAY__Q_COUNT];
    int dir;  /* the state directory */
    int full; /* synchronous=FULL is set: 1, 0, or -1 for not known */
    char instance[CAY_ID_LEN + 1];
} cay__db;

#define CAY__SCHEMA 6 /* what this library writes; kept in user_version */

/* dir is taken over. */
int cay__db_open(const char *where, int dir, cay__db **out, cay_err *err);
void cay__db_close(cay__db *db);
/* CAY_EBUSY, "home_busy": others have it open. Until cay__db_shared() it keeps no log beside it. */
int cay__db_alone(cay__db *db, cay_err *err);
void cay__db_shared(cay__db *db);

/* The statement, prepared once, without bindings. Give back with cay__db_done(). */
int cay__db_query(cay__db *db, enum cay__statement q, sqlite3_stmt **out, cay_err *err);
void cay__db_done(sqlite3_stmt **st);
#define CAY_AUTOSTMT __attribute__((cleanup(cay__db_done))) sqlite3_stmt
/* Steps it once: 1 a row, 0 done, else an error. */
int cay__db_step(cay__db *db, sqlite3_stmt *st, const char *what, cay_err *err);
/* What the last call on the connection failed with. */
int cay__db_fail(cay__db *db, const char *what, cay_err *err);

enum {
    CAY__TX_DURABLE = 1, /* on the platter when it returns */
    CAY__TX_FREES =
        2, /* helps to end or remove something: may use up the reserve when the disk is full */
};
/* Runs fn in one transaction, under the lock. It is committed when fn returns 0 and rolled back
 * otherwise. */
int cay__db_write(cay__db *db, unsigned how, int (*fn)(cay__db *db, void *arg, cay_err *err),
                  void *arg, cay_err *err);

/* db_rows.c: a statement with a row of values, which are bound to its parameters in order and live
 * until it is done. */
typedef struct cay__db_value {
    const char *text; /* NULL: the parameter stays NULL */
    const void *blob; /* of `number` bytes; or NULL */
    int64_t number;
    bool is_number;
} cay__db_value;
#define CAY__DB_OPTIONAL(s) ((cay__db_value){ .text = (s) })
static inline cay__db_value cay__db_text(const char *s)
{
    return (cay__db_value){ .text = CAY_OR(s, "") };
}
static inline cay__db_value cay__db_number(int64_t v)
{
    return (cay__db_value){ .number = v, .is_number = true };
}
static inline cay__db_value cay__db_itself(cay__db_value v)
{
    return v;
}
/* clang-format off */
/* x as a value: a text, of which NULL is "", a number, or a value as it is. */
#define CAY__DB_VALUE(x)                                                                           \
    _Generic((x), char *: cay__db_text, const char *: cay__db_text, cay__db_value: cay__db_itself, \
             default: cay__db_number)(x)
/* Up to 30 arguments as values. A macro cannot call itself, but the preprocessor looks once more at
 * what each CAY__DB_SCAN_1 got, and each time CAY__DB_EACH takes one argument. */
#define CAY__DB_SCAN_1(...) __VA_ARGS__
#define CAY__DB_SCAN_5(...)                                                                        \
    CAY__DB_SCAN_1(CAY__DB_SCAN_1(CAY__DB_SCAN_1(CAY__DB_SCAN_1(CAY__DB_SCAN_1(__VA_ARGS__)))))
#define CAY__DB_SCAN(...)                                                                          \
    CAY__DB_SCAN_5(CAY__DB_SCAN_5(CAY__DB_SCAN_5(CAY__DB_SCAN_5(CAY__DB_SCAN_5(__VA_ARGS__)))))
#define CAY__DB_EACH(x, ...) CAY__DB_VALUE(x), __VA_OPT__(CAY__DB_NEXT CAY__DB_NOW (__VA_ARGS__))
#define CAY__DB_NEXT()       CAY__DB_EACH
#define CAY__DB_NOW          ()
/* clang-format on */
#define CAY__DB_ARRAY(...)                                                                         \
    (const cay__db_value[])                                                                        \
    {                                                                                              \
        __VA_OPT__(CAY__DB_SCAN(CAY__DB_EACH(__VA_ARGS__)))                                        \
    }
#define CAY__DB_VALUES(...)                                                                        \
    CAY__DB_ARRAY(__VA_ARGS__), sizeof(CAY__DB_ARRAY(__VA_ARGS__)) / sizeof(cay__db_value)
/* Binds and steps once: 1 a row, which *st (a CAY_AUTOSTMT) has, 0 none, else an error. */
#define cay__db_first(db, q, what, st, err, ...)                                                   \
    cay__db_first_row(db, q, what, st, err, CAY__DB_VALUES(__VA_ARGS__))
int cay__db_first_row(cay__db *db, enum cay__statement q, const char *what, sqlite3_stmt **st,
                      cay_err *err, const cay__db_value *values, size_t n);
/* The whole of a statement that gives no rows. */
#define cay__db_exec(db, q, what, err, ...)                                                        \
    cay__db_exec_values(db, q, what, err, CAY__DB_VALUES(__VA_ARGS__))
int cay__db_exec_values(cay__db *db, enum cay__statement q, const char *what, cay_err *err,
                        const cay__db_value *values, size_t n);
/* A transaction of that alone: how many rows it changed, or an error. */
#define cay__db_apply(db, how, q, what, err, ...)                                                  \
    cay__db_apply_values(db, how, q, what, err, CAY__DB_VALUES(__VA_ARGS__))
int cay__db_apply_values(cay__db *db, unsigned how, enum cay__statement q, const char *what,
                         cay_err *err, const cay__db_value *values, size_t n);
/* How many rows the last one changed. */
int cay__db_changed(cay__db *db);
const char *cay__db_column(sqlite3_stmt *st, int i);
/* The first n columns as texts with their lengths, which tell a NUL inside. */
void cay__db_texts(sqlite3_stmt *st, const char **text, size_t *len, int n);
/* A block of `size` bytes, and behind it copies of n text columns from `first` on: text[i]. */
#define CAY__DB_TEXTS_MAX 16
void *cay__db_copy(sqlite3_stmt *st, size_t size, int first, const char **text, int n);
/* The lock, until the scope ends. */
cay__db *cay__db_lock(cay__db *db);
void cay__db_unlock(cay__db **db);
#define CAY_AUTOLOCKED __attribute__((cleanup(cay__db_unlock))) cay__db
/* The place in its table's order behind which a list continues: 1, 0: there is none, or an error.
 * after: an id, ID.CREATED_MS, or NULL: from the beginning. Takes the lock. */
int cay__db_behind(cay__db *db, enum cay__statement q, const char *after, const char *what,
                   int64_t *out, cay_err *err);
/* Rows that were read under the lock, each a block to be freed, for a caller that is told without
 * it. */
typedef struct cay__db_rows {
    void **at;
    size_t n, cap;
} cay__db_rows;
void cay__db_rows_add(cay__db_rows *r, void *row);
void cay__db_rows_free(cay__db_rows *r);
/* All rows of a statement, read under the lock; copy() makes a block of each. */
#define cay__db_list(db, q, what, copy, out, err, ...)                                             \
    cay__db_list_values(db, q, what, copy, out, err, CAY__DB_VALUES(__VA_ARGS__))
int cay__db_list_values(cay__db *db, enum cay__statement q, const char *what,
                        void *(*copy)(sqlite3_stmt *), cay__db_rows *out, cay_err *err,
                        const cay__db_value *values, size_t n);
#define CAY_AUTOROWS __attribute__((cleanup(cay__db_rows_free))) cay__db_rows
/* fn(row, arg) for each, until one returns something else than 0, which is the result. */
#define cay__db_tell(rows, fn, arg)                                                                \
    ({                                                                                             \
        int rc_ = 0;                                                                               \
        for (size_t i_ = 0; rc_ == 0 && i_ < (rows).n; i_++)                                       \
            rc_ = (fn)((rows).at[i_], arg);                                                        \
        rc_;                                                                                       \
    })
/* Ids that a query finds by a reference: its parameters are that, how many at most, and, unless
 * NULL, the tenant. */
typedef char cay__db_ids[CAY_ID_LEN + 1];
int cay__db_resolve(cay__db *db, enum cay__statement q, const char *tenant, const char *ref,
                    const char *what, cay__db_ids *ids, size_t max, size_t *n, cay_err *err);

/* store_snaps.c: before its row goes, jobs "remove" for the layers of a sandbox that nobody else
 * names. In a transaction. */
int cay__layers_free_of(cay__db *db, const char *sandbox, cay_err *err);

/* Those of `layers`, a JSON list, that nobody names get jobs "remove". In a transaction. */
int cay__layers_free(cay__db *db, const char *layers, const char *provider, cay_err *err);

/* store_access.c: whoever makes or starts a sandbox asks these in the same transaction. uses: what
 * it may use, in the order cpu, memory, disk. */
int cay__quota_check(cay__db *db, const char *tenant, const int64_t uses[3], bool fresh,
                     cay_err *err);
int cay__quota_check_start(cay__db *db, const char *id, cay_err *err);
int cay__quota_templates(const char *tenant, int64_t most, int64_t need,
                         cay_err *err); /* refuses, by name */
int cay__quota_check_template(cay__db *db, const char *tenant,
                              cay_err *err); /* inside the transaction that has put it */
int64_t cay__quota_amount(
    uint64_t v); /* as a column: what is more than any host has is the same for all */

/* The operations of cay__store_sqlite that are in other files: cay__s_NAME() is its member NAME. */
/* clang-format off */
#define CAY__STORE_OPS(OP)                                                                         \
    OP(snap_insert) OP(snap_ready) OP(snap_settled) OP(snap_label) OP(snap_remove) OP(snap_list)   \
    OP(snap_get) OP(snap_last) OP(snap_resolve) OP(sync) OP(restack) OP(layer_used)                \
    OP(layers_merge) OP(layer_job_put) OP(layer_job_drop) OP(layer_job_list) OP(unsettled)         \
    OP(tenant_put) OP(tenant_drop) OP(tenant_list)                                                 \
    OP(key_put) OP(key_get) OP(key_list) OP(key_revoke) OP(key_used) OP(key_sweep) OP(once_find)   \
    OP(template_insert) OP(template_remove) OP(template_name) OP(template_share)                   \
    OP(template_list) OP(template_resolve)                                                         \
    OP(idempotency_begin) OP(idempotency_end) OP(idempotency_sweep)                                \
    OP(job_put) OP(job_claim) OP(job_claim_fair) OP(job_end) OP(job_cancel) OP(job_replay)         \
    OP(job_sweep) OP(job_list) OP(pool_take) OP(warm_drop)
/* clang-format on */
#define CAY__STORE_DECLARE(op) extern __typeof__(*((cay_store_ops *)NULL)->op) cay__s_##op;
CAY__STORE_OPS(CAY__STORE_DECLARE)

/* 8 MiB set aside so that removing still works on a full disk. */
void cay__reserve_make(int dir);
bool cay__reserve_release(int dir); /* true when it gave something back */
