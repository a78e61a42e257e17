/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/agent.h - agents: instructions, tools and a model, given a sandbox to work in.
 *
 *   cay_agent_run()      from a prompt to an answer        cay_run_result_free()
 *   cay_agent_as_tool()  one agent as a tool of another    cay_tool_free()
 *   cay_state_open()     a run that waits for approval     cay_state_approve(), cay_state_reject()
 *   cay_cap_shell() …    what an agent may do in a sandbox: cay/sys/capability.h
 *
 * An agent is a description owned by the caller; zero means the default. A run is one thread:
 * callbacks come on the thread that called cay_agent_run(). Keys, history, approvals and traces
 * stay on this side; only tool calls reach the sandbox. JSON is text, items in the form of the
 * Responses API.
 */
#pragma once
#include <cay/error.h>
#include <cay/sandbox.h>
#include <cay/sys/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_agent cay_agent;
typedef struct cay_run cay_run; /* one trip through the loop, for callbacks */
typedef struct cay_capability cay_capability;
typedef struct cay_conversation cay_conversation;
typedef struct cay_tracer cay_tracer;
typedef struct cay_audit_sink cay_audit_sink;

/* What callbacks may ask of the run they are called by. */
CAY_API const cay_agent *cay_run_agent(const cay_run *run); /* the caller's own object */
CAY_API cay_sandbox *cay_run_sandbox(
    const cay_run *run); /* of the current agent, or NULL; not a new reference */
CAY_API void *cay_run_context(const cay_run *run); /* cay_run_config.context */
CAY_API const cay_call *cay_run_call(const cay_run *run);
CAY_API cay_tokens cay_run_usage(const cay_run *run);

/* cay_sandbox_extract() of cay/workspace.h in its sandbox; limits of spec replace the run's, all of
 * them. */
struct cay_extract;
struct cay_extracted;
CAY_API int cay_run_extract(const cay_run *run, const struct cay_extract *spec,
                            struct cay_extracted *out, cay_err *err);

typedef struct cay_tool_call {
    cay_run *run;
    const char *tool, *call_id;
    const char *arguments; /* a JSON object that fits the schema; of a free-form tool: its text */
} cay_tool_call;

/* What a tool answers with; each call adds. Errors of the run are returned instead. */
typedef struct cay_tool_output cay_tool_output;
CAY_API void cay_output_text(cay_tool_output *out, const char *text, size_t len);
CAY_API void cay_output_image(cay_tool_output *out, const char *media_type, const void *data,
                              size_t len);

/* Looks at one tool's calls and answers. Each function may be NULL and returns CAY_GUARD_PASS;
 * CAY_GUARD_REPLACE, when *message (malloc'ed) is what the model gets instead of the call or of its
 * answer; CAY_GUARD_TRIP, when the run ends; or an error. */
enum { CAY_GUARD_PASS = 0, CAY_GUARD_REPLACE, CAY_GUARD_TRIP };
typedef struct cay_tool_guard {
    const char *name;
    int (*before)(void *arg, const cay_tool_call *call, char **message, cay_err *err);
    int (*after)(void *arg, const cay_tool_call *call, const char *output, char **message,
                 cay_err *err);
    void *arg;
} cay_tool_guard;

typedef struct cay_tool {
    size_t size;
    const char *name; /* letters, digits, _ and -; at most 64 */
    const char *description;
    const char *parameters; /* JSON schema of an object; NULL: no parameters */
    bool strict;            /* ask the endpoint to hold to the schema */
    const char *grammar; /* a free-form tool with this Lark grammar; "" for any text. Its parameters
                            are the function form, used where the endpoint has no free-form tools;
                            NULL: {"input": text} */
    /* A negative return becomes a text for the model, or ends the run with `raises`. */
    int (*call)(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err);
    void *arg;
    void (*drop)(void *arg); /* frees arg, for tools that own it; or NULL */
    bool approval;           /* wait for somebody's yes before each call */
    bool (*needs_approval)(void *arg, const cay_tool_call *call); /* or ask here, instead */
    bool raises;
    uint64_t timeout_ms;          /* 0: none */
    bool beside;                  /* may be called on another thread, beside others of its turn:
                                     cay_run_config.beside */
    const cay_tool_guard *guards; /* asked in order, after an approval */
    size_t nguards;
    /* Or a tool that the endpoint runs (Responses API only): its definition, {"type":
     * "web_search"}, {"type": "mcp", "server_label": …}; nothing else here counts. What it did is
     * an item of the history. What an MCP server of the endpoint wants to be approved is asked as
     * "SERVER.TOOL". */
    const char *hosted;
} cay_tool;

