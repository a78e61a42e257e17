/* SPDX-License-Identifier: Apache-2.0 */
/* Entries become nodes; where a local source may be is judged here. */
#include "plan.h"
#include <limits.h>
#include <linux/openat2.h>

static uint32_t *find_slot(const cay__plan *p, const char *path)
{
    size_t at = cay__hash(path, strlen(path)) & (p->nindex - 1);
    while (p->index[at] && strcmp(p->nodes[p->index[at] - 1].path, path))
        at = (at + 1) & (p->nindex - 1);
    return &p->index[at];
}

static void index_grow(cay__plan *p)
{
    if (2 * (p->n + 1) < p->nindex)
        return;
    if (p->nindex)
        p->nindex = 2 * p->nindex;
    else
        p->nindex = 256;
    free(p->index);
    p->index = cay__alloc(p->nindex * sizeof *p->index);
    for (size_t i = 0; i < p->n; i++)
        *find_slot(p, p->nodes[i].path) = (uint32_t)i + 1;
}

int cay__plan_add(cay__plan *p, const cay__node *n, cay_err *err)
{
    index_grow(p);
    uint32_t *at = find_slot(p, n->path);
    p->ephemeral |= n->ephemeral;
    if (*at) { /* the later entry wins: one of its own over a member of a directory */
        cay__node *old = &p->nodes[*at - 1];
        bool dirs = (old->type == 'd' || old->type == 'p' || old->type == 'g') &&
                    (n->type == 'd' || n->type == 'p' || n->type == 'g');
        if (!dirs && (old->type == 'd' || n->type == 'd' || old->type == 'p'))
            return cay__bad(err, "invalid_manifest_path", n->path, "not_a_directory",
                            "a file and a directory want this path");
        if (n->type != 'p' && n->entry >= old->entry)
            *old = *n;
        return 0;
    }
    p->nodes = cay__more(p->nodes, p->n, sizeof *n);
    p->nodes[p->n++] = *n;
    *at = (uint32_t)p->n;
    return 0;
}

/* Directories above a path that no entry speaks of: the owner's, 0755. */
static int add_parents(cay__plan *p, const char *path, const char *root, uint32_t entry,
                       cay_err *err)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t n = (size_t)(slash - path);
        char up[CAY_MANIFEST_PATH * 2];
        if (n >= sizeof up)
            return cay__bad(err, "invalid_manifest_path", path, "too_long", "its path is too long");
        memcpy(up, path, n);
        up[n] = 0;
        index_grow(p);
        uint32_t there = *find_slot(p, up);
        if (there) {
            if (p->nodes[there - 1].type == 'f' || p->nodes[there - 1].type == 'l')
                return cay__bad(err, "invalid_manifest_path", path, "not_a_directory",
                                "above it there is a file or a link");
            continue;
        }
        bool above = !cay__path_below(up, root) || !strcmp(up, root);
        cay__node node = { .type = 'd',
                           .mode = 0755,
                           .entry = entry,
                           .group = "",
                           .text = "",
                           .path = cay__arena_str(&p->mem, up) };
        if (above && strcmp(up, root)) {
            node.type = 'p';
            node.entry = 0;
        }
        CAY_TRY(cay__plan_add(p, &node, err));
    }
    return 0;
}

/* What stands in an ephemeral directory is as passing as that. */
bool cay__plan_ephemeral(const cay__plan *p, const cay__entry *e, void *unused)
{
    char up[CAY_MANIFEST_PATH];
    CAY_COPY(up, e->path);
    for (char *slash; !e->ephemeral && (slash = strrchr(up, '/'));) {
        *slash = 0;
        const cay__entry *above = cay__entry_find(p->m, up);
        e = CAY_OR(above, e);
    }
    return e->ephemeral;
}

static int source_add(cay__plan *p, int fd, uint32_t *out)
{
    char link[40], path[PATH_MAX];
    struct stat st;
    CAY_FORMAT(link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0 || fstat(fd, &st) < 0 || *path != '/')
        return -1;
    path[n] = 0;
    for (size_t i = 0; i < p->nsources; i++)
        if (!strcmp(p->sources[i].path, path)) {
            close(fd);
            *out = (uint32_t)i + 1;
            return 0;
        }
    p->sources = cay__more(p->sources, p->nsources, sizeof *p->sources);
    p->sources[p->nsources++] =
        (cay__plan_source){ cay__arena_str(&p->mem, path), st.st_dev, st.st_ino, fd };
    *out = (uint32_t)p->nsources;
    return 0;
}

