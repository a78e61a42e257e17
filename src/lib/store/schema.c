/* SPDX-License-Identifier: Apache-2.0 */
/* Opening store.db: made when missing, upgraded when old, refused unwritten when newer. */
#include "db.h"
#include <base/fault.h>
#include <limits.h>
#include <poll.h>
#include <sys/file.h>
#include <wire/shapes.h>

#define APP_ID  0x63617931 /* "cay1" */
#define WAIT_MS 10000

/* A limit as it was asked for, in the amount that quotas count; '1<<52' is no limit
 * (cay__quota_amount). */
#define LIMIT_OF(name, normal)                                                                     \
    "CASE WHEN json_valid(spec) THEN CASE json_type(spec,'$.limits." name                          \
    "') WHEN 'integer' THEN min(json_extract(spec,'$.limits." name "'),1<<52)"                     \
    " WHEN 'text' THEN 1<<52 ELSE " normal " END ELSE " normal " END"
/* clang-format off */
#define UPDATE_LIMITS "UPDATE sandboxes SET " CAY__CPU_MILLI "=" LIMIT_OF(CAY__CPU_MILLI, "2000") \
    ", memory=" LIMIT_OF("memory", "2147483648") ", disk=" LIMIT_OF("disk", "10737418240") ";"
/* clang-format on */

/* Step n makes schema n+1 out of schema n, inside one transaction. Steps are never edited once
 * released. */
