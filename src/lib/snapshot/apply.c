/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox changed, into the directory it was made on: listed, chosen, and put there by
 * cay-layer. */
#include "diff.h"
#include <lib/client/remote.h>
#include <base/path.h>

typedef struct choice {
    cay_file_change c; /* its strings are ours */
    bool taken, answered;
} choice;

typedef struct applying {
    const cay_apply *spec;
    const char **paths; /* normal form */
    choice *v;
    size_t n;
    choice **by_path;
    cay_applied sum;
} applying;

/* "./src/", "/workspace/src" and "src" are one. */
static const char *normalize_path(const char *path, cay__arena *mem)
{
    if (!strcmp(path, "/workspace") || cay__str_starts(path, "/workspace/"))
        path += strlen("/workspace");
    while (*path == '/' || (path[0] == '.' && path[1] == '/'))
        path++;
    char *s = cay__arena_str(mem, path);
    for (size_t n = strlen(s); n && s[n - 1] == '/'; n--)
        s[n - 1] = 0;
    return s;
}

static bool is_below(const applying *a, const char *path)
{
    bool below = !a->spec->npaths;
    for (size_t i = 0; i < a->spec->npaths && !below; i++)
        below = cay__path_within(path, a->paths[i]);
    return below;
}

static bool is_named(const applying *a, const char *path)
{
    CAY_EACH_OF(it, a->paths, a->spec->npaths)
        if (!strcmp(path, *it))
            return true;
    return false;
}

/* Naming a directory above does not name what is guarded in it. */
static bool is_guarded(const applying *a, const char *path)
{
    if (!cay__path_guarded(path))
        return false;
    CAY_EACH_OF(it, a->paths, a->spec->npaths)
        if (cay__path_guarded(*it) && cay__path_within(path, *it))
            return false;
    return true;
}

static int on_file_change(const cay_file_change *c, void *arg)
{
    applying *a = arg;
    if (!is_below(a, c->path))
        return 0;
    CAY_GROW(a->v, a->n);
    choice *x = &a->v[a->n++];
    *x = (choice){ .c = *c };
    x->c.path = cay__strdup(c->path);
    x->c.from = "";
    x->c.old_digest = CAY_IF(c->old_digest, cay__strdup(c->old_digest));
    if (c->text) {
        char *text = cay__alloc(c->text_len + 1);
        memcpy(text, c->text, c->text_len);
        x->c.text = text;
    }
    return 0;
}

static void clear_choices(applying *a)
{
    CAY_EACH_OF(it, a->v, a->n) {
        free((char *)it->c.path);
        free((char *)it->c.text);
        free((char *)it->c.old_digest);
    }
    free(a->v);
    free(a->by_path);
}

static void report_result(applying *a, choice *x, cay_apply_result r, const char *why)
{
    x->answered = true;
    a->sum.done += r == CAY_APPLY_DONE;
    a->sum.declined += r == CAY_APPLY_DECLINED;
    a->sum.left += r != CAY_APPLY_DONE && r != CAY_APPLY_DECLINED && r != CAY_APPLY_SAME;
    if (a->spec->told)
        a->spec->told(&x->c, r, why, a->spec->arg);
}

static int every_path_changed(const applying *a, cay_err *err)
{
    for (size_t i = 0; i < a->spec->npaths; i++) {
        bool hit = false;
        for (size_t k = 0; k < a->n && !hit; k++)
            hit = cay__path_within(a->v[k].c.path, a->paths[i]);
        if (!hit)
            return cay_fail_why(err, CAY_ENOENT, "apply_no_change",
                                "nothing changed at %.150s; `cay diff` shows what did",
                                a->spec->paths[i]);
    }
    return 0;
}

static int choose_all(applying *a, cay_err *err)
{
    CAY_EACH_OF(x, a->v, a->n) {
        if (is_guarded(a, x->c.path)) {
            report_result(a, x, CAY_APPLY_GUARDED,
                          "tools obey it without being asked; name it to have it");
            continue;
        }
        int yes = 1;
        if (a->spec->choose)
            yes = a->spec->choose(&x->c, a->spec->arg);
        if (yes < 0)
            return cay_fail(err, CAY_ECANCELED, "stopped; nothing was written");
        x->taken = yes;
        if (!yes)
            report_result(a, x, CAY_APPLY_DECLINED, "");
    }
    return 0;
}

