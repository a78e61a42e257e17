/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"
#include <base/base.h>
#include <base/json.h>
#include <sqlite3.h>

enum { ITEMS_MOST = 256 << 20, SCHEMA = 1 };

static const char schema[] =
    "CREATE TABLE sessions(name TEXT PRIMARY KEY, agent TEXT, model TEXT, dir TEXT, sandbox TEXT, "
    "owns INTEGER, created INTEGER, used INTEGER,"
    " turns INTEGER, requests INTEGER, input INTEGER, cached INTEGER, output INTEGER);"
    "CREATE TABLE items(n INTEGER PRIMARY KEY, session TEXT NOT NULL, turn INTEGER NOT NULL, item "
    "TEXT NOT NULL);"
    "CREATE INDEX items_of ON items(session, n);"
    "CREATE TABLE points(n INTEGER PRIMARY KEY, session TEXT NOT NULL, turn INTEGER NOT NULL, "
    "snapshot TEXT);"
    "CREATE INDEX points_of ON points(session, n);"
    "CREATE TABLE files(point INTEGER NOT NULL, path BLOB NOT NULL, kind TEXT NOT NULL, mode "
    "INTEGER, size INTEGER, mtime INTEGER, blob INTEGER);"
    "CREATE INDEX files_of ON files(point, path);"
    "CREATE TABLE blobs(n INTEGER PRIMARY KEY, data BLOB NOT NULL);"
    "PRAGMA user_version = 1;";

int store_fail(sqlite3 *db, cay_err *err)
{
    bool busy = sqlite3_errcode(db) == SQLITE_BUSY;
    return cay_fail(err, busy ? CAY_EBUSY : CAY_ESYS, "the talks that are kept: %.160s",
                    sqlite3_errmsg(db));
}

int store_prepare(sqlite3 *db, const char *sql, const char *text, int64_t number,
                  sqlite3_stmt **out, cay_err *err)
{
    if (sqlite3_prepare_v2(db, sql, -1, out, NULL) != SQLITE_OK)
        return store_fail(db, err);
    if (sqlite3_bind_parameter_count(*out) >= 1 && text)
        sqlite3_bind_text(*out, 1, text, -1, SQLITE_TRANSIENT);
    if (sqlite3_bind_parameter_count(*out) >= 2)
        sqlite3_bind_int64(*out, 2, number);
    return 0;
}

int store_step(sqlite3 *db, sqlite3_stmt *s, cay_err *err)
{
    int rc = 0;
    if (sqlite3_step(s) != SQLITE_DONE)
        rc = store_fail(db, err);
    sqlite3_finalize(s);
    return rc;
}

int store_do(sqlite3 *db, const char *sql, const char *text, int64_t number, cay_err *err)
{
    sqlite3_stmt *s = NULL;
    CAY_TRY(store_prepare(db, sql, text, number, &s, err));
    return store_step(db, s, err);
}

static int run_sql(sqlite3 *db, const char *sql, cay_err *err)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    return store_fail(db, err);
}

int store_begin(sqlite3 *db, cay_err *err)
{
    return run_sql(db, "BEGIN IMMEDIATE", err);
}

int store_end(sqlite3 *db, int rc, cay_err *err)
{
    if (rc == 0)
        rc = run_sql(db, "COMMIT", err);
    if (rc < 0)
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

static int read_version(sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    int v = -1;
    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &s, NULL) == SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        v = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    return v;
}

int store_open(const char *path, sqlite3 **out, cay_err *err)
{
    sqlite3 *db = NULL;
    CAY_AUTOFD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW,
                         0600); /* before SQLite would make it readable by others */
    if (fd < 0)
        return cay_fail_sys(err, "%.200s", path);
    int rc;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_busy_timeout(db, 10000) == SQLITE_OK &&
        sqlite3_exec(db, "PRAGMA journal_mode=WAL; BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK)
        rc = 0;
    else
        rc = store_fail(db, err);
    int v = 0;
    if (rc == 0)
        v = read_version(db);
    if (rc == 0 && v > SCHEMA)
        rc = cay_fail(err, CAY_ENOTSUP, "%.200s was written by a newer cay", path);
    if (rc == 0 && v < 1)
        rc = run_sql(db, schema, err);
    if (rc == 0)
        rc = run_sql(db, "COMMIT", err);
    if (rc < 0)
        sqlite3_close(db);
    else
        *out = db;
    return rc;
}

