/* SPDX-License-Identifier: Apache-2.0 */
/* What an MCP server lets read, for programs and, by two tools, for models. */
#include "mcp.h"
#include "run.h"

enum { URI_MAX = 8192, SHOWN_MAX = 1 << 20 };

static int as_text(json_t *list, char **out, cay_err *err)
{
    CAY_AUTOJSON *own = list;
    char *text = cay__json_text(own, CAY__MCP_MESSAGE);
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "the list is larger than 64 MiB");
    *out = text;
    return 0;
}

int cay__mcp_list_text(cay_mcp *m, const cay_call *call, const char *offer, const char *method,
                       const char *key, char **out, cay_err *err)
{
    json_t *all = NULL;
    CAY_TRY(cay__mcp_offers(m, offer, err));
    CAY_TRY(cay__mcp_list(m, call, method, key, &all, err));
    return as_text(all, out, err);
}

int cay_mcp_resources(cay_mcp *m, const cay_call *call, char **list, cay_err *err)
{
    return cay__mcp_list_text(m, call, "resources", "resources/list", "resources", list, err);
}

int cay_mcp_templates(cay_mcp *m, const cay_call *call, char **list, cay_err *err)
{
    return cay__mcp_list_text(m, call, "resources", "resources/templates/list", "resourceTemplates",
                              list, err);
}

static int read_resource(cay_mcp *m, const cay_call *call, const char *uri, json_t **contents,
                         cay_err *err)
{
    CAY_AUTOJSON *result = NULL;
    CAY_TRY(cay__mcp_offers(m, "resources", err));
    if (!*uri || strlen(uri) > URI_MAX)
        return cay_fail(err, CAY_EINVAL, "a resource has an address of at most %d bytes", URI_MAX);
    json_t *params = json_pack("{s:s}", "uri", uri);
    if (!params)
        return cay_fail(err, CAY_EINVAL, "the address of the resource is no UTF-8 text");
    CAY_TRY(cay__mcp_request(m, call, "resources/read", params, &result, err));
    json_t *list = json_object_get(result, "contents");
    if (!json_is_array(list))
        return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed",
                            "MCP server %.60s: the contents of %.100s are no list",
                            cay__mcp_name(m), uri);
    *contents = json_incref(list);
    return 0;
}

int cay_mcp_read(cay_mcp *m, const cay_call *call, const char *uri, char **contents, cay_err *err)
{
    json_t *list = NULL;
    CAY_TRY(read_resource(m, call, uri, &list, err));
    return as_text(list, contents, err);
}

static void show_resource(cay_tool_output *out, const json_t *r)
{
    const json_t *text = json_object_get(r, "text");
    const char *blob = cay__json_str(r, "blob", NULL), *type = cay__json_str(r, "mimeType", "");
    if (json_is_string(text)) {
        cay_output_text(out, json_string_value(text), json_string_length(text));
    } else if (blob && !strncmp(type, "image/", 6)) {
        cay__output_encoded(out, type, blob);
    } else {
        cay__tool_say(out, "[%.400s: %.100s, %zu bytes that are no text]",
                      cay__json_str(r, "uri", "a resource"), cay__text_or(type, "no type told"),
                      strlen(CAY_OR(blob, "")) / 4 * 3);
    }
}

void cay__mcp_content(cay_tool_output *out, const json_t *part)
{
    const char *type = cay__json_str(part, "type", "");
    const json_t *text = json_object_get(part, "text"), *data = json_object_get(part, "data");
    if (!strcmp(type, "resource")) {
        show_resource(out, json_object_get(part, "resource"));
    } else if (!strcmp(type, "resource_link")) {
        cay__tool_say(out, "[resource %.400s: %.200s]", cay__json_str(part, "uri", ""),
                      cay__json_str(part, "name", ""));
    } else if (!strcmp(type, "image") && json_is_string(data)) {
        cay__output_encoded(out, cay__json_str(part, "mimeType", "image/png"),
                            json_string_value(data));
    } else if (json_is_string(text)) {
        cay_output_text(out, json_string_value(text), json_string_length(text));
    }
}

/* What a model needs of each to choose one. */
static void tell_list(cay_tool_output *out, const char *heading, const json_t *list,
                      const char *address)
{
    CAY_AUTOBUF b = CAY__BUF(SHOWN_MAX);
    size_t shown = 0;
    cay__buf_fmt(&b, "%s:\n", heading);
    CAY_EACH_ITEM(r, list) {
        const char *about = cay__json_str(r, "description", ""),
                   *type = cay__json_str(r, "mimeType", "");
        size_t before = b.len;
        cay__buf_fmt(&b, "- %s (%s%s%s)%s%s\n", cay__json_str(r, address, ""),
                     cay__json_str(r, "name", ""), CAY_TEXT_IF(*type, ", "), type,
                     CAY_TEXT_IF(*about, ": "), about);
        if (b.full) {
            b.len = before;
            break;
        }
        shown++;
    }
    cay_output_text(out, b.data, b.len);
    if (shown < json_array_size(list))
        cay__tool_say(out, "(%zu more are not shown)\n", json_array_size(list) - shown);
}

static int list_call(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    const cay__mcp_tool *t = arg;
    const cay_call *c = cay_run_call(call->run);
    CAY_AUTOJSON *list = NULL, *patterns = NULL;
    CAY_TRY(cay__mcp_list(t->mcp, c, "resources/list", "resources", &list, err));
    tell_list(out, "Resources", list, "uri");
    if (cay__mcp_list(t->mcp, c, "resources/templates/list", "resourceTemplates", &patterns,
                      NULL) == 0 &&
        json_array_size(patterns)) /* servers may lack them */
        tell_list(out, "Patterns of more", patterns, "uriTemplate");
    return 0;
}

static int read_call(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    const cay__mcp_tool *t = arg;
    CAY_AUTOJSON *args = NULL, *list = NULL;
    CAY_TRY(cay__json_object("its arguments", call->arguments, &args, err));
    CAY_TRY(
        read_resource(t->mcp, cay_run_call(call->run), cay__json_str(args, "uri", ""), &list, err));
    CAY_EACH_ITEM(r, list)
        show_resource(out, r);
    return 0;
}

bool cay__mcp_is_resource_tool(const cay_tool *t)
{
    return t->call == list_call || t->call == read_call;
}

void cay__mcp_resource_tools(cay_mcp *m,
                             void (*add)(cay_mcp *m, const char *name, const char *description,
                                         char *schema, cay__mcp_call *fn))
{
    char name[80];
    cay__tool_name(name, 40, "", cay__mcp_name(m));
    size_t n = strlen(name);
    snprintf(name + n, sizeof name - n, "_list_resources");
    add(m, name, "Lists the resources that this MCP server lets you read, with their addresses.",
        cay__strdup("{\"type\":\"object\",\"properties\":{}}"), list_call);
    snprintf(name + n, sizeof name - n, "_read_resource");
    add(m, name, "Reads one resource of this MCP server by its address.",
        cay__strdup("{\"type\":\"object\",\"properties\":{\"uri\":{\"type\":\"string\","
                    "\"minLength\":1}},\"required\":[\"uri\"]}"),
        read_call);
}