static const char *const steps[CAY__SCHEMA] = {
    "CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE sandboxes("
    " seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, provider TEXT NOT NULL,"
    " state TEXT NOT NULL, reason TEXT NOT NULL, spec TEXT NOT NULL, box TEXT NOT NULL,"
    " labels TEXT NOT NULL, metadata TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, changed_ms INTEGER NOT NULL, version INTEGER NOT NULL DEFAULT "
    "1) STRICT;"
    "CREATE INDEX sandboxes_name ON sandboxes(name) WHERE name<>'';"
    "CREATE TABLE notes(space TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
    " PRIMARY KEY(space,key)) STRICT, WITHOUT ROWID;",

    "CREATE TABLE snapshots("
    " seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, sandbox TEXT NOT NULL, parent TEXT NOT "
    "NULL,"
    " label TEXT NOT NULL, provider TEXT NOT NULL, template TEXT NOT NULL, method TEXT NOT NULL, "
    "digest TEXT NOT NULL,"
    " state TEXT NOT NULL, boot TEXT NOT NULL, mark TEXT NOT NULL, metadata TEXT NOT NULL, layers "
    "TEXT NOT NULL,"
    " spec TEXT NOT NULL, automatic INTEGER NOT NULL, durable INTEGER NOT NULL, created_ms INTEGER "
    "NOT NULL,"
    " bytes INTEGER NOT NULL, files INTEGER NOT NULL, frozen_us INTEGER NOT NULL, total_us INTEGER "
    "NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX snapshots_label ON snapshots(label) WHERE label<>'';"
    "CREATE INDEX snapshots_sandbox ON snapshots(sandbox);"
    "CREATE INDEX snapshots_later ON snapshots(boot) WHERE durable=0;"
    "CREATE INDEX snapshots_making ON snapshots(id) WHERE state='making';"
    "CREATE TABLE jobs("
    " seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, UNIQUE(kind,subject)) STRICT;",

    /* Tenants, keys, what was answered once, the queue. Sandboxes of before are the default
       tenant's and count with their limits. */
    "ALTER TABLE sandboxes ADD COLUMN tenant TEXT NOT NULL DEFAULT 'default';"
    "ALTER TABLE sandboxes ADD COLUMN once TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sandboxes ADD COLUMN " CAY__CPU_MILLI " INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN memory INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN disk INTEGER NOT NULL DEFAULT 0;" UPDATE_LIMITS
    "CREATE INDEX sandboxes_tenant ON sandboxes(tenant);"
    "CREATE UNIQUE INDEX sandboxes_once ON sandboxes(tenant,once) WHERE once<>'';"
    "ALTER TABLE snapshots ADD COLUMN tenant TEXT NOT NULL DEFAULT 'default';"
    "DROP INDEX snapshots_label;"
    "CREATE UNIQUE INDEX snapshots_label ON snapshots(tenant,label) WHERE label<>'';"
    "CREATE TABLE tenants("
    " name TEXT PRIMARY KEY NOT NULL, sandboxes INTEGER NOT NULL, " CAY__CPU_MILLI
    " INTEGER NOT NULL, "
    "memory INTEGER NOT NULL,"
    " disk INTEGER NOT NULL, creates INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
    " spent INTEGER NOT NULL DEFAULT 0, spent_ms INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;"
    "INSERT INTO tenants(name,sandboxes," CAY__CPU_MILLI ",memory,disk,creates,created_ms) "
    "VALUES('default',0,0,0,0,0,0);"
    "CREATE TABLE keys("
    " id TEXT PRIMARY KEY NOT NULL, hash TEXT NOT NULL, tenant TEXT NOT NULL, scope TEXT NOT NULL, "
    "name TEXT NOT NULL,"
    " sandbox TEXT NOT NULL, path TEXT NOT NULL, port INTEGER NOT NULL, created_ms INTEGER NOT "
    "NULL,"
    " expires_ms INTEGER NOT NULL, revoked_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX keys_sandbox ON keys(sandbox) WHERE sandbox<>'';"
    "CREATE TABLE answers("
    " tenant TEXT NOT NULL, route TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL, owner "
    "TEXT NOT NULL,"
    " status INTEGER NOT NULL, type TEXT NOT NULL, body BLOB NOT NULL, expires_ms INTEGER NOT NULL,"
    " PRIMARY KEY(tenant,route,key)) STRICT;"
    "CREATE INDEX answers_expires ON answers(expires_ms);"
    "CREATE TABLE tasks("
    " seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, subject TEXT NOT NULL, "
    "tenant TEXT NOT NULL,"
    " key TEXT NOT NULL, detail TEXT NOT NULL, state TEXT NOT NULL, due_ms INTEGER NOT NULL, "
    "attempts INTEGER NOT NULL,"
    " most INTEGER NOT NULL, backoff_ms INTEGER NOT NULL, fence INTEGER NOT NULL, owner TEXT NOT "
    "NULL, lease_ms INTEGER NOT NULL,"
    " error TEXT NOT NULL, created_ms INTEGER NOT NULL, changed_ms INTEGER NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX tasks_key ON tasks(kind,key) WHERE key<>'' AND state "
    "IN('waiting','running');"
    "CREATE INDEX tasks_due ON tasks(due_ms) WHERE state='waiting';"
    "CREATE INDEX tasks_lease ON tasks(lease_ms) WHERE state='running';"
    "CREATE INDEX tasks_subject ON tasks(subject);"
    "CREATE INDEX tasks_ended ON tasks(changed_ms) WHERE state IN('done','canceled');",

    "CREATE TABLE templates("
    " seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, base TEXT NOT NULL, "
    "source TEXT NOT NULL, digest TEXT NOT NULL,"
    " layers TEXT NOT NULL, config TEXT NOT NULL, shared INTEGER NOT NULL, bytes INTEGER NOT NULL, "
    "files INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL) STRICT;"
    "CREATE TABLE template_names(tenant TEXT NOT NULL, name TEXT NOT NULL, id TEXT NOT NULL, "
    "PRIMARY KEY(tenant,name)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX template_names_id ON template_names(id);",

    "ALTER TABLE tenants ADD COLUMN templates INTEGER NOT NULL DEFAULT 0;",

    "ALTER TABLE keys ADD COLUMN used_ms INTEGER NOT NULL DEFAULT 0;",
};

static const char on_connect[] =
    "PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=256;";

typedef enum kind { STORE_NEW, STORE_OLD, STORE_READY } kind;

static int fail_newer(long found, cay_err *err)
{
    return cay_fail_why(err, CAY_ESTATE, "store_newer",
                        "store.db has version %ld and this cay knows versions up to %d; upgrade "
                        "cay, or set CAY_HOME to another directory",
                        found, CAY__SCHEMA);
}

