/* SPDX-License-Identifier: Apache-2.0 */
/* cay files grep and watch: finding text, and seeing what changes. */
#include "files.h"
#include "show.h"
#include <base/base.h>

typedef struct grep_args {
    bool plain, ignore_case, names;
    const char *include;
    uint64_t max, found;
    out_json json;
    char last[4096];
} grep_args;

static const opt_def grep_defs[] = {
    OPT_FLAG("-F, --fixed", "the pattern is plain text", grep_args, plain),
    OPT_FLAG("-i, --ignore-case", "small and capital letters are the same", grep_args, ignore_case),
    OPT_FLAG("-n, --names", "only names of files with a match", grep_args, names),
    OPT_STR("--include PATTERN", "only files whose name fits", grep_args, include),
    OPT_NUM("--max N", "stop after this many (default 10000)", grep_args, max, 1),
    OPT_END
};

static int on_match(const cay_match *m, void *arg)
{
    grep_args *a = arg;
    a->found++;
    if (cli.json) {
        show_object(&a->json, &cay__match_shape, m);
    } else if (a->names) {
        if (strcmp(a->last, m->path)) {
            CAY_COPY(a->last, m->path);
            out_safe("%s\n", m->path);
        }
    } else {
        CAY_AUTOBUF b = CAY__BUF(64u << 10);
        cay__buf_safe(&b, m->text, m->text_len, false);
        out_str(out_on(1, OUT_TITLE));
        out_safe("%s", m->path);
        out_fmt("%s:%ju:%s\n", out_off(1), m->line, CAY_OR(b.data, ""));
    }
    if (out_broken())
        return CAY_ECANCELED;
    return 0;
}

static int files_grep(cli_call *c, cay_err *err)
{
    grep_args *a = c->opts;
    cay_grep spec = { .size = sizeof spec,
                      .pattern = c->argv[c->argc - 1],
                      .plain = a->plain,
                      .ignore_case = a->ignore_case,
                      .include = a->include,
                      .max = a->max };
    a->json = (out_json)OUT_JSON(true);
    js_open(&a->json, '[');
    int rc = cay_file_grep(c->sb, NULL, c->argc > 2 ? c->argv[1] : ".", &spec, on_match, a, err);
    js_close(&a->json, ']');
    if (rc >= 0 && cli.json)
        js_flush(&a->json);
    cay__buf_clear(&a->json.b);
    /* As grep(1): 0 found, 1 not, 2 trouble. */
    if (rc < 0 && !out_broken())
        return cli_fail(err, CLI_USAGE);
    if (a->found)
        return CLI_OK;
    return CLI_FAIL;
}

const cli_verb cli_files_grep = {
    "files grep",
    "[-F] [-i] ID [PATH] PATTERN",
    "find lines in files by an extended regular expression",
    .text = "Exit code 0: found, 1: nothing found, 2: trouble.",
    .examples = "  cay files grep c7f 'def +main'\n"
                "  cay files grep -F --include '*.c' c7f src 'printf('",
    CLI_OPTS(grep_defs, grep_args),
    .min = 2,
    .max = 3,
    .needs = CLI_PATHS,
    .fn = files_grep,
};

typedef struct watch_args {
    bool flat;
    uint64_t count;
} watch_args;

static const opt_def watch_defs[] = {
    OPT_FLAG("--flat", "not below its directories", watch_args, flat),
    OPT_NUM("-n, --count N", "leave after this many changes", watch_args, count, 1), OPT_END
};

static const char *change_word(cay_change c)
{
    switch (c) {
    case CAY_CHANGE_CREATE: return "create";
    case CAY_CHANGE_WRITE: return "write";
    case CAY_CHANGE_REMOVE: return "remove";
    case CAY_CHANGE_RENAME: return "rename";
    case CAY_CHANGE_CHMOD: return "chmod";
    case CAY_CHANGE_OVERFLOW: return "overflow";
    }
    return "other";
}

static void print_change(const cay_watch_event *e)
{
    if (cli.json) {
        out_json j = OUT_JSON(false);
        show_object(&j, &cay__watch_event_shape, e);
        js_flush(&j);
        return;
    }
    out_fmt("%-8s ", change_word(e->change));
    if (e->from && *e->from)
        out_safe("%s -> ", e->from);
    out_safe(e->dir ? "%s/\n" : "%s\n", CAY_OR(e->path, ""));
}

static int files_watch(cli_call *c, cay_err *err)
{
    const watch_args *a = c->opts;
    cay_watch *watch = NULL;
    int rc = 0;
    CAY_TRY(cay_watch_open(c->sb, NULL, c->argc > 1 ? c->argv[1] : ".", !a->flat, &watch, err));
    out_note("cay: watching; Ctrl-C ends it");
    for (uint64_t n = 0; rc >= 0 && !out_broken() && (!a->count || n < a->count); n++) {
        cay_watch_event e = { .size = sizeof e };
        rc = cay_watch_next(watch, NULL, &e, err);
        if (rc >= 0)
            print_change(&e);
    }
    cay_watch_close(watch);
    return rc;
}

const cli_verb cli_files_watch = {
    "files watch",
    "[--flat] [-n N] ID [PATH]",
    "print what changes below a directory, as it happens",
    .text = "`overflow` says that changes came faster than they were read: list again.",
    .examples = "  cay files watch c7f src\n"
                "  cay files watch --json -n 1 c7f      # wait for one change",
    CLI_OPTS(watch_defs, watch_args),
    .min = 1,
    .max = 2,
    .needs = CLI_PATHS,
    .fn = files_watch,
};
