/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include "cli.h"
#include <base/json.h>

enum { SHOWN_LINES = 8, SHOWN_WIDTH = 160 };

void agent_show_begin(agent_show *s)
{
    *s = (agent_show){ .live = isatty(1) && !cli.json, .calls = json_object() };
}

void agent_show_end(agent_show *s)
{
    json_decref(s->calls);
    json_decref(s->said);
    *s = (agent_show){ .live = false };
}

static void write_text(int fd, const char *text)
{
    cay__fd_write_all(fd, text, strlen(text));
}

static void write_escaped(int fd, const char *text, size_t n)
{
    CAY_AUTOBUF b = CAY__BUF(n * 4 + 8);
    cay__buf_safe(&b, text, n, true);
    if (b.len)
        cay__fd_write_all(fd, b.data, b.len);
}

/* Progress goes to standard error unless it was asked to be quiet. */
static void write_line(agent_show *s, out_style style, const char *text)
{
    if (cli.quiet || cli.json)
        return;
    if (s->in_line)
        write_text(1, "\n");
    s->in_line = false;
    write_text(2, out_on(2, style));
    write_escaped(2, text, strlen(text));
    write_text(2, out_off(2));
    write_text(2, "\n");
}

static void show_said(agent_show *s)
{
    CAY_AUTOJSON *item = CAY_STEAL(s->said);
    size_t i;
    json_t *part;
    json_array_foreach(json_object_get(item, "content"), i, part) {
        const char *text = cay__json_str(part, "text", "");
        if (*text)
            write_line(s, OUT_PLAIN, text);
    }
}

/* A call in passing: its tool and what matters most of its arguments. */
static void show_call(int fd, const char *tool, const char *arguments)
{
    CAY_AUTOJSON *a = json_loads(arguments, 0, NULL);
    const char *what = arguments;
    static const char *const keys[] = { "cmd",        "patch", "path", "input",
                                        "skill_name", "chars", "code", "url" };
    CAY_EACH(key, keys)
        if (json_is_string(json_object_get(a, *key))) {
            what = json_string_value(json_object_get(a, *key));
            break;
        }
    write_text(fd, out_on(fd, OUT_BOLD));
    write_escaped(fd, tool, strlen(tool));
    write_text(fd, out_off(fd));
    write_text(fd, " ");
    size_t n = 0, lines = 0; /* of a patch or script: enough to see what it is */
    while (what[n] && lines < 24 && n < 4000)
        lines += what[n++] == '\n';
    write_escaped(fd, what, n);
    if (what[n])
        write_text(fd, "…");
    if (n && what[n - 1] != '\n')
        write_text(fd, "\n");
}

static void call_line(agent_show *s, const char *tool, const char *arguments)
{
    if (cli.quiet || cli.json)
        return;
    if (s->in_line)
        write_text(1, "\n");
    s->in_line = false;
    s->streamed = false;
    write_text(2, out_on(2, OUT_TITLE));
    write_text(2, "→ ");
    write_text(2, out_off(2));
    show_call(2, tool, arguments);
}

/* A model may ask for several at once: each has its line when it begins, and what it gave behind
 * that. One that does not begin has it with what became of it. */
static void show_waiting(agent_show *s, const char *id)
{
    const json_t *item = json_object_get(s->calls, id);
    if (!item)
        return;
    call_line(s, cay__json_str(item, "name", ""),
              cay__json_str(item, json_object_get(item, "input") ? "input" : "arguments", ""));
    json_object_del(s->calls, id);
}

void agent_show_start(void *arg, cay_run *run, const cay_tool_call *call)
{
    agent_show *s = arg;
    if (!s->answered) /* a run that goes on: it was asked for when that was saved */
        call_line(s, call->tool, call->arguments);
    show_waiting(s, call->call_id);
}

static void show_output(agent_show *s, const json_t *item)
{
    const json_t *out = json_object_get(item, "output");
    const char *text = "(an image)";
    if (json_is_string(out))
        text = json_string_value(out);
    const char *body = strstr(text, "Output:\n");
    size_t lines = 0;
    if (body) { /* the head of a command's answer says only how it ended */
        const char *code = strstr(text, "Process exited with code ");
        if (code && code < body && strncmp(code + 25, "0\n", 2)) {
            char told[64];
            CAY_FORMAT(told, "  exit code %.*s", (int)strcspn(code + 25, "\n"), code + 25);
            write_line(s, OUT_WARN, told);
        }
        text = body + 8;
    }
    for (const char *p = text; *p; lines++) {
        char one[SHOWN_WIDTH + 8] = "  ";
        size_t n = strcspn(p, "\n");
        if (lines == SHOWN_LINES) {
            write_line(s, OUT_DIM, "  …");
            break;
        }
        size_t cut = CAY_MIN(n, (size_t)SHOWN_WIDTH);
        while (cut && cut < n && (p[cut] & 0xc0) == 0x80)
            cut--;
        while (cut && p[cut - 1] == '\r') /* a terminal's line end */
            cut--;
        memcpy(one + 2, p, cut);
        one[2 + cut] = 0;
        write_line(s, OUT_DIM, one);
        p += n + (p[n] == '\n');
    }
}

