/* SPDX-License-Identifier: Apache-2.0 */
/* Options and words of cay chat: the full program explains and completes by them, cay-chat obeys
 * them. */
#include "chat.h"

static const opt_def defs[] = {
    OPT_STR("--session NAME", "go on with this session, or begin one of that name", chat_args,
            session),
    OPT_STR("--agent NAME", "whose memory it has (default \"default\")", chat_args, agent),
    OPT_FLAG("--auto-approve", "run commands and patches without asking", chat_args, auto_approve),
    OPT_STR("--sandbox PROVIDER",
            "where it works: native (default), docker, podman, process, or none for no wall at all",
            chat_args, sandbox),
    OPT_STR("--sandbox-id ID", "work in this sandbox, and leave it there", chat_args, sandbox_id),
    OPT_STR("--sandbox-setup FILE", "a shell script that is run in a new sandbox first", chat_args,
            setup),
    OPT_FLAG("--empty", "begin with an empty workspace instead of the current directory", chat_args,
             empty),
    OPT_STR("--skills DIR", "directories with a SKILL.md that it may load", chat_args, skills),
    OPT_LIST("--mcp COMMAND|URL|FILE",
             "tools of an MCP server: a command in a sandbox of its own, or an address; or of "
             "those that "
             "a mcp.json lists",
             chat_args, mcp),
    OPT_LIST("--hosted TOOL",
             "a tool that the endpoint runs: web_search, code_interpreter, image_generation, "
             "file_search:STORE, mcp:LABEL=URL, or JSON",
             chat_args, hosted),
    OPT_NUM("--max-turns N", "most times the model is asked for one message (default 100)",
            chat_args, max_turns, 1, 100000),
    OPT_FLAG("--no-splash", "begin without a greeting", chat_args, no_splash),
    OPT_END
};
static const opt_def reset_defs[] = {
    OPT_STR("--agent NAME", "whose memory is emptied", chat_args, agent),
    OPT_STR("--target OTHER", "give it a copy of this one's memory instead", chat_args, target),
    OPT_END
};

const cli_verb cli_chat = {
    "chat",
    "[OPTIONS]",
    "talk to an agent that works on a copy of this directory",
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
    .opts = { { agent_model_defs, offsetof(chat_args, model) },
              { defs, 0 },
              { box_opt_defs, offsetof(chat_args, box) } },
    .size = sizeof(chat_args),
    .program = "cay-chat",
};

const cli_verb cli_chat_list = {
    "chat list", "", "show sessions of cay chat", .size = sizeof(chat_args), .program = "cay-chat",
};

const cli_verb cli_chat_rm = {
    "chat rm",
    "SESSION…",
    "forget sessions of cay chat, with their sandboxes",
    .size = sizeof(chat_args),
    .min = 1,
    .max = CLI_ANY,
    .program = "cay-chat",
};

const cli_verb cli_chat_reset = {
    "chat reset",
    "--agent NAME [--target OTHER]",
    "empty an agent's memory, or give it another's",
    CLI_OPTS(reset_defs, chat_args),
    .program = "cay-chat",
};
