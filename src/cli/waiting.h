/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/waiting.h - a bar that moves on standard error, with the time, while one call takes more than
 * a second and nobody can say how far it is; silent unless that is a terminal.
 */
#pragma once
#include <pthread.h>
#include <stdbool.h>

typedef struct cli_waiting {
    const char *verb, *what;
    pthread_t thread;
    int end[2]; /* a pipe: its end ends the bar */
    bool on;
} cli_waiting;

void waiting_begin(cli_waiting *w, const char *verb, const char *what);
void waiting_end(cli_waiting *w); /* wipes the bar */
