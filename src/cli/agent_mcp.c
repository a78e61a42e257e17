/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_mcp.h"
#include <base/base.h>
#include <stdio.h>

static void add_tools(agent_mcp *m, const cay_mcp *one)
{
    size_t n = 0;
    const cay_tool *const *list = cay_mcp_tools(one, &n);
    m->tools = realloc(m->tools, (m->ntools + n + 1) * sizeof *m->tools);
    if (!m->tools)
        abort();
    for (size_t i = 0; i < n; i++)
        m->tools[m->ntools++] = list[i];
}

int agent_mcp_open(const opt_list *list, cay_service *svc, bool approval, agent_mcp *m, cay_err *err)
{
    if (list->n > AGENT_MCP)
        return cay_fail(err, CAY_ETOOBIG, "--mcp: at most %d servers", AGENT_MCP);
    for (size_t i = 0; i < list->n; i++) {
        const char *what = list->v[i];
        bool url = !strncmp(what, "http://", 7) || !strncmp(what, "https://", 8);
        const char *const argv[] = { "sh", "-c", what, NULL };
        char name[24] = "mcp"; /* of its tools for resources, too: mcp, mcp2, … */
        if (i)
            snprintf(name, sizeof name, "mcp%zu", i + 1);
        cay_mcp_spec spec = { .size = sizeof spec, .name = name, .resources = true, .argv = url ? NULL : argv, .service = svc, .url = url ? what : NULL, .approval = approval };
        int rc = cay_mcp_open(&spec, NULL, &m->v[m->n], err);
        if (rc < 0)
            return cay_wrap(err, rc, "--mcp %.60s", what);
        add_tools(m, m->v[m->n++]);
    }
    return 0;
}

void agent_mcp_close(agent_mcp *m)
{
    for (size_t i = 0; i < m->n; i++)
        cay_mcp_close(m->v[i]);
    free(m->tools);
    *m = (agent_mcp){ .n = 0 };
}
