/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope of a patch: from text or JSON to operations. */
#include "patch.h"
#include <base/json.h>
#include <base/mutant.h>
#include <cay/patch.h>

#define BEGIN  "*** Begin Patch"
#define END    "*** End Patch"
#define ADD    "*** Add File: "
#define DELETE "*** Delete File: "
#define UPDATE "*** Update File: "
#define MOVE   "*** Move to: "

typedef struct parsed {
    cay_patch pub;
    cay__arena arena;
    cay_patch_op *ops;
    size_t n;
} parsed;

void cay__lines_add(cay__lines *l, const char *p, size_t n)
{
    CAY_GROW(l->v, l->n);
    l->v[l->n++] = (cay__line){ p, n };
}

void cay__lines_split(cay__lines *l, const char *text, size_t len)
{
    for (const char *p = text, *end = text + len;;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((CAY_OR(nl, end)) - p);
        cay__lines_add(l, p, n && nl && p[n - 1] == '\r' ? n - 1 : n);
        if (!nl)
            return;
        p = nl + 1;
    }
}

__attribute__((format(printf, 2, 3))) static int fail_patch(cay_err *err, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return cay_fail_why(err, CAY_EINVAL, "patch_invalid", "%s", text);
}

static cay_patch_op *add_op(parsed *p, cay_patch_kind kind)
{
    CAY_GROW(p->ops, p->n);
    p->ops[p->n] = (cay_patch_op){ .kind = kind, .diff = "" };
    return &p->ops[p->n++];
}

static char *text_of(parsed *p, const char *s, size_t n)
{
    char *t = cay__arena_take(&p->arena, n + !CAY__MUTANT("fuzz-patch"));
    memcpy(t, s, n);
    return t;
}

static cay__line trim_line(cay__line l)
{
    while (l.n && (l.p[0] == ' ' || l.p[0] == '\t'))
        l.p++, l.n--;
    while (l.n && (l.p[l.n - 1] == ' ' || l.p[l.n - 1] == '\t' || l.p[l.n - 1] == '\r'))
        l.n--;
    return l;
}

static bool is_header(cay__line l)
{
    return cay__line_starts(l, ADD) || cay__line_starts(l, DELETE) || cay__line_starts(l, UPDATE) ||
           cay__line_is(trim_line(l), END);
}

static int take_path(parsed *p, cay__line l, const char *head, size_t at, const char **out,
                     cay_err *err)
{
    cay__line path = trim_line((cay__line){ l.p + strlen(head), l.n - strlen(head) });
    if (!path.n)
        return fail_patch(err, "line %zu: \"%s\" has no path behind it", at + 1, head);
    if (memchr(path.p, 0, path.n))
        return fail_patch(err, "line %zu: the path has a NUL byte", at + 1);
    *out = text_of(p, path.p, path.n);
    return 0;
}

/* Lines from..to of the patch as one text. */
static const char *diff_of(parsed *p, const cay__lines *l, size_t from, size_t to)
{
    size_t n = 1;
    for (size_t i = from; i < to; i++)
        n += l->v[i].n + 1;
    char *t = cay__arena_take(&p->arena, n), *w = t;
    for (size_t i = from; i < to; i++) {
        memcpy(w, l->v[i].p, l->v[i].n);
        w += l->v[i].n;
        *w++ = '\n';
    }
    *w = 0;
    return t;
}

static int check_added(const cay__lines *l, size_t from, size_t to, const char *path, cay_err *err)
{
    if (from == to)
        return fail_patch(err, "line %zu: Add File %.80s has no lines that begin with +", from,
                          path);
    for (size_t i = from; i < to; i++)
        if (!l->v[i].n || l->v[i].p[0] != '+')
            return fail_patch(
                err,
                "line %zu: in Add File %.80s every line begins with +, this one does not: %.*s",
                i + 1, path, (int)CAY_MIN(l->v[i].n, (size_t)40), l->v[i].p);
    return 0;
}

static int take_op(parsed *p, const cay__lines *l, size_t *at, cay_err *err)
{
    cay__line h = l->v[*at];
    size_t head = *at, from = head + 1, to;
    cay_patch_kind kind = CAY_PATCH_UPDATE;
    const char *word = UPDATE;
    if (cay__line_starts(h, ADD)) {
        kind = CAY_PATCH_CREATE;
        word = ADD;
    } else if (cay__line_starts(h, DELETE)) {
        kind = CAY_PATCH_DELETE;
        word = DELETE;
    }
    if (!cay__line_starts(h, word))
        return fail_patch(err, "line %zu: want \"%s\", \"%s\" or \"%s\" and a path, not: %.*s",
                          head + 1, ADD, UPDATE, DELETE, (int)CAY_MIN(h.n, (size_t)40), h.p);
    cay_patch_op *op = add_op(p, kind);
    CAY_TRY(take_path(p, h, word, head, &op->path, err));
    if (kind == CAY_PATCH_UPDATE && from < l->n && cay__line_starts(l->v[from], MOVE)) {
        CAY_TRY(take_path(p, l->v[from], MOVE, from, &op->move_to, err));
        from++;
    }
    for (to = from; to < l->n && !is_header(l->v[to]);)
        to++;
    if (kind == CAY_PATCH_CREATE)
        CAY_TRY(check_added(l, from, to, op->path, err));
    if (kind == CAY_PATCH_DELETE && from < to)
        return fail_patch(err, "line %zu: nothing may follow Delete File %.80s", from + 1,
                          op->path);
    if (kind == CAY_PATCH_UPDATE && from == to)
        return fail_patch(err, "line %zu: Update File %.80s has no change behind it", head + 1,
                          op->path);
    op->diff = diff_of(p, l, from, to);
    *at = to;
    return 0;
}

