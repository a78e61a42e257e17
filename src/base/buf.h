/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/buf.h - bytes that grow up to a ceiling told when they are made; and arenas, for things that
 * are made one by one and freed together.
 *
 * Once an append would pass the ceiling the buffer turns `full`, keeps what it had, and every later
 * append does nothing; the owner asks once, at the end.
 */
#pragma once
#include <cay/error.h>

typedef struct cay__buf {
    char *data; /* always NUL-terminated once anything was added */
    size_t len, cap, max;
    bool full;
} cay__buf;

#define CAY__BUF(ceiling)                                                                          \
    {                                                                                              \
        .max = (ceiling)                                                                           \
    }
void cay__buf_clear(cay__buf *b); /* frees */
void cay__buf_add(cay__buf *b, const void *p, size_t n);
void cay__buf_str(cay__buf *b, const char *s);
void cay__buf_cstr(cay__buf *b, const char *s); /* with its NUL; NULL is "" */
void cay__buf_fmt(cay__buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Room for n more bytes, or NULL when full; then say how many were used. */
char *cay__buf_room(cay__buf *b, size_t n);
void cay__buf_used(cay__buf *b, size_t n);
void cay__buf_cut(cay__buf *b, size_t n); /* the first n bytes go */
/* A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void cay__buf_json(cay__buf *b, const char *s, size_t n);
/* Bytes as lower-case hexadecimal digits. */
void cay__buf_hex(cay__buf *b, const void *p, size_t n);
/* For people: C0, C1, DEL, marks that turn text around and broken UTF-8 as \xNN, so that data
 * cannot drive a terminal. */
void cay__buf_safe(cay__buf *b, const char *s, size_t n, bool keep_newlines);
/* Length of the valid UTF-8 sequence at s (1–4), or 0. */
size_t cay__utf8_len(const char *s, size_t n);
/* The character c as UTF-8; how many bytes that took. */
size_t cay__utf8_put(char out[4], uint32_t c);
#define CAY_AUTOBUF __attribute__((cleanup(cay__buf_clear))) cay__buf

typedef struct cay__arena {
    struct cay__piece *last;
} cay__arena;

void *cay__arena_take(cay__arena *a, size_t n);     /* zeroed */
char *cay__arena_str(cay__arena *a, const char *s); /* a copy; NULL gives "" */
void *cay__arena_adopt(cay__arena *a, void *p);     /* free() it with the rest; gives p back */
void cay__arena_clear(cay__arena *a);
/* One that goes with the block it is declared in. */
#define CAY__AUTOARENA __attribute__((cleanup(cay__arena_clear))) cay__arena
