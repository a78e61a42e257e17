/* SPDX-License-Identifier: Apache-2.0 */
/* What was said between runs: in memory, in a SQLite file, or wherever the caller keeps it. */
#include "run.h"
#include <sqlite3.h>

struct cay_conversation {
    cay_conversation_ops ops; /* a copy: those of its maker may be shorter than we know */
    void *self;
    char *id;
};

cay_conversation *cay_conversation_new(const cay_conversation_ops *ops, void *self, const char *id)
{
    cay_conversation *c = cay__alloc(sizeof *c);
    if (!ops || cay__spec_take(&c->ops, sizeof c->ops, ops, "cay_conversation_ops", NULL) < 0) {
        free(c);
        return NULL;
    }
    c->self = self;
    c->id = cay__strdup(id);
    return c;
}

void cay_conversation_free(cay_conversation *c)
{
    if (!c)
        return;
    if (c->ops.close)
        c->ops.close(c->self);
    free(c->id);
    free(c);
}

int cay_conversation_items(cay_conversation *c, char **items, cay_err *err)
{
    return c->ops.load(c->self, items, err);
}
int cay_conversation_clear(cay_conversation *c, cay_err *err)
{
    return c->ops.clear(c->self, err);
}
int cay__conversation_append(cay_conversation *c, const char *items, cay_err *err)
{
    return c->ops.append(c->self, items, err);
}
const char *cay__conversation_id(const cay_conversation *c)
{
    return c->id;
}

static int memory_load(void *self, char **items, cay_err *err)
{
    *items = cay__json_text(self, CAY__TEXT_MAX);
    if (*items)
        return 0;
    return cay_fail(err, CAY_ETOOBIG, "the conversation is larger than 256 MiB");
}

static int memory_append(void *self, const char *items, cay_err *err)
{
    CAY_AUTOJSON *new = NULL;
    CAY_TRY(cay__json_any("new items", items, &new, err));
    json_array_extend(self, new);
    return 0;
}

static int memory_clear(void *self, cay_err *err)
{
    json_array_clear(self);
    return 0;
}

static void memory_close(void *self)
{
    json_decref(self);
}

static const cay_conversation_ops memory = { .size = sizeof memory,
                                             .load = memory_load,
                                             .append = memory_append,
                                             .clear = memory_clear,
                                             .close = memory_close };

cay_conversation *cay_conversation_memory(const char *id)
{
    return cay_conversation_new(&memory, json_array(), id);
}

typedef struct kept {
    sqlite3 *db;
    char *id;
} kept;

static int sql_fail(const kept *k, const char *what, cay_err *err)
{
    bool busy = sqlite3_errcode(k->db) == SQLITE_BUSY;
    return cay_fail(err, busy ? CAY_EBUSY : CAY_ESYS, "conversation %.60s: %s: %.120s", k->id, what,
                    sqlite3_errmsg(k->db));
}

static int prepare_statement(const kept *k, const char *sql, sqlite3_stmt **out, cay_err *err)
{
    if (sqlite3_prepare_v2(k->db, sql, -1, out, NULL) != SQLITE_OK)
        return sql_fail(k, "prepare", err);
    sqlite3_bind_text(*out, 1, k->id, -1, SQLITE_STATIC);
    return 0;
}

static int kept_load(void *self, char **items, cay_err *err)
{
    kept *k = self;
    sqlite3_stmt *s = NULL;
    CAY_AUTOBUF b = CAY__BUF(CAY__TEXT_MAX);
    CAY_TRY(
        prepare_statement(k, "SELECT item FROM items WHERE conversation = ?1 ORDER BY n", &s, err));
    int st;
    cay__buf_str(&b, "[");
    while ((st = sqlite3_step(s)) == SQLITE_ROW)
        cay__buf_fmt(&b, "%s%s", CAY_TEXT_IF(b.len > 1, ","),
                     (const char *)sqlite3_column_text(s, 0));
    cay__buf_str(&b, "]");
    int rc = 0;
    if (st != SQLITE_DONE)
        rc = sql_fail(k, "read", err);
    sqlite3_finalize(s);
    CAY_TRY(rc);
    if (b.full)
        return cay_fail(err, CAY_ETOOBIG, "conversation %.60s is larger than 256 MiB", k->id);
    *items = CAY_STEAL(b.data);
    return 0;
}

static int insert_items(kept *k, sqlite3_stmt *s, const json_t *new, cay_err *err)
{
    CAY_EACH_ITEM(item, new) {
        CAY_AUTOFREE char *text = cay__json_text(item, CAY__TEXT_MAX);
        sqlite3_bind_text(s, 2, CAY_OR(text, "{}"), -1, SQLITE_STATIC);
        if (sqlite3_step(s) != SQLITE_DONE)
            return sql_fail(k, "write", err);
        sqlite3_reset(s);
    }
    return 0;
}

/* All of a run's items, or none. */
static int kept_append(void *self, const char *items, cay_err *err)
{
    kept *k = self;
    CAY_AUTOJSON *new = NULL;
    sqlite3_stmt *s = NULL;
    CAY_TRY(cay__json_any("new items", items, &new, err));
    if (sqlite3_exec(k->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return sql_fail(k, "begin", err);
    int rc = prepare_statement(k, "INSERT INTO items(conversation, item) VALUES(?1, ?2)", &s, err);
    if (rc == 0)
        rc = insert_items(k, s, new, err);
    sqlite3_finalize(s);
    if (rc == 0 && sqlite3_exec(k->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        rc = sql_fail(k, "commit", err);
    if (rc < 0)
        sqlite3_exec(k->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

static int kept_clear(void *self, cay_err *err)
{
    kept *k = self;
    sqlite3_stmt *s = NULL;
    CAY_TRY(prepare_statement(k, "DELETE FROM items WHERE conversation = ?1", &s, err));
    int rc = 0;
    if (sqlite3_step(s) != SQLITE_DONE)
        rc = sql_fail(k, "clear", err);
    sqlite3_finalize(s);
    return rc;
}

static void kept_close(void *self)
{
    kept *k = self;
    sqlite3_close(k->db);
    free(k->id);
    free(k);
}

static const cay_conversation_ops in_sqlite = { .size = sizeof in_sqlite,
                                                .load = kept_load,
                                                .append = kept_append,
                                                .clear = kept_clear,
                                                .close = kept_close };

int cay_conversation_sqlite(const char *path, const char *id, cay_conversation **out, cay_err *err)
{
    static const char schema[] =
        "PRAGMA journal_mode=WAL; CREATE TABLE IF NOT EXISTS items(n INTEGER PRIMARY KEY, "
        "conversation TEXT NOT NULL, item TEXT NOT NULL);"
        "CREATE INDEX IF NOT EXISTS of_conversation ON items(conversation, n)";
    CAY_AUTOFD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY,
                         0600); /* before SQLite would make it readable by others */
    if (fd < 0)
        return cay_fail_sys(err, "conversation %.200s", path);
    kept *k = cay__alloc(sizeof *k);
    k->id = cay__strdup(id);
    if (sqlite3_open_v2(path, &k->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(k->db, 10000) != SQLITE_OK ||
        sqlite3_exec(k->db, schema, NULL, NULL, NULL) != SQLITE_OK) {
        int rc = sql_fail(k, path, err);
        kept_close(k);
        return rc;
    }
    *out = cay_conversation_new(&in_sqlite, k, id);
    return 0;
}
