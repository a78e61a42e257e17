/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools that the endpoint runs itself: web search, file search, code interpreter, pictures, its own
 * MCP servers. Their definitions are passed on as they are, and what comes of them is kept in the
 * history as it is. What an endpoint asks for before its MCP server is called takes the way of an
 * approval.
 */
#include "audit.h"
#include "run.h"

/* What has to be there, so that it is told before a sandbox is made. Kinds that are not listed are
 * passed on. */
static const struct {
    const char *type, *needs, *instead; /* a member; or why it cannot be had, and by what */
} kinds[] = {
    { "file_search", "vector_store_ids", NULL },
    { "code_interpreter", "container", NULL },
    { "mcp", "server_label", NULL },
    { "function", NULL, "it is called here: fill in name, parameters and call of the tool" },
    { "custom", NULL, "it is called here: fill in name, grammar and call of the tool" },
    { "local_shell", NULL,
      "its commands would be run here: cay_cap_shell() runs them in the sandbox" },
    { "apply_patch", NULL,
      "its patches would be applied here: cay_cap_filesystem() applies them in the sandbox" },
    { "computer", NULL,
      "its clicks would be made here: cay_cap_browser() makes them in the sandbox" },
    { "computer_use_preview", NULL,
      "its clicks would be made here: cay_cap_browser() makes them in the sandbox" },
};

/* How the run tells of what came of them. */
static const struct {
    const char *type, *event;
} items[] = {
    { "web_search_call", "tool_called" },
    { "file_search_call", "tool_called" },
    { "code_interpreter_call", "tool_called" },
    { "image_generation_call", "tool_called" },
    { "mcp_call", "tool_called" },
    { "shell_call", "tool_called" },
    { "shell_call_output", "tool_output" },
    { "mcp_list_tools", "mcp_list_tools" },
    { "mcp_approval_request", "mcp_approval_requested" },
    { "tool_search_call", "tool_search_called" },
    { "tool_search_output", "tool_search_output_created" },
};

static int fail_hosted(cay_err *err, const char *type, const char *why)
{
    return cay_fail_why(err, CAY_EINVAL, "hosted_tool", "a tool of the endpoint, \"%.60s\": %s",
                        type, why);
}

int cay__hosted_add(json_t *list, const char *definition, cay_err *err)
{
    CAY_AUTOJSON *d = NULL;
    CAY_TRY(cay__json_object("a tool of the endpoint", definition, &d, err));
    const char *type = cay__json_str(d, "type", "");
    if (!*type)
        return fail_hosted(err, "", "its definition has a \"type\"");
    CAY_EACH(kind, kinds) {
        if (strcmp(kind->type, type))
            continue;
        if (kind->instead)
            return fail_hosted(err, type, kind->instead);
        char why[80];
        CAY_FORMAT(why, "its definition needs \"%s\"", kind->needs);
        if (!json_object_get(d, kind->needs))
            return fail_hosted(err, type, why);
    }
    if (!strcmp(type, "shell") &&
        !strncmp(cay__json_str(json_object_get(d, "environment"), "type", "local"), "local", 5))
        return fail_hosted(
            err, type,
            "its commands would be run here: cay_cap_shell() runs them in the sandbox, or "
            "give it an environment of the endpoint's");
    json_array_append(list, d);
    return 0;
}

int cay__hosted_fit(const json_t *list, const cay_model *m, const char *agent, cay_err *err)
{
    if (!json_array_size(list) || cay_model_kind(m)->hosted)
        return 0;
    return cay_fail_why(err, CAY_ENOTSUP, "hosted_tool",
                        "agent %.60s has the tool %.60s, which endpoints of the Responses API run; "
                        "this one (%.40s) runs none",
                        agent, cay__json_str(json_array_get(list, 0), "type", ""),
                        cay_model_kind(m)->name);
}

int cay__hosted_check(const cay_agent *a, const cay_model *m, cay_err *err)
{
    CAY_AUTOJSON *list = json_array();
    CAY_EACH_OF(tool, a->tools, a->ntools) {
        cay_tool t;
        CAY_TRY(cay__spec_take(&t, sizeof t, *tool, "cay_tool", err));
        if (t.hosted)
            CAY_TRY(cay__hosted_add(list, t.hosted, err));
    }
    return cay__hosted_fit(list, m, a->name, err);
}

const char *cay__hosted_event(const json_t *item)
{
    CAY_EACH(it, items)
        if (cay__item_is(item, it->type))
            return it->event;
    return NULL;
}

bool cay__item_waits(const json_t *item)
{
    return cay__item_is_call(item) || cay__item_is(item, "mcp_approval_request");
}

const char *cay__item_id(const json_t *item)
{
    if (cay__item_is(item, "mcp_approval_request"))
        return cay__json_str(item, "id", "");
    if (cay__item_is(item, "mcp_approval_response"))
        return cay__json_str(item, "approval_request_id", "");
    return cay__json_str(item, "call_id", "");
}

static const char *server_tool(const json_t *item, struct cay__hosted_name *buf)
{
    CAY_FORMAT(buf->text, "%.100s.%.100s", cay__json_str(item, "server_label", ""),
               cay__json_str(item, "name", ""));
    return buf->text;
}

const char *cay__item_tool(const json_t *item, struct cay__hosted_name *buf)
{
    if (!cay__item_is(item, "mcp_approval_request"))
        return cay__json_str(item, "name", "");
    return server_tool(item, buf);
}

const char *cay__item_arguments(const json_t *item)
{
    return cay__json_str(item, cay__item_is(item, "custom_tool_call") ? "input" : "arguments", "");
}

int cay__hosted_decide(cay_run *r, json_t *item, cay_err *err)
{
    struct cay__hosted_name name;
    const cay_tool_call call = { .run = r,
                                 .tool = cay__item_tool(item, &name),
                                 .call_id = cay__item_id(item),
                                 .arguments = cay__item_arguments(item) };
    CAY_AUTOFREE char *why = NULL;
    cay_verdict v = cay__verdict(r, &call, &why);
    if (v == CAY_ASK_LATER) {
        json_array_append(r->pending, item);
        return cay__run_event(r, CAY_RUN_ITEM, "approval_requested", item, err);
    }
    json_t *answer = json_pack("{s:s, s:s, s:b}", "type", "mcp_approval_response",
                               "approval_request_id", call.call_id, "approve", v == CAY_APPROVE);
    if (answer && why)
        cay__json_put(answer, "reason", why);
    return cay__run_add(r, "mcp_approval_response", answer, err);
}

int cay__hosted_note(cay_run *r, const json_t *item, cay_err *err)
{
    const char *type = cay__json_str(item, "type", ""),
               *status = cay__json_str(item, "status", "completed");
    struct cay__hosted_name name;
    size_t n = strlen(type);
    if (!r->conf->ledger || n < 6 || strcmp(type + n - 5, "_call"))
        return 0;
    if (cay__item_is(item, "mcp_call"))
        server_tool(item, &name);
    else
        CAY_FORMAT(name.text, "%.*s", (int)CAY_MIN(n - 5, (size_t)100), type);
    bool failed = !strcmp(status, "failed") ||
                  (json_object_get(item, "error") && !json_is_null(json_object_get(item, "error")));
    json_t *e =
        json_pack("{s:s, s:s, s:b, s:s}", "tool", name.text, "call_id",
                  cay__json_str(item, "id", ""), "hosted", 1, "outcome", failed ? "failed" : "ok");
    if (e)
        return cay__audit_sink(r, "tool", e, err);
    return 0;
}
