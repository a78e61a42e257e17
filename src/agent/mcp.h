/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/mcp.h - how messages reach an MCP server: mcp_stdio.c by the streams of a program,
 * mcp_http.c by requests.
 */
#pragma once
#include <base/json.h>
#include <cay/mcp.h>

enum { CAY__MCP_MESSAGE = 64 << 20 };

typedef struct cay__mcp_link {
    void *self;
    /* Sends one message; with id > 0 waits for the answer to it, which is the caller's. */
    int (*exchange)(void *self, const cay_call *call, const char *message, int64_t id,
                    json_t **answer, cay_err *err);
    void (*close)(void *self);
    char workdir[512]; /* where it runs, or "" */
} cay__mcp_link;

/* A tool of a server; the argument of its call. */
typedef struct cay__mcp_tool {
    cay_tool tool;
    cay_mcp *mcp;
    char *name, *description, *schema;
} cay__mcp_tool;
typedef int cay__mcp_call(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err);

/* Takes params (or NULL); *result, of a request, is the caller's; NULL: a notification. */
int cay__mcp_request(cay_mcp *m, const cay_call *call, const char *method, json_t *params,
                     json_t **result, cay_err *err);
/* All pages of a list; *out is the caller's. */
int cay__mcp_list(cay_mcp *m, const cay_call *call, const char *method, const char *key,
                  json_t **out, cay_err *err);
/* The same as a text, malloc'ed, when the server offers it. */
int cay__mcp_list_text(cay_mcp *m, const cay_call *call, const char *offer, const char *method,
                       const char *key, char **out, cay_err *err);
int cay__mcp_offers(const cay_mcp *m, const char *what,
                    cay_err *err); /* CAY_ENOTSUP when it does not */
const char *cay__mcp_name(const cay_mcp *m);
/* mcp_resource.c: tools by which a model lists and reads what the server has. add takes schema. */
void cay__mcp_resource_tools(cay_mcp *m,
                             void (*add)(cay_mcp *m, const char *name, const char *description,
                                         char *schema, cay__mcp_call *fn));
/* One part of an answer or a prompt: text, image, resource. What a model cannot be shown is named.
 */
void cay__mcp_content(cay_tool_output *out, const json_t *part);
bool cay__mcp_is_resource_tool(const cay_tool *t);
/* mcp_asked.c: what a request of the server is answered with, malloc'ed. NULL: it is no request. */
char *cay__mcp_reply(cay_mcp *m, const cay_call *call, const json_t *message);
cay_mcp_callbacks cay__mcp_offered(
    const cay_mcp_callbacks *given);                    /* what we know of it; all zero for none */
json_t *cay__mcp_abilities(const cay_mcp_callbacks *a); /* what it is told that it may ask for */
/* mcp.c: who answers, for which run (or NULL), and the how manieth of one request of ours it is. */
cay_mcp_callbacks cay__mcp_asks_of(cay_mcp *m, cay_run **run, unsigned *asked);
const char *cay__mcp_workdir(const cay_mcp *m); /* of the sandbox that it runs in, or "" */
/* mcp_prompt.c: one of its messages as an item; NULL when it is none. */
json_t *cay__mcp_message(const json_t *message);

/* Name of the server whose tool this is; NULL for one that is no server's. */
const char *cay__mcp_server_of(const cay_tool *t);
int cay__mcp_stdio(cay_mcp *m, const cay_mcp_spec *spec, const cay_call *call, cay__mcp_link *out,
                   cay_err *err);
int cay__mcp_http(cay_mcp *m, const cay_mcp_spec *spec, cay__mcp_link *out, cay_err *err);
/* Is this the answer to id? Notifications and requests of the server are not. */
bool cay__mcp_answers(const json_t *message, int64_t id);
