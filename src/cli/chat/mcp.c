/* SPDX-License-Identifier: Apache-2.0 */
/* /mcp: what the talk's MCP servers offer, a resource to look at, and a prompt to go on with. */
#include "chat.h"
#include <base/base.h>

/* A row for each of a list; NULL: the server has no such thing. */
static void rows(chat *c, const char *what, char *list, const char *key)
{
    CAY_AUTOFREE char *own = list;
    CAY_AUTOJSON *all = list ? json_loads(list, 0, NULL) : NULL;
    size_t i;
    json_t *j;
    json_array_foreach(all, i, j) {
        const char *about = cay__json_str(j, "description", "");
        chat_text(c, OUT_PLAIN, "  %s %s%s%.200s", what, cay__json_str(j, key, ""), *about ? ": " : "", about);
    }
}

static void list_server(chat *c, cay_mcp *m, size_t at)
{
    size_t n = 0;
    char *text = NULL;
    const cay_tool *const *tools = cay_mcp_tools(m, &n);
    cay_call call = { .size = sizeof call, .cancel_fd = chat_stop_fd() };
    chat_text(c, OUT_BOLD, "%s", c->a->mcp.v[at]);
    for (size_t i = 0; i < n; i++)
        chat_text(c, OUT_PLAIN, "  tool %s: %.200s", tools[i]->name, tools[i]->description);
    rows(c, "resource", cay_mcp_resources(m, &call, &text, NULL) == 0 ? text : NULL, "uri");
    rows(c, "resources", cay_mcp_templates(m, &call, &text, NULL) == 0 ? text : NULL, "uriTemplate");
    rows(c, "prompt", cay_mcp_prompts(m, &call, &text, NULL) == 0 ? text : NULL, "name");
}

/* KEY=VALUE words as a JSON object; NULL when one of them is none. */
static char *arguments_of(chat *c, int n, char **words)
{
    CAY_AUTOJSON *j = json_object();
    for (int i = 0; i < n; i++) {
        char *eq = strchr(words[i], '=');
        if (!eq || eq == words[i]) {
            chat_text(c, OUT_WARN, "\"%s\": want KEY=VALUE", words[i]);
            return NULL;
        }
        *eq = 0;
        json_object_set_new(j, words[i], json_string(eq + 1));
    }
    return json_dumps(j, 0);
}

/* The first server that has it; err tells of the last that had not. */
static void begin_prompt(chat *c, const char *name, int n, char **words)
{
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOFREE char *arguments = arguments_of(c, n, words), *items = NULL;
    for (size_t i = 0; arguments && i < c->mcp.n && !items; i++)
        cay_mcp_prompt(c->mcp.v[i], NULL, name, arguments, &items, &err);
    if (items)
        chat_turn(c, items);
    else if (arguments)
        chat_text(c, OUT_BAD, "cay: %s", err.msg);
}

static void read_resource(chat *c, const char *uri)
{
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOFREE char *text = NULL;
    for (size_t i = 0; i < c->mcp.n && !text; i++)
        cay_mcp_read(c->mcp.v[i], NULL, uri, &text, &err);
    CAY_AUTOJSON *list = text ? json_loads(text, 0, NULL) : NULL;
    size_t i;
    json_t *r;
    if (!list)
        chat_text(c, OUT_BAD, "cay: %s", err.msg);
    json_array_foreach(list, i, r) {
        const char *said = cay__json_str(r, "text", NULL);
        if (said)
            chat_text(c, OUT_PLAIN, "%s", said);
        else
            chat_text(c, OUT_DIM, "%s, no text", cay__json_str(r, "mimeType", "no type told"));
    }
}

void chat_mcp(chat *c, int argc, char **argv)
{
    if (!c->mcp.n) {
        chat_text(c, OUT_WARN, "this talk has no MCP servers; cay chat --mcp COMMAND|URL gives it one");
    } else if (argc == 1) {
        for (size_t i = 0; i < c->mcp.n; i++)
            list_server(c, c->mcp.v[i], i);
    } else if (argc > 2 && !strcmp(argv[1], "prompt")) {
        begin_prompt(c, argv[2], argc - 3, argv + 3);
    } else if (argc == 3 && !strcmp(argv[1], "read")) {
        read_resource(c, argv[2]);
    } else {
        chat_text(c, OUT_WARN, "/mcp lists what there is; /mcp prompt NAME [KEY=VALUE…] begins with a prompt; /mcp read URI shows a resource");
    }
}