static int by_path(const void *x, const void *y)
{
    return strcmp((*(choice *const *)x)->c.path, (*(choice *const *)y)->c.path);
}

static choice *find_choice(const applying *a, const char *path)
{
    choice key = { .c.path = path }, *k = &key;
    choice **hit = NULL;
    if (a->n)
        hit = bsearch(&k, a->by_path, a->n, sizeof *a->by_path, by_path);
    if (hit)
        return *hit;
    return NULL;
}

static int send_items(applying *a, cay__layer_conn *conn, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(CAY__REC_MAX);
    for (size_t i = 0; i < a->n; i++) {
        const choice *x = &a->v[i];
        if (!x->taken)
            continue;
        cay__rec_num(&b, (unsigned char)x->c.kind);
        cay__rec_num(&b, CAY_FLAG_IF(is_named(a, x->c.path), 1u) |
                             CAY_FLAG_IF(S_ISDIR(x->c.old_mode), 2u) |
                             CAY_FLAG_IF(x->c.kind == 'M' && !x->c.content, 4u));
        cay__rec_str(&b, x->c.path);
        CAY_TRY(cay__layer_send(conn, CAY__REC_ITEM, &b, err));
    }
    return cay__layer_send(conn, CAY__REC_GO, &b, err);
}

static int read_results(applying *a, cay__layer_conn *conn, const cay_call *call, cay_err *err)
{
    static const cay_apply_result of[] = { [CAY__APPLY_DONE] = CAY_APPLY_DONE,
                                           [CAY__APPLY_CONFLICT] = CAY_APPLY_CONFLICT,
                                           [CAY__APPLY_REFUSED] = CAY_APPLY_REFUSED,
                                           [CAY__APPLY_GONE] = CAY_APPLY_GONE,
                                           [CAY__APPLY_SAME] = CAY_APPLY_SAME };
    cay__rec r;
    for (;;) {
        CAY_TRY(cay__layer_next(conn, call, &r, err));
        if (r.type == CAY__REC_DONE)
            return 0;
        choice *x = find_choice(a, cay__rec_get_str(&r));
        uint64_t status = cay__rec_get_num(&r);
        const char *why = cay__rec_get_str(&r);
        if (r.type != CAY__REC_RESULT || r.bad || !x || status >= CAY_LEN(of) || x->answered)
            return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                                "cay-layer apply: a record has a wrong form");
        report_result(a, x, of[status], why);
    }
}

static int put_there(cay_client *client, const cay_call *call, applying *a, const cay__point *p,
                     int dir, cay_err *err)
{
    cay__layer_conn conn;
    char since[40], n[21], upper[80];
    const char *args[4];
    size_t nargs = 0;
    CAY_JOIN(upper, "top=", p->on_top);
    /* To the millisecond: what changed in the same one, changed before the sandbox could look. */
    CAY_JOIN(since, "since=", cay__str_u64(n, (uint64_t)p->created_ms + 1));
    args[nargs++] = upper;
    args[nargs++] = since;
    if (a->spec->dry)
        args[nargs++] = "dry";
    if (a->spec->force)
        args[nargs++] = "force";
    a->by_path = cay__alloc(a->n * sizeof *a->by_path);
    for (size_t i = 0; i < a->n; i++)
        a->by_path[i] = &a->v[i];
    qsort(a->by_path, a->n, sizeof *a->by_path, by_path);
    cay__layer_ask ask = { .verb = "apply", .args = args, .nargs = nargs, .fds = &dir, .nfds = 1 };
    CAY_TRY(cay__layer_open(&client->layers, call, &ask, &conn, err));
    int rc = send_items(a, &conn, err);
    if (rc == 0 || rc == CAY_EUPSTREAM) { /* one that ended early has said why */
        cay_err why = CAY_ERR_INIT;
        int got = read_results(a, &conn, call, &why);
        if (got < 0 && err)
            *err = why;
        rc = got;
    }
    cay__layer_close(&conn);
    return rc;
}

/* As cay-layer does it: first all is put in place, then what was deleted goes, the deepest first,
 * and with it directories that files take the place of. */
