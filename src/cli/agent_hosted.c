/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include <base/base.h>

const opt_def agent_model_defs[] = {
    OPT_STR("--model NAME",
            "the model, or scripted:FILE (default $CAY_MODEL, else the configuration's)",
            agent_model, name),
    OPT_STR("--base-url URL", "where it is asked (default $OPENAI_BASE_URL, else api.openai.com)",
            agent_model, base_url),
    OPT_STR("--api responses|websocket|chat", "what is spoken there (default responses)",
            agent_model, api),
    OPT_STR("--key SOURCE",
            "where its key is: env:NAME, file:PATH or none (default env:OPENAI_API_KEY)",
            agent_model, key),
    OPT_LIST("--header NAME: VALUE",
             "send this header too; a value env:NAME or file:PATH is read there (also "
             "$CAY_MODEL_HEADERS, "
             "one a line)",
             agent_model, headers),
    OPT_NUM("--context-window TOKENS",
            "what the model can see at once: at 9 tenths of it the history is compacted (default "
            "by its "
            "name)",
            agent_model, window, 1024, 1000000000),
    OPT_STR("--effort WORD", "how hard it thinks: low, medium, high", agent_model, effort),
    OPT_END
};

int agent_model_check(const agent_model *m, cay_err *err)
{
    if (m->headers.n >= OPT_LIST_MAX)
        return cay_fail(err, CAY_ETOOBIG, "--header: at most %d", OPT_LIST_MAX - 1);
    return 0;
}

enum { TEXT_MOST = 1 << 20 };

static json_t *make_file_search(const char *text)
{
    CAY_AUTOFREE char *own = cay__strdup(text);
    json_t *ids = json_array();
    char *save = NULL;
    for (char *w = strtok_r(own, ",", &save); w; w = strtok_r(NULL, ",", &save))
        json_array_append_new(ids, json_string(w));
    return json_pack("{s:s, s:o}", "type", "file_search", "vector_store_ids", ids);
}

/* The short forms; NULL: none of them. */
static json_t *by_word(const char *w)
{
    static const char *const plain[] = { "web_search", "web_search_preview", "image_generation",
                                         "tool_search" };
    const char *eq = strchr(w, '=');
    CAY_EACH(it, plain)
        if (!strcmp(w, *it))
            return json_pack("{s:s}", "type", w);
    if (!strcmp(w, "code_interpreter"))
        return json_pack("{s:s, s:{s:s}}", "type", w, "container", "type", "auto");
    if (!strncmp(w, "file_search:", 12) && w[12])
        return make_file_search(w + 12);
    if (!strncmp(w, "mcp:", 4) && eq > w + 4 && eq[1])
        return json_pack("{s:s, s:s%, s:s}", "type", "mcp", "server_label", w + 4,
                         (size_t)(eq - (w + 4)), "server_url", eq + 1);
    return NULL;
}

static int parse_definition(const char *text, char **out, cay_err *err)
{
    CAY_AUTOJSON *d = NULL;
    if (*text != '{')
        d = by_word(text);
    if (*text == '{')
        CAY_TRY(cay__json_object("it", text, &d, err));
    if (!d)
        return cay_fail(err, CAY_EINVAL,
                        "want web_search, code_interpreter, image_generation, file_search:STORE,…, "
                        "mcp:LABEL=URL, or a definition as JSON");
    *out = cay__json_text(d, TEXT_MOST);
    if (*out)
        return 0;
    return cay_fail(err, CAY_ETOOBIG, "it is larger than 1 MiB");
}

int agent_hosted_open(const opt_list *list, agent_hosted *h, cay_err *err)
{
    if (list->n > AGENT_HOSTED)
        return cay_fail(err, CAY_ETOOBIG, "--hosted: at most %d tools", AGENT_HOSTED);
    for (size_t i = 0; i < list->n; i++) {
        int rc = parse_definition(list->v[i], &h->text[i], err);
        if (rc < 0)
            return cay_wrap(err, rc, "--hosted %.60s", list->v[i]);
        h->v[i] = (cay_tool){ .size = sizeof h->v[i], .hosted = h->text[i] };
        h->n = i + 1;
    }
    return 0;
}

void agent_hosted_close(agent_hosted *h)
{
    CAY_EACH_OF(it, h->text, h->n)
        free(*it);
    *h = (agent_hosted){ .n = 0 };
}

int agent_dir(const char *option, const char *path, cay_err *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return cay_fail_sys_as(err, CAY_ENOENT, "%s %.200s", option, path);
    if (S_ISDIR(st.st_mode))
        return 0;
    return cay_fail(err, CAY_ETYPE, "%s %.200s is no directory", option, path);
}

/* Members that tell most, in this order. */
static const char *find_detail(const json_t *o)
{
    static const char *const keys[] = { "query",          "url",    "code", "arguments",
                                        "revised_prompt", "pattern" };
    CAY_EACH(key, keys)
        if (json_is_string(json_object_get(o, *key)))
            return json_string_value(json_object_get(o, *key));
    return NULL;
}

bool agent_hosted_told(const json_t *item, agent_hosted_line *out)
{
    const char *type = cay__json_str(item, "type", ""), *what = find_detail(item);
    size_t n = strlen(type);
    *out = (agent_hosted_line){ .tool = "" };
    if (!strcmp(type, "function_call") || !strcmp(type, "custom_tool_call") || n < 6 ||
        strcmp(type + n - 5, "_call"))
        return false;
    CAY_FORMAT(out->tool, "%.*s", (int)CAY_MIN(n - 5, (size_t)60), type);
    if (!strcmp(type, "mcp_call"))
        CAY_FORMAT(out->tool, "%.50s.%.60s", cay__json_str(item, "server_label", ""),
                   cay__json_str(item, "name", ""));
    const json_t *queries = json_object_get(item, "queries");
    what = CAY_OR(what, find_detail(json_object_get(item, "action")));
    what = CAY_OR(what, json_string_value(json_array_get(queries, 0)));
    CAY_FORMAT(out->what, "%s", CAY_OR(what, ""));
    for (size_t k = strlen(out->what); k && k + 4 >= sizeof out->what && (out->what[k - 1] & 0x80);
         k--) /* not in the middle of a character */
        out->what[k - 1] = 0;
    return true;
}
