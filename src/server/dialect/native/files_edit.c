/* SPDX-License-Identifier: Apache-2.0 */
/* Changing files without their bytes: made, moved, removed, marked. */
#include "native.h"
#include <base/base.h>
#include <cay/patch.h>

enum { XATTR_MAX = 65536 };

/* One struct for all bodies that name a path or two. */
typedef struct edit {
    const char *path, *from, *to, *target;
    uint32_t mode, uid, gid;
    bool parents;
} edit;
static const cay__query user_query[] = { CAY__USER_QUERY, { NULL } };
#define PATH_FIELD(name)                                                                           \
    {                                                                                              \
#name, CAY__F_PATH, offsetof(edit, name), CAY__F_REQUIRED, .min = 1                        \
    }

static int read_edit(cay__req *r, const cay__shape *s, edit *e, cay_sandbox **sb, cay_err *err)
{
    CAY_TRY(cay__native_files(r, sb, err));
    return cay__req_shape(r, s, e, err);
}

static int reply_empty(cay__req *r)
{
    return cay__reply(r, 204, NULL, NULL, 0);
}

static const cay__field mkdir_fields[] = {
    PATH_FIELD(path),
    { "mode", CAY__F_MODE, offsetof(edit, mode), .about = "0755" },
    { "parents", CAY__F_BOOL, offsetof(edit, parents),
      .about = "make missing ones above it; one that is there is fine" },
};
static const cay__shape mkdir_shape = CAY__SHAPE("Mkdir", edit, mkdir_fields, NULL);
const cay__doc cay__doc_file_mkdir = {
    "makeDirectory",      "files",
    "make a directory",   .query = user_query,
    .body = &mkdir_shape, .answers = { { 201, &cay__file_shape }, { 400 }, { 404 }, { 409 } }
};
int cay__on_file_mkdir(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    edit e = { .mode = 0755 };
    CAY_TRY(read_edit(r, &mkdir_shape, &e, &sb, err));
    CAY_TRY(cay_file_mkdir(sb, &r->call, e.path, e.mode, e.parents, err));
    return cay__reply_file(r, 201, sb, e.path, false, err);
}

static const cay__field rename_fields[] = { PATH_FIELD(from), PATH_FIELD(to) };
static const cay__shape rename_shape = CAY__SHAPE("Rename", edit, rename_fields, NULL);
const cay__doc cay__doc_file_rename = { "renameFile",
                                        "files",
                                        "move it",
                                        .query = user_query,
                                        .body = &rename_shape,
                                        .answers = { { 204 }, { 400 }, { 404 } } };
int cay__on_file_rename(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    edit e = { 0 };
    CAY_TRY(read_edit(r, &rename_shape, &e, &sb, err));
    CAY_TRY(cay_file_rename(sb, &r->call, e.from, e.to, err));
    return reply_empty(r);
}

static const cay__query delete_query[] = { { "path", "string", "", .required = true },
                                           { "recursive", "boolean", "with all that is in it" },
                                           CAY__USER_QUERY,
                                           { NULL } };
const cay__doc cay__doc_file_delete = { "deleteFile", "files", "remove it", .query = delete_query,
                                        .answers = { { 204 }, { 400 }, { 404 }, { 409 } } };
int cay__on_file_delete(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    const char *path;
    CAY_TRY(cay__native_files(r, &sb, err));
    CAY_TRY(cay__native_query(r, "path", &path, err));
    CAY_TRY(cay_file_remove(sb, &r->call, path, cay__req_flag(r, "recursive"), err));
    return reply_empty(r);
}

static const cay__field symlink_fields[] = { PATH_FIELD(target), PATH_FIELD(path) };
static const cay__shape symlink_shape = CAY__SHAPE("Symlink", edit, symlink_fields, NULL);
const cay__doc cay__doc_file_symlink = {
    "makeLink",
    "files",
    "make a symbolic link",
    .query = user_query,
    .body = &symlink_shape,
    .answers = { { 201, &cay__file_shape }, { 400 }, { 404 }, { 409 } }
};
int cay__on_file_symlink(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    edit e = { 0 };
    CAY_TRY(read_edit(r, &symlink_shape, &e, &sb, err));
    CAY_TRY(cay_file_symlink(sb, &r->call, e.target, e.path, err));
    return cay__reply_file(r, 201, sb, e.path, false, err);
}