/* The directory that a source may be in, and its path below it: the manifest's own directory, or
 * the longest grant. */
static int find_place(cay__plan *p, const cay__entry *e, const char *base, const char *src,
                      const char **dir, char **rel, cay_err *err)
{
    CAY_AUTOFREE char *whole = NULL, *normal = NULL;
    char real[PATH_MAX];
    if (base && !realpath(base, real))
        return cay_fail_sys(err, "manifest: its directory %.150s", base);
    if (*src != '/' && !base)
        return cay__local_bad(err, e, src, "outside_base_dir", 0);
    size_t n = strlen(src) + PATH_MAX + 2;
    whole = cay__alloc(n);
    if (*src == '/')
        cay__str_copy(whole, n, src);
    else
        cay__str_join(whole, n, real, "/", src, NULL);
    if (!cay__path_normal(whole, &normal))
        return cay__local_bad(err, e, src, "outside_base_dir", 0);
    *dir = NULL;
    if (base && cay__path_below(normal, real))
        *dir = cay__arena_str(&p->mem, real);
    CAY_EACH_OF(grant, p->m->grants, p->m->ngrants) {
        const char *g = CAY_OR(grant->host_path, grant->path);
        if (cay__path_below(normal, g) && (!*dir || strlen(g) > strlen(*dir)))
            *dir = g;
    }
    if (!*dir)
        return cay__local_bad(err, e, src, "outside_base_dir", 0);
    const char *below = normal + (strcmp(*dir, "/") ? strlen(*dir) : 0);
    *rel = cay__arena_str(&p->mem, below + (*below == '/'));
    return 0;
}