void store_close(sqlite3 *db)
{
    sqlite3_close(db);
}

void store_session_clear(store_session *s)
{
    free(s->agent);
    free(s->model);
    free(s->dir);
    free(s->sandbox);
    *s = (store_session){ 0 };
}

bool store_name_valid(const char *name)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return *name && !strchr("._-", *name) && strlen(name) < STORE_NAME &&
           strspn(name, set) == strlen(name);
}

int store_put(sqlite3 *db, const store_session *s, cay_err *err)
{
    static const char sql[] =
        "INSERT INTO sessions VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13) ON CONFLICT(name) "
        "DO UPDATE SET agent=?2, model=?3, dir=?4,"
        " sandbox=?5, owns=?6, used=?8, turns=?9, requests=?10, input=?11, cached=?12, output=?13";
    const char *texts[] = { s->name, s->agent, s->model, s->dir, s->sandbox };
    const int64_t numbers[] = { s->owns,
                                s->created_ms,
                                s->used_ms,
                                (int64_t)s->turns,
                                (int64_t)s->tokens.requests,
                                (int64_t)s->tokens.input,
                                (int64_t)s->tokens.cached,
                                (int64_t)s->tokens.output };
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        return store_fail(db, err);
    for (size_t i = 0; i < CAY_LEN(texts); i++)
        sqlite3_bind_text(st, (int)i + 1, CAY_OR(texts[i], ""), -1, SQLITE_STATIC);
    for (size_t i = 0; i < CAY_LEN(numbers); i++)
        sqlite3_bind_int64(st, (int)(i + 1 + CAY_LEN(texts)), numbers[i]);
    return store_step(db, st, err);
}

static char *copy_column(sqlite3_stmt *st, int i)
{
    const char *s = (const char *)sqlite3_column_text(st, i);
    return cay__strdup(CAY_OR(s, ""));
}

static void read_session(sqlite3_stmt *st, store_session *s)
{
    CAY_AUTOFREE char *name = copy_column(st, 0);
    *s = (store_session){ .agent = copy_column(st, 1),
                          .model = copy_column(st, 2),
                          .dir = copy_column(st, 3),
                          .sandbox = copy_column(st, 4),
                          .owns = sqlite3_column_int(st, 5),
                          .created_ms = sqlite3_column_int64(st, 6),
                          .used_ms = sqlite3_column_int64(st, 7),
                          .turns = (uint64_t)sqlite3_column_int64(st, 8) };
    s->tokens = (cay_tokens){ .requests = (uint64_t)sqlite3_column_int64(st, 9),
                              .input = (uint64_t)sqlite3_column_int64(st, 10),
                              .cached = (uint64_t)sqlite3_column_int64(st, 11),
                              .output = (uint64_t)sqlite3_column_int64(st, 12) };
    CAY_COPY(s->name, name);
}

int store_get(sqlite3 *db, const char *name, store_session *out, cay_err *err)
{
    sqlite3_stmt *st = NULL;
    CAY_TRY(store_prepare(db, "SELECT * FROM sessions WHERE name = ?1", name, 0, &st, err));
    int r = sqlite3_step(st), rc = 0;
    if (r == SQLITE_ROW)
        read_session(st, out);
    else {
        if (r == SQLITE_DONE)
            rc = cay_fail_why(err, CAY_ENOENT, "session_not_found",
                              "there is no session \"%.64s\"; `cay chat list` shows them", name);
        else
            rc = store_fail(db, err);
    }
    sqlite3_finalize(st);
    return rc;
}

