/* SPDX-License-Identifier: Apache-2.0 */
/* cay help, version and completion: the program about itself. */
#include "main.h"
#include "out.h"
#include <base/base.h>
#include <cay/snapshot.h>

static void print_overview(const char *family)
{
    CAY_AUTOBUF b = CAY__BUF(1u << 20);
    const char *bold = out_on(1, OUT_BOLD), *off = out_off(1);
    if (!family)
        cay__buf_fmt(&b,
                     "%scay%s - an island of sand for every program you do not trust\n\n"
                     "usage: cay COMMAND [OPTIONS] …\n"
                     "       cay run -- uname -a          one command, isolated\n"
                     "       cay COMMAND --help           options and examples\n",
                     bold, off);
    for (const cli_verb *const *p = cli_verbs; *p; p++) {
        if (!(*p)->operands && !family)
            cay__buf_fmt(&b, "\n%s%s%s\n", bold, (*p)->name, off);
        if ((*p)->operands &&
            (!family || (cay__str_starts((*p)->name, family) && (*p)->name[strlen(family)] == ' ')))
            cay__buf_fmt(&b, "  %-16s %s\n", (*p)->name, (*p)->summary);
    }
    if (!family) {
        cay__buf_fmt(&b, "\n%severywhere%s\n", bold, off);
        opt_help(cli_global_opts, &b);
    }
    out_write(CAY_OR(b.data, ""), b.len);
}

/* "files", or "files ls". */
static const char *join_words(char name[64], int argc, char **argv)
{
    if (argc > 1)
        cay__str_join(name, 64, argv[0], " ", argv[1], NULL);
    else
        cay__str_copy(name, 64, argv[0]);
    return name;
}

static const cli_verb *find_verb(const char *name)
{
    for (const cli_verb *const *p = cli_verbs; *p; p++)
        if ((*p)->operands && !strcmp((*p)->name, name))
            return *p;
    return NULL;
}

static bool is_family(const char *name)
{
    for (const cli_verb *const *p = cli_verbs; *p; p++)
        if ((*p)->operands && cay__str_starts((*p)->name, name) && (*p)->name[strlen(name)] == ' ')
            return true;
    return false;
}

static int print_help(cli_call *c, cay_err *err)
{
    char buf[64];
    const char *name = NULL;
    if (c->argc)
        name = join_words(buf, c->argc, c->argv);
    const cli_verb *v = NULL;
    if (name)
        v = find_verb(name);
    if (v) {
        cli_verb_help(v);
    } else if (!name || is_family(name)) {
        print_overview(name);
    } else {
        cay_fail(err, CAY_EINVAL, "no command \"%s\"; `cay help` shows all", name);
        return cli_fail(err, CLI_USAGE);
    }
    return CLI_OK;
}

const cli_verb cli_help = {
    "help",
    "[COMMAND]",
    "explain cay or one of its commands",
    .examples = "  cay help\n  cay help run\n  cay help files",
    .max = 2,
    .fn = print_help,
};

static int print_version(cli_call *c, cay_err *err)
{
    out_str(cli.json ? "{\"version\":\"" CAY_VERSION "\"}\n" : "cay " CAY_VERSION "\n");
    return CLI_OK;
}

const cli_verb cli_version = {
    "version",
    "",
    "print the version",
    .fn = print_version,
};

static void print_options(const opt_def *d)
{
    for (; d->form; d++) {
        opt_name name = opt_name_of(d);
        out_fmt("--%s%s\t%s\n", name.word, name.arg ? "=" : "", d->help);
        if (name.brief)
            out_fmt("-%c\t%s\n", name.brief, d->help);
    }
}

static int complete_options(const char *name)
{
    const cli_verb *v = find_verb(name);
    for (size_t i = 0; v && i < CAY_LEN(v->opts) && v->opts[i].defs; i++)
        print_options(v->opts[i].defs);
    print_options(cli_global_opts);
    return CLI_OK;
}

static int on_info(const cay_info *i, void *arg)
{
    out_fmt("%s\t%s", i->id, cay_state_name(i->state));
    if (i->name && *i->name)
        out_safe(" %s", i->name);
    out_str("\n");
    return 0;
}

static int on_proc(const cay_proc_info *p, void *arg)
{
    if (*p->id) {
        out_safe("%s\t%s\n", p->id, p->command);
    }
    if (*p->tag) {
        out_safe("%s\t%s\n", p->tag, p->command);
    }
    return 0;
}

static int on_snapshot(const cay_snapshot *s, void *arg)
{
    out_fmt("%s\t%s\n", s->id, cay__text_or(s->label, s->sandbox));
    return 0;
}

/* Completion is silent about errors: a message would land in the middle of what is typed. */
static int quiet_result(int rc)
{
    if (rc < 0)
        return CLI_FAIL;
    return CLI_OK;
}

static int print_completion(cli_call *c, cay_err *err)
{
    const char *what = c->argv[0];
    const cay_filter all = { .size = sizeof all };
    char name[64];
    if (!strcmp(what, "verbs")) {
        for (const cli_verb *const *p = cli_verbs; *p; p++)
            if ((*p)->operands)
                out_fmt("%s\t%s\n", (*p)->name, (*p)->summary);
        return CLI_OK;
    }
    if (!strcmp(what, "options") && c->argc > 1)
        return complete_options(join_words(name, c->argc - 1, c->argv + 1));
    bool procs = !strcmp(what, "procs") && c->argc > 1;
    if (!procs && strcmp(what, "ids") && strcmp(what, "snapshots"))
        return cli_misuse(c, "want verbs, options VERB, ids, snapshots, or procs ID");
    if (cli_client(&c->client, NULL) < 0 ||
        (procs && cli_boxes->find(c->argv[1], &c->sb, NULL) < 0))
        return CLI_FAIL;
    if (procs)
        return quiet_result(cay_sandbox_procs(c->sb, NULL, on_proc, NULL, NULL));
    if (!strcmp(what, "ids"))
        return quiet_result(cay_client_list(c->client, NULL, &all, on_info, NULL, NULL));
    return quiet_result(cay_client_snapshots(c->client, NULL, NULL, on_snapshot, NULL, NULL));
}

const cli_verb cli_completion = {
    "completion",
    "verbs | options VERB | ids | snapshots | procs ID",
    "words for the shell's completion, each with a tab and its meaning",
    .min = 1,
    .max = 3,
    .fn = print_completion,
};
