/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/progress.h - bars on standard error, silent unless that is a terminal: while bytes move, and
 * while one call takes long.
 */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct cli_progress {
    const char *what;
    uint64_t total; /* 0: not known */
    uint64_t done;
    uint64_t files;
    int64_t began_ms, shown_ms;
    bool on;
} cli_progress;

void progress_begin(cli_progress *p, const char *what, uint64_t total);
void progress_add(cli_progress *p, uint64_t bytes);
/* Where it is now; as above, it is drawn now and then. */
void progress_at(cli_progress *p, uint64_t done, uint64_t total);
void progress_end(cli_progress *p); /* wipes the bar */

/*
 * a bar that moves, with the time, while one call takes more than a second and nobody can say how
 * far it is.
 */

typedef struct cli_waiting {
    const char *verb, *what;
    pthread_t thread;
    int end[2]; /* a pipe: its end ends the bar */
    bool on;
} cli_waiting;

void waiting_begin(cli_waiting *w, const char *verb, const char *what);
void waiting_end(cli_waiting *w); /* wipes the bar */