static uint32_t read_be32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The file's own header (sqlite.org/fileformat.html) tells what it is before SQLite may touch it.
 * Closing a descriptor of the file drops the POSIX locks that another connection of this process
 * has on it. In WAL mode only a change of the journal mode or a deletion of the log would care: the
 * first happens under store.lock, the second never (see connect_to). */
static int read_kind(int dir, kind *out, cay_err *err)
{
    unsigned char h[100];
    CAY_AUTOFD fd = openat(dir, "store.db", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno != ENOENT)
        return cay_fail_sys(err, "open store.db");
    ssize_t n = 0;
    if (fd >= 0)
        n = cay__fd_read_all(fd, h, sizeof h);
    if (n < 0)
        return cay_fail_sys(err, "read store.db");
    *out = STORE_NEW;
    if (n == 0)
        return 0;
    if (n < (ssize_t)sizeof h || memcmp(h, "SQLite format 3", 16) != 0)
        return cay_fail_why(
            err, CAY_ESYS, "store_damaged",
            "store.db is not a database; move it away, or set CAY_HOME to another directory");
    uint32_t version = read_be32(h + 60), app = read_be32(h + 68);
    if (app != APP_ID && app != 0)
        return cay_fail_why(err, CAY_ESTATE, "store_foreign",
                            "store.db was made by another program; set CAY_HOME");
    if (version > CAY__SCHEMA)
        return fail_newer(version, err);
    if (version == CAY__SCHEMA && h[18] == 2 && h[19] == 2)
        *out = STORE_READY;
    else
        *out = STORE_OLD; /* 2: WAL */
    return 0;
}

