/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest LAYER: one SHA-256 over the sorted tree. Two trees with the same names, kinds, modes,
 * owners, attributes and bytes have the same digest, on whatever filesystem and in whichever mode
 * they are: times, inode numbers and holes do not count.
 */
#include "tool.h"
#include <openssl/evp.h>
#include <sys/xattr.h>

#define CHUNK (1u << 20)
#define BLOCK 4096u

typedef struct digest {
    EVP_MD_CTX *all;
    char *chunk;
    tool_links links;
    uint64_t bytes, files;
    const digest_hooks *hooks; /* or NULL */
    void *arg;
    cay_err *err;
    int rc; /* of a hook that failed */
} digest;

static void update_digest(digest *d, const void *p, size_t n)
{
    if (EVP_DigestUpdate(d->all, p, n) != 1)
        abort();
}

static void add_num(digest *d, uint64_t v)
{
    uint8_t b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (uint8_t)(v >> 8 * i);
    update_digest(d, b, sizeof b);
}

static void add_bytes(digest *d, const void *p, size_t n)
{
    add_num(d, n);
    update_digest(d, p, n);
}

static tool_link *find_slot(tool_link *v, size_t cap, dev_t dev, ino_t ino)
{
    size_t i = (size_t)(ino * 0x9e3779b97f4a7c15u ^ dev) & (cap - 1);
    while (v[i].entry && (v[i].dev != dev || v[i].ino != ino))
        i = (i + 1) & (cap - 1);
    return &v[i];
}

static void grow_table(tool_links *l)
{
    size_t cap = CAY_MAX(2 * l->cap, (size_t)256);
    tool_link *v = cay__alloc(cap * sizeof *v);
    CAY_EACH_OF(it, l->v, l->cap)
        if (it->entry)
            *find_slot(v, cap, it->dev, it->ino) = *it;
    free(l->v);
    l->v = v;
    l->cap = cap;
}

int tool_links_first(tool_links *l, const struct stat *st, uint64_t entry, const char *path,
                     const tool_link **out, cay_err *err)
{
    size_t len = CAY_FLAG_IF(path, strlen(path) + 1);
    *out = NULL;
    if (2 * (l->n + 1) > l->cap)
        grow_table(l);
    tool_link *f = find_slot(l->v, l->cap, st->st_dev, st->st_ino);
    if (f->entry) {
        *out = f;
        return 0;
    }
    if (l->n == LINKS_MAX || l->path_bytes + len > LINK_BYTES)
        return cay_fail_why(err, CAY_ETOOBIG, "too_many_links",
                            "more files with several names than can be kept in mind (%u, or %u MiB "
                            "of paths)",
                            LINKS_MAX, LINK_BYTES >> 20);
    *f = (tool_link){ st->st_dev, st->st_ino, entry, CAY_IF(path, cay__strdup(path)) };
    l->path_bytes += len;
    l->n++;
    return 0;
}

void tool_links_clear(tool_links *l)
{
    CAY_EACH_OF(it, l->v, l->cap)
        free(it->path);
    free(l->v);
}

int tool_file(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOATIME);
    if (fd < 0)
        fd = cay__file_at(dir, name);
    return fd;
}

static bool all_zero(const char *p, size_t n)
{
    return !*p && !memcmp(p, p + 1, n - 1);
}

/* Block by block with its offset, blocks of zeros left out: where a filesystem keeps holes makes no
 * difference, and a huge hole costs nothing. */
static int add_data(digest *d, int fd, uint64_t size, bool sparse)
{
    for (off_t at = 0; (uint64_t)at < size;) {
        off_t data = at;
        if (sparse)
            data = lseek(fd, at, SEEK_DATA);
        if (data < 0) {
            if (errno == ENXIO)
                return 0;
            return -1;
        }
        at = data & ~(off_t)(BLOCK - 1);
        size_t have = 0;
        while (have < CHUNK && (uint64_t)at + have < size) {
            ssize_t n = pread(fd, d->chunk + have, CHUNK - have, at + (off_t)have);
            if (n < 0)
                return -1;
            if (n == 0)
                break;
            have += (size_t)n;
        }
        if (!have)
            return 0;
        if (d->hooks && (d->rc = d->hooks->data(d->arg, d->chunk, have, (uint64_t)at, d->err)) < 0)
            return -1;
        for (size_t i = 0; i < have; i += BLOCK) {
            size_t n = CAY_MIN(BLOCK, have - i);
            if (all_zero(d->chunk + i, n))
                continue;
            add_num(d, (uint64_t)at + i);
            add_bytes(d, d->chunk + i, n);
        }
        at += (off_t)have;
    }
    return 0;
}

static int open_file(int dir, const char *name, struct stat *st)
{
    struct stat now;
    CAY_AUTOFD fd = tool_file(dir, name);
    if (fd < 0 || fstat(fd, &now) < 0 || meta_foreign(&now))
        return -1;
    errno = ESTALE;
    if (now.st_ino != st->st_ino || !S_ISREG(now.st_mode))
        return -1;
    *st = now;
    return CAY_STEAL_FD(fd);
}