static const cay__field chmod_fields[] = {
    PATH_FIELD(path), { "mode", CAY__F_MODE, offsetof(edit, mode), CAY__F_REQUIRED }
};
static const cay__shape chmod_shape = CAY__SHAPE("Chmod", edit, chmod_fields, NULL);
const cay__doc cay__doc_file_chmod = { "setMode",
                                       "files",
                                       "other permissions",
                                       .query = user_query,
                                       .body = &chmod_shape,
                                       .answers = { { 204 }, { 400 }, { 404 } } };
int cay__on_file_chmod(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    edit e = { 0 };
    CAY_TRY(read_edit(r, &chmod_shape, &e, &sb, err));
    CAY_TRY(cay_file_chmod(sb, &r->call, e.path, e.mode, err));
    return reply_empty(r);
}

static const cay__field chown_fields[] = {
    PATH_FIELD(path),
    { "uid", CAY__F_U32, offsetof(edit, uid), .max = UINT32_MAX - 1 },
    { "gid", CAY__F_U32, offsetof(edit, gid), .max = UINT32_MAX - 1 },
};
static const cay__shape chown_shape =
    CAY__SHAPE("Chown", edit, chown_fields, "what is left out stays as it is");
const cay__doc cay__doc_file_chown = {
    "setOwner",           "files",
    "another owner",      .query = user_query,
    .body = &chown_shape, .answers = { { 204 }, { 400 }, { 404 } }
};
int cay__on_file_chown(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    edit e = { .uid = UINT32_MAX, .gid = UINT32_MAX };
    CAY_TRY(read_edit(r, &chown_shape, &e, &sb, err));
    CAY_TRY(cay_file_chown(sb, &r->call, e.path, e.uid, e.gid, err));
    return reply_empty(r);
}

static const cay__query path_query[] = { { "path", "string", "", .required = true },
                                         CAY__USER_QUERY,
                                         { NULL } };
static const cay__query xattr_query[] = { { "path", "string", "", .required = true },
                                          { "name", "string", "user.…", .required = true },
                                          CAY__USER_QUERY,
                                          { NULL } };

static int begin_xattr(cay__req *r, cay_sandbox **sb, const char **path, const char **name,
                       cay_err *err)
{
    CAY_TRY(cay__native_files(r, sb, err));
    CAY_TRY(cay__native_query(r, "path", path, err));
    if (name)
        return cay__native_query(r, "name", name, err);
    return 0;
}

static int on_name(const char *name, void *arg)
{
    cay__buf *b = arg;
    cay__buf_str(b, b->data[b->len - 1] == '[' ? "" : ",");
    cay__buf_json(b, name, strlen(name));
    return 0;
}

typedef struct names {
    const char *const *items;
} names;
static const cay__field names_fields[] = { { "items", CAY__F_STRS, offsetof(names, items) } };
static const cay__shape names_shape = CAY__SHAPE("Names", names, names_fields, NULL);

const cay__doc cay__doc_file_xattrs = { "listAttributes", "files",
                                        "names of its extended attributes", .query = path_query,
                                        .answers = { { 200, &names_shape }, { 400 }, { 404 } } };
int cay__on_file_xattrs(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    const char *path;
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    CAY_TRY(begin_xattr(r, &sb, &path, NULL, err));
    cay__buf_str(&b, "{\"items\":[");
    CAY_TRY(cay_file_listxattr(sb, &r->call, path, on_name, &b, err));
    cay__buf_str(&b, "]}");
    return cay__reply(r, 200, "application/json", b.data, b.len);
}