static int parse_text(parsed *p, const char *text, cay_err *err)
{
    CAY__AUTOLINES l = { 0 };
    cay__lines_split(&l, text, strlen(text));
    size_t at = 0, n = l.n;
    while (at < n && !trim_line(l.v[at]).n)
        at++;
    while (n > at && !trim_line(l.v[n - 1]).n)
        n--;
    if (at == n || !cay__line_is(trim_line(l.v[at]), BEGIN))
        return fail_patch(err, "a patch begins with the line \"%s\"", BEGIN);
    if (!cay__line_is(trim_line(l.v[n - 1]), END) || n - at < 2)
        return fail_patch(err, "a patch ends with the line \"%s\"", END);
    l.n = n - 1;
    for (at++; at < l.n;) {
        if (cay__line_is(trim_line(l.v[at]), END))
            return fail_patch(err, "line %zu: text after \"%s\"", at + 2, END);
        CAY_TRY(take_op(p, &l, &at, err));
    }
    if (p->n)
        return 0;
    return fail_patch(err, "the patch holds no operation");
}

static int json_text(parsed *p, const json_t *o, const char *key, const char *other, bool must,
                     size_t at, const char **out, cay_err *err)
{
    const json_t *v = json_object_get(o, key);
    if (!v && other)
        v = json_object_get(o, other);
    if (!v || json_is_null(v)) {
        if (must)
            return fail_patch(err, "operation %zu has no \"%s\"", at + 1, key);
        return 0;
    }
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
        return fail_patch(err, "operation %zu: \"%s\" is no text", at + 1, key);
    *out = cay__arena_str(&p->arena, json_string_value(v));
    return 0;
}

static int json_op(parsed *p, const json_t *o, cay_err *err)
{
    static const struct {
        const char *type;
        cay_patch_kind kind;
    } types[] = { { "create_file", CAY_PATCH_CREATE },
                  { "update_file", CAY_PATCH_UPDATE },
                  { "delete_file", CAY_PATCH_DELETE } };
    size_t at = p->n;
    if (!json_is_object(o))
        return fail_patch(err, "operation %zu is no object", at + 1);
    const char *type = cay__json_str(o, "type", "");
    CAY_EACH(it, types) {
        if (strcmp(type, it->type))
            continue;
        cay_patch_op op = { .kind = it->kind, .diff = "" };
        CAY_TRY(json_text(p, o, "path", NULL, true, at, &op.path, err));
        CAY_TRY(json_text(p, o, "diff", NULL, op.kind != CAY_PATCH_DELETE, at, &op.diff, err));
        CAY_TRY(json_text(p, o, "move_to", "moveTo", false, at, &op.move_to, err));
        if (!*op.path)
            return fail_patch(err, "operation %zu has an empty \"path\"", at + 1);
        *add_op(p, op.kind) = op;
        return 0;
    }
    return fail_patch(
        err, "operation %zu: type \"%.40s\" is none of create_file, update_file, delete_file",
        at + 1, type);
}

static int json_ops(parsed *p, const json_t *list, cay_err *err)
{
    if (!json_is_array(list))
        return fail_patch(err, "\"operations\" is no list");
    CAY_EACH_ITEM(o, list) {
        CAY_TRY(json_op(p, o, err));
    }
    if (p->n)
        return 0;
    return fail_patch(err, "the patch holds no operation");
}

static int parse_json(parsed *p, const char *text, cay_err *err)
{
    CAY_AUTOJSON *j = NULL;
    CAY_TRY(cay__json_any("the patch", text, &j, err));
    const json_t *patch = json_object_get(j, "patch"), *command = json_object_get(j, "command");
    if (json_is_array(command))
        patch = json_array_get(command, 1);
    if (json_is_string(patch))
        return parse_text(p, json_string_value(patch), err);
    if (json_is_array(j))
        return json_ops(p, j, err);
    if (json_object_get(j, "operations"))
        return json_ops(p, json_object_get(j, "operations"), err);
    return json_op(p, json_object_get(j, "operation") ? json_object_get(j, "operation") : j, err);
}

int cay_patch_parse(const char *text, cay_patch **out, cay_err *err)
{
    parsed *p = cay__alloc(sizeof *p);
    const char *s = text + strspn(text, " \t\r\n");
    int rc;
    if (strnlen(text, CAY_PATCH_MAX + 1) > CAY_PATCH_MAX)
        rc = cay_fail(err, CAY_ETOOBIG, "the patch is larger than 64 MiB");
    else if (*s == '{' || *s == '[')
        rc = parse_json(p, s, err);
    else
        rc = parse_text(p, text, err);
    if (rc < 0) {
        cay_patch_free(&p->pub);
        return rc;
    }
    p->pub = (cay_patch){ .size = sizeof p->pub, .ops = p->ops, .n = p->n };
    *out = &p->pub;
    return 0;
}

void cay_patch_free(cay_patch *pub)
{
    parsed *p = (parsed *)pub;
    if (!p)
        return;
    cay__arena_clear(&p->arena);
    free(p->ops);
    free(p);
}