typedef struct cay_guard {
    const char *name;
    /* text: what came in, or the answer that would go out. 0: fine; 1: tripped, the run ends (info,
     * malloc'ed JSON, or NULL). */
    int (*check)(void *arg, cay_run *run, const char *text, char **info, cay_err *err);
    void *arg;
    /* Of input guards: on a thread of its own while the model is asked for the first time, instead
     * of before the run makes or asks anything. One that trips cancels that request; cay_run_call()
     * of its run is canceled when something else failed first. No tool runs, and no item is told
     * of, before it has passed; pieces of the stream are. */
    bool beside;
} cay_guard;

typedef struct cay_hooks {
    void *arg;
    void (*agent_start)(void *arg, cay_run *run);
    void (*agent_end)(void *arg, cay_run *run, const char *output);
    void (*model_start)(void *arg, cay_run *run, const char *instructions, const char *input);
    void (*model_end)(void *arg, cay_run *run, const cay_model_reply *reply);
    void (*tool_start)(void *arg, cay_run *run, const cay_tool_call *call);
    void (*tool_end)(void *arg, cay_run *run, const cay_tool_call *call, const char *output);
    void (*handoff)(void *arg, cay_run *run, const cay_agent *from, const cay_agent *to);
} cay_hooks;

typedef struct cay_handoff {
    cay_agent *agent;
    const char *tool;        /* NULL: "transfer_to_" and the agent's name */
    const char *description; /* NULL: made of the agent's name and handoff_description */
    const char *parameters;  /* JSON schema of what the model tells with it; NULL: nothing */
    /* It happens: arguments is a JSON object that fits. An error ends the run. Or NULL. */
    int (*taken)(void *arg, cay_run *run, const char *arguments, cay_err *err);
    /* What the next agent is shown of the history: a list of items, malloc'ed; leave *instead NULL
     * for all. Or NULL. */
    int (*filter)(void *arg, cay_run *run, const char *items, char **instead, cay_err *err);
    void *arg;
} cay_handoff;

typedef enum cay_tool_use {
    CAY_TOOLS_AGAIN = 0, /* the model sees what tools answered */
    CAY_TOOLS_STOP,      /* the first tool's answer is the final one */
    CAY_TOOLS_STOP_AT,   /* so for the tools of stop_at */
    CAY_TOOLS_ASK,       /* tools_done decides */
} cay_tool_use;

struct cay_agent {
    size_t size;
    const char *name;
    const char *instructions;
    /* Or made for each turn; *text is malloc'ed. */
    int (*instruct)(cay_run *run, const cay_agent *agent, char **text, cay_err *err);
    const char *prompt; /* one kept by the endpoint: {"id": "pmpt_…", "version": …, "variables":
                           {…}}; Responses API only */
    /* Or made for each turn, to fill in its variables; *json is malloc'ed. */
    int (*prompting)(cay_run *run, const cay_agent *agent, char **json, cay_err *err);
    const char *handoff_description;
    cay_model *model; /* NULL: the run's */
    cay_model_settings settings;
    const cay_tool *const *tools;
    size_t ntools;
    const cay_handoff *handoffs;
    size_t nhandoffs;
    const cay_guard *input_guards, *output_guards;
    size_t ninput_guards, noutput_guards;
    const cay_hooks *hooks;
    const char *output_schema; /* the answer is JSON that fits; NULL: text */
    bool output_strict;
    cay_tool_use tool_use;
    const char *const *stop_at; /* NULL-terminated */
    bool keep_tool_choice;      /* "required" stays so after a tool was called */

    /* With a sandbox: */
    bool sandbox;
    const char *base_instructions; /* instead of the built-in prompt; "" for none */
    const char *manifest; /* what a new sandbox starts with: JSON (cay/manifest.h), or NULL */
    cay_capability *const *capabilities; /* NULL: filesystem, shell, compaction */
    size_t ncapabilities;
    const char *run_as; /* user of its commands and files inside; NULL: the sandbox's */

    void *busy_; /* ours: a sandbox agent is in one run at a time */

    /* Of CAY_TOOLS_ASK: the tools of a turn are done, results is [{"tool", "call_id", "output"}].
     * *output, malloc'ed, is the final one; NULL: the model goes on. */
    int (*tools_done)(cay_run *run, const cay_agent *agent, const char *results, char **output,
                      cay_err *err);
    /* Or base_instructions made for each turn; *text is malloc'ed, NULL: base_instructions. */
    int (*base_instruct)(cay_run *run, const cay_agent *agent, char **text, cay_err *err);
};

