/* SPDX-License-Identifier: Apache-2.0 */
#include "archive.h"
#include <base/sha256.h>
#include <base/fault.h>
#include <base/json.h>
#include <base/tar.h>

enum { CHUNK = 1 << 17, MOST = 500000, NAMES_MOST = 128 << 20 };
#define BYTES_MOST (8ull << 30)
#define USUAL_ROOT "/workspace"

typedef struct twig {
    char type;
    uint32_t mode;
    uint64_t size;
    int64_t mtime;
    const char *path, *target;
} twig;

typedef struct saving {
    cay_sandbox *sb;
    const cay_call *call;
    const cay_export *spec;
    const char *root;
    int out;
    cay__arena mem;
    twig *twigs;
    size_t n, names; /* bytes of all their names */
    uint64_t bytes;
    cay__buf buf;
    cay__sha256 sum;
    cay_archived got;
    cay_err *err;
} saving;

static char tar_type(int type)
{
    if (type == CAY_FILE)
        return '0';
    if (type == CAY_DIR)
        return '5';
    return '2';
}

static int on_entry(const cay_dirent *e, void *arg)
{
    saving *s = arg;
    if (e->st.type == CAY_OTHER) /* sockets and pipes are no part of a saved workspace */
        return 0;
    if (s->n == MOST)
        return cay_fail_why(s->err, CAY_ETOOBIG, "archive_limit", "more than %d files", MOST);
    /* A size costs nothing in there, where a file may be one hole; out here it is written. */
    if (e->st.type == CAY_FILE && e->st.size > BYTES_MOST - s->bytes)
        return cay_fail_why(s->err, CAY_ETOOBIG, "archive_limit",
                            "the files have more than %llu GiB together, with %.150s",
                            BYTES_MOST >> 30, e->path);
    s->names += strlen(e->path) + strlen(e->st.target);
    if (s->names > NAMES_MOST)
        return cay_fail_why(s->err, CAY_ETOOBIG, "archive_limit",
                            "the names of the files have more than %d MiB together",
                            NAMES_MOST >> 20);
    if (e->st.type == CAY_FILE)
        s->bytes += e->st.size;
    CAY_GROW(s->twigs, s->n);
    s->twigs[s->n++] = (twig){ .type = tar_type(e->st.type),
                               .mode = e->st.mode & 0777,
                               .size = e->st.type == CAY_FILE ? e->st.size : 0,
                               .mtime = e->st.mtime_ns / 1000000000,
                               .path = cay__arena_str(&s->mem, e->path),
                               .target = cay__arena_str(&s->mem, e->st.target) };
    return 0;
}

static int flush_output(saving *s)
{
    if (s->buf.full || !cay__fd_write_all(s->out, s->buf.data, s->buf.len))
        return cay_fail_sys(s->err, "write the archive");
    cay__sha256_add(&s->sum, s->buf.data, s->buf.len);
    s->buf.len = 0;
    return 0;
}

/* As many bytes as its head said. */
static int put_bytes(saving *s, const twig *w)
{
    CAY_AUTOFREE char *path = cay__alloc(strlen(s->root) + strlen(w->path) + 2);
    CAY_AUTOFD fd = -1;
    cay__str_join(path, strlen(s->root) + strlen(w->path) + 2, s->root, "/", w->path, NULL);
    CAY_TRY(cay_file_open_read(s->sb, s->call, path, NULL, &fd, s->err));
    for (uint64_t left = w->size; left;) {
        CAY_TRY(cay__call_check(s->call, "export", s->err));
        size_t want = (size_t)CAY_MIN(left, (uint64_t)CHUNK);
        char *room = cay__buf_room(&s->buf, want);
        ssize_t n = -1;
        if (room)
            n = read(fd, room, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n < 0)
                return cay_fail_sys(s->err, "read %.200s", path);
            return cay_fail_why(s->err, CAY_EBUSY, "workspace_changed",
                                "%.200s was changed while it was read; try again", path);
        }
        cay__buf_used(&s->buf, (size_t)n);
        left -= (uint64_t)n;
        if (s->buf.len > CHUNK)
            CAY_TRY(flush_output(s));
    }
    cay__tar_pad(&s->buf, w->size);
    return 0;
}

