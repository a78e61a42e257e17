/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/agent_show.h - a run as people and programs follow it.
 *
 * On a terminal the agent's words come as they are written, tool calls and the first lines of what
 * they gave between them. Into a pipe goes the final answer alone; progress, with what it says on
 * the way, is on standard error. With --json every event is a line. Whatever a model or a sandbox
 * says is escaped before it reaches a terminal.
 */
#pragma once
#include "out.h"
#include <cay/agent.h>

typedef struct agent_show {
    bool live;            /* standard output is a terminal */
    bool streamed;        /* the last message was shown while it came */
    bool in_line;         /* the cursor is not at the start of a line */
    bool answered;        /* the model was asked in this process */
    struct json_t *calls; /* by id: those whose line was not shown yet */
    struct json_t *said;  /* a message that nobody saw yet: progress if something follows, else the
                             answer; or NULL */
} agent_show;

void agent_show_begin(agent_show *s);
int agent_show_event(void *arg, const cay_run_event *ev); /* cay_run_config.on_event */
void agent_show_start(void *arg, cay_run *run,
                      const cay_tool_call *call); /* cay_hooks.tool_start */
void agent_show_end(agent_show *s);
void agent_show_result(agent_show *s, const cay_run_result *r, const char *state_file);
