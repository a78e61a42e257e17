/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants, quotas and keys: the store's part of the contract, then what the library makes of it. */
#include "home.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <cay/sys/store.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>

static const cay_store_ops *ops = &cay__store_sqlite;
static const cay_provider_ops *const providers[] = { &cay__memory, NULL };

static void *open_store(void)
{
    void *self = NULL;
    cay_err err = CAY_ERR_INIT;
    if (ops->open(home, &self, &err) < 0)
        fail_msg("open: %s", err.msg);
    return self;
}

static cay_client *open_svc(void)
{
    return home_open("memory", providers);
}

static int put(void *st, char *id, const char *tenant, const char *once, uint64_t memory,
               cay_err *err)
{
    cay__id_make(id, 'c');
    cay_row r = { .size = sizeof r,
                  .id = id,
                  .provider = "fake",
                  .state = CAY_RUNNING,
                  .spec = "{}",
                  .tenant = tenant,
                  .once = once,
                  .cpu_milli = 1000,
                  .memory = memory,
                  .disk = 1 << 20 };
    return ops->insert(st, &r, err);
}

static int take_tenant(const cay_tenant *t, void *arg)
{
    *(cay_tenant *)arg = *t;
    ((cay_tenant *)arg)->name = NULL;
    return 0;
}

static int count_any(const void *x, void *arg)
{
    (void)x;
    ++*(int *)arg;
    return 0;
}
static int count_tenant(const cay_tenant *t, void *arg)
{
    return count_any(t, arg);
}
static int count_row(const cay_row *r, void *arg)
{
    return count_any(r, arg);
}
static int count_key_row(const cay_key_row *r, void *arg)
{
    return count_any(r, arg);
}
static int count_info(const cay_info *i, void *arg)
{
    return count_any(i, arg);
}

