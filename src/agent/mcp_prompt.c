/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts of an MCP server: texts that a user, not the model, chooses to begin with. */
#include "mcp.h"
#include "run.h"

int cay_mcp_prompts(cay_mcp *m, const cay_call *call, char **list, cay_err *err)
{
    return cay__mcp_list_text(m, call, "prompts", "prompts/list", "prompts", list, err);
}

/* A server's word counts as the user's or as what the model said before, never as the system's. */
json_t *cay__mcp_message(const json_t *message)
{
    const char *role = cay__json_str(message, "role", "");
    const json_t *content = json_object_get(message, "content");
    bool said = !strcmp(role, "assistant");
    cay_tool_output o = { 0 };
    if ((!said && strcmp(role, "user")) || !json_is_object(content))
        return NULL;
    cay__mcp_content(&o, content);
    CAY_AUTOJSON *parts = cay__output_take(&o);
    if (json_is_string(parts)) {
        json_t *text =
            json_pack("[{s:s, s:O}]", "type", said ? "output_text" : "input_text", "text", parts);
        json_decref(parts);
        parts = text;
    }
    CAY_EACH_ITEM(part, parts) {
        if (said && !json_object_get(part, "text")) { /* a model says no images */
            json_object_clear(part);
            cay__json_put(part, "text", "[an image]");
        }
        if (said)
            cay__json_put(part, "type", "output_text");
    }
    return json_pack("{s:s, s:s, s:O}", "type", "message", "role", role, "content", parts);
}

int cay_mcp_prompt(cay_mcp *m, const cay_call *call, const char *name, const char *arguments,
                   char **items, cay_err *err)
{
    CAY_AUTOJSON *args = NULL, *result = NULL, *list = json_array();
    CAY_TRY(cay__mcp_offers(m, "prompts", err));
    if (arguments)
        CAY_TRY(cay__json_object("the prompt's arguments", arguments, &args, err));
    json_t *params = json_pack("{s:s, s:O*}", "name", name, "arguments", args);
    if (!params)
        return cay_fail(err, CAY_EINVAL, "the prompt's name is no UTF-8 text");
    CAY_TRY(cay__mcp_request(m, call, "prompts/get", params, &result, err));
    CAY_EACH_ITEM(msg, json_object_get(result, "messages")) {
        json_t *item = cay__mcp_message(msg);
        if (!item)
            return cay_fail_why(
                err, CAY_EUPSTREAM, "mcp_failed",
                "MCP server %.60s: message %zu of prompt %.60s is no user's or assistant's",
                cay__mcp_name(m), msg_at + 1, name);
        json_array_append_new(list, item);
    }
    if (!json_array_size(list))
        return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed",
                            "MCP server %.60s: prompt %.60s is empty", cay__mcp_name(m), name);
    char *text = cay__json_text(list, CAY__TEXT_MAX);
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "the prompt is larger than 256 MiB");
    *items = text;
    return 0;
}
