/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/agent_mcp.h - MCP servers by --mcp: commands, which run in sandboxes of their own, and
 * addresses.
 */
#pragma once
#include "opt.h"
#include <cay/mcp.h>

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
                   const cay_mcp_asks *asks, agent_mcp *m, cay_err *err);
void agent_mcp_close(agent_mcp *m);
/* fn for each of n servers, beside each other; the last one back ends it. */
void agent_mcp_each(size_t n, void (*fn)(void *arg, size_t i), void *arg);
