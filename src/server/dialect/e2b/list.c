/* SPDX-License-Identifier: Apache-2.0 */
/* Which sandboxes there are: pages, filters, order. */
#include "e2b.h"
#include <base/str.h>
#include <ctype.h>
#include <server/listed.h>

enum { LIST_MAX = 64 << 20 };

/* key=value&…, each part encoded twice before the query was. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (*s == '%' && isxdigit((unsigned char)s[1]) && isxdigit((unsigned char)s[2])) {
            *to++ = (char)strtoul((char[]){ s[1], s[2], 0 }, NULL, 16);
            s += 2;
        } else {
            *to++ = *s == '+' ? ' ' : *s;
        }
    }
    *to = 0;
}

typedef struct pages {
    json_t     *list;
    json_t     *want; /* metadata */
    bool        running, paused, asc;
    const char *template_;
} pages;

static json_t *wanted(cay__req *r)
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
            unescape(one);
            unescape(v);
        }
        json_t *value = json_string(v);
        if (!value || json_object_set_new(o, one, value) < 0)
            json_object_set_new(o, "\x01", json_null()); /* not text: nothing has it */
    }
    return o;
}

static bool matches(const pages *p, const e2b_box *b)
{
    const char *key;
    json_t *v;
    bool run = e2b_running(b->info);
    if (run ? !p->running : !p->paused)
        return false;
    if (p->template_ && strcmp(p->template_, b->note.template_))
        return false;
    json_object_foreach(p->want, key, v)
        if (!json_equal(json_object_get(b->note.metadata, key), v))
            return false;
    return true;
}

typedef struct ids {
    cay__listing kept;
    cay__arena  *mem;
    const char **v;
    size_t       n, cap;
} ids;

static int keep_id(const cay_info *i, void *arg)
{
    ids *l = arg;
    cay__listing_saw(&l->kept, i);
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->v = realloc(l->v, l->cap * sizeof *l->v);
        if (!l->v)
            abort();
    }
    l->v[l->n++] = cay__arena_str(l->mem, i->id);
    return 0;
}

/* Newest first unless asked otherwise; the token of the next page is the last id told. */
static int list(cay__req *r, pages *p, cay_err *err)
{
    uint64_t limit;
    const char *after = cay__req_query(r, "nextToken");
    ids l = { .n = 0 };
    CAY_TRY(cay__req_number(r, "limit", E2B_PAGE, E2B_PAGE, &limit, err));
    if (cay__listing_reply(&l.kept, r))
        return 0;
    l.mem = &r->arena;
    const cay_filter all = { .size = sizeof all, .tenant = cay__req_tenant(r) };
    CAY_TRY(cay_service_list(r->svc, &r->call, &all, keep_id, &l, err));
    bool on = !after || !*after;
    const char *last = NULL, *more = NULL;
    for (size_t k = 0; k < l.n && !more; k++) {
        const char *id = l.v[p->asc ? k : l.n - 1 - k];
        E2B_AUTOBOX b = { 0 };
        if (!on) {
            on = !strcmp(id, after);
            continue;
        }
        if (e2b_find(r, id, false, &b, NULL) < 0 || !matches(p, &b))
            continue;
        if (json_array_size(p->list) == limit) {
            more = last;
            break;
        }
        json_array_append_new(p->list, e2b_listed(&b));
        last = id;
    }
    free(l.v);
    if (more) {
        cay__reply_field(r, "x-next-token", more);
        cay__str_copy(l.kept.next, sizeof l.kept.next, more);
    }
    CAY_AUTOFREE char *text = cay__json_text(p->list, LIST_MAX);
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "the list: ask with a smaller ?limit=");
    cay__listing_keep(&l.kept, text, strlen(text));
    return cay__reply(r, 200, "application/json", text, strlen(text));
}

int e2b_on_list(cay__req *r, cay_err *err)
{
    const char *state = cay__req_query(r, "state"), *order = cay__req_query(r, "order");
    CAY_AUTOJSON *out = json_array(), *want = wanted(r);
    pages p = { .list = out, .want = want, .running = !state || strstr(state, "running"), .paused = !state || strstr(state, "paused"), .asc = order && !strcmp(order, "asc"),
                .template_ = cay__req_query(r, "template") };
    return list(r, &p, err);
}

int e2b_on_list_v1(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *out = json_array(), *want = wanted(r);
    pages p = { .list = out, .want = want, .running = true };
    return list(r, &p, err);
}
