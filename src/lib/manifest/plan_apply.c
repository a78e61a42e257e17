/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes through the file calls of a running sandbox, in their order. */
#include "plan.h"
#include <linux/openat2.h>

typedef struct apply {
    const cay__plan *p;
    cay_sandbox *sb;
    const cay_call *call;
    const cay__node **nodes; /* those that are made */
    char *groups;            /* its /etc/group, once it is needed */
    char path[2 * CAY_MANIFEST_PATH + 2];
} apply;

static bool is_unchanged(int fd, const cay__ident *id)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == id->size &&
           st.st_dev == id->dev && st.st_ino == id->ino &&
           st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec == id->mtime &&
           st.st_ctim.tv_sec * 1000000000ll + st.st_ctim.tv_nsec == id->ctime;
}

static int open_local(const apply *a, const cay__node *n, int *fd, cay_err *err)
{
    const cay__plan_source *s = &a->p->sources[n->root - 1];
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    CAY_AUTOFD from = -1;
    if (n->len > 0)
        from = cay__fd_openat2(s->fd, n->text, flags, 0, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
    else
        from = cay__fd_openat2(AT_FDCWD, s->path, flags, 0, RESOLVE_NO_SYMLINKS);
    if (from < 0 || !is_unchanged(from, &n->id))
        return cay__local_bad(err, &a->p->m->entries[n->entry - 1], n->path,
                              "path_changed_during_copy", 0);
    *fd = CAY_STEAL_FD(from);
    return 0;
}

static int group_id(apply *a, const char *name, uint32_t *gid, cay_err *err)
{
    size_t len, n = strlen(name);
    if (!a->groups)
        CAY_TRY(cay_file_get(a->sb, a->call, "/etc/group", 1 << 20, &a->groups, &len, err));
    for (const char *s = a->groups; *s; s = strchrnul(s, '\n'), s += *s == '\n') {
        const char *c = NULL;
        if (!strncmp(s, name, n) && s[n] == ':')
            c = strchr(s + n + 1, ':');
        if (c) {
            *gid = (uint32_t)strtoul(c + 1, NULL, 10);
            return 0;
        }
    }
    return cay_fail_why(err, CAY_ENOENT, "account_missing",
                        "there is no group %.32s in the sandbox", name);
}

/* What cay_file_fill() is told of the i-th. A local source is looked at before and after. */
static int get_node(size_t i, cay_fill_item *out, void *arg, cay_err *err)
{
    apply *a = arg;
    const cay__node *n = a->nodes[i];
    if (!CAY_JOIN(a->path, "/", n->path))
        return cay_fail_why(err, CAY_EINVAL, "path_too_long", "entry %.80s: its path is too long",
                            n->path);
    *out = (cay_fill_item){ .type = n->type,
                            .path = a->path,
                            .mode = n->type == 'f' ? n->mode & 0777 : n->mode,
                            .gid = UINT32_MAX,
                            .data = n->text,
                            .len = n->len,
                            .fd = -1 };
    if (*n->group)
        CAY_TRY(group_id(a, n->group, &out->gid, err));
    if (n->type == 'f' && *n->group)
        out->mode = n->mode;
    if (n->type != 'f' || !n->root)
        return 0;
    out->len = n->id.size;
    return open_local(a, n, &out->fd, err);
}

static int done_node(size_t i, const cay_fill_item *item, bool read, void *arg, cay_err *err)
{
    const apply *a = arg;
    const cay__node *n = a->nodes[i];
    CAY_AUTOFD fd = item->fd;
    if (fd >= 0 && read && !is_unchanged(fd, &n->id))
        return cay__local_bad(err, &a->p->m->entries[n->entry - 1], n->path,
                              "path_changed_during_copy", 0);
    return 0;
}

int cay__plan_apply(const cay__plan *p, cay_sandbox *sb, const cay_call *call, bool only_ephemeral,
                    cay_err *err)
{
    apply a = { .p = p, .sb = sb, .call = call, .nodes = cay__alloc((p->n + 1) * sizeof *a.nodes) };
    cay_fill f = { .size = sizeof f, .get = get_node, .done = done_node, .arg = &a };
    CAY_EACH_OF(node, p->nodes, p->n)
        if (!only_ephemeral || node->ephemeral)
            a.nodes[f.n++] = node;
    int rc = cay_file_fill(sb, call, &f, err);
    free(a.nodes);
    free(a.groups);
    return rc;
}
