/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/chat/md.h - markdown as lines for a terminal.
 *
 * md_lines() makes whole lines that fit the width; md4c reads, we lay out. Everything that comes in
 * is escaped before anything of ours is put around it, so that what a model writes cannot drive the
 * terminal.
 *
 * A painter shows an answer while it comes: the block that is being written is laid out again with
 * each piece, and only the lines that changed are written again. What has scrolled away is left as
 * it is.
 */
#pragma once
#include <base/buf.h>
#include <stddef.h>
#include <stdint.h>

typedef struct md_doc {
    char **line; /* without a newline */
    size_t n;
} md_doc;
void md_lines(const char *text, size_t n, size_t width, bool colour, md_doc *out); /* adds to out */
void md_clear(md_doc *d);
/* Columns of a text without escapes. */
size_t md_columns(const char *s, size_t n);
/* Where it has to be cut so that it takes at most that many columns. */
size_t md_fit(const char *s, size_t n, size_t columns);

typedef struct md_paint {
    cay__buf text; /* of the block that is not finished */
    char fence[4]; /* a code block is open: what ends it; "" otherwise */
    md_doc shown;  /* lines of it that are on the terminal */
    bool before;   /* a block was finished before it */
    bool again;    /* its lines were taken back, to be laid out for another width */
    uint16_t cols;
    int64_t last_ms;
} md_paint;
void md_paint_begin(md_paint *p);
void md_paint_add(md_paint *p, const char *s, size_t n);
void md_paint_end(md_paint *p); /* the answer is whole, or somebody else wants to write */
