/* SPDX-License-Identifier: Apache-2.0 */
/* cay-chat: what `cay chat` starts. A program of its own, so that no other command pays for what
 * edits lines and reads markdown. */
#include "chat.h"
#include "row.h"
#include <base/base.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>

static int default_dir(chat *c, cay_err *err)
{
    const char *p = c->a->sandbox;
    bool other =
        c->a->empty || c->a->sandbox_id || c->a->box.from || c->a->box.root || c->a->box.manifest;
    if (c->a->empty && c->a->box.on)
        return cay_fail(err, CAY_EINVAL, "--empty and --on contradict each other");
    if (p && strcmp(p, "none") && strcmp(p, "native") && c->a->box.on)
        return cay_fail(err, CAY_EINVAL,
                        "--on: only native sandboxes show a directory copy-on-write");
    c->a->here = !c->a->box.on && !other;
    if (c->a->here)
        c->a->box.on = ".";
    return box_spec_make(&c->a->box, &c->box, err);
}

int chat_run(void *opts, int argc, char **argv)
{
    chat c = { .a = opts, .lock = -1 };
    cay_err err = CAY_ERR_INIT;
    int code;
    (void)argc, (void)argv;
    if (default_dir(&c, &err) < 0)
        code = cli_usage(&cli_chat, &err);
    else if (chat_open(&c, &err) < 0)
        code = cli_fail(&err, CLI_FAIL);
    else
        code = chat_loop(&c);
    chat_close(&c);
    return code;
}

int chat_run_list(void *opts, int argc, char **argv)
{
    chat c = { .a = opts, .lock = -1 };
    cay_err err = CAY_ERR_INIT;
    (void)argc, (void)argv;
    int rc = chat_db(&c, &err);
    if (rc == 0)
        rc = chat_list(c.db, NULL, cli.json, &err);
    chat_close(&c);
    if (rc < 0)
        return cli_fail(&err, CLI_FAIL);
    return CLI_OK;
}

int chat_run_rm(void *opts, int argc, char **argv)
{
    chat c = { .a = opts, .lock = -1 };
    int code = CLI_OK;
    cay_err err = CAY_ERR_INIT;
    if (chat_db(&c, &err) < 0)
        code = cli_fail(&err, CLI_FAIL);
    for (int i = 0; code == CLI_OK && i < argc; i++)
        if (chat_forget(&c, argv[i], &err) < 0)
            code = cli_fail(&err, CLI_FAIL);
    chat_close(&c);
    return code;
}

int chat_run_reset(void *opts, int argc, char **argv)
{
    chat_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    (void)argc, (void)argv;
    if (!a->agent) {
        cay_fail(&err, CAY_EINVAL, "whose memory? give --agent NAME");
        return cli_usage(&cli_chat_reset, &err);
    }
    if (memory_reset(a->agent, a->target, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    if (a->target)
        out_note("cay: agent %s knows now what %s does", a->agent, a->target);
    else
        out_note("cay: agent %s remembers nothing now", a->agent);
    return CLI_OK;
}

int main(int argc, char **argv)
{
    static const cli_verb *const verbs[] = { &cli_chat_list, &cli_chat_rm, &cli_chat_reset };
    cay_err err = CAY_ERR_INIT;
    int used = 0, code = CLI_OK;
    if (!setlocale(LC_CTYPE, "") ||
        MB_CUR_MAX == 1) /* columns of characters and the line editor need it */
        setlocale(LC_CTYPE, "C.UTF-8");
    cli_begin();
    if (cli_take_globals(argc - 1, argv + 1, &used, &err) < 0)
        return cli_fail(&err, CLI_USAGE);
    int at = 1 + used + (1 + used < argc && !strcmp(argv[1 + used], "chat"));
    const cli_verb *v = &cli_chat;
    for (size_t i = 0; i < CAY_LEN(verbs) && at < argc; i++) {
        if (!strcmp(argv[at], strchr(verbs[i]->name, ' ') + 1))
            v = verbs[i];
    }
    at += v != &cli_chat;
    if (v == &cli_chat && at < argc && !strcmp(argv[at], "help"))
        argv[at] = (char *)"--help";
    if (cli_verb_run(v, argc - at, argv + at, &code, &err) < 0)
        return cli_usage(v, &err);
    if (out_broken() && code == CLI_OK)
        return 128 + SIGPIPE;
    return code;
}
