/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/chat/edit.h - what somebody types: lines with editing, history and completion on a terminal,
 * plain lines from a pipe.
 *
 *   Enter  sends            Alt+Enter, or a backslash before Enter  begins another line
 *   Tab    completes        Ctrl+E  the text in $VISUAL or $EDITOR
 *   Ctrl+T asks or not      Ctrl+C  drops the line; twice ends the talk        Ctrl+D  ends it
 */
#pragma once
#include <base/buf.h>

typedef struct edit edit;
typedef struct edit_spec {
    const char *history; /* its file, or NULL */
    void *arg;
    const char *(*prompt)(void *arg); /* plain text */
    void (*toggle)(void *arg);        /* Ctrl+T */
    /* Adds what may follow `word`, which begins at `at` of the line; each as a whole word. */
    void (*complete)(void *arg, const char *line, size_t at, const char *word,
                     void (*add)(void *to, const char *word), void *to);
} edit_spec;

typedef enum edit_end { EDIT_LINE, EDIT_END, EDIT_INTERRUPTED } edit_end;

edit *edit_open(const edit_spec *spec);
/* *text is malloc'ed, without the last newline. EDIT_INTERRUPTED: Ctrl+C on an empty line. */
edit_end edit_read(edit *e, char **text);
/* One line from the terminal without history, for a question; NULL when there is none, or Ctrl+C.
 * fd: also ends when it gets readable, or -1. */
char *edit_ask(const char *question, int stop_fd);
void edit_close(edit *e);
