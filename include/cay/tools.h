/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/tools.h - a set of tools by plain names, file_read … process_list, for whoever talks to a
 * model.
 *
 *   cay_toolset_json()   their definitions: name, description, JSON schema
 *   cay_toolset_open()   bind them to a sandbox
 *   cay_toolset_call()   one call: JSON arguments in, text out
 *   cay_toolset_close()
 *
 * Agents of cay/agent.h get them by cay_cap_tools(). Paths are relative to the working directory
 * and stay inside it, links included. A set has one shell, one Python interpreter and one
 * environment, which last from call to call. One thread at a time.
 */
#pragma once
#include <cay/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_toolset cay_toolset;
typedef struct cay_toolset_spec {
    size_t size;
    cay_sandbox *sandbox;
    const char *const *names; /* NULL-terminated; NULL: all */
    const char *root;         /* paths stay below; NULL: the sandbox's working directory */
    const char *cwd;          /* where relative ones begin; NULL: root */
    const char *user;         /* whose rights; NULL: the sandbox's default user */
    const char *session; /* a name: its shell is found again by it, and lives on when the set is
                            closed; NULL: none of that */
} cay_toolset_spec;

/* CAY_EINVAL "tool_unknown" names the tool that there is not. */
CAY_API int cay_toolset_open(const cay_toolset_spec *spec, const cay_call *call, cay_toolset **out,
                             cay_err *err);
/* arguments: a JSON object. What a tool could not do is a text that begins with "ERROR: ", and
 * *failed is set (may be NULL); arguments that do not fit its schema are so too. Errors are
 * returned for calls that were canceled or out of time, sandboxes that are gone, and CAY_ENOENT
 * "tool_unknown". *text is malloc'ed; an answer with images is a JSON list of parts as the
 * Responses API has them. */
CAY_API int cay_toolset_call(cay_toolset *ts, const cay_call *call, const char *name,
                             const char *arguments, char **text, bool *failed, cay_err *err);
/* Ends its shell, its interpreter and what shell_interactive started, unless it has a session. */
CAY_API void cay_toolset_close(cay_toolset *ts);

typedef enum cay_tools_form {
    CAY_TOOLS_PLAIN = 0, /* {"name", "description", "parameters"} */
    CAY_TOOLS_OPENAI,    /* {"type": "function", "name", "description", "parameters"}: the Responses
                            API */
    CAY_TOOLS_CHAT,      /* {"type": "function", "function": {…}}: Chat Completions, LangChain's
                            bind_tools() */
    CAY_TOOLS_MCP,       /* {"name", "description", "inputSchema", "annotations"} */
} cay_tools_form;
/* A JSON list, malloc'ed. names as above; CAY_EINVAL "tool_unknown". */
CAY_API int cay_toolset_json(const char *const *names, cay_tools_form form, char **out,
                             cay_err *err);
/* Name of tool i and what it does, in one line; NULL after the last. */
CAY_API const char *cay_toolset_name(size_t i, const char **description);

#ifdef __cplusplus
}
#endif
