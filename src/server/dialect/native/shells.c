/* SPDX-License-Identifier: Apache-2.0 */
/* Shells that stay, by name. */
#include "native.h"

CAY_DEFINE_AUTO(cay_shell, cay_shell_unref)

enum { OUTPUT_MAX = 64 << 20 };

typedef struct lister {
    cay__items list;
    const char *only; /* one of them, or NULL */
    bool found;
} lister;

static int on_proc(const cay_proc_info *i, void *arg)
{
    lister *l = arg;
    if (l->found)
        return 1;
    if (i->state == 'X' || !cay__str_starts(i->tag, "shell:") ||
        (l->only && strcmp(l->only, i->tag + 6)))
        return 0;
    cay__shell_told s = {
        .name = i->tag + 6, .id = i->id, .user = i->user, .pid = i->pid, .started_ms = i->started_ms
    };
    if (!l->only)
        return cay__items_add(&l->list, &s);
    l->found = true;
    cay__reply_object(l->list.r, &s);
    return 1;
}

int cay__on_shell_open(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_shell) sh = NULL;
    cay_shell_spec spec = { .size = sizeof spec };
    CAY_TRY(cay__req_body(r, &spec, err));
    CAY_TRY(cay_shell_open(r->sb, &r->call, &spec, &sh, err));
    lister l = { .list.r = r, .only = spec.name };
    CAY_TRY(cay_sandbox_procs(r->sb, &r->call, on_proc, &l, err));
    if (l.found)
        return 0;
    return cay_fail_why(err, CAY_EGONE, "shell_ended", "shell %s ended at once", spec.name);
}

int cay__on_shell_list(cay__req *r, cay_err *err)
{
    lister l = { .list = cay__items_of(r) };
    return cay__items_finish(&l.list, cay_sandbox_procs(r->sb, &r->call, on_proc, &l, err), err);
}

static int find_shell(cay__req *r, cay_shell **out, cay_err *err)
{
    cay_shell_spec spec = { .size = sizeof spec, .name = r->param[1], .attach = true };
    CAY_TRY(cay_sandbox_wake(r->sb, &r->call, err));
    return cay_shell_open(r->sb, &r->call, &spec, out, err);
}

int cay__on_shell_run(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_shell) sh = NULL;
    cay_shell_cmd cmd = { .size = sizeof cmd };
    cay_result res = { .size = sizeof res };
    CAY_TRY(cay__req_body(r, &cmd, err));
    CAY_TRY(find_shell(r, &sh, err));
    CAY_TRY(cay_shell_run(sh, &r->call, &cmd, &res, err));
    int rc = cay__reply_object(r, &res);
    cay_result_clear(&res);
    return rc;
}

int cay__on_shell_end(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_shell) sh = NULL;
    CAY_TRY(find_shell(r, &sh, err));
    CAY_TRY(cay_shell_end(sh, &r->call, err));
    return cay__reply_done(r);
}
