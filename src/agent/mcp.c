/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp.h"
#include "run.h"

enum {
    TOOLS_MAX = 512,
    PAGES_MAX = 64,
    LIST_MAX = 16384,
    TIMEOUT_MS = 60000,
    SCHEMA_MAX = 1 << 20
};

struct cay_mcp {
    cay__mcp_link link;
    char *name;
    int64_t id;
    uint64_t timeout_ms;
    bool approval;
    const cay_mcp_callbacks *asks;
    cay_run *run;   /* whose call is under way, or NULL */
    unsigned asked; /* how often it asked during the request at hand */
    json_t *offers; /* its capabilities */
    cay__mcp_tool **v;
    const cay_tool **tools;
    size_t n;
};

bool cay__mcp_answers(const json_t *m, int64_t id)
{
    return !json_object_get(m, "method") && cay__json_int(m, "id", -1) == id &&
           (json_object_get(m, "result") || json_object_get(m, "error"));
}

cay_mcp_callbacks cay__mcp_asks_of(cay_mcp *m, cay_run **run, unsigned *asked)
{
    *run = m->run;
    *asked = ++m->asked;
    return cay__mcp_offered(m->asks);
}

const char *cay__mcp_workdir(const cay_mcp *m)
{
    return m->link.workdir;
}

static cay_call limit_call(const cay_mcp *m, const cay_call *call)
{
    cay_call c = cay__call_copy(call);
    int64_t end = cay__now_ms() + (int64_t)m->timeout_ms;
    if (!c.deadline_ms || end < c.deadline_ms)
        c.deadline_ms = end;
    return c;
}

int cay__mcp_request(cay_mcp *m, const cay_call *call, const char *method, json_t *params,
                     json_t **result, cay_err *err)
{
    cay_call c = limit_call(m, call);
    int64_t id = 0;
    if (result)
        id = ++m->id;
    CAY_AUTOJSON *msg =
        json_pack("{s:s, s:s, s:o?}", "jsonrpc", "2.0", "method", method, "params", params);
    CAY_AUTOJSON *answer = NULL;
    if (msg && !params)
        json_object_del(msg, "params");
    if (msg && id)
        cay__json_put_int(msg, "id", id);
    CAY_AUTOFREE char *text = cay__json_plain(msg, CAY__MCP_MESSAGE - 2);
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "%.60s: the message is no text, or too large", m->name);
    m->asked = 0;
    int rc = m->link.exchange(m->link.self, &c, text, id, &answer, err);
    if (rc < 0)
        return cay_wrap(err, rc, "MCP server %.60s", m->name);
    const json_t *fault = json_object_get(answer, "error");
    if (fault && !json_is_null(fault))
        return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed", "MCP server %.60s: %s: %.150s",
                            m->name, method, cay__json_str(fault, "message", "no reason told"));
    if (result)
        *result = json_incref(json_object_get(answer, "result"));
    return 0;
}

static int call_tool(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    cay__mcp_tool *t = arg;
    json_t *args = NULL;
    CAY_AUTOJSON *result = NULL;
    CAY_TRY(cay__json_object("its arguments", call->arguments, &args, err));
    t->mcp->run = call->run;
    int rc =
        cay__mcp_request(t->mcp, cay_run_call(call->run), "tools/call",
                         json_pack("{s:s, s:o}", "name", t->name, "arguments", args), &result, err);
    t->mcp->run = NULL;
    CAY_TRY(rc);
    if (json_is_true(json_object_get(result, "isError")))
        cay_output_text(out, "The tool failed: ", 17);
    CAY_EACH_ITEM(part, json_object_get(result, "content"))
        cay__mcp_content(out, part);
    return 0;
}

static bool sound_name(const char *name)
{
    return *name && strlen(name) <= 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               strlen(name);
}

/* Takes schema. A name that is no tool's, or there already, is left out: a model could not be told
 * of it. */
static void add_made(cay_mcp *m, const char *name, const char *description, char *schema,
                     cay__mcp_call *fn)
{
    CAY_AUTOFREE char *text = schema;
    if (!sound_name(name) || !text || m->n == TOOLS_MAX)
        return;
    CAY_EACH_OF(it, m->v, m->n)
        if (!strcmp((*it)->name, name))
            return;
    cay__mcp_tool *t = cay__alloc(sizeof *t);
    t->mcp = m;
    t->name = cay__strdup(name);
    t->description = cay__strdup(description);
    t->schema = CAY_STEAL(text);
    t->tool = (cay_tool){ .size = sizeof t->tool,
                          .name = t->name,
                          .description = t->description,
                          .parameters = t->schema,
                          .call = fn,
                          .arg = t,
                          .approval = m->approval };
    m->v[m->n] = t;
    m->tools[m->n++] = &t->tool;
}

static void add_tool(cay_mcp *m, const json_t *j)
{
    const json_t *schema = json_object_get(j, "inputSchema");
    add_made(m, cay__json_str(j, "name", ""), cay__json_str(j, "description", ""),
             json_is_object(schema) ? cay__json_text(schema, SCHEMA_MAX)
                                    : cay__strdup("{\"type\":\"object\",\"properties\":{}}"),
             call_tool);
}

const char *cay__mcp_server_of(const cay_tool *t)
{
    if (t->call == call_tool || cay__mcp_is_resource_tool(t))
        return ((const cay__mcp_tool *)t->arg)->mcp->name;
    return NULL;
}

