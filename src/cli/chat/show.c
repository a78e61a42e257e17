/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent says and does, as it happens. Whatever comes from a model or a sandbox is escaped
 * before a terminal gets it. */
#include "chat.h"
#include <base/base.h>
#include <cli/pump.h>
#include <stdarg.h>

enum { OUTPUT_LINES = 5, PATCH_LINES = 40, THOUGHT_LINES = 3 };

static void write_text(int fd, const char *s, size_t n)
{
    cay__fd_write_all(fd, s, n);
}

void chat_quiet_lines(chat *c)
{
    if (c->busy)
        spin_end();
    c->busy = false;
    md_paint_end(&c->paint);
    if (c->in_line)
        write_text(1, "\n", 1);
    c->in_line = false;
}

void chat_busy(chat *c, const char *what)
{
    if (!c->screen || !c->tty)
        return;
    chat_quiet_lines(c);
    spin_begin(what);
    c->busy = true;
}

/* An empty line between what belongs to different things, for people. */
static void write_blank_line(chat *c)
{
    if (c->screen && c->tty)
        write_text(1, "\n", 1);
    c->apart = false;
}

/* Answers go to standard output; all else does so on a terminal only. */
static int choose_fd(const chat *c)
{
    if (c->screen)
        return 1;
    return 2;
}

static size_t terminal_width(void)
{
    uint16_t cols, rows;
    term_size(1, &cols, &rows);
    if (cols > 20)
        return cols - 1;
    return 20;
}

/* One line, cut to the terminal. */
static void write_line(chat *c, out_style style, const char *lead, const char *s, size_t n)
{
    CAY_AUTOBUF b = CAY__BUF(1 << 20), safe = CAY__BUF(1 << 20);
    int fd = choose_fd(c);
    n = CAY_MIN(n, (size_t)4096);
    while (n && s[n - 1] == '\r') /* a terminal's line end */
        n--;
    for (size_t i = 0; i < n; i++)
        cay__buf_add(&safe, s[i] == '\t' ? " " : s + i, 1);
    cay__buf_fmt(&b, "%s%s", out_on(fd, style), lead);
    size_t at = b.len;
    cay__buf_safe(&b, CAY_OR(safe.data, ""), safe.len, false);
    size_t room = terminal_width() - CAY_MIN(md_columns(lead, strlen(lead)), terminal_width() - 1),
           fit = c->screen ? md_fit(b.data + at, b.len - at, room) : b.len - at;
    if (fit < b.len - at) {
        b.len = at + md_fit(b.data + at, b.len - at, room - 1);
        cay__buf_str(&b, "…");
    }
    cay__buf_fmt(&b, "%s\n", out_off(fd));
    write_text(fd, b.data, b.len);
}

/* On a terminal lines end between words; a word that is wider than all of it does not. */
static void wrap_text(cay__buf *b, const char *s, size_t n, size_t width)
{
    while (n) {
        const char *nl = memchr(s, '\n', n);
        size_t line = nl ? (size_t)(nl - s) : n, k = md_fit(s, line, width), cut = k;
        while (k < line && cut && s[cut] != ' ')
            cut--;
        if (k < line && cut)
            k = cut;
        cay__buf_add(b, s, k);
        while (k < line && s[k] == ' ')
            k++;
        k += nl && k == line;
        s += k;
        n -= k;
        if (n || nl)
            cay__buf_str(b, "\n");
    }
}

void chat_text(chat *c, out_style style, const char *fmt, ...)
{
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    chat_quiet_lines(c);
    if (n < 0 || (cli.quiet && style == OUT_DIM))
        return;
    int fd = choose_fd(c);
    cay__buf_str(&b, out_on(fd, style));
    if (isatty(fd)) {
        CAY_AUTOBUF safe = CAY__BUF(1 << 20);
        uint16_t cols, rows;
        term_size(fd, &cols, &rows);
        cay__buf_safe(&safe, text, (size_t)n, true);
        wrap_text(&b, CAY_OR(safe.data, ""), safe.len, CAY_MAX(cols, (uint16_t)16));
    } else {
        cay__buf_safe(&b, text, (size_t)n, true);
    }
    cay__buf_fmt(&b, "%s\n", out_off(fd));
    write_text(fd, b.data, b.len);
}

static chat_call *find_call(chat *c, const char *id)
{
    CAY_EACH_OF(call, c->calls, c->ncalls)
        if (!strcmp(call->id, id))
            return call;
    return NULL;
}

void chat_calls_clear(chat *c)
{
    CAY_EACH_OF(call, c->calls, c->ncalls) {
        free(call->id);
        free(call->tool);
        free(call->arguments);
    }
    free(c->calls);
    c->calls = NULL;
    c->ncalls = 0;
}

