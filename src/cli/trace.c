/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"
#include <base/base.h>
#include <base/json.h>
#include <time.h>

enum { SPANS_MAX = 20000, TRACES_MAX = 100000, LINE_MAX_BYTES = 1 << 20, DEEP = 64 };

/* "2026-01-31T12:00:00.123456+00:00" */
static bool read_time(const char *text, int64_t *us)
{
    struct tm tm = { 0 };
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    long micro = 0;
    if (rest && *rest == '.')
        micro = strtol(rest + 1, NULL, 10);
    if (!rest || micro < 0 || micro > 999999)
        return false;
    *us = (int64_t)timegm(&tm) * 1000000 + micro;
    return true;
}

/* Behind "trace_" or "span_"; at most n digits, since those of two programs differ in length. */
static void strip_id_prefix(const char *id, size_t n, char *dst)
{
    const char *hex = NULL;
    if (id)
        hex = strchr(id, '_');
    snprintf(dst, n + 1, "%s", hex ? hex + 1 : CAY_OR(id, ""));
    dst[cay__hex_len(dst)] = 0;
}

typedef struct line {
    json_t *j;
    bool span; /* else what names a trace */
    char trace[33];
    int64_t from_us, to_us;
} line;

static bool read_line(const char *text, line *l)
{
    l->j = json_loads(text, 0, NULL);
    const char *object = cay__json_str(l->j, "object", "");
    l->span = !strcmp(object, "trace.span");
    strip_id_prefix(cay__json_str(l->j, l->span ? "trace_id" : "id", ""), 32, l->trace);
    bool fine =
        *l->trace && (l->span ? read_time(cay__json_str(l->j, "started_at", ""), &l->from_us) &&
                                    read_time(cay__json_str(l->j, "ended_at", ""), &l->to_us) &&
                                    l->to_us >= l->from_us
                              : !strcmp(object, "trace"));
    if (!fine)
        json_decref(l->j);
    return fine;
}

static int each_line(const char *path, int (*fn)(void *arg, const line *l), void *arg, cay_err *err)
{
    FILE *f = fopen(path, "re");
    CAY_AUTOFREE char *text = NULL;
    size_t cap = 0;
    int rc = 0;
    if (!f)
        return cay_fail_sys(err, "%.200s", path);
    for (ssize_t n; rc == 0 && (n = getline(&text, &cap, f)) > 0;) {
        line l = { 0 };
        if (n > LINE_MAX_BYTES || !read_line(text, &l))
            continue;
        rc = fn(arg, &l);
        json_decref(l.j);
    }
    if (ferror(f) && rc == 0)
        rc = cay_fail_sys(err, "%.200s", path);
    fclose(f);
    return rc;
}

/* The last ones first: lines of a trace stand close to each other. */
static trace_one *one_of(traces *t, const char *id)
{
    for (size_t i = t->n; i-- > 0;)
        if (!strcmp(t->v[i].id, id))
            return &t->v[i];
    if (t->n == TRACES_MAX)
        return NULL;
    CAY_GROW(t->v, t->n);
    t->v[t->n] = (trace_one){ .from_us = INT64_MAX };
    memcpy(t->v[t->n].id, id, sizeof t->v[t->n].id);
    return &t->v[t->n++];
}

static void name_it(trace_one *o, const char *name)
{
    free(o->name);
    o->name = cay__strdup(name);
}

static int on_summary_line(void *arg, const line *l)
{
    trace_one *o = one_of(arg, l->trace);
    const json_t *data = json_object_get(l->j, "span_data");
    if (!o)
        return 0;
    if (!l->span) {
        name_it(o, cay__json_str(l->j, "workflow_name", ""));
        o->named = true;
        return 0;
    }
    if (!o->named && l->from_us <= o->from_us)
        name_it(o, cay__json_str(data, "name", ""));
    o->spans++;
    o->failed += json_is_object(json_object_get(l->j, "error"));
    o->from_us = CAY_MIN(o->from_us, l->from_us);
    o->to_us = CAY_MAX(o->to_us, l->to_us);
    return 0;
}

int traces_read(const char *path, traces *out, cay_err *err)
{
    CAY_TRY(each_line(path, on_summary_line, out, err));
    for (size_t i = 0; i < out->n;) /* one that was begun, and nothing else */
        if (out->v[i].spans) {
            i++;
        } else {
            free(out->v[i].name);
            memmove(&out->v[i], &out->v[i + 1], (--out->n - i) * sizeof *out->v);
        }
    if (out->n)
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "trace_empty", "%.200s: no trace is in it", path);
}

void traces_free(traces *t)
{
    CAY_EACH_OF(it, t->v, t->n)
        free(it->name);
    free(t->v);
}

const trace_one *traces_find(const traces *t, const char *id, cay_err *err)
{
    const trace_one *found = NULL;
    char want[33];
    strip_id_prefix(id, 32, want);
    size_t n = strlen(want);
    bool sound = !id || (n && strlen(id) >= n &&
                         !strcmp(id + strlen(id) - n, want)); /* nothing was left out of it */
    for (size_t i = 0; sound && i < t->n; i++) {
        if (!id && (!found || t->v[i].from_us >= found->from_us))
            found = &t->v[i];
        if (!id || strncmp(t->v[i].id, want, strlen(want)))
            continue;
        if (found) {
            cay_fail_why(err, CAY_EINVAL, "trace_ambiguous",
                         "several traces begin with %.32s; give more of the id", want);
            return NULL;
        }
        found = &t->v[i];
    }
    if (!found) {
        cay_fail_why(err, CAY_ENOENT, "trace_not_found",
                     "no trace begins with %.40s; --list shows them", CAY_OR(id, ""));
        return NULL;
    }
    return found;
}