const cay__doc cay__doc_file_xattr_get = {
    "getAttribute", "files", "the value of one, as bytes", .query = xattr_query,
    .answers = { { 200, .type = "application/octet-stream" }, { 400 }, { 404 } }
};
int cay__on_file_xattr_get(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    const char *path, *name;
    size_t len = XATTR_MAX;
    CAY_TRY(begin_xattr(r, &sb, &path, &name, err));
    char *value = cay__arena_take(&r->arena, len);
    CAY_TRY(cay_file_getxattr(sb, &r->call, path, name, value, &len, err));
    return cay__reply(r, 200, "application/octet-stream", value, len);
}

const cay__doc cay__doc_file_xattr_put = { "setAttribute",
                                           "files",
                                           "the body becomes its value",
                                           .query = xattr_query,
                                           .body_type = "application/octet-stream",
                                           .answers = { { 204 }, { 400 }, { 404 }, { 413 } } };
int cay__on_file_xattr_put(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    const char *path, *name;
    size_t len = 0, n;
    CAY_TRY(begin_xattr(r, &sb, &path, &name, err));
    char *value = cay__arena_take(&r->arena, XATTR_MAX + 1);
    do {
        CAY_TRY(cay__req_read(r, value + len, XATTR_MAX + 1 - len, &n, err));
        len += n;
    } while (n && len <= XATTR_MAX);
    if (len > XATTR_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "xattr_too_big", "an attribute has at most %d bytes",
                            XATTR_MAX);
    CAY_TRY(cay_file_setxattr(sb, &r->call, path, name, value, len, err));
    return reply_empty(r);
}

const cay__doc cay__doc_file_xattr_delete = { "removeAttribute", "files", "remove one",
                                              .query = xattr_query,
                                              .answers = { { 204 }, { 400 }, { 404 } } };
int cay__on_file_xattr_delete(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    const char *path, *name;
    CAY_TRY(begin_xattr(r, &sb, &path, &name, err));
    CAY_TRY(cay_file_setxattr(sb, &r->call, path, name, NULL, 0, err));
    return reply_empty(r);
}

typedef struct patch_body {
    cay_patch_spec spec;
    const char *patch;
} patch_body;
static const cay__field patch_fields[] = {
    { "patch", CAY__F_STR, offsetof(patch_body, patch), CAY__F_REQUIRED, .max = 8 << 20,
      .about = "*** Begin Patch …" },
    { "root", CAY__F_PATH, offsetof(patch_body, spec.root),
      .about = "paths must stay below it; the working directory" },
    { "cwd", CAY__F_PATH, offsetof(patch_body, spec.cwd) },
    { "user", CAY__F_STR, offsetof(patch_body, spec.user) },
    { "dry", CAY__F_BOOL, offsetof(patch_body, spec.dry), .about = "would it apply?" },
    { "exclusive", CAY__F_BOOL, offsetof(patch_body, spec.exclusive),
      .about = "a file that is there is not made anew" },
};
static const cay__shape patch_shape = CAY__SHAPE("Patch", patch_body, patch_fields, NULL);
typedef struct patched {
    const char *const *lines;
} patched;
static const cay__field patched_fields[] = { { "lines", CAY__F_STRS, offsetof(patched, lines),
                                               .about = "\"Created a\", \"Updated b\", …" } };
static const cay__shape patched_shape = CAY__SHAPE("Patched", patched, patched_fields, NULL);

const cay__doc cay__doc_file_patch = { "patchFiles", "files",
                                       "files changed by context, as agents write it",
                                       .body = &patch_shape,
                                       .answers = { { 200, &patched_shape }, { 400 }, { 404 } } };
int cay__on_file_patch(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay_patch *p = NULL;
    CAY_AUTOBUF b = CAY__BUF(8 << 20);
    patch_body body = { .spec = { .size = sizeof body.spec } };
    CAY_TRY(cay__native_use(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &patch_shape, &body, err));
    CAY_TRY(cay_patch_parse(body.patch, &p, err));
    cay__buf_str(&b, "{\"lines\":[");
    int rc = cay_patch_apply(sb, &r->call, p, &body.spec, on_name, &b, err);
    cay_patch_free(p);
    if (rc < 0)
        return rc;
    cay__buf_str(&b, "]}");
    return cay__reply(r, 200, "application/json", b.data, b.len);
}
