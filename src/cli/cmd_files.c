/* SPDX-License-Identifier: Apache-2.0 */
/* cay files ls, cat, put, stat, find, grep, watch: looking at files, and putting one in place. */
#include "files.h"
#include "show.h"
#include "parse.h"
#include <base/base.h>

const char *file_type_word(cay_file_type t)
{
    switch (t) {
    case CAY_FILE: return "file";
    case CAY_DIR: return "directory";
    case CAY_LINK: return "link";
    case CAY_OTHER: return "other";
    }
    return "other";
}

/* A permission's letter: of the execute bits also with set-user-id and its kin. */
static void put_special(char *at, bool special, char both)
{
    if (special && *at == 'x')
        *at = both;
    else if (special)
        *at = (char)(both - 'a' + 'A');
}

const char *file_mode_text(char *buf, const cay_stat *st)
{
    cay__str_copy(buf, 12, "?rwxrwxrwx");
    if (st->type == CAY_FILE)
        buf[0] = '-';
    else if (st->type != CAY_OTHER)
        buf[0] = (char)st->type; /* d and l */
    for (int i = 0; i < 9; i++)
        if (!(st->mode & (0400u >> i)))
            buf[i + 1] = '-';
    put_special(buf + 3, st->mode & 04000, 's');
    put_special(buf + 6, st->mode & 02000, 's');
    put_special(buf + 9, st->mode & 01000, 't');
    return buf;
}

void file_json(out_json *j, const char *path, const cay_stat *st)
{
    show_object(j, &cay__file_shape, &(cay_dirent){ .path = path, .st = *st });
}

typedef struct files_view {
    bool wide, zero;
    out_table table;
    out_json json;
} files_view;

static void add_wide(out_table *t, const cay_dirent *e)
{
    char mode[12];
    out_row(t, "%s|%u:%u|%s|%s", file_mode_text(mode, &e->st), e->st.uid, e->st.gid,
            out_size(e->st.size).s, out_time(e->st.mtime_ns / 1000000).s);
    if (e->st.type == CAY_LINK)
        out_cellf(t, OUT_PLAIN, "%s -> %s", e->path, e->st.target);
    else
        out_cellf(t, e->st.type == CAY_DIR ? OUT_TITLE : OUT_PLAIN, "%s%s", e->path,
                  e->st.type == CAY_DIR ? "/" : "");
}

static int on_entry(const cay_dirent *e, void *arg)
{
    files_view *v = arg;
    if (cli.json) {
        show_object(&v->json, &cay__file_shape, e);
    } else if (v->wide) {
        add_wide(&v->table, e);
    } else if (v->zero) {
        out_write(e->path, strlen(e->path) + 1);
    } else {
        out_safe(e->st.type == CAY_DIR ? "%s/\n" : "%s\n", e->path);
    }
    if (out_broken())
        return CAY_ECANCELED;
    return 0;
}

static void view_begin(files_view *v)
{
    v->json = (out_json)OUT_JSON(true);
    out_table_open(&v->table, "MODE|>OWNER|>SIZE|CHANGED|NAME");
    js_open(&v->json, '[');
}

static int view_end(files_view *v, int rc)
{
    js_close(&v->json, ']');
    if (rc >= 0 && cli.json)
        js_flush(&v->json);
    else if (rc >= 0 && v->wide)
        out_table_print(&v->table);
    out_table_close(&v->table);
    cay__buf_clear(&v->json.b);
    if (out_broken())
        return CLI_OK;
    return rc;
}

typedef struct files_ls_args {
    bool wide, recursive, zero;
    uint64_t depth;
} files_ls_args;

static const opt_def ls_defs[] = {
    OPT_FLAG("-l, --long", "mode, owner, size and time too", files_ls_args, wide),
    OPT_FLAG("-R, --recursive", "all the way down", files_ls_args, recursive),
    OPT_NUM("--depth N", "this many levels down", files_ls_args, depth, 1, 1000),
    OPT_FLAG("-0, --null", "names as they are, each ended by a NUL byte", files_ls_args, zero),
    OPT_END
};

