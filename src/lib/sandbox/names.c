/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to names and directories rather than to bytes. */
#include "sandbox.h"
#include <linux/limits.h>

static int begin_file(cay_sandbox *sb, const cay_call *call, bool has_op, const char *what,
                      const char *path, cay_err *err)
{
    CAY_TRY(cay__path_check(path, err));
    CAY_TRY(cay__user_check(cay__call_user(call), err));
    CAY_TRY(cay__call_check(call, what, err));
    if (!has_op)
        return cay__no_such_op(sb, what, err);
    return cay__sandbox_files(sb, err);
}

int cay__file_enter(cay_sandbox *sb, const cay_call *call, bool has_op, const char *what,
                    const char *path, bool write, cay_err *err)
{
    CAY_TRY(begin_file(sb, call, has_op, what, path, err));
    return cay__fence_path(sb, call, path, write, err);
}

static int check_mode(uint32_t mode, cay_err *err)
{
    if (mode & ~07777u)
        return cay_fail_why(err, CAY_EINVAL, "mode_invalid",
                            "mode %o: permission bits only, at most 7777", mode);
    return 0;
}

int cay_file_stat(cay_sandbox *sb, const cay_call *call, const char *path, bool follow,
                  cay_stat *out, cay_err *err)
{
    CAY__OP(call, "file.stat", sb->id, err);
    cay_stat st = { .size_of = sizeof st };
    CAY_TRY(begin_file(sb, call, sb->ops->stat, "stat", path, err));
    CAY_TRY(sb->ops->stat(sb->box, call, path, follow, &st, err));
    cay__answer_give(out, &st, sizeof st);
    return 0;
}

int cay_file_exists(cay_sandbox *sb, const cay_call *call, const char *path, bool *yes,
                    cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    cay_err local = CAY_ERR_INIT;
    int rc = cay_file_stat(sb, call, path, true, &st, &local);
    if (rc == 0 || rc == CAY_ENOENT || local.sys == ENOTDIR) {
        *yes = rc == 0;
        return 0;
    }
    return cay__err_pass(rc, &local, err);
}

int cay_file_mkdir(cay_sandbox *sb, const cay_call *call, const char *path, uint32_t mode,
                   bool parents, cay_err *err)
{
    CAY__OP(call, "file.mkdir", sb->id, err);
    op_.path = path;
    CAY_TRY(cay__file_enter(sb, call, sb->ops->mkdir, "make a directory", path, true, err));
    CAY_TRY(check_mode(mode, err));
    return sb->ops->mkdir(sb->box, call, path, mode, parents, err);
}

int cay_file_remove(cay_sandbox *sb, const cay_call *call, const char *path, bool recursive,
                    cay_err *err)
{
    CAY__OP(call, "file.remove", sb->id, err);
    op_.path = path;
    CAY_TRY(cay__file_enter(sb, call, sb->ops->remove, "remove", path, true, err));
    return sb->ops->remove(sb->box, call, path, recursive, err);
}

int cay_file_rename(cay_sandbox *sb, const cay_call *call, const char *from, const char *to,
                    cay_err *err)
{
    CAY__OP(call, "file.rename", sb->id, err);
    op_.path = to;
    CAY_TRY(begin_file(sb, call, sb->ops->rename, "rename", from, err));
    CAY_TRY(cay__path_check(to, err));
    CAY_TRY(cay__fence_path(sb, call, from, true, err));
    CAY_TRY(cay__fence_path(sb, call, to, true, err));
    return sb->ops->rename(sb->box, call, from, to, err);
}

int cay_file_chmod(cay_sandbox *sb, const cay_call *call, const char *path, uint32_t mode,
                   cay_err *err)
{
    CAY__OP(call, "file.chmod", sb->id, err);
    op_.path = path;
    CAY_TRY(cay__file_enter(sb, call, sb->ops->chmod, "change a mode", path, true, err));
    CAY_TRY(check_mode(mode, err));
    return sb->ops->chmod(sb->box, call, path, mode, err);
}

int cay_file_chown(cay_sandbox *sb, const cay_call *call, const char *path, uint32_t uid,
                   uint32_t gid, cay_err *err)
{
    CAY__OP(call, "file.chown", sb->id, err);
    op_.path = path;
    CAY_TRY(cay__file_enter(sb, call, sb->ops->chown, "change an owner", path, true, err));
    return sb->ops->chown(sb->box, call, path, uid, gid, err);
}

