/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at files: one, a directory, by pattern, by what is in them. */
#include "native.h"
#include <base/base.h>
#include <cay/workspace.h>

int cay__reply_file(cay__req *r, int status, cay_sandbox *sb, const char *path, bool follow,
                    cay_err *err)
{
    cay_dirent e = { .path = path, .st = { .size_of = sizeof e.st } };
    CAY_TRY(cay_file_stat(sb, &r->call, path, follow, &e.st, err));
    if (e.st.type != CAY_LINK)
        e.st.target[0] = 0;
    return cay__reply_status(r, status, &e);
}

int cay__on_file_stat(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    const char *path;
    CAY_TRY(cay__native_files(r, &sb, err));
    CAY_TRY(cay__native_query(r, "path", &path, err));
    return cay__reply_file(r, 0, sb, path, cay__req_flag(r, "follow"), err);
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
        return cay__items_reply(l, err);
    cay__items_drop(l);
    return rc;
}

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
    cay__items_begin(&l, r);
    if (kept)
        return reply_items(&l, cay_sandbox_stopped_list(sb, &r->call, path, on_entry, &l, err),
                           err);
    return reply_items(&l, cay_dir_list(sb, &r->call, path, (unsigned)depth, on_entry, &l, err),
                       err);
}

int cay__on_file_glob(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay__items l;
    const char *path, *pattern;
    CAY_TRY(cay__native_files(r, &sb, err));
    CAY_TRY(cay__native_query(r, "path", &path, err));
    CAY_TRY(cay__native_query(r, "pattern", &pattern, err));
    cay__items_begin(&l, r);
    return reply_items(&l, cay_file_glob(sb, &r->call, path, pattern, on_entry, &l, err), err);
}

CAY__ITEMS_ADD(on_match, cay_match)

int cay__on_file_grep(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay__items l;
    cay__grep_body b = { .g = { .size = sizeof b.g } };
    CAY_TRY(cay__native_files(r, &sb, err));
    CAY_TRY(cay__req_body(r, &b, err));
    cay__items_begin(&l, r);
    return reply_items(&l, cay_file_grep(sb, &r->call, b.path, &b.g, on_match, &l, err), err);
}