static int put_member(saving *s, const twig *w, cay__member *m)
{
    *m = (cay__member){ .type = w->type,
                        .mode = w->mode,
                        .size = w->size,
                        .uid = 1000,
                        .gid = 1000,
                        .mtime = w->mtime };
    if (!CAY_JOIN(m->name, *w->path ? "./" : ".", w->path,
                  CAY_TEXT_IF(w->type == '5' && *w->path, "/")) ||
        !CAY_COPY(m->target, w->target))
        return cay_fail_why(s->err, CAY_EINVAL, "archive_limit",
                            "%.200s is longer than a tar can tell", w->path);
    cay__tar_head(&s->buf, m);
    if (w->type == '0')
        CAY_TRY(put_bytes(s, w));
    s->got.files++;
    s->got.bytes += w->size;
    if (s->spec && s->spec->progress && s->got.files % 256 == 0 &&
        s->spec->progress(s->got.files, s->got.bytes, s->spec->arg))
        return cay_fail(s->err, CAY_ECANCELED, "export was stopped");
    if (s->buf.len > CHUNK)
        return flush_output(s);
    return 0;
}

static int put_all(saving *s)
{
    static const char end[1024];
    CAY_AUTOFREE cay__member *m = cay__alloc(sizeof *m);
    CAY_TRY(put_member(s, &(twig){ .type = '5', .mode = 0755, .path = "", .target = "" }, m));
    for (size_t i = 0; i < s->n; i++)
        CAY_TRY(put_member(s, &s->twigs[i], m));
    cay__buf_add(&s->buf, end, sizeof end);
    return flush_output(s);
}

int cay__workspace_save(cay_sandbox *sb, const cay_call *call, const char *root,
                        const cay_export *spec, int fd, cay_archived *out, cay_err *err)
{
    char hex[CAY__SHA256_HEX];
    saving s = { .sb = sb,
                 .call = call,
                 .spec = spec,
                 .root = root,
                 .out = fd,
                 .buf = CAY__BUF(8u << 20),
                 .got = { .size = sizeof s.got },
                 .err = err };
    cay__sha256_begin(&s.sum);
    int rc = cay_dir_list(sb, call, root, 0, on_entry, &s, err);
    if (rc == 0)
        rc = put_all(&s);
    cay__sha256_end(&s.sum, hex);
    CAY_JOIN(s.got.digest, "sha256:", hex);
    if (rc == 0 && out)
        cay__answer_give(out, &s.got, sizeof s.got);
    cay__buf_clear(&s.buf);
    cay__arena_clear(&s.mem);
    free(s.twigs);
    return rc;
}

/* Where its files were. */
static const char *root_of(const char *spec, cay__arena *mem)
{
    CAY_AUTOJSON *o = NULL;
    CAY_AUTOFREE char *at = NULL;
    if (cay__json_object("spec", spec, &o, NULL) == 0)
        at = cay__json_to_bytes(json_object_get(o, "workdir"));
    if (at && *at == '/' && at[1])
        return cay__arena_str(mem, at);
    return USUAL_ROOT;
}

/* Without a record, so that it ends with this program: whatever becomes of that, nothing is left.
 */
int cay__workspace_export(cay_client *client, const cay_call *call, const cay_snap_row *snap,
                          const cay_export *spec, int fd, cay_archived *out, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    cay_sandbox *sb = NULL;
    cay_create c = { .size = sizeof c,
                     .provider = snap->provider,
                     .from.snapshot = snap->id,
                     .process.user = "root",
                     .life.ephemeral = true };
    if (!spec->format || strcmp(spec->format, "tar") != 0)
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_opaque",
                            "snapshot %s is kept by provider %s as its own image; its workspace "
                            "can be had by --format tar, all of it by a fork",
                            snap->id, snap->provider);
    CAY_AUTOFD file = -1;
    CAY_TRY(cay__temp_file(client, "the archive", &file, err));
    CAY_TRY(cay__create_own(client, call, &c, &sb, err));
    CAY_FAULT("workspace.made");
    int rc = cay__workspace_save(sb, call, root_of(snap->spec, &mem), spec, file, out, err);
    cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
    /* Nothing leaves before all of it is there. */
    CAY_TRY(rc);
    return cay__archive_copy(file, fd, err);
}

typedef struct member {
    cay_fill_item item;
    off_t at; /* of its bytes */
} member;

typedef struct filling {
    int fd;
    off_t at; /* read so far */
    cay__arena mem;
    member *members;
    size_t n;
} filling;

static int read_tar(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    filling *f = arg;
    ssize_t got = pread(f->fd, buf, cap, f->at);
    if (got < 0)
        return cay_fail_sys(err, "read the archive");
    f->at += got;
    *n = (size_t)got;
    return 0;
}

/* A relative name without "..", as our own archives have them. */
static bool name_ok(const char *s)
{
    if (!*s || *s == '/')
        return false;
    for (const char *p = s; p; p = strchr(p, '/'), p = CAY_IF(p, p + 1))
        if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/'))
            return false;
    return true;
}