/* Opens what is meant, each part of the path relative to its parent and none of them a link. */
static int open_source(cay__plan *p, const cay__entry *e, const char *base, const char *src,
                       int flags, int *fd, uint32_t *source, char **rel, cay_err *err)
{
    const char *dir;
    struct stat st;
    CAY_TRY(find_place(p, e, base, src, &dir, rel, err));
    CAY_AUTOFD top = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC),
               root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat a, b;
    if (top < 0)
        return cay__local_bad(err, e, dir, errno == ENOENT ? "path_not_found" : "unreadable",
                              errno);
    /* A grant that is a link to / would be a grant of everything. */
    if (root < 0 || fstat(top, &a) < 0 || fstat(root, &b) < 0 ||
        (a.st_dev == b.st_dev && a.st_ino == b.st_ino))
        return cay__local_bad(err, e, dir, "outside_base_dir", 0);
    *fd = cay__fd_openat2(top, cay__text_or(*rel, "."),
                          (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), 0,
                          RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (*fd < 0) {
        const char *word;
        if (errno == ENOENT)
            word = "path_not_found";
        else if (errno == ELOOP)
            word = "symlink_not_supported";
        else if (errno == ENOTDIR)
            word = "not_a_directory";
        else if (errno == EXDEV)
            word = "outside_base_dir";
        else
            word = "unreadable";
        /* O_DIRECTORY on a link says ENOTDIR. */
        if (errno == ENOTDIR && fstatat(top, *rel, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(st.st_mode))
            word = "symlink_not_supported";
        return cay__local_bad(err, e, src, word, errno);
    }
    if (source_add(p, CAY_STEAL_FD(top), source) < 0) {
        cay__close_fd(fd);
        return cay__local_bad(err, e, src, "unreadable", errno);
    }
    return 0;
}

static int add_local_file(cay__plan *p, const cay__entry *e, const char *base, const char *path,
                          cay_err *err)
{
    const char *src = cay__member(e->fields, "src");
    struct stat st;
    uint32_t source;
    char *rel;
    int fd;
    CAY_TRY(open_source(p, e, base, src, O_RDONLY | O_NOCTTY, &fd, &source, &rel, err));
    int rc = fstat(fd, &st);
    close(fd);
    if (rc < 0 || !S_ISREG(st.st_mode))
        return cay__local_bad(err, e, src, "not_a_file", 0);
    return cay__plan_file(p, e, source, rel, path, &st, err);
}

static int read_ignore(const cay__entry *e, int dir, cay__ignore *ig, cay_err *err)
{
    enum { MOST = 1 << 20 };
    const char *name = cay__member(e->fields, "ignore_file");
    const json_t *list = json_object_get(e->fields, "exclude"), *v;
    size_t i;
    if (name) {
        CAY_AUTOFD fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        CAY_AUTOFREE char *text = cay__alloc(MOST + 1);
        struct stat st;
        if (fd < 0 && errno != ENOENT)
            return cay__local_bad(err, e, name,
                                  errno == ELOOP ? "symlink_not_supported" : "unreadable", errno);
        ssize_t n;
        if (fd < 0)
            n = 0;
        else if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
            n = -1;
        else
            n = cay__fd_read_all(fd, text, MOST);
        if (n < 0 || n == MOST || !cay__ignore_text(ig, text, (size_t)n))
            return cay__bad(err, "local_dir_read_error", e->path, "ignore_file",
                            "%.60s is no text of at most 1 MiB and 10,000 patterns", name);
    }
    json_array_foreach(list, i, v)
        if (!cay__ignore_add(ig, json_string_value(v), json_string_length(v)))
            return cay__bad_entry(err, e, "exclude", "there are too many patterns");
    return 0;
}

static int add_local_dir(cay__plan *p, const cay__entry *e, const char *base, const char *path,
                         cay_err *err)
{
    const char *src = cay__member(e->fields, "src");
    __attribute__((cleanup(cay__ignore_clear))) cay__ignore ig = { 0 };
    uint32_t source;
    char *rel;
    int fd;
    if (!src)
        return 0;
    CAY_TRY(open_source(p, e, base, src, O_RDONLY | O_DIRECTORY, &fd, &source, &rel, err));
    int rc = read_ignore(e, fd, &ig, err);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return cay__plan_walk(p, e, fd, source, rel, path, &ig, err);
}

static int add_fetch(cay__plan *p, const cay__entry *e, cay__node *n, const cay__plan_ask *from,
                     const cay_call *call, cay_err *err)
{
    cay__fetch_ask ask = {
        .entry = e->path, .type = e->kind->name, .fields = e->fields, .net = from->net
    };
    cay__fetched f = { .fd = -1 };
    p->net = from->net;
    CAY_TRY(cay__fetch_entry(from->client, call, &ask, &f, err));
    n->type = 'g';
    n->text = cay__arena_str(&p->mem, f.identity);
    n->len = strlen(n->text);
    p->fetched = cay__more(p->fetched, p->nfetched, sizeof f);
    p->fetched[p->nfetched++] = f;
    return cay__plan_add(p, n, err);
}

static bool is_ephemeral(cay__plan *p, const cay__entry *e)
{
    if (!e->ephemeral && !cay__near(&p->above, e->path))
        p->above.is = cay__plan_ephemeral(p, e, NULL);
    return e->ephemeral || p->above.is;
}

static int add_entry(cay__plan *p, const cay__entry *e, const char *root, const cay__plan_ask *ask,
                     const cay_call *call, cay_err *err)
{
    size_t size = strlen(root) + strlen(e->path) + 2;
    char *path = cay__arena_take(&p->mem, size);
    cay__str_join(path, size, root, "/", e->path, NULL);
    cay__node n = { .type = e->kind->dir ? 'd' : 'f',
                    .ephemeral = is_ephemeral(p, e),
                    .mode = e->mode,
                    .entry = (uint32_t)(e - p->m->entries) + 1,
                    .path = path,
                    .group = CAY_OR(e->group, ""),
                    .text = "" };
    if (cay__is_mount(e) || (ask->want && !ask->want(p, e, ask->arg)))
        return 0;
    if (e->redacted && e->kind->id == CAY__FILE && !e->data)
        return cay__bad_entry(
            err, e, "redacted",
            "its content was left out when the manifest was saved; give it again");
    if (!cay__near(&p->near, path))
        CAY_TRY(add_parents(p, path, root, n.entry, err));
    switch (e->kind->id) {
    case CAY__FILE:
        n.text = e->data;
        n.len = e->len;
        p->files++;
        p->bytes += n.len;
        return cay__plan_add(p, &n, err);
    case CAY__LOCAL_FILE: return add_local_file(p, e, ask->base, path, err);
    case CAY__DIR: return cay__plan_add(p, &n, err);
    case CAY__LOCAL_DIR:
        CAY_TRY(cay__plan_add(p, &n, err));
        return add_local_dir(p, e, ask->base, path, err);
    default: return add_fetch(p, e, &n, ask, call, err);
    }
}

int cay__plan_make(cay__plan *p, const cay_manifest *m, const cay__plan_ask *ask,
                   const cay_call *call, cay_err *err)
{
    *p = (cay__plan){ .m = m, .wire = -1 };
    const char *root = m->root + 1;
    cay__node top = {
        .type = 'd', .mode = 0755, .entry = UINT32_MAX, .path = root, .group = "", .text = ""
    };
    int rc = add_parents(p, root, root, UINT32_MAX, err);
    if (rc == 0)
        rc = cay__plan_add(p, &top, err);
    for (size_t i = 0; rc == 0 && i < m->n; i++)
        rc = add_entry(p, &m->entries[i], root, ask, call, err);
    if (rc < 0)
        cay__plan_clear(p);
    return rc;
}

static int fetch_entry(cay__plan *p, size_t at, cay__fetched *f, cay_client *client,
                       const cay_call *call, cay_err *err)
{
    cay__node *n = &p->nodes[at];
    const cay__entry *e = &p->m->entries[n->entry - 1];
    const char *path = n->path;
    struct stat st;
    uint32_t source;
    if (f->fd < 0) {
        cay__fetch_ask ask = { .entry = e->path,
                               .type = e->kind->name,
                               .fields = e->fields,
                               .net = p->net,
                               .known = n->text };
        cay__fetched_clear(f);
        CAY_TRY(cay__fetch_entry(client, call, &ask, f, err));
    }
    int fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3), walk = -1;
    if (fd < 0 || fstat(fd, &st) < 0 || source_add(p, fd, &source) < 0)
        return cay_fail_sys(err, "entry %.80s: what was fetched", e->path);
    if (S_ISREG(st.st_mode)) {
        n->type = 'f'; /* its place, so that the file takes it */
        return cay__plan_file(p, e, source, "", path, &st, err);
    }
    n->type = 'd';
    walk = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (walk < 0)
        return cay_fail_sys(err, "entry %.80s: what was fetched", e->path);
    return cay__plan_walk(p, e, walk, source, "", path, NULL, err);
}

