/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include <base/json.h>
#include <math.h>

enum { FIELDS_MAX = 32, TRIES = 3, TEXT_MAX = 8192 };

/* What was typed as a value of that type, or NULL. */
static json_t *value_of(const json_t *field, const char *text)
{
    const char *type = cay__json_str(field, "type", "string");
    const json_t *of = json_object_get(field, "enum");
    char *end = NULL;
    size_t i;
    json_t *one;
    if (!strcmp(type, "boolean")) {
        if (!strcmp(text, "y") || !strcmp(text, "yes") || !strcmp(text, "true"))
            return json_true();
        if (!strcmp(text, "n") || !strcmp(text, "no") || !strcmp(text, "false"))
            return json_false();
        return NULL;
    }
    if (!strcmp(type, "integer")) {
        long long n = strtoll(text, &end, 10);
        if (*text && !*end)
            return json_integer(n);
        return NULL;
    }
    if (!strcmp(type, "number")) {
        double n = strtod(text, &end);
        if (*text && !*end && isfinite(n))
            return json_real(n);
        return NULL;
    }
    json_array_foreach(of, i, one)
        if (json_is_string(one) && !strcmp(json_string_value(one), text))
            return json_incref(one);
    if (of)
        return NULL;
    return json_string(text);
}

static void put_safe(cay__buf *b, const char *text)
{
    cay__buf_safe(b, text, strlen(text), false);
}

static void put_question(cay__buf *b, const char *key, const json_t *field, bool needed)
{
    const char *about = cay__json_str(field, "description", cay__json_str(field, "title", ""));
    const json_t *of = json_object_get(field, "enum"), *usual = json_object_get(field, "default");
    size_t i;
    json_t *one;
    cay__buf_str(b, "  ");
    put_safe(b, key);
    if (*about) {
        cay__buf_str(b, ", ");
        put_safe(b, about);
    }
    cay__buf_str(b, " (");
    if (of) {
        json_array_foreach(of, i, one) {
            cay__buf_str(b, i ? "|" : "");
            put_safe(b, json_is_string(one) ? json_string_value(one) : "?");
        }
    } else {
        put_safe(b, !strcmp(cay__json_str(field, "type", ""), "boolean")
                        ? "y|n"
                        : cay__json_str(field, "type", "string"));
    }
    CAY_AUTOFREE char *text = NULL;
    if (usual)
        text = cay__json_text(usual, 200);
    if (text) {
        cay__buf_str(b, ", else ");
        put_safe(b, text);
    }
    if (!needed && !text)
        cay__buf_str(b, ", or nothing");
    cay__buf_str(b, "): ");
}

static bool is_needed(const json_t *schema, const char *key)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(schema, "required"), i, one)
        if (json_is_string(one) && !strcmp(json_string_value(one), key))
            return true;
    return false;
}

/* 1: it is filled in or left out; 0: declined; negative: nobody answers any more. */
static int ask_field(const char *head, const char *key, const json_t *field, bool needed,
                     char *(*ask)(void *arg, const char *question), void *arg, json_t *out)
{
    for (int i = 0; i < TRIES; i++) {
        CAY_AUTOBUF b = CAY__BUF(4 * TEXT_MAX);
        cay__buf_str(&b, i ? "  that does not fit\n" : head);
        put_question(&b, key, field, needed);
        CAY_AUTOFREE char *said = b.full || !b.data ? NULL : ask(arg, b.data);
        if (!said)
            return -1;
        json_t *usual = json_object_get(field, "default"),
               *v = *said ? value_of(field, said) : json_incref(usual);
        if (v)
            json_object_set_new(out, key, v);
        if (v || (!*said && !needed))
            return 1;
        if (!*said)
            return 0;
    }
    return 0;
}

int agent_form(const char *server, const char *message, const char *schema,
               char *(*ask)(void *arg, const char *question), void *arg, char **content)
{
    CAY_AUTOJSON *s = json_loads(schema, 0, NULL), *out = json_object();
    CAY_AUTOBUF head = CAY__BUF(4 * TEXT_MAX);
    const char *key;
    json_t *field;
    int rc = 1;
    if (json_object_size(json_object_get(s, "properties")) > FIELDS_MAX)
        return 0;
    cay__buf_str(&head, "MCP server ");
    put_safe(&head, server);
    cay__buf_str(&head, " asks: ");
    put_safe(&head, message);
    cay__buf_str(&head, "\n");
    if (head.full)
        return 0;
    json_object_foreach(json_object_get(s, "properties"), key, field) {
        rc = ask_field(head.len ? head.data : "", key, field, is_needed(s, key), ask, arg, out);
        head.len = 0;
        if (rc <= 0)
            return rc;
    }
    *content = cay__json_text(out, 1 << 20);
    if (*content)
        return 1;
    return 0;
}

cay_verdict agent_sample(void *arg, const char *server, const char *request, char **message)
{
    char tool[80];
    CAY_FORMAT(tool, "%.60s_asks_the_model", server);
    cay_tool_call call = { .tool = tool, .call_id = "", .arguments = request };
    return agent_ask(arg, &call, message);
}

static char *ask_tty(void *arg, const char *question)
{
    int tty = *(int *)arg;
    char said[1024];
    ssize_t n = -1;
    if (cay__fd_write_all(tty, question, strlen(question)))
        n = read(tty, said, sizeof said - 1);
    if (n <= 0)
        return NULL;
    said[n] = 0;
    said[strcspn(said, "\r\n")] = 0;
    return cay__strdup(said);
}

int agent_elicit(void *arg, const char *server, const char *message, const char *schema,
                 char **content)
{
    CAY_AUTOFD tty = -1;
    if (strcmp(arg, "never"))
        tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    int fd = tty;
    if (fd < 0)
        return 0;
    return agent_form(server, message, schema, ask_tty, &fd, content);
}
