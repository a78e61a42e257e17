/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes through the file calls of a running sandbox, in their order. */
#include "plan.h"
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>

typedef struct apply {
    const cay__plan *p;
    cay_sandbox     *sb;
    const cay_call  *call;
    char            *groups; /* its /etc/group, once it is needed */
} apply;

static int wrap(const cay__node *n, int rc, cay_err *err)
{
    return rc < 0 ? cay_wrap(err, rc, "entry %.80s", n->path) : 0;
}

static bool unchanged(int fd, const cay__ident *id)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == id->size && st.st_dev == id->dev && st.st_ino == id->ino &&
           st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec == id->mtime && st.st_ctim.tv_sec * 1000000000ll + st.st_ctim.tv_nsec == id->ctime;
}

static int open_local(const apply *a, const cay__node *n, int *fd, cay_err *err)
{
    const cay__source *s = &a->p->sources[n->root - 1];
    bool below = n->len > 0;
    CAY_AUTOFD from = cay__fd_openat2(below ? s->fd : AT_FDCWD, below ? n->text : s->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0,
                                      RESOLVE_NO_SYMLINKS | (below ? RESOLVE_BENEATH : 0));
    if (from < 0 || !unchanged(from, &n->id))
        return cay__local_bad(err, &a->p->m->entries[n->entry - 1], n->path, "path_changed_during_copy", 0);
    *fd = CAY_STEAL_FD(from);
    return 0;
}

static int copy_local(const apply *a, const cay__node *n, const char *path, const cay_write *how, cay_err *err)
{
    CAY_AUTOFD from = -1;
    cay_upload *up = NULL;
    char buf[65536];
    ssize_t got;
    CAY_TRY(open_local(a, n, &from, err));
    CAY_TRY(cay_file_open_write(a->sb, a->call, path, how, &up, err));
    while ((got = read(from, buf, sizeof buf)) > 0)
        if (!cay__fd_write_all(cay_upload_fd(up), buf, (size_t)got))
            break;
    if (got != 0 || !unchanged(from, &n->id)) {
        cay_upload_abort(up);
        return got ? cay_fail_sys(err, CAY_ESYS, "copy") : cay__local_bad(err, &a->p->m->entries[n->entry - 1], n->path, "path_changed_during_copy", 0);
    }
    return cay_upload_commit(up, a->call, err);
}

static int group_id(apply *a, const char *name, uint32_t *gid, cay_err *err)
{
    size_t len, n = strlen(name);
    if (!a->groups)
        CAY_TRY(cay_file_get(a->sb, a->call, "/etc/group", 1 << 20, &a->groups, &len, err));
    for (const char *s = a->groups; *s; s = strchrnul(s, '\n'), s += *s == '\n') {
        const char *c = !strncmp(s, name, n) && s[n] == ':' ? strchr(s + n + 1, ':') : NULL;
        if (c) {
            *gid = (uint32_t)strtoul(c + 1, NULL, 10);
            return 0;
        }
    }
    return cay_fail_why(err, CAY_ENOENT, "account_missing", "there is no group %.32s in the sandbox", name);
}

static int make_dir(apply *a, const cay__node *n, const char *path, cay_err *err)
{
    int rc = cay_file_mkdir(a->sb, a->call, path, n->mode, true, err);
    if (rc < 0 && rc != CAY_EEXIST)
        return rc;
    return n->type == 'p' ? 0 : cay_file_chmod(a->sb, a->call, path, n->mode, err);
}

static int make_node(apply *a, const cay__node *n, cay_err *err)
{
    CAY_AUTOFREE char *path = cay__alloc(strlen(n->path) + 2);
    const cay_write how = { .size = sizeof how, .mode = n->mode & 0777, .parents = true };
    cay__str_join(path, strlen(n->path) + 2, "/", n->path, NULL);
    if (n->type == 'd' || n->type == 'p')
        CAY_TRY(make_dir(a, n, path, err));
    else if (n->type == 'l') {
        cay_file_remove(a->sb, a->call, path, false, NULL);
        CAY_TRY(cay_file_symlink(a->sb, a->call, n->text, path, err));
    } else if (n->root)
        CAY_TRY(copy_local(a, n, path, &how, err));
    else
        CAY_TRY(cay_file_put(a->sb, a->call, path, n->len ? n->text : "", n->len, &how, err));
    if (!*n->group)
        return 0;
    uint32_t gid = 0;
    CAY_TRY(group_id(a, n->group, &gid, err));
    CAY_TRY(cay_file_chown(a->sb, a->call, path, UINT32_MAX, gid, err));
    return n->type == 'l' ? 0 : cay_file_chmod(a->sb, a->call, path, n->mode, err); /* a new group takes set-id bits away */
}

int cay__plan_apply(const cay__plan *p, cay_sandbox *sb, const cay_call *call, bool only_ephemeral, cay_err *err)
{
    apply a = { .p = p, .sb = sb, .call = call };
    int rc = 0;
    for (size_t i = 0; i < p->n && rc == 0; i++)
        if (!only_ephemeral || p->nodes[i].ephemeral)
            rc = wrap(&p->nodes[i], make_node(&a, &p->nodes[i], err), err);
    free(a.groups);
    return rc;
}
