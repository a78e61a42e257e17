/* SPDX-License-Identifier: Apache-2.0 */
/* Trees as archives, out and in. Every file goes through the sandbox's own calls, so an archive
 * reaches no further than its user does. */
#include "native.h"
#include <base/fsop.h>
#include <base/tar.h>
#include <sys/eventfd.h>

enum {
    ENTRIES_MAX = 1000000,
    NAMES_MAX = 128 << 20,
    TURN = 128 << 10,
    FIRST = 32 << 10,
    DIRS_MAX = 10000
};

typedef struct entry {
    struct entry *next;
    uint64_t size;
    int64_t mtime;
    uint32_t mode, uid, gid;
    char type;
    char names[]; /* path, NUL, target, NUL */
} entry;

typedef struct packer {
    cay_sandbox *sb;
    char *base; /* the directory; "" when the path is a file of its own */
    cay__arena mem;
    entry *first, **last;
    size_t n, bytes;
    int fd; /* the file under way, or -1 */
    uint64_t left, size;
    int turn; /* eventfd: always readable, so that work goes on whenever there is room */
} packer;

static int on_entry(const cay_dirent *e, void *arg)
{
    packer *k = arg;
    char type;
    if (e->st.type == CAY_FILE)
        type = '0';
    else if (e->st.type == CAY_DIR)
        type = '5';
    else if (e->st.type == CAY_LINK)
        type = '2';
    else
        type = 0;
    size_t a = strlen(e->path) + 1, b = e->st.type == CAY_LINK ? strlen(e->st.target) + 1 : 1;
    const char *slash = strrchr(e->path, '/');
    if (!type || a >= CAY__TAR_NAME - 1 ||
        cay__str_starts(slash ? slash + 1 : e->path, CAY__FS_TMP))
        return 0; /* sockets, pipes, devices; what is being written and has no name yet */
    if (++k->n > ENTRIES_MAX || (k->bytes += sizeof(entry) + a + b) > NAMES_MAX)
        return CAY_ETOOBIG;
    entry *o = cay__arena_take(&k->mem, sizeof *o + a + b);
    *o = (entry){ .size = type == '0' ? e->st.size : 0,
                  .mtime = e->st.mtime_ns / 1000000000,
                  .mode = e->st.mode,
                  .uid = e->st.uid,
                  .gid = e->st.gid,
                  .type = type };
    memcpy(o->names, e->path, a);
    memcpy(o->names + a, e->st.type == CAY_LINK ? e->st.target : "", b);
    *k->last = o;
    k->last = &o->next;
    return 0;
}

/* Opens the file and reads its first bytes. 1: there are no more. */
static int open_first(packer *k, const cay_call *call, const char *path, char *first, size_t *n)
{
    CAY_TRY(cay_file_open_read(k->sb, call, path, NULL, &k->fd, NULL));
    for (*n = 0; *n < FIRST;) {
        ssize_t got = read(k->fd, first + *n, FIRST - *n);
        if (got == 0)
            return 1;
        if (got < 0 && errno != EINTR)
            return CAY_EGONE;
        if (got > 0)
            *n += (size_t)got;
    }
    return 0;
}

/* The first bytes of a member's file, before its head is written, and how long it is. One that is
 * gone is just not there; another may have been put in its place since it was listed. One that ends
 * within these bytes is as long as they are; of a longer one stat(2) tells. */
static int open_member(packer *k, const cay_call *call, const entry *e, char *first, size_t *n,
                       uint64_t *size)
{
    char path[2 * CAY__TAR_NAME];
    CAY_JOIN(path, k->base, *k->base ? "/" : "", e->names);
    int rc = open_first(k, call, path, first, n);
    cay_stat st = { .size_of = sizeof st };
    for (int i = 1, again = 1; rc == 0 && again == 1; i++) {
        cay__close_fd(&k->fd);
        CAY_TRY(cay_file_stat(k->sb, call, path, true, &st, NULL));
        rc = open_first(k, call, path, first, n);
        if (rc == 0)
            again = cay__file_again(k->sb, call, path, &st, i, NULL);
        else
            again = 0;
        CAY_TRY(again);
    }
    if (rc == 1)
        *size = *n;
    else
        *size = st.size;
    *n = (size_t)CAY_MIN(*n, *size);
    return CAY_MIN(rc, 0);
}

