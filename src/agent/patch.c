/* SPDX-License-Identifier: Apache-2.0 */
/* A patch carried out in a sandbox. */
#include "patch.h"
#include <base/path.h>
#include <poll.h>
#include "run.h"
#include <cay/patch.h>

#define PATH_MAX_ 4096

typedef struct target {
    cay_sandbox *sb;
    const cay_call *call;
    const cay_patch_spec *spec;
    const char *root, *cwd;
    char workdir[PATH_MAX_];
    uint64_t *left; /* steps of finding places, for all files together */
    int (*fn)(const char *line, void *arg);
    void *arg;
} target;

static int bad_path(cay_err *err, const char *path, const char *reason)
{
    int rc = cay_fail_why(err, CAY_EINVAL, "apply_patch_invalid_path", "%.120s: %s", path,
                          !strcmp(reason, "empty") ? "a path is empty"
                                                   : "the path leaves the workspace");
    if (err)
        CAY_FORMAT(err->detail, "{\"reason\":\"%s\"}", reason);
    return rc;
}

static bool is_below(const char *path, const char *root)
{
    size_t n = strlen(root);
    return !strcmp(root, "/") || (!strncmp(path, root, n) && path[n] == '/');
}

int cay_patch_path(const char *path, const char *root, const char *cwd, char *buf, size_t cap,
                   cay_err *err)
{
    if (!*path)
        return bad_path(err, "\"\"", "empty");
    if (!cay__path_clean(CAY_OR(cwd, root), path, buf, cap) || strchr(path, '\n') ||
        !is_below(buf, root) || !strcmp(buf, root))
        return bad_path(err, path, "escape_root");
    return 0;
}

/* Links on the way that lead out are refused too. What a racing process does to them in between
 * stays inside the sandbox. */
static int check_links(const target *t, const char *asked, char *path, cay_err *err)
{
    char part[PATH_MAX_], next[2 * PATH_MAX_];
    unsigned links = 0;
    const size_t begin = strlen(t->root) + (strlen(t->root) > 1);
    for (size_t at = begin; path[at - 1];) {
        size_t end = at + strcspn(path + at, "/");
        cay_stat st = { .size_of = sizeof st };
        CAY_FORMAT(part, "%.*s", (int)end, path);
        int rc = cay_file_stat(t->sb, t->call, part, false, &st, err);
        if (rc == CAY_ENOENT)
            return 0;
        CAY_TRY(rc);
        if (st.type == CAY_LINK) {
            if (++links > 40 || strlen(st.target) >= sizeof st.target - 1)
                return bad_path(err, asked, "escape_root");
            *strrchr(part, '/') = 0;
            CAY_FORMAT(next, "%s%s", st.target, path + end);
            if (!cay__path_clean(part, next, path, PATH_MAX_) || !is_below(path, t->root))
                return bad_path(err, asked, "escape_root");
            at = begin;
            continue;
        }
        if (!path[end])
            return 0;
        at = end + 1;
    }
    return 0;
}

static int resolve_path(const target *t, const char *path, char *buf, cay_err *err)
{
    char whole[PATH_MAX_];
    CAY_TRY(cay_patch_path(path, t->root, t->cwd, buf, PATH_MAX_, err));
    CAY_COPY(whole, buf);
    return check_links(t, path, whole, err);
}

int cay__patch_resolve(cay_sandbox *sb, const cay_call *call, const char *root, const char *cwd,
                       const char *path, char *buf, cay_err *err)
{
    const target t = { .sb = sb, .call = call, .root = root, .cwd = cwd };
    return resolve_path(&t, path, buf, err);
}

int cay__slurp(cay_sandbox *sb, const cay_call *call, const char *path, const cay_read *spec,
               const char *shown, cay__buf *out, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    CAY_TRY(cay_file_open_read(sb, call, path, spec, &fd, err));
    for (ssize_t n = 1; n > 0;) {
        CAY_TRY(cay__call_wait(call, fd, POLLIN, shown, err));
        char *room = cay__buf_room(out, 65536);
        if (!room)
            return cay_fail(err, CAY_ETOOBIG, "%.160s is larger than %zu MiB", shown,
                            out->max >> 20);
        n = read(fd, room, 65536);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            n = 1;
        else if (n < 0)
            return cay_fail_sys(err, "read %.160s", shown);
        else
            cay__buf_used(out, (size_t)n);
    }
    return 0;
}

static int read_text(const target *t, const char *path, const char *shown, cay__buf *b,
                     cay_err *err)
{
    const cay_read spec = { .size = sizeof spec, .user = t->spec->user };
    int rc = cay__slurp(t->sb, t->call, path, &spec, shown, b, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, rc, "apply_patch_file_not_found",
                            "%.160s: there is no such file to change", shown);
    CAY_TRY(rc);
    for (size_t i = 0, k; i < b->len; i += k)
        if (!b->data[i] || !(k = cay__utf8_len(b->data + i, b->len - i)))
            return cay_fail_why(err, CAY_ETYPE, "apply_patch_decode_error",
                                "%.160s is no UTF-8 text", shown);
    return 0;
}

static int write_file(const target *t, const char *path, const char *data, size_t len,
                      bool exclusive, cay_err *err)
{
    cay_write w = {
        .size = sizeof w, .parents = true, .exclusive = exclusive, .user = t->spec->user
    };
    return cay_file_put(t->sb, t->call, path, data, len, &w, err);
}