static int put_far(applying *a, cay__apply_far *f, cay_err *err)
{
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < a->n; k++) {
            choice *x = &a->v[pass ? a->n - 1 - k : k];
            bool late = x->c.kind == 'D' || (x->c.kind == 'T' && S_ISDIR(x->c.old_mode));
            if (!x->taken || late != (pass == 1))
                continue;
            CAY_TRY(cay__call_check(f->call, "apply", err));
            cay__apply_change c = { .c = &x->c, .named = is_named(a, x->c.path) };
            cay_apply_result r;
            if (x->c.kind == 'D')
                r = cay__apply_remove(f, &c);
            else
                r = cay__apply_put(f, &c);
            report_result(a, x, r, c.why);
        }
    return 0;
}

/* What is to be taken is listed and chosen alike, wherever the sandbox is. */
static int choose_and_put(cay_sandbox *sb, const cay_call *call, applying *a, const cay__point *p,
                          int dir, cay_err *err)
{
    CAY_TRY(every_path_changed(a, err));
    CAY_TRY(choose_all(a, err));
    if (p)
        return put_there(sb->owner, call, a, p, dir, err);
    return put_far(
        a,
        &(cay__apply_far){
            .sb = sb, .call = call, .dir = dir, .force = a->spec->force, .dry = a->spec->dry },
        err);
}

static int apply_far(cay_sandbox *sb, const cay_call *call, applying *a, cay_err *err)
{
    const cay_apply *s = a->spec;
    cay_diff d = { .size = sizeof d,
                   .a = CAY_OR(s->since, sb->id),
                   .b = CAY_IF(s->since, sb->id),
                   .digest = true,
                   .patch = s->text };
    CAY_AUTOFD dir = -1;
    CAY_TRY(cay__apply_open(s->dir, s->dry, &dir, err));
    CAY_TRY(cay_client_diff(sb->owner, call, &d, on_file_change, a, NULL, err));
    return choose_and_put(sb, call, a, NULL, dir, err);
}

static int apply_here(cay_sandbox *sb, const cay_call *call, applying *a, cay_err *err)
{
    const cay_apply *s = a->spec;
    CAY_AUTOFD dir = -1;
    cay__point p;
    char word[80];
    if (s->since)
        return cay_fail_why(
            err, CAY_EINVAL, "apply_since",
            "since: changes of a sandbox on a directory of this machine count since it was made");
    CAY_TRY(cay__point_find(sb->owner, call, sb->id, &p, err));
    if (!*p.on)
        return cay_fail_why(
            err, CAY_ESTATE, "on_missing",
            "sandbox %s was not made on a directory (--on); `cay diff -p %s` gives a patch", sb->id,
            sb->id);
    CAY_TRY(cay__on_open(CAY_OR(s->dir, p.on), sb->id, &dir, err));
    CAY_JOIN(word, "b-top=", p.on_top);
    const char *words[] = { "on", "every", "no-renames", word, "patch" };
    CAY_TRY(cay__diff_ask(sb->owner, call, words, CAY_LEN(words) - !s->text, dir, NULL,
                          on_file_change, a, NULL, err));
    return choose_and_put(sb, call, a, &p, dir, err);
}

int cay_sandbox_apply(cay_sandbox *sb, const cay_call *call, const cay_apply *given,
                      cay_applied *out, cay_err *err)
{
    CAY__OP(call, "sandbox.apply", sb->id, err);
    CAY__AUTOARENA mem = { 0 };
    cay_apply spec;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_apply", err));
    applying a = { .spec = &spec,
                   .paths = cay__arena_take(&mem, (spec.npaths + 1) * sizeof *a.paths) };
    for (size_t i = 0; i < spec.npaths; i++)
        a.paths[i] = normalize_path(spec.paths[i], &mem);
    int rc;
    if (cay__remote_of(sb))
        rc = apply_far(sb, call, &a, err);
    else
        rc = apply_here(sb, call, &a, err);
    clear_choices(&a);
    if (rc == 0 && out) {
        a.sum.size = sizeof a.sum;
        memcpy(out, &a.sum, CAY_MIN(CAY_OR(out->size, sizeof *out), sizeof a.sum));
    }
    return rc;
}
