/* SPDX-License-Identifier: Apache-2.0 */
/* May it? All of a call is in sight before somebody says yes. */
#include "chat.h"
#include <base/base.h>
#include <cli/agent.h>
#include <cli/pump.h>

enum { WIDE = 60 }; /* columns that the long question wants */

const char *const chat_modes[] = { "ask", "auto", "never", NULL };

void chat_toggle(void *arg)
{
    chat *c = arg;
    if (c->mode == CHAT_AUTO)
        c->mode = CHAT_ASK;
    else
        c->mode = CHAT_AUTO;
}

static bool is_always_allowed(const chat *c, const char *tool)
{
    CAY_EACH_OF(it, c->always, c->nalways)
        if (!strcmp(*it, tool))
            return true;
    return false;
}

/* The lines of a patch get the colours of a diff; agent_ask_text() has marked and escaped each of
 * them. */
static void print_call(const char *s, size_t n, bool patch)
{
    for (size_t at = 0; at < n;) {
        const char *nl = memchr(s + at, '\n', n - at);
        size_t k;
        if (nl)
            k = (size_t)(nl - (s + at)) + 1;
        else
            k = n - at;
        char first = 0;
        if (k > 6 && !memcmp(s + at, "    | ", 6))
            first = s[at + 6];
        const char *on;
        if (patch && first == '+')
            on = out_on(1, OUT_GOOD);
        else if (patch && first == '-')
            on = out_on(1, OUT_BAD);
        else
            on = "";
        CAY_AUTOBUF b = CAY__BUF(k + 96);
        if (!at) /* which tool it is */
            on = out_on(1, OUT_BOLD);
        cay__buf_str(&b, on);
        cay__buf_str(&b, at ? "" : "● ");
        cay__buf_add(&b, s + at, nl ? k - 1 : k);
        cay__buf_str(&b, *on ? out_off(1) : "");
        cay__buf_str(&b, nl ? "\n" : "");
        cay__fd_write_all(1, b.data, b.len);
        at += k;
    }
}

static cay_verdict decide_verdict(chat *c, const char *tool, char *said, char **message)
{
    if (!strcmp(said, "y") || !strcmp(said, "yes"))
        return CAY_APPROVE;
    if (!strcmp(said, "a") || !strcmp(said, "always")) {
        if (c->nalways < CHAT_ALWAYS)
            c->always[c->nalways++] = cay__strdup(tool);
        return CAY_APPROVE_ALWAYS;
    }
    if (*said && strcmp(said, "n") && strcmp(said, "no")) {
        CAY_AUTOBUF b = CAY__BUF(1 << 20);
        cay__buf_fmt(&b, "The user did not approve this call, and says: %s", said);
        *message = cay__strdup(CAY_OR(b.data, said));
    } else {
        *message = cay__strdup("The user did not approve this call.");
    }
    return CAY_REJECT;
}

cay_verdict chat_ask(void *arg, const cay_tool_call *call, char **message)
{
    chat *c = arg;
    CAY_AUTOFREE char *said = NULL;
    if (c->mode == CHAT_AUTO || is_always_allowed(c, call->tool))
        return CAY_APPROVE;
    if (c->mode == CHAT_NEVER || !c->tty) {
        *message = cay__strdup("Tool execution was not approved: there is nobody to ask.");
        return CAY_REJECT;
    }
    for (bool whole = false, again = true; again; whole = true) {
        chat_call_seen(c, call->call_id);
        CAY_AUTOBUF b = CAY__BUF(16 * strlen(call->arguments) + 65536);
        uint16_t cols, rows;
        term_size(1, &cols, &rows);
        bool hides = agent_ask_text(&b, call->tool, call->arguments, cols - (cols > 1), whole) > 0;
        if (b.full)
            return CAY_REJECT; /* nobody says yes to what was not seen */
        print_call(b.data, b.len, !strcmp(call->tool, "apply_patch"));
        free(said);
        CAY_AUTOBUF question = CAY__BUF(256);
        static const char *const choices[2][2] = {
            { "y, a, n, or why not: ", "y, a, n, s, or why not: " },
            { "y(es), a(lways), n(o), or why not: ",
              "y(es), a(lways), n(o), s(how all), or why not: " }
        };
        cay__buf_fmt(&question, "%srun it?%s %s", out_on(1, OUT_WARN), out_off(1),
                     choices[cols >= WIDE][hides]);
        said = chat_question(question.data);
        if (!said) {
            *message = cay__strdup("The user interrupted.");
            return CAY_REJECT;
        }
        again = !strcmp(said, "s") || !strcmp(said, "show");
    }
    return decide_verdict(c, call->tool, said, message);
}

cay_verdict chat_sample(void *arg, const char *server, const char *request, char **message)
{
    char tool[80];
    CAY_FORMAT(tool, "%.60s_asks_the_model", server);
    cay_tool_call call = { .tool = tool, .call_id = "", .arguments = request };
    return chat_ask(arg, &call, message);
}

/* What goes before the last line is ours to print: the editor knows prompts of one line. */
static char *ask_line(void *arg, const char *question)
{
    const char *last = strrchr(question, '\n');
    if (last)
        cay__fd_write_all(1, question, (size_t)(last + 1 - question));
    return chat_question(last ? last + 1 : question);
}

int chat_elicit(void *arg, const char *server, const char *message, const char *schema,
                char **content)
{
    chat *c = arg;
    if (!c->tty || c->mode == CHAT_NEVER)
        return 0;
    chat_quiet_lines(c);
    return agent_form(server, message, schema, ask_line, NULL, content);
}
