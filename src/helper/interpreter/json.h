/* SPDX-License-Identifier: Apache-2.0 */
/* helper/interpreter/json.h - as much of JSON as the interpreter needs: is it sound, members of an
 * object, texts out of it and into it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct text {
    char *p;
    size_t len, cap;
} text;
void text_add(text *t, const char *s, size_t n);
void text_str(text *t, const char *s);
void text_fmt(text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* of at most 1 kB */
void text_cut(text *t, size_t n);          /* its first n bytes go */
void text_clear(text *t);
/* As a JSON text with its quotes; bytes that are no UTF-8 become U+FFFD. */
void text_json(text *t, const char *s, size_t n);

/* Is this one value of RFC 8259 and nothing behind it, in UTF-8, at most 64 deep? The rest is for
 * what is: it looks no further than it has to. */
bool json_sound(const char *s, const char *end);
/* The value of a member as it stands, from *at to *end; false: there is none, or this is no object.
 */
bool json_member(const char *s, const char *end, const char *name, const char **at,
                 const char **stop);
/* One member after the other: *s begins behind the brace and moves. The name is as it stands,
 * without its quotes. */
bool json_next(const char **s, const char *end, const char **name, size_t *len, const char **at,
               const char **stop);
/* What a JSON text says, ended by NUL; NUL bytes in it are left out. False: it is no text. */
bool json_text(const char *at, const char *stop, text *out);