int cay_file_symlink(cay_sandbox *sb, const cay_call *call, const char *target, const char *path,
                     cay_err *err)
{
    CAY__OP(call, "file.symlink", sb->id, err);
    op_.path = path;
    int rc = cay__path_check(target, err);
    if (rc < 0)
        return cay_wrap(err, rc, "link target");
    CAY_TRY(cay__file_enter(sb, call, sb->ops->symlink, "make a symbolic link", path, true, err));
    return sb->ops->symlink(sb->box, call, target, path, err);
}

static int check_xattr(const char *name, cay_err *err)
{
    if (!name || strncmp(name, "user.", 5) != 0 || !name[5] || strlen(name) > XATTR_NAME_MAX ||
        strchr(name, '\n'))
        return cay_fail_why(err, CAY_EINVAL, "xattr_invalid",
                            "attribute \"%.60s\": names begin with user. and have at most %d bytes",
                            CAY_OR(name, ""), XATTR_NAME_MAX);
    return 0;
}

int cay_file_getxattr(cay_sandbox *sb, const cay_call *call, const char *path, const char *name,
                      void *buf, size_t *len, cay_err *err)
{
    CAY__OP(call, "file.getxattr", sb->id, err);
    CAY_TRY(cay__file_enter(sb, call, sb->ops->getxattr, "read an attribute", path, false, err));
    CAY_TRY(check_xattr(name, err));
    return sb->ops->getxattr(sb->box, call, path, name, buf, len, err);
}

int cay_file_setxattr(cay_sandbox *sb, const cay_call *call, const char *path, const char *name,
                      const void *value, size_t len, cay_err *err)
{
    CAY__OP(call, "file.setxattr", sb->id, err);
    CAY_TRY(cay__file_enter(sb, call, sb->ops->setxattr, "write an attribute", path, true, err));
    CAY_TRY(check_xattr(name, err));
    if (len > XATTR_SIZE_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "xattr_too_big", "attribute %s: at most %d bytes",
                            name, XATTR_SIZE_MAX);
    return sb->ops->setxattr(sb->box, call, path, name, value, len, err);
}

int cay_file_listxattr(cay_sandbox *sb, const cay_call *call, const char *path,
                       int (*fn)(const char *name, void *arg), void *arg, cay_err *err)
{
    CAY__OP(call, "file.listxattr", sb->id, err);
    CAY_TRY(cay__file_enter(sb, call, sb->ops->listxattr, "list attributes", path, false, err));
    return sb->ops->listxattr(sb->box, call, path, fn, arg, err);
}

int cay_dir_list(cay_sandbox *sb, const cay_call *call, const char *path, unsigned depth,
                 cay_dirent_fn *fn, void *arg, cay_err *err)
{
    CAY__OP(call, "file.list", sb->id, err);
    CAY_TRY(cay__file_enter(sb, call, sb->ops->list_dir, "list a directory", path, false, err));
    return sb->ops->list_dir(sb->box, call, path, depth, fn, arg, err);
}

int cay_file_glob(cay_sandbox *sb, const cay_call *call, const char *base, const char *pattern,
                  cay_dirent_fn *fn, void *arg, cay_err *err)
{
    CAY__OP(call, "file.glob", sb->id, err);
    CAY_TRY(cay__file_enter(sb, call, sb->ops->glob, "find files by pattern", base, false, err));
    int rc = cay__path_check(pattern, err);
    if (rc < 0)
        return cay_wrap(err, rc, "pattern");
    return sb->ops->glob(sb->box, call, base, pattern, fn, arg, err);
}

int cay_file_grep(cay_sandbox *sb, const cay_call *call, const char *base, const cay_grep *spec,
                  cay_match_fn *fn, void *arg, cay_err *err)
{
    CAY__OP(call, "file.grep", sb->id, err);
    cay_grep g;
    CAY_TRY(cay__file_enter(sb, call, sb->ops->grep, "search in files", base, false, err));
    CAY_TRY(cay__spec_take(&g, sizeof g, spec, "cay_grep", err));
    if (!g.pattern || !*g.pattern || strchr(g.pattern, '\n') || strlen(g.pattern) > PATH_MAX)
        return cay_fail_why(err, CAY_EINVAL, "pattern_invalid",
                            "the pattern is empty, too long, or has a newline");
    return sb->ops->grep(sb->box, call, base, &g, fn, arg, err);
}