/* A tool that runs `agent` on its "input" and answers with its output. The run's config is
 * inherited; a sandbox agent has a sandbox of its own unless one was given to the run. When it
 * waits for an approval the run does, and tells of its calls as "CALL/INNER". Lives as long as
 * both; cay_tool_free() frees it. */
CAY_API cay_tool *cay_agent_as_tool(cay_agent *agent, const char *tool, const char *description);
CAY_API void cay_tool_free(cay_tool *t);

typedef enum cay_run_event_kind {
    CAY_RUN_RAW = 1, /* a piece of the model's stream: name is its type, json the event */
    CAY_RUN_AGENT,   /* another agent goes on: name is its name */
    CAY_RUN_ITEM, /* name: message_output_created, tool_called, tool_output, reasoning_item_created,
                     handoff_requested, handoff_occured, approval_requested, compaction_created; of
                     tools that the endpoint runs also mcp_list_tools, mcp_approval_requested,
                     mcp_approval_response, tool_search_called, tool_search_output_created; json the
                     item */
    CAY_RUN_NOTE, /* something to tell people: name is a word (retry, sandbox, compacting, cleanup),
                     json a string */
} cay_run_event_kind;
typedef struct cay_run_event {
    size_t size;
    cay_run_event_kind kind;
    const cay_agent *agent;
    const char *name, *json;
} cay_run_event;

typedef enum cay_verdict {
    CAY_ASK_LATER = 0,
    CAY_APPROVE,
    CAY_APPROVE_ALWAYS,
    CAY_REJECT,
    CAY_REJECT_ALWAYS
} cay_verdict;

typedef struct cay_run_config {
    size_t size;
    cay_model *model;   /* for agents that have none */
    unsigned max_turns; /* 0: 10 */
    unsigned beside;    /* how many tools of one turn run at once, of those that may (exec_command,
                           view_image); 0: one; at most 8 */
    bool chain; /* send what is new and previous_response_id, instead of everything; the endpoint
                   keeps the answers. Where it has no such thing everything is sent */
    const char *previous_response_id; /* an answer that this run goes on from, chained; or NULL */
    const cay_hooks *hooks;
    const cay_guard *input_guards, *output_guards;
    size_t ninput_guards, noutput_guards;
    void *context;
    int (*on_event)(void *arg, const cay_run_event *ev); /* a negative return cancels the run */
    void *event_arg;
    /* Asked at once when a tool waits for approval; NULL, or CAY_ASK_LATER: the run ends and tells
     * its interruptions. *message (malloc'ed) may say why not. */
    cay_verdict (*approve)(void *arg, const cay_tool_call *call, char **message);
    void *approve_arg;
    const char *state; /* JSON of an interrupted run, to go on with; then no input is given */

    /* Where sandbox agents work. First that is given: sandbox; the state's own; the one of
     * sandbox_state; a new one by `create`. */
    cay_client *service;
    cay_sandbox *sandbox;     /* used by all agents of the run, never ended by it */
    const cay_create *create; /* how a new one is made; NULL: defaults. name, labels and manifest
                                 are filled in when they are not set */
    const char
        *sandbox_state; /* of cay/state.h: the first agent that needs a sandbox comes back to that
                           one, with what `create` gives; ended as one of our making. Or NULL */
    bool keep;          /* a sandbox of our making is not removed at the end */
    bool save; /* cay_run_result.sandbox_state; the workspace of one that is removed is saved as a
                  snapshot before. So with sandbox_state */
    const char *cwd; /* below the working directory: where relative paths of tools begin; no wall */

    cay_conversation
        *conversation; /* what was said before, and where new items are kept; or NULL */
    const char *conversation_id, *group_id; /* to find memory and traces by; or NULL */
    const char *rollout_id; /* of memory; NULL: conversation, session or group id, else a new one */
    const char *workflow;   /* name of the trace; NULL: "Agent workflow" */
    cay_tracer *tracer;     /* or NULL */
    bool trace;             /* cay_run_result.trace also without a tracer */
    bool trace_content; /* spans tell what was said: input and output of the model and of tools, 16
                           KiB each, and what errors of tools say */
    cay_audit_sink *ledger; /* cay/audit_sink.h; or NULL */
    unsigned nest_;         /* ours: how deep agents call each other */
    void *over_;            /* ours: the trace of the run that this one is a call of */
    void *sampled_;         /* ours: what MCP servers asked the model for in it */
    unsigned manifest_entries,
        local_dir_files; /* of a new sandbox's manifest: how many entries, and files of one local
                            directory, are worked on at once; 0: what it says itself */
    const struct cay_archive_limits
        *archive_limits; /* of cay_run_extract(): cay/workspace.h; or NULL */
    const char
        *kept_conversation; /* "conv_…", a conversation that the endpoint keeps: what is new is
                               sent, and it adds that and its answers. What it has cannot be left
                               out, so handoffs have no filter; not with `conversation`, `chain` or
                               previous_response_id. Responses API only. Or NULL */
} cay_run_config;

