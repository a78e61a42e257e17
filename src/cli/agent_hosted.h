/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/agent_hosted.h - tools that the endpoint runs, for `cay agent` and `cay chat`: --hosted WORD
 * or JSON, and what they did as a line.
 */
#pragma once
#include "opt.h"
#include <base/json.h>
#include <cay/agent.h>

enum { AGENT_HOSTED = 16 };
typedef struct agent_hosted {
    cay_tool v[AGENT_HOSTED];
    char *text[AGENT_HOSTED];
    size_t n;
} agent_hosted;

/* web_search, code_interpreter, image_generation, file_search:STORE,…, mcp:LABEL=URL, or a
 * definition as JSON. CAY_EINVAL names what is wrong. */
int agent_hosted_open(const opt_list *list, agent_hosted *h, cay_err *err);
void agent_hosted_close(agent_hosted *h);

/* A directory that an option names, before anything is made for it. */
int agent_dir(const char *option, const char *path, cay_err *err);

/* The tool, and what matters most of what it did; false: the item is a call of ours. Both are cut
 * to their size. */
typedef struct agent_hosted_line {
    char tool[120], what[2000];
} agent_hosted_line;
bool agent_hosted_told(const json_t *item, agent_hosted_line *out);
