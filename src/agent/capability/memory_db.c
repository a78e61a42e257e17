/* SPDX-License-Identifier: Apache-2.0 */
/* Files of memory in one SQLite file, by their names. */
#include "memory.h"
#include <sqlite3.h>

static int sql_fail(sqlite3 *db, const char *what, cay_err *err)
{
    bool busy = sqlite3_errcode(db) == SQLITE_BUSY;
    return cay_fail(err, busy ? CAY_EBUSY : CAY_ESYS, "the database of memories: %s: %.120s", what,
                    sqlite3_errmsg(db));
}

static int list_files(void *self, int (*fn)(const char *name, void *arg), void *arg, cay_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = 0, st = SQLITE_DONE;
    if (sqlite3_prepare_v2(self, "SELECT name FROM files ORDER BY name", -1, &s, NULL) != SQLITE_OK)
        return sql_fail(self, "list", err);
    while (rc >= 0 && (st = sqlite3_step(s)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(s, 0);
        if (name)
            rc = fn(name, arg);
        else
            rc = 0;
    }
    if (rc >= 0 && st != SQLITE_DONE)
        rc = sql_fail(self, "list", err);
    sqlite3_finalize(s);
    return rc;
}

static int get_file(void *self, const char *name, char **data, size_t *len, cay_err *err)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(self, "SELECT data FROM files WHERE name = ?1", -1, &s, NULL) !=
        SQLITE_OK)
        return sql_fail(self, "read", err);
    sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    int rc = 0;
    if (sqlite3_step(s) != SQLITE_ROW) {
        rc = cay_fail(err, CAY_ENOENT, "the database of memories has no %.200s", name);
    } else {
        size_t n = (size_t)sqlite3_column_bytes(s, 0);
        *data = cay__alloc(n + 1);
        if (n)
            memcpy(*data, sqlite3_column_blob(s, 0), n);
        *len = n;
    }
    sqlite3_finalize(s);
    return rc;
}

static int put_file(void *self, const char *name, const void *data, size_t len, cay_err *err)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(self,
                           "INSERT INTO files (name, data) VALUES (?1, ?2) ON CONFLICT (name) DO "
                           "UPDATE SET data = ?2",
                           -1, &s, NULL) != SQLITE_OK)
        return sql_fail(self, "write", err);
    sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_blob64(s, 2, data, len, SQLITE_STATIC);
    int rc = 0;
    if (sqlite3_step(s) != SQLITE_DONE)
        rc = sql_fail(self, "write", err);
    sqlite3_finalize(s);
    return rc;
}

static void close_db(void *self)
{
    sqlite3_close(self);
}

const cay_memory_store cay__memory_db_store = { .size = sizeof cay__memory_db_store,
                                                .list = list_files,
                                                .get = get_file,
                                                .put = put_file,
                                                .close = close_db };

int cay__memory_db(const char *path, void **self, cay_err *err)
{
    sqlite3 *db = NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                  0600); /* so that its mode is ours from the first byte on */
    if (fd < 0)
        return cay_fail_sys(err, "the database of memories %.200s", path);
    close(fd);
    int rc = 0;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, NULL) !=
        SQLITE_OK)
        rc = sql_fail(db, "open", err);
    if (rc == 0) {
        sqlite3_busy_timeout(db, 5000);
        if (sqlite3_exec(
                db, "CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, data BLOB NOT NULL)",
                NULL, NULL, NULL) != SQLITE_OK)
            rc = sql_fail(db, "make", err);
    }
    if (rc < 0)
        sqlite3_close(db);
    else
        *self = db;
    return rc;
}