static void show_item(agent_show *s, const char *name, const char *json)
{
    CAY_AUTOJSON *item = json_loads(json, JSON_DECODE_ANY, NULL);
    s->answered = s->answered || strcmp(name, "tool_output");
    show_said(s);
    if (!strcmp(name, "message_output_created")) {
        if (s->in_line)
            write_text(1, "\n");
        s->in_line = false;
        if (!s->streamed)
            s->said = json_incref(item);
    } else if (!strcmp(name, "tool_called") || !strcmp(name, "handoff_requested")) {
        agent_hosted_line theirs;
        const char *id = cay__json_str(item, "call_id", "");
        if (agent_hosted_told(item, &theirs)) {
            call_line(s, theirs.tool, theirs.what);
        } else {
            json_object_set(s->calls, id, item);
            if (*name == 'h')
                show_waiting(s, id);
        }
    } else if (!strcmp(name, "tool_output")) {
        show_waiting(s, cay__json_str(item, "call_id", ""));
        show_output(s, item);
    } else if (!strcmp(name, "approval_requested")) {
        show_waiting(s, cay__json_str(item, "call_id", ""));
        write_line(s, OUT_WARN, "  waits for approval");
    }
}

static void show_delta(agent_show *s, const char *json)
{
    CAY_AUTOJSON *ev = json_loads(json, 0, NULL);
    const json_t *d = json_object_get(ev, "delta");
    if (!s->live || !json_is_string(d) || !json_string_length(d))
        return;
    write_escaped(1, json_string_value(d), json_string_length(d));
    s->in_line = json_string_value(d)[json_string_length(d) - 1] != '\n';
    s->streamed = true;
}

static void show_note(agent_show *s, const char *name, const char *json)
{
    CAY_AUTOJSON *j = json_loads(json, JSON_DECODE_ANY, NULL);
    char text[600];
    if (!strcmp(name, "retry"))
        CAY_FORMAT(text, "cay: asking again in %.1f s: %.300s",
                   (double)cay__json_int(j, "wait_ms", 0) / 1000, cay__json_str(j, "why", ""));
    else if (!strcmp(name, "sandbox"))
        CAY_FORMAT(text, "cay: sandbox %.100s", json_is_string(j) ? json_string_value(j) : "");
    else
        CAY_FORMAT(text, "cay: %.40s: %.400s", name, json_is_string(j) ? json_string_value(j) : "");
    write_line(s, OUT_DIM, text);
}

static void json_line(const cay_run_event *ev)
{
    static const char *const kinds[] = { [CAY_RUN_RAW] = "raw",
                                         [CAY_RUN_AGENT] = "agent",
                                         [CAY_RUN_ITEM] = "item",
                                         [CAY_RUN_NOTE] = "note" };
    out_object(false, "event:%s, name:%s, agent:%s, data=%s", kinds[ev->kind], ev->name,
               ev->agent ? ev->agent->name : "", ev->json);
}

int agent_show_event(void *arg, const cay_run_event *ev)
{
    agent_show *s = arg;
    if (cli.json)
        json_line(ev);
    else if (ev->kind == CAY_RUN_RAW && !strcmp(ev->name, "response.output_text.delta"))
        show_delta(s, ev->json);
    else if (ev->kind == CAY_RUN_ITEM)
        show_item(s, ev->name, ev->json);
    else if (ev->kind == CAY_RUN_NOTE)
        show_note(s, ev->name, ev->json);
    if (out_broken())
        return -1;
    return 0;
}

static void json_result(const cay_run_result *r, const char *state_file)
{
    out_json j = js_begin(false, '{');
    js_put(&j,
           "event:%s, output:%s, agent:%s, turns:%u, usage:{requests:%ju, input_tokens:%ju, "
           "cached_tokens:%ju, output_tokens:%ju, total_tokens:%ju, entries=%s}, trace=%s, "
           "session_state=%s, sandbox:%s, interruptions:[",
           r->output ? "result" : "interrupted", r->output, r->agent, r->turns, r->usage.requests,
           r->usage.input, r->usage.cached, r->usage.output, r->usage.total, r->requests, r->trace,
           r->sandbox_state, r->sandbox);
    CAY_EACH_OF(it, r->interruptions, r->ninterruptions)
        js_object(&j, "call_id:%s, tool:%s, arguments:%s", it->call_id, it->tool, it->arguments);
    js_close(&j, ']');
    js_put(&j, "state_file:%s", CAY_IF(!r->output, state_file));
    js_end(&j, '}');
}

void agent_show_result(agent_show *s, const cay_run_result *r, const char *state_file)
{
    if (cli.json) {
        json_result(r, state_file);
        return;
    }
    if (r->output && !(s->live && s->streamed)) {
        out_data(1, r->output, strlen(r->output));
        if (!*r->output || r->output[strlen(r->output) - 1] != '\n')
            out_str("\n");
    }
    char text[200];
    CAY_FORMAT(text, "cay: %u turn%s, %ju tokens in, %ju out", r->turns, out_plural(r->turns, "s"),
               r->usage.input, r->usage.output);
    write_line(s, OUT_DIM, text);
}
