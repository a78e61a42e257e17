/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/files.h - what the `cay files` verbs share: a file in words, and copies.
 */
#pragma once
#include "main.h"
#include "out.h"
#include "progress.h"
#include <cay/sandbox.h>

const char *file_type_word(cay_file_type t);
const char *file_mode_text(char *buf, const cay_stat *st); /* "drwxr-xr-x"; buf holds 12 */
void file_json(out_json *j, const char *path, const cay_stat *st);

/*
 * copy.c: moving files and trees across the wall.
 *
 * What comes out is hostile: names are used one component at a time below descriptors we opened,
 * links are made and never followed, so that nothing outside the target can be touched.
 */

typedef struct copy_opts {
    bool parents;
    cli_progress *bar;
    uint64_t skipped; /* things that are neither file, directory nor link; told on standard error */
} copy_opts;

/* One file from a descriptor. mode 0: 0644 or what is replaced. */
int copy_fd_in(cay_sandbox *sb, int fd, const char *path, uint32_t mode, const copy_opts *o,
               cay_err *err);
/* One file to a descriptor; a terminal gets it escaped. */
int copy_fd_out(cay_sandbox *sb, const char *path, int fd, const copy_opts *o, cay_err *err);
/* A file, link or whole directory; `to` is its new name. */
int copy_tree_in(cay_sandbox *sb, const char *from, const char *to, copy_opts *o, cay_err *err);
int copy_tree_out(cay_sandbox *sb, const char *from, const char *to, copy_opts *o, cay_err *err);
