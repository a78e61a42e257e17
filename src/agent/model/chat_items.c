/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"
#include <base/mutant.h>

typedef struct chat {
    json_t *messages;
    json_t *images; /* of tool outputs, until the last output of a row has been written */
} chat;

static json_t *convert_part(const json_t *p)
{
    const char *type = cay__json_str(p, "type", "");
    if (!strcmp(type, "input_image") || !strcmp(type, "image_url")) {
        const json_t *url = json_object_get(p, "image_url");
        return json_pack("{s:s, s:{s:o}}", "type", "image_url", "image_url", "url",
                         json_is_string(url) ? json_incref((json_t *)url) : json_string(""));
    }
    const json_t *text = json_object_get(p, "text");
    if (!json_is_string(text))
        text = json_object_get(p, "refusal");
    if (json_is_string(text))
        return json_pack("{s:s, s:O}", "type", "text", "text", text);
    return NULL;
}

/* Text alone becomes a plain string, which every server understands. */
static json_t *convert_content(const json_t *c)
{
    if (json_is_string(c))
        return json_incref((json_t *)c);
    json_t *parts = json_array();
    bool text = true;
    CAY_EACH_ITEM(p, c) {
        json_t *one = convert_part(p);
        text = text && (!one || !strcmp(cay__json_str(one, "type", ""), "text"));
        if (one)
            json_array_append_new(parts, one);
    }
    if (!text)
        return parts;
    CAY_AUTOBUF b = CAY__BUF(64u << 20);
    CAY_EACH_ITEM(p, parts) {
        const json_t *t = json_object_get(p, "text");
        cay__buf_add(&b, json_string_value(t), json_string_length(t));
    }
    json_decref(parts);
    return json_stringn(CAY_OR(b.data, ""), b.len);
}

static void flush_images(chat *c)
{
    if (!json_array_size(c->images))
        return;
    json_array_insert_new(
        c->images, 0,
        json_pack("{s:s, s:s}", "type", "text", "text", "Images from the tools above:"));
    json_array_append_new(c->messages,
                          json_pack("{s:s, s:o}", "role", "user", "content", c->images));
    c->images = json_array();
}

static void add_message(chat *c, const json_t *item)
{
    const char *role = cay__json_str(item, "role", "user");
    flush_images(c);
    json_array_append_new(
        c->messages, json_pack("{s:s, s:o}", "role", !strcmp(role, "developer") ? "system" : role,
                               "content", convert_content(json_object_get(item, "content"))));
}

static void add_call(chat *c, const json_t *item, const json_t *arguments)
{
    flush_images(c);
    json_t *last = json_array_get(c->messages, json_array_size(c->messages) - 1);
    if (!last || strcmp(cay__json_str(last, "role", ""), "assistant")) {
        last = json_pack("{s:s, s:n}", "role", "assistant", "content");
        json_array_append_new(c->messages, last);
    }
    json_t *calls = json_object_get(last, "tool_calls");
    if (!calls) {
        calls = json_array();
        json_object_set_new(last, "tool_calls", calls);
    }
    json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:s, s:O}}", "id",
                                           cay__json_str(item, "call_id", ""), "type", "function",
                                           "function", "name", cay__json_str(item, "name", ""),
                                           "arguments", arguments));
}

/* A free-form call of a run that began elsewhere. */
static void add_custom(chat *c, const json_t *item)
{
    CAY_AUTOJSON *o = json_pack("{s:s}", "input", cay__json_str(item, "input", ""));
    CAY_AUTOFREE char *text = cay__json_text(o, 64u << 20);
    CAY_AUTOJSON *s = json_string(CAY_OR(text, "{}"));
    add_call(c, item, s);
}

static void add_output(chat *c, const json_t *item)
{
    const json_t *out = json_object_get(item, "output");
    CAY_AUTOBUF b = CAY__BUF(64u << 20);
    if (json_is_string(out))
        cay__buf_add(&b, json_string_value(out), json_string_length(out));
    CAY_EACH_ITEM(p, out) {
        json_t *one = convert_part(p);
        const json_t *t = json_object_get(one, "text");
        if (json_is_string(t))
            cay__buf_add(&b, json_string_value(t), json_string_length(t));
        else if (one)
            cay__buf_str(&b, "(an image, shown below)"), json_array_append(c->images, one);
        json_decref(CAY__MUTANT("fuzz-agent_answer") ? NULL : one);
    }
    json_array_append_new(c->messages, json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id",
                                                 cay__json_str(item, "call_id", ""), "content",
                                                 json_stringn(CAY_OR(b.data, ""), b.len)));
}

json_t *cay__chat_messages(const json_t *items, const char *instructions)
{
    chat c = { .messages = json_array(), .images = json_array() };
    if (instructions && *instructions)
        json_array_append_new(c.messages,
                              json_pack("{s:s, s:s}", "role", "system", "content", instructions));
    CAY_EACH_ITEM(item, items) {
        const char *type = cay__json_str(item, "type", "message");
        if (!strcmp(type, "message"))
            add_message(&c, item);
        else if (!strcmp(type, "function_call"))
            add_call(&c, item, json_object_get(item, "arguments"));
        else if (!strcmp(type, "custom_tool_call"))
            add_custom(&c, item);
        else if (!strcmp(type, "function_call_output") || !strcmp(type, "custom_tool_call_output"))
            add_output(&c, item);
        /* Reasoning and compaction items mean nothing to this API. */
    }
    flush_images(&c);
    json_decref(c.images);
    return c.messages;
}

json_t *cay__chat_tools(const json_t *tools)
{
    json_t *list = json_array();
    CAY_EACH_ITEM(t, tools) {
        json_t *f = json_object();
        static const char *const keys[] = { "name", "description", "parameters", "strict" };
        CAY_EACH(key, keys)
            if (json_object_get(t, *key))
                json_object_set(f, *key, json_object_get(t, *key));
        json_array_append_new(list, json_pack("{s:s, s:o}", "type", "function", "function", f));
    }
    return list;
}
