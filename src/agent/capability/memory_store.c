/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of memory between a sandbox and a directory of the host, or a store of the caller's. What
 * comes from the sandbox is somebody else's: only plain names below the two directories are taken,
 * only files, within bounds, and no link of the host is followed.
 */
#include "memory.h"
#include <base/fsop.h>
#include <time.h>

enum { STORE_BYTES = 256 << 20, STEP_MS = 50 };

typedef struct transfer {
    const cay__memory_at *at;
    const char *dir; /* in the sandbox */
    uint64_t bytes;
    char (*names)[256];
    size_t n;
    int rc;
    cay_err *err;
} transfer;

static bool plain_name(const char *p)
{
    for (const char *s = p; *s; s += strcspn(s, "/"), s += *s == '/') {
        size_t n = strcspn(s, "/");
        if (!n || *s == '.' || memchr(s, '\n', n))
            return false;
    }
    return *p && *p != '/' && strlen(p) < 256;
}

static int open_store(const char *store, const char *sub, cay_err *err)
{
    char path[4096];
    CAY_FORMAT(path, "%s/%s", store, sub);
    if ((mkdir(store, 0700) < 0 && errno != EEXIST) || (mkdir(path, 0700) < 0 && errno != EEXIST))
        return cay_fail_sys(err, "memory store %.200s", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return cay_fail_sys(err, "memory store %.200s", path);
    return fd;
}

static int restore_file(const cay__fs_entry *e, void *arg)
{
    transfer *t = arg;
    if (S_ISDIR(e->st->st_mode)) {
        if (plain_name(e->path))
            return 0;
        return CAY__FS_SKIP;
    }
    if (!S_ISREG(e->st->st_mode) || !plain_name(e->path) || e->st->st_size > CAY__MEMORY_FILE)
        return 0;
    CAY_AUTOFD fd = openat(e->dir, e->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    CAY_AUTOFREE char *data = cay__alloc((size_t)e->st->st_size + 1);
    ssize_t n = -1;
    if (fd >= 0)
        n = cay__fd_read_all(fd, data, (size_t)e->st->st_size);
    if (n < 0)
        return 0;
    t->bytes += (uint64_t)n;
    if (t->bytes > STORE_BYTES)
        t->rc = cay_fail(t->err, CAY_ETOOBIG, "the memory store is larger than 256 MiB");
    else
        t->rc = cay__memory_write(t->at, t->dir, e->path, data, (size_t)n, false, t->err);
    return t->rc;
}

static int fetch_dir(const cay__memory_at *at, const char *sub, const char *dir, cay_err *err)
{
    int fd = open_store(at->m->store, sub, err);
    CAY_TRY(fd);
    transfer t = { .at = at, .dir = dir, .err = err };
    cay__fs_walk w = { .fn = restore_file, .arg = &t, .depth = 4 };
    int rc = cay__fs_walk_fd(fd, &w);
    if (t.rc < 0)
        return t.rc;
    if (rc < 0)
        return cay_fail_sys(err, "memory store");
    return 0;
}

/* Where a name of the store is in the sandbox: NULL when it is none of ours. */
static const char *place_of(const cay__memory *m, const char *name, const char **dir)
{
    static const char *const subs[] = { "memories/", "sessions/" };
    const char *dirs[] = { m->memories, m->sessions };
    for (size_t i = 0; i < CAY_LEN(subs); i++)
        if (!strncmp(name, subs[i], strlen(subs[i])) && plain_name(name + strlen(subs[i]))) {
            *dir = dirs[i];
            return name + strlen(subs[i]);
        }
    return NULL;
}

static int put_kept(const char *name, void *arg)
{
    transfer *t = arg;
    const cay__memory *m = t->at->m;
    CAY_AUTOFREE char *data = NULL;
    size_t len = 0;
    const char *dir, *rest = place_of(m, name, &dir);
    if (!rest || t->n++ >= CAY__MEMORY_FILES)
        return 0;
    int rc = m->o.keeper->get(m->o.keeper_self, name, &data, &len, t->err);
    if (rc < 0 || len > CAY__MEMORY_FILE)
        return rc;
    t->bytes += len;
    if (t->bytes > STORE_BYTES)
        return cay_fail(t->err, CAY_ETOOBIG, "the memory store is larger than 256 MiB");
    return cay__memory_write(t->at, dir, rest, CAY_OR(data, ""), len, false, t->err);
}

static int fetch_all(const cay__memory_at *at, cay_err *err)
{
    if (at->m->o.keeper) {
        transfer t = { .at = at, .err = err };
        return at->m->o.keeper->list(at->m->o.keeper_self, put_kept, &t, err);
    }
    CAY_TRY(fetch_dir(at, "memories", at->m->memories, err));
    return fetch_dir(at, "sessions", at->m->sessions, err);
}

static int note_name(const cay_dirent *e, void *arg)
{
    transfer *t = arg;
    if (e->st.type != CAY_FILE || !plain_name(e->path) || e->st.size > CAY__MEMORY_FILE ||
        t->n == CAY__MEMORY_FILES)
        return 0;
    CAY_GROW(t->names, t->n);
    snprintf(t->names[t->n++], sizeof *t->names, "%s", e->path);
    return 0;
}

static int keep_file(const cay__memory *m, const char *sub, const char *file, const void *data,
                     size_t len, cay_err *err)
{
    char name[300];
    const cay__fs_write w = { .mode = 0600, .parents = true };
    if (m->o.keeper) {
        CAY_FORMAT(name, "%s/%s", sub, file);
        return m->o.keeper->put(m->o.keeper_self, name, data, len, err);
    }
    CAY_AUTOFD fd = open_store(m->store, sub, err);
    CAY_TRY(fd);
    const cay__fs fs = { .root = fd };
    CAY_TRY_SYS(cay__fs_put(&fs, file, data, len, &w), err, "memory store: %.100s", file);
    return 0;
}

static int commit_keeper(const cay__memory *m, cay_err *err)
{
    if (m->o.keeper && m->o.keeper->commit)
        return m->o.keeper->commit(m->o.keeper_self, err);
    return 0;
}

static int keep_dir(const cay__memory_at *at, const char *sub, const char *dir, cay_err *err)
{
    char path[4096];
    transfer t = { .at = at, .dir = dir, .err = err };
    CAY_FORMAT(path, "%s/%s", at->root, dir);
    int rc = cay_dir_list(at->sb, at->call, path, 4, note_name, &t, err);
    if (rc == CAY_ENOENT)
        rc = 0;
    for (size_t i = 0; rc == 0 && i < t.n; i++) {
        CAY_AUTOFREE char *data = NULL;
        size_t len = 0;
        if (cay__memory_read(at, dir, t.names[i], &data, &len, NULL) < 0)
            continue; /* changed or gone meanwhile */
        t.bytes += len;
        if (t.bytes > STORE_BYTES)
            rc = cay_fail(err, CAY_ETOOBIG, "the sandbox's memories are larger than 256 MiB");
        else
            rc = keep_file(at->m, sub, t.names[i], data, len, err);
    }
    free(t.names);
    return rc;
}

bool cay__memory_keeps(const cay__memory *m)
{
    return m->store || m->o.keeper;
}

static int keep_all(const cay__memory_at *at, cay_err *err)
{
    CAY_TRY(keep_dir(at, "memories", at->m->memories, err));
    CAY_TRY(keep_dir(at, "sessions", at->m->sessions, err));
    return commit_keeper(at->m, err);
}

struct timespec cay__memory_step(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += STEP_MS * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    return until;
}

/* A run that begins while the one before is still being kept would read half of it, and two that
 * are kept at once would be mixed. Whoever waits here can be canceled. */
static int lock_keeping(const cay__memory_at *at, cay_err *err)
{
    for (;;) {
        const struct timespec until = cay__memory_step();
        if (pthread_mutex_timedlock(&at->m->keeping, &until) == 0)
            return 0;
        CAY_TRY(cay__call_check(at->call, "waiting for memories that are being kept", err));
    }
}

static int run_locked(const cay__memory_at *at, int (*fn)(const cay__memory_at *at, cay_err *err),
                      cay_err *err)
{
    CAY_TRY(lock_keeping(at, err));
    int rc = fn(at, err);
    pthread_mutex_unlock(&at->m->keeping);
    return rc;
}

int cay__memory_fetch(const cay__memory_at *at, cay_err *err)
{
    return run_locked(at, fetch_all, err);
}
int cay__memory_keep(const cay__memory_at *at, cay_err *err)
{
    return run_locked(at, keep_all, err);
}

int cay__memory_keep_record(const cay__memory_at *at, const char *name, const char *text,
                            size_t len, cay_err *err)
{
    CAY_TRY(lock_keeping(at, err));
    int rc = keep_file(at->m, "sessions", name, text, len, err);
    if (rc == 0)
        rc = commit_keeper(at->m, err);
    pthread_mutex_unlock(&at->m->keeping);
    return rc;
}