static int begin_member(packer *k, const cay_call *call, cay__buf *out)
{
    entry *e = k->first;
    cay__member *m = cay__alloc(sizeof *m);
    CAY_AUTOFREE char *first = NULL;
    if (e->size)
        first = cay__alloc(FIRST);
    size_t n = 0;
    uint64_t size = 0;
    int rc = 0;
    if (e->size)
        rc = open_member(k, call, e, first, &n, &size);
    k->first = e->next;
    *m = (cay__member){ .type = e->type,
                        .mode = e->mode,
                        .uid = e->uid,
                        .gid = e->gid,
                        .size = size,
                        .mtime = e->mtime };
    CAY_JOIN(m->name, e->names, e->type == '5' ? "/" : "");
    CAY_COPY(m->target, e->names + strlen(e->names) + 1);
    if (rc >= 0) {
        cay__tar_head(out, m);
        cay__buf_add(out, first, n);
        k->size = size;
        k->left = size - n;
        if (!k->left) {
            cay__close_fd(&k->fd);
            cay__tar_pad(out, k->size);
        }
    }
    free(m);
    if (rc == CAY_ENOENT)
        return 0;
    return rc;
}

static int copy_member_piece(packer *k, cay__buf *out)
{
    size_t want = (size_t)CAY_MIN(k->left, (uint64_t)TURN / 2);
    char *room = cay__buf_room(out, want);
    ssize_t n = -1;
    if (room)
        n = read(k->fd, room, want);
    if (n < 0 && errno == EINTR)
        return 0;
    if (n <= 0)
        return CAY_EGONE; /* it became shorter: only a cut tells */
    cay__buf_used(out, (size_t)n);
    k->left -= (uint64_t)n;
    if (k->left)
        return 0;
    cay__close_fd(&k->fd);
    cay__tar_pad(out, k->size);
    return 0;
}

static int pack_work(cay__pump *p, cay__buf *out)
{
    packer *k = p->self;
    cay_call call = { .size = sizeof call, .deadline_ms = cay__native_now() + 30000 };
    while (out->len < TURN) {
        if (k->fd < 0 && !k->first) {
            static const char end[1024];
            cay__buf_add(out, end, sizeof end);
            return CAY__PUMP_END;
        }
        if (k->fd >= 0)
            CAY_TRY(copy_member_piece(k, out));
        else
            CAY_TRY(begin_member(k, &call, out));
    }
    return CAY__PUMP_ON;
}

static int pack_pull(cay__pump *p, unsigned ready, cay__buf *out)
{
    if (ready)
        return CAY__PUMP_WORK;
    return CAY__PUMP_ON;
}

static void pack_close(cay__pump *p)
{
    packer *k = p->self;
    cay__close_fd(&k->fd);
    cay__close_fd(&k->turn);
    cay__arena_clear(&k->mem);
    cay_sandbox_unref(k->sb);
    free(k->base);
    free(k);
}

/* A directory gives what is in it; a file gives itself, by its last name. */
static int collect_entries(packer *k, cay__req *r, const char *path, cay_err *err)
{
    cay_dirent e = { .st = { .size_of = sizeof e.st } };
    CAY_TRY(cay_file_stat(k->sb, &r->call, path, true, &e.st, err));
    if (e.st.type == CAY_DIR) {
        k->base = cay__strdup(path);
        int rc = cay_dir_list(k->sb, &r->call, path, 0, on_entry, k, err);
        if (rc == CAY_ETOOBIG)
            return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                                "%.200s has more than %d files; take a part of it", path,
                                ENTRIES_MAX);
        return rc;
    }
    const char *slash = strrchr(path, '/');
    if (slash)
        k->base = strndup(path, (size_t)(slash - path) + (slash == path));
    else
        k->base = cay__strdup("");
    if (slash)
        e.path = slash + 1;
    else
        e.path = path;
    return on_entry(&e, k);
}

int cay__on_file_tar_get(cay__req *r, cay_err *err)
{
    cay__file_query q = { 0 };
    CAY_TRY(cay__req_asked(r, &q, err));
    packer *k = cay__alloc(sizeof *k);
    *k = (packer){ .sb = cay_sandbox_ref(r->sb),
                   .fd = -1,
                   .turn = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK) };
    k->last = &k->first;
    cay__pump p = { .fd = { k->turn, -1, -1 },
                    .self = k,
                    .pull = pack_pull,
                    .work = pack_work,
                    .close = pack_close };
    int rc;
    if (k->turn < 0)
        rc = cay_fail_sys(err, "eventfd");
    else
        rc = collect_entries(k, r, q.path, err);
    if (rc < 0) {
        pack_close(&p);
        return rc;
    }
    return cay__reply_pump(r, 200, "application/x-tar", &p);
}

/* A directory whose owner may not write into it gets its mode when all is in place. */
typedef struct later {
    struct later *next;
    uint32_t mode;
    char path[];
} later;

