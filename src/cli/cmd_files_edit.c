/* SPDX-License-Identifier: Apache-2.0 */
/* cay files mkdir, rm, mv, chmod, chown, ln, xattr: changing what is there. */
#include "files.h"
#include "parse.h"
#include <base/base.h>

/* The exit code of one call, with its error told. */
static int report_result(int rc, const cay_err *err)
{
    if (rc < 0)
        return cli_fail(err, CLI_FAIL);
    return CLI_OK;
}

typedef struct mkdir_args {
    bool parents;
    uint32_t mode;
} mkdir_args;

static const opt_def mkdir_defs[] = { { "parents", 'p', NULL,
                                        "missing ones above too; there already is no error",
                                        OPT_FLAG, offsetof(mkdir_args, parents) },
                                      { "mode", 'm', "MODE", "octal permission bits (default 755)",
                                        OPT_MODE, offsetof(mkdir_args, mode) },
                                      OPT_END };

static int files_mkdir(void *opts, int argc, char **argv)
{
    const mkdir_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    files_words w;
    int code = files_begin(&cli_files_mkdir, argc, argv, 1, 8, &w);
    for (int i = 0; w.sb && i < w.n; i++)
        code |= report_result(
            cay_file_mkdir(w.sb, NULL, w.v[i], CAY_OR(a->mode, 0755), a->parents, &err), &err);
    files_end(&w);
    return code;
}

const cli_verb cli_files_mkdir = {
    .name = "files mkdir",
    .operands = "[-p] ID PATH…",
    .summary = "make directories",
    .examples = "  cay files mkdir -p c7f src/lib/deep",
    .opts = { { mkdir_defs, 0 } },
    .size = sizeof(mkdir_args),
    .min = 1,
    .max = 8,
    .fn = files_mkdir,
};

typedef struct rm_args {
    bool recursive, force;
} rm_args;

static const opt_def rm_defs[] = { { "recursive", 'r', NULL, "directories with all that is in them",
                                     OPT_FLAG, offsetof(rm_args, recursive) },
                                   { "force", 'f', NULL, "not there is no error", OPT_FLAG,
                                     offsetof(rm_args, force) },
                                   OPT_END };

static int files_rm(void *opts, int argc, char **argv)
{
    const rm_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    files_words w;
    int code = files_begin(&cli_files_rm, argc, argv, 1, 8, &w);
    for (int i = 0; w.sb && i < w.n; i++) {
        int rc = cay_file_remove(w.sb, NULL, w.v[i], a->recursive, &err);
        code |= report_result(a->force && rc == CAY_ENOENT ? 0 : rc, &err);
    }
    files_end(&w);
    return code;
}

const cli_verb cli_files_rm = {
    .name = "files rm",
    .operands = "[-r] [-f] ID PATH…",
    .summary = "remove files",
    .examples = "  cay files rm -r c7f build",
    .opts = { { rm_defs, 0 } },
    .size = sizeof(rm_args),
    .min = 1,
    .max = 8,
    .fn = files_rm,
};

static int files_mv(void *opts, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    files_words w;
    (void)opts;
    int code = files_begin(&cli_files_mv, argc, argv, 2, 2, &w);
    if (!code)
        code = report_result(cay_file_rename(w.sb, NULL, w.v[0], w.v[1], &err), &err);
    files_end(&w);
    return code;
}

const cli_verb cli_files_mv = {
    .name = "files mv",
    .operands = "ID FROM TO",
    .summary = "give a file another name",
    .examples = "  cay files mv c7f draft.md final.md",
    .min = 2,
    .max = 3,
    .fn = files_mv,
};

static int files_chmod(void *opts, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    files_words w;
    uint32_t mode;
    (void)opts;
    int code = files_begin(&cli_files_chmod, argc, argv, 2, 2, &w);
    if (!code && cli_parse_mode(w.v[0], &mode, &err) < 0)
        code = cli_usage(&cli_files_chmod, &err);
    if (!code)
        code = report_result(cay_file_chmod(w.sb, NULL, w.v[1], mode, &err), &err);
    files_end(&w);
    return code;
}

const cli_verb cli_files_chmod = {
    .name = "files chmod",
    .operands = "ID MODE PATH",
    .summary = "set permission bits, in octal",
    .examples = "  cay files chmod c7f 755 run.sh",
    .min = 3,
    .max = 3,
    .fn = files_chmod,
};

