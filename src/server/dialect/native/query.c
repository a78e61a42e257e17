/* SPDX-License-Identifier: Apache-2.0 */
/* What follows the question mark, by the shape of the operation. */
#include "native.h"

static int ask_needed(cay__req *r, const char *name, const char **out, cay_err *err)
{
    const char *s = cay__req_query(r, name);
    if (!s || !*s)
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?%s= is needed", name);
    *out = s;
    return 0;
}

static const char *query_nth(cay__req *r, const char *name, size_t nth)
{
    size_t len = strlen(name);
    for (const char *q = r->head.query; q && *q;
         q += q[strcspn(q, "&")] ? strcspn(q, "&") + 1 : strlen(q)) {
        size_t n = strcspn(q, "&");
        if (n > len && !strncmp(q, name, len) && q[len] == '=' && nth-- == 0) {
            char *word = cay__arena_take(&r->arena, n - len);
            if (cay__url_decode(q + len + 1, n - len - 1, true, word))
                return word;
            return NULL;
        }
    }
    return NULL;
}

static int ask_strs(cay__req *r, const cay__field *f, const char *const **out, cay_err *err)
{
    size_t n = 0;
    while (query_nth(r, f->name, n))
        n++;
    if (f->max && n > f->max)
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?%s= comes at most %zu times", f->name,
                            (size_t)f->max);
    if (!n)
        return 0;
    const char **list = cay__arena_take(&r->arena, (n + 1) * sizeof *list);
    for (size_t i = 0; i < n; i++)
        list[i] = query_nth(r, f->name, i);
    *out = list;
    return 0;
}

static int ask_pairs(cay__req *r, const cay__field *f, const cay_pair **out, cay_err *err)
{
    const char *const *list = NULL;
    size_t n = 0;
    CAY_TRY(ask_strs(r, f, &list, err));
    while (list && list[n])
        n++;
    cay_pair *p = cay__arena_take(&r->arena, (n + 1) * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        char *text = cay__arena_str(&r->arena, list[i]), *eq = strchr(text, '=');
        if (!eq || eq == text)
            return cay_fail_why(err, CAY_EINVAL, "bad_query", "?%s=%.40s: want KEY=VALUE", f->name,
                                list[i]);
        *eq = 0;
        p[i] = (cay_pair){ text, eq + 1 };
    }
    if (n)
        *out = p;
    return 0;
}

static int ask_number(cay__req *r, const cay__field *f, void *out, cay_err *err)
{
    uint64_t n = cay__field_number(f->kind, out);
    uint64_t most = f->kind == CAY__F_U16 ? UINT16_MAX : INT64_MAX;
    CAY_TRY(cay__req_number(r, f->name, n, CAY_OR(f->max, most), &n, err));
    switch (f->kind) {
    case CAY__F_U16: *(uint16_t *)out = (uint16_t)n; break;
    case CAY__F_U32: *(uint32_t *)out = (uint32_t)n; break;
    case CAY__F_SIZE: *(size_t *)out = (size_t)n; break;
    default: *(uint64_t *)out = n; break;
    }
    return 0;
}

static int ask_field(cay__req *r, const cay__field *f, void *out, cay_err *err)
{
    switch (f->kind) {
    case CAY__F_STR:
        if (f->flags & CAY__F_REQUIRED)
            return ask_needed(r, f->name, out, err);
        *(const char **)out = cay__req_query(r, f->name);
        return 0;
    case CAY__F_BOOL:
        if (cay__req_query(r, f->name))
            *(bool *)out = cay__req_flag(r, f->name);
        return 0;
    case CAY__F_STRS: return ask_strs(r, f, out, err);
    case CAY__F_PAIRS: return ask_pairs(r, f, out, err);
    default: return ask_number(r, f, out, err);
    }
}

int cay__req_asked(cay__req *r, void *out, cay_err *err)
{
    const cay__shape *s = r->route->op->query;
    CAY_EACH_OF(f, s->fields, s->n)
        if (cay__field_seen(s, f, CAY__F_IN | CAY__F_SECRET | cay__native_view(r)))
            CAY_TRY(ask_field(r, f, (char *)out + f->at, err));
    return 0;
}