int store_list(sqlite3 *db, int (*fn)(const store_session *s, void *arg), void *arg, cay_err *err)
{
    sqlite3_stmt *st = NULL;
    int r, rc = 0;
    CAY_TRY(
        store_prepare(db, "SELECT * FROM sessions ORDER BY used DESC, name", NULL, 0, &st, err));
    while (rc == 0 && (r = sqlite3_step(st)) == SQLITE_ROW) {
        store_session s;
        read_session(st, &s);
        rc = fn(&s, arg);
        store_session_clear(&s);
    }
    if (rc == 0 && r != SQLITE_DONE)
        rc = store_fail(db, err);
    sqlite3_finalize(st);
    return rc;
}

static int run_statements(sqlite3 *db, const char *const *sql, size_t n, const char *name,
                          const char *other, cay_err *err)
{
    int rc = 0;
    CAY_TRY(store_begin(db, err));
    for (size_t i = 0; rc == 0 && i < n; i++) {
        sqlite3_stmt *st = NULL;
        rc = store_prepare(db, sql[i], name, 0, &st, err);
        if (rc == 0 && other)
            sqlite3_bind_text(st, 2, other, -1, SQLITE_STATIC);
        if (rc == 0 && sqlite3_step(st) != SQLITE_DONE) {
            if (sqlite3_errcode(db) == SQLITE_CONSTRAINT)
                rc = cay_fail_why(err, CAY_EEXIST, "session_exists",
                                  "there is a session \"%.64s\" already", other);
            else
                rc = store_fail(db, err);
        }
        sqlite3_finalize(st);
    }
    return store_end(db, rc, err);
}

int store_rename(sqlite3 *db, const char *from, const char *to, cay_err *err)
{
    static const char *const sql[] = { "UPDATE sessions SET name = ?2 WHERE name = ?1",
                                       "UPDATE items SET session = ?2 WHERE session = ?1",
                                       "UPDATE points SET session = ?2 WHERE session = ?1" };
    return run_statements(db, sql, CAY_LEN(sql), from, to, err);
}

int store_remove(sqlite3 *db, const char *name, cay_err *err)
{
    static const char *const sql[] = {
        "DELETE FROM items WHERE session = ?1",
        "DELETE FROM files WHERE point IN (SELECT n FROM points WHERE session = ?1)",
        "DELETE FROM points WHERE session = ?1", "DELETE FROM sessions WHERE name = ?1",
        "DELETE FROM blobs WHERE n NOT IN (SELECT blob FROM files WHERE blob IS NOT NULL)"
    };
    return run_statements(db, sql, CAY_LEN(sql), name, NULL, err);
}

int store_fresh(sqlite3 *db, const char *like, char name[STORE_NAME], cay_err *err)
{
    char base[STORE_NAME - 8];
    size_t n = 0;
    for (const char *p = like; *p && n + 1 < sizeof base; p++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *p) &&
            (n || !strchr("._-", *p)))
            base[n++] = *p;
    base[n] = 0;
    for (unsigned i = 1; i < 1000000; i++) {
        store_session s = { 0 };
        cay_err own = CAY_ERR_INIT;
        if (i == 1)
            snprintf(name, STORE_NAME, "%s", n ? base : "talk");
        else
            snprintf(name, STORE_NAME, "%s-%u", n ? base : "talk", i);
        int rc = store_get(db, name, &s, &own);
        store_session_clear(&s);
        if (rc == CAY_ENOENT)
            return 0;
        if (rc < 0) {
            *err = own;
            return rc;
        }
    }
    return cay_fail(err, CAY_ENOSPACE, "too many sessions are named like \"%s\"", base);
}

int store_forget(sqlite3 *db, const char *session, uint64_t from, cay_err *err)
{
    return store_do(db, "DELETE FROM items WHERE session = ?1 AND turn >= ?2", session,
                    (int64_t)from, err);
}

typedef struct talk {
    sqlite3 *db;
    char session[STORE_NAME];
    const uint64_t *turn;
} talk;

