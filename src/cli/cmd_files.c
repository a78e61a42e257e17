/* SPDX-License-Identifier: Apache-2.0 */
/* cay files ls, cat, put, stat, find, grep, watch: looking at files, and putting one in place. */
#include "copy.h"
#include "files.h"
#include "open.h"
#include "parse.h"
#include <base/base.h>
#include <base/str.h>
#include <fcntl.h>
#include <inttypes.h>

int files_begin(const cli_verb *v, int argc, char **argv, int min, int max, files_words *w)
{
    cay_err err = CAY_ERR_INIT;
    const char *colon = strchr(argv[0], ':');
    size_t n;
    if (colon)
        n = (size_t)(colon - argv[0]);
    else
        n = strlen(argv[0]);
    memset(w, 0, sizeof *w);
    if (colon && colon[1])
        w->v[w->n++] = colon + 1;
    for (int i = 1; i < argc && w->n < (int)CAY_LEN(w->v); i++)
        w->v[w->n++] = argv[i];
    if (!n || n >= sizeof w->id)
        cay_fail(&err, CAY_EINVAL, "\"%.80s\" is no sandbox id", argv[0]);
    else if (w->n < min || w->n > max)
        cay_fail(&err, CAY_EINVAL, "%s; usage: cay %s %s",
                 w->n < min ? "something is missing" : "too many words", v->name, v->operands);
    if (err.code)
        return cli_usage(v, &err);
    memcpy(w->id, argv[0], n);
    if (cli_box_find(w->id, &w->sb, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    return 0;
}

void files_end(files_words *w)
{
    if (w->sb)
        cay_sandbox_unref(w->sb);
    w->sb = NULL;
}

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

const char *file_mode_text(char *buf, const cay_stat *st)
{
    static const char bits[] = "rwxrwxrwx";
    if (st->type == CAY_DIR)
        buf[0] = 'd';
    else if (st->type == CAY_LINK)
        buf[0] = 'l';
    else if (st->type == CAY_FILE)
        buf[0] = '-';
    else
        buf[0] = '?';
    for (int i = 0; i < 9; i++) {
        if (st->mode & (0400u >> i))
            buf[i + 1] = bits[i];
        else
            buf[i + 1] = '-';
    }
    if (st->mode & 04000) {
        if (buf[3] == 'x')
            buf[3] = 's';
        else
            buf[3] = 'S';
    }
    if (st->mode & 02000) {
        if (buf[6] == 'x')
            buf[6] = 's';
        else
            buf[6] = 'S';
    }
    if (st->mode & 01000) {
        if (buf[9] == 'x')
            buf[9] = 't';
        else
            buf[9] = 'T';
    }
    buf[10] = 0;
    return buf;
}

void file_json(out_json *j, const char *path, const cay_stat *st)
{
    char mode[8];
    CAY_AUTOBUF b = CAY__BUF(sizeof mode);
    cay__buf_fmt(&b, "%04o", st->mode & 07777);
    js_open(j, '{');
    js_kstr(j, "path", path);
    js_kstr(j, "type", file_type_word(st->type));
    js_ku64(j, "size", st->size);
    js_kstr(j, "mode", b.data);
    js_ku64(j, "uid", st->uid);
    js_ku64(j, "gid", st->gid);
    js_ki64(j, "mtime_ns", st->mtime_ns);
    js_ku64(j, "inode", st->inode);
    js_ku64(j, "nlink", st->nlink);
    if (st->type == CAY_LINK)
        js_kstr(j, "target", st->target);
    js_close(j, '}');
}

typedef struct view {
    bool wide, zero;
    out_table table;
    out_json json;
} view;

static void add_wide(out_table *t, const cay_dirent *e)
{
    char mode[12], size[OUT_HUMAN], when[OUT_HUMAN];
    out_cell(t, OUT_PLAIN, file_mode_text(mode, &e->st));
    out_cellf(t, OUT_PLAIN, "%u:%u", e->st.uid, e->st.gid);
    out_cell(t, OUT_PLAIN, out_size(size, e->st.size));
    out_cell(t, OUT_PLAIN, out_time(when, e->st.mtime_ns / 1000000));
    if (e->st.type == CAY_LINK)
        out_cellf(t, OUT_PLAIN, "%s -> %s", e->path, e->st.target);
    else
        out_cellf(t, e->st.type == CAY_DIR ? OUT_TITLE : OUT_PLAIN, "%s%s", e->path,
                  e->st.type == CAY_DIR ? "/" : "");
}

static int on_entry(const cay_dirent *e, void *arg)
{
    view *v = arg;
    if (cli.json) {
        file_json(&v->json, e->path, &e->st);
    } else if (v->wide) {
        add_wide(&v->table, e);
    } else if (v->zero) {
        out_write(e->path, strlen(e->path) + 1);
    } else {
        out_safe(e->path);
        out_str(e->st.type == CAY_DIR ? "/\n" : "\n");
    }
    if (out_broken())
        return CAY_ECANCELED;
    return 0;
}

static void view_begin(view *v)
{
    static const char *const titles[] = { "MODE", ">OWNER", ">SIZE", "CHANGED", "NAME", NULL };
    v->json = (out_json)OUT_JSON(true);
    out_table_open(&v->table, titles);
    js_open(&v->json, '[');
}

static int view_end(view *v, int rc, const cay_err *err)
{
    js_close(&v->json, ']');
    if (rc >= 0 && cli.json)
        js_flush(&v->json);
    else if (rc >= 0 && v->wide)
        out_table_print(&v->table);
    out_table_close(&v->table);
    cay__buf_clear(&v->json.b);
    if (rc < 0 && !out_broken())
        return cli_fail(err, CLI_FAIL);
    return CLI_OK;
}

typedef struct ls_args {
    bool wide, recursive, zero;
    uint64_t depth;
} ls_args;

static const opt_def ls_defs[] = {
    { "long", 'l', NULL, "mode, owner, size and time too", OPT_FLAG, offsetof(ls_args, wide) },
    { "recursive", 'R', NULL, "all the way down", OPT_FLAG, offsetof(ls_args, recursive) },
    { "depth", 0, "N", "this many levels down", OPT_NUM, offsetof(ls_args, depth), 1, 1000 },
    { "null", '0', NULL, "names as they are, each ended by a NUL byte", OPT_FLAG,
      offsetof(ls_args, zero) },
    OPT_END
};

static int files_ls(void *opts, int argc, char **argv)
{
    const ls_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    files_words w;
    view v = { .wide = a->wide, .zero = a->zero };
    int code = files_begin(&cli_files_ls, argc, argv, 0, 1, &w);
    if (!code) {
        view_begin(&v);
        int rc = cay_dir_list(w.sb, NULL, w.n ? w.v[0] : ".",
                              a->recursive ? 0
                              : a->depth   ? (unsigned)a->depth
                                           : 1,
                              on_entry, &v, &err);
        code = view_end(&v, rc, &err);
    }
    files_end(&w);
    return code;
}

const cli_verb cli_files_ls = {
    .name = "files ls",
    .operands = "[-l] [-R] ID [PATH]",
    .summary = "list a directory",
    .examples = "  cay files ls c7f                     # its working directory\n"
                "  cay files ls -l c7f /etc\n"
                "  cay files ls -R --json c7f:/workspace",
    .opts = { { ls_defs, 0 } },
    .size = sizeof(ls_args),
    .min = 1,
    .max = 2,
    .fn = files_ls,
};

static const opt_def find_defs[] = {
    { "long", 'l', NULL, "mode, owner, size and time too", OPT_FLAG, offsetof(ls_args, wide) },
    { "null", '0', NULL, "names as they are, each ended by a NUL byte", OPT_FLAG,
      offsetof(ls_args, zero) },
    OPT_END
};

static int files_find(void *opts, int argc, char **argv)
{
    const ls_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    files_words w;
    view v = { .wide = a->wide, .zero = a->zero };
    int code = files_begin(&cli_files_find, argc, argv, 1, 2, &w);
    if (!code) {
        view_begin(&v);
        int rc =
            cay_file_glob(w.sb, NULL, w.n > 1 ? w.v[0] : ".", w.v[w.n - 1], on_entry, &v, &err);
        code = view_end(&v, rc, &err);
    }
    files_end(&w);
    return code;
}

const cli_verb cli_files_find = {
    .name = "files find",
    .operands = "[-l] ID [PATH] PATTERN",
    .summary = "find files by a shell pattern; ** stands for any directories",
    .examples = "  cay files find c7f '**/*.py'\n"
                "  cay files find -l c7f /etc '*.conf'",
    .opts = { { find_defs, 0 } },
    .size = sizeof(ls_args),
    .min = 2,
    .max = 3,
    .fn = files_find,
};

typedef struct cat_args {
    uint64_t offset, length;
} cat_args;

static const opt_def cat_defs[] = { { "offset", 0, "BYTES", "where to begin", OPT_SIZE,
                                      offsetof(cat_args, offset) },
                                    { "length", 0, "BYTES", "how much (default to the end)",
                                      OPT_SIZE, offsetof(cat_args, length), 1 },
                                    OPT_END };

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

static int files_cat(void *opts, int argc, char **argv)
{
    const cat_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    files_words w;
    cay_read spec = { .size = sizeof spec,
                      .offset = a->offset,
                      .length = a->length == CAY_UNLIMITED ? 0 : a->length };
    int code = files_begin(&cli_files_cat, argc, argv, 1, 8, &w);
    for (int i = 0; !code && i < w.n; i++) {
        CAY_AUTOFD fd = -1;
        if (cay_file_open_read(w.sb, NULL, w.v[i], &spec, &fd, &err) < 0)
            code = cli_fail(&err, CLI_FAIL);
        else if (copy_to_stdout(fd) < 0) {
            cay_fail_sys(&err, CAY_ESYS, "read %s", w.v[i]);
            code = cli_fail(&err, CLI_FAIL);
        }
    }
    files_end(&w);
    return code;
}

const cli_verb cli_files_cat = {
    .name = "files cat",
    .operands = "[--offset N] [--length N] ID PATH…",
    .summary = "print files, or a range of them",
    .text = "On a terminal, bytes that could drive it are shown as \\xNN; into a pipe or file they "
            "go untouched.",
    .examples = "  cay files cat c7f /etc/os-release\n"
                "  cay files cat --offset 1M --length 4k c7f big.bin | xxd",
    .opts = { { cat_defs, 0 } },
    .size = sizeof(cat_args),
    .min = 1,
    .max = 8,
    .fn = files_cat,
};

typedef struct put_args {
    uint32_t mode;
    bool parents, append, exclusive;
    const char *user;
} put_args;

static const opt_def put_defs[] = {
    { "mode", 'm', "MODE", "octal permission bits", OPT_MODE, offsetof(put_args, mode) },
    { "parents", 'p', NULL, "make missing directories", OPT_FLAG, offsetof(put_args, parents) },
    { "append", 'a', NULL, "add to the end", OPT_FLAG, offsetof(put_args, append) },
    { "exclusive", 'x', NULL, "fail when it is there", OPT_FLAG, offsetof(put_args, exclusive) },
    { "user", 'u', "USER", "with whose rights", OPT_STR, offsetof(put_args, user) },
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
            int rc = cay_fail_sys(err, CAY_ESYS, "write %s", path);
            cay_upload_abort(up);
            return rc;
        }
    }
}

