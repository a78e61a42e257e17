/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include "out.h"
#include <base/base.h>
#include <pthread.h>

struct renamed_tool {
    cay_tool tool;
    char name[65];
    struct renamed_tool *next;
};

static bool is_there(const agent_mcp *m, const char *name)
{
    for (size_t i = 0; i < m->ntools; i++)
        if (!strcmp(m->tools[i]->name, name))
            return true;
    return false;
}

/* A second tool of a name is called SERVER_NAME: a model tells tools apart by nothing else. */
static const cay_tool *rename_tool(agent_mcp *m, const char *server, const cay_tool *t)
{
    struct renamed_tool *r = cay__alloc(sizeof *r);
    CAY_FORMAT(r->name, "%s_%s", server, t->name);
    for (char *s = r->name; *s; s++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *s))
            *s = '_';
    r->tool = *t;
    r->tool.name = r->name;
    r->next = m->renamed;
    m->renamed = r;
    out_note("cay: tool %s of MCP server %s is called %s here: another server has one of that name",
             t->name, server, r->name);
    return &r->tool;
}

static void add_tools(agent_mcp *m, const char *server, const cay_mcp *one)
{
    size_t n = 0;
    const cay_tool *const *list = cay_mcp_tools(one, &n);
    m->tools = realloc(m->tools, (m->ntools + n + 1) * sizeof *m->tools);
    if (!m->tools)
        abort();
    for (size_t i = 0; i < n; i++) {
        const cay_tool *t;
        if (is_there(m, list[i]->name))
            t = rename_tool(m, server, list[i]);
        else
            t = list[i];
        m->tools[m->ntools++] = t;
    }
}

typedef struct one {
    void (*fn)(void *arg, size_t i);
    void *arg;
    size_t i;
    pthread_t thread;
    bool runs;
} one;

static void *run_worker(void *arg)
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
        v[i].runs = n > 1 && pthread_create(&v[i].thread, NULL, run_worker, &v[i]) == 0;
        if (!v[i].runs)
            fn(arg, i);
    }
    CAY_EACH_OF(it, v, n)
        if (it->runs)
            pthread_join(it->thread, NULL);
}

typedef struct opening {
    const mcp_servers *list;
    cay_client *client;
    bool approval;
    const cay_mcp_callbacks *asks;
    cay_mcp *v[AGENT_MCP];
    cay_err err[AGENT_MCP];
    int rc[AGENT_MCP];
} opening;

static void open_server(void *arg, size_t i)
{
    opening *o = arg;
    const mcp_server *s = &o->list->v[i];
    cay_mcp_spec spec = { .size = sizeof spec,
                          .name = s->name,
                          .resources = true,
                          .argv = s->url ? NULL : s->argv,
                          .env = s->env[0].key ? s->env : NULL,
                          .service = o->client,
                          .create = &s->create,
                          .url = s->url,
                          .headers = s->headers[0] ? (const char *const *)s->headers : NULL,
                          .approval = o->approval,
                          .asks = o->asks };
    o->err[i] = (cay_err)CAY_ERR_INIT;
    o->rc[i] = cay_mcp_open(&spec, NULL, &o->v[i], &o->err[i]);
}

/* A command of the command line is the one word that its shell gets. */
static void what_it_is(const mcp_server *s, char *dst, size_t cap)
{
    snprintf(dst, cap, "%s",
             CAY_OR(s->url, s->argv[0] && !strcmp(s->argv[0], "sh") && s->argv[2] ? s->argv[2]
                                                                                  : s->argv[0]));
}

int agent_mcp_open(const opt_list *list, cay_client *client, bool approval,
                   const cay_mcp_callbacks *asks, agent_mcp *m, cay_err *err)
{
    mcp_servers servers;
    int rc = mcp_servers_read(list, &servers, err);
    opening o = { .list = &servers, .client = client, .approval = approval, .asks = asks };
    size_t n = 0;
    if (rc == 0)
        n = servers.n;
    agent_mcp_each(n, open_server, &o);
    for (size_t i = 0; i < n; i++) {
        const mcp_server *s = &servers.v[i];
        char what[sizeof m->what[0]];
        what_it_is(s, what, sizeof what);
        if (o.rc[i] == 0) {
            snprintf(m->name[m->n], sizeof m->name[0], "%s", s->name);
            memcpy(m->what[m->n], what, sizeof what);
            add_tools(m, s->name, m->v[m->n++] = o.v[i]);
        } else if (rc == 0) {
            *err = o.err[i];
            rc = cay_wrap(err, o.rc[i], "--mcp %.60s", what);
        }
    }
    mcp_servers_clear(&servers);
    return rc;
}

void agent_mcp_close(agent_mcp *m)
{
    CAY_EACH_OF(it, m->v, m->n)
        cay_mcp_close(*it);
    for (struct renamed_tool *r = m->renamed, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(m->tools);
    *m = (agent_mcp){ .n = 0 };
}
