/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/mcp.h - what an MCP server has for agents: tools, resources, prompts.
 *
 *   cay_mcp_open()       start it or connect to it, and ask for its tools
 *   cay_mcp_close()      end it
 *   cay_mcp_tools()      they are tools like any other: put them into cay_agent.tools
 *   cay_mcp_resources()  what can be read, cay_mcp_templates() by pattern
 *   cay_mcp_read()       one of them
 *   cay_mcp_prompts()    texts to begin with
 *   cay_mcp_prompt()     one of them, as input of a run
 *
 * A server that is a program runs in a sandbox: the one given, else one of its own. On the host it
 * runs only with `host`. What a server says is somebody's text: names and schemas are checked, its
 * answers are the tool's output and nothing more. One thread at a time.
 */
#pragma once
#include <cay/agent.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_mcp cay_mcp;

/* What a server may ask for; zero: it is told that there is no such thing. The model and the user
 * only while a tool of it is called by a run, on the run's thread; the time that takes is not
 * counted against the call. At most 32 times in one. `server` is the spec's name; what it says is
 * somebody's text. */
typedef struct cay_mcp_callbacks {
    size_t size;
    void *arg;
    /* Sampling: the model is asked what the server wants to know, once this approves. request: JSON
     * with messages, systemPrompt, maxTokens. *message (malloc'ed) says why not. What it costs is
     * the run's. Both are needed. All servers of a run together, and of agents that are its tools,
     * have at most 64 answers and 200,000 output tokens; then they are refused, and nobody is
     * asked. */
    cay_model *model;
    cay_verdict (*sample)(void *arg, const char *server, const char *request, char **message);
    /* Elicitation: the user is asked for something. schema: an object of strings, numbers and
     * booleans. 1: *content (malloc'ed) is a JSON object that fits; 0: declined; negative:
     * canceled. */
    int (*elicit)(void *arg, const char *server, const char *message, const char *schema,
                  char **content);
    const char *const *roots; /* "file:///…", NULL-terminated; NULL: the working directory of the
                                 sandbox that it runs in, of others none */
} cay_mcp_callbacks;

typedef struct cay_mcp_spec {
    size_t size;
    const char *name; /* for messages; NULL: "mcp" */
    /* A program that speaks on its standard streams … */
    const char *const *argv; /* NULL-terminated */
    const cay_pair *env;     /* ends with a NULL key; or NULL */
    cay_sandbox *sandbox;    /* where it runs; NULL: one of its own, by service and create */
    cay_client *service;
    const cay_create *create;
    bool host; /* on this very machine, with all your rights */
    /* … or an address that speaks streamable HTTP. */
    const char *url;
    const char *const
        *headers;   /* "Name: value", NULL-terminated; a value env:NAME or file:PATH is read there,
                       and goes over https:// or to this machine alone; or NULL */
    bool approval;  /* every call waits for a yes */
    bool resources; /* give the model tools to list and read its resources: NAME_list_resources,
                       NAME_read_resource */
    uint64_t timeout_ms; /* of one request; 0: 60 s */
    const cay_mcp_callbacks
        *asks; /* lives as long as the server, and may be changed between requests; or NULL */
} cay_mcp_spec;

/* CAY_EUPSTREAM "mcp_failed" when it does not speak MCP. */
CAY_API int cay_mcp_open(const cay_mcp_spec *spec, const cay_call *call, cay_mcp **out,
                         cay_err *err);
CAY_API const cay_tool *const *cay_mcp_tools(const cay_mcp *m,
                                             size_t *n); /* live until it is closed */

/* JSON as the server tells it, malloc'ed; nothing in it is checked but the form named here.
 * CAY_ENOTSUP "mcp_unsupported" when it offers no such thing. */
CAY_API int cay_mcp_resources(cay_mcp *m, const cay_call *call, char **list,
                              cay_err *err); /* [{"uri", "name", "mimeType", …}] */
CAY_API int cay_mcp_templates(cay_mcp *m, const cay_call *call, char **list,
                              cay_err *err); /* [{"uriTemplate", "name", …}] */
CAY_API int cay_mcp_read(cay_mcp *m, const cay_call *call, const char *uri, char **contents,
                         cay_err *err); /* [{"uri", "mimeType", "text" or "blob" (base64)}] */
CAY_API int cay_mcp_prompts(cay_mcp *m, const cay_call *call, char **list,
                            cay_err *err); /* [{"name", "description", "arguments"}] */
/* arguments: a JSON object of strings, or NULL. *items: its messages as input of cay_agent_run();
 * texts and images, the rest as texts that name it. */
CAY_API int cay_mcp_prompt(cay_mcp *m, const cay_call *call, const char *name,
                           const char *arguments, char **items, cay_err *err);

CAY_API void cay_mcp_close(cay_mcp *m);

#ifdef __cplusplus
}
#endif
