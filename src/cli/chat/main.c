/* SPDX-License-Identifier: Apache-2.0 */
/* cay-chat: what `cay chat` starts. A program of its own, so that no other command pays for what
 * edits lines and reads markdown. */
#include "chat.h"
#include <base/base.h>
#include <locale.h>
#include <signal.h>

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

static int run_chat(cli_call *call, cay_err *err)
{
    chat c = { .a = call->opts, .lock = -1 };
    int rc;
    if (default_dir(&c, err) < 0)
        rc = cli_usage(call->verb, err);
    else if ((rc = chat_open(&c, err)) == 0)
        rc = chat_loop(&c);
    chat_close(&c);
    return rc;
}

static int list_sessions(cli_call *call, cay_err *err)
{
    chat c = { .a = call->opts, .lock = -1 };
    int rc = chat_db(&c, err);
    if (rc == 0)
        rc = chat_list(c.db, NULL, cli.json, err);
    chat_close(&c);
    return rc;
}

static int remove_sessions(cli_call *call, cay_err *err)
{
    chat c = { .a = call->opts, .lock = -1 };
    int rc = chat_db(&c, err);
    for (int i = 0; rc == 0 && i < call->argc; i++)
        rc = chat_forget(&c, call->argv[i], err);
    chat_close(&c);
    return rc;
}

static int reset_memory(cli_call *call, cay_err *err)
{
    const chat_args *a = call->opts;
    if (!a->agent)
        return cli_misuse(call, "whose memory? give --agent NAME");
    CAY_TRY(memory_reset(a->agent, a->target, err));
    if (a->target)
        out_note("cay: agent %s knows now what %s does", a->agent, a->target);
    else
        out_note("cay: agent %s remembers nothing now", a->agent);
    return CLI_OK;
}

int main(int argc, char **argv)
{
    static const struct {
        const cli_verb *verb;
        int (*fn)(cli_call *call, cay_err *err);
    } rows[] = { { &cli_chat, run_chat },
                 { &cli_chat_list, list_sessions },
                 { &cli_chat_rm, remove_sessions },
                 { &cli_chat_reset, reset_memory } };
    size_t row = 0;
    cay_err err = CAY_ERR_INIT;
    int used = 0, code = CLI_OK;
    if (!setlocale(LC_CTYPE, "") ||
        MB_CUR_MAX == 1) /* columns of characters and the line editor need it */
        setlocale(LC_CTYPE, "C.UTF-8");
    cli_begin();
    cli_boxes = &cli_client_boxes;
    if (cli_take_globals(argc - 1, argv + 1, &used, &err) < 0)
        return cli_fail(&err, CLI_USAGE);
    int at = 1 + used + (1 + used < argc && !strcmp(argv[1 + used], "chat"));
    for (size_t i = 1; i < CAY_LEN(rows) && at < argc; i++)
        if (!strcmp(argv[at], strchr(rows[i].verb->name, ' ') + 1))
            row = i;
    if (row)
        at++;
    else if (at < argc && !strcmp(argv[at], "help"))
        argv[at] = (char *)"--help";
    cli_verb v = *rows[row].verb;
    v.fn = rows[row].fn;
    if (cli_verb_run(&v, argc - at, argv + at, &code, &err) < 0)
        return cli_usage(&v, &err);
    if (out_broken() && code == CLI_OK)
        return 128 + SIGPIPE;
    return code;
}