static void a_tenant_is_made_changed_counted_and_removed(void **s)
{
    (void)s;
    void *st = open_store();
    char id[CAY_ID_LEN + 1];
    cay_err err = CAY_ERR_INIT;
    cay_tenant t = { .size = sizeof t, .name = "acme", .most = { .sandboxes = 2 } }, seen;
    int n = 0;
    assert_int_equal(put(st, id, "acme", NULL, 5, &err), CAY_ENOENT);
    assert_string_equal(err.reason, "tenant_not_found");
    assert_int_equal(ops->tenant_put(st, &t, false, &err), CAY_ENOENT);
    assert_int_equal(ops->tenant_put(st, &t, true, &err), 0);
    assert_int_equal(ops->tenant_put(st, &t, true, &err), CAY_EEXIST);
    assert_int_equal(put(st, id, "acme", NULL, 5, &err), 0);
    assert_int_equal(ops->tenant_list(st, "acme", take_tenant, &seen, &err), 0);
    assert_int_equal(seen.used.sandboxes, 1);
    assert_int_equal(seen.used.memory, 5);
    assert_int_equal(ops->tenant_list(st, NULL, count_tenant, &n, &err), 0);
    assert_int_equal(n, 2);
    cay_filter f = { .size = sizeof f, .tenant = "acme" };
    n = 0;
    assert_int_equal(ops->list(st, &f, count_row, &n, &err), 0);
    assert_int_equal(n, 1);
    f.tenant = "default";
    assert_int_equal(ops->list(st, &f, count_row, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(ops->tenant_drop(st, "acme", &err), CAY_ESTATE);
    assert_string_equal(err.reason, "tenant_in_use");
    assert_int_equal(ops->remove(st, id, &err), 0);
    assert_int_equal(ops->tenant_drop(st, "acme", &err), 0);
    assert_int_equal(ops->tenant_drop(st, "acme", &err), CAY_ENOENT);
    assert_int_equal(ops->tenant_drop(st, "default", &err), CAY_ESTATE);
    ops->close(st);
}

static void quotas_bound_what_exists_and_what_starts(void **s)
{
    (void)s;
    void *st = open_store();
    char a[CAY_ID_LEN + 1], b[CAY_ID_LEN + 1], c[CAY_ID_LEN + 1];
    cay_err err = CAY_ERR_INIT;
    cay_tenant t = { .size = sizeof t, .name = "acme", .most = { .sandboxes = 3, .memory = 100 } };
    assert_int_equal(ops->tenant_put(st, &t, true, &err), 0);
    assert_int_equal(put(st, a, "acme", NULL, 60, &err), 0);
    assert_int_equal(put(st, b, "acme", NULL, 60, &err), CAY_ERATE);
    assert_string_equal(err.reason, "quota_exceeded");
    assert_non_null(strstr(err.detail, "\"quota\":\"memory\""));
    assert_int_equal(put(st, b, "acme", NULL, UINT64_MAX, &err), CAY_ERATE);
    /* a stopped one leaves room for another, and then cannot start */
    assert_int_equal(ops->move(st, a, ~0u, CAY_STOPPED, "killed", NULL, &err), 0);
    assert_int_equal(put(st, b, "acme", NULL, 60, &err), 0);
    assert_int_equal(ops->move(st, a, ~0u, CAY_STOPPED, "starting", NULL, &err), CAY_ERATE);
    assert_int_equal(ops->remove(st, b, &err), 0);
    assert_int_equal(ops->move(st, a, ~0u, CAY_STOPPED, "starting", NULL, &err), 0);
    assert_int_equal(put(st, b, "acme", NULL, 60, &err), CAY_ERATE);
    /* others are not concerned */
    assert_int_equal(put(st, b, NULL, NULL, 60, &err), 0);
    assert_int_equal(put(st, b, "acme", NULL, 20, &err), 0);
    assert_int_equal(put(st, c, "acme", NULL, 0, &err), 0);
    assert_int_equal(put(st, c, "acme", NULL, 0, &err), CAY_ERATE);
    assert_non_null(strstr(err.detail, "\"quota\":\"sandboxes\""));
    ops->close(st);
}

static void creates_a_minute_come_back_evenly(void **s)
{
    (void)s;
    void *st = open_store();
    char id[CAY_ID_LEN + 1];
    cay_err err = CAY_ERR_INIT;
    cay_tenant t = { .size = sizeof t, .name = "acme", .most = { .creates_per_min = 4 } }, seen;
    assert_int_equal(ops->tenant_put(st, &t, true, &err), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(put(st, id, "acme", NULL, 0, &err), 0);
        assert_int_equal(ops->remove(st, id, &err), 0); /* removing gives nothing back */
    }
    assert_int_equal(put(st, id, "acme", NULL, 0, &err), CAY_ERATE);
    assert_string_equal(err.reason, "create_rate");
    assert_true(err.retry_after_ms > 0 && err.retry_after_ms <= 15001);
    assert_int_equal(ops->tenant_list(st, "acme", take_tenant, &seen, &err), 0);
    assert_int_equal(seen.used.creates_per_min, 4);
    ops->close(st);
}

typedef struct racer {
    void *st;
    atomic_int made, refused;
} racer;

static void *race(void *arg)
{
    racer *r = arg;
    char id[CAY_ID_LEN + 1];
    for (int i = 0; i < 10; i++) {
        int rc = put(r->st, id, "acme", NULL, 10, NULL);
        atomic_fetch_add(rc == 0 ? &r->made : &r->refused, 1);
    }
    return NULL;
}

static void a_race_never_passes_the_quota(void **s)
{
    (void)s;
    pthread_t t[4];
    racer r = { .st = open_store() };
    void *other = open_store(); /* as of another program */
    racer q = { .st = other };
    cay_tenant ten = { .size = sizeof ten, .name = "acme", .most = { .memory = 95 } };
    assert_int_equal(ops->tenant_put(r.st, &ten, true, NULL), 0);
    for (size_t i = 0; i < CAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, race, i % 2 ? &q : &r), 0);
    for (size_t i = 0; i < CAY_LEN(t); i++)
        pthread_join(t[i], NULL);
    assert_int_equal(atomic_load(&r.made) + atomic_load(&q.made), 9);
    assert_int_equal(atomic_load(&r.refused) + atomic_load(&q.refused), 31);
    ops->close(other);
    ops->close(r.st);
}

static void a_word_of_one_time_is_kept_by_tenant(void **s)
{
    (void)s;
    void *st = open_store();
    char id[CAY_ID_LEN + 1], again[CAY_ID_LEN + 1], found[CAY_ID_LEN + 1];
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(ops->tenant_put(st,
                                     &(cay_tenant){ .size = sizeof(cay_tenant), .name = "acme" },
                                     true, &err),
                     0);
    assert_int_equal(put(st, id, NULL, "w", 0, &err), 0);
    assert_int_equal(put(st, again, NULL, "w", 0, &err), CAY_EEXIST);
    assert_string_equal(err.reason, "once");
    assert_int_equal(put(st, again, "acme", "w", 0, &err), 0);
    assert_int_equal(ops->once_find(st, "default", "w", found, &err), 0);
    assert_string_equal(found, id);
    assert_int_equal(ops->remove(st, id, &err), 0);
    assert_int_equal(ops->once_find(st, "default", "w", found, &err), CAY_ENOENT);
    ops->close(st);
}

static int take_used(const cay_key_row *r, void *arg)
{
    *(int64_t *)arg = r->key.used_ms;
    return 0;
}

static void keys_of_a_store(void **s)
{
    (void)s;
    void *st = open_store();
    char id[CAY_ID_LEN + 1];
    cay_err err = CAY_ERR_INIT;
    int n = 0;
    assert_int_equal(put(st, id, NULL, NULL, 0, &err), 0);
    cay_key_row k = { .key = { .size = sizeof k.key,
                               .id = "0123abcd",
                               .tenant = "nobody",
                               .scope = CAY_KEY_SANDBOX,
                               .sandbox = id },
                      .hash = "h" };
    assert_int_equal(ops->key_put(st, &k, &err), CAY_ENOENT);
    k.key.tenant = "default";
    assert_int_equal(ops->key_put(st, &k, &err), 0);
    assert_int_equal(ops->key_put(st, &k, &err), CAY_EEXIST);
    assert_int_equal(ops->key_get(st, "0123abcd", count_key_row, &n, &err), 0);
    assert_int_equal(ops->key_get(st, "0123abce", count_key_row, &n, &err), CAY_ENOENT);
    assert_int_equal(ops->key_list(st, "default", count_key_row, &n, &err), 0);
    assert_int_equal(ops->key_list(st, "acme", count_key_row, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(ops->key_revoke(st, "0123abcd", 5, &err), 0);
    assert_int_equal(ops->key_revoke(st, "0123abce", 5, &err), CAY_ENOENT);
    int64_t used = -1;
    assert_int_equal(ops->key_get(st, "0123abcd", take_used, &used, &err), 0);
    assert_int_equal(used, 0);
    assert_int_equal(ops->key_used(st, "0123abcd", 7, &err), 0);
    assert_int_equal(ops->key_used(st, "0123abcd", 6, &err), 0); /* the later one stays */
    assert_int_equal(ops->key_used(st, "0123abce", 7, &err), 0); /* gone is no failure */
    assert_int_equal(ops->key_get(st, "0123abcd", take_used, &used, &err), 0);
    assert_int_equal(used, 7);
    assert_int_equal(ops->remove(st, id, &err), 0); /* and the key with it */
    assert_int_equal(ops->key_get(st, "0123abcd", count_key_row, &n, &err), CAY_ENOENT);
    ops->close(st);
}

/* A store of version 2, as it was written before there were tenants. */
static const char version_2[] =
    "PRAGMA journal_mode=WAL; BEGIN;"
    "CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE sandboxes( seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "
    "provider TEXT NOT NULL, state TEXT NOT NULL,"
    " reason TEXT NOT NULL, spec TEXT NOT NULL, box TEXT NOT NULL, labels TEXT NOT NULL, metadata "
    "TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, changed_ms INTEGER NOT NULL, version INTEGER NOT NULL DEFAULT "
    "1) STRICT;"
    "CREATE INDEX sandboxes_name ON sandboxes(name) WHERE name<>'';"
    "CREATE TABLE notes(space TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY "
    "KEY(space,key)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE snapshots( seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, sandbox TEXT NOT "
    "NULL, parent TEXT NOT NULL,"
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
    "CREATE TABLE jobs( seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL, detail "
    "TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, UNIQUE(kind,subject)) STRICT;"
    "INSERT INTO meta VALUES('instance','iaaaaaaaaaaaaaaaaaaa');"
    "INSERT INTO sandboxes "
    "VALUES(1,'caaaaaaaaaaaaaaaaaaa','old','fake','running','','{\"limits\":{\"memory\":7}}','','{}"
    "','',1,1,1);"
    "INSERT INTO sandboxes "
    "VALUES(2,'cbaaaaaaaaaaaaaaaaaa','','fake','running','','{\"limits\":{\"memory\":\"unlimited\"}"
    "}','','{}','',1,1,1);"
    "INSERT INTO sandboxes VALUES(3,'ccaaaaaaaaaaaaaaaaaa','','fake','running','','no "
    "json','','{}','',1,1,1);"
    "PRAGMA user_version=2; PRAGMA application_id=1667332401; COMMIT;";

static int take_row(const cay_row *r, void *arg)
{
    assert_string_equal(r->tenant, "default");
    return count_any(r, arg);
}

static void a_store_of_before_is_taken_over(void **s)
{
    (void)s;
    char path[300], *msg = NULL;
    sqlite3 *db = NULL;
    int n = 0;
    cay_tenant t;
    cay_err err = CAY_ERR_INIT;
    snprintf(path, sizeof path, "%s/store.db", home);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, version_2, NULL, NULL, &msg) != SQLITE_OK)
        fail_msg("%s", msg);
    sqlite3_close(db);
    void *st = open_store();
    assert_string_equal(ops->instance(st), "iaaaaaaaaaaaaaaaaaaa");
    assert_int_equal(ops->list(st, NULL, take_row, &n, &err), 0);
    assert_int_equal(n, 3);
    assert_int_equal(ops->tenant_list(st, "default", take_tenant, &t, &err), 0);
    assert_int_equal(t.used.sandboxes, 3);
    assert_int_equal(t.used.memory, 7 + (1ull << 52) + (2ull << 30));
    assert_int_equal(t.used.cpu_milli, 6000);
    ops->close(st);
    st = open_store(); /* once is enough */
    ops->close(st);
}

static int take_key(const cay_key *k, void *arg)
{
    cay__str_copy(arg, 64, k->tenant);
    return (int)k->scope;
}

static void a_key_is_told_once_and_opens_until_revoked(void **s)
{
    (void)s;
    cay_client *client = open_svc(), *other = open_svc();
    cay_err err = CAY_ERR_INIT;
    char text[CAY_KEY_LEN + 1], who[64] = "", id[CAY_KEY_ID_LEN + 1] = "", wrong[CAY_KEY_LEN + 1];
    cay_key spec = { .size = sizeof spec, .name = "ci", .scope = CAY_KEY_ADMIN };
    assert_int_equal(cay_key_create(client, &spec, text, &err), 0);
    assert_int_equal(strlen(text), CAY_KEY_LEN);
    assert_int_equal(strncmp(text, "e2b_", 4), 0);
    assert_int_equal(cay_key_check(client, text, take_key, who, &err), CAY_KEY_ADMIN);
    assert_string_equal(who, "default");
    assert_int_equal(cay_key_check(other, text, take_key, who, &err), CAY_KEY_ADMIN);
    cay__str_copy(wrong, sizeof wrong, text);
    wrong[CAY_KEY_LEN - 1] = wrong[CAY_KEY_LEN - 1] == '0' ? '1' : '0';
    static const char *const bad[] = { "", "e2b_", "e2b_0011", "x", NULL };
    for (size_t i = 0; bad[i]; i++)
        assert_int_equal(cay_key_check(client, bad[i], take_key, who, &err), CAY_EAUTH);
    assert_int_equal(cay_key_check(client, NULL, take_key, who, &err), CAY_EAUTH);
    assert_int_equal(cay_key_check(client, wrong, take_key, who, &err), CAY_EAUTH);
    assert_string_equal(err.reason, "key_invalid");
    wrong[5] = wrong[5] == '0' ? '1' : '0'; /* another id */
    assert_int_equal(cay_key_check(client, wrong, take_key, who, &err), CAY_EAUTH);
    memcpy(id, text + 4, CAY_KEY_ID_LEN);
    assert_int_equal(cay_key_revoke(client, id, &err), 0);
    assert_int_equal(cay_key_check(client, text, take_key, who, &err),
                     CAY_EAUTH); /* here at once */
    int64_t until = cay__now_ms() + 10000;
    while (cay_key_check(other, text, take_key, who, &err) != CAY_EAUTH && cay__now_ms() < until)
        usleep(20000);
    assert_int_equal(cay_key_check(other, text, take_key, who, &err),
                     CAY_EAUTH); /* elsewhere within a second */
    cay_client_close(other);
    cay_client_close(client);
}

static int make_session(const cay_key *k, void *arg)
{
    cay_client *client = ((void **)arg)[0];
    return cay_login_create(client, k, ((void **)arg)[1], NULL);
}

static int count_keys(const cay_key *k, void *arg)
{
    ((int *)arg)[k->scope]++;
    return 0;
}

/* A browser that logs in every day leaves seven rows behind, not thousands. */
static void old_sessions_and_links_are_forgotten_and_keys_are_not(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    char key[CAY_KEY_LEN + 1], text[CAY_LOGIN_LEN + 1], live[CAY_LOGIN_LEN + 1],
        who[64] = "", id[CAY_KEY_ID_LEN + 1] = "";
    int n[CAY_KEY_CONSOLE_LOGIN + 1] = { 0 };
    assert_int_equal(cay_key_create(client,
                                    &(cay_key){ .size = sizeof(cay_key), .scope = CAY_KEY_ADMIN },
                                    key, &err),
                     0);
    assert_int_equal(cay_key_check(client, key, make_session, (void *[]){ client, text }, &err), 0);
    assert_int_equal(cay_key_check(client, key, make_session, (void *[]){ client, live }, &err), 0);
    memcpy(id, text + 5, CAY_KEY_ID_LEN);
    assert_int_equal(cay_key_revoke(client, id, &err), 0);
    assert_int_equal(cay_key_create(client,
                                    &(cay_key){ .size = sizeof(cay_key), .scope = CAY_KEY_TENANT },
                                    key, &err),
                     0);
    memcpy(id, key + 4, CAY_KEY_ID_LEN);
    assert_int_equal(cay_key_revoke(client, id, &err), 0);
    assert_int_equal(
        cay_key_create(client, &(cay_key){ .size = sizeof(cay_key), .scope = CAY_KEY_LOGIN_LINK },
                       key, &err),
        0);
    assert_int_equal(cay_key_sweep(client, cay__clock_ms() - 60000, &err),
                     0); /* all of it is newer */
    assert_int_equal(cay_key_list(client, NULL, count_keys, n, &err), 0);
    assert_int_equal(
        n[CAY_KEY_CONSOLE_LOGIN] * 100 + n[CAY_KEY_LOGIN_LINK] * 10 + n[CAY_KEY_TENANT], 211);
    memset(n, 0, sizeof n);
    assert_int_equal(cay_key_sweep(client, cay__clock_ms() + 3600000, &err),
                     0); /* an hour later: the one that was ended, and the link */
    assert_int_equal(cay_key_list(client, NULL, count_keys, n, &err), 0);
    assert_int_equal(
        n[CAY_KEY_CONSOLE_LOGIN] * 100 + n[CAY_KEY_LOGIN_LINK] * 10 + n[CAY_KEY_TENANT], 101);
    assert_int_equal(cay_login_check(client, live, take_key, who, &err), (int)CAY_KEY_ADMIN);
    assert_int_equal(cay_key_sweep(client, cay__clock_ms() + 8ll * 86400000, &err), 0);
    memset(n, 0, sizeof n);
    assert_int_equal(cay_key_list(client, NULL, count_keys, n, &err), 0);
    assert_int_equal(n[CAY_KEY_CONSOLE_LOGIN] * 100 + n[CAY_KEY_TENANT] * 10 + n[CAY_KEY_ADMIN],
                     11);
    cay_client_close(client);
}

static void a_session_is_no_key_and_dies_with_its_key(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    static const struct {
        cay_key_scope of, as;
    } cases[] = { { CAY_KEY_TENANT, CAY_KEY_TENANT },
                  { CAY_KEY_ADMIN, CAY_KEY_ADMIN },
                  { CAY_KEY_LOGIN_LINK, CAY_KEY_ADMIN } };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        char key[CAY_KEY_LEN + 1], text[CAY_LOGIN_LEN + 1],
            who[64] = "", id[CAY_KEY_ID_LEN + 1] = "", as_key[CAY_KEY_LEN + 1];
        assert_int_equal(cay_key_create(client,
                                        &(cay_key){ .size = sizeof(cay_key), .scope = cases[i].of },
                                        key, &err),
                         0);
        assert_int_equal(cay_key_check(client, key, make_session, (void *[]){ client, text }, &err),
                         0);
        assert_int_equal(strlen(text), CAY_LOGIN_LEN);
        assert_int_equal(cay_login_check(client, text, take_key, who, &err), cases[i].as);
        assert_string_equal(who, "default");
        snprintf(as_key, sizeof as_key, "e2b_%s", text + 5);
        assert_int_equal(cay_key_check(client, as_key, take_key, who, &err), CAY_EAUTH);
        assert_int_equal(cay_key_check(client, text, take_key, who, &err), CAY_EAUTH);
        assert_int_equal(cay_login_check(client, key, take_key, who, &err), CAY_EAUTH);
        memcpy(id, key + 4, CAY_KEY_ID_LEN);
        assert_int_equal(cay_key_revoke(client, id, &err),
                         0); /* that of a link is used up when the session is made */
        assert_int_equal(cay_login_check(client, text, take_key, who, &err),
                         cases[i].of == CAY_KEY_LOGIN_LINK ? (int)CAY_KEY_ADMIN : CAY_EAUTH);
        memcpy(id, text + 5, CAY_KEY_ID_LEN);
        assert_int_equal(cay_key_revoke(client, id, &err), 0);
        assert_int_equal(cay_login_check(client, text, take_key, who, &err), CAY_EAUTH);
    }
    char text[CAY_LOGIN_LEN + 1] = "untouched";
    assert_int_equal(
        cay_login_create(
            client, &(cay_key){ .size = sizeof(cay_key), .id = "00000000", .scope = CAY_KEY_PORT },
            text, &err),
        CAY_EPERM);
    assert_string_equal(text, "untouched");
    cay_client_close(client);
}

