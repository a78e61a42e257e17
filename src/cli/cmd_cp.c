/* SPDX-License-Identifier: Apache-2.0 */
/* cay cp: files and trees, in and out. */
#include "files.h"
#include "main.h"
#include "out.h"
#include "parse.h"
#include <base/base.h>

typedef struct cp_args {
    bool parents;
} cp_args;

static const opt_def defs[] = {
    OPT_FLAG("-p, --parents", "make missing directories inside", cp_args, parents), OPT_END
};

/* The last component, without trailing slashes; "." and "/" have none. */
static int base_name(const char *path, char *out, size_t cap, cay_err *err)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t from = n;
    while (from && path[from - 1] != '/')
        from--;
    if (n - from >= cap)
        return cay_fail(err, CAY_ETOOBIG, "%.100s: name too long", path);
    memcpy(out, path + from, n - from);
    out[n - from] = 0;
    return 0;
}

static bool plain_name(const char *name)
{
    return *name && strcmp(name, ".") && strcmp(name, "..") && strcmp(name, "/");
}

/* dest, or dest/NAME when dest is a directory, as cp(1) does. */
static int final_path(const char *dest, const char *name, bool is_dir, char *out, size_t cap,
                      cay_err *err)
{
    size_t n = strlen(dest);
    bool slash = n && dest[n - 1] == '/';
    if (!is_dir && slash)
        return cay_fail(err, CAY_ENOENT, "%s is not a directory", dest);
    bool whole;
    if (is_dir && plain_name(name))
        whole = cay__str_join(out, cap, dest, slash ? "" : "/", name, NULL);
    else
        whole = cay__str_copy(out, cap, dest);
    if (whole)
        return 0;
    return cay_fail(err, CAY_ETOOBIG, "%.100s: path too long", dest);
}

static int copy_in(cay_sandbox *sb, const char *from, const char *to, copy_opts *o, cay_err *err)
{
    char name[256], path[4096];
    cay_stat st = { .size_of = sizeof st };
    bool is_dir = false;
    int rc = cay_file_stat(sb, NULL, to, true, &st, err);
    if (rc < 0 && rc != CAY_ENOENT)
        return rc;
    is_dir = rc >= 0 && st.type == CAY_DIR;
    CAY_TRY(base_name(from, name, sizeof name, err));
    CAY_TRY(final_path(to, name, is_dir, path, sizeof path, err));
    return copy_tree_in(sb, from, path, o, err);
}

static int copy_out(cay_sandbox *sb, const char *from, const char *to, copy_opts *o, cay_err *err)
{
    char name[256], path[4096];
    struct stat st;
    bool is_dir = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
    CAY_TRY(base_name(from, name, sizeof name, err));
    CAY_TRY(final_path(to, name, is_dir, path, sizeof path, err));
    return copy_tree_out(sb, from, path, o, err);
}

/* From one sandbox to another: a file through this program, never through a name on the host. */
static int copy_across(cay_sandbox *a, const char *from, cay_sandbox *b, const char *to,
                       copy_opts *o, cay_err *err)
{
    char name[256], path[4096];
    cay_stat st = { .size_of = sizeof st };
    CAY_AUTOFD fd = -1;
    int rc = cay_file_stat(b, NULL, to, true, &st, err);
    if (rc < 0 && rc != CAY_ENOENT)
        return rc;
    CAY_TRY(base_name(from, name, sizeof name, err));
    CAY_TRY(final_path(to, name, rc >= 0 && st.type == CAY_DIR, path, sizeof path, err));
    CAY_TRY(cay_file_stat(a, NULL, from, true, &st, err));
    if (st.type != CAY_FILE)
        return cay_fail(err, CAY_ETYPE, "%s is not a file; copy a directory by way of a local one",
                        from);
    CAY_TRY(cay_file_open_read(a, NULL, from, NULL, &fd, err));
    return copy_fd_in(b, fd, path, st.mode, o, err);
}

static int run_copy(const cli_place *from, const cli_place *to, copy_opts *o, cay_err *err)
{
    CAY_AUTOPTR(cay_sandbox) a = NULL;
    CAY_AUTOPTR(cay_sandbox) b = NULL;
    if (from->kind == CLI_REMOTE)
        CAY_TRY(cli_boxes->find(from->id, &a, err));
    if (to->kind == CLI_REMOTE)
        CAY_TRY(cli_boxes->find(to->id, &b, err));
    if (a && b)
        return copy_across(a, from->path, b, to->path, o, err);
    if (a && to->kind == CLI_STREAM)
        return copy_fd_out(a, from->path, 1, o, err);
    if (a)
        return copy_out(a, from->path, to->path, o, err);
    if (from->kind == CLI_STREAM)
        return copy_fd_in(b, 0, to->path, 0, o, err);
    return copy_in(b, from->path, to->path, o, err);
}

static int copy_files(cli_call *c, cay_err *err)
{
    const cp_args *args = c->opts;
    cli_place from, to;
    cli_progress bar;
    copy_opts o = { .parents = args->parents, .bar = &bar };
    if (cli_parse_place(c->argv[0], &from, err) < 0 || cli_parse_place(c->argv[1], &to, err) < 0)
        return cli_usage(c->verb, err);
    if (from.kind != CLI_REMOTE && to.kind != CLI_REMOTE)
        return cli_misuse(c, "neither \"%s\" nor \"%s\" is in a sandbox; write ID:PATH", c->argv[0],
                          c->argv[1]);
    progress_begin(&bar, from.path, 0);
    int rc = run_copy(&from, &to, &o, err);
    progress_end(&bar);
    if (rc < 0 && out_broken())
        return CLI_OK;
    CAY_TRY(rc);
    if (o.skipped)
        return CLI_FAIL;
    return CLI_OK;
}

const cli_verb cli_cp = {
    "cp",
    "[-p] ID:PATH LOCAL | LOCAL ID:PATH | ID:PATH ID:PATH",
    "copy files and directories into and out of a sandbox",
    .text = "`-` is standard input or output. Directories go whole; links stay links and are not "
            "followed; sockets,\n"
            "FIFOs and devices are skipped aloud. A file appears under its name only when it is "
            "complete.\n"
            "A local name with a colon is written ./a:b.",
    .examples = "  cay cp src c7f:/workspace/            # the tree, to /workspace/src\n"
                "  cay cp c7f:/workspace/report.pdf .\n"
                "  date | cay cp - c7f:/tmp/now\n"
                "  cay cp c7f:/etc/os-release - | head -1",
    CLI_OPTS(defs, cp_args),
    .min = 2,
    .fn = copy_files,
};
