/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/manifest.h - a manifest from a file of the caller's: it is trusted, and its relative paths
 * start where the file is.
 */
#pragma once
#include "progress.h"
#include <cay/client.h>

typedef struct cli_manifest {
    char *text, *base;
    size_t len;
    cli_progress bar;
    bool drawn;
} cli_manifest;

/* "-": standard input, and paths start in the working directory. */
int cli_manifest_read(const char *file, cli_manifest *out, cay_err *err);
/* Into a request, with a bar for who waits; nothing when none was read. */
void cli_manifest_give(cli_manifest *m, cay_create *c);
void cli_manifest_clear(cli_manifest *m);
