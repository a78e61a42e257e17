/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at files: one, a directory, by pattern, by what is in them. */
#include "native.h"

int cay__reply_file(cay__req *r, int status, const char *path, bool follow, cay_err *err)
{
    cay_dirent e = { .path = path, .st = { .size_of = sizeof e.st } };
    CAY_TRY(cay_file_stat(r->sb, &r->call, path, follow, &e.st, err));
    if (e.st.type != CAY_LINK)
        e.st.target[0] = 0;
    return cay__reply_status(r, status, &e);
}

int cay__native_wake(cay__req *r, const cay__file_query *q, cay_err *err)
{
    if (q->kept)
        return 0;
    CAY_TRY(cay_sandbox_wake(r->sb, &r->call, err));
    r->call.user = q->user;
    return 0;
}

int cay__on_file_stat(cay__req *r, cay_err *err)
{
    cay__file_query q = { 0 };
    CAY_TRY(cay__req_asked(r, &q, err));
    return cay__reply_file(r, 0, q.path, q.follow, err);
}

static int on_entry(const cay_dirent *e, void *arg)
{
    cay_dirent o = *e;
    if (o.st.type != CAY_LINK)
        o.st.target[0] = 0;
    return cay__items_add(arg, &o);
}

int cay__on_file_list(cay__req *r, cay_err *err)
{
    int rc;
    cay__file_query q = { .depth = 1 };
    CAY_TRY(cay__req_asked(r, &q, err));
    CAY_TRY(cay__native_wake(r, &q, err));
    cay__items l = cay__items_of(r);
    if (q.kept)
        rc = cay_sandbox_stopped_list(r->sb, &r->call, q.path, on_entry, &l, err);
    else
        rc = cay_dir_list(r->sb, &r->call, q.path, (unsigned)q.depth, on_entry, &l, err);
    return cay__items_finish(&l, rc, err);
}

int cay__on_file_glob(cay__req *r, cay_err *err)
{
    cay__file_query q = { 0 };
    CAY_TRY(cay__req_asked(r, &q, err));
    cay__items l = cay__items_of(r);
    return cay__items_finish(
        &l, cay_file_glob(r->sb, &r->call, q.path, q.pattern, on_entry, &l, err), err);
}

CAY__ITEMS_ADD(on_match, cay_match)

int cay__on_file_grep(cay__req *r, cay_err *err)
{
    cay__grep_body b = { .g = { .size = sizeof b.g } };
    CAY_TRY(cay__req_body(r, &b, err));
    cay__items l = cay__items_of(r);
    return cay__items_finish(&l, cay_file_grep(r->sb, &r->call, b.path, &b.g, on_match, &l, err),
                             err);
}
