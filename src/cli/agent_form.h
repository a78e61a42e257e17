/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/agent_form.h - what an MCP server asks for, asked of somebody at a terminal.
 */
#pragma once
#include <cay/mcp.h>

/* One field after the other by `ask`, which gives what was typed (malloc'ed) or NULL for "no more".
 * Empty: the default, or left out; what may not be left out ends it. As cay_mcp_asks.elicit.
 * Everything of the server's is escaped. */
int agent_form(const char *server, const char *message, const char *schema,
               char *(*ask)(void *arg, const char *question), void *arg, char **content);

/* cay_mcp_asks of `cay agent`; arg is the mode: "auto", "ask" or "never". Without a terminal forms
 * are declined. */
cay_verdict agent_sample(void *arg, const char *server, const char *request, char **message);
int agent_elicit(void *arg, const char *server, const char *message, const char *schema,
                 char **content);
