/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/files.h - what the `cay files` verbs share: their first operands, and a file in words.
 *
 * Each takes ID PATH or ID:PATH.
 */
#pragma once
#include "main.h"
#include "out.h"
#include <cay/sandbox.h>

/* Operands with ID:PATH taken apart. */
typedef struct files_words {
    char id[64];
    const char *v[8]; /* what follows the id */
    int n;
    cay_sandbox *sb;
} files_words;

/* Finds the sandbox and checks that at least `min` and at most `max` words follow. On failure the
 * error is told and the exit code returned; 0 otherwise. files_end() afterwards in any case. */
int files_begin(const cli_verb *v, int argc, char **argv, int min, int max, files_words *w);
void files_end(files_words *w);

const char *file_type_word(cay_file_type t);
const char *file_mode_text(char *buf, const cay_stat *st); /* "drwxr-xr-x"; buf holds 12 */
void file_json(out_json *j, const char *path, const cay_stat *st);
