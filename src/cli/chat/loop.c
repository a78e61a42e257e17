/* SPDX-License-Identifier: Apache-2.0 */
/* A line typed, and what becomes of it. */
#include "chat.h"
#include <base/base.h>
#include <ctype.h>

static void show_splash(chat *c)
{
    chat_text(c, OUT_BOLD, "cay chat: %s, session %s", c->s.model, c->s.name);
    if (*c->s.dir)
        chat_text(c, OUT_DIM, "%s, copy-on-write; /apply takes changes over, /help explains",
                  c->s.dir);
    else
        chat_text(c, OUT_DIM, "sandbox %s; /help explains", c->s.sandbox);
    if (c->s.turns)
        chat_text(c, OUT_DIM, "%ju turn%s so far", c->s.turns, out_plural(c->s.turns, "s"));
}

static void dispatch_line(chat *c, char *line)
{
    size_t n = strlen(line);
    while (n && isspace((unsigned char)line[n - 1]))
        line[--n] = 0;
    line += strspn(line, " \t\r\n");
    if (!*line)
        return;
    if (*line == '/' && isalpha((unsigned char)line[1])) {
        chat_command(c, line);
        return;
    }
    if (*line == '!') {
        chat_bang(c, line);
        return;
    }
    CAY_AUTOFREE char *input = chat_insert(c, line);
    if (input)
        chat_turn(c, input);
}

int chat_loop(chat *c)
{
    bool before = false; /* Ctrl+C was the last thing */
    if (c->tty && !c->a->no_splash && !cli.quiet)
        show_splash(c);
    if (!c->tty && c->mode == CHAT_ASK)
        out_note("cay: there is no terminal to ask on: commands and patches are refused; "
                 "--auto-approve lets them run");
    while (!c->quit && !chat_ending()) {
        CAY_AUTOFREE char *line = NULL;
        if (c->tty) /* here and not when a turn begins: from Enter on it is meant for the turn */
            chat_stop_forget();
        edit_end end = edit_read(c->edit, &line);
        if (end == EDIT_END || (end == EDIT_INTERRUPTED && before))
            break;
        before = end == EDIT_INTERRUPTED;
        if (before)
            chat_text(c, OUT_DIM, "Ctrl+C once more ends the talk");
        else
            dispatch_line(c, line);
        if (!c->tty && out_broken())
            break;
    }
    if (c->failed && !c->tty)
        return CLI_FAIL;
    return CLI_OK;
}