static int on_tree_line(void *arg, const line *l)
{
    trace_tree *t = arg;
    const json_t *data = json_object_get(l->j, "span_data"),
                 *error = json_object_get(l->j, "error");
    if (!l->span || strcmp(l->trace, t->id))
        return 0;
    if (t->n == SPANS_MAX) {
        t->left_out++;
        return 0;
    }
    CAY_GROW(t->v, t->n);
    trace_span *s = &t->v[t->n];
    *s = (trace_span){
        .name = cay__strdup(cay__json_str(data, "name", cay__json_str(data, "type", ""))),
        .type = cay__strdup(cay__json_str(data, "type", "")),
        .error =
            json_is_object(error) ? cay__strdup(cay__json_str(error, "message", "failed")) : NULL,
        .from_us = l->from_us,
        .to_us = l->to_us,
        .seq = t->n
    };
    strip_id_prefix(cay__json_str(l->j, "id", ""), 16, s->id);
    strip_id_prefix(cay__json_str(l->j, "parent_id", ""), 16, s->parent);
    const json_t *more = json_object_get(data, "data");
    CAY_COPY(s->sandbox, cay__json_str(more, "cay.sandbox", ""));
    CAY_COPY(s->process, cay__json_str(more, "cay.process", ""));
    if (t->n)
        t->from_us = CAY_MIN(t->from_us, s->from_us);
    else
        t->from_us = s->from_us;
    if (t->n)
        t->to_us = CAY_MAX(t->to_us, s->to_us);
    else
        t->to_us = s->to_us;
    t->n++;
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const trace_span *x = a, *y = b;
    if (x->from_us != y->from_us) {
        if (x->from_us < y->from_us)
            return -1;
        return 1;
    }
    if (x->seq < y->seq)
        return -1;
    return x->seq > y->seq;
}

static int by_parent(const void *a, const void *b)
{
    const trace_span *x = a, *y = b;
    int c = strcmp(x->parent, y->parent);
    return CAY_OR(c, by_time(a, b));
}

typedef struct ordering {
    trace_span *from; /* by parent and time */
    bool *done;
    size_t n;
    trace_tree *to;
} ordering;

static size_t first_below(const ordering *o, const char *parent)
{
    size_t lo = 0, hi = o->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (strcmp(o->from[mid].parent, parent) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* A span and what is below it. A file may say anything: a ring ends where it began, and nothing is
 * deeper than DEEP. */
static void place_span(ordering *o, size_t i, unsigned depth)
{
    if (o->done[i])
        return;
    o->done[i] = true;
    trace_span *s = &o->to->v[o->to->n++];
    *s = o->from[i];
    s->depth = depth;
    for (size_t k = *s->id ? first_below(o, s->id) : o->n;
         k < o->n && !strcmp(o->from[k].parent, s->id) && depth < DEEP; k++)
        place_span(o, k, depth + 1);
}

static bool is_here(const ordering *o, const char *id)
{
    for (size_t i = 0; *id && i < o->n; i++)
        if (!strcmp(o->from[i].id, id))
            return true;
    return false;
}

static void order_spans(trace_tree *t)
{
    ordering o = { .from = cay__alloc(CAY_MAX(t->n, (size_t)1) * sizeof *o.from),
                   .done = cay__alloc(t->n + 1),
                   .n = t->n,
                   .to = t };
    size_t *roots = cay__alloc((t->n + 1) * sizeof *roots), nroots = 0;
    bool root = false;
    memcpy(o.from, t->v, t->n * sizeof *o.from);
    qsort(o.from, o.n, sizeof *o.from, by_parent);
    t->n = 0;
    for (size_t i = 0; i < o.n;
         i++) { /* those whose parent is another program's, or was not written */
        if (i == 0 || strcmp(o.from[i].parent, o.from[i - 1].parent))
            root = !is_here(&o, o.from[i].parent);
        if (root)
            roots[nroots++] = i;
    }
    for (size_t i = 1; i < nroots; i++) /* by time; they are few */
        for (size_t k = i; k > 0 && by_time(&o.from[roots[k]], &o.from[roots[k - 1]]) < 0; k--) {
            size_t r = roots[k];
            roots[k] = roots[k - 1];
            roots[k - 1] = r;
        }
    CAY_EACH_OF(it, roots, nroots)
        place_span(&o, *it, 0);
    for (size_t i = 0; i < o.n; i++)
        place_span(&o, i, 0);
    free(roots);
    free(o.done);
    free(o.from);
}

int trace_tree_read(const char *path, const char *id, trace_tree *out, cay_err *err)
{
    CAY_FORMAT(out->id, "%s", id);
    CAY_TRY(each_line(path, on_tree_line, out, err));
    order_spans(out);
    return 0;
}

void trace_tree_free(trace_tree *t)
{
    CAY_EACH_OF(it, t->v, t->n) {
        free(it->name);
        free(it->type);
        free(it->error);
    }
    free(t->v);
}
