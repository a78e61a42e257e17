/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp.h"
#include "run.h"
#include <base/fd.h>
#include <stdio.h>

enum { TOOLS_MAX = 512, PAGES_MAX = 64, TIMEOUT_MS = 60000, SCHEMA_MAX = 1 << 20 };

typedef struct mcp_tool {
    cay_tool tool;
    cay_mcp *mcp;
    char    *name, *description, *schema;
} mcp_tool;

struct cay_mcp {
    cay__mcp_link    link;
    char            *name;
    int64_t          id;
    uint64_t         timeout_ms;
    bool             approval;
    mcp_tool       **v;
    const cay_tool **tools;
    size_t           n;
};

bool cay__mcp_answers(const json_t *m, int64_t id)
{
    return !json_object_get(m, "method") && cay__json_int(m, "id", -1) == id && (json_object_get(m, "result") || json_object_get(m, "error"));
}

/* ------------------------------------------------------------------ messages */

static cay_call bounded(const cay_mcp *m, const cay_call *call)
{
    cay_call c = call ? *call : (cay_call){ .size = sizeof c };
    int64_t end = cay__now_ms() + (int64_t)m->timeout_ms;
    if (!c.deadline_ms || end < c.deadline_ms)
        c.deadline_ms = end;
    return c;
}

/* Takes params (or NULL); *result is the caller's. */
static int request(cay_mcp *m, const cay_call *call, const char *method, json_t *params, json_t **result, cay_err *err)
{
    cay_call c = bounded(m, call);
    int64_t id = result ? ++m->id : 0;
    CAY_AUTOJSON *msg = json_pack("{s:s, s:s, s:o?}", "jsonrpc", "2.0", "method", method, "params", params);
    CAY_AUTOJSON *answer = NULL;
    if (msg && !params)
        json_object_del(msg, "params");
    if (msg && id)
        json_object_set_new(msg, "id", json_integer(id));
    CAY_AUTOFREE char *text = msg ? cay__json_text(msg, CAY__MCP_MESSAGE - 2) : NULL;
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "%.60s: the message is no text, or too large", m->name);
    int rc = m->link.exchange(m->link.self, &c, text, id, &answer, err);
    if (rc < 0)
        return cay_wrap(err, rc, "MCP server %.60s", m->name);
    const json_t *fault = json_object_get(answer, "error");
    if (fault && !json_is_null(fault))
        return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed", "MCP server %.60s: %s: %.150s", m->name, method, cay__json_str(fault, "message", "no reason told"));
    if (result)
        *result = json_incref(json_object_get(answer, "result"));
    return 0;
}

/* ------------------------------------------------------------------ tools */

static void add_content(cay_tool_output *out, const json_t *part)
{
    const char *type = cay__json_str(part, "type", "");
    const json_t *text = json_object_get(part, "text"), *data = json_object_get(part, "data");
    if (!strcmp(type, "resource"))
        text = json_object_get(json_object_get(part, "resource"), "text");
    if (!strcmp(type, "image") && json_is_string(data))
        cay__output_encoded(out, cay__json_str(part, "mimeType", "image/png"), json_string_value(data));
    else if (json_is_string(text))
        cay_output_text(out, json_string_value(text), json_string_length(text));
}

static int call_tool(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    mcp_tool *t = arg;
    json_t *args = NULL;
    CAY_AUTOJSON *result = NULL;
    size_t i;
    json_t *part;
    CAY_TRY(cay__json_object("its arguments", call->arguments, &args, err));
    CAY_TRY(request(t->mcp, cay_run_call(call->run), "tools/call", json_pack("{s:s, s:o}", "name", t->name, "arguments", args), &result, err));
    if (json_is_true(json_object_get(result, "isError")))
        cay_output_text(out, "The tool failed: ", 17);
    json_array_foreach(json_object_get(result, "content"), i, part)
        add_content(out, part);
    return 0;
}

static bool sound_name(const char *name)
{
    return *name && strlen(name) <= 64 && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(name);
}