static int report_change(const target *t, const char *verb, const char *path, const char *to)
{
    char line[2 * PATH_MAX_ + 32];
    CAY_FORMAT(line, to ? "%s %s to %s" : "%s %s", verb, path, to);
    if (t->fn)
        return t->fn(line, t->arg);
    return 0;
}

static int create_file(const target *t, const cay_patch_op *op, const char *path, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(CAY_PATCH_MAX);
    CAY__AUTOLINES l = { 0 };
    cay__lines_split(&l, op->diff, strlen(op->diff));
    if (l.n && !l.v[l.n - 1].n)
        l.n--;
    CAY_EACH_OF(line, l.v, l.n) {
        if (!line->n || line->p[0] != '+')
            return cay_fail_why(err, CAY_EINVAL, "apply_patch_invalid_diff",
                                "%.120s: line %zu of a new file does not begin with +", op->path,
                                (size_t)(line - l.v) + 1);
        if (line > l.v)
            cay__buf_str(&b, "\n");
        cay__buf_add(&b, line->p + 1, line->n - 1);
    }
    if (!t->spec->dry)
        CAY_TRY(write_file(t, path, CAY_OR(b.data, ""), b.len, t->spec->exclusive, err));
    return report_change(t, "Created", op->path, NULL);
}

static int update_file(const target *t, const cay_patch_op *op, const char *path, cay_err *err)
{
    CAY_AUTOBUF old = CAY__BUF(CAY_PATCH_MAX);
    CAY_AUTOFREE char *text = NULL;
    char to[PATH_MAX_];
    size_t len;
    if (op->move_to)
        CAY_TRY(resolve_path(t, op->move_to, to, err));
    bool moves = op->move_to && strcmp(to, path);
    CAY_TRY(read_text(t, path, op->path, &old, err));
    int rc =
        cay__patch_update(CAY_OR(old.data, ""), old.len, op->diff, t->left, &text, &len, NULL, err);
    if (rc < 0)
        return cay_wrap(err, rc, "%.100s", op->path);
    if (!t->spec->dry) {
        cay_stat st = { .size_of = sizeof st };
        CAY_TRY(cay_file_stat(t->sb, t->call, path, true, &st, err));
        cay_write w = {
            .size = sizeof w, .parents = true, .mode = st.mode & 07777, .user = t->spec->user
        };
        CAY_TRY(cay_file_put(t->sb, t->call, moves ? to : path, text, len, &w, err));
        if (moves)
            CAY_TRY(cay_file_remove(t->sb, t->call, path, false, err));
    }
    CAY_TRY(report_change(t, "Updated", op->path, NULL));
    if (moves)
        return report_change(t, "Moved", op->path, op->move_to);
    return 0;
}

static int delete_file(const target *t, const cay_patch_op *op, const char *path, cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    int rc = cay_file_stat(t->sb, t->call, path, false, &st, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, rc, "apply_patch_file_not_found",
                            "%.160s: there is no such file to delete", op->path);
    CAY_TRY(rc);
    if (st.type == CAY_DIR)
        return cay_fail(err, CAY_ETYPE, "%.160s is a directory; a patch deletes files", op->path);
    if (!t->spec->dry)
        CAY_TRY(cay_file_remove(t->sb, t->call, path, false, err));
    return report_change(t, "Deleted", op->path, NULL);
}

static int find_root(target *t, cay_err *err)
{
    CAY_AUTOFREE char *workdir = NULL;
    t->root = t->spec->root;
    if (!t->root) {
        CAY_TRY(cay__workdir_of(t->sb, t->call, &workdir, err));
        if (!cay__path_clean("/", workdir, t->workdir, sizeof t->workdir))
            return cay_fail(err, CAY_ETOOBIG,
                            "the sandbox's working directory has too long a name");
        t->root = t->workdir;
    }
    t->cwd = CAY_OR(t->spec->cwd, t->root);
    return 0;
}

int cay_patch_apply(cay_sandbox *sb, const cay_call *call, const cay_patch *p,
                    const cay_patch_spec *given, int (*fn)(const char *line, void *arg), void *arg,
                    cay_err *err)
{
    cay_patch_spec spec;
    cay_call whose;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_patch_spec", err));
    CAY_TRY(cay__spec_take(&whose, sizeof whose, call, "cay_call", err));
    if (spec.user) { /* also what is looked at and removed */
        whose.user = spec.user;
        call = &whose;
    }
    uint64_t left = CAY__PATCH_STEPS;
    target t = { .sb = sb, .call = call, .left = &left, .spec = &spec, .fn = fn, .arg = arg };
    char path[PATH_MAX_];
    CAY_TRY(find_root(&t, err));
    CAY_EACH_OF(it, p->ops, p->n) { /* before the first change */
        CAY_TRY(resolve_path(&t, it->path, path, err));
        if (it->move_to)
            CAY_TRY(resolve_path(&t, it->move_to, path, err));
    }
    CAY_EACH_OF(op, p->ops, p->n) {
        CAY_TRY(resolve_path(&t, op->path, path, err));
        if (op->kind == CAY_PATCH_CREATE)
            CAY_TRY(create_file(&t, op, path, err));
        else if (op->kind == CAY_PATCH_UPDATE)
            CAY_TRY(update_file(&t, op, path, err));
        else
            CAY_TRY(delete_file(&t, op, path, err));
    }
    return 0;
}
