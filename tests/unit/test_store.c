/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of sys/store.h, for every store there is; then what is special to the one on SQLite.
 */
#include <base/base.h>
#include <base/fault.h>
#include <base/fd.h>
#include <base/str.h>
#include <cay/sys/store.h>
#include <lib/client/lifecycle.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#define ALL (~0u)

static const cay_store_ops *ops = &cay__store_sqlite; /* the one under test */
static char home[64];

static int set_up(void **s)
{
    (void)s;
    cay__str_copy(home, sizeof home, "/tmp/cay-test-store-XXXXXX");
    return mkdtemp(home) ? 0 : -1;
}

static void remove_all(const char *path)
{
    char p[512];
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            snprintf(p, sizeof p, "%s/%s", path, e->d_name);
            unlink(p);
        }
    if (d)
        closedir(d);
    rmdir(path);
}

static int tear_down(void **s)
{
    (void)s;
    umount2(home, MNT_DETACH); /* of a failed test */
    remove_all(home);
    return 0;
}

static void *open_store(void)
{
    void *self = NULL;
    cay_err err = CAY_ERR_INIT;
    if (ops->open(home, &self, &err) < 0)
        fail_msg("open: %s", err.msg);
    return self;
}

static int put(void *st, char *id, const char *name, cay_state state, const char *labels,
               cay_err *err)
{
    cay__id_make(id, 'c');
    cay_row r = { .size = sizeof r,
                  .id = id,
                  .name = name,
                  .provider = "fake",
                  .state = state,
                  .spec = "{}",
                  .labels = labels };
    return ops->insert(st, &r, err);
}

typedef struct seen {
    int n;
    cay_state state;
    char id[8][CAY_ID_LEN + 1], reason[64], box[64];
    int64_t version, changed_ms;
} seen;

static int see(const cay_row *r, void *arg)
{
    seen *s = arg;
    if (s->n < 8)
        cay__str_copy(s->id[s->n], sizeof s->id[0], r->id);
    s->n++;
    s->state = r->state;
    s->version = r->version;
    s->changed_ms = r->changed_ms;
    cay__str_copy(s->reason, sizeof s->reason, r->reason);
    cay__str_copy(s->box, sizeof s->box, r->box);
    return 0;
}

static int stop_at_second(const cay_row *r, void *arg)
{
    (void)r;
    return ++*(int *)arg == 2 ? 77 : 0;
}

static int count_notes(const char *value, void *arg)
{
    cay__str_copy(arg, 64, value);
    return 5;
}

static void a_row_is_inserted_moved_and_removed(void **s)
{
    (void)s;
    void *st = open_store();
    char id[CAY_ID_LEN + 1];
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(put(st, id, "one", CAY_CREATING, NULL, &err), 0);
    cay_row twice = {
        .size = sizeof twice, .id = id, .provider = "fake", .state = CAY_CREATING, .spec = "{}"
    };
    assert_int_equal(ops->insert(st, &twice, &err), CAY_EEXIST);

    seen a = { 0 }, b = { 0 };
    assert_int_equal(ops->get(st, id, see, &a, &err), 0);
    assert_int_equal(a.state, CAY_CREATING);
    assert_int_equal(
        ops->move(st, id, CAY__BIT(CAY_CREATING), CAY_RUNNING, "because", "{\"pid\":1}", &err), 0);
    assert_int_equal(ops->get(st, id, see, &b, &err), 0);
    assert_int_equal(b.state, CAY_RUNNING);
    assert_string_equal(b.reason, "because");
    assert_string_equal(b.box, "{\"pid\":1}");
    assert_true(b.version > a.version && b.changed_ms >= a.changed_ms);

    /* compare-and-set, and a NULL box leaves it */
    assert_int_equal(ops->move(st, id, CAY__BIT(CAY_CREATING), CAY_STOPPED, "", NULL, &err),
                     CAY_ESTATE);
    assert_string_equal(err.reason, "state_changed");
    assert_int_equal(ops->move(st, id, CAY__BIT(CAY_RUNNING), CAY_STOPPED, "x", NULL, &err), 0);
    assert_int_equal(ops->get(st, id, see, &b, &err), 0);
    assert_string_equal(b.box, "{\"pid\":1}");

    assert_int_equal(ops->remove(st, id, &err), 0);
    assert_int_equal(ops->remove(st, id, &err), CAY_ENOENT);
    assert_int_equal(ops->get(st, id, see, &a, &err), CAY_ENOENT);
    assert_int_equal(ops->move(st, id, ALL, CAY_STOPPED, "", NULL, &err), CAY_ENOENT);
    ops->close(st);
}

