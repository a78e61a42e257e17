/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/chat/store.h - talks that are kept: what was said, by turn, and which sandbox they are about.
 *
 * One SQLite file, chat.db, in the directory `chat` of the state directory; for its owner only.
 */
#pragma once
#include <cay/agent.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;

enum { STORE_NAME = 64 };
typedef struct store_session {
    char name[STORE_NAME];
    char *agent, *model, *dir, *sandbox; /* "" for none */
    bool owns;                           /* the sandbox was made for it, and goes with it */
    int64_t created_ms, used_ms;
    uint64_t turns; /* that are in it */
    cay_tokens tokens;
} store_session;
void store_session_clear(store_session *s);

int store_open(const char *path, sqlite3 **out, cay_err *err);
void store_close(sqlite3 *db);
bool store_name_valid(const char *name);

int store_put(sqlite3 *db, const store_session *s, cay_err *err); /* new or changed */
int store_get(sqlite3 *db, const char *name, store_session *out,
              cay_err *err); /* CAY_ENOENT "session_not_found" */
int store_rename(sqlite3 *db, const char *from, const char *to, cay_err *err); /* CAY_EEXIST */
int store_remove(sqlite3 *db, const char *name, cay_err *err); /* with all that was said */
int store_list(sqlite3 *db, int (*fn)(const store_session *s, void *arg), void *arg,
               cay_err *err); /* last used first */
/* A name that no session has, made of `like`. */
int store_fresh(sqlite3 *db, const char *like, char name[STORE_NAME], cay_err *err);

/* What was said. A conversation for the runner: new items are kept under *turn; calls that an
 * interrupt left without an answer get one. */
cay_conversation *store_conversation(sqlite3 *db, const char *session, const uint64_t *turn);
int store_forget(sqlite3 *db, const char *session, uint64_t from_turn,
                 cay_err *err); /* that turn and later ones */

/* Statements of neighbours (keep.c). sql has ?1 for text, ?2 for a number where they are used. */
int store_prepare(sqlite3 *db, const char *sql, const char *text, int64_t number,
                  sqlite3_stmt **out, cay_err *err);
int store_step(sqlite3 *db, sqlite3_stmt *s, cay_err *err); /* to its end; s is gone then */
/* A transaction; the end rolls it back unless rc is 0, and returns rc or why that failed. */
int store_begin(sqlite3 *db, cay_err *err);
int store_end(sqlite3 *db, int rc, cay_err *err);
int store_do(sqlite3 *db, const char *sql, const char *text, int64_t number, cay_err *err);
int store_fail(sqlite3 *db, cay_err *err);
