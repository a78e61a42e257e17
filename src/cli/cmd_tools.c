/* SPDX-License-Identifier: Apache-2.0 */
/* cay tools, cay tools call: what agents can be given, and one of it by hand. */
#include "main.h"
#include "out.h"
#include <base/base.h>
#include <cay/tools.h>

typedef struct tools_args {
    const char *form;
} tools_args;

static const opt_def tools_defs[] = { OPT_STR(
                                          "--form plain|openai|chat|mcp",
                                          "whose definitions: with parameters (default), of the "
                                          "Responses API, of Chat Completions, of MCP",
                                          tools_args, form),
                                      OPT_END };

static const char *const forms[] = { [CAY_TOOLS_PLAIN] = "plain",
                                     [CAY_TOOLS_OPENAI] = "openai",
                                     [CAY_TOOLS_CHAT] = "chat",
                                     [CAY_TOOLS_MCP] = "mcp" };

static int list_tools(cli_call *c, cay_err *err)
{
    const tools_args *a = c->opts;
    CAY_AUTOFREE char *json = NULL;
    size_t form = 0;
    const char *about, *name;
    while (a->form && form < CAY_LEN(forms) && strcmp(forms[form], a->form))
        form++;
    if (form == CAY_LEN(forms))
        return cli_misuse(c, "--form \"%.40s\": want plain, openai, chat or mcp", a->form);
    CAY_TRY(cay_toolset_json(c->argc ? (const char *const *)c->argv : NULL, (cay_tools_form)form,
                             &json, err));
    if (cli.json || a->form) {
        out_fmt("%s\n", json);
        return CLI_OK;
    }
    out_table t;
    out_table_open(&t, "NAME|WHAT IT DOES");
    for (size_t i = 0; (name = cay_toolset_name(i, &about)); i++) {
        bool wanted = !c->argc;
        CAY_EACH_OF(it, c->argv, c->argc)
            wanted = wanted || !strcmp(*it, name);
        if (wanted && cli.quiet) {
            out_fmt("%s\n", name);
        } else if (wanted) {
            out_row(&t, "*%s|%s", name, about);
        }
    }
    if (!cli.quiet)
        out_table_print(&t);
    out_table_close(&t);
    return CLI_OK;
}

const cli_verb cli_tools = {
    "tools",
    "[OPTIONS] [NAME...]",
    "list the tools that agents can be given, or their JSON definitions",
    .text = "With --json their definitions: name, description and JSON schema, as LangChain, the "
            "model APIs and MCP want them.",
    .examples = "  cay tools\n"
                "  cay --json tools file_read shell_exec\n"
                "  cay tools --form mcp > tools.json",
    CLI_OPTS(tools_defs, tools_args),
    .max = 256,
    .fn = list_tools,
};

static int tools_call(cli_call *c, cay_err *err)
{
    CAY_AUTOFREE char *text = NULL;
    cay_toolset *ts = NULL;
    bool failed = false;
    const char *const only[] = { c->argv[1], NULL };
    cay_toolset_spec spec = { .size = sizeof spec, .names = only, .session = "cli" };
    spec.sandbox = c->sb;
    int rc = cay_toolset_open(&spec, NULL, &ts, err);
    if (rc == 0)
        rc = cay_toolset_call(ts, NULL, c->argv[1], c->argc > 2 ? c->argv[2] : "{}", &text, &failed,
                              err);
    if (rc == 0) {
        CAY_AUTOBUF safe = CAY__BUF(SIZE_MAX / 2);
        if (isatty(STDOUT_FILENO))
            cay__buf_safe(&safe, text, strlen(text), true);
        out_str(CAY_OR(safe.data, text));
        if (*text && text[strlen(text) - 1] != '\n')
            out_str("\n");
    }
    cay_toolset_close(ts);
    CAY_TRY(rc);
    if (failed)
        return CLI_FAIL;
    return CLI_OK;
}

const cli_verb cli_tools_call = {
    "tools call",
    "ID NAME [JSON]",
    "call one of these tools in a sandbox",
    .text = "JSON is an object with its arguments. What it answers is printed; the status is 1 "
            "when that is an error. Its shell stays\n"
            "from call to call, under the name tools-cli.",
    .examples = "  cay tools call c7f file_write '{\"file\": \"a.txt\", \"content\": \"hello\"}'\n"
                "  cay tools call c7f shell_exec '{\"command\": \"make\"}'",
    .min = 2,
    .max = 3,
    .needs = CLI_SANDBOX,
    .fn = tools_call,
};