/* What a model could not be told of is left out. */
static void add_tool(cay_mcp *m, const json_t *j)
{
    const char *name = cay__json_str(j, "name", "");
    const json_t *schema = json_object_get(j, "inputSchema");
    CAY_AUTOFREE char *text = json_is_object(schema) ? cay__json_text(schema, SCHEMA_MAX) : cay__strdup("{\"type\":\"object\",\"properties\":{}}");
    if (!sound_name(name) || !text || m->n == TOOLS_MAX)
        return;
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->v[i]->name, name))
            return;
    mcp_tool *t = cay__alloc(sizeof *t);
    t->mcp = m;
    t->name = cay__strdup(name);
    t->description = cay__strdup(cay__json_str(j, "description", ""));
    t->schema = CAY_STEAL(text);
    t->tool = (cay_tool){ .size = sizeof t->tool, .name = t->name, .description = t->description, .parameters = t->schema, .call = call_tool, .arg = t, .approval = m->approval };
    m->v[m->n] = t;
    m->tools[m->n++] = &t->tool;
}

const char *cay__mcp_server_of(const cay_tool *t)
{
    return t->call == call_tool ? ((const mcp_tool *)t->arg)->mcp->name : NULL;
}

static int list_tools(cay_mcp *m, const cay_call *call, cay_err *err)
{
    CAY_AUTOFREE char *cursor = NULL;
    for (int page = 0; page < PAGES_MAX; page++) {
        CAY_AUTOJSON *result = NULL;
        size_t i;
        json_t *t;
        CAY_TRY(request(m, call, "tools/list", cursor ? json_pack("{s:s}", "cursor", cursor) : json_object(), &result, err));
        if (!json_is_array(json_object_get(result, "tools")))
            return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed", "MCP server %.60s: its tools are no list", m->name);
        json_array_foreach(json_object_get(result, "tools"), i, t)
            add_tool(m, t);
        const char *next = cay__json_str(result, "nextCursor", NULL);
        free(cursor);
        cursor = next ? cay__strdup(next) : NULL;
        if (!cursor)
            return 0;
    }
    return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed", "MCP server %.60s: its list of tools has no end", m->name);
}

static int greet(cay_mcp *m, const cay_call *call, cay_err *err)
{
    CAY_AUTOJSON *result = NULL;
    CAY_TRY(request(m, call, "initialize", json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion", "2025-06-18", "capabilities", "clientInfo", "name", "cay", "version", CAY_VERSION), &result, err));
    if (!cay__json_str(result, "protocolVersion", NULL))
        return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed", "MCP server %.60s: it does not speak MCP", m->name);
    return request(m, call, "notifications/initialized", NULL, NULL, err);
}

/* ------------------------------------------------------------------ beginning and end */

int cay_mcp_open(const cay_mcp_spec *spec, const cay_call *call, cay_mcp **out, cay_err *err)
{
    if (!spec->url == !(spec->argv && spec->argv[0]))
        return cay_fail(err, CAY_EINVAL, "an MCP server is a program (argv) or an address (url): give one of them");
    cay_mcp *m = cay__alloc(sizeof *m);
    m->name = cay__strdup(spec->name ? spec->name : "mcp");
    m->timeout_ms = spec->timeout_ms ? spec->timeout_ms : TIMEOUT_MS;
    m->approval = spec->approval;
    m->v = cay__alloc(TOOLS_MAX * sizeof *m->v);
    m->tools = cay__alloc(TOOLS_MAX * sizeof *m->tools);
    int rc = spec->url ? cay__mcp_http(spec, &m->link, err) : cay__mcp_stdio(spec, call, &m->link, err);
    if (rc == 0)
        rc = greet(m, call, err);
    if (rc == 0)
        rc = list_tools(m, call, err);
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
    for (size_t i = 0; i < m->n; i++) {
        free(m->v[i]->name);
        free(m->v[i]->description);
        free(m->v[i]->schema);
        free(m->v[i]);
    }
    free(m->v);
    free(m->tools);
    free(m->name);
    free(m);
}
