/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/agent_mcp_file.h - what --mcp names: a command, an address, or a file with several servers in
 * the form that other programs have for it.
 *
 *   {"mcpServers": {"NAME": {"command": …, "args": […], "env": {…}, "net": […], "mounts": […]},
 *                   "NAME": {"url": …, "headers": {…}}}}
 */
#pragma once
#include "agent_mcp.h"
#include "parse.h"

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
