/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and forks. */
#include "e2b.h"

static json_t *snapshot_json(const cay_snapshot *s)
{
    return json_pack("{s:s,s:[o*]}", "snapshotID", s->id, "names",
                     CAY_IF(*s->label, json_string(s->label)));
}

int e2b_on_snapshot(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(e2b_open(r, &b, err));
    const cay_snapshot_spec spec = { .size = sizeof spec,
                                     .label = cay__json_str(in, "name", NULL),
                                     .stop = true };
    CAY_TRY(cay_sandbox_snapshot(b.sb, &r->call, &spec, &s, err));
    return cay__reply_json(r, 201, snapshot_json(s));
}

typedef struct snaps {
    json_t *list;
    const char *name;
    uint64_t limit;
    char next[CAY_ID_LEN + 1];
} snaps;

static int add_snapshot(const cay_snapshot *s, void *arg)
{
    snaps *l = arg;
    if (s->automatic || (l->name && strcmp(l->name, s->label)))
        return 0;
    if (json_array_size(l->list) == l->limit)
        return 1;
    json_array_append_new(l->list, snapshot_json(s));
    CAY_COPY(l->next, s->id);
    return 0;
}

int e2b_on_snapshots(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *out = json_array();
    const char *after = cay__req_query(r, "nextToken"), *sandbox = cay__req_query(r, "sandboxID");
    snaps l = { .list = out, .name = cay__req_query(r, "name") };
    CAY_TRY(e2b_limit(r, &l.limit, err));
    const cay_snapshot_filter f = { .size = sizeof f,
                                    .sandbox = cay__text_or(sandbox, NULL),
                                    .after = cay__text_or(after, NULL),
                                    .tenant = cay__req_tenant(r) };
    int rc = cay_client_snapshots(r->client, &r->call, &f, add_snapshot, &l, err);
    CAY_TRY(rc);
    if (rc == 1)
        cay__reply_field(r, "x-next-token", l.next);
    return cay__reply_json(r, 200, json_incref(out));
}

typedef struct forks {
    cay__req *r;
    const char *template_;
    json_t *list;
    cay_err *err;
} forks;

static int add_fork(cay_sandbox *sb, void *arg)
{
    forks *f = arg;
    json_t *one;
    int rc = e2b_sandbox_json(f->r, cay_sandbox_id(sb), f->template_, &one, f->err);
    if (rc == 0)
        json_array_append_new(f->list, json_pack("{s:o}", "sandbox", one));
    return rc;
}

int e2b_on_fork(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    int64_t s;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(e2b_seconds(in, "timeout", 15, &s, err));
    CAY_TRY(e2b_open(r, &b, err));
    const json_t *count = e2b_member(in, "count");
    int64_t n = cay__json_int(in, "count", 1);
    if ((count && !json_is_integer(count)) || n < 1 || n > 100)
        return cay_fail(err, CAY_EINVAL, "count is 1 to 100");
    CAY_AUTOJSON *list = json_array();
    forks f = { r, b.note.template_, list, err };
    const cay_fork spec = { .size = sizeof spec,
                            .n = (size_t)n,
                            .ttl_ms = (uint64_t)CAY_MAX(s, 1) * 1000 };
    CAY_TRY(cay_client_fork(r->client, &r->call, b.info->id, &spec, add_fork, &f, err));
    return cay__reply_json(r, 201, json_incref(list));
}
