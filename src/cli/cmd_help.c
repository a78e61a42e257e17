/* SPDX-License-Identifier: Apache-2.0 */
/* cay help, version and completion: the program about itself. */
#include "main.h"
#include "open.h"
#include "out.h"
#include <base/base.h>
#include <base/str.h>
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
        if (!(*p)->fn && !family)
            cay__buf_fmt(&b, "\n%s%s%s\n", bold, (*p)->name, off);
        if ((*p)->fn &&
            (!family || (cay__str_starts((*p)->name, family) && (*p)->name[strlen(family)] == ' ')))
            cay__buf_fmt(&b, "  %-16s %s\n", (*p)->name, (*p)->summary);
    }
    if (!family) {
        cay__buf_fmt(&b, "\n%severywhere%s\n", bold, off);
        opt_help(cli_global_opts, &b);
    }
    out_write(CAY_OR(b.data, ""), b.len);
}

static int print_help(void *opts, int argc, char **argv)
{
    char name[64];
    bool family = false;
    (void)opts;
    if (!argc) {
        print_overview(NULL);
        return CLI_OK;
    }
    cay__str_join(name, sizeof name, argv[0], argc > 1 ? " " : "", argc > 1 ? argv[1] : "", NULL);
    for (const cli_verb *const *p = cli_verbs; *p; p++) {
        if ((*p)->fn && !strcmp((*p)->name, name)) {
            CAY_AUTOBUF b = CAY__BUF(1u << 20);
            cli_verb_help(*p, &b);
            out_write(b.data, b.len);
            return CLI_OK;
        }
        family |= (*p)->fn && cay__str_starts((*p)->name, name) && (*p)->name[strlen(name)] == ' ';
    }
    if (family) {
        print_overview(name);
        return CLI_OK;
    }
    cay_err err = CAY_ERR_INIT;
    cay_fail(&err, CAY_EINVAL, "no command \"%s\"; `cay help` shows all", name);
    return cli_fail(&err, CLI_USAGE);
}

const cli_verb cli_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .summary = "explain cay or one of its commands",
    .examples = "  cay help\n  cay help run\n  cay help files",
    .max = 2,
    .fn = print_help,
};

static int print_version(void *opts, int argc, char **argv)
{
    (void)opts;
    (void)argc;
    (void)argv;
    out_str(cli.json ? "{\"version\":\"" CAY_VERSION "\"}\n" : "cay " CAY_VERSION "\n");
    return CLI_OK;
}

const cli_verb cli_version = {
    .name = "version",
    .operands = "",
    .summary = "print the version",
    .fn = print_version,
};

static void print_options(const opt_def *d)
{
    for (; d->name; d++) {
        out_fmt("--%s%s\t%s\n", d->name, d->arg ? "=" : "", d->help);
        if (d->brief)
            out_fmt("-%c\t%s\n", d->brief, d->help);
    }
}

static int complete_options(const char *name)
{
    for (const cli_verb *const *p = cli_verbs; *p; p++)
        if ((*p)->fn && !strcmp((*p)->name, name)) {
            for (size_t i = 0; i < CAY_LEN((*p)->opts) && (*p)->opts[i].defs; i++)
                print_options((*p)->opts[i].defs);
            break;
        }
    print_options(cli_global_opts);
    return CLI_OK;
}

static int on_info(const cay_info *i, void *arg)
{
    (void)arg;
    out_fmt("%s\t%s", i->id, cay_state_name(i->state));
    if (i->name && *i->name) {
        out_str(" ");
        out_safe(i->name);
    }
    out_str("\n");
    return 0;
}

/* Completion is silent about errors: a message would land in the middle of what is typed. */
static int complete_ids(void)
{
    cay_client *client;
    const cay_filter all = { .size = sizeof all };
    if (cli_service(&client, NULL) < 0)
        return CLI_FAIL;
    if (cay_client_list(client, NULL, &all, on_info, NULL, NULL) < 0)
        return CLI_FAIL;
    return CLI_OK;
}

static int on_proc(const cay_proc_info *p, void *arg)
{
    (void)arg;
    if (*p->id) {
        out_fmt("%s\t", p->id);
        out_safe(p->command);
        out_str("\n");
    }
    if (*p->tag) {
        out_safe(p->tag);
        out_str("\t");
        out_safe(p->command);
        out_str("\n");
    }
    return 0;
}

static int complete_procs(const char *id)
{
    cay_sandbox *sb = NULL;
    if (cli_box_find(id, &sb, NULL) < 0)
        return CLI_FAIL;
    int rc = cay_sandbox_procs(sb, NULL, on_proc, NULL, NULL);
    cay_sandbox_unref(sb);
    if (rc < 0)
        return CLI_FAIL;
    return CLI_OK;
}

static int on_snapshot(const cay_snapshot *s, void *arg)
{
    (void)arg;
    out_fmt("%s\t%s\n", s->id, cay__text_or(s->label, s->sandbox));
    return 0;
}

static int complete_snapshots(void)
{
    cay_client *client;
    if (cli_service(&client, NULL) < 0 ||
        cay_client_snapshots(client, NULL, NULL, on_snapshot, NULL, NULL) < 0)
        return CLI_FAIL;
    return CLI_OK;
}

static int print_completion(void *opts, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    (void)opts;
    if (!strcmp(argv[0], "verbs")) {
        for (const cli_verb *const *p = cli_verbs; *p; p++)
            if ((*p)->fn)
                out_fmt("%s\t%s\n", (*p)->name, (*p)->summary);
        return CLI_OK;
    }
    if (!strcmp(argv[0], "options") && argc > 1) {
        char name[64];
        cay__str_join(name, sizeof name, argv[1], argc > 2 ? " " : "", argc > 2 ? argv[2] : "",
                      NULL);
        return complete_options(name);
    }
    if (!strcmp(argv[0], "ids"))
        return complete_ids();
    if (!strcmp(argv[0], "snapshots"))
        return complete_snapshots();
    if (!strcmp(argv[0], "procs") && argc > 1)
        return complete_procs(argv[1]);
    cay_fail(&err, CAY_EINVAL, "want verbs, options VERB, ids, snapshots, or procs ID");
    return cli_usage(&cli_completion, &err);
}

const cli_verb cli_completion = {
    .name = "completion",
    .operands = "verbs | options VERB | ids | snapshots | procs ID",
    .summary = "words for the shell's completion, each with a tab and its meaning",
    .min = 1,
    .max = 3,
    .fn = print_completion,
};