int cay__mcp_list(cay_mcp *m, const cay_call *call, const char *method, const char *key,
                  json_t **out, cay_err *err)
{
    CAY_AUTOFREE char *cursor = NULL;
    CAY_AUTOJSON *all = json_array();
    size_t bytes = 0;
    for (int page = 0; page < PAGES_MAX; page++) {
        CAY_AUTOJSON *result = NULL;
        CAY_TRY(cay__mcp_request(m, call, method,
                                 cursor ? json_pack("{s:s}", "cursor", cursor) : json_object(),
                                 &result, err));
        const json_t *list = json_object_get(result, key);
        if (!json_is_array(list))
            return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed",
                                "MCP server %.60s: its %s are no list", m->name, key);
        if (json_array_size(all) + json_array_size(list) > LIST_MAX)
            return cay_fail_why(err, CAY_ETOOBIG, "mcp_failed",
                                "MCP server %.60s: it has more than %d %s", m->name, LIST_MAX, key);
        if ((bytes += json_dumpb(list, NULL, 0, JSON_COMPACT)) > CAY__MCP_MESSAGE)
            return cay_fail_why(err, CAY_ETOOBIG, "mcp_failed",
                                "MCP server %.60s: its %s are more than %d MB", m->name, key,
                                CAY__MCP_MESSAGE >> 20);
        json_array_extend(all, (json_t *)list);
        const char *next = cay__json_str(result, "nextCursor", NULL);
        free(cursor);
        cursor = cay__strdup_if(next);
        if (!cursor) {
            *out = CAY_STEAL(all);
            return 0;
        }
    }
    return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed",
                        "MCP server %.60s: its list of %s has no end", m->name, key);
}

int cay__mcp_offers(const cay_mcp *m, const char *what, cay_err *err)
{
    if (json_object_get(m->offers, what))
        return 0;
    return cay_fail_why(err, CAY_ENOTSUP, "mcp_unsupported", "MCP server %.60s offers no %s",
                        m->name, what);
}

const char *cay__mcp_name(const cay_mcp *m)
{
    return m->name;
}

/* A server may have no tools at all, only resources or prompts. */
static int list_tools(cay_mcp *m, const cay_call *call, cay_err *err)
{
    CAY_AUTOJSON *all = NULL;
    if (!json_object_get(m->offers, "tools") &&
        (json_object_get(m->offers, "resources") || json_object_get(m->offers, "prompts")))
        return 0;
    CAY_TRY(cay__mcp_list(m, call, "tools/list", "tools", &all, err));
    CAY_EACH_ITEM(t, all)
        add_tool(m, t);
    return 0;
}

static int initialize_session(cay_mcp *m, const cay_call *call, cay_err *err)
{
    CAY_AUTOJSON *result = NULL;
    CAY_TRY(cay__mcp_request(m, call, "initialize",
                             json_pack("{s:s, s:o, s:{s:s, s:s}}", "protocolVersion", "2025-06-18",
                                       "capabilities", cay__mcp_abilities(m->asks), "clientInfo",
                                       "name", "cay", "version", CAY_VERSION),
                             &result, err));
    if (!cay__json_str(result, "protocolVersion", NULL))
        return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed",
                            "MCP server %.60s: it does not speak MCP", m->name);
    m->offers = json_incref(json_object_get(result, "capabilities"));
    return cay__mcp_request(m, call, "notifications/initialized", NULL, NULL, err);
}

static int begin_session(cay_mcp *m, const cay_mcp_spec *spec, const cay_call *call, cay_err *err)
{
    if (spec->url)
        CAY_TRY(cay__mcp_http(m, spec, &m->link, err));
    else
        CAY_TRY(cay__mcp_stdio(m, spec, call, &m->link, err));
    CAY_TRY(initialize_session(m, call, err));
    CAY_TRY(list_tools(m, call, err));
    if (spec->resources && json_object_get(m->offers, "resources"))
        cay__mcp_resource_tools(m, add_made);
    return 0;
}

int cay_mcp_open(const cay_mcp_spec *given, const cay_call *call, cay_mcp **out, cay_err *err)
{
    cay_mcp_spec own, *spec = &own;
    CAY_TRY(cay__spec_take(&own, sizeof own, given, "cay_mcp_spec", err));
    if (!spec->url == !(spec->argv && spec->argv[0]))
        return cay_fail(err, CAY_EINVAL,
                        "an MCP server is a program (argv) or an address (url): give one of them");
    cay_mcp *m = cay__alloc(sizeof *m);
    m->name = cay__strdup(CAY_OR(spec->name, "mcp"));
    m->timeout_ms = CAY_OR(spec->timeout_ms, TIMEOUT_MS);
    m->approval = spec->approval;
    m->asks = spec->asks;
    m->v = cay__alloc(TOOLS_MAX * sizeof *m->v);
    m->tools = cay__alloc(TOOLS_MAX * sizeof *m->tools);
    int rc = begin_session(m, spec, call, err);
    if (rc < 0)
        cay_mcp_close(m);
    else
        *out = m;
    return rc;
}

const cay_tool *const *cay_mcp_tools(const cay_mcp *m, size_t *n)
{
    *n = m->n;
    return m->tools;
}

void cay_mcp_close(cay_mcp *m)
{
    if (!m)
        return;
    if (m->link.close)
        m->link.close(m->link.self);
    CAY_EACH_OF(it, m->v, m->n) {
        free((*it)->name);
        free((*it)->description);
        free((*it)->schema);
        free(*it);
    }
    json_decref(m->offers);
    free(m->v);
    free(m->tools);
    free(m->name);
    free(m);
}