static void states_that_are_never_kept_are_refused(void **s)
{
    (void)s;
    void *st = open_store();
    char id[CAY_ID_LEN + 1];
    assert_int_equal(put(st, id, "", CAY_GONE, NULL, NULL), CAY_EINVAL);
    assert_int_equal(put(st, id, "", CAY_RUNNING, NULL, NULL), 0);
    assert_int_equal(ops->move(st, id, ALL, CAY_GONE, "", NULL, NULL), CAY_EINVAL);
    assert_int_equal(ops->move(st, id, ALL, CAY_DAMAGED, "", NULL, NULL), CAY_EINVAL);
    cay_row r = {
        .size = sizeof r, .id = "../etc", .provider = "fake", .state = CAY_CREATING, .spec = "{}"
    };
    assert_int_equal(ops->insert(st, &r, NULL), CAY_EINVAL);
    ops->close(st);
}

static void lists_are_filtered_and_paged_in_order(void **s)
{
    (void)s;
    void *st = open_store();
    char id[4][CAY_ID_LEN + 1];
    for (int i = 0; i < 4; i++)
        assert_int_equal(put(st, id[i], i == 3 ? "last" : "", i < 2 ? CAY_RUNNING : CAY_STOPPED,
                             i % 2 ? "{\"team\":\"red\",\"x\":\"1\"}" : "{\"team\":\"blue\"}",
                             NULL),
                         0);
    seen all = { 0 }, red = { 0 }, run = { 0 }, page = { 0 }, none = { 0 };
    assert_int_equal(ops->list(st, NULL, see, &all, NULL), 0);
    assert_int_equal(all.n, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(all.id[i], id[i]);
    cay_pair labels[] = { { "team", "red" }, { "x", "1" }, { NULL, NULL } };
    cay_filter f = { .size = sizeof f, .labels = labels };
    assert_int_equal(ops->list(st, &f, see, &red, NULL), 0);
    assert_int_equal(red.n, 2);
    f = (cay_filter){ .size = sizeof f, .states = CAY__BIT(CAY_RUNNING) };
    assert_int_equal(ops->list(st, &f, see, &run, NULL), 0);
    assert_int_equal(run.n, 2);
    f = (cay_filter){ .size = sizeof f, .after = id[1], .limit = 1 };
    assert_int_equal(ops->list(st, &f, see, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_string_equal(page.id[0], id[2]);
    f = (cay_filter){ .size = sizeof f, .provider = "other" };
    assert_int_equal(ops->list(st, &f, see, &none, NULL), 0);
    assert_int_equal(none.n, 0);
    f = (cay_filter){ .size = sizeof f, .after = "cnone" };
    assert_int_equal(ops->list(st, &f, see, &none, NULL), CAY_ENOENT);
    /* with its time a list goes on behind one that is gone: nothing is passed over, and behind the
     * last there is nothing */
    f.after = "cnone.0";
    page.n = 0;
    assert_int_equal(ops->list(st, &f, see, &page, NULL), 0);
    assert_int_equal(page.n, all.n);
    f.after = "cnone.99999999999999";
    assert_int_equal(ops->list(st, &f, see, &none, NULL), 0);
    assert_int_equal(none.n, 0);
    int n = 0;
    assert_int_equal(ops->list(st, NULL, stop_at_second, &n, NULL), 77);
    assert_int_equal(n, 2);
    ops->close(st);
}

static void ids_resolve_by_beginning_and_name(void **s)
{
    (void)s;
    void *st = open_store();
    char id[2][CAY_ID_LEN + 1], found[4][CAY_ID_LEN + 1], part[8];
    size_t n = 9;
    assert_int_equal(put(st, id[0], "web", CAY_RUNNING, NULL, NULL), 0);
    assert_int_equal(put(st, id[1], "web", CAY_RUNNING, NULL, NULL), 0);
    cay__str_copy(part, sizeof part, id[0]);
    assert_int_equal(ops->resolve(st, part, found, 4, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_string_equal(found[0], id[0]);
    assert_int_equal(ops->resolve(st, "web", found, 4, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(ops->resolve(st, "c", found, 1, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(ops->resolve(st, "%", found, 4, &n, NULL), 0);
    assert_int_equal(n, 0);
    assert_int_equal(ops->resolve(st, "", found, 4, &n, NULL), CAY_EINVAL);
    ops->close(st);
}

static void notes_are_kept_and_dropped(void **s)
{
    (void)s;
    void *st = open_store();
    char v[64];
    assert_int_equal(ops->note_get(st, "a", "k", count_notes, v, NULL), CAY_ENOENT);
    assert_int_equal(ops->note_put(st, "a", "k", "1", NULL), 0);
    assert_int_equal(ops->note_put(st, "a", "k", "2", NULL), 0);
    assert_int_equal(ops->note_get(st, "a", "k", count_notes, v, NULL), 5);
    assert_string_equal(v, "2");
    assert_int_equal(ops->note_get(st, "b", "k", count_notes, v, NULL), CAY_ENOENT);
    assert_int_equal(ops->note_put(st, "a", "k", NULL, NULL), 0);
    assert_int_equal(ops->note_get(st, "a", "k", count_notes, v, NULL), CAY_ENOENT);
    ops->close(st);
}

static void the_instance_lives_as_long_as_the_store(void **s)
{
    (void)s;
    char first[CAY_ID_LEN + 1];
    void *st = open_store();
    assert_true(cay__id_valid(ops->instance(st), 'i'));
    cay__str_copy(first, sizeof first, ops->instance(st));
    ops->close(st);
    st = open_store();
    assert_string_equal(ops->instance(st), first);
    ops->close(st);
}

static int call_back(const cay_row *r, void *st)
{
    seen s = { 0 };
    return ops->get(st, r->id, see, &s, NULL);
}

static void a_callback_may_use_the_store(void **s)
{
    (void)s;
    void *st = open_store();
    char id[CAY_ID_LEN + 1];
    assert_int_equal(put(st, id, "", CAY_RUNNING, NULL, NULL), 0);
    assert_int_equal(ops->list(st, NULL, call_back, st, NULL), 0);
    ops->close(st);
}

/* Each opens a new store at once, writes, moves and removes half of its own. */
static int worker(int rows)
{
    void *st;
    cay_err err = CAY_ERR_INIT;
    char id[CAY_ID_LEN + 1];
    if (ops->open(home, &st, &err) < 0) {
        fprintf(stderr, "open: %s\n", err.msg);
        return 1;
    }
    for (int i = 0; i < rows; i++) {
        if (put(st, id, "", CAY_CREATING, NULL, &err) < 0 ||
            ops->move(st, id, CAY__BIT(CAY_CREATING), CAY_RUNNING, "", "{}", &err) < 0 ||
            (i % 2 && ops->remove(st, id, &err) < 0)) {
            fprintf(stderr, "worker: %s\n", err.msg);
            return 2;
        }
    }
    ops->close(st);
    return 0;
}

static void many_processes_write_at_once(void **s)
{
    (void)s;
    pid_t pid[6];
    for (size_t i = 0; i < CAY_LEN(pid); i++)
        if ((pid[i] = fork()) == 0)
            _exit(worker(20));
    for (size_t i = 0; i < CAY_LEN(pid); i++) {
        int st;
        assert_int_equal(waitpid(pid[i], &st, 0), pid[i]);
        assert_int_equal(st, 0);
    }
    void *st = open_store();
    seen all = { 0 };
    assert_int_equal(ops->list(st, NULL, see, &all, NULL), 0);
    assert_int_equal(all.n, 60);
    ops->close(st);
}

static void *thread(void *st)
{
    char id[CAY_ID_LEN + 1];
    for (int i = 0; i < 20; i++) {
        seen x = { 0 };
        if (put(st, id, "", CAY_RUNNING, NULL, NULL) || ops->get(st, id, see, &x, NULL) ||
            ops->list(st, NULL, see, &x, NULL) || ops->remove(st, id, NULL))
            return (void *)1;
    }
    return NULL;
}

static void many_threads_share_one_store(void **s)
{
    (void)s;
    pthread_t t[4];
    void *st = open_store(), *bad;
    for (size_t i = 0; i < CAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, thread, st), 0);
    for (size_t i = 0; i < CAY_LEN(t); i++) {
        assert_int_equal(pthread_join(t[i], &bad), 0);
        assert_null(bad);
    }
    ops->close(st);
}

/* Two who want the same row: exactly one move wins. */
static void only_one_of_two_moves_wins(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1];
    void *st = open_store();
    assert_int_equal(put(st, id, "", CAY_RUNNING, NULL, NULL), 0);
    ops->close(st);
    pid_t pid[4];
    int won = 0;
    for (size_t i = 0; i < CAY_LEN(pid); i++)
        if ((pid[i] = fork()) == 0) {
            st = open_store();
            _exit(ops->move(st, id, CAY__BIT(CAY_RUNNING), CAY_DELETING, "", NULL, NULL) == 0);
        }
    for (size_t i = 0; i < CAY_LEN(pid); i++) {
        int w;
        assert_int_equal(waitpid(pid[i], &w, 0), pid[i]);
        won += WEXITSTATUS(w);
    }
    assert_int_equal(won, 1);
}

#ifdef CAY_FAULTS
static int dies_at(const char *point, const char *id)
{
    pid_t pid = fork();
    if (pid == 0) {
        cay__fault_set(point);
        void *st = open_store();
        ops->move(st, id, ALL, CAY_PAUSED, "", NULL, NULL);
        _exit(0);
    }
    int st;
    waitpid(pid, &st, 0);
    return WIFSIGNALED(st) ? WTERMSIG(st) : 0;
}

static void a_killed_writer_leaves_the_old_or_the_new(void **s)
{
    (void)s;
    static const char *const points[] = { "store.before-commit=kill", "store.committed=kill" };
    char id[CAY_ID_LEN + 1];
    for (size_t i = 0; i < CAY_LEN(points); i++) {
        void *st = open_store();
        assert_int_equal(put(st, id, "", CAY_RUNNING, NULL, NULL), 0);
        ops->close(st);
        assert_int_equal(dies_at(points[i], id), SIGKILL);
        seen x = { 0 };
        st = open_store();
        assert_int_equal(ops->get(st, id, see, &x, NULL), 0);
        assert_int_equal(x.state, i ? CAY_PAUSED : CAY_RUNNING);
        ops->close(st);
    }
}

static void a_setup_that_was_killed_is_done_again(void **s)
{
    (void)s;
    static const char *const points[] = { "store.connected=kill", "store.upgrade=kill",
                                          "store.before-commit=kill", "store.committed=kill" };
    for (size_t i = 0; i < CAY_LEN(points); i++) {
        tear_down(NULL);
        assert_int_equal(mkdir(home, 0700), 0);
        assert_int_equal(dies_at(points[i], "cnone"), SIGKILL);
        void *st = open_store();
        char id[CAY_ID_LEN + 1];
        assert_int_equal(put(st, id, "", CAY_RUNNING, NULL, NULL), 0);
        ops->close(st);
    }
}

static void a_failed_commit_changes_nothing(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1], other[CAY_ID_LEN + 1];
    void *st = open_store();
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(put(st, id, "", CAY_RUNNING, NULL, NULL), 0);
    cay__fault_set("store.commit=fail");
    assert_int_equal(put(st, other, "", CAY_RUNNING, NULL, &err), CAY_ESYS);
    assert_int_equal(err.sys, EIO);
    assert_int_equal(ops->get(st, other, see, &(seen){ 0 }, NULL), CAY_ENOENT);
    cay__fault_set("store.commit=fail");
    assert_int_equal(ops->remove(st, id, &err), CAY_ESYS);
    assert_int_equal(ops->get(st, id, see, &(seen){ 0 }, NULL), 0);
    /* a full disk refuses what is new; removing goes on from the reserve */
    cay__fault_set("store.full=fail");
    assert_int_equal(put(st, other, "", CAY_RUNNING, NULL, &err), CAY_ENOSPACE);
    assert_string_equal(err.reason, "store_full");
    cay__fault_set("store.full=fail");
    assert_int_equal(ops->remove(st, id, &err), 0);
    cay__fault_set("");
    ops->close(st);
}
#endif

static void raw(const char *sql)
{
    char path[128];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/store.db", home);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    char *msg = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &msg) != SQLITE_OK)
        fail_msg("%s: %s", sql, msg);
    sqlite3_close(db);
}

static uint32_t digest(const char *name)
{
    char path[128];
    static char buf[1 << 20];
    snprintf(path, sizeof path, "%s/%s", home, name);
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : cay__fd_read_all(fd, buf, sizeof buf);
    return cay__crc32c(0, buf, (size_t)n);
}

static void a_newer_store_is_refused_without_a_write(void **s)
{
    (void)s;
    void *st = open_store();
    cay_err err = CAY_ERR_INIT;
    ops->close(st);
    raw("PRAGMA user_version=7; PRAGMA wal_checkpoint(TRUNCATE)");
    uint32_t before = digest("store.db");
    assert_int_equal(ops->open(home, &st, &err), CAY_ESTATE);
    assert_string_equal(err.reason, "store_newer");
    assert_non_null(strstr(err.msg, "version 7"));
    assert_non_null(strstr(err.msg, "up to 6"));
    assert_int_equal(digest("store.db"), before);
}

/* The newer program was killed before its log went into the file. */
static void a_newer_version_in_the_log_counts(void **s)
{
    (void)s;
    void *st = open_store();
    cay_err err = CAY_ERR_INIT;
    ops->close(st);
    pid_t pid = fork();
    if (pid == 0) {
        raw("PRAGMA user_version=1"); /* opens and closes */
        char path[128];
        sqlite3 *db;
        snprintf(path, sizeof path, "%s/store.db", home);
        sqlite3_open(path, &db);
        sqlite3_exec(db, "PRAGMA user_version=8", NULL, NULL, NULL);
        kill(getpid(), SIGKILL);
    }
    waitpid(pid, NULL, 0);
    uint32_t db = digest("store.db"), wal = digest("store.db-wal");
    assert_int_equal(ops->open(home, &st, &err), CAY_ESTATE);
    assert_non_null(strstr(err.msg, "version 8"));
    assert_int_equal(digest("store.db"), db);
    assert_int_equal(digest("store.db-wal"), wal);
}

static void damaged_rows_are_listed_not_lost(void **s)
{
    (void)s;
    static const char *const damage[] = {
        "UPDATE sandboxes SET spec='{'",
        "UPDATE sandboxes SET spec='[]'",
        "UPDATE sandboxes SET state='flying'",
        "UPDATE sandboxes SET labels='{\"a\":1,\"a\":2}'",
        "UPDATE sandboxes SET box='x'",
        "UPDATE sandboxes SET metadata='1'",
        "UPDATE sandboxes SET spec='{}'||char(0)||'x'",
        "UPDATE sandboxes SET state='gone'",
    };
    for (size_t i = 0; i < CAY_LEN(damage); i++) {
        void *st = open_store();
        char id[CAY_ID_LEN + 1], good[CAY_ID_LEN + 1], found[2][CAY_ID_LEN + 1];
        size_t n;
        assert_int_equal(put(st, id, "", CAY_RUNNING, NULL, NULL), 0);
        raw(damage[i]);
        assert_int_equal(put(st, good, "", CAY_RUNNING, NULL, NULL), 0);
        seen all = { 0 }, one = { 0 }, filtered = { 0 };
        assert_int_equal(ops->list(st, NULL, see, &all, NULL), 0);
        assert_int_equal(all.n, 2);
        assert_int_equal(ops->get(st, id, see, &one, NULL), 0);
        assert_int_equal(one.state, CAY_DAMAGED);
        assert_true(cay__str_starts(one.reason, "record: "));
        cay_filter f = { .size = sizeof f, .states = CAY__BIT(CAY_DAMAGED) };
        assert_int_equal(ops->list(st, &f, see, &filtered, NULL), 0);
        assert_int_equal(filtered.n, 1);
        assert_int_equal(ops->resolve(st, id, found, 2, &n, NULL), 0);
        assert_int_equal(n, 1);
        assert_int_equal(ops->remove(st, id, NULL), 0);
        assert_int_equal(ops->remove(st, good, NULL), 0);
        ops->close(st);
    }
}

static void a_torn_log_keeps_every_earlier_commit(void **s)
{
    (void)s;
    void *st = open_store();
    char a[CAY_ID_LEN + 1], b[CAY_ID_LEN + 1], path[128];
    struct stat before, after;
    snprintf(path, sizeof path, "%s/store.db-wal", home);
    assert_int_equal(put(st, a, "", CAY_RUNNING, NULL, NULL), 0);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(put(st, b, "", CAY_RUNNING, NULL, NULL), 0);
    assert_int_equal(stat(path, &after), 0);
    ops->close(st);
    assert_true(after.st_size > before.st_size);
    assert_int_equal(truncate(path, before.st_size + 100), 0);
    snprintf(path, sizeof path, "%s/store.db-shm", home);
    unlink(path); /* the power was off */
    st = open_store();
    assert_int_equal(ops->get(st, a, see, &(seen){ 0 }, NULL), 0);
    assert_int_equal(ops->get(st, b, see, &(seen){ 0 }, NULL), CAY_ENOENT);
    assert_int_equal(put(st, b, "", CAY_RUNNING, NULL, NULL), 0);
    ops->close(st);
}

static void what_is_no_store_is_refused(void **s)
{
    (void)s;
    char path[128];
    void *st;
    cay_err err = CAY_ERR_INIT;
    snprintf(path, sizeof path, "%s/store.db", home);
    CAY_AUTOFD fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(cay__fd_write_all(fd, "this is not a database", 22));
    assert_int_equal(ops->open(home, &st, &err), CAY_ESYS);
    assert_string_equal(err.reason, "store_damaged");
    unlink(path);
    raw("PRAGMA application_id=77; CREATE TABLE t(x)");
    assert_int_equal(ops->open(home, &st, &err), CAY_ESTATE);
    assert_string_equal(err.reason, "store_foreign");
}

static void the_files_are_private(void **s)
{
    (void)s;
    static const char *const names[] = { "store.db", "store.db-wal", "store.db-shm", "reserve" };
    mode_t old = umask(0);
    void *st = open_store();
    char id[CAY_ID_LEN + 1], path[128];
    assert_int_equal(put(st, id, "", CAY_RUNNING, NULL, NULL), 0);
    umask(old);
    for (size_t i = 0; i < CAY_LEN(names); i++) {
        struct stat sb;
        snprintf(path, sizeof path, "%s/%s", home, names[i]);
        assert_int_equal(stat(path, &sb), 0);
        assert_int_equal(sb.st_mode & 07777, 0600);
    }
    ops->close(st);
}

static void fill_disk(void)
{
    char path[128], block[4096] = { 1 };
    snprintf(path, sizeof path, "%s/filler", home);
    CAY_AUTOFD fd = open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    while (write(fd, block, sizeof block) > 0)
        ;
}

static void a_full_disk_lets_things_be_removed(void **s)
{
    (void)s;
    if (geteuid() != 0 || mount("tmpfs", home, "tmpfs", 0, "size=90m,mode=0700") < 0) {
        print_message("skipped: cannot mount a tmpfs here\n");
        skip();
    }
    void *st = open_store();
    char id[40][CAY_ID_LEN + 1], more[CAY_ID_LEN + 1];
    cay_err err = CAY_ERR_INIT;
    int rc = 0, i;
    for (i = 0; i < 40; i++)
        assert_int_equal(put(st, id[i], "", CAY_RUNNING, NULL, &err), 0);
    fill_disk();
    for (i = 0; i < 2000 && rc == 0; i++)
        rc = put(st, more, "", CAY_RUNNING, NULL, &err);
    assert_int_equal(rc, CAY_ENOSPACE);
    assert_string_equal(err.reason, "store_full");
    ops->close(st); /* it opens on a full disk, too */
    st = open_store();
    for (i = 0; i < 40; i++) {
        if (ops->move(st, id[i], ALL, CAY_DELETING, "", NULL, &err) < 0 ||
            ops->remove(st, id[i], &err) < 0)
            fail_msg("%d: %s", i, err.msg);
    }
    char path[128];
    snprintf(path, sizeof path, "%s/filler", home);
    unlink(path);
    assert_int_equal(put(st, more, "", CAY_RUNNING, NULL, &err), 0);
    assert_int_equal(ops->remove(st, more, &err), 0);
    struct stat sb;
    snprintf(path, sizeof path, "%s/reserve", home);
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_size, 8 << 20); /* made again */
    ops->close(st);
    assert_int_equal(umount(home), 0);
}

static int take_version(const cay_row *r, void *arg)
{
    *(int64_t *)arg = r->version;
    return strcmp(r->spec, "{\"a\":1}") != 0;
}

static int has_words(const cay_row *r, void *arg)
{
    const char *const *w = arg;
    return strcmp(r->name, w[0]) || strcmp(r->labels, w[1]) || strcmp(r->metadata, w[2]);
}

static void rename_leaves_what_is_not_said(void **s)
{
    (void)s;
    void *st = open_store();
    char id[CAY_ID_LEN + 1];
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(put(st, id, "old", CAY_RUNNING, "{\"a\":\"b\"}", &err), 0);
    assert_int_equal(ops->rename(st, id, "new", NULL, NULL, &err), 0);
    assert_int_equal(
        ops->get(st, id, has_words, (const char *[]){ "new", "{\"a\":\"b\"}", "" }, &err), 0);
    assert_int_equal(ops->rename(st, id, NULL, "{}", "{\"m\":1}", &err), 0);
    assert_int_equal(
        ops->get(st, id, has_words, (const char *[]){ "new", "{}", "{\"m\":1}" }, &err), 0);
    assert_int_equal(ops->rename(st, "caaaaaaaaaaaaaaaaaaa", "x", NULL, NULL, &err), CAY_ENOENT);
    ops->close(st);
}

static void respec_needs_the_version_it_saw(void **s)
{
    (void)s;
    void *st = open_store();
    char id[CAY_ID_LEN + 1];
    int64_t version = 0;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(put(st, id, "", CAY_RUNNING, "{}", &err), 0);
    assert_int_equal(ops->get(st, id, take_version, &version, &err), 1);
    assert_int_equal(ops->respec(st, id, version, "{\"a\":1}", &err), 0);
    assert_int_equal(ops->respec(st, id, version, "{\"a\":2}", &err), CAY_ESTATE);
    assert_string_equal(err.reason, "state_changed");
    assert_int_equal(ops->get(st, id, take_version, &version, &err), 0);
    assert_int_equal(ops->respec(st, "caaaaaaaaaaaaaaaaaaa", 1, "{}", &err), CAY_ENOENT);
    ops->close(st);
}

/* Those of nobody: the oldest that is ready, once, with the words of who takes it, as the newest
 * row of all. */
static void what_is_ready_is_taken_once(void **s)
{
    (void)s;
    void *st = open_store();
    char ids[3][CAY_ID_LEN + 1], id[CAY_ID_LEN + 1], other[CAY_ID_LEN + 1], *box = NULL;
    cay_err err = CAY_ERR_INIT;
    for (int i = 0; i < 3; i++) {
        cay__id_make(ids[i], 'c');
        cay_row r = { .size = sizeof r,
                      .id = ids[i],
                      .name = i == 1 ? ".other" : ".kind",
                      .provider = "fake",
                      .state = i ? CAY_RUNNING : CAY_CREATING,
                      .spec = "{}",
                      .box = "{\"pid\":7}",
                      .tenant = ".warm" };
        assert_int_equal(ops->insert(st, &r, &err), 0);
    }
    assert_int_equal(put(st, other, "before", CAY_RUNNING, NULL, &err), 0);
    const cay_row mine = { .size = sizeof mine,
                           .name = "mine",
                           .provider = "fake",
                           .state = CAY_CREATING,
                           .spec = "{\"a\":1}",
                           .box = "{}",
                           .labels = "{\"l\":\"m\"}",
                           .metadata = "{\"n\":2}",
                           .once = "word" };
    assert_int_equal(ops->pool_take(st, ".warm", ".none", &mine, id, &box, &err), CAY_ENOENT);
    assert_string_equal(err.reason, "warm_none");
    assert_int_equal(ops->pool_take(st, ".warm", ".kind", &mine, id, &box, &err), 0);
    assert_string_equal(id, ids[2]); /* the first is being made, the second is of another kind */
    assert_string_equal(box, "{\"pid\":7}");
    free(box);
    assert_int_equal(
        ops->get(st, id, has_words, (const char *[]){ "mine", "{\"l\":\"m\"}", "{\"n\":2}" }, &err),
        0);
    seen all = { 0 };
    const cay_filter f = { .size = sizeof f, .tenant = "default" };
    assert_int_equal(ops->list(st, &f, see, &all, &err), 0);
    assert_int_equal(all.n, 2);
    assert_string_equal(all.id[1], id);
    assert_int_equal(all.state, CAY_CREATING);
    assert_int_equal(ops->pool_take(st, ".warm", ".kind", &mine, id, &box, &err), CAY_ENOENT);
    assert_int_equal(ops->pool_take(st, ".warm", ".other", &mine, id, &box, &err),
                     CAY_EEXIST); /* the word is taken: nothing changed */
    assert_string_equal(err.reason, "once");
    cay_tenant little = { .size = sizeof little, .name = "little", .most = { .sandboxes = 1 } };
    assert_int_equal(ops->tenant_put(st, &little, true, &err), 0);
    cay_row theirs = { .size = sizeof theirs,
                       .provider = "fake",
                       .state = CAY_CREATING,
                       .spec = "{}",
                       .tenant = "little" };
    cay__id_make(id, 'c');
    theirs.id = id;
    assert_int_equal(ops->insert(st, &theirs, &err), 0);
    assert_int_equal(ops->pool_take(st, ".warm", ".other", &theirs, id, &box, &err), CAY_ERATE);
    assert_string_equal(err.reason, "quota_exceeded");
    seen ready = { 0 };
    assert_int_equal(ops->get(st, ids[1], see, &ready, &err), 0);
    assert_int_equal(ready.state, CAY_RUNNING);
    ops->close(st);
}

/* Who lists them, and removes one after somebody took it, removes nothing. */
static void what_was_taken_is_not_dropped(void **s)
{
    (void)s;
    void *st = open_store();
    char ids[3][CAY_ID_LEN + 1], id[CAY_ID_LEN + 1], *box = NULL;
    cay_err err = CAY_ERR_INIT;
    for (int i = 0; i < 3; i++) {
        cay__id_make(ids[i], 'c');
        cay_row r = { .size = sizeof r,
                      .id = ids[i],
                      .name = i ? ".kind" : ".making",
                      .provider = "fake",
                      .state = i ? CAY_RUNNING : CAY_CREATING,
                      .spec = "{}",
                      .tenant = ".warm" };
        assert_int_equal(ops->insert(st, &r, &err), 0);
    }
    const cay_row mine = {
        .size = sizeof mine, .name = "mine", .provider = "fake", .state = CAY_CREATING, .spec = "{}"
    };
    assert_int_equal(ops->pool_take(st, ".warm", ".kind", &mine, id, &box, &err), 0);
    free(box);
    assert_string_equal(id, ids[1]);
    assert_int_equal(ops->move(st, id, 1u << CAY_CREATING, CAY_RUNNING, "", "{}", &err), 0);
    seen before = { 0 }, after = { 0 };
    assert_int_equal(ops->get(st, id, see, &before, &err), 0);
    assert_int_equal(ops->warm_drop(st, ".warm", id, &err), CAY_ENOENT);
    assert_string_equal(err.reason, "warm_none");
    assert_int_equal(ops->warm_drop(st, ".warm", "caaaaaaaaaaaaaaaaaaa", &err), CAY_ENOENT);
    assert_int_equal(ops->get(st, id, see, &after, &err), 0);
    assert_int_equal(after.state, CAY_RUNNING);
    assert_int_equal(after.version, before.version);
    for (int i = 0; i < 3; i += 2) { /* one that is being made, one that is ready */
        seen gone = { 0 };
        assert_int_equal(ops->warm_drop(st, ".warm", ids[i], &err), 0);
        assert_int_equal(ops->get(st, ids[i], see, &gone, &err), 0);
        assert_int_equal(gone.state, CAY_DELETING);
        assert_int_equal(ops->warm_drop(st, ".warm", ids[i], &err),
                         0); /* who comes later goes on with it */
    }
    assert_int_equal(ops->pool_take(st, ".warm", ".kind", &mine, id, &box, &err),
                     CAY_ENOENT); /* and nobody gets it */
    ops->close(st);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(respec_needs_the_version_it_saw),
        T(rename_leaves_what_is_not_said),
        T(what_is_ready_is_taken_once),
        T(what_was_taken_is_not_dropped),
        T(a_row_is_inserted_moved_and_removed),
        T(states_that_are_never_kept_are_refused),
        T(lists_are_filtered_and_paged_in_order),
        T(ids_resolve_by_beginning_and_name),
        T(notes_are_kept_and_dropped),
        T(the_instance_lives_as_long_as_the_store),
        T(a_callback_may_use_the_store),
        T(many_processes_write_at_once),
        T(many_threads_share_one_store),
        T(only_one_of_two_moves_wins),
#ifdef CAY_FAULTS
        T(a_killed_writer_leaves_the_old_or_the_new),
        T(a_setup_that_was_killed_is_done_again),
        T(a_failed_commit_changes_nothing),
#endif
        T(a_newer_store_is_refused_without_a_write),
        T(a_newer_version_in_the_log_counts),
        T(damaged_rows_are_listed_not_lost),
        T(a_torn_log_keeps_every_earlier_commit),
        T(what_is_no_store_is_refused),
        T(the_files_are_private),
        T(a_full_disk_lets_things_be_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
