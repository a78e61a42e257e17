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

static const opt_def mkdir_defs[] = {
    OPT_FLAG("-p, --parents", "missing ones above too; there already is no error", mkdir_args,
             parents),
    OPT_MODE("-m, --mode MODE", "octal permission bits (default 755)", mkdir_args, mode), OPT_END
};

static int files_mkdir(cli_call *c, cay_err *err)
{
    const mkdir_args *a = c->opts;
    int code = CLI_OK;
    for (int i = 1; i < c->argc; i++)
        code |= report_result(
            cay_file_mkdir(c->sb, NULL, c->argv[i], CAY_OR(a->mode, 0755), a->parents, err), err);
    return code;
}

const cli_verb cli_files_mkdir = {
    "files mkdir",
    "[-p] ID PATH…",
    "make directories",
    .examples = "  cay files mkdir -p c7f src/lib/deep",
    CLI_OPTS(mkdir_defs, mkdir_args),
    .min = 2,
    .max = 9,
    .needs = CLI_PATHS,
    .fn = files_mkdir,
};

typedef struct rm_args {
    bool recursive, force;
} rm_args;

static const opt_def rm_defs[] = {
    OPT_FLAG("-r, --recursive", "directories with all that is in them", rm_args, recursive),
    OPT_FLAG("-f, --force", "not there is no error", rm_args, force), OPT_END
};

static int files_rm(cli_call *c, cay_err *err)
{
    const rm_args *a = c->opts;
    int code = CLI_OK;
    for (int i = 1; i < c->argc; i++) {
        int rc = cay_file_remove(c->sb, NULL, c->argv[i], a->recursive, err);
        if (!a->force || rc != CAY_ENOENT)
            code |= report_result(rc, err);
    }
    return code;
}

const cli_verb cli_files_rm = {
    "files rm",
    "[-r] [-f] ID PATH…",
    "remove files",
    .examples = "  cay files rm -r c7f build",
    CLI_OPTS(rm_defs, rm_args),
    .min = 2,
    .max = 9,
    .needs = CLI_PATHS,
    .fn = files_rm,
};

static int files_mv(cli_call *c, cay_err *err)
{
    return cay_file_rename(c->sb, NULL, c->argv[1], c->argv[2], err);
}

const cli_verb cli_files_mv = {
    "files mv",
    "ID FROM TO",
    "give a file another name",
    .examples = "  cay files mv c7f draft.md final.md",
    .min = 3,
    .needs = CLI_PATHS,
    .fn = files_mv,
};

static int files_chmod(cli_call *c, cay_err *err)
{
    uint32_t mode;
    if (cli_parse_mode(c->argv[1], &mode, err) < 0)
        return cli_usage(c->verb, err);
    return cay_file_chmod(c->sb, NULL, c->argv[2], mode, err);
}

const cli_verb cli_files_chmod = {
    "files chmod",
    "ID MODE PATH",
    "set permission bits, in octal",
    .examples = "  cay files chmod c7f 755 run.sh",
    .min = 3,
    .needs = CLI_PATHS,
    .fn = files_chmod,
};

static int files_chown(cli_call *c, cay_err *err)
{
    uint32_t uid, gid;
    if (cli_parse_owner(c->argv[1], &uid, &gid, err) < 0)
        return cli_usage(c->verb, err);
    return cay_file_chown(c->sb, NULL, c->argv[2], uid, gid, err);
}

const cli_verb cli_files_chown = {
    "files chown",
    "ID UID[:GID] PATH",
    "set the owner, in numbers as seen inside",
    .examples = "  cay files chown c7f 1000:1000 data",
    .min = 3,
    .needs = CLI_PATHS,
    .fn = files_chown,
};

static int files_ln(cli_call *c, cay_err *err)
{
    return cay_file_symlink(c->sb, NULL, c->argv[1], c->argv[2], err);
}

const cli_verb cli_files_ln = {
    "files ln",
    "ID TARGET PATH",
    "make a symbolic link at PATH that points to TARGET",
    .examples = "  cay files ln c7f v2/config current",
    .min = 3,
    .needs = CLI_PATHS,
    .fn = files_ln,
};

typedef struct xattr_args {
    bool remove;
} xattr_args;

static const opt_def xattr_defs[] = {
    OPT_FLAG("-r, --remove", "take the attribute away", xattr_args, remove), OPT_END
};

static int on_name(const char *name, void *arg)
{
    out_safe("%s\n", name);
    return 0;
}

static int xattr_get(const cli_call *c, cay_err *err)
{
    enum { MOST = 64 << 10 };
    CAY_AUTOFREE char *buf = cay__alloc(MOST);
    size_t len = MOST;
    CAY_TRY(cay_file_getxattr(c->sb, NULL, c->argv[1], c->argv[2], buf, &len, err));
    out_data(1, buf, len);
    if (isatty(1))
        out_str("\n");
    return 0;
}

static int xattr_set(const cli_call *c, char *eq, cay_err *err)
{
    size_t n = (size_t)(eq - c->argv[2]);
    if (!n || n >= 256)
        return cay_fail(err, CAY_EINVAL, "\"%.80s\": want NAME=VALUE", c->argv[2]);
    *eq = 0;
    return cay_file_setxattr(c->sb, NULL, c->argv[1], c->argv[2], eq + 1, strlen(eq + 1), err);
}

static int files_xattr(cli_call *c, cay_err *err)
{
    const xattr_args *a = c->opts;
    if (c->argc < 3)
        return cay_file_listxattr(c->sb, NULL, c->argv[1], on_name, NULL, err);
    if (a->remove)
        return cay_file_setxattr(c->sb, NULL, c->argv[1], c->argv[2], NULL, 0, err);
    char *eq = strchr(c->argv[2], '=');
    if (eq)
        return xattr_set(c, eq, err);
    return xattr_get(c, err);
}

const cli_verb cli_files_xattr = {
    "files xattr",
    "[-r] ID PATH [NAME[=VALUE]]",
    "list, read, set or remove extended attributes (user.*)",
    .examples = "  cay files xattr c7f data\n"
                "  cay files xattr c7f data user.origin=upload\n"
                "  cay files xattr -r c7f data user.origin",
    CLI_OPTS(xattr_defs, xattr_args),
    .min = 2,
    .max = 3,
    .needs = CLI_PATHS,
    .fn = files_xattr,
};