static int files_ls(cli_call *c, cay_err *err)
{
    const files_ls_args *a = c->opts;
    files_view v = { .wide = a->wide, .zero = a->zero };
    unsigned depth = (unsigned)CAY_OR(a->depth, 1);
    if (a->recursive)
        depth = 0;
    view_begin(&v);
    return view_end(
        &v, cay_dir_list(c->sb, NULL, c->argc > 1 ? c->argv[1] : ".", depth, on_entry, &v, err));
}

const cli_verb cli_files_ls = {
    "files ls",
    "[-l] [-R] ID [PATH]",
    "list a directory",
    .examples = "  cay files ls c7f                     # its working directory\n"
                "  cay files ls -l c7f /etc\n"
                "  cay files ls -R --json c7f:/workspace",
    CLI_OPTS(ls_defs, files_ls_args),
    .min = 1,
    .max = 2,
    .needs = CLI_PATHS,
    .fn = files_ls,
};

static const opt_def find_defs[] = {
    OPT_FLAG("-l, --long", "mode, owner, size and time too", files_ls_args, wide),
    OPT_FLAG("-0, --null", "names as they are, each ended by a NUL byte", files_ls_args, zero),
    OPT_END
};

static int files_find(cli_call *c, cay_err *err)
{
    const files_ls_args *a = c->opts;
    files_view v = { .wide = a->wide, .zero = a->zero };
    const char *dir = ".", *pattern = c->argv[c->argc - 1];
    if (c->argc > 2)
        dir = c->argv[1];
    view_begin(&v);
    return view_end(&v, cay_file_glob(c->sb, NULL, dir, pattern, on_entry, &v, err));
}

const cli_verb cli_files_find = {
    "files find",
    "[-l] ID [PATH] PATTERN",
    "find files by a shell pattern; ** stands for any directories",
    .examples = "  cay files find c7f '**/*.py'\n"
                "  cay files find -l c7f /etc '*.conf'",
    CLI_OPTS(find_defs, files_ls_args),
    .min = 2,
    .max = 3,
    .needs = CLI_PATHS,
    .fn = files_find,
};

typedef struct cat_args {
    uint64_t offset, length;
} cat_args;

static const opt_def cat_defs[] = {
    OPT_SIZE("--offset BYTES", "where to begin", cat_args, offset),
    OPT_SIZE("--length BYTES", "how much (default to the end)", cat_args, length, 1), OPT_END
};