typedef struct unpacker {
    cay__req *r;
    cay__file_query q;
    cay__tar tar;
    cay__member m;
    later *dirs;
    size_t ndirs;
    cay__unpacked n;
} unpacker;

static int give_member(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    return cay__tar_bytes(arg, buf, cap, n, err);
}

static int make_dir(unpacker *u, const char *path, cay_err *err)
{
    bool closed = (u->m.mode & 0700) != 0700;
    CAY_TRY(cay_file_mkdir(u->r->sb, &u->r->call, path, closed ? 0755 : u->m.mode, true, err));
    u->n.directories++;
    if (!closed)
        return 0;
    if (++u->ndirs > DIRS_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "archive_limit",
                            "more than %d directories that are closed to their owner", DIRS_MAX);
    later *l = cay__arena_take(&u->r->arena, sizeof *l + strlen(path) + 1);
    *l = (later){ .next = u->dirs, .mode = u->m.mode };
    memcpy(l->path, path, strlen(path) + 1);
    u->dirs = l;
    return 0;
}

/* A key of files makes no link that leads out of them: it could read and write everything by it. */
static int check_link(const unpacker *u, cay_err *err)
{
    if (u->r->who.scope != CAY__SCOPE_FILE || cay__native_below(u->m.target))
        return 0;
    return cay_fail_why(err, CAY_EPERM, "scope_too_narrow",
                        "member %.100s: a link that is sent with a key of files leads below, "
                        "without ..",
                        u->m.name);
}

static int make_link(unpacker *u, const char *path, cay_err *err)
{
    CAY_TRY(check_link(u, err));
    int rc = cay_file_symlink(u->r->sb, &u->r->call, u->m.target, path, err);
    char up[2 * CAY__TAR_NAME];
    if (rc == CAY_EEXIST) {
        CAY_TRY(cay_file_remove(u->r->sb, &u->r->call, path, false, err));
        rc = cay_file_symlink(u->r->sb, &u->r->call, u->m.target, path, err);
    } else if (rc == CAY_ENOENT && CAY_COPY(up, path) &&
               strrchr(up, '/')) { /* its directory was not in the archive */
        *strrchr(up, '/') = 0;
        CAY_TRY(cay_file_mkdir(u->r->sb, &u->r->call, up, 0755, true, err));
        rc = cay_file_symlink(u->r->sb, &u->r->call, u->m.target, path, err);
    }
    u->n.links += rc >= 0;
    return rc;
}

static int extract_member(unpacker *u, cay_err *err)
{
    char path[2 * CAY__TAR_NAME];
    const char *name = u->m.name;
    uint64_t total = 0;
    while (!strncmp(name, "./", 2))
        name += 2 + strspn(name + 2, "/");
    size_t n = strlen(name);
    while (n && name[n - 1] == '/')
        u->m.name[(size_t)(name - u->m.name) + --n] = 0;
    if (!n || !strcmp(name, "."))
        return 0; /* path itself */
    if (!cay__native_below(name) || strchr(name, '\n'))
        return cay_fail_why(err, CAY_EINVAL, "archive_path",
                            "member %.100s leads elsewhere; want a path below, without ..",
                            u->m.name);
    CAY_JOIN(path, u->q.path, "/", name);
    cay_write spec = { .size = sizeof spec, .mode = u->m.mode, .parents = true };
    switch (u->m.type) {
    case '0':
        CAY_TRY(cay__native_store(u->r, path, &spec, give_member, &u->tar, &total, err));
        u->n.files++;
        u->n.bytes += total;
        return 0;
    case '5': return make_dir(u, path, err);
    case '2': return make_link(u, path, err);
    }
    return cay_fail_why(err, CAY_EINVAL, "archive_special",
                        "member %.100s is no file, directory or symbolic link", u->m.name);
}

int cay__on_file_tar_put(cay__req *r, cay_err *err)
{
    unpacker *u = cay__arena_take(&r->arena, sizeof *u);
    int more;
    *u = (unpacker){ .r = r, .tar = { .read = cay__native_body, .arg = r } };
    CAY_TRY(cay__req_asked(r, &u->q, err));
    CAY_TRY(cay_file_mkdir(r->sb, &r->call, u->q.path, 0755, true, err));
    while ((more = cay__tar_next(&u->tar, &u->m, err)) > 0)
        CAY_TRY(extract_member(u, err));
    if (more < 0)
        return more;
    for (const later *l = u->dirs; l; l = l->next)
        CAY_TRY(cay_file_chmod(r->sb, &r->call, l->path, l->mode, err));
    return cay__reply_object(r, &u->n);
}