static int talk_load(void *self, char **items, cay_err *err)
{
    talk *t = self;
    sqlite3_stmt *s = NULL;
    CAY_AUTOBUF b = CAY__BUF(ITEMS_MOST);
    int r;
    CAY_TRY(store_prepare(t->db, "SELECT item FROM items WHERE session = ?1 ORDER BY n", t->session,
                          0, &s, err));
    cay__buf_str(&b, "[");
    while ((r = sqlite3_step(s)) == SQLITE_ROW)
        cay__buf_fmt(&b, "%s%s", b.len > 1 ? "," : "", (const char *)sqlite3_column_text(s, 0));
    cay__buf_str(&b, "]");
    int rc = 0;
    if (r != SQLITE_DONE)
        rc = store_fail(t->db, err);
    sqlite3_finalize(s);
    CAY_TRY(rc);
    if (b.full)
        return cay_fail(err, CAY_ETOOBIG, "session %s is larger than 256 MiB; /clear begins anew",
                        t->session);
    *items = CAY_STEAL(b.data);
    return 0;
}

/* How a call, and what an endpoint asks for its MCP server, is answered; NULL: nothing waits for an
 * answer. */
static json_t *cut_short(const json_t *item)
{
    static const char told[] = "The user interrupted this before it was done.";
    const char *type = cay__json_str(item, "type", "");
    bool custom = !strcmp(type, "custom_tool_call");
    if (!strcmp(type, "mcp_approval_request"))
        return json_pack("{s:s, s:s, s:b, s:s}", "type", "mcp_approval_response",
                         "approval_request_id", cay__json_str(item, "id", ""), "approve", 0,
                         "reason", told);
    if (!custom && strcmp(type, "function_call"))
        return NULL;
    return json_pack("{s:s, s:s, s:s}", "type",
                     custom ? "custom_tool_call_output" : "function_call_output", "call_id",
                     cay__json_str(item, "call_id", ""), "output", told);
}

/* Endpoints refuse a call without an answer. */
static void answer_calls(json_t *items)
{
    size_t i, k, n = json_array_size(items);
    for (i = 0; i < n; i++) {
        CAY_AUTOJSON *answer = cut_short(json_array_get(items, i));
        const char *key = json_object_get(answer, "call_id") ? "call_id" : "approval_request_id",
                   *id = cay__json_str(answer, key, "");
        bool answered = false;
        for (k = i + 1; answer && k < n && !answered; k++) {
            const json_t *o = json_array_get(items, k);
            answered = !strcmp(cay__json_str(o, "type", ""), cay__json_str(answer, "type", "")) &&
                       !strcmp(cay__json_str(o, key, ""), id);
        }
        if (answer && !answered)
            json_array_append(items, answer);
    }
}

static int insert_items(talk *t, const json_t *items, cay_err *err)
{
    sqlite3_stmt *s = NULL;
    size_t i;
    json_t *item;
    int rc = store_prepare(t->db, "INSERT INTO items(session, turn, item) VALUES(?1, ?2, ?3)",
                           t->session, (int64_t)*t->turn, &s, err);
    json_array_foreach(items, i, item) {
        CAY_AUTOFREE char *text = cay__json_text(item, ITEMS_MOST);
        if (rc < 0)
            break;
        sqlite3_bind_text(s, 3, CAY_OR(text, "{}"), -1, SQLITE_STATIC);
        if (sqlite3_step(s) != SQLITE_DONE)
            rc = store_fail(t->db, err);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    return rc;
}

static int talk_append(void *self, const char *items, cay_err *err)
{
    talk *t = self;
    CAY_AUTOJSON *new = NULL;
    CAY_TRY(cay__json_any("new items", items, &new, err));
    answer_calls(new);
    CAY_TRY(store_begin(t->db, err));
    return store_end(t->db, insert_items(t, new, err), err);
}

static int talk_clear(void *self, cay_err *err)
{
    talk *t = self;
    return store_forget(t->db, t->session, 0, err);
}

cay_conversation *store_conversation(sqlite3 *db, const char *session, const uint64_t *turn)
{
    static const cay_conversation_ops ops = { .size = sizeof ops,
                                              .load = talk_load,
                                              .append = talk_append,
                                              .clear = talk_clear,
                                              .close = free };
    talk *t = cay__alloc(sizeof *t);
    *t = (talk){ .db = db, .turn = turn };
    CAY_COPY(t->session, session);
    return cay_conversation_new(&ops, t, session);
}
