/* SPDX-License-Identifier: Apache-2.0 */
#include "keep.h"
#include <base/base.h>
#include <cay/sandbox.h>
#include <cay/snapshot.h>
#include <cay/workspace.h>
#include <linux/openat2.h>
#include <sqlite3.h>

enum { FILE_MOST = 8 << 20, CHANGES = 100000 };

typedef struct entry {
    char *path;
    char kind;     /* of the change */
    uint32_t mode; /* type and permissions; 0: it is not there */
    uint64_t size;
    int64_t mtime_ns, blob; /* blob 0: its bytes are not kept */
} entry;
typedef struct entries {
    entry *v;
    size_t n;
} entries;

static void entries_clear(entries *e)
{
    CAY_EACH_OF(it, e->v, e->n)
        free(it->path);
    free(e->v);
    *e = (entries){ 0 };
}

static void add_entry(entries *e, entry one)
{
    CAY_GROW(e->v, e->n);
    e->v[e->n++] = one;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->path, ((const entry *)b)->path);
}

static void sort_entries(entries *e)
{
    if (e->n)
        qsort(e->v, e->n, sizeof *e->v, by_path);
}

static const entry *find_entry(const entries *e, const char *path)
{
    entry key = { .path = (char *)path };
    if (e->n)
        return bsearch(&key, e->v, e->n, sizeof *e->v, by_path);
    return NULL;
}

static int on_change(const cay_file_change *c, void *arg)
{
    entries *e = arg;
    if (e->n >= CHANGES)
        return CAY_ETOOBIG;
    add_entry(e, (entry){ .path = cay__strdup(c->path),
                          .kind = c->kind,
                          .mode = c->new_mode,
                          .size = c->new_size });
    return 0;
}

static int list_changes(keep *k, entries *out, cay_err *err)
{
    cay_diff d = { .size = sizeof d, .a = cay_sandbox_id(k->sb), .every = true };
    int rc = cay_client_diff(k->client, NULL, &d, on_change, out, NULL, err);
    if (out->n >= CHANGES && rc == CAY_ETOOBIG)
        rc = cay_fail(err, CAY_ETOOBIG, "more than %d files changed: too many to be taken back",
                      CHANGES);
    sort_entries(out);
    return rc;
}

static int64_t last_point(keep *k, const char *sql, uint64_t turn, cay_err *err)
{
    sqlite3_stmt *s = NULL;
    CAY_TRY(store_prepare(k->db, sql, k->session, (int64_t)turn, &s, err));
    int64_t n = 0;
    if (sqlite3_step(s) == SQLITE_ROW)
        n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return n;
}

int64_t keep_last(keep *k, cay_err *err)
{
    return last_point(k, "SELECT max(n) FROM points WHERE session = ?1 AND ?2 = 0", 0, err);
}

static int load_point(keep *k, int64_t point, entries *out, cay_err *err)
{
    sqlite3_stmt *s = NULL;
    CAY_TRY(store_prepare(k->db,
                          "SELECT path, kind, mode, size, mtime, blob FROM files WHERE point = ?2 "
                          "AND ?1 = ?1 ORDER BY path",
                          "", point, &s, err));
    int r;
    while ((r = sqlite3_step(s)) == SQLITE_ROW) {
        const char *path = sqlite3_column_blob(s, 0),
                   *kind = (const char *)sqlite3_column_text(s, 1);
        add_entry(out,
                  (entry){ .path = strndup(CAY_OR(path, ""), (size_t)sqlite3_column_bytes(s, 0)),
                           .kind = kind ? *kind : 'M',
                           .mode = (uint32_t)sqlite3_column_int64(s, 2),
                           .size = (uint64_t)sqlite3_column_int64(s, 3),
                           .mtime_ns = sqlite3_column_int64(s, 4),
                           .blob = sqlite3_column_int64(s, 5) });
    }
    sqlite3_finalize(s);
    sort_entries(out);
    if (r == SQLITE_DONE)
        return 0;
    return store_fail(k->db, err);
}

static int put_blob(keep *k, const void *data, size_t len, int64_t *blob, cay_err *err)
{
    sqlite3_stmt *s = NULL;
    CAY_TRY(store_prepare(k->db, "INSERT INTO blobs(data) VALUES(?1)", NULL, 0, &s, err));
    sqlite3_bind_blob(s, 1, len ? data : "", (int)len, SQLITE_STATIC);
    int rc = store_step(k->db, s, err);
    *blob = sqlite3_last_insert_rowid(k->db);
    return rc;
}