static int files_put(void *opts, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    files_words w;
    CAY_AUTOFD file = -1;
    int code = files_begin(&cli_files_put, argc, argv, 1, 2, &w);
    if (!code && w.n > 1 && strcmp(w.v[1], "-")) {
        file = open(w.v[1], O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (file < 0) {
            cay_fail_sys(&err, CAY_ESYS, "%s", w.v[1]);
            code = cli_fail(&err, CLI_FAIL);
        }
    }
    if (!code && put_stream(w.sb, w.v[0], file >= 0 ? file : 0, opts, &err) < 0)
        code = cli_fail(&err, CLI_FAIL);
    files_end(&w);
    return code;
}

const cli_verb cli_files_put = {
    .name = "files put",
    .operands = "[OPTIONS] ID PATH [FILE|-]",
    .summary = "write a file from standard input or a local one",
    .text =
        "The file appears whole under its name, or not at all; with --append it grows in place.",
    .examples = "  echo hello | cay files put c7f greeting.txt\n"
                "  cay files put -p --mode 755 c7f bin/tool ./tool",
    .opts = { { put_defs, 0 } },
    .size = sizeof(put_args),
    .min = 1,
    .max = 3,
    .fn = files_put,
};

typedef struct stat_args {
    bool follow;
} stat_args;

static const opt_def stat_defs[] = { { "follow", 'L', NULL, "look at what a link points to",
                                       OPT_FLAG, offsetof(stat_args, follow) },
                                     OPT_END };

static void print_stat(const char *path, const cay_stat *st)
{
    char mode[12], size[OUT_HUMAN], when[OUT_HUMAN];
    out_safe(path);
    if (st->type == CAY_LINK) {
        out_str(" -> ");
        out_safe(st->target);
    }
    out_fmt("\n  %s, mode %s (%04o), owner %u:%u\n  size %" PRIu64
            " (%s), changed %s\n  inode %" PRIu64 ", links %u\n",
            file_type_word(st->type), file_mode_text(mode, st), st->mode & 07777, st->uid, st->gid,
            st->size, out_size(size, st->size), out_time(when, st->mtime_ns / 1000000), st->inode,
            st->nlink);
}

static int files_stat(void *opts, int argc, char **argv)
{
    const stat_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    files_words w;
    int code = files_begin(&cli_files_stat, argc, argv, 1, 8, &w);
    for (int i = 0; w.sb && i < w.n; i++) {
        cay_stat st = { .size_of = sizeof st };
        if (cay_file_stat(w.sb, NULL, w.v[i], a->follow, &st, &err) < 0) {
            code = cli_fail(&err, CLI_FAIL);
        } else if (cli.json) {
            out_json j = OUT_JSON(w.n == 1);
            file_json(&j, w.v[i], &st);
            js_flush(&j);
        } else {
            print_stat(w.v[i], &st);
        }
    }
    files_end(&w);
    return code;
}

const cli_verb cli_files_stat = {
    .name = "files stat",
    .operands = "[-L] ID PATH…",
    .summary = "tell type, mode, owner, size and time of files",
    .examples = "  cay files stat c7f /etc/passwd\n"
                "  cay files stat --json c7f . | jq .size",
    .opts = { { stat_defs, 0 } },
    .size = sizeof(stat_args),
    .min = 1,
    .max = 8,
    .fn = files_stat,
};
