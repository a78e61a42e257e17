/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces that are kept: taken, listed, forgotten, sent away and brought back. */
#include "native.h"

enum { LIMIT = 100 };
#define ARCHIVE_MAX (1ull << 40) /* the disk ends sooner */

static int find_snapshot(cay__req *r, const char *ref, cay_snapshot **out, cay_err *err)
{
    return cay_client_snapshot_of(r->client, &r->call, cay__native_owner(r), ref, out, err);
}

int cay__on_snapshot_create(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    cay_snapshot_spec spec = { .size = sizeof spec };
    CAY_TRY(cay__req_body(r, &spec, err));
    spec.once = cay__req_once(r);
    CAY_TRY(cay_sandbox_snapshot(r->sb, &r->call, &spec, &s, err));
    return cay__reply_object(r, s);
}

typedef struct page {
    cay__items l;
    size_t limit;
} page;

static int on_snapshot(const cay_snapshot *s, void *arg)
{
    page *p = arg;
    return cay__items_page(&p->l, p->limit, s->id, s->created_ms, s);
}

int cay__on_snapshot_list(cay__req *r, cay_err *err)
{
    cay_snapshot_filter f = { .size = sizeof f, .limit = LIMIT, .tenant = cay__native_owner(r) };
    CAY_TRY(cay__req_asked(r, &f, err));
    if (!f.limit || (f.after && !cay__mark_valid(f.after, 's')) ||
        (f.sandbox && !cay__id_valid(f.sandbox, 'c')))
        return cay_fail_why(
            err, CAY_EINVAL, "bad_query", "?%s",
            !f.limit ? "limit= is at least 1"
                     : "after= is `next` of the answer before, or a whole id, and so is sandbox=");
    page p = { cay__items_of(r), f.limit++ }; /* one more tells that there is a next page */
    return cay__items_finish(
        &p.l, cay_client_snapshots(r->client, &r->call, &f, on_snapshot, &p, err), err);
}

int cay__on_snapshot_get(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    CAY_TRY(find_snapshot(r, r->param[0], &s, err));
    return cay__reply_object(r, s);
}

int cay__on_snapshot_patch(cay__req *r, cay_err *err)
{
    const char *label = NULL;
    CAY_AUTOPTR(cay_snapshot) old = NULL;
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    CAY_TRY(cay__req_body(r, &label, err));
    CAY_TRY(find_snapshot(r, r->param[0], &old, err));
    CAY_TRY(cay_snapshot_rename(r->client, &r->call, old->id, label, err));
    CAY_TRY(find_snapshot(r, old->id, &s, err));
    return cay__reply_object(r, s);
}

int cay__on_snapshot_delete(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    bool deferred = false;
    CAY_TRY(find_snapshot(r, r->param[0], &s, err));
    CAY_TRY(cay_snapshot_remove(r->client, &r->call, s->id, &deferred, err));
    return cay__reply_object(r, &deferred);
}

int cay__on_snapshot_export(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    CAY_AUTOPTR(cay_snapshot) since = NULL;
    CAY_AUTOFD fd = -1;
    cay_archived a = { .size = sizeof a };
    cay_export spec = { .size = sizeof spec };
    CAY_TRY(cay__req_asked(r, &spec, err));
    CAY_TRY(cay__native_scratch(r, "ask for it", "archive", &fd, err));
    CAY_TRY(find_snapshot(r, r->param[0], &s, err));
    spec.ref = s->id;
    if (spec.since) {
        CAY_TRY(find_snapshot(r, spec.since, &since, err));
        spec.since = since->id;
    }
    CAY_TRY(cay_client_export(r->client, &r->call, &spec, fd, &a, err));
    cay__reply_field(r, "X-Cay-Digest", a.digest);
    cay__reply_number(r, "X-Cay-Files", a.files);
    cay__reply_number(r, "X-Cay-Bytes", a.bytes);
    return cay__native_send(r, "application/octet-stream", &fd, err);
}

int cay__on_snapshot_import(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    CAY_AUTOFD fd = -1;
    uint64_t n;
    cay_import spec = { .size = sizeof spec };
    CAY_TRY(cay__req_asked(r, &spec, err));
    CAY_TRY(cay__native_receive(r, "archive", ARCHIVE_MAX, &fd, &n, err));
    CAY_TRY_SYS(lseek(fd, 0, SEEK_SET), err, "read the archive");
    CAY_TRY(cay_client_import(r->client, &r->call, &spec, fd, &s, err));
    return cay__reply_object(r, s);
}
