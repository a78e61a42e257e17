/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model that replays a file, for tests and demonstrations. docs/agents.md shows the form:
 *
 *   {"turns": [{"expect": {"input": ["fix it"], "tools": ["exec_command"]}, "calls": [{"name":
 * "exec_command", "arguments": {"cmd": "ls"}}]},
 *              {"expect": {"last": ["README"]}, "text": "Done."}]}
 *
 * "{{session}}" in arguments stands for the number of the process that the last output told of,
 * "{{url}}" for the last address of this machine (file:///, http://127.0.0.1:).
 */
#include "endpoint.h"

enum { SCRIPT_MAX = 16 << 20 };

typedef struct scripted {
    json_t *turns;
    size_t at;
    char *name;
    bool functions; /* plays an endpoint without free-form tools */
} scripted;

static int fail_mismatch(const scripted *s, cay_err *err, const char *what, const char *text)
{
    return cay_fail_why(err, CAY_EINVAL, "script_mismatch", "turn %zu of the script: %s \"%.120s\"",
                        s->at + 1, what, text);
}

static bool has_tool(const json_t *tools, const char *name)
{
    CAY_EACH_ITEM(t, tools)
        if (!strcmp(cay__json_str(t, "name", cay__json_str(t, "type", "")),
                    name)) /* one that the endpoint runs has a type alone */
            return true;
    return false;
}

/* The text of the last item of the input, with its escapes taken away. */
static char *last_text(const json_t *items)
{
    const json_t *last = json_array_get(items, json_array_size(items) - 1),
                 *v = CAY_OR(json_object_get(last, "output"), json_object_get(last, "content"));
    return cay__json_plain(CAY_OR(v, last), 64u << 20);
}

static int check_expectations(const scripted *s, const json_t *expect, const cay_model_request *q,
                              const json_t *items, cay_err *err)
{
    CAY_AUTOJSON *tools = NULL;
    CAY_AUTOFREE char *last = CAY_IF(json_array_size(items), last_text(items));
    if (q->tools)
        CAY_TRY(cay__json_any("the tools", q->tools, &tools, err));
    const struct {
        const char *key, *in, *what;
        bool not ;
    } rows[] = {
        { "instructions", q->instructions, "the instructions lack", false },
        { "input", q->input, "the input lacks", false },
        { "input_not", q->input, "the input has", true },
        { "last", last, "the last item lacks", false },
        { "last_not", last, "the last item has", true },
        { "extra", q->extra, "the request lacks", false },
    };
    CAY_EACH(row, rows)
        CAY_EACH_ITEM(v, json_object_get(expect, row->key)) {
            const char *text = CAY_OR(json_string_value(v), "");
            if (!strstr(CAY_OR(row->in, ""), text) != row->not )
                return fail_mismatch(s, err, row->what, text);
        }
    CAY_EACH_ITEM(v, json_object_get(expect, "tools"))
        if (!has_tool(tools, CAY_OR(json_string_value(v), "")))
            return fail_mismatch(s, err, "no tool is named", json_string_value(v));
    CAY_EACH_ITEM(v, json_object_get(expect, "tools_not"))
        if (has_tool(tools, CAY_OR(json_string_value(v), "")))
            return fail_mismatch(s, err, "there is a tool", json_string_value(v));
    return 0;
}

/* What was told last and only a run knows. */
static const struct {
    const char *mark, *begins[2]; /* text that it stands behind, or with which it begins (whole) */
    const char *set, *not_set;    /* characters of it, or those that end it */
    bool whole;
} marks[] = {
    { "{{session}}", { "session ID ", NULL }, "0123456789", NULL, false },
    { "{{url}}", { "file:///", "http://127.0.0.1:" }, NULL, " \"\\<>)\n", true },
};

static const char *told_last(const char *input, const char *const begins[2], bool whole)
{
    const char *last = NULL;
    for (size_t i = 0; i < 2 && begins[i]; i++)
        for (const char *p = input; (p = strstr(p, begins[i])); p += strlen(begins[i])) {
            if (p + (whole ? 0 : strlen(begins[i])) > last)
                last = p + (whole ? 0 : strlen(begins[i]));
        }
    return last;
}

/* Takes text. */
static char *fill_in(char *text, const char *input)
{
    CAY_EACH(it, marks) {
        const char *said = CAY_IF(strstr(text, it->mark), told_last(input, it->begins, it->whole));
        if (!said)
            continue;
        size_t n;
        if (it->set)
            n = strspn(said, it->set);
        else
            n = strcspn(said, it->not_set);
        CAY_AUTOBUF b = CAY__BUF(SCRIPT_MAX);
        const char *p = text;
        for (const char *mark; (mark = strstr(p, it->mark));) {
            const char *from = mark, *to = mark + strlen(it->mark);
            if (it->set && from > text && from[-1] == '"' && *to == '"') /* a number, not a text */
                from--, to++;
            cay__buf_add(&b, p, (size_t)(from - p));
            cay__buf_add(&b, said, n);
            p = to;
        }
        cay__buf_str(&b, p);
        free(text);
        text = CAY_STEAL(b.data);
    }
    return text;
}

static json_t *call_item(const scripted *s, const json_t *c, size_t i, const char *input)
{
    char id[40];
    CAY_FORMAT(id, "call_%zu_%zu", s->at + 1, i + 1);
    const char *call_id = cay__json_str(c, "id", id), *name = cay__json_str(c, "name", "");
    const json_t *text = json_object_get(c, "input");
    if (text && !s->functions)
        return json_pack("{s:s, s:s, s:s, s:O}", "type", "custom_tool_call", "call_id", call_id,
                         "name", name, "input", text);
    CAY_AUTOJSON *wrapped = NULL;
    if (text)
        wrapped = json_pack("{s:O}", !strcmp(name, "apply_patch") ? "patch" : "input", text);
    const json_t *args = wrapped;
    if (!text)
        args = json_object_get(c, "arguments");
    CAY_AUTOFREE char *plain = CAY_OR(cay__json_plain(args, SCRIPT_MAX), cay__strdup("{}"));
    CAY_AUTOFREE char *filled = fill_in(CAY_STEAL(plain), input);
    return json_pack("{s:s, s:s, s:s, s:s}", "type", "function_call", "call_id", call_id, "name",
                     name, "arguments", filled);
}

static int compose_reply(const scripted *s, const json_t *turn, const cay_model_request *q,
                         json_t *items, cay_err *err)
{
    const json_t *text = json_object_get(turn, "text"), *calls = json_object_get(turn, "calls"),
                 *thought = json_object_get(turn, "reasoning");
    if (json_is_string(thought))
        json_array_append_new(items, json_pack("{s:s, s:[{s:s, s:O}]}", "type", "reasoning",
                                               "summary", "type", "summary_text", "text", thought));
    if (json_is_string(text)) {
        CAY_TRY(cay__model_tell(q, "response.output_text.delta", json_pack("{s:O}", "delta", text),
                                err));
        json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:[{s:s, s:O}]}", "type", "message",
                                               "role", "assistant", "status", "completed",
                                               "content", "type", "output_text", "text", text));
    }
    CAY_EACH_ITEM(v, calls) {
        json_array_append_new(items, call_item(s, v, v_at, q->input));
    }
    CAY_EACH_ITEM(v, json_object_get(turn, "output")) {
        json_array_append(items, v);
    }
    return 0;
}

