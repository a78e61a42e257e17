/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/mcp.h - how messages reach an MCP server: mcp_stdio.c by the streams of a program, mcp_http.c by requests.
 */
#pragma once
#include <base/json.h>
#include <cay/mcp.h>

enum { CAY__MCP_MESSAGE = 64 << 20 };

typedef struct cay__mcp_link {
    void *self;
    /* Sends one message; with id > 0 waits for the answer to it, which is the caller's. */
    int  (*exchange)(void *self, const cay_call *call, const char *message, int64_t id, json_t **answer, cay_err *err);
    void (*close)(void *self);
} cay__mcp_link;

/* Name of the server whose tool this is; NULL for one that is no server's. */
const char *cay__mcp_server_of(const cay_tool *t);
int cay__mcp_stdio(const cay_mcp_spec *spec, const cay_call *call, cay__mcp_link *out, cay_err *err);
int cay__mcp_http(const cay_mcp_spec *spec, cay__mcp_link *out, cay_err *err);
/* Is this the answer to id? Notifications and requests of the server are not. */
bool cay__mcp_answers(const json_t *message, int64_t id);
