/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at files: one, a directory, by pattern, by what is in them. */
#include "native.h"
#include <base/base.h>
#include <cay/workspace.h>
#include <string.h>

#define ST(field) offsetof(cay_dirent, st.field)

static void put_type(cay__buf *b, const void *v)
{
    switch (*(const cay_file_type *)v) {
    case CAY_FILE: cay__buf_str(b, "\"file\""); break;
    case CAY_DIR: cay__buf_str(b, "\"directory\""); break;
    case CAY_LINK: cay__buf_str(b, "\"link\""); break;
    default: cay__buf_str(b, "\"other\""); break;
    }
}

static const cay__field file_fields[] = {
    { "path", CAY__F_PATH, offsetof(cay_dirent, path) },
    { "type", CAY__F_CALC, ST(type), .put = put_type,
      .more = "{\"enum\":[\"file\",\"directory\",\"link\",\"other\"]}" },
    { "size", CAY__F_U64, ST(size) },
    { "mode", CAY__F_MODE, ST(mode) },
    { "uid", CAY__F_U32, ST(uid) },
    { "gid", CAY__F_U32, ST(gid) },
    { "mtime_ns", CAY__F_I64, ST(mtime_ns) },
    { "inode", CAY__F_U64, ST(inode) },
    { "nlink", CAY__F_U32, ST(nlink) },
    { "target", CAY__F_PLACE, ST(target), CAY__F_MAYBE, .about = "of a link" },
};
const cay__shape cay__file_shape =
    CAY__SHAPE("File", cay_dirent, file_fields, "a file, directory or link");

int cay__reply_file(cay__req *r, int status, cay_sandbox *sb, const char *path, bool follow,
                    cay_err *err)
{
    cay_dirent e = { .path = path, .st = { .size_of = sizeof e.st } };
    CAY_TRY(cay_file_stat(sb, &r->call, path, follow, &e.st, err));
    if (e.st.type != CAY_LINK)
        e.st.target[0] = 0;
    return cay__reply_shape(r, status, &cay__file_shape, &e);
}

static const cay__query stat_query[] = {
    { "path", "string", "", .required = true },
    { "follow", "boolean", "what a link leads to, instead of the link" },
    CAY__USER_QUERY,
    { NULL },
};
const cay__doc cay__doc_file_stat = { "statFile", "files", "what it is", .query = stat_query,
                                      .answers = { { 200, &cay__file_shape }, { 400 }, { 404 } } };
int cay__on_file_stat(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    const char *path;
    CAY_TRY(cay__native_files(r, &sb, err));
    CAY_TRY(cay__native_query(r, "path", &path, err));
    return cay__reply_file(r, 200, sb, path, cay__req_flag(r, "follow"), err);
}

static int on_entry(const cay_dirent *e, void *arg)
{
    cay_dirent o = *e;
    if (o.st.type != CAY_LINK)
        o.st.target[0] = 0;
    return cay__items_add(arg, &o);
}

/* rc is that of the function that gave the items. */
static int reply_items(cay__items *l, int rc, cay_err *err)
{
    if (rc >= 0 || (rc == CAY_ETOOBIG && l->b.full))
        return cay__items_reply(l, 200, err);
    cay__items_drop(l);
    return rc;
}

static const cay__query list_query[] = {
    { "path", "string", "a directory", .required = true },
    { "depth", "integer", "1: the directory itself; 0: all the way down" },
    { "kept", "boolean",
      "of one that is stopped, as it was left, without starting it; depth is 1 then" },
    CAY__USER_QUERY,
    { NULL },
};
const cay__doc cay__doc_file_list = {
    "listFiles", "files", "what is in a directory", .query = list_query,
    .answers = { { 200, &cay__file_shape, .list = true }, { 400 }, { 404 }, { 409 } }
};
int cay__on_file_list(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay__items l;
    const char *path;
    uint64_t depth;
    bool kept = cay__req_flag(r, "kept");
    if (kept)
        CAY_TRY(cay__native_sandbox(r, &sb, err));
    else
        CAY_TRY(cay__native_files(r, &sb, err));
    CAY_TRY(cay__native_query(r, "path", &path, err));
    CAY_TRY(cay__req_number(r, "depth", 1, 4096, &depth, err));
    cay__items_begin(&l, r, &cay__file_shape);
    if (kept)
        return reply_items(&l, cay_sandbox_kept_list(sb, &r->call, path, on_entry, &l, err), err);
    return reply_items(&l, cay_dir_list(sb, &r->call, path, (unsigned)depth, on_entry, &l, err),
                       err);
}