static int ask_model(void *self, const cay_call *call, const cay_model_request *q,
                     cay_model_reply *out, cay_err *err)
{
    scripted *s = self;
    CAY_AUTOJSON *items = json_array(), *input = NULL;
    const json_t *turn = json_array_get(s->turns, s->at), *fault = json_object_get(turn, "error");
    if (!turn)
        return cay_fail_why(err, CAY_EINVAL, "script_mismatch",
                            "the script has %zu turns and was asked for one more", s->at);
    CAY_TRY(cay__json_any("the input", q->input, &input, err));
    CAY_TRY(check_expectations(s, json_object_get(turn, "expect"), q, input, err));
    if (json_is_string(fault)) {
        s->at++;
        return cay_fail_why(err, CAY_EUPSTREAM, "model_failed", "%s", json_string_value(fault));
    }
    CAY_TRY(compose_reply(s, turn, q, items, err));
    out->output = cay__json_text(items, 64u << 20);
    char id[40];
    CAY_FORMAT(id, "resp_%zu", ++s->at);
    out->id = cay__strdup(id);
    const json_t *u = json_object_get(turn, "usage");
    out->usage =
        (cay_tokens){ .requests = 1,
                      .input = (uint64_t)cay__json_int(u, "input", (int64_t)strlen(q->input) / 4),
                      .output =
                          (uint64_t)cay__json_int(u, "output", (int64_t)strlen(out->output) / 4) };
    out->usage.total = out->usage.input + out->usage.output;
    return 0;
}

static void close_scripted(void *self)
{
    scripted *s = self;
    json_decref(s->turns);
    free(s->name);
    free(s);
}

static const cay_model_ops free_form = { .size = sizeof free_form,
                                         .name = "scripted",
                                         .custom_tools = true,
                                         .compaction = true,
                                         .images = true,
                                         .ask = ask_model,
                                         .close = close_scripted,
                                         .hosted = true };
static const cay_model_ops functions = { .size = sizeof functions,
                                         .name = "scripted",
                                         .images = true,
                                         .ask = ask_model,
                                         .close = close_scripted };

int cay__model_scripted(const char *path, cay_model **out, cay_err *err)
{
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    CAY_AUTOFREE char *text = cay__alloc(SCRIPT_MAX + 1);
    ssize_t n = -1;
    if (fd >= 0)
        n = cay__fd_read_all(fd, text, SCRIPT_MAX);
    if (n < 0)
        return cay_fail_sys(err, "script %s", path);
    if (n == SCRIPT_MAX)
        return cay_fail(err, CAY_ETOOBIG, "script %s is larger than 16 MiB", path);
    CAY_AUTOJSON *j = NULL;
    CAY_TRY(cay__json_object(path, text, &j, err));
    json_t *turns = json_object_get(j, "turns");
    if (!json_is_array(turns))
        return cay_fail_why(err, CAY_EINVAL, "script_mismatch", "script %s has no list \"turns\"",
                            path);
    scripted *s = cay__alloc(sizeof *s);
    s->turns = json_incref(turns);
    s->functions = !strcmp(cay__json_str(j, "api", "responses"), "chat");
    s->name = cay__strdup(cay__json_str(j, "model", "scripted"));
    *out = cay_model_new(s->functions ? &functions : &free_form, s, s->name);
    return 0;
}