static int copy_to_stdout(int fd)
{
    char buf[64 << 10];
    ssize_t n;
    while (!out_broken() && (n = read(fd, buf, sizeof buf)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        out_data(1, buf, (size_t)n);
    }
    return 0;
}

static int files_cat(cli_call *c, cay_err *err)
{
    const cat_args *a = c->opts;
    cay_read spec = { .size = sizeof spec, .offset = a->offset, .length = a->length };
    if (a->length == CAY_UNLIMITED)
        spec.length = 0;
    for (int i = 1; i < c->argc; i++) {
        CAY_AUTOFD fd = -1;
        CAY_TRY(cay_file_open_read(c->sb, NULL, c->argv[i], &spec, &fd, err));
        CAY_TRY_SYS(copy_to_stdout(fd), err, "read %s", c->argv[i]);
    }
    return CLI_OK;
}

const cli_verb cli_files_cat = {
    "files cat",
    "[--offset N] [--length N] ID PATH…",
    "print files, or a range of them",
    .text = "On a terminal, bytes that could drive it are shown as \\xNN; into a pipe or file they "
            "go untouched.",
    .examples = "  cay files cat c7f /etc/os-release\n"
                "  cay files cat --offset 1M --length 4k c7f big.bin | xxd",
    CLI_OPTS(cat_defs, cat_args),
    .min = 2,
    .max = 9,
    .needs = CLI_PATHS,
    .fn = files_cat,
};

typedef struct put_args {
    uint32_t mode;
    bool parents, append, exclusive;
    const char *user;
} put_args;

static const opt_def put_defs[] = {
    OPT_MODE("-m, --mode MODE", "octal permission bits", put_args, mode),
    OPT_FLAG("-p, --parents", "make missing directories", put_args, parents),
    OPT_FLAG("-a, --append", "add to the end", put_args, append),
    OPT_FLAG("-x, --exclusive", "fail when it is there", put_args, exclusive),
    OPT_STR("-u, --user USER", "with whose rights", put_args, user),
    OPT_END
};

static int put_stream(cay_sandbox *sb, const char *path, int fd, const put_args *a, cay_err *err)
{
    char buf[64 << 10];
    cay_upload *up = NULL;
    cay_write spec = { .size = sizeof spec,
                       .mode = a->mode,
                       .parents = a->parents,
                       .append = a->append,
                       .exclusive = a->exclusive,
                       .user = a->user };
    CAY_TRY(cay_file_open_write(sb, NULL, path, &spec, &up, err));
    for (;;) {
        ssize_t n = read(fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            return cay_upload_commit(up, NULL, err);
        for (ssize_t at = 0, k; n > 0 && at < n; at += k)
            if ((k = write(cay_upload_fd(up), buf + at, (size_t)(n - at))) < 0)
                n = -1;
        if (n < 0) {
            int rc = cay_fail_sys(err, "write %s", path);
            cay_upload_abort(up);
            return rc;
        }
    }
}

static int files_put(cli_call *c, cay_err *err)
{
    CAY_AUTOFD file = -1;
    if (c->argc > 2 && strcmp(c->argv[2], "-")) {
        file = open(c->argv[2], O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (file < 0)
            return cay_fail_sys(err, "%s", c->argv[2]);
    }
    return put_stream(c->sb, c->argv[1], CAY_MAX(file, 0), c->opts, err);
}

const cli_verb cli_files_put = {
    "files put",
    "[OPTIONS] ID PATH [FILE|-]",
    "write a file from standard input or a local one",
    .text =
        "The file appears whole under its name, or not at all; with --append it grows in place.",
    .examples = "  echo hello | cay files put c7f greeting.txt\n"
                "  cay files put -p --mode 755 c7f bin/tool ./tool",
    CLI_OPTS(put_defs, put_args),
    .min = 2,
    .max = 3,
    .needs = CLI_PATHS,
    .fn = files_put,
};

typedef struct stat_args {
    bool follow;
} stat_args;

static const opt_def stat_defs[] = {
    OPT_FLAG("-L, --follow", "look at what a link points to", stat_args, follow), OPT_END
};

static void print_stat(const char *path, const cay_stat *st)
{
    char mode[12];
    out_safe("%s", path);
    if (st->type == CAY_LINK)
        out_safe(" -> %s", st->target);
    out_fmt(
        "\n  %s, mode %s (%04o), owner %u:%u\n  size %ju (%s), changed %s\n  inode %ju, links %u\n",
        file_type_word(st->type), file_mode_text(mode, st), st->mode & 07777, st->uid, st->gid,
        st->size, out_size(st->size).s, out_time(st->mtime_ns / 1000000).s, st->inode, st->nlink);
}

static int files_stat(cli_call *c, cay_err *err)
{
    const stat_args *a = c->opts;
    int code = CLI_OK;
    for (int i = 1; i < c->argc; i++) {
        cay_stat st = { .size_of = sizeof st };
        if (cay_file_stat(c->sb, NULL, c->argv[i], a->follow, &st, err) < 0) {
            code = cli_fail(err, CLI_FAIL);
        } else if (cli.json) {
            out_json j = OUT_JSON(c->argc == 2);
            file_json(&j, c->argv[i], &st);
            js_flush(&j);
        } else {
            print_stat(c->argv[i], &st);
        }
    }
    return code;
}

const cli_verb cli_files_stat = {
    "files stat",
    "[-L] ID PATH…",
    "tell type, mode, owner, size and time of files",
    .examples = "  cay files stat c7f /etc/passwd\n"
                "  cay files stat --json c7f . | jq .size",
    CLI_OPTS(stat_defs, stat_args),
    .min = 2,
    .max = 9,
    .needs = CLI_PATHS,
    .fn = files_stat,
};
