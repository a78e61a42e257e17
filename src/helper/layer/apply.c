/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apply: what a sandbox wrote above a directory, into that directory.
 *
 * First all is put in place, then what was deleted goes, the deepest first, and with it the
 * directories that files take the place of. What the sandbox sees does not change by that: all that
 * differs from the directory is in its upper.
 */
#include "apply.h"
#include <sys/file.h>

#define ITEMS_MAX 1000000u

typedef struct items {
    item *v;
    size_t n;
} items;

static int read_items(items *l, cay_err *err)
{
    CAY_AUTOBUF room = { 0 };
    cay__rec r;
    while (cay__rec_read(TOOL_SOCK, &room, &r) == 1) {
        if (r.type == CAY__REC_GO)
            return 0;
        char kind = (char)cay__rec_get_num(&r);
        uint64_t flags = cay__rec_get_num(&r);
        const char *path = cay__rec_get_str(&r);
        if (r.type != CAY__REC_ITEM || r.bad || !strchr("AMDT", kind) || !kind || l->n == ITEMS_MAX)
            break;
        CAY_GROW(l->v, l->n);
        l->v[l->n++] = (item){ .kind = kind,
                               .named = flags & 1,
                               .late = kind == 'T' && (flags & 2),
                               .mode_only = flags & 4,
                               .path = cay__strdup(path) };
    }
    return cay_fail_why(err, CAY_EINVAL, "protocol", "apply: the list of changes has a wrong form");
}

static int say_result(tool *t, const item *it, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(CAY__REC_MAX);
    cay__rec_str(&b, it->path);
    cay__rec_num(&b, it->status);
    cay__rec_str(&b, it->why);
    return tool_say(t, CAY__REC_RESULT, &b, err);
}

static int apply_items(apply *a, items *l, cay_err *err)
{
    CAY_EACH_OF(one, l->v, l->n) {
        if (one->kind == 'D' || one->late)
            continue;
        CAY_TRY(tool_check(a->t, err));
        CAY_TRY(apply_put(a, one, err));
        CAY_TRY(say_result(a->t, one, err));
    }
    for (size_t i = l->n; i-- > 0;) {
        item *it = &l->v[i];
        if (it->kind != 'D' && !it->late)
            continue;
        CAY_TRY(tool_check(a->t, err));
        if (it->late)
            CAY_TRY(apply_put(a, it, err));
        else
            CAY_TRY(apply_remove(a, it, err));
        CAY_TRY(say_result(a->t, it, err));
    }
    return 0;
}

static int open_all(tool *t, apply *a, const char *top, cay_err *err)
{
    char on[64];
    CAY_AUTOFD upper = -1, base = openat(TOOL_FD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base < 0)
        return cay_fail_sys(err, "open the directory");
    if (!a->dry && flock(TOOL_FD, LOCK_EX | LOCK_NB) < 0)
        return cay_fail_why(err, CAY_EBUSY, "apply_busy",
                            "another apply works on this directory; try again");
    CAY_TRY(tool_top_open(t, top, &upper, err));
    CAY_COPY(on, top);
    *strrchr(on, '/') = 0;
    CAY_AUTOFD dir = cay__dir_at(t->home, on);
    if (dir < 0)
        return cay_fail_sys(err, "open %s", on);
    CAY_TRY(applied_open(&a->done, dir, err));
    a->dir = TOOL_FD;
    view_open(&a->from, CAY_STEAL_FD(base), CAY_STEAL_FD(upper));
    return 0;
}

static int parse_args(tool *t, apply *a, const char **top, cay_err *err)
{
    uint64_t since = 0;
    const tool_word words[] = { { "top=", top },
                                { "dry", .flag = &a->dry },
                                { "force", .flag = &a->force },
                                { "since=", .number = &since, .most = INT64_MAX } };
    CAY_TRY(TOOL_WORDS(t, "apply", words, err));
    a->since = (int64_t)since;
    if (*top)
        return 0;
    return cay_fail(err, CAY_EINVAL, "apply: nothing to take from");
}

int apply_run(tool *t, cay_err *err)
{
    apply a = { .t = t, .done.fd = -1 };
    items l = { 0 };
    const char *top = NULL;
    CAY_TRY(parse_args(t, &a, &top, err));
    int rc = open_all(t, &a, top, err);
    if (rc == 0) {
        rc = read_items(&l, err);
        if (rc == 0)
            rc = apply_items(&a, &l, err);
        view_close(&a.from);
    }
    applied_close(&a.done);
    CAY_EACH_OF(it, l.v, l.n)
        free(it->path);
    free(l.v);
    return rc;
}
