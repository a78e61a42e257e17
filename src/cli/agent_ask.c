/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include <base/json.h>
#include <sys/ioctl.h>

enum { VALUE_BYTES = 4096, VALUE_LINES = 60, ARGUMENTS = 32, STATE_MOST = 256 << 20 };
#define LINE    "    | "
#define GOES_ON "    \\ "

/* One line, broken by us: where a terminal breaks it, blanks could make the rest look like a line
 * of ours. */
static void put_line(cay__buf *b, const char *s, size_t n, size_t width)
{
    size_t room = width - (sizeof LINE - 1), at = 0;
    cay__buf_str(b, LINE);
    while (n) {
        size_t k = cay__utf8_len(s, n), start = b->len;
        k = CAY_OR(k, 1);
        cay__buf_safe(b, s, k, true);
        size_t cols = 8;
        if (*s != '\t')
            cols = b->len - start;
        if (at && at + cols > room) {
            b->len = CAY_MIN(start, b->len);
            cay__buf_str(b, "\n" GOES_ON);
            cay__buf_safe(b, s, k, true);
            at = 0;
        }
        at += cols;
        s += k;
        n -= k;
    }
    cay__buf_str(b, "\n");
}

/* Tells how many bytes it left out. */
static size_t put_text(cay__buf *b, const char *s, size_t n, size_t width, bool whole)
{
    size_t at = 0;
    for (size_t lines = 0; at < n || !lines; lines++) {
        const char *nl = NULL;
        if (at < n)
            nl = memchr(s + at, '\n', n - at);
        size_t end = n;
        if (nl)
            end = (size_t)(nl - s);
        if (!whole && lines == VALUE_LINES)
            break;
        if (!whole && end > VALUE_BYTES) {
            for (end = CAY_MAX(at, (size_t)VALUE_BYTES); end > at && (s[end] & 0xc0) == 0x80;)
                end--;
            put_line(b, s + at, end - at, width);
            return n - end;
        }
        put_line(b, s + at, end - at, width);
        at = end + 1;
    }
    if (at < n)
        return n - at;
    return 0;
}

static void put_name(cay__buf *b, const char *name)
{
    bool plain =
        *name && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
                     strlen(name);
    plain ? cay__buf_str(b, name) : cay__buf_json(b, name, strlen(name));
}

size_t agent_ask_text(cay__buf *b, const char *tool, const char *arguments, size_t width,
                      bool whole)
{
    CAY_AUTOJSON *a = NULL;
    const char *key;
    json_t *v;
    size_t hidden = 0, shown = 0;
    width = CAY_MAX(width, (size_t)20);
    put_name(b, tool);
    cay__buf_str(b, "\n");
    if (cay__json_object("it", arguments, &a, NULL) <
        0) /* free-form, or two arguments of one name: as it is */
        hidden = put_text(b, arguments, strlen(arguments), width, whole);
    json_object_foreach(a, key, v) {
        CAY_AUTOFREE char *text = NULL;
        if (!json_is_string(v))
            text = cay__json_text(v, STATE_MOST);
        const char *s = CAY_OR(text, json_is_string(v) ? json_string_value(v) : "");
        size_t n;
        if (text)
            n = strlen(text);
        else
            n = json_string_length(v);
        b->full = b->full || (!text && !json_is_string(v)); /* too large to show */
        if (!whole && shown++ >= ARGUMENTS) {
            hidden += strlen(key) + n;
            continue;
        }
        cay__buf_str(b, "  ");
        put_name(b, key);
        cay__buf_str(b, "\n");
        hidden += put_text(b, s, n, width, whole);
    }
    if (hidden)
        cay__buf_fmt(b, "  %zu bytes of it are not shown; s shows all\n", hidden);
    return hidden;
}

/* Answers come from the terminal itself, so that a task may be piped in. */
cay_verdict agent_ask(void *arg, const cay_tool_call *call, char **message)
{
    const char *mode = arg;
    char said[256] = "s";
    if (!strcmp(mode, "never"))
        return CAY_REJECT;
    if (!strcmp(mode, "auto"))
        return CAY_APPROVE;
    CAY_AUTOFD tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    for (bool whole = false; !strcmp(said, "s") || !strcmp(said, "show"); whole = true) {
        CAY_AUTOBUF b = CAY__BUF(16 * strlen(call->arguments) + 65536);
        struct winsize ws = { .ws_col = 0 };
        if (tty < 0)
            return CAY_ASK_LATER;
        bool sized = ioctl(tty, TIOCGWINSZ, &ws) == 0 && ws.ws_col;
        bool hides =
            agent_ask_text(&b, call->tool, call->arguments, sized ? ws.ws_col : 80, whole) > 0;
        cay__buf_fmt(&b, "run it? y(es), a(lways), n(o), l(ater)%s, or why not: ",
                     hides ? ", s(how all)" : "");
        if (b.full || !cay__fd_write_all(tty, b.data, b.len))
            return CAY_ASK_LATER; /* nobody says yes to what was not seen */
        ssize_t n = read(tty, said, sizeof said - 1);
        if (n <= 0)
            return CAY_ASK_LATER;
        said[n] = 0;
        said[strcspn(said, "\r\n")] = 0;
    }
    if (!strcmp(said, "y") || !strcmp(said, "yes"))
        return CAY_APPROVE;
    if (!strcmp(said, "a") || !strcmp(said, "always"))
        return CAY_APPROVE_ALWAYS;
    if (!strcmp(said, "l") || !strcmp(said, "later") || !*said)
        return CAY_ASK_LATER;
    if (strcmp(said, "n") && strcmp(said, "no"))
        *message = cay__strdup(said);
    return CAY_REJECT;
}

char *agent_ask_forget(const char *state)
{
    CAY_AUTOJSON *st = NULL;
    const char *tool;
    json_t *a;
    if (cay__json_object("it", state, &st, NULL) < 0)
        return NULL;
    json_object_foreach(json_object_get(json_object_get(st, "context"), "approvals"), tool, a)
        json_object_del(a, "approved");
    return cay__json_text(st, STATE_MOST);
}