static void the_store_has_no_key_in_it(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    char text[CAY_KEY_LEN + 1], path[300];
    static const char *const files[] = { "store.db", "store.db-wal" };
    assert_int_equal(cay_key_create(client, &(cay_key){ .size = sizeof(cay_key) }, text, NULL), 0);
    for (size_t i = 0; i < CAY_LEN(files); i++) {
        snprintf(path, sizeof path, "%s/%s", home, files[i]);
        char *all = cay__alloc(1 << 20);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        size_t n = fread(all, 1, 1 << 20, f);
        fclose(f);
        assert_null(memmem(all, n, text + 12, 64));
        free(all);
    }
    cay_client_close(client);
}

static void wrong_keys_are_not_made(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    char text[CAY_KEY_LEN + 1] = "untouched";
    const struct {
        cay_key key;
        int code;
        const char *reason;
    } cases[] = {
        { { .tenant = "Acme" }, CAY_EINVAL, "tenant_invalid" },
        { { .tenant = "acme" }, CAY_ENOENT, "tenant_not_found" },
        { { .scope = (cay_key_scope)9 }, CAY_EINVAL, "key_spec" },
        { { .scope = CAY_KEY_CONSOLE_LOGIN }, CAY_EINVAL, "key_spec" },
        { { .scope = CAY_KEY_SANDBOX }, CAY_EINVAL, "key_spec" },
        { { .scope = CAY_KEY_ADMIN, .sandbox = "caaaaaaaaaaaaaaaaaaa" }, CAY_EINVAL, "key_spec" },
        { { .scope = CAY_KEY_SANDBOX, .sandbox = "caaaaaaaaaaaaaaaaaaa" },
          CAY_ENOENT,
          "sandbox_not_found" },
        { { .scope = CAY_KEY_PORT, .sandbox = "caaaaaaaaaaaaaaaaaaa" }, CAY_EINVAL, "key_spec" },
        { { .scope = CAY_KEY_FILE, .sandbox = "caaaaaaaaaaaaaaaaaaa", .path = "rel" },
          CAY_EINVAL,
          "key_spec" },
        { { .scope = CAY_KEY_FILE, .sandbox = "caaaaaaaaaaaaaaaaaaa", .path = "/a/../b" },
          CAY_EINVAL,
          "key_spec" },
        { { .name = "a\nb" }, CAY_EINVAL, "key_spec" },
        { { .expires_ms = 1 }, CAY_EINVAL, "key_spec" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay_key k = cases[i].key;
        k.size = sizeof k;
        assert_int_equal(cay_key_create(client, &k, text, &err), cases[i].code);
        assert_string_equal(err.reason, cases[i].reason);
        assert_string_equal(text, "untouched");
    }
    cay_client_close(client);
}

static cay_sandbox *make(cay_client *client, const char *tenant, const char *once)
{
    cay_sandbox *sb = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_create c = { .size = sizeof c, .tenant = tenant, .idempotency_key = once };
    if (cay_client_create(client, NULL, &c, &sb, &err) < 0)
        fail_msg("create: %s", err.msg);
    return sb;
}

static void a_sandbox_of_another_tenant_is_not_there(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT, none = CAY_ERR_INIT;
    cay_sandbox *found = NULL;
    cay_info *info = NULL;
    int n = 0;
    assert_int_equal(cay_tenant_create(
                         client, &(cay_tenant){ .size = sizeof(cay_tenant), .name = "acme" }, &err),
                     0);
    cay_sandbox *sb = make(client, "acme", NULL);
    char id[CAY_ID_LEN + 1], missing[CAY_ID_LEN + 1];
    cay__str_copy(id, sizeof id, cay_sandbox_id(sb));
    cay__str_copy(missing, sizeof missing, id);
    missing[5] = missing[5] == 'a' ? 'b' : 'a';
    assert_int_equal(cay_sandbox_describe(sb, NULL, &info, &err), 0);
    assert_string_equal(info->tenant, "acme");
    cay_info_free(info);
    assert_int_equal(cay_client_find_of(client, NULL, "default", id, &found, &err), CAY_ENOENT);
    assert_int_equal(cay_client_find_of(client, NULL, "default", missing, &found, &none),
                     CAY_ENOENT);
    assert_string_equal(err.reason, none.reason);
    assert_int_equal(cay_client_find_of(client, NULL, "acme", id, &found, &err), 0);
    cay_sandbox_unref(found);
    assert_int_equal(cay_client_find_of(client, NULL, NULL, id, &found, &err), 0);
    cay_sandbox_unref(found);
    assert_int_equal(
        cay_client_list(client, NULL,
                        &(cay_filter){ .size = sizeof(cay_filter), .tenant = "default" },
                        count_info, &n, &err),
        0);
    assert_int_equal(n, 0);
    assert_int_equal(cay_client_list(client, NULL,
                                     &(cay_filter){ .size = sizeof(cay_filter), .tenant = "acme" },
                                     count_info, &n, &err),
                     0);
    assert_int_equal(n, 1);
    /* by another name, which its tenant alone knows and which goes with it */
    assert_int_equal(cay_client_alias(client, "default", "6ba7b810-9dad", id, &err), CAY_ENOENT);
    assert_int_equal(cay_client_alias(client, "acme", "6ba7b810-9dad", id, &err), 0);
    assert_int_equal(cay_client_find_of(client, NULL, "acme", "6ba7b810-9dad", &found, &err), 0);
    assert_string_equal(cay_sandbox_id(found), id);
    cay_sandbox_unref(found);
    assert_int_equal(cay_client_find_of(client, NULL, "default", "6ba7b810-9dad", &found, &err),
                     CAY_ENOENT);
    assert_int_equal(cay_client_alias(client, "acme", "a b", id, &err), CAY_EINVAL);
    /* so does a key of it */
    char text[CAY_KEY_LEN + 1], who[64];
    assert_int_equal(cay_key_create(client,
                                    &(cay_key){ .size = sizeof(cay_key),
                                                .tenant = "acme",
                                                .scope = CAY_KEY_SANDBOX,
                                                .sandbox = id },
                                    text, &err),
                     0);
    assert_int_equal(cay_key_check(client, text, take_key, who, &err), CAY_KEY_SANDBOX);
    assert_int_equal(cay_tenant_remove(client, "acme", &err), CAY_ESTATE);
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
    assert_int_equal(cay_client_find_of(client, NULL, "acme", "6ba7b810-9dad", &found, &err),
                     CAY_ENOENT);
    assert_int_equal(cay_tenant_remove(client, "acme", &err), 0);
    assert_int_equal(cay_key_check(client, text, take_key, who, &err), CAY_EAUTH);
    cay_client_close(client);
}

static void the_same_word_gives_the_same_sandbox(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    int n = 0;
    cay_sandbox *a = make(client, NULL, "order-7"), *b = make(client, NULL, "order-7"),
                *c = make(client, NULL, "order-8");
    assert_string_equal(cay_sandbox_id(a), cay_sandbox_id(b));
    assert_string_not_equal(cay_sandbox_id(a), cay_sandbox_id(c));
    assert_int_equal(cay_client_list(client, NULL, NULL, count_info, &n, NULL), 0);
    assert_int_equal(n, 2);
    cay_sandbox *all[] = { a, c, b };
    for (size_t i = 0; i < CAY_LEN(all); i++) {
        cay_sandbox_remove(all[i], NULL, NULL);
        cay_sandbox_unref(all[i]);
    }
    cay_client_close(client);
}

static void one_that_asked_for_it_wakes(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    for (int asked = 0; asked < 2; asked++) {
        cay_sandbox *sb = NULL, *found = NULL;
        cay_info *info = NULL;
        assert_int_equal(cay_client_create(
                             client, NULL,
                             &(cay_create){ .size = sizeof(cay_create), .life.auto_resume = asked },
                             &sb, &err),
                         0);
        assert_int_equal(cay_sandbox_pause(sb, NULL, &err), 0);
        assert_int_equal(
            cay_client_find_of(client, NULL, "default", cay_sandbox_id(sb), &found, &err), 0);
        assert_int_equal(cay_sandbox_wake(found, NULL, &err), 0);
        assert_int_equal(cay_sandbox_describe(found, NULL, &info, &err), 0);
        assert_int_equal(info->state, asked ? CAY_RUNNING : CAY_PAUSED);
        assert_int_equal(info->auto_resume, asked);
        cay_info_free(info);
        cay_sandbox_unref(found);
        assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
        cay_sandbox_unref(sb);
    }
    cay_client_close(client);
}

#define T(name) cmocka_unit_test_setup_teardown(name, home_up, home_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_tenant_is_made_changed_counted_and_removed),
        T(quotas_bound_what_exists_and_what_starts),
        T(creates_a_minute_come_back_evenly),
        T(a_race_never_passes_the_quota),
        T(a_word_of_one_time_is_kept_by_tenant),
        T(keys_of_a_store),
        T(a_store_of_before_is_taken_over),
        T(a_key_is_told_once_and_opens_until_revoked),
        T(a_session_is_no_key_and_dies_with_its_key),
        T(old_sessions_and_links_are_forgotten_and_keys_are_not),
        T(the_store_has_no_key_in_it),
        T(wrong_keys_are_not_made),
        T(a_sandbox_of_another_tenant_is_not_there),
        T(the_same_word_gives_the_same_sandbox),
        T(one_that_asked_for_it_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
