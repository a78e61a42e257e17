/* SPDX-License-Identifier: Apache-2.0 */
/* The tools of an agent as a model sees them, and what they answer with. */
#include "run.h"
#include "capability/output.h"
#include <base/base64.h>
#include <ctype.h>

enum { OUTPUT_MAX = 32 << 20 };
#define NO_PARAMETERS "{\"type\":\"object\",\"properties\":{},\"required\":[]}"
#define NO_INPUT                                                                                   \
    "{\"type\":\"object\",\"properties\":{},\"required\":[],\"additionalProperties\":false}"
#define TEXT_PARAMETERS                                                                            \
    "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},\"required\":["         \
    "\"input\"]}"

/* Letters, digits and _; as models want function names. */
bool cay__tool_name(char *dst, size_t cap, const char *prefix, const char *name)
{
    size_t n = 0;
    for (const char *s = prefix; *s && n + 1 < cap; s++)
        dst[n++] = *s;
    for (const char *s = name; *s && n + 1 < cap; s++)
        dst[n++] = isalnum((unsigned char)*s) ? (char)tolower((unsigned char)*s) : '_';
    dst[n] = 0;
    return strlen(prefix) + strlen(name) < cap;
}

const cay_tool *cay__tool_find(const cay__seat *s, const char *name)
{
    for (size_t i = 0; i < s->ntools; i++)
        if (!strcmp(s->tools[i]->name, name))
            return s->tools[i];
    return NULL;
}

static void handoff_name(const cay_handoff *h, char *buf, size_t cap)
{
    if (h->tool)
        snprintf(buf, cap, "%s", h->tool);
    else
        cay__tool_name(buf, cap, "transfer_to_", h->agent->name);
}

const cay_handoff *cay__handoff_find(const cay__seat *s, const char *name)
{
    char buf[96];
    CAY_EACH_OF(handoff, s->agent->handoffs, s->agent->nhandoffs) {
        handoff_name(handoff, buf, sizeof buf);
        if (!strcmp(buf, name))
            return handoff;
    }
    return NULL;
}

static int parse_parameters(const char *tool, const char *text, json_t **out, cay_err *err)
{
    int rc = cay__json_object("its parameters", text, out, err);
    if (rc < 0)
        return cay_wrap(err, rc, "tool %.64s", tool);
    return 0;
}

static int add_tool(json_t *list, const cay_tool *t, bool custom, cay_err *err)
{
    const char *about = CAY_OR(t->description, "");
    if (!t->name || !*t->name || strlen(t->name) > 64 ||
        strspn(t->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
            strlen(t->name))
        return cay_fail(
            err, CAY_EINVAL,
            "a tool's name \"%.70s\" has letters, digits, _ and -, and at most 64 of them",
            CAY_OR(t->name, ""));
    if (t->grammar && custom) {
        json_t *j =
            json_pack("{s:s, s:s, s:s}", "type", "custom", "name", t->name, "description", about);
        if (*t->grammar)
            json_object_set_new(j, "format",
                                json_pack("{s:s, s:s, s:s}", "type", "grammar", "syntax", "lark",
                                          "definition", t->grammar));
        json_array_append_new(list, j);
        return 0;
    }
    json_t *p = NULL;
    CAY_TRY(parse_parameters(
        t->name, CAY_OR(t->parameters, t->grammar ? TEXT_PARAMETERS : NO_PARAMETERS), &p, err));
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:b}", "type", "function", "name",
                                          t->name, "description", about, "parameters", p, "strict",
                                          t->strict && !t->grammar));
    return 0;
}

static int add_handoff(json_t *list, const cay_handoff *h, cay_err *err)
{
    char name[96], about[512];
    json_t *p = NULL;
    handoff_name(h, name, sizeof name);
    CAY_FORMAT(about, "Handoff to the %s agent to handle the request. %s", h->agent->name,
               CAY_OR(h->agent->handoff_description, ""));
    CAY_TRY(parse_parameters(name, CAY_OR(h->parameters, NO_INPUT), &p, err));
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:b}", "type", "function", "name",
                                          name, "description", CAY_OR(h->description, about),
                                          "parameters", p, "strict", 0));
    return 0;
}

int cay__tools_json(const cay__seat *s, const cay_model *m, char **out, cay_err *err)
{
    CAY_AUTOJSON *list = json_array();
    char name[96];
    for (size_t i = 0; i < s->ntools; i++) {
        if (cay__tool_find(s, s->tools[i]->name) != s->tools[i])
            return cay_fail(err, CAY_EINVAL, "agent %.60s has two tools named %.64s",
                            s->agent->name, s->tools[i]->name);
        CAY_TRY(add_tool(list, s->tools[i], cay_model_kind(m)->custom_tools, err));
    }
    CAY_EACH_OF(handoff, s->agent->handoffs, s->agent->nhandoffs) {
        handoff_name(handoff, name, sizeof name);
        if (cay__tool_find(s, name) || cay__handoff_find(s, name) != handoff)
            return cay_fail(
                err, CAY_EINVAL,
                "agent %.60s has two tools named %.64s; give the handoff a name of its own",
                s->agent->name, name);
        CAY_TRY(add_handoff(list, handoff, err));
    }
    CAY_TRY(cay__hosted_fit(s->hosted, m, s->agent->name, err));
    json_array_extend(list, s->hosted);
    *out = cay__json_text(list, CAY__TEXT_MAX);
    if (*out)
        return 0;
    return cay_fail(err, CAY_EINVAL, "the tools of agent %.60s are no UTF-8 text", s->agent->name);
}

void cay_output_text(cay_tool_output *o, const char *text, size_t len)
{
    o->text.max = OUTPUT_MAX;
    cay__buf_sound(&o->text, text, len);
}

static void flush_text(cay_tool_output *o)
{
    if (o->text.len)
        json_array_append_new(o->parts, json_pack("{s:s, s:o}", "type", "input_text", "text",
                                                  json_stringn(o->text.data, o->text.len)));
    cay__buf_clear(&o->text);
}

void cay_output_image(cay_tool_output *o, const char *media_type, const void *data, size_t len)
{
    CAY_AUTOBUF url = CAY__BUF(64u << 20);
    if (!o->parts)
        o->parts = json_array();
    flush_text(o);
    cay__buf_fmt(&url, "data:%s;base64,", media_type);
    cay__base64_put(&url, data, len);
    json_array_append_new(o->parts, json_pack("{s:s, s:o}", "type", "input_image", "image_url",
                                              json_stringn(url.data, url.len)));
}

void cay__output_encoded(cay_tool_output *o, const char *media_type, const char *base64)
{
    CAY_AUTOBUF url = CAY__BUF(64u << 20);
    if (strspn(base64, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") !=
            strlen(base64) ||
        strncmp(media_type, "image/", 6) || strlen(media_type) > 64)
        return;
    if (!o->parts)
        o->parts = json_array();
    flush_text(o);
    cay__buf_fmt(&url, "data:%s;base64,%s", media_type, base64);
    json_t *part =
        CAY_IF(!url.full, json_pack("{s:s, s:s}", "type", "input_image", "image_url", url.data));
    if (part)
        json_array_append_new(o->parts, part);
}

json_t *cay__output_take(cay_tool_output *o)
{
    json_t *j;
    if (o->parts) {
        flush_text(o);
        j = CAY_STEAL(o->parts);
    } else {
        j = json_stringn(CAY_OR(o->text.data, ""), o->text.len);
    }
    cay__buf_clear(&o->text);
    return CAY_OR(j, json_string(""));
}
