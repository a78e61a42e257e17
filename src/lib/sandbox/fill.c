/* SPDX-License-Identifier: Apache-2.0 */
/* Many files at once: as one stream where the provider can, else one after the other. */
#include "sandbox.h"

/* What a write through the file calls would have been asked. */
static int check_items(cay_sandbox *sb, const cay_call *call, const cay_fill *f, cay_err *err)
{
    for (size_t i = 0; i < f->n; i++) {
        cay_fill_item it = { .fd = -1 };
        CAY_TRY(f->get(i, &it, f->arg, err));
        int rc = cay__path_check(it.path, err);
        if (rc == 0 && (*it.path != '/' || !strchr("dpfl", it.type) || it.mode & ~07777u))
            rc = cay_fail_why(
                err, CAY_EINVAL, "mode_invalid",
                "%.120s: want an absolute path, a type of d, p, f or l, and permission bits",
                it.path);
        if (rc == 0)
            rc = cay__fence_path(sb, call, it.path, true, err);
        if (f->done)
            f->done(i, &it, false, f->arg, NULL);
        CAY_TRY(rc);
    }
    return 0;
}

static int copy_file(cay_sandbox *sb, const cay_call *call, const cay_fill_item *it,
                     const cay_write *how, cay_err *err)
{
    cay_upload *up = NULL;
    char buf[65536];
    ssize_t got = 1;
    size_t left = it->len;
    CAY_TRY(cay_file_open_write(sb, call, it->path, how, &up, err));
    while (left && ((got = read(it->fd, buf, CAY_MIN(left, sizeof buf))) > 0 ||
                    (got < 0 && errno == EINTR))) {
        if (got > 0 && !cay__fd_write_all(cay_upload_fd(up), buf, (size_t)got))
            break;
        left -= (size_t)CAY_MAX(got, 0);
    }
    if (!left)
        return cay_upload_commit(up, call, err);
    int rc;
    if (got)
        rc = cay_fail_sys(err, "copy %.120s", it->path);
    else
        rc = cay_fail_why(err, CAY_EINVAL, "path_changed_during_copy",
                          "write %.120s: its source became shorter", it->path);
    cay_upload_abort(up);
    return rc;
}

static int write_item(cay_sandbox *sb, const cay_call *call, const cay_fill_item *it, cay_err *err)
{
    const cay_write how = { .size = sizeof how, .mode = it->mode, .parents = true };
    int rc;
    switch (it->type) {
    case 'd':
    case 'p':
        rc = cay_file_mkdir(sb, call, it->path, it->mode, true, err);
        if (rc < 0 && rc != CAY_EEXIST)
            return rc;
        if (it->type == 'd')
            CAY_TRY(cay_file_chmod(sb, call, it->path, it->mode, err));
        break;
    case 'l':
        cay_file_remove(sb, call, it->path, false, NULL);
        CAY_TRY(cay_file_symlink(sb, call, it->data, it->path, err));
        break;
    default:
        if (it->fd >= 0)
            rc = copy_file(sb, call, it, &how, err);
        else
            rc = cay_file_put(sb, call, it->path, it->len ? it->data : "", it->len, &how, err);
        CAY_TRY(rc);
    }
    if (it->gid == UINT32_MAX)
        return 0;
    CAY_TRY(cay_file_chown(sb, call, it->path, UINT32_MAX, it->gid, err));
    if (it->type == 'l')
        return 0;
    return cay_file_chmod(sb, call, it->path, it->mode,
                          err); /* a new group takes set-id bits away */
}

static int one_by_one(cay_sandbox *sb, const cay_call *call, const cay_fill *f, cay_err *err)
{
    for (size_t i = 0; i < f->n; i++) {
        cay_fill_item it = { .fd = -1, .gid = UINT32_MAX };
        CAY_TRY(f->get(i, &it, f->arg, err));
        int rc = write_item(sb, call, &it, err);
        if (rc < 0)
            rc = cay_wrap(err, rc, "%.120s", it.path);
        int done = 0;
        if (f->done)
            done = f->done(i, &it, rc == 0, f->arg, rc == 0 ? err : NULL);
        if (rc < 0)
            CAY_TRY(rc);
        else
            CAY_TRY(done);
    }
    return 0;
}

/* A link that one item makes can lead the next one elsewhere: each is then asked when it is its
 * turn. */
static bool has_write_fence(const cay_call *call)
{
    const cay_fence *f = cay__fence_of(call);
    return f && f->write;
}

int cay_file_fill(cay_sandbox *sb, const cay_call *call, const cay_fill *spec, cay_err *err)
{
    CAY__OP(call, "file.fill", sb->id, err);
    cay_fill f;
    cay_err why = CAY_ERR_INIT;
    CAY_TRY(cay__spec_take(&f, sizeof f, spec, "cay_fill", err));
    if (!f.n)
        return 0;
    if (!CAY__HAS(sb->ops, fill))
        return one_by_one(sb, call, &f, err);
    CAY_TRY(cay__sandbox_files(sb, err));
    CAY_TRY(check_items(sb, call, &f, err));
    if (has_write_fence(call))
        return one_by_one(sb, call, &f, err);
    int rc = sb->ops->fill(sb->box, call, &f, &why);
    if (rc == CAY_ENOTSUP && cay_err_is(&why, CAY_REASON_FILL_UNSUPPORTED))
        return one_by_one(sb, call, &f, err);
    return cay__err_pass(rc, &why, err);
}