typedef struct cay_interruption {
    const char *call_id, *agent, *tool, *arguments;
} cay_interruption;

typedef struct cay_run_result {
    size_t size;
    const char *output;  /* text or JSON of the last agent; NULL when interrupted */
    const char *agent;   /* name of the last one */
    const char *items;   /* what this run added, a list */
    const char *history; /* input and items: the input of a next run */
    const char *state;   /* JSON to go on with after an interruption, or NULL */
    const char *sandbox; /* id of the last sandbox that still is there, or NULL */
    const char
        *sandbox_state; /* with `save`: to come back to the last one, living or not (cay/state.h);
                           NULL when it could not be saved: then it is left, and a note tells why */
    const char *response_id; /* of the last answer, or NULL */
    const char *trace_id;    /* or NULL */
    const char
        *trace; /* {"trace_id", "workflow_name", "group_id", "spans": [as in cay/trace.h],
                   "left_out": how many found no room (4 MiB)}; NULL without a tracer or .trace */
    cay_tokens usage;
    unsigned turns;
    const cay_interruption *interruptions;
    size_t ninterruptions;
    const char *requests; /* what each cost, also those of agents used as tools: [{"agent", "model",
                             "response_id", "input_tokens", "cached_tokens", "cache_write_tokens",
                             "output_tokens", "reasoning_tokens", "total_tokens"}] */
} cay_run_result;

/* input: text, or a JSON list of items when it begins with '['. Errors have reasons: max_turns,
 * model_behavior, model_refusal, guardrail_input, guardrail_output, guardrail_tool,
 * prompt_unsupported, previous_response, kept_conversation, hosted_tool, tool_failed, agent_busy,
 * run_state, and those of models and sandboxes. On an error *out is untouched; what the run made is
 * cleaned up. */
CAY_API int cay_agent_run(cay_agent *agent, const cay_call *call, const char *input,
                          const cay_run_config *config, cay_run_result **out, cay_err *err);
CAY_API void cay_run_result_free(cay_run_result *r);

/* approvals of an interrupted
 * run */

typedef struct cay_state_doc cay_state_doc;
CAY_API int cay_state_open(const char *json, cay_state_doc **out,
                           cay_err *err); /* CAY_EINVAL "run_state", never telling its content */
CAY_API void cay_state_close(cay_state_doc *st);
CAY_API const cay_interruption *cay_state_interruptions(const cay_state_doc *st, size_t *n);
/* always: for every later call of that tool in this run too. CAY_ENOENT when no such call waits. */
CAY_API int cay_state_approve(cay_state_doc *st, const char *call_id, bool always, cay_err *err);
CAY_API int cay_state_reject(cay_state_doc *st, const char *call_id, bool always,
                             const char *message, cay_err *err);
CAY_API char *cay_state_text(
    const cay_state_doc *st); /* for cay_run_config.state; the caller frees */

typedef struct cay_conversation_ops {
    size_t size;
    int (*load)(void *self, char **items, cay_err *err);        /* a JSON list, malloc'ed */
    int (*append)(void *self, const char *items, cay_err *err); /* new ones, a JSON list */
    int (*clear)(void *self, cay_err *err);
    void (*close)(void *self);
} cay_conversation_ops;
/* Takes self. NULL when ops->size is none: then self stays the caller's. */
CAY_API cay_conversation *cay_conversation_new(const cay_conversation_ops *ops, void *self,
                                               const char *id);
CAY_API cay_conversation *cay_conversation_memory(const char *id);
/* In a SQLite file, made when it is missing (0600). */
CAY_API int cay_conversation_sqlite(const char *path, const char *id, cay_conversation **out,
                                    cay_err *err);
CAY_API int cay_conversation_items(cay_conversation *c, char **items, cay_err *err);
CAY_API int cay_conversation_clear(cay_conversation *c, cay_err *err);
CAY_API void cay_conversation_free(cay_conversation *c);

#ifdef __cplusplus
}
#endif
