/* SPDX-License-Identifier: Apache-2.0 */
/* Options and words of cay chat: the full program explains and completes by them, cay-chat obeys
 * them. */
#include "chat.h"

#define AT(field) offsetof(chat_args, field)
static const opt_def defs[] = {
    { "model", 0, "NAME",
      "the model, or scripted:FILE (default $CAY_MODEL, else the configuration's)", OPT_STR,
      AT(model) },
    { "base-url", 0, "URL", "where it is asked (default $OPENAI_BASE_URL, else api.openai.com)",
      OPT_STR, AT(base_url) },
    { "api", 0, "responses|websocket|chat", "what is spoken there (default responses)", OPT_STR,
      AT(api) },
    { "key", 0, "SOURCE",
      "where its key is: env:NAME, file:PATH or none (default env:OPENAI_API_KEY)", OPT_STR,
      AT(key) },
    { "header", 0, "NAME: VALUE",
      "send this header too; a value env:NAME or file:PATH is read there (also $CAY_MODEL_HEADERS, "
      "one a line)",
      OPT_LIST, AT(headers) },
    { "context-window", 0, "TOKENS",
      "what the model can see at once: at 9 tenths of it the history is compacted (default by its "
      "name)",
      OPT_NUM, AT(window), 1024, 1000000000 },
    { "effort", 0, "WORD", "how hard it thinks: low, medium, high", OPT_STR, AT(effort) },
    { "session", 0, "NAME", "go on with this session, or begin one of that name", OPT_STR,
      AT(session) },
    { "agent", 0, "NAME", "whose memory it has (default \"default\")", OPT_STR, AT(agent) },
    { "auto-approve", 0, NULL, "run commands and patches without asking", OPT_FLAG,
      AT(auto_approve) },
    { "sandbox", 0, "PROVIDER",
      "where it works: native (default), docker, podman, process, or none for no wall at all",
      OPT_STR, AT(sandbox) },
    { "sandbox-id", 0, "ID", "work in this sandbox, and leave it there", OPT_STR, AT(sandbox_id) },
    { "sandbox-setup", 0, "FILE", "a shell script that is run in a new sandbox first", OPT_STR,
      AT(setup) },
    { "empty", 0, NULL, "begin with an empty workspace instead of the current directory", OPT_FLAG,
      AT(empty) },
    { "skills", 0, "DIR", "directories with a SKILL.md that it may load", OPT_STR, AT(skills) },
    { "mcp", 0, "COMMAND|URL|FILE",
      "tools of an MCP server: a command in a sandbox of its own, or an address; or of those that "
      "a mcp.json lists",
      OPT_LIST, AT(mcp) },
    { "hosted", 0, "TOOL",
      "a tool that the endpoint runs: web_search, code_interpreter, image_generation, "
      "file_search:STORE, mcp:LABEL=URL, or JSON",
      OPT_LIST, AT(hosted) },
    { "max-turns", 0, "N", "most times the model is asked for one message (default 100)", OPT_NUM,
      AT(max_turns), 1, 100000 },
    { "no-splash", 0, NULL, "begin without a greeting", OPT_FLAG, AT(no_splash) },
    OPT_END
};
static const opt_def reset_defs[] = {
    { "agent", 0, "NAME", "whose memory is emptied", OPT_STR, AT(agent) },
    { "target", 0, "OTHER", "give it a copy of this one's memory instead", OPT_STR, AT(target) },
    OPT_END
};

const cli_verb cli_chat = {
    .name = "chat",
    .operands = "[OPTIONS]",
    .summary = "talk to an agent that works on a copy of this directory",
    .text = "It sees the current directory (or --on DIR) copy-on-write; /diff shows what it "
            "changed, /apply takes it over, /undo takes the last\n"
            "turn back, files and all. Commands and patches are asked for first. The session is "
            "kept: `cay chat list` shows them. In the\n"
            "talk: /help, @file, !command on this machine, !!command in the sandbox; Ctrl+C "
            "interrupts, twice ends. From a pipe each line is a\n"
            "message.",
    .examples =
        "  cay chat                                     # about the current directory\n"
        "  cay chat --session fix --model gpt-5.5       # again later: goes on\n"
        "  cay chat --api chat --base-url http://localhost:11434/v1 --model qwen3   # Ollama\n"
        "  cay chat --empty --net pypi --auto-approve\n"
        "  echo 'what is in here?' | cay chat --auto-approve\n"
        "  cay chat list; cay chat reset --agent coder",
    .opts = { { defs, 0 }, { box_opt_defs, offsetof(chat_args, box) } },
    .size = sizeof(chat_args),
    .program = "cay-chat",
};

const cli_verb cli_chat_list = {
    .name = "chat list",
    .operands = "",
    .summary = "show sessions of cay chat",
    .size = sizeof(chat_args),
    .program = "cay-chat",
};

const cli_verb cli_chat_rm = {
    .name = "chat rm",
    .operands = "SESSION…",
    .summary = "forget sessions of cay chat, with their sandboxes",
    .size = sizeof(chat_args),
    .min = 1,
    .max = CLI_ANY,
    .program = "cay-chat",
};

const cli_verb cli_chat_reset = {
    .name = "chat reset",
    .operands = "--agent NAME [--target OTHER]",
    .summary = "empty an agent's memory, or give it another's",
    CLI_OPTS(reset_defs, chat_args),
    .program = "cay-chat",
};
