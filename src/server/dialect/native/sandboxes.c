/* SPDX-License-Identifier: Apache-2.0 */
/* Which sandboxes there are, and what is known of each. */
#include "native.h"

int cay__on_sandbox_get(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_info) info = NULL;
    CAY_TRY(cay_sandbox_describe(r->sb, &r->call, &info, err));
    return cay__reply_object(r, info);
}

enum { NAMED_MAX = 100 };

typedef struct lister {
    cay__items list;
    cay__cached_list kept;
    size_t limit;
    unsigned states; /* 0: any */
} lister;

static int on_info(const cay_info *i, void *arg)
{
    lister *l = arg;
    cay__cached_list_saw(&l->kept,
                         i); /* also one that is left out: it may come to be one that is told */
    if (l->states && !(l->states & (1u << i->state)))
        return 0;
    return cay__items_page(&l->list, l->limit, i->id, i->created_ms, i);
}

static int take_states(const char *const *words, unsigned *out, cay_err *err)
{
    for (; words && *words; words++) {
        cay_state st = cay_state_parse(*words);
        if (st == CAY_STATE_NONE || st == CAY_GONE)
            return cay_fail_why(
                err, CAY_EINVAL, "bad_query",
                "?state=%.20s: want creating, running, paused, stopped, deleting or damaged",
                *words);
        *out |= 1u << st;
    }
    return 0;
}

/* For who follows events: several that may be gone again, by one request and without an error. */
static int list_named(cay__req *r, const char *const *ids, cay_err *err)
{
    int rc = 0;
    for (size_t i = 0; ids[i]; i++)
        if (i == NAMED_MAX || !cay__id_valid(ids[i], 'c'))
            return cay_fail_why(err, CAY_EINVAL, "bad_query",
                                i == NAMED_MAX ? "?id=: at most %d of them"
                                               : "?id=: want a sandbox's whole id",
                                NAMED_MAX);
    cay__items l = cay__items_of(r);
    for (; rc >= 0 && *ids; ids++) {
        cay_sandbox *sb;
        CAY_AUTOPTR(cay_info) info = NULL;
        rc = cay__req_sandbox(r, *ids, &sb, err);
        if (rc == 0)
            rc = cay_sandbox_describe(sb, &r->call, &info, err);
        if (rc == 0)
            rc = cay__items_add(&l, info);
        if (rc == CAY_ENOENT || rc == CAY_EGONE)
            rc = 0;
    }
    return cay__items_finish(&l, rc, err);
}

int cay__on_sandbox_list(cay__req *r, cay_err *err)
{
    lister l = { .states = 0 };
    cay__list_query q = { .f = { .size = sizeof q.f, .limit = 100 } };
    cay_filter f;
    CAY_AUTOJSON *metadata = NULL;
    CAY_TRY(cay__req_asked(r, &q, err));
    if (q.ids)
        return list_named(r, q.ids, err);
    CAY_TRY(take_states(q.states, &l.states, err));
    f = q.f;
    f.tenant = cay__req_tenant(r);
    if (f.metadata && cay__json_object("metadata", f.metadata, &metadata, NULL) < 0)
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?metadata=%.40s: want one JSON object",
                            f.metadata);
    if (!f.limit)
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?limit=0: want 1 to 1000");
    if (f.after && !cay__mark_valid(f.after, 'c'))
        return cay_fail_why(
            err, CAY_EINVAL, "bad_query",
            "?after=%.30s: want `next` of the answer before, or a sandbox's whole id", f.after);
    l.limit = f.limit;
    f.limit = l.states ? 0 : f.limit + 1; /* one more tells that there is a next page */
    if (cay__cached_list_reply(&l.kept, r))
        return 0;
    l.list = cay__items_of(r);
    int rc = cay_client_list(r->client, &r->call, &f, on_info, &l, err);
    if (rc >= 0 || rc == CAY_ETOOBIG)
        rc = cay__items_end(&l.list, err);
    if (rc == 0) {
        cay__cached_list_keep(&l.kept, l.list.b.data, l.list.b.len);
        rc = cay__reply(r, 200, "application/json", l.list.b.data, l.list.b.len);
    }
    cay__buf_clear(&l.list.b);
    return rc;
}

int cay__on_sandbox_usage(cay__req *r, cay_err *err)
{
    cay_usage u = { .size = sizeof u };
    CAY_TRY(cay_sandbox_usage(r->sb, &r->call, &u, err));
    return cay__reply_object(r, &u);
}