static int exec_sql(cay__db *db, const char *sql, const char *what, cay_err *err)
{
    if (sqlite3_exec(db->sql, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    return cay__db_fail(db, what, err);
}

/* SQLite gives up its write-ahead log only to the last who has the file open. */
int cay__db_alone(cay__db *db, cay_err *err)
{
    cay_err why = CAY_ERR_INIT;
    pthread_mutex_lock(&db->lock);
    int rc = exec_sql(db, "PRAGMA journal_mode=DELETE", "close the log of store.db", &why);
    pthread_mutex_unlock(&db->lock);
    if (rc == CAY_EBUSY)
        return cay_fail_why(
            err, CAY_EBUSY, "home_busy",
            "another program has the store open, perhaps `cay serve`; end it first");
    return cay__err_pass(rc, &why, err);
}

void cay__db_shared(cay__db *db)
{
    pthread_mutex_lock(&db->lock);
    exec_sql(db, "PRAGMA journal_mode=WAL", "open the log of store.db", NULL);
    pthread_mutex_unlock(&db->lock);
}

static int version_of(cay__db *db, long *out, cay_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db->sql, "PRAGMA user_version", -1, &st, NULL);
    if (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        *out = (long)sqlite3_column_int64(st, 0);
    else
        rc = SQLITE_ERROR;
    if (rc != SQLITE_OK)
        rc = cay__db_fail(db, "read the version of store.db", err);
    sqlite3_finalize(st);
    return rc;
}

/* SQLite would ask the umask; its -wal and -shm take the mode of this one. */
static int make_file(int dir, cay_err *err)
{
    CAY_AUTOFD fd = openat(dir, "store.db", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && fchmod(fd, 0600) == 0)
        return 0;
    return cay_fail_sys(err, "make store.db");
}

static int connect_to(const char *where, cay__db *db, cay_err *err)
{
    char path[PATH_MAX];
    if (!CAY_JOIN(path, where, "/store.db"))
        return cay_fail(err, CAY_EINVAL, "the path of the state directory is too long");
    int rc = sqlite3_open_v2(
        path, &db->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (rc != SQLITE_OK) {
        if (db->sql)
            return cay__db_fail(db, "open store.db", err);
        return cay_fail(err, CAY_ENOSPACE, "open store.db: out of memory");
    }
    sqlite3_busy_timeout(db->sql, WAIT_MS);
    /* A refused newer store stays as it is, and a short command does not pay for a checkpoint. */
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return 0;
}

static int upgrade_schema(cay__db *db, void *arg, cay_err *err)
{
    char sql[256], id[CAY_ID_LEN + 1];
    long v = 0;
    CAY_TRY(version_of(db, &v, err));
    if (v > CAY__SCHEMA)
        return fail_newer(v, err);
    for (; v < CAY__SCHEMA; v++) {
        CAY_TRY(exec_sql(db, steps[v], "set up store.db", err));
        CAY_FAULT("store.upgrade");
        CAY_FORMAT(sql, "INSERT INTO meta VALUES('schema_%ld','%lld');", v + 1,
                   (long long)cay__clock_ms());
        CAY_TRY(exec_sql(db, sql, "set up store.db", err));
    }
    cay__id_make(id, 'i');
    CAY_FORMAT(sql,
               "INSERT OR IGNORE INTO meta VALUES('instance','%s'); PRAGMA user_version=%d; PRAGMA "
               "application_id=%d;",
               id, CAY__SCHEMA, APP_ID);
    return exec_sql(db, sql, "set up store.db", err);
}

static int lock_setup(int dir, int *out, cay_err *err)
{
    CAY_AUTOFD fd = openat(dir, "store.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cay_fail_sys(err, "open store.lock");
    for (int64_t until = cay__now_ms() + WAIT_MS; flock(fd, LOCK_EX | LOCK_NB) < 0;) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return cay_fail_sys(err, "lock store.lock");
        if (cay__now_ms() > until)
            return cay_fail_why(err, CAY_EBUSY, "store_busy",
                                "another program is setting up the store; try again");
        poll(NULL, 0, 5);
    }
    *out = CAY_STEAL_FD(fd);
    return 0;
}

/* Changing to WAL and making tables happen once in the life of a store; several programs may want
 * to be the one. */
static int set_up(const char *where, cay__db *db, cay_err *err)
{
    CAY_AUTOFD lock = -1;
    kind now;
    CAY_TRY(lock_setup(db->dir, &lock, err));
    CAY_TRY(read_kind(db->dir, &now, err));
    CAY_TRY(make_file(db->dir, err));
    CAY_TRY(connect_to(where, db, err));
    CAY_FAULT("store.connected");
    CAY_TRY(exec_sql(db, "PRAGMA journal_mode=WAL", "set up store.db", err));
    CAY_TRY(cay__db_write(db, CAY__TX_DURABLE, upgrade_schema, NULL, err));
    /* So that the header which others peek at tells the version. */
    return exec_sql(db, "PRAGMA wal_checkpoint(TRUNCATE)", "set up store.db", err);
}

static int read_instance(cay__db *db, cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    CAY_AUTOSTMT *st = NULL;
    int rc = cay__db_first(db, CAY__Q_INSTANCE, "read the instance of store.db", &st, &own);
    if (rc == 1) {
        CAY_COPY(db->instance, cay__db_column(st, 0));
        return 0;
    }
    if (rc == 0)
        rc = cay_fail_why(&own, CAY_ESYS, "store_damaged",
                          "store.db has lost its instance id; move it away or restore it");
    return cay__err_pass(rc, &own, err);
}

static int open_ready(const char *where, cay__db *db, cay_err *err)
{
    kind k;
    long v = 0;
    CAY_TRY(read_kind(db->dir, &k, err));
    if (k == STORE_READY)
        CAY_TRY(connect_to(where, db, err));
    else
        CAY_TRY(set_up(where, db, err));
    CAY_TRY(version_of(db, &v, err)); /* the newest may still be in the log alone */
    if (v > CAY__SCHEMA)
        return fail_newer(v, err);
    CAY_TRY(exec_sql(db, on_connect, "set up store.db", err));
    return read_instance(db, err);
}

int cay__db_open(const char *where, int dir, cay__db **out, cay_err *err)
{
    cay__db *db = cay__alloc(sizeof *db);
    db->dir = dir;
    db->full = -1;
    pthread_mutex_init(&db->lock, NULL);
    int rc = open_ready(where, db, err);
    if (rc < 0) {
        cay__db_close(db);
        return rc;
    }
    cay__reserve_make(dir);
    *out = db;
    return 0;
}

void cay__db_close(cay__db *db)
{
    CAY_EACH_OF(it, db->stmt, CAY__Q_COUNT)
        sqlite3_finalize(*it);
    sqlite3_close(db->sql);
    close(db->dir);
    pthread_mutex_destroy(&db->lock);
    free(db);
}