static int add_file(digest *d, int fd, const struct stat *st)
{
    add_num(d, (uint64_t)st->st_size);
    d->bytes += (uint64_t)st->st_blocks * 512;
    if (add_data(d, fd, (uint64_t)st->st_size,
                 (uint64_t)st->st_blocks * 512 < (uint64_t)st->st_size) < 0)
        return -1;
    if (d->hooks && (d->rc = d->hooks->end(d->arg, (uint64_t)st->st_size, d->err)) < 0)
        return -1;
    return 0;
}

static void add_xattrs(digest *d, const xattrs *x)
{
    add_num(d, x->n);
    CAY_EACH_OF(it, x->v, x->n) {
        add_bytes(d, it->name, strlen(it->name));
        add_bytes(d, it->value, it->len);
    }
}

static int call_node_hook(digest *d, int dir, const char *name, const char *path,
                          const struct stat *st, const char *other, const xattrs *x)
{
    if (d->hooks && (d->rc = d->hooks->node(d->arg, dir, name, path, st, other, x, d->err)) < 0)
        return -1;
    return 0;
}

static int add_node(digest *d, const tool *t, int dir, const char *name, const char *path,
                    const struct stat *seen)
{
    uint32_t base = tool_base(t);
    char target[4096];
    struct stat now = *seen, *st = &now;
    xattrs x = { 0 };
    bool file = S_ISREG(st->st_mode);
    const tool_link *other = NULL;
    d->files++;
    /* What counts is the place among all entries: files of a layer may have names in other layers,
     * too, which says nothing about the content. */
    if (file && st->st_nlink > 1 &&
        (d->rc =
             tool_links_first(&d->links, st, d->files, CAY_IF(d->hooks, path), &other, d->err)) < 0)
        return -1;
    add_bytes(d, path, strlen(path));
    update_digest(d, other ? "h" : "n", 1);
    if (other) {
        add_num(d, other->entry);
        return call_node_hook(d, dir, name, path, st, other->path, &x);
    }
    CAY_AUTOFD fd = -1;
    if (file)
        fd = open_file(dir, name, st);
    if (file && fd < 0)
        return -1;
    add_num(d, st->st_mode);
    add_num(d, (uint32_t)(st->st_uid - base));
    add_num(d, (uint32_t)(st->st_gid - base));
    /* Most files have none, and by the descriptor that is cheap to learn. */
    if (!(file && flistxattr(fd, NULL, 0) == 0) && xattrs_read(t, dir, name, &x) < 0)
        return -1;
    add_xattrs(d, &x);
    int rc = call_node_hook(d, dir, name, path, st, NULL, &x);
    xattrs_clear(&x);
    CAY_TRY(rc);
    if (file)
        return add_file(d, fd, st);
    if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
        add_num(d, st->st_rdev);
    if (S_ISLNK(st->st_mode)) {
        ssize_t n = readlinkat(dir, name, target, sizeof target);
        if (n < 0)
            return -1;
        add_bytes(d, target, (size_t)n);
    }
    return 0;
}

static int on_enter(walk *w, const char *name, const struct stat *st, bool *down, cay_err *err)
{
    *down = true;
    digest *d = w->arg;
    if (add_node(d, w->t, w->dir, name, w->path, st) == 0)
        return 0;
    if (d->rc < 0)
        return d->rc;
    return cay_fail_sys(err, "read %.150s", w->path);
}

static void digest_end(digest *d)
{
    tool_links_clear(&d->links);
    free(d->chunk);
    EVP_MD_CTX_free(d->all);
}

int digest_layer(tool *t, const char *layer, const digest_hooks *hooks, void *arg, digested *out,
                 cay_err *err)
{
    unsigned char sum[32];
    int root;
    struct stat st;
    CAY_TRY(tool_layer_open(t, layer, &root, err));
    digest d = {
        .all = EVP_MD_CTX_new(), .chunk = cay__alloc(CHUNK), .hooks = hooks, .arg = arg, .err = err
    };
    if (!d.all || EVP_DigestInit_ex(d.all, EVP_sha256(), NULL) != 1)
        abort();
    walk w = { .t = t, .enter = on_enter, .arg = &d };
    update_digest(&d, "cay-layer 2\n", 12);
    int rc = 0;
    if (fstat(root, &st) < 0 || add_node(&d, t, root, ".", "", &st) < 0) {
        if (d.rc < 0)
            rc = d.rc;
        else
            rc = cay_fail_sys(err, "read layer %s", layer);
    }
    if (rc == 0)
        rc = walk_tree(&w, root, err);
    else
        close(root);
    if (rc == 0 && EVP_DigestFinal_ex(d.all, sum, NULL) != 1)
        abort();
    digest_end(&d);
    CAY_TRY(cay_wrap(err, rc, "digest of %s", layer));
    *out = (digested){ .bytes = d.bytes, .files = d.files };
    cay__hex_put(out->hex, sum, sizeof sum);
    return 0;
}

int digest_run(tool *t, cay_err *err)
{
    digested d;
    if (t->nargs != 1)
        return cay_fail(err, CAY_EINVAL, "digest takes one layer");
    CAY_TRY(digest_layer(t, t->args[0], NULL, NULL, &d, err));
    cay__rec_str(&t->out, d.hex);
    cay__rec_num(&t->out, d.bytes);
    cay__rec_num(&t->out, d.files);
    return 0;
}
