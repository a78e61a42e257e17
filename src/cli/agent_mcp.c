/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_mcp.h"
#include <base/base.h>
#include <pthread.h>
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

/* ------------------------------------------------------------------ all at once */

typedef struct one {
    void (*fn)(void *arg, size_t i);
    void     *arg;
    size_t    i;
    pthread_t thread;
    bool      runs;
} one;

static void *work(void *arg)
{
    one *o = arg;
    o->fn(o->arg, o->i);
    return NULL;
}

void agent_mcp_each(size_t n, void (*fn)(void *arg, size_t i), void *arg)
{
    one v[AGENT_MCP];
    n = CAY_MIN(n, (size_t)AGENT_MCP);
    for (size_t i = 0; i < n; i++) {
        v[i] = (one){ .fn = fn, .arg = arg, .i = i };
        v[i].runs = n > 1 && pthread_create(&v[i].thread, NULL, work, &v[i]) == 0;
        if (!v[i].runs)
            fn(arg, i);
    }
    for (size_t i = 0; i < n; i++)
        if (v[i].runs)
            pthread_join(v[i].thread, NULL);
}

typedef struct opening {
    const opt_list     *list;
    cay_service        *svc;
    bool                approval;
    const cay_mcp_asks *asks;
    cay_mcp            *v[AGENT_MCP];
    cay_err             err[AGENT_MCP];
    int                 rc[AGENT_MCP];
} opening;

static void open_one(void *arg, size_t i)
{
    opening *o = arg;
    const char *what = o->list->v[i];
    bool url = !strncmp(what, "http://", 7) || !strncmp(what, "https://", 8);
    const char *const argv[] = { "sh", "-c", what, NULL };
    char name[AGENT_MCP_NAME];
    agent_mcp_name(name, i);
    cay_mcp_spec spec = { .size = sizeof spec, .name = name, .resources = true, .argv = url ? NULL : argv, .service = o->svc, .url = url ? what : NULL, .approval = o->approval, .asks = o->asks };
    o->err[i] = (cay_err)CAY_ERR_INIT;
    o->rc[i] = cay_mcp_open(&spec, NULL, &o->v[i], &o->err[i]);
}

void agent_mcp_name(char name[AGENT_MCP_NAME], size_t i)
{
    if (i)
        snprintf(name, AGENT_MCP_NAME, "mcp%zu", i + 1);
    else
        snprintf(name, AGENT_MCP_NAME, "mcp");
}

int agent_mcp_open(const opt_list *list, cay_service *svc, bool approval, const cay_mcp_asks *asks, agent_mcp *m, cay_err *err)
{
    opening o = { .list = list, .svc = svc, .approval = approval, .asks = asks };
    int rc = 0;
    if (list->n > AGENT_MCP)
        return cay_fail(err, CAY_ETOOBIG, "--mcp: at most %d servers", AGENT_MCP);
    agent_mcp_each(list->n, open_one, &o);
    for (size_t i = 0; i < list->n; i++) {
        if (o.rc[i] == 0)
            add_tools(m, m->v[m->n++] = o.v[i]);
        if (o.rc[i] < 0 && rc == 0) {
            *err = o.err[i];
            rc = cay_wrap(err, o.rc[i], "--mcp %.60s", list->v[i]);
        }
    }
    return rc;
}

void agent_mcp_close(agent_mcp *m)
{
    for (size_t i = 0; i < m->n; i++)
        cay_mcp_close(m->v[i]);
    free(m->tools);
    *m = (agent_mcp){ .n = 0 };
}