/* The bytes of a changed file, or where a link leads; those of the last point serve again while
 * size and time are the same. A file that vanishes meanwhile is no error: somebody is at work. */
static int fill_entry(keep *k, entry *e, const entries *before, cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    const entry *old = find_entry(before, e->path);
    CAY_AUTOFREE char *data = NULL;
    size_t len = 0;
    if (!e->mode || S_ISDIR(e->mode) || cay_file_stat(k->sb, NULL, e->path, false, &st, NULL) < 0)
        return 0;
    e->mtime_ns = st.mtime_ns;
    e->size = st.size;
    if (st.type == CAY_LINK) {
        if (st.size < sizeof st.target)
            return put_blob(k, st.target, strlen(st.target), &e->blob, err);
        return 0;
    }
    if (old && old->blob && old->size == e->size && old->mtime_ns == e->mtime_ns &&
        (old->mode & S_IFMT) == (e->mode & S_IFMT))
        e->blob = old->blob;
    else if (st.type == CAY_FILE && st.size <= FILE_MOST &&
             cay_file_get(k->sb, NULL, e->path, FILE_MOST, &data, &len, NULL) == 0)
        return put_blob(k, data, len, &e->blob, err);
    return 0;
}

static int put_entry(keep *k, int64_t point, const entry *e, cay_err *err)
{
    sqlite3_stmt *s = NULL;
    char kind[2] = { e->kind, 0 };
    CAY_TRY(store_prepare(k->db,
                          "INSERT INTO files(kind, point, path, mode, size, mtime, blob) "
                          "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                          kind, point, &s, err));
    sqlite3_bind_blob(s, 3, e->path, (int)strlen(e->path), SQLITE_STATIC);
    sqlite3_bind_int64(s, 4, e->mode);
    sqlite3_bind_int64(s, 5, (int64_t)e->size);
    sqlite3_bind_int64(s, 6, e->mtime_ns);
    e->blob ? sqlite3_bind_int64(s, 7, e->blob) : sqlite3_bind_null(s, 7);
    return store_step(k->db, s, err);
}

static int take_files(keep *k, uint64_t turn, cay_err *err)
{
    __attribute__((cleanup(entries_clear))) entries now = { 0 }, before = { 0 };
    int64_t last = keep_last(k, err);
    if (last < 0)
        CAY_TRY((int)last);
    CAY_TRY(list_changes(k, &now, err));
    if (last)
        CAY_TRY(load_point(k, last, &before, err));
    CAY_TRY(store_begin(k->db, err));
    int rc = store_do(k->db, "INSERT INTO points(session, turn) VALUES(?1, ?2)", k->session,
                      (int64_t)turn, err);
    int64_t point = sqlite3_last_insert_rowid(k->db);
    for (size_t i = 0; rc == 0 && i < now.n; i++) {
        rc = fill_entry(k, &now.v[i], &before, err);
        if (rc == 0)
            rc = put_entry(k, point, &now.v[i], err);
    }
    return store_end(k->db, rc, err);
}

static int take_snapshot(keep *k, uint64_t turn, cay_err *err)
{
    cay_snapshot_spec spec = { .size = sizeof spec };
    cay_snapshot *snap = NULL;
    sqlite3_stmt *s = NULL;
    CAY_TRY(cay_sandbox_snapshot(k->sb, NULL, &spec, &snap, err));
    int rc = store_prepare(k->db, "INSERT INTO points(session, turn, snapshot) VALUES(?1, ?2, ?3)",
                           k->session, (int64_t)turn, &s, err);
    if (rc == 0) {
        sqlite3_bind_text(s, 3, snap->id, -1, SQLITE_STATIC);
        rc = store_step(k->db, s, err);
    }
    cay_snapshot_free(snap);
    return rc;
}

int keep_take(keep *k, uint64_t turn, cay_err *err)
{
    if (k->off)
        return 0;
    int rc;
    if (*k->dir)
        rc = take_files(k, turn, err);
    else
        rc = take_snapshot(k, turn, err);
    k->off = rc == CAY_ENOTSUP;
    return rc;
}

static void could_not(keep_done *d, const char *path)
{
    if (!d->left++)
        CAY_COPY(d->name, path);
}

static bool put_path(keep *k, const char *path, uint32_t mode, const char *data, size_t len)
{
    cay_write w = { .size = sizeof w, .mode = mode & 07777, .parents = true };
    cay_stat st = { .size_of = sizeof st };
    bool there = cay_file_stat(k->sb, NULL, path, false, &st, NULL) == 0;
    char want;
    if (S_ISDIR(mode))
        want = CAY_DIR;
    else if (S_ISLNK(mode))
        want = CAY_LINK;
    else
        want = CAY_FILE;
    if (there && ((char)st.type != want || want == CAY_LINK))
        cay_file_remove(k->sb, NULL, path, true, NULL);
    if (want == CAY_DIR && !(there && st.type == CAY_DIR) &&
        cay_file_mkdir(k->sb, NULL, path, mode & 07777, true, NULL) < 0)
        return false;
    if (want == CAY_DIR)
        return cay_file_chmod(k->sb, NULL, path, mode & 07777, NULL) == 0;
    if (want == CAY_LINK)
        return cay_file_symlink(k->sb, NULL, data, path, NULL) == 0;
    return cay_file_put(k->sb, NULL, path, data, len, &w, NULL) == 0 &&
           cay_file_chmod(k->sb, NULL, path, mode & 07777, NULL) == 0;
}

/* As the directory of the host has it; links on the way are not followed. */
static bool put_original(keep *k, int dir, const char *path)
{
    struct stat st;
    CAY_AUTOFD at = cay__fd_openat2(dir, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
                                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (at < 0) /* openat2 refuses a link at the end, too: its parent tells */
        at = cay__fd_openat2(dir, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, RESOLVE_BENEATH);
    if (at < 0 || fstat(at, &st) < 0)
        return false;
    if (S_ISDIR(st.st_mode))
        return put_path(k, path, st.st_mode, NULL, 0);
    CAY_AUTOFREE char *data = cay__alloc(S_ISLNK(st.st_mode) ? 4096 : FILE_MOST + 2);
    if (S_ISLNK(st.st_mode))
        return readlinkat(at, "", data, 4095) > 0 && put_path(k, path, st.st_mode, data, 0);
    CAY_AUTOFD fd = -1;
    if (S_ISREG(st.st_mode))
        fd = cay__fd_openat2(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0,
                             RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    ssize_t n = -1;
    if (fd >= 0)
        n = cay__fd_read_all(fd, data, FILE_MOST + 1);
    return n >= 0 && n <= FILE_MOST && put_path(k, path, st.st_mode, data, (size_t)n);
}

static bool put_kept(keep *k, const entry *e, bool *same)
{
    cay_stat st = { .size_of = sizeof st };
    sqlite3_stmt *s = NULL;
    bool there = cay_file_stat(k->sb, NULL, e->path, false, &st, NULL) == 0, ok = false;
    if (!e->mode) {
        *same = !there;
        return !there || cay_file_remove(k->sb, NULL, e->path, true, NULL) == 0;
    }
    *same = there &&
            (S_ISDIR(e->mode) ? st.type == CAY_DIR
                              : st.size == e->size && st.mtime_ns == e->mtime_ns) &&
            (st.mode & 07777) == (e->mode & 07777);
    if (*same || S_ISDIR(e->mode))
        return *same || put_path(k, e->path, e->mode, NULL, 0);
    if (!e->blob || store_prepare(k->db, "SELECT data FROM blobs WHERE n = ?2 AND ?1 = ?1", "",
                                  e->blob, &s, NULL) < 0)
        return false;
    if (sqlite3_step(s) == SQLITE_ROW) {
        size_t len = (size_t)sqlite3_column_bytes(s, 0);
        CAY_AUTOFREE char *data = cay__alloc(len + 1);
        if (len)
            memcpy(data, sqlite3_column_blob(s, 0), len);
        ok = put_path(k, e->path, e->mode, data, len);
    }
    sqlite3_finalize(s);
    return ok;
}

static int files_back(keep *k, int64_t point, keep_done *done, cay_err *err)
{
    __attribute__((cleanup(entries_clear))) entries now = { 0 }, then = { 0 };
    CAY_AUTOFD dir = open(k->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return cay_fail_sys(err, "%.200s", k->dir);
    CAY_TRY(list_changes(k, &now, err));
    CAY_TRY(load_point(k, point, &then, err));
    for (size_t i = 0; i < now.n;
         i++) { /* what was changed since goes back to how the directory has it */
        const entry *e = &now.v[i];
        bool yes = false;
        if (find_entry(&then, e->path))
            continue;
        if (e->kind == 'A')
            cay_file_exists(k->sb, NULL, e->path, &yes, NULL);
        bool ok;
        if (e->kind == 'A')
            ok = !yes || cay_file_remove(k->sb, NULL, e->path, true, NULL) == 0;
        else
            ok = put_original(k, dir, e->path);
        ok ? (void)done->files++ : could_not(done, e->path);
    }
    CAY_EACH_OF(it, then.v, then.n) {
        bool same = false;
        if (!put_kept(k, it, &same))
            could_not(done, it->path);
        else
            done->files += !same;
    }
    return 0;
}

static void drop_snapshots(keep *k, const char *sql, int64_t number)
{
    sqlite3_stmt *s = NULL;
    if (store_prepare(k->db, sql, k->session, number, &s, NULL) < 0)
        return;
    while (sqlite3_step(s) == SQLITE_ROW)
        cay_snapshot_remove(k->client, NULL, (const char *)sqlite3_column_text(s, 0), NULL, NULL);
    sqlite3_finalize(s);
}

#define OLDER                                                                                      \
    "session = ?1 AND turn < ?2 AND n NOT IN (SELECT max(n) FROM points WHERE session = ?1 GROUP " \
    "BY turn)"
int keep_thin(keep *k, uint64_t turn, cay_err *err)
{
    if (k->off)
        return 0;
    drop_snapshots(k, "SELECT snapshot FROM points WHERE snapshot NOT NULL AND " OLDER,
                   (int64_t)turn);
    CAY_TRY(store_do(k->db,
                     "DELETE FROM files WHERE point IN (SELECT n FROM points WHERE " OLDER ")",
                     k->session, (int64_t)turn, err));
    CAY_TRY(store_do(k->db, "DELETE FROM points WHERE " OLDER, k->session, (int64_t)turn, err));
    return store_do(
        k->db, "DELETE FROM blobs WHERE n NOT IN (SELECT blob FROM files WHERE blob IS NOT NULL)",
        NULL, 0, err);
}

/* Snapshots of points after that one are nobody's then. */
static void drop_after(keep *k, int64_t point)
{
    drop_snapshots(
        k, "SELECT snapshot FROM points WHERE session = ?1 AND n > ?2 AND snapshot NOT NULL",
        point);
}

void keep_drop(keep *k)
{
    drop_after(k, 0);
}

static int go_back(keep *k, int64_t point, keep_done *done, cay_err *err)
{
    sqlite3_stmt *s = NULL;
    char snapshot[64] = "";
    *done = (keep_done){ 0 };
    if (point <= 0) {
        if (point < 0)
            return (int)point;
        return cay_fail(err, CAY_ENOENT, "there is nothing to take the files back to");
    }
    CAY_TRY(store_prepare(k->db, "SELECT snapshot FROM points WHERE session = ?1 AND n = ?2",
                          k->session, point, &s, err));
    if (sqlite3_step(s) == SQLITE_ROW && sqlite3_column_text(s, 0))
        CAY_COPY(snapshot, (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    if (*snapshot)
        CAY_TRY(cay_sandbox_undo(k->sb, NULL, snapshot, NULL, err));
    else
        CAY_TRY(files_back(k, point, done, err));
    drop_after(k, point);
    CAY_TRY(store_do(
        k->db,
        "DELETE FROM files WHERE point IN (SELECT n FROM points WHERE session = ?1 AND n > ?2)",
        k->session, point, err));
    return store_do(k->db, "DELETE FROM points WHERE session = ?1 AND n > ?2", k->session, point,
                    err);
}

int keep_back(keep *k, uint64_t turn, keep_done *done, cay_err *err)
{
    return go_back(
        k, last_point(k, "SELECT max(n) FROM points WHERE session = ?1 AND turn < ?2", turn, err),
        done, err);
}

int keep_back_once(keep *k, keep_done *done, cay_err *err)
{
    return go_back(
        k,
        last_point(
            k,
            "SELECT n FROM points WHERE session = ?1 AND ?2 = 0 ORDER BY n DESC LIMIT 1 OFFSET 1",
            0, err),
        done, err);
}
