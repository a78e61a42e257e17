/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are new or another after code ran: two listings are compared. */
#include "ptc.h"

enum { FILES_MAX = 50000, TOLD_MAX = 1000 };

typedef struct entry {
    char *path;
    uint64_t size, inode;
    int64_t mtime;
} entry;

struct cay__seen {
    entry *v;
    size_t n;
    bool cut;
};

/* What nobody wants to hear of. */
static bool is_ignored(const char *path)
{
    static const char *const names[] = { ".git", "__pycache__", "node_modules", ".venv" };
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        CAY_EACH(name, names)
            if (strlen(*name) == n && !memcmp(*name, p, n))
                return true;
        p += n + (p[n] == '/');
    }
    return false;
}

static int add_file(const cay_dirent *e, void *arg)
{
    cay__seen *s = arg;
    if (e->st.type != CAY_FILE || is_ignored(e->path))
        return 0;
    if (s->n == FILES_MAX) {
        s->cut = true;
        return 1;
    }
    CAY_GROW(s->v, s->n);
    s->v[s->n++] = (entry){ .path = cay__strdup(e->path),
                            .size = e->st.size,
                            .inode = e->st.inode,
                            .mtime = e->st.mtime_ns };
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->path, ((const entry *)b)->path);
}

int cay__seen_look(cay_sandbox *sb, const cay_call *call, const char *root, cay__seen **out,
                   cay_err *err)
{
    CAY_AUTOPTR(cay__seen) s = cay__alloc(sizeof *s);
    CAY_TRY(cay_dir_list(sb, call, root, 0, add_file, s, err));
    if (s->n)
        qsort(s->v, s->n, sizeof *s->v, by_path);
    *out = CAY_STEAL(s);
    return 0;
}

static void append_path(json_t *list, const entry *e)
{
    if (json_array_size(list) < TOLD_MAX)
        json_array_append_new(list, cay__json_bytes(e->path));
}

void cay__seen_compare(const cay__seen *before, const cay__seen *after, json_t *created,
                       json_t *modified, bool *cut)
{
    *cut = before->cut || after->cut;
    for (size_t i = 0, k = 0; i < after->n; i++) {
        const entry *e = &after->v[i];
        while (k < before->n && strcmp(before->v[k].path, e->path) < 0)
            k++;
        const entry *was = NULL;
        if (k < before->n && !strcmp(before->v[k].path, e->path))
            was = &before->v[k];
        if (!was)
            append_path(created, e);
        else if (was->size != e->size || was->mtime != e->mtime || was->inode != e->inode)
            append_path(modified, e);
    }
}

void cay__seen_free(cay__seen *s)
{
    CAY_EACH_OF(it, s->v, s->n)
        free(it->path);
    free(s->v);
    free(s);
}
