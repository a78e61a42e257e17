/* SPDX-License-Identifier: Apache-2.0 */
/* Changing files without their bytes: made, moved, removed, marked. */
#include "native.h"

enum { XATTR_MAX = 65536 };

int cay__on_file_mkdir(cay__req *r, cay_err *err)
{
    cay__edit_body e = { .mode = 0755 };
    CAY_TRY(cay__req_body(r, &e, err));
    CAY_TRY(cay_file_mkdir(r->sb, &r->call, e.path, e.mode, e.parents, err));
    return cay__reply_file(r, 0, e.path, false, err);
}

int cay__on_file_rename(cay__req *r, cay_err *err)
{
    cay__edit_body e = { 0 };
    CAY_TRY(cay__req_body(r, &e, err));
    CAY_TRY(cay_file_rename(r->sb, &r->call, e.from, e.to, err));
    return cay__reply_done(r);
}

int cay__on_file_delete(cay__req *r, cay_err *err)
{
    cay__file_query q = { 0 };
    CAY_TRY(cay__req_asked(r, &q, err));
    CAY_TRY(cay_file_remove(r->sb, &r->call, q.path, q.recursive, err));
    return cay__reply_done(r);
}

int cay__on_file_symlink(cay__req *r, cay_err *err)
{
    cay__edit_body e = { 0 };
    CAY_TRY(cay__req_body(r, &e, err));
    CAY_TRY(cay_file_symlink(r->sb, &r->call, e.target, e.path, err));
    return cay__reply_file(r, 0, e.path, false, err);
}

int cay__on_file_chmod(cay__req *r, cay_err *err)
{
    cay__edit_body e = { 0 };
    CAY_TRY(cay__req_body(r, &e, err));
    CAY_TRY(cay_file_chmod(r->sb, &r->call, e.path, e.mode, err));
    return cay__reply_done(r);
}

int cay__on_file_chown(cay__req *r, cay_err *err)
{
    cay__edit_body e = { .uid = UINT32_MAX, .gid = UINT32_MAX };
    CAY_TRY(cay__req_body(r, &e, err));
    CAY_TRY(cay_file_chown(r->sb, &r->call, e.path, e.uid, e.gid, err));
    return cay__reply_done(r);
}

static int on_name(const char *name, void *arg)
{
    cay__buf *b = arg;
    cay__buf_str(b, b->data[b->len - 1] == '[' ? "" : ",");
    cay__buf_json(b, name, strlen(name));
    return 0;
}

int cay__on_file_xattrs(cay__req *r, cay_err *err)
{
    cay__file_query q = { 0 };
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    CAY_TRY(cay__req_asked(r, &q, err));
    cay__buf_str(&b, "{\"items\":[");
    CAY_TRY(cay_file_listxattr(r->sb, &r->call, q.path, on_name, &b, err));
    cay__buf_str(&b, "]}");
    return cay__reply(r, 200, "application/json", b.data, b.len);
}

int cay__on_file_xattr_get(cay__req *r, cay_err *err)
{
    cay__file_query q = { 0 };
    size_t len = XATTR_MAX;
    CAY_TRY(cay__req_asked(r, &q, err));
    char *value = cay__arena_take(&r->arena, len);
    CAY_TRY(cay_file_getxattr(r->sb, &r->call, q.path, q.name, value, &len, err));
    return cay__reply(r, 200, "application/octet-stream", value, len);
}

int cay__on_file_xattr_put(cay__req *r, cay_err *err)
{
    cay__file_query q = { 0 };
    size_t len = 0, n;
    CAY_TRY(cay__req_asked(r, &q, err));
    char *value = cay__arena_take(&r->arena, XATTR_MAX + 1);
    do {
        CAY_TRY(cay__req_read(r, value + len, XATTR_MAX + 1 - len, &n, err));
        len += n;
    } while (n && len <= XATTR_MAX);
    if (len > XATTR_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "xattr_too_big", "an attribute has at most %d bytes",
                            XATTR_MAX);
    CAY_TRY(cay_file_setxattr(r->sb, &r->call, q.path, q.name, value, len, err));
    return cay__reply_done(r);
}

int cay__on_file_xattr_delete(cay__req *r, cay_err *err)
{
    cay__file_query q = { 0 };
    CAY_TRY(cay__req_asked(r, &q, err));
    CAY_TRY(cay_file_setxattr(r->sb, &r->call, q.path, q.name, NULL, 0, err));
    return cay__reply_done(r);
}

int cay__on_file_patch(cay__req *r, cay_err *err)
{
    cay_patch *p = NULL;
    CAY_AUTOBUF b = CAY__BUF(8 << 20);
    cay__file_patch body = { .spec = { .size = sizeof body.spec } };
    CAY_TRY(cay__req_body(r, &body, err));
    CAY_TRY(cay_patch_parse(body.patch, &p, err));
    cay__buf_str(&b, "{\"lines\":[");
    int rc = cay_patch_apply(r->sb, &r->call, p, &body.spec, on_name, &b, err);
    cay_patch_free(p);
    if (rc < 0)
        return rc;
    cay__buf_str(&b, "]}");
    return cay__reply(r, 200, "application/json", b.data, b.len);
}
