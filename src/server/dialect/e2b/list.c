/* SPDX-License-Identifier: Apache-2.0 */
/* Which sandboxes there are: pages, filters, order. */
#include "e2b.h"
#include <ctype.h>
#include <server/list_cache.h>
#include <time.h>

enum { LIST_MAX = 64 << 20 };

/* key=value&…, each part encoded twice before the query was. */
static void decode_percent(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (*s == '%' && cay__hex_get(to, s + 1, 1)) {
            to++;
            s += 2;
        } else {
            *to++ = *s == '+' ? ' ' : *s;
        }
    }
    *to = 0;
}

typedef struct pages {
    json_t *list;
    json_t *want; /* metadata */
    bool running, paused, asc;
    const char *template_;
    int64_t after_ms; /* those that were started later */
} pages;

static json_t *parse_metadata(cay__req *r)
{
    const char *q = cay__req_query(r, "metadata");
    json_t *o = json_object();
    if (!q)
        return o;
    char *s = cay__arena_str(&r->arena, q), *save = NULL;
    for (char *one = strtok_r(s, "&", &save); one; one = strtok_r(NULL, "&", &save)) {
        char *v = strchr(one, '=');
        if (!v)
            continue;
        *v++ = 0;
        for (int i = 0; i < 2; i++) {
            decode_percent(one);
            decode_percent(v);
        }
        json_t *value = json_string(v);
        if (!value || json_object_set_new(o, one, value) < 0)
            json_object_set_new(o, "\x01", json_null()); /* not text: nothing has it */
    }
    return o;
}

static bool is_filter_match(const pages *p, const e2b_box *b)
{
    const char *key;
    json_t *v;
    bool run = e2b_running(b->info);
    if (run ? !p->running : !p->paused)
        return false;
    if (b->info->created_ms <= p->after_ms)
        return false;
    if (p->template_ && strcmp(p->template_, b->note.template_))
        return false;
    json_object_foreach(p->want, key, v)
        if (!json_equal(json_object_get(b->note.metadata, key), v))
            return false;
    return true;
}

typedef struct ids {
    cay__cached_list kept;
    cay__arena *mem;
    struct {
        const char *id;
        int64_t ms;
    } * v;
    size_t n, cap;
} ids;

static int keep_id(const cay_info *i, void *arg)
{
    ids *l = arg;
    cay__cached_list_saw(&l->kept, i);
    l->v = e2b_grow(l->v, l->n, &l->cap, sizeof *l->v);
    l->v[l->n].id = cay__arena_str(l->mem, i->id);
    l->v[l->n++].ms = i->created_ms;
    return 0;
}

/* Where a page begins whose token is "ID.MS" of the last one told: behind that one; when it is gone
 * since, with the first that is on the other side of its time. */
static size_t begin_of(const ids *l, bool asc, const char *after)
{
    size_t n = strcspn(after, "."), k;
    int64_t ms = asc ? INT64_MAX : 0;
    if (after[n])
        ms = strtoll(after + n + 1, NULL, 10);
    for (k = 0; k < l->n; k++)
        if (strlen(l->v[k].id) == n && !memcmp(l->v[k].id, after, n))
            return asc ? k + 1 : l->n - k;
    for (k = 0; k < l->n && (asc ? l->v[k].ms <= ms : l->v[l->n - 1 - k].ms >= ms); k++)
        ;
    return k;
}

/* Newest first unless asked otherwise. */
static int list_sandboxes(cay__req *r, pages *p, cay_err *err)
{
    uint64_t limit;
    const char *after = cay__req_query(r, "nextToken");
    ids l = { .n = 0 };
    CAY_TRY(e2b_limit(r, &limit, err));
    if (after && *after && !cay__mark_valid(after, 'c'))
        return cay_fail(err, CAY_EINVAL, "nextToken is none that this server gave");
    if (cay__cached_list_reply(&l.kept, r))
        return 0;
    l.mem = &r->arena;
    const cay_filter all = { .size = sizeof all, .tenant = cay__req_tenant(r) };
    CAY_TRY(cay_client_list(r->client, &r->call, &all, keep_id, &l, err));
    char last[CAY__LISTED_NEXT] = "";
    for (size_t k = after && *after ? begin_of(&l, p->asc, after) : 0; k < l.n; k++) {
        size_t i = p->asc ? k : l.n - 1 - k;
        E2B_AUTOBOX b = { 0 };
        if (e2b_find(r, l.v[i].id, false, &b, NULL) < 0 || !is_filter_match(p, &b))
            continue;
        if (json_array_size(p->list) == limit) { /* there is more */
            cay__reply_field(r, "x-next-token", last);
            CAY_COPY(l.kept.next, last);
            break;
        }
        json_array_append_new(p->list, e2b_listed(&b));
        cay__mark_put(last, l.v[i].id, l.v[i].ms);
    }
    free(l.v);
    CAY_AUTOFREE char *text = cay__json_text(p->list, LIST_MAX);
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "the list: ask with a smaller ?limit=");
    cay__cached_list_keep(&l.kept, text, strlen(text));
    return cay__reply(r, 200, "application/json", text, strlen(text));
}

/* startedAfter: RFC 3339 in UTC, as SDKs write it. */
static int read_after(cay__req *r, int64_t *ms, cay_err *err)
{
    const char *q = cay__req_query(r, "startedAfter"), *rest;
    struct tm tm = { 0 };
    int part = 0, unit = 1000;
    *ms = 0;
    if (!q || !*q)
        return 0;
    rest = strptime(q, "%Y-%m-%dT%H:%M:%S", &tm);
    if (rest && *rest == '.')
        for (rest++; isdigit((unsigned char)*rest); rest++)
            part += (*rest - '0') * (unit /= 10);
    if (!rest || strcmp(rest, "Z"))
        return cay_fail(err, CAY_EINVAL,
                        "startedAfter \"%.40s\": want a time like 2026-01-31T12:00:00Z", q);
    *ms = (int64_t)timegm(&tm) * 1000 + part;
    return 0;
}

/* state: one or both, with a comma. */
static bool is_state(const char *s)
{
    for (size_t n; *s; s += n + (s[n] == ',')) {
        n = strcspn(s, ",");
        if (!(n == 7 && !memcmp(s, "running", 7)) && !(n == 6 && !memcmp(s, "paused", 6)))
            return false;
    }
    return true;
}

int e2b_on_list(cay__req *r, cay_err *err)
{
    const char *state = cay__req_query(r, "state"), *order = cay__req_query(r, "order");
    if (state && !is_state(state))
        return cay_fail(err, CAY_EINVAL,
                        "state \"%.40s\": want running, paused or both with a comma", state);
    CAY_AUTOJSON *out = json_array(), *want = parse_metadata(r);
    pages p = { .list = out,
                .want = want,
                .running = !state || strstr(state, "running"),
                .paused = !state || strstr(state, "paused"),
                .asc = order && !strcmp(order, "asc"),
                .template_ = cay__req_query(r, "template") };
    CAY_TRY(read_after(r, &p.after_ms, err));
    return list_sandboxes(r, &p, err);
}

int e2b_on_list_v1(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *out = json_array(), *want = parse_metadata(r);
    pages p = { .list = out, .want = want, .running = true };
    return list_sandboxes(r, &p, err);
}
