/* SPDX-License-Identifier: Apache-2.0 */
/* What a manifest holds: entries, mounts, what is not saved; and the tree for people and models. */
#include "manifest.h"

#define SHOWN_MAX 5000

static const char *source_of(const cay__entry *e, char *buf, size_t cap)
{
    const char *repo = cay__member(e->fields, "repo"), *host = cay__member(e->fields, "host"),
               *ref = cay__member(e->fields, "ref");
    static const char *const keys[] = { "src",    "url",       "source",
                                        "bucket", "container", "file_system_id",
                                        "path" };
    if (repo) {
        cay__str_join(buf, cap, CAY_OR(host, "github.com"), "/", repo, CAY_TEXT_IF(ref, "@"),
                      CAY_OR(ref, ""), NULL);
        return buf;
    }
    CAY_EACH(key, keys)
        if (cay__member(e->fields, *key))
            return cay__member(e->fields, *key);
    return "";
}

int cay_manifest_entries(const cay_manifest *m, cay_entry_info_fn *fn, void *arg)
{
    CAY_EACH_OF(e, m->entries, m->n) {
        char source[512];
        cay_entry_info info = {
            .size = sizeof info,
            .path = e->path,
            .type = e->kind->name,
            .description = CAY_OR(e->description, ""),
            .group = CAY_OR(e->group, ""),
            .source = source_of(e, source, sizeof source),
            .mode = e->mode,
            .depth = e->depth,
            .ephemeral = e->ephemeral,
            .is_dir = e->kind->dir,
            .is_mount = cay__is_mount(e),
            .bytes = e->len,
        };
        int rc = fn(&info, arg);
        if (rc)
            return rc;
    }
    return 0;
}

int cay_manifest_ephemeral(const cay_manifest *m, int (*fn)(const char *path, void *arg), void *arg)
{
    int rc = 0;
    for (size_t i = 0; i < m->n && rc == 0; i++)
        if (m->entries[i].ephemeral)
            rc = fn(m->entries[i].path, arg);
    return rc;
}

static size_t count_slashes(const char *path)
{
    size_t n = 0;
    for (; *path; path++)
        n += *path == '/';
    return n;
}

static int deepest_first(const void *a, const void *b)
{
    const cay_mount_target *x = a, *y = b;
    size_t nx = count_slashes(x->path), ny = count_slashes(y->path);
    if (nx != ny) {
        if (nx < ny)
            return 1;
        return -1;
    }
    return strcmp(x->path, y->path);
}

int cay_manifest_mounts(const cay_manifest *m, cay_mount_target_fn *fn, void *arg)
{
    CAY__AUTOARENA mem = { 0 };
    cay_mount_target *list = cay__arena_take(&mem, (m->n + 1) * sizeof *list);
    size_t n = 0;
    int rc = 0;
    CAY_EACH_OF(it, m->entries, m->n) {
        const cay__entry *e = it;
        cay_mount_target *t = &list[n];
        if (!cay__is_mount(e) || cay__mount_path(m, &mem, e, &t->path, NULL) < 0)
            continue;
        *t = (cay_mount_target){ .size = sizeof *t,
                                 .path = t->path,
                                 .entry = e->path,
                                 .type = e->kind->name,
                                 .read_only = cay__mount_read_only(e),
                                 .fields = cay__arena_adopt(
                                     &mem, cay__json_text(e->fields, CAY_MANIFEST_BYTES)) };
        t->strategy = cay__mount_strategy(e, &t->pattern);
        n++;
    }
    if (n)
        qsort(list, n, sizeof *list, deepest_first);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = fn(&list[i], arg);
    return rc;
}

typedef struct skips {
    const char *root;
    int (*fn)(const char *path, void *arg);
    void *arg;
} skips;

static int skip_mount(const cay_mount_target *t, void *arg)
{
    const skips *s = arg;
    if (cay__path_below(t->path, s->root))
        return s->fn(t->path + strlen(s->root) + 1, s->arg);
    return 0;
}

int cay_manifest_unsaved(const cay_manifest *m, int (*fn)(const char *path, void *arg), void *arg)
{
    skips s = { m->root, fn, arg };
    int rc = 0;
    for (size_t i = 0; i < m->n && rc == 0; i++)
        if (m->entries[i].ephemeral && !cay__is_mount(&m->entries[i]))
            rc = fn(m->entries[i].path, arg);
    return CAY_OR(rc, cay_manifest_mounts(m, skip_mount, &s));
}