static void note_call(chat *c, const json_t *item)
{
    bool custom = json_object_get(item, "input") != NULL;
    CAY_GROW(c->calls, c->ncalls);
    c->calls[c->ncalls++] =
        (chat_call){ .id = cay__strdup(cay__json_str(item, "call_id", "")),
                     .tool = cay__strdup(cay__json_str(item, "name", "")),
                     .arguments =
                         cay__strdup(cay__json_str(item, custom ? "input" : "arguments", "")) };
}

/* Of a patch: what is added green, what goes red, names of files bold. */
void chat_patch(chat *c, const char *patch, size_t lines)
{
    for (const char *p = patch; *p; lines--) {
        size_t n = strcspn(p, "\n");
        bool mark = !strncmp(p, "*** Begin Patch", 15) || !strncmp(p, "*** End Patch", 13);
        out_style s;
        if (!strncmp(p, "*** ", 4) || !strncmp(p, "diff ", 5) || !strncmp(p, "+++", 3) ||
            !strncmp(p, "---", 3))
            s = OUT_BOLD;
        else if (*p == '+')
            s = OUT_GOOD;
        else if (*p == '-')
            s = OUT_BAD;
        else if (*p == '@')
            s = OUT_TITLE;
        else
            s = OUT_PLAIN;
        if (!lines) {
            write_line(c, OUT_DIM, "    ", "…", 3);
            return;
        }
        if (!mark)
            write_line(c, s, "    ", p, n);
        lines += mark;
        p += n + (p[n] == '\n');
    }
}

/* The patch inside of a call of apply_patch, either as it is or in a JSON object; malloc'ed. */
static char *patch_of(const char *arguments)
{
    CAY_AUTOJSON *a = NULL;
    if (*arguments == '{')
        a = json_loads(arguments, 0, NULL);
    const char *s = cay__json_str(a, "patch", cay__json_str(a, "input", NULL));
    return cay__strdup(CAY_OR(s, arguments));
}

/* A line for what was called, and room for what follows. */
static void call_line(chat *c, const char *tool, const char *what)
{
    CAY_AUTOBUF b = CAY__BUF(8192);
    chat_quiet_lines(c);
    write_blank_line(c);
    cay__buf_fmt(&b, "%.120s %.2000s", tool, what);
    CAY_EACH_OF(it, b.data, b.len) /* one line each */
    {
        if (*it == '\n')
            *it = ' ';
    }
    write_line(c, OUT_BOLD, c->screen ? "● " : "* ", b.data, b.len);
    c->apart = true;
}

static void show_call(chat *c, chat_call *call, bool whole)
{
    static const char *const keys[] = { "cmd",  "path", "skill_name", "chars",
                                        "text", "url",  "input",      "code" };
    CAY_AUTOJSON *a = json_loads(call->arguments, 0, NULL);
    const char *what = call->arguments;
    bool patch = !strcmp(call->tool, "apply_patch");
    if (call->shown)
        return;
    call->shown = true;
    for (size_t i = 0; i < CAY_LEN(keys) && a; i++)
        if (json_is_string(json_object_get(a, keys[i]))) {
            what = json_string_value(json_object_get(a, keys[i]));
            break;
        }
    call_line(c, call->tool, patch ? "" : what);
    if (patch && whole) {
        CAY_AUTOFREE char *text = patch_of(call->arguments);
        chat_patch(c, text, PATCH_LINES);
    }
}

void chat_tool_start(chat *c, const cay_tool_call *tool)
{
    chat_call *call = find_call(c, tool->call_id);
    char what[64];
    if (call)
        show_call(c, call, c->mode == CHAT_AUTO || !c->tty);
    CAY_FORMAT(what, "Running %.40s", tool->tool);
    for (char *p = what; *p; p++) {
        if (*p >= ' ' && *p < 127)
            *p = *p;
        else
            *p = '?';
    }
    chat_busy(c, what);
}

/* All of it is in sight already: somebody is asked about it. */
void chat_call_seen(chat *c, const char *id)
{
    chat_call *call = find_call(c, id);
    if (call)
        call->shown = true;
    chat_quiet_lines(c);
    write_blank_line(c);
    c->apart = true;
}

