/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/out.h - what people and programs read: tables, JSON, sizes, times, colours, errors.
 *
 * Everything that may come from a sandbox passes cay__buf_safe() before it reaches a terminal or a
 * table, so that no name or message can drive a terminal; JSON escapes it anyway. Only the pump of
 * an attached terminal writes raw bytes.
 */
#pragma once
#include <base/buf.h>
#include <cay/client.h>
#include <stdarg.h>

/* Whole writes to standard output. A reader that went away is remembered, not reported. */
void out_write(const void *data, size_t len);
void out_str(const char *s);
void out_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What the directive at `fmt` (%s, %d, %u, %zu, %jd, %ju) stands for, in *text; returns what is
 * behind it. */
const char *out_argument(const char *fmt, va_list *ap, char number[24], const char **text);
/* Data from a sandbox: as it is into a pipe or file, escaped on a terminal. Keeps newlines. */
void out_data(int fd, const void *data, size_t len); /* 1 or 2 */
/* Texts of a sandbox inside a line of ours: they are always escaped. Its directives are those of
 * out_argument(). */
void out_safe(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool out_broken(void); /* nobody reads any more */
/* A line on standard error, escaped, unless --quiet. */
void out_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

typedef enum out_style {
    OUT_PLAIN,
    OUT_BOLD,
    OUT_DIM,
    OUT_GOOD,
    OUT_WARN,
    OUT_BAD,
    OUT_TITLE
} out_style;
/* Sequence for a descriptor, "" when it is no terminal or NO_COLOR is set. */
const char *out_on(int fd, out_style s);
const char *out_off(int fd);

/* A short text by value: `out_size(n).s` lives as long as the statement that it is in. */
typedef struct out_text {
    char s[24];
} out_text;
out_text out_size(uint64_t bytes);  /* "1.5 GiB", "unlimited" */
out_text out_span(uint64_t ms);     /* "350 ms", "12 s", "5 min", "3 h", "2 d", "unlimited" */
out_text out_age(int64_t ms);       /* the same; what lies ahead is 0 */
out_text out_when(int64_t wall_ms); /* the same as the next, but "" for 0 */
out_text out_time(int64_t wall_ms); /* "2026-01-31 12:00:00" */
/* suffix, or "" for one */
const char *out_plural(uint64_t n, const char *suffix);

#define OUT_COLUMNS 12
typedef struct out_table {
    char *titles;
    const char *title[OUT_COLUMNS]; /* into titles */
    size_t columns;
    size_t nrows;
    char **cells;     /* escaped, nrows × columns */
    out_style *style; /* beside each cell */
} out_table;
/* "ID|NAME|>AGE": a title that starts with '>' is aligned to the right. */
void out_table_open(out_table *t, const char *titles);
void out_cell(out_table *t, out_style style, const char *text); /* the next cell; escapes text */
/* A whole row, or a part of one: "*%s|-%s|~%u of %u|%c%s". A cell that begins with * is bold, with
 * ~ dim, with %c of the out_style given; with - what is empty or 0 is "-". Its directives are those
 * of out_argument(). */
void out_row(out_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void out_cellf(out_table *t, out_style style, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void out_table_text(out_table *t,
                    cay__buf *to);  /* aligned, with colours if standard output wants them */
void out_table_print(out_table *t); /* to standard output, then frees it */
void out_table_close(out_table *t);

typedef struct out_json {
    cay__buf b;
    unsigned depth;
    bool pretty, comma, after_key;
} out_json;
#define OUT_JSON(is_pretty)                                                                        \
    {                                                                                              \
        .b = CAY__BUF(256u << 20), .pretty = (is_pretty)                                           \
    }
void js_open(out_json *j, char bracket); /* '{' or '[' */
void js_close(out_json *j, char bracket);
void js_key(out_json *j, const char *key);
void js_str(out_json *j, const char *s);
void js_bytes(out_json *j, const char *s, size_t n);
void js_raw(out_json *j, const char *text); /* text is JSON already */
void js_member(out_json *j, const char *key, const char *s);
/* Members: "name:%s, +pid:%d, exit:{code:%d, lost?%d}, net=%s, users:[". After `:` comes a text, a
 * number, an object or an array, after `?` a truth, after `=` a text that is JSON already; NULL is
 * null. What begins with + is left out when it is NULL, empty or 0. Numbers are int, unsigned,
 * size_t
 * (%zu), int64_t (%jd) or uint64_t (%ju). */
void js_put(out_json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same as a whole object; and as one that is printed on a line, or pretty. */
void js_object(out_json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void out_object(bool pretty, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
out_text js_limit(uint64_t v); /* as JSON: CAY_UNLIMITED is null */
/* Writes it with a newline and starts afresh: one value a line when streaming. */
void js_flush(out_json *j);
/* A whole object or array: begun, and ended and written. */
out_json js_begin(bool pretty, char bracket);
void js_end(out_json *j, char bracket);
/* What a verb was done to, or what came of it: a line {key: value} with --json, else the bare
 * value, and nothing with --quiet. */
void out_done(const char *key, const char *value);

/*
 * A list of things: a table for people, with --json one array, with --quiet a name a line. A verb
 * with .columns has one, and its callback adds to it:
 *
 *     if (cli.json)
 *         key_json(&r->json, k);
 *     else if (!out_list_name(k->id))
 *         out_cell(&r->table, OUT_BOLD, k->id);
 */
typedef struct out_list {
    out_table table; /* what a callback adds to, unless --json or --quiet */
    out_json json;
    int64_t now; /* wall clock, for ages */
} out_list;

void out_list_open(out_list *r, const char *titles);
void out_list_close(out_list *r, bool print); /* print: what was gathered is printed */
/* --quiet: prints the name, and is true. */
bool out_list_name(const char *name);
/* "a=1 b=2", or "-" */
void out_list_labels(out_list *r, const cay_pair *labels);
