/* SPDX-License-Identifier: Apache-2.0 */
/* Shells that stay, by name. */
#include "native.h"
#include <base/base.h>
#include <base/str.h>
#include <cay/shell.h>
#include <string.h>

CAY_DEFINE_AUTO(cay_shell, cay_shell_unref)

enum { OUTPUT_MAX = 64 << 20 };
static const char *const profile_words[] = { "default", "root", NULL };
static const cay__field open_fields[] = {
    { "name", CAY__F_STR, offsetof(cay_shell_spec, name), CAY__F_REQUIRED,
      .about = "1 to 32 letters, digits, '.', '_' or '-'" },
    { "login", CAY__F_BOOL, offsetof(cay_shell_spec, login) },
    { "env", CAY__F_PAIRS, offsetof(cay_shell_spec, env) },
    { "cwd", CAY__F_PATH, offsetof(cay_shell_spec, cwd) },
    { "user", CAY__F_STR, offsetof(cay_shell_spec, user) },
    { "profile", CAY__F_CHOICE, offsetof(cay_shell_spec, profile), .more = profile_words },
};
static const cay__shape open_shape =
    CAY__SHAPE("ShellOpen", cay_shell_spec, open_fields,
               "what follows the name matters only when it is started");

typedef struct shell {
    const char *name, *id, *user;
    int pid;
    int64_t started_ms;
} shell;
static const cay__field shell_fields[] = {
    { "name", CAY__F_STR, offsetof(shell, name) },
    { "id", CAY__F_STR, offsetof(shell, id), .about = "of its process" },
    { "pid", CAY__F_INT, offsetof(shell, pid) },
    { "user", CAY__F_STR, offsetof(shell, user) },
    { "started_ms", CAY__F_I64, offsetof(shell, started_ms) },
};
static const cay__shape shell_shape =
    CAY__SHAPE("Shell", shell, shell_fields, "an ordinary process with the tag shell:NAME");

typedef struct lister {
    cay__items list;
    const char *only; /* one of them, or NULL */
    bool found;
} lister;

static int on_proc(const cay_proc_info *i, void *arg)
{
    lister *l = arg;
    if (i->state == 'X' || !cay__str_starts(i->tag, "shell:") ||
        (l->only && strcmp(l->only, i->tag + 6)))
        return 0;
    shell s = {
        .name = i->tag + 6, .id = i->id, .user = i->user, .pid = i->pid, .started_ms = i->started_ms
    };
    l->found = true;
    if (!l->only)
        return cay__items_add(&l->list, &s);
    cay__shape_put(&l->list.b, &shell_shape, &s);
    return 1;
}

const cay__doc cay__doc_shell_open = {
    "openShell", "shells", "find the shell of that name, or start it", .body = &open_shape,
    .answers = { { 200, &shell_shape }, { 400 }, { 404 }, { 409 } }
};
int cay__on_shell_open(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_AUTOPTR(cay_shell) sh = NULL;
    cay_shell_spec spec = { .size = sizeof spec };
    CAY_TRY(cay__native_use(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &open_shape, &spec, err));
    CAY_TRY(cay_shell_open(sb, &r->call, &spec, &sh, err));
    lister l = { .list.b = CAY__BUF(1 << 20), .only = spec.name };
    int rc = cay_sandbox_procs(sb, &r->call, on_proc, &l, err);
    if (rc >= 0) {
        if (l.found)
            rc = cay__reply(r, 200, "application/json", l.list.b.data, l.list.b.len);
        else
            rc = cay_fail_why(err, CAY_EGONE, "shell_ended", "shell %s ended at once", spec.name);
    }
    cay__buf_clear(&l.list.b);
    return rc;
}

const cay__doc cay__doc_shell_list = { "listShells", "shells", "those there are",
                                       .answers = { { 200, &shell_shape, .list = true },
                                                    { 404 } } };
int cay__on_shell_list(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    lister l = { .only = NULL };
    CAY_TRY(cay__native_use(r, &sb, err));
    cay__items_begin(&l.list, r, &shell_shape);
    int rc = cay_sandbox_procs(sb, &r->call, on_proc, &l, err);
    if (rc < 0) {
        cay__items_drop(&l.list);
        return rc;
    }
    return cay__items_reply(&l.list, 200, err);
}

static int find_shell(cay__req *r, cay_shell **out, cay_err *err)
{
    cay_sandbox *sb;
    cay_shell_spec spec = { .size = sizeof spec, .name = r->param[1], .attach = true };
    CAY_TRY(cay__native_use(r, &sb, err));
    return cay_shell_open(sb, &r->call, &spec, out, err);
}

static const cay__field run_fields[] = {
    { "line", CAY__F_STR, offsetof(cay_shell_cmd, line), CAY__F_REQUIRED, .max = CAY_SHELL_LINE_MAX,
      .about = "text for the shell, of any number of lines" },
    { "timeout_ms", CAY__F_U64, offsetof(cay_shell_cmd, timeout_ms),
      .about = "then it is interrupted as by Ctrl-C, and the shell goes on" },
    { "max_output", CAY__F_SIZE, offsetof(cay_shell_cmd, max_output), .max = OUTPUT_MAX,
      .about = "bytes of each stream that are told; 16 MiB" },
};
static const cay__shape run_shape =
    CAY__SHAPE("ShellRun", cay_shell_cmd, run_fields, "one command in it");

const cay__doc cay__doc_shell_run = {
    "runInShell", "shells", "one command in it, to its end; others wait", .body = &run_shape,
    .answers = { { 200, &cay__result_shape }, { 400 }, { 404 } }
};
int cay__on_shell_run(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_shell) sh = NULL;
    cay_shell_cmd cmd = { .size = sizeof cmd };
    cay_result res = { .size = sizeof res };
    CAY_TRY(cay__req_shape(r, &run_shape, &cmd, err));
    CAY_TRY(find_shell(r, &sh, err));
    CAY_TRY(cay_shell_run(sh, &r->call, &cmd, &res, err));
    int rc = cay__reply_shape(r, 200, &cay__result_shape, &res);
    cay_result_clear(&res);
    return rc;
}

const cay__doc cay__doc_shell_end = { "endShell", "shells", "end it and all that it started",
                                      .answers = { { 204 }, { 404 } } };
int cay__on_shell_end(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_shell) sh = NULL;
    CAY_TRY(find_shell(r, &sh, err));
    CAY_TRY(cay_shell_end(sh, &r->call, err));
    return cay__reply(r, 204, NULL, NULL, 0);
}
