/* SPDX-License-Identifier: Apache-2.0 */
/* What changed between two points: sandboxes as they are now, and snapshots. */
#include "native.h"

typedef struct walk {
    cay__items l;
    cay__buf patch;
    bool text;
} walk;

static int on_change(const cay_file_change *c, void *arg)
{
    walk *w = arg;
    if (w->text) {
        cay__buf_add(&w->patch, CAY_OR(c->text, ""), c->text ? c->text_len : 0);
        if (w->patch.full)
            return CAY_ETOOBIG;
        return 0;
    }
    cay__file_changed x;
    cay__file_changed_set(&x, c);
    return cay__items_add(&w->l, &x);
}

/* A point that the one who asks may look at, by its whole id. */
static int resolve_point(cay__req *r, const char *ref, const char **out, cay_err *err)
{
    cay_sandbox *sb;
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    if (cay__id_valid(ref, 'c')) {
        CAY_TRY(cay__req_sandbox(r, ref, &sb, err));
        *out = cay__arena_str(&r->arena, cay_sandbox_id(sb));
        return 0;
    }
    CAY_TRY(cay_client_snapshot_of(r->client, &r->call, cay__native_owner(r), ref, &s, err));
    *out = cay__arena_str(&r->arena, s->id);
    return 0;
}

static int compare_points(cay__req *r, bool text, cay_err *err)
{
    uint64_t left = 0;
    walk w = { .text = text, .patch = CAY__BUF(65u << 20) };
    cay_diff d = { .size = sizeof d };
    CAY_TRY(cay__req_asked(r, &d, err));
    d.patch |= text;
    CAY_TRY(resolve_point(r, d.a, &d.a, err));
    if (d.b && *d.b)
        CAY_TRY(resolve_point(r, d.b, &d.b, err));
    else
        d.b = NULL;
    w.l = cay__items_of(r);
    int rc = cay_client_diff(r->client, &r->call, &d, on_change, &w, &left, err);
    if (rc == 0 && left)
        cay__reply_number(r, "X-Cay-Left-Out", left);
    if (rc == 0 && w.text)
        rc = cay__reply(r, 200, "text/x-diff", CAY_OR(w.patch.data, ""), w.patch.len);
    else
        rc = cay__items_finish(&w.l, rc, err);
    cay__buf_clear(&w.l.b);
    cay__buf_clear(&w.patch);
    return rc;
}

int cay__on_diff(cay__req *r, cay_err *err)
{
    return compare_points(r, false, err);
}

int cay__on_diff_patch(cay__req *r, cay_err *err)
{
    return compare_points(r, true, err);
}