/* A part of a path, which may have no entry of its own: "src" of "src/main.c". */
typedef struct branch {
    const char *name; /* in mem */
    char *path;
    const cay__entry *entry;
    struct branch *first, *last, *next;
} branch;

static branch *child_of(cay__arena *mem, branch *up, const char *name, size_t n)
{
    for (branch *b = up->first; b; b = b->next)
        if (strlen(b->name) == n && !memcmp(b->name, name, n))
            return b;
    branch *b = cay__arena_take(mem, sizeof *b);
    size_t cap = strlen(up->path) + n + 2;
    b->path = cay__arena_take(mem, cap);
    memcpy(b->path, up->path, strlen(up->path));
    b->path[strlen(up->path)] = '/';
    memcpy(b->path + strlen(up->path) + 1, name, n);
    b->name = b->path + strlen(up->path) + 1;
    *(up->last ? &up->last->next : &up->first) = b;
    up->last = b;
    return b;
}

static branch *build_tree(cay__arena *mem, const cay_manifest *m, unsigned depth)
{
    branch *root = cay__arena_take(mem, sizeof *root);
    root->path = cay__arena_str(mem, m->root);
    CAY_EACH_OF(it, m->entries, m->n) {
        branch *at = root;
        const char *s = it->path, *e = s;
        for (unsigned d = 0; d < depth && *s; d++, s = e + (*e == '/')) {
            e = s + strcspn(s, "/");
            at = child_of(mem, at, s, (size_t)(e - s));
        }
        if (!*e || !*s) {
            if (at->path && !strcmp(at->path + strlen(m->root) + 1, it->path))
                at->entry = it;
        }
    }
    return root;
}

static bool is_dir(const branch *b)
{
    return b->first || !b->entry || b->entry->kind->dir;
}

/* Characters, not bytes, count for the eye. */
static size_t text_width(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static size_t tree_width(const branch *b, size_t indent)
{
    size_t most = 0;
    for (const branch *c = b->first; c; c = c->next) {
        size_t own = indent + 4 + text_width(c->name) + is_dir(c),
               below = tree_width(c, indent + 4);
        most = CAY_MAX(most, CAY_MAX(own, below));
    }
    return most;
}

static void draw_tree(cay__buf *out, const branch *b, const char *indent, size_t column)
{
    for (const branch *c = b->first; c; c = c->next) {
        CAY_AUTOBUF next = CAY__BUF(4096);
        size_t used = text_width(indent) + 4 + text_width(c->name) + is_dir(c);
        cay__buf_fmt(out, "%s%s%s%s%*s# %s", indent, c->next ? "├── " : "└── ", c->name,
                     CAY_TEXT_IF(is_dir(c), "/"),
                     (int)CAY_MIN(column > used ? column - used + 2 : 2, 200), "", c->path);
        if (c->entry && c->entry->description)
            cay__buf_fmt(out, " — %s", c->entry->description);
        cay__buf_str(out, "\n");
        cay__buf_fmt(&next, "%s%s", indent, c->next ? "│   " : "    ");
        draw_tree(out, c, CAY_OR(next.data, ""), column);
    }
}

char *cay_manifest_describe(const cay_manifest *m, unsigned depth)
{
    CAY__AUTOARENA mem = { 0 };
    CAY_AUTOBUF b = CAY__BUF(256u << 20), cut = CAY__BUF(4 * SHOWN_MAX + 400);
    branch *root = build_tree(&mem, m, CAY_OR(depth, 1));
    cay__buf_fmt(&b, "%s\n", m->root);
    draw_tree(&b, root, "", CAY_MIN(tree_width(root, 0), 100));
    size_t all = text_width(b.data), shown = 0, at = 0;
    if (all <= SHOWN_MAX)
        return CAY_STEAL(b.data);
    while (shown < SHOWN_MAX) {
        at += CAY_MAX(cay__utf8_len(b.data + at, b.len - at), 1);
        shown++;
    }
    cay__buf_add(&cut, b.data, at);
    cay__buf_fmt(
        &cut,
        "\n… (%zu more characters left out; list the directories themselves to see the rest)\n",
        all - shown);
    return CAY_STEAL(cut.data);
}