static int files_chown(void *opts, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    files_words w;
    uint32_t uid, gid;
    (void)opts;
    int code = files_begin(&cli_files_chown, argc, argv, 2, 2, &w);
    if (!code && cli_parse_owner(w.v[0], &uid, &gid, &err) < 0)
        code = cli_usage(&cli_files_chown, &err);
    if (!code)
        code = report_result(cay_file_chown(w.sb, NULL, w.v[1], uid, gid, &err), &err);
    files_end(&w);
    return code;
}

const cli_verb cli_files_chown = {
    .name = "files chown",
    .operands = "ID UID[:GID] PATH",
    .summary = "set the owner, in numbers as seen inside",
    .examples = "  cay files chown c7f 1000:1000 data",
    .min = 3,
    .max = 3,
    .fn = files_chown,
};

static int files_ln(void *opts, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    files_words w;
    (void)opts;
    int code = files_begin(&cli_files_ln, argc, argv, 2, 2, &w);
    if (!code)
        code = report_result(cay_file_symlink(w.sb, NULL, w.v[0], w.v[1], &err), &err);
    files_end(&w);
    return code;
}

const cli_verb cli_files_ln = {
    .name = "files ln",
    .operands = "ID TARGET PATH",
    .summary = "make a symbolic link at PATH that points to TARGET",
    .examples = "  cay files ln c7f v2/config current",
    .min = 3,
    .max = 3,
    .fn = files_ln,
};

typedef struct xattr_args {
    bool remove;
} xattr_args;

static const opt_def xattr_defs[] = { { "remove", 'r', NULL, "take the attribute away", OPT_FLAG,
                                        offsetof(xattr_args, remove) },
                                      OPT_END };

static int on_name(const char *name, void *arg)
{
    (void)arg;
    out_safe(name);
    out_str("\n");
    return 0;
}

static int xattr_get(const files_words *w, cay_err *err)
{
    enum { MOST = 64 << 10 };
    CAY_AUTOFREE char *buf = cay__alloc(MOST);
    size_t len = MOST;
    CAY_TRY(cay_file_getxattr(w->sb, NULL, w->v[0], w->v[1], buf, &len, err));
    out_data(1, buf, len);
    if (isatty(1))
        out_str("\n");
    return 0;
}

static int xattr_set(const files_words *w, const char *eq, cay_err *err)
{
    char name[256];
    size_t n = (size_t)(eq - w->v[1]);
    if (!n || n >= sizeof name)
        return cay_fail(err, CAY_EINVAL, "\"%.80s\": want NAME=VALUE", w->v[1]);
    memcpy(name, w->v[1], n);
    name[n] = 0;
    return cay_file_setxattr(w->sb, NULL, w->v[0], name, eq + 1, strlen(eq + 1), err);
}

static int files_xattr(void *opts, int argc, char **argv)
{
    const xattr_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    files_words w;
    int code = files_begin(&cli_files_xattr, argc, argv, 1, 2, &w), rc;
    if (!code) {
        const char *eq = NULL;
        if (w.n > 1)
            eq = strchr(w.v[1], '=');
        if (w.n < 2)
            rc = cay_file_listxattr(w.sb, NULL, w.v[0], on_name, NULL, &err);
        else if (a->remove)
            rc = cay_file_setxattr(w.sb, NULL, w.v[0], w.v[1], NULL, 0, &err);
        else {
            if (eq)
                rc = xattr_set(&w, eq, &err);
            else
                rc = xattr_get(&w, &err);
        }
        code = report_result(rc, &err);
    }
    files_end(&w);
    return code;
}

const cli_verb cli_files_xattr = {
    .name = "files xattr",
    .operands = "[-r] ID PATH [NAME[=VALUE]]",
    .summary = "list, read, set or remove extended attributes (user.*)",
    .examples = "  cay files xattr c7f data\n"
                "  cay files xattr c7f data user.origin=upload\n"
                "  cay files xattr -r c7f data user.origin",
    .opts = { { xattr_defs, 0 } },
    .size = sizeof(xattr_args),
    .min = 1,
    .max = 3,
    .fn = files_xattr,
};
