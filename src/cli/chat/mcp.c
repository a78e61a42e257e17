/* SPDX-License-Identifier: Apache-2.0 */
/* /mcp: what the talk's MCP servers offer, a resource to look at, and a prompt to go on with. */
#include "chat.h"
#include <base/base.h>

/* A row for each of a list; NULL: the server has no such thing. */
static void print_rows(chat *c, const char *what, char *list, const char *key)
{
    CAY_AUTOFREE char *own = list;
    CAY_AUTOJSON *all = NULL;
    if (list)
        all = json_loads(list, 0, NULL);
    size_t i;
    json_t *j;
    json_array_foreach(all, i, j) {
        const char *about = cay__json_str(j, "description", "");
        chat_text(c, OUT_PLAIN, "  %s %s%s%.200s", what, cay__json_str(j, key, ""),
                  *about ? ": " : "", about);
    }
}

/* What one server has, asked for beside the others. */
typedef struct offer {
    char *resources, *templates, *prompts; /* lists, or NULL */
    char *found;                           /* what was looked for there, or NULL */
    cay_err err;
} offer;

typedef struct search {
    chat *c;
    const char *name, *arguments; /* of a prompt; without arguments of a resource; without a name
                                     everything is listed */
    size_t only;                  /* one server, or SIZE_MAX */
    offer v[AGENT_MCP];
} search;

static void query_server(void *arg, size_t i)
{
    search *s = arg;
    cay_mcp *m = s->c->mcp.v[i];
    offer *o = &s->v[i];
    cay_call call = { .size = sizeof call, .cancel_fd = chat_stop_fd() };
    o->err = (cay_err)CAY_ERR_INIT;
    if (s->only != SIZE_MAX && s->only != i)
        return;
    if (s->name && s->arguments) {
        cay_mcp_prompt(m, &call, s->name, s->arguments, &o->found, &o->err);
    } else if (s->name) {
        cay_mcp_read(m, &call, s->name, &o->found, &o->err);
    } else {
        cay_mcp_resources(m, &call, &o->resources, NULL);
        cay_mcp_templates(m, &call, &o->templates, NULL);
        cay_mcp_prompts(m, &call, &o->prompts, NULL);
    }
}

static void list_all(chat *c, size_t only)
{
    search s = { .c = c, .only = only };
    agent_mcp_each(c->mcp.n, query_server, &s);
    for (size_t i = 0; i < c->mcp.n; i++) {
        size_t n = 0;
        const cay_tool *const *tools = cay_mcp_tools(c->mcp.v[i], &n);
        if (only != SIZE_MAX && only != i)
            continue;
        chat_text(c, OUT_BOLD, "%s: %s", c->mcp.name[i], c->mcp.what[i]);
        for (size_t k = 0; k < n; k++)
            chat_text(c, OUT_PLAIN, "  tool %s: %.200s", tools[k]->name, tools[k]->description);
        print_rows(c, "resource", s.v[i].resources, "uri");
        print_rows(c, "resources", s.v[i].templates, "uriTemplate");
        print_rows(c, "prompt", s.v[i].prompts, "name");
    }
}

/* What the first server has that has it; NULL, and it is told why. */
static char *first_of(chat *c, size_t only, const char *name, const char *arguments)
{
    search s = { .c = c, .only = only, .name = name, .arguments = arguments };
    char *found = NULL;
    agent_mcp_each(c->mcp.n, query_server, &s);
    CAY_EACH_OF(it, s.v, c->mcp.n)
        if (!found)
            found = it->found;
        else
            free(it->found);
    for (size_t i = c->mcp.n; i-- > 0 && !found;)
        if (s.v[i].err.code) {
            chat_text(c, OUT_BAD, "cay: %s", s.v[i].err.msg);
            break;
        }
    return found;
}

/* KEY=VALUE words as a JSON object; NULL when one of them is none. */
static char *arguments_of(chat *c, int n, char **words)
{
    CAY_AUTOJSON *j = json_object();
    CAY_EACH_OF(word, words, n) {
        char *eq = strchr(*word, '=');
        if (!eq || eq == *word) {
            chat_text(c, OUT_WARN, "\"%s\": want KEY=VALUE", *word);
            return NULL;
        }
        *eq = 0;
        json_object_set_new(j, *word, json_string(eq + 1));
    }
    return json_dumps(j, 0);
}

static void begin_prompt(chat *c, size_t only, const char *name, int n, char **words)
{
    CAY_AUTOFREE char *arguments = arguments_of(c, n, words);
    CAY_AUTOFREE char *items = NULL;
    if (arguments)
        items = first_of(c, only, name, arguments);
    if (items)
        chat_turn(c, items);
}

static void read_resource(chat *c, size_t only, const char *uri)
{
    CAY_AUTOFREE char *text = first_of(c, only, uri, NULL);
    CAY_AUTOJSON *list = NULL;
    if (text)
        list = json_loads(text, 0, NULL);
    size_t i;
    json_t *r;
    json_array_foreach(list, i, r) {
        const char *said = cay__json_str(r, "text", NULL);
        if (said)
            chat_text(c, OUT_PLAIN, "%s", said);
        else
            chat_text(c, OUT_DIM, "%s, no text", cay__json_str(r, "mimeType", "no type told"));
    }
}

/* A server's name in front: the others are not asked. */
static size_t find_server(const chat *c, const char *word)
{
    for (size_t i = 0; i < c->mcp.n; i++)
        if (!strcmp(c->mcp.name[i], word))
            return i;
    return SIZE_MAX;
}

void chat_mcp(chat *c, int argc, char **argv)
{
    size_t only = SIZE_MAX;
    if (argc > 1)
        only = find_server(c, argv[1]);
    if (only != SIZE_MAX) {
        argc--;
        argv++;
    }
    if (!c->mcp.n) {
        chat_text(
            c, OUT_WARN,
            "this talk has no MCP servers; cay chat --mcp COMMAND|URL|FILE.json gives it one");
    } else if (argc == 1) {
        list_all(c, only);
    } else if (argc > 2 && !strcmp(argv[1], "prompt")) {
        begin_prompt(c, only, argv[2], argc - 3, argv + 3);
    } else if (argc == 3 && !strcmp(argv[1], "read")) {
        read_resource(c, only, argv[2]);
    } else {
        chat_text(c, OUT_WARN,
                  "/mcp lists what there is; /mcp prompt NAME [KEY=VALUE…] begins with a prompt; "
                  "/mcp read URI shows a resource; /mcp mcp2 … asks that server alone");
    }
}
