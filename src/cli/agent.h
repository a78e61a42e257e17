/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/agent.h - the parts that `cay agent` and `cay chat` share.
 *
 *   agent_ask.c       a person allows or refuses a call
 *   agent_form.c      a person answers an MCP server's questions
 *   agent_hosted.c    the model, and tools that its endpoint runs
 *   agent_mcp.c       MCP servers; agent_mcp_file.c reads which
 *   agent_show.c      a run as people and programs follow it
 *   agent_audit.c     where its audit is written
 */
#pragma once
#include "opt.h"
#include "out.h"
#include "parse.h"
#include <base/json.h>
#include <cay/agent.h>
#include <cay/audit_sink.h>
#include <cay/mcp.h>

/*
 * agent_ask.c: a person at a terminal allows or refuses a call, and sees all of it before.
 */

/* cay_run_config.approve; arg is the mode: "auto", "ask" or "never". */
cay_verdict agent_ask(void *arg, const cay_tool_call *call, char **message);
/* A call as it is asked about: every argument by name, every line of it marked, so that none can
 * pass for another. Without `whole` long ones are cut. Tells how many bytes are not shown. */
size_t agent_ask_text(cay__buf *b, const char *tool, const char *arguments, size_t width,
                      bool whole);
/* The state of a run without the approvals that it holds; what was refused stays so. NULL when it
 * is no JSON object. */
char *agent_ask_forget(const char *state);

/*
 * agent_form.c: what an MCP server asks for, asked of somebody at a terminal.
 */

/* One field after the other by `ask`, which gives what was typed (malloc'ed) or NULL for "no more".
 * Empty: the default, or left out; what may not be left out ends it. As cay_mcp_callbacks.elicit.
 * Everything of the server's is escaped. */
int agent_form(const char *server, const char *message, const char *schema,
               char *(*ask)(void *arg, const char *question), void *arg, char **content);

/* cay_mcp_callbacks of `cay agent`; arg is the mode: "auto", "ask" or "never". Without a terminal
 * forms are declined. */
cay_verdict agent_sample(void *arg, const char *server, const char *request, char **message);
int agent_elicit(void *arg, const char *server, const char *message, const char *schema,
                 char **content);

/*
 * agent_hosted.c: tools that the endpoint runs, for `cay agent` and `cay chat`: --hosted WORD
 * or JSON, and what they did as a line.
 */

/* Which model, and how it is asked. */
typedef struct agent_model {
    const char *name, *base_url, *api, *key, *effort;
    opt_list headers;
    uint64_t window;
} agent_model;
extern const opt_def agent_model_defs[];
int agent_model_check(const agent_model *m, cay_err *err);

enum { AGENT_HOSTED = 16 };
typedef struct agent_hosted {
    cay_tool v[AGENT_HOSTED];
    char *text[AGENT_HOSTED];
    size_t n;
} agent_hosted;

/* web_search, code_interpreter, image_generation, file_search:STORE,…, mcp:LABEL=URL, or a
 * definition as JSON. CAY_EINVAL names what is wrong. */
int agent_hosted_open(const opt_list *list, agent_hosted *h, cay_err *err);
void agent_hosted_close(agent_hosted *h);

/* A directory that an option names, before anything is made for it. */
int agent_dir(const char *option, const char *path, cay_err *err);

/* The tool, and what matters most of what it did; false: the item is a call of ours. Both are cut
 * to their size. */
typedef struct agent_hosted_line {
    char tool[120], what[2000];
} agent_hosted_line;
bool agent_hosted_told(const json_t *item, agent_hosted_line *out);

/*
 * agent_mcp.c: MCP servers by --mcp: commands, which run in sandboxes of their own, and
 * addresses.
 */

enum { AGENT_MCP = 8, AGENT_MCP_NAME = 24 };
typedef struct agent_mcp {
    cay_mcp *v[AGENT_MCP];
    char name[AGENT_MCP][AGENT_MCP_NAME]; /* as its file says, else mcp, mcp2, … */
    char what[AGENT_MCP][160];            /* for people: the command or the address */
    size_t n;
    const cay_tool **tools; /* of all of them */
    size_t ntools;
    struct renamed_tool *renamed; /* whose names two servers have */
} agent_mcp;

/* All at once; close it in any case. */
int agent_mcp_open(const opt_list *list, cay_client *client, bool approval,
                   const cay_mcp_callbacks *asks, agent_mcp *m, cay_err *err);
void agent_mcp_close(agent_mcp *m);
/* fn for each of n servers, beside each other; the last one back ends it. */
void agent_mcp_each(size_t n, void (*fn)(void *arg, size_t i), void *arg);

/*
 * agent_mcp_file.c: what --mcp names: a command, an address, or a file with several servers in
 * the form that other programs have for it.
 *
 *   {"mcpServers": {"NAME": {"command": …, "args": […], "env": {…}, "net": […], "mounts": […]},
 *                   "NAME": {"url": …, "headers": {…}}}}
 */

enum { MCP_ARGS = 64, MCP_ENV = 32, MCP_HEADERS = 16, MCP_MOUNTS = 4 };

typedef struct mcp_server {
    char name[AGENT_MCP_NAME];
    const char *argv[MCP_ARGS + 2];
    cay_pair env[MCP_ENV + 1];
    const char *url;
    char *headers[MCP_HEADERS + 1];
    cay_create create;
    char *net;
    cli_mount mounts[MCP_MOUNTS];
    cay_grant grants[MCP_MOUNTS];
} mcp_server;

typedef struct mcp_servers {
    mcp_server *v; /* AGENT_MCP of them */
    size_t n;
    struct json_t *docs; /* whose texts they are */
} mcp_servers;

/* All that the words name. Clear it in any case. */
int mcp_servers_read(const opt_list *words, mcp_servers *s, cay_err *err);
void mcp_servers_clear(mcp_servers *s);

/*
 * agent_show.c: a run as people and programs follow it.
 *
 * On a terminal the agent's words come as they are written, tool calls and the first lines of what
 * they gave between them. Into a pipe goes the final answer alone; progress, with what it says on
 * the way, is on standard error. With --json every event is a line. Whatever a model or a sandbox
 * says is escaped before it reaches a terminal.
 */

typedef struct agent_show {
    bool live;            /* standard output is a terminal */
    bool streamed;        /* the last message was shown while it came */
    bool in_line;         /* the cursor is not at the start of a line */
    bool answered;        /* the model was asked in this process */
    struct json_t *calls; /* by id: those whose line was not shown yet */
    struct json_t *said;  /* a message that nobody saw yet: progress if something follows, else the
                             answer; or NULL */
} agent_show;

void agent_show_begin(agent_show *s);
int agent_show_event(void *arg, const cay_run_event *ev); /* cay_run_config.on_event */
void agent_show_start(void *arg, cay_run *run,
                      const cay_tool_call *call); /* cay_hooks.tool_start */
void agent_show_end(agent_show *s);
void agent_show_result(agent_show *s, const cay_run_result *r, const char *state_file);

/*
 * agent_audit.c: where an agent's audit is written: --audit and the options around it.
 */

typedef struct agent_audit {
    opt_list to;         /* files, addresses, "workspace:" */
    opt_list spool, key; /* one for each address, in their order; or none at all */
    bool detail, output;
} agent_audit;

int agent_audit_check(const agent_audit *a, cay_err *err);
int agent_audit_open(const agent_audit *a, cay_audit_sink **out,
                     cay_err *err); /* *out: what was opened so far also when it fails; NULL:
                                       nothing was asked for */