/* Folded: the first lines, and how many more there are. */
static void show_output(chat *c, const json_t *item)
{
    const json_t *out = json_object_get(item, "output");
    const char *text = json_is_string(out) ? json_string_value(out) : "(an image)",
               *body = strstr(text, "Output:\n");
    chat_call *call = find_call(c, cay__json_str(item, "call_id", ""));
    size_t lines = 0, more = 0;
    const char *lead = "  ", *next = "  ";
    if (c->screen) {
        lead = "  ⎿ ";
        next = "    ";
    }
    if (call)
        show_call(c, call, false);
    chat_quiet_lines(c);
    if (body) { /* the head of a command's answer says only how it ended */
        const char *code = strstr(text, "Process exited with code ");
        if (code && code < body && strncmp(code + 25, "0\n", 2)) {
            char told[64];
            CAY_FORMAT(told, "exit code %.*s", (int)strcspn(code + 25, "\n"), code + 25);
            write_line(c, OUT_WARN, lead, told, strlen(told));
            lead = next;
        }
        text = body + 8;
    }
    free(c->output);
    c->output = cay__strdup(text);
    for (const char *p = text; *p; lines++) {
        size_t n = strcspn(p, "\n");
        if (lines < OUTPUT_LINES) {
            write_line(c, OUT_DIM, lead, p, n);
            lead = next;
        }
        more += lines >= OUTPUT_LINES;
        p += n + (p[n] == '\n');
    }
    if (more)
        chat_text(c, OUT_DIM, "%s… %zu more line%s; /output shows all", next, more,
                  out_plural(more, "s"));
    c->apart = true;
}

/* What it thought, as far as the endpoint tells: a few words of it. */
static void show_thought(chat *c, const json_t *item)
{
    const char *text =
        cay__json_str(json_array_get(json_object_get(item, "summary"), 0), "text", "");
    if (!c->screen || !c->tty || !*text)
        return;
    chat_quiet_lines(c);
    write_blank_line(c);
    for (size_t lines = 0; *text && lines < THOUGHT_LINES; lines++) {
        size_t n = strcspn(text, "\n");
        write_line(c, OUT_DIM, lines ? "  " : "∴ ", text, n);
        text += n + (text[n] == '\n');
    }
    c->apart = true;
}

static void write_answer(chat *c, const char *s, size_t n)
{
    if (!n)
        return;
    if (c->busy)
        chat_quiet_lines(c);
    if (c->apart)
        write_blank_line(c);
    c->streamed = true;
    if (c->screen) {
        md_paint_add(&c->paint, s, n);
    } else {
        write_text(1, s, n);
        c->in_line = s[n - 1] != '\n';
    }
}

static void show_message(chat *c, const json_t *item)
{
    size_t i;
    json_t *part;
    if (!c->streamed)
        json_array_foreach(json_object_get(item, "content"), i, part) {
            const char *text = cay__json_str(part, "text", cay__json_str(part, "refusal", ""));
            write_answer(c, text, strlen(text));
        }
    chat_quiet_lines(c);
    c->streamed = false;
}

static void show_note(chat *c, const char *name, const char *json)
{
    CAY_AUTOJSON *j = json_loads(json, JSON_DECODE_ANY, NULL);
    if (!strcmp(name, "retry"))
        chat_text(c, OUT_DIM, "asking again in %.1f s: %.300s",
                  (double)cay__json_int(j, "wait_ms", 0) / 1000, cay__json_str(j, "why", ""));
    else if (strcmp(name, "sandbox"))
        chat_text(c, OUT_DIM, "%.40s: %.400s", name, json_is_string(j) ? json_string_value(j) : "");
}

int chat_event(void *arg, const cay_run_event *ev)
{
    chat *c = arg;
    if (ev->kind == CAY_RUN_RAW && (!strcmp(ev->name, "response.output_text.delta") ||
                                    !strcmp(ev->name, "response.refusal.delta"))) {
        CAY_AUTOJSON *j = json_loads(ev->json, 0, NULL);
        const char *d = cay__json_str(j, "delta", "");
        write_answer(c, d, strlen(d));
    } else if (ev->kind == CAY_RUN_NOTE) {
        show_note(c, ev->name, ev->json);
    } else if (ev->kind == CAY_RUN_ITEM) {
        CAY_AUTOJSON *item = json_loads(ev->json, JSON_DECODE_ANY, NULL);
        agent_hosted_line theirs;
        c->nitems++;
        if (!strcmp(ev->name, "message_output_created"))
            show_message(c, item);
        else if (!strcmp(ev->name, "tool_called") && agent_hosted_told(item, &theirs))
            call_line(c, theirs.tool, theirs.what);
        else if (!strcmp(ev->name, "tool_called"))
            note_call(c, item);
        else if (!strcmp(ev->name, "tool_output"))
            show_output(c, item);
        else if (!strcmp(ev->name, "reasoning_item_created"))
            show_thought(c, item);
    }
    if (out_broken())
        return -1;
    return 0;
}