static int take_member(filling *f, const char *root, cay__member *m, cay_err *err)
{
    char path[CAY__TAR_NAME * 2];
    const char *name = m->name;
    while (name[0] == '.' && name[1] == '/')
        name += 2;
    size_t n = strlen(name);
    while (n && name[n - 1] == '/')
        n--;
    m->name[(size_t)(name - m->name) + n] = 0;
    if (!n || !strcmp(name, "."))
        return 0;
    bool known = m->type == '0' || m->type == '5' || m->type == '2';
    if (!known || !name_ok(name) || !CAY_JOIN(path, root, "/", name) || f->n == MOST)
        return cay_fail_why(err, CAY_EINVAL, "archive_corrupt",
                            "member %.150s is not one of a workspace", m->name);
    CAY_GROW(f->members, f->n);
    static const char types[] = { ['0'] = 'f', ['5'] = 'd', ['2'] = 'l' };
    cay_fill_item it = { .type = types[(unsigned char)m->type],
                         .path = cay__arena_str(&f->mem, path),
                         .mode = m->mode & 0777,
                         .gid = UINT32_MAX,
                         .fd = -1 };
    if (m->type == '2') {
        it.data = cay__arena_str(&f->mem, m->target);
        it.len = strlen(m->target);
    } else if (m->type == '0') {
        it.len = (size_t)m->size;
    }
    f->members[f->n++] = (member){ it, f->at };
    return 0;
}

static int get_member(size_t i, cay_fill_item *out, void *arg, cay_err *err)
{
    const filling *f = arg;
    const member *m = &f->members[i];
    *out = m->item;
    if (m->item.type != 'f')
        return 0;
    out->fd = f->fd;
    if (lseek(f->fd, m->at, SEEK_SET) == m->at)
        return 0;
    return cay_fail_sys(err, "read the archive");
}

typedef struct clearing {
    char **paths;
    size_t n;
    const char *root;
} clearing;

static int on_old(const cay_dirent *e, void *arg)
{
    clearing *c = arg;
    char *path = cay__alloc(strlen(c->root) + strlen(e->path) + 2);
    cay__str_join(path, strlen(c->root) + strlen(e->path) + 2, c->root, "/", e->path, NULL);
    CAY_GROW(c->paths, c->n);
    c->paths[c->n++] = path;
    return 0;
}

/* What is mounted there stays, and so do the directories above it. */
static int clear_workspace(cay_sandbox *sb, const cay_call *call, const char *root, cay_err *err)
{
    clearing c = { .root = root };
    cay_err own = CAY_ERR_INIT;
    int rc = cay_dir_list(sb, call, root, 1, on_old, &c, &own);
    CAY_EACH_OF(path, c.paths, c.n) {
        if (rc == 0)
            rc = cay_file_remove(sb, call, *path, true, &own);
        if (rc < 0 && own.sys == EBUSY)
            rc = 0;
        free(*path);
    }
    free(c.paths);
    if (rc < 0 && rc != CAY_ENOENT && err)
        *err = own;
    if (rc == CAY_ENOENT)
        return 0;
    return rc;
}

int cay__workspace_fill(cay_sandbox *sb, const cay_call *call, const char *root, int fd,
                        cay_err *err)
{
    filling f = { .fd = fd };
    cay__tar tar = { .read = read_tar, .arg = &f };
    CAY_AUTOFREE cay__member *m = cay__alloc(sizeof *m);
    int rc, more = 0;
    /* All of it is judged before the first change. */
    while ((rc = more = cay__tar_next(&tar, m, err)) > 0 &&
           (rc = take_member(&f, root, m, err)) == 0)
        ;
    if (rc == 0)
        rc = clear_workspace(sb, call, root, err);
    if (rc == 0) {
        const cay_fill all = { .size = sizeof all, .n = f.n, .get = get_member, .arg = &f };
        rc = cay_file_fill(sb, call, &all, err);
    }
    free(f.members);
    cay__arena_clear(&f.mem);
    return rc;
}

int cay__workspace_hydrate(cay_client *client, const cay_call *call, const cay_create *c,
                           const cay_provider_ops *ops, const char *id, void *box, cay_err *err)
{
    const cay_export spec = { .size = sizeof spec, .ref = c->from.snapshot, .format = "tar" };
    CAY_AUTOFD file = -1;
    CAY_TRY(cay__temp_file(client, "the archive", &file, err));
    CAY_TRY(cay_client_export(client, call, &spec, file, NULL, err));
    CAY_FAULT("workspace.read");
    cay_sandbox *sb = cay__sandbox_new(ops, id, box);
    int rc = cay__workspace_fill(sb, call, CAY_OR(c->process.workdir, USUAL_ROOT), file, err);
    sb->box = NULL; /* the caller's */
    cay_sandbox_unref(sb);
    return cay_wrap(err, rc, "snapshot %s", c->from.snapshot);
}
