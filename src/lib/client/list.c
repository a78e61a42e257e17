/* SPDX-License-Identifier: Apache-2.0 */
/* All the sandboxes there are, and whether what was told of them still holds. */
#include "remote.h"
#include <lib/store/row.h>
#include "client.h"
#include <base/json.h>

enum { BATCH = 32 };

/* Records are taken in batches, so that a provider is asked about many sandboxes at once. */
typedef struct lister {
    cay_client *client;
    const cay_call *call;
    const cay_filter *filter;
    cay_info_fn *fn;
    void *arg;
    size_t told, n;
    cay__row *rows[BATCH];
    bool seen[BATCH]; /* its status is there */
    cay_box_status status[BATCH];
    char reasons[BATCH][64];
    cay_err *err;
    bool enough;
    json_t *metadata; /* what it has to have, or NULL */
} lister;

static int on_status(size_t i, const cay_box_status *st, void *arg)
{
    lister *l = arg;
    if (i >= l->n)
        return 0;
    l->status[i] = *st;
    CAY_COPY(l->reasons[i], CAY_OR(st->reason, ""));
    l->status[i].reason = l->reasons[i];
    l->seen[i] = true;
    return 0;
}

/* Of this provider's among them, if it tells of many at once; whoever is not told of is asked about
 * alone. */
static void look_at(lister *l, cay__place *p)
{
    const char *ids[BATCH];
    void *self;
    size_t live = 0;
    for (size_t i = 0; i < l->n; i++) {
        const cay_row *row = &l->rows[i]->row;
        if (cay__state_live(row->state) && !strcmp(row->provider, p->ops->name))
            ids[i] = row->id;
        else
            ids[i] = NULL;
        live += ids[i] != NULL;
    }
    if (live && cay__client_self(l->client, p, &self, NULL) == 0)
        p->ops->look(self, l->call, ids, l->n, on_status, l, NULL);
}

static int report_row(lister *l, size_t i)
{
    const cay_row *row = &l->rows[i]->row;
    cay__truth t;
    int rc = 0;
    if (l->seen[i])
        cay__truth_take(l->client, row, &l->status[i], &t);
    else
        cay__truth_find(l->client, l->call, row, &t,
                        NULL); /* a provider that is down does not hide its sandboxes */
    if (!l->filter->states || (l->filter->states & CAY__BIT(t.state))) {
        cay_info *info = cay__info_new(row->id, row, &t);
        rc = l->fn(info, l->arg);
        cay_info_free(info);
        l->enough = l->filter->limit && ++l->told == l->filter->limit;
    }
    cay__truth_clear(&t);
    return CAY_OR(rc, l->enough);
}

/* rc: what stopped the list before; then the rest is only let go. */
static int flush_batch(lister *l, int rc)
{
    if (rc == 0 && l->n)
        rc = cay__call_check(l->call, "list", l->err);
    memset(l->seen, 0, sizeof l->seen);
    for (size_t i = 0; rc == 0 && i < l->client->nplaces; i++)
        if (l->client->places[i].ops->look)
            look_at(l, &l->client->places[i]);
    for (size_t i = 0; rc == 0 && i < l->n; i++)
        if ((rc = cay__call_check(l->call, "list", l->err)) == 0)
            rc = report_row(l, i);
    CAY_EACH_OF(row, l->rows, l->n)
        free(*row);
    l->n = 0;
    return rc;
}

static bool has_metadata(const cay_row *row, json_t *want)
{
    CAY_AUTOJSON *have = NULL;
    const char *key;
    json_t *v;
    if (want && (!*row->metadata || cay__json_object("metadata", row->metadata, &have, NULL) < 0))
        return json_object_size(want) == 0;
    json_object_foreach(want, key, v)
        if (!json_equal(json_object_get(have, key), v))
            return false;
    return true;
}

static int on_listed_row(const cay_row *row, void *arg)
{
    lister *l = arg;
    if (row->tenant && *row->tenant == '.' && !l->filter->tenant) /* nobody's yet (warm.h) */
        return 0;
    if (!has_metadata(row, l->metadata))
        return 0;
    size_t most = BATCH;
    if (l->filter->limit)
        most = CAY_MIN((size_t)BATCH, l->filter->limit - l->told);
    l->rows[l->n++] = cay__row_copy(row);
    if (l->n < most)
        return 0;
    return flush_batch(l, 0);
}

int cay_client_list(cay_client *client, const cay_call *call, const cay_filter *given,
                    cay_info_fn *fn, void *arg, cay_err *err)
{
    if (client->remote)
        return cay__remote_list(client, call, given, fn, arg, err);
    cay_filter f, stored;
    CAY_TRY(cay__spec_take(&f, sizeof f, given, "cay_filter", err));
    CAY_AUTOJSON *metadata = NULL;
    if (f.metadata)
        CAY_TRY(cay__json_object("the metadata to look for", f.metadata, &metadata, err));
    stored = f;
    stored.states = 0; /* what is true now decides, above */
    stored.limit = 0;
    CAY_AUTOFREE lister *l = cay__alloc(sizeof *l);
    *l = (lister){ .client = client,
                   .call = call,
                   .filter = &f,
                   .fn = fn,
                   .arg = arg,
                   .err = err,
                   .metadata = metadata };
    int rc = CAY__STORE(client, list, &stored, on_listed_row, l, err);
    rc = flush_batch(l, rc);
    if (l->enough)
        return 0;
    return rc;
}

/* splitmix64: two different histories do not meet by adding up. */
static uint64_t mix_hash(uint64_t h, uint64_t v)
{
    uint64_t z = (h ^ v) + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int cay_client_version(cay_client *client, const char *const *providers, uint64_t *out,
                       cay_err *err)
{
    uint64_t h = 0, own[2] = { 0 }, v;
    cay__place *p;
    void *self;
    CAY_TRY(cay__remote_none(client, "a version of the list", err));
    for (; providers && *providers;
         providers++) { /* before the store: what a provider changes is recorded afterwards */
        CAY_TRY(cay__client_place(client, *providers, &p, err));
        if (!p->ops->version)
            return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                                "provider %s does not tell when something changes", *providers);
        CAY_TRY(cay__client_self(client, p, &self, err));
        CAY_TRY(p->ops->version(self, &v, err));
        h = mix_hash(h, v);
    }
    CAY_TRY(CAY__STORE(client, version, own, err));
    *out = mix_hash(mix_hash(h, own[0]), own[1]);
    return 0;
}
