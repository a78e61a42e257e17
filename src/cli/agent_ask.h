/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/agent_ask.h - somebody at a terminal says yes or no to a call, and sees all of it before.
 */
#pragma once
#include <base/buf.h>
#include <cay/agent.h>

/* cay_run_config.approve; arg is the mode: "auto", "ask" or "never". */
cay_verdict agent_ask(void *arg, const cay_tool_call *call, char **message);
/* A call as it is asked about: every argument by name, every line of it marked, so that none can
 * pass for another. Without `whole` long ones are cut. Tells how many bytes are not shown. */
size_t agent_ask_text(cay__buf *b, const char *tool, const char *arguments, size_t width,
                      bool whole);
/* The state of a run without the approvals that it holds; what was refused stays so. NULL when it
 * is no JSON object. */
char *agent_ask_forget(const char *state);
