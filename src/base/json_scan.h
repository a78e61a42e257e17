/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/json_scan.h - JSON (RFC 8259) as bytes: no tree, no jansson, for static programs too.
 *
 *   cay__scan_sound()   is it one value?        cay__scan_member()  a member of an object
 *   cay__scan_string()  a string as it reads    cay__scan_next()    one member after another
 *   cay__scan_escape()  one escape of a string  cay__scan_text()    what a string says
 *
 * json_quick.c builds jansson's values with it, and the code interpreter finds members with it.
 * helper/unpack/js.c shares the escapes only: it reads an archive piece by piece, because a whole
 * one does not have to fit into memory. Values nest at most 64 deep.
 */
#pragma once
#include "buf.h"

const char *cay__scan_blanks(const char *s, const char *end);

/* The escape whose backslash is at s: how many bytes it has, with its character in *c. A half of a
 * surrogate pair stays what it is (U+D800 to U+DFFF). 0: more bytes are needed; -1: it is none. */
int cay__scan_escape(const char *s, size_t n, uint32_t *c);

typedef struct cay__scanned {
    const char *p; /* in the input, or in `room` when it had escapes */
    size_t len;
    bool half; /* it had half a surrogate pair; U+FFFD is in its place */
} cay__scanned;
/* The string whose quote is at s: where it ends, behind its other quote. NULL: it is not sound.
 * room is used again by the next string; with out NULL both are. */
const char *cay__scan_string(const char *s, const char *end, cay__buf *room, cay__scanned *out);

/* Is this one value and nothing behind it? */
bool cay__scan_sound(const char *s, const char *end);
/* The value of a member as it stands, from *at to *stop; false: there is none, or no object. */
bool cay__scan_member(const char *s, const char *end, const char *name, const char **at,
                      const char **stop);
/* One member after the other: *s begins behind the brace and moves. The name is as it stands,
 * without its quotes. */
bool cay__scan_next(const char **s, const char *end, const char **name, size_t *len,
                    const char **at, const char **stop);
/* What the string from at to stop says, in place of what is in out, without NULs. False: it is no
 * string. */
bool cay__scan_text(const char *at, const char *stop, cay__buf *out);
