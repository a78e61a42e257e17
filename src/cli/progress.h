/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/progress.h - a bar on standard error while bytes move; silent unless that is a terminal.
 */
#pragma once
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