int cay__plan_fetch(cay__plan *p, cay_client *client, const cay_call *call, cay_err *err)
{
    size_t k = 0, n = p->n;
    for (size_t i = 0; i < n; i++)
        if (p->nodes[i].type == 'g')
            CAY_TRY(fetch_entry(p, i, &p->fetched[k++], client, call, err));
    return 0;
}

void cay__plan_clear(cay__plan *p)
{
    CAY_EACH_OF(source, p->sources, p->nsources)
        cay__close_fd(&source->fd);
    CAY_EACH_OF(it, p->fetched, p->nfetched)
        cay__fetched_clear(it);
    free(p->nodes);
    free(p->sources);
    free(p->fetched);
    free(p->index);
    cay__close_fd(&p->wire);
    cay__arena_clear(&p->mem);
    *p = (cay__plan){ .wire = -1 };
}

static bool is_local_entry(const cay__plan *p, const cay__entry *e, void *arg)
{
    return e->kind->id < CAY__GIT;
}

int cay_manifest_measure(const cay_manifest *m, const char *base, cay_manifest_totals *out,
                         cay_err *err)
{
    const cay__plan_ask ask = { .base = base, .want = is_local_entry };
    cay__plan p;
    CAY_TRY(cay__plan_make(&p, m, &ask, NULL, err));
    *out = (cay_manifest_totals){ .size = sizeof *out,
                                  .entries = m->n,
                                  .files = p.files,
                                  .bytes = p.bytes,
                                  .skipped = p.skipped };
    CAY_EACH_OF(e, m->entries, m->n) {
        out->mounts += cay__is_mount(e);
        out->ephemeral += !cay__is_mount(e) && e->ephemeral;
        out->fetched += e->kind->id >= CAY__GIT && !cay__is_mount(e);
    }
    cay__plan_clear(&p);
    return 0;
}