static const cay__query glob_query[] = {
    { "path", "string", "a directory", .required = true },
    { "pattern", "string", "*, ?, [a-z], and ** for any number of directories", .required = true },
    CAY__USER_QUERY,
    { NULL },
};
const cay__doc cay__doc_file_glob = {
    "globFiles", "files", "those whose path fits", .query = glob_query,
    .answers = { { 200, &cay__file_shape, .list = true }, { 400 }, { 404 } }
};
int cay__on_file_glob(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay__items l;
    const char *path, *pattern;
    CAY_TRY(cay__native_files(r, &sb, err));
    CAY_TRY(cay__native_query(r, "path", &path, err));
    CAY_TRY(cay__native_query(r, "pattern", &pattern, err));
    cay__items_begin(&l, r, &cay__file_shape);
    return reply_items(&l, cay_file_glob(sb, &r->call, path, pattern, on_entry, &l, err), err);
}

typedef struct grep_body {
    cay_grep g;
    const char *path;
} grep_body;
static const cay__field grep_fields[] = {
    { "path", CAY__F_PATH, offsetof(grep_body, path), CAY__F_REQUIRED, .about = "where to look" },
    { "pattern", CAY__F_STR, offsetof(grep_body, g.pattern), CAY__F_REQUIRED,
      .about = "a POSIX extended regular expression" },
    { "plain", CAY__F_BOOL, offsetof(grep_body, g.plain), .about = "it is plain text" },
    { "ignore_case", CAY__F_BOOL, offsetof(grep_body, g.ignore_case) },
    { "include", CAY__F_STR, offsetof(grep_body, g.include),
      .about = "only files whose name fits this pattern" },
    { "max", CAY__F_U64, offsetof(grep_body, g.max), .max = 1000000, .about = "matches; 10000" },
};
static const cay__shape grep_shape = CAY__SHAPE("Grep", grep_body, grep_fields, NULL);
static const cay__field match_fields[] = {
    { "path", CAY__F_PATH, offsetof(cay_match, path) },
    { "line", CAY__F_U64, offsetof(cay_match, line) },
    { "column", CAY__F_U64, offsetof(cay_match, column), .about = "byte, from 1" },
    { "text", CAY__F_BYTES, offsetof(cay_match, text), .count = offsetof(cay_match, text_len),
      .about = "the line, cut at 4096 bytes" },
};
static const cay__shape match_shape = CAY__SHAPE("Match", cay_match, match_fields, NULL);

static int on_match(const cay_match *m, void *arg)
{
    return cay__items_add(arg, m);
}

static const cay__query grep_query[] = { CAY__USER_QUERY, { NULL } };
const cay__doc cay__doc_file_grep = {
    "grepFiles",         "files",
    "lines that fit",    .query = grep_query,
    .body = &grep_shape, .answers = { { 200, &match_shape, .list = true }, { 400 }, { 404 } }
};
int cay__on_file_grep(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay__items l;
    grep_body b = { .g = { .size = sizeof b.g } };
    CAY_TRY(cay__native_files(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &grep_shape, &b, err));
    cay__items_begin(&l, r, &match_shape);
    return reply_items(&l, cay_file_grep(sb, &r->call, b.path, &b.g, on_match, &l, err), err);
}
