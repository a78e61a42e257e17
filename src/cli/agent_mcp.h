/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/agent_mcp.h - MCP servers by --mcp: a command, which runs in a sandbox of its own, or an address.
 */
#pragma once
#include "opt.h"
#include <cay/mcp.h>

enum { AGENT_MCP = 8 };
typedef struct agent_mcp {
    cay_mcp         *v[AGENT_MCP];
    size_t           n;
    const cay_tool **tools; /* of all of them */
    size_t           ntools;
} agent_mcp;

int  agent_mcp_open(const opt_list *list, cay_service *svc, bool approval, agent_mcp *m, cay_err *err); /* close it in any case */
void agent_mcp_close(agent_mcp *m);
