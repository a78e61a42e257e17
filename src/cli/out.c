/* SPDX-License-Identifier: Apache-2.0 */
#include "out.h"
#include "cli.h"
#include <base/base.h>
#include <time.h>

static bool broken;

bool out_broken(void)
{
    return broken;
}

static void write_to(int fd, const void *data, size_t len)
{
    if (broken || cay__fd_write_all(fd, data, len))
        return;
    broken = true;
    if (errno != EPIPE && fd == 1)
        out_note("cay: write standard output: %s", strerror(errno));
}

void out_write(const void *data, size_t len)
{
    write_to(1, data, len);
}

void out_str(const char *s)
{
    out_write(s, strlen(s));
}

void out_fmt(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    out_write(text, (size_t)n);
    free(text);
}

const char *out_argument(const char *fmt, va_list *ap, char number[24], const char **text)
{
    char size = fmt[1], kind = size;
    *text = number;
    if (strchr("jz", size))
        kind = fmt[2];
    if (kind == 's')
        *text = va_arg(*ap, const char *);
    else if (size == 'j')
        snprintf(number, 24, kind == 'd' ? "%jd" : "%ju", va_arg(*ap, uintmax_t));
    else if (size == 'z')
        snprintf(number, 24, "%zu", va_arg(*ap, size_t));
    else
        snprintf(number, 24, kind == 'd' ? "%d" : "%u", va_arg(*ap, unsigned));
    return fmt + 2 + (kind != size);
}

void out_data(int fd, const void *data, size_t len)
{
    if (!isatty(fd)) {
        write_to(fd, data, len);
        return;
    }
    CAY_AUTOBUF b = CAY__BUF(len * 4 + 8);
    cay__buf_safe(&b, data, len, true);
    write_to(fd, CAY_OR(b.data, ""), b.len);
}

void out_safe(const char *fmt, ...)
{
    CAY_AUTOBUF b = CAY__BUF(256u << 20);
    char number[24];
    const char *text;
    va_list ap;
    va_start(ap, fmt);
    while (*fmt) {
        size_t n = strcspn(fmt, "%");
        cay__buf_add(&b, fmt, n);
        fmt += n;
        if (!*fmt)
            break;
        fmt = out_argument(fmt, &ap, number, &text);
        cay__buf_safe(&b, text, strlen(text), false);
    }
    va_end(ap);
    out_write(CAY_OR(b.data, ""), b.len);
}

void out_note(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    if (cli.quiet)
        return;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    CAY_AUTOBUF b = CAY__BUF((size_t)n * 4 + 8);
    cay__buf_safe(&b, text, (size_t)n, true);
    cay__buf_str(&b, "\n");
    cay__fd_write_all(2, b.data, b.len);
    free(text);
}

static bool has_colour(int fd)
{
    static signed char known[3] = { -1, -1, -1 };
    if (fd < 0 || fd > 2)
        return false;
    if (known[fd] < 0) {
        const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
        known[fd] = isatty(fd) && !(no && *no) && !(term && !strcmp(term, "dumb"));
    }
    return known[fd];
}

const char *out_on(int fd, out_style s)
{
    static const char *const codes[] = { "",         "\033[1m",  "\033[2m",   "\033[32m",
                                         "\033[33m", "\033[31m", "\033[1;36m" };
    if (has_colour(fd))
        return codes[s];
    return "";
}

const char *out_off(int fd)
{
    if (has_colour(fd))
        return "\033[0m";
    return "";
}

out_text out_size(uint64_t v)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    out_text text = { "unlimited" };
    size_t u = 0;
    uint64_t whole = v, tenth = 0;
    if (v == CAY_UNLIMITED)
        return text;
    for (; whole >= 1024; u++) {
        tenth = whole % 1024 * 10 / 1024;
        whole /= 1024;
    }
    if (whole < 10 && u && tenth)
        CAY_FORMAT(text.s, "%ju.%ju %s", whole, tenth, units[u]);
    else
        CAY_FORMAT(text.s, "%ju %s", whole, units[u]);
    return text;
}

out_text out_span(uint64_t ms)
{
    static const struct {
        uint64_t below, unit;
        const char *name;
    } rows[] = { { 1000, 1, "ms" },
                 { 120000, 1000, "s" },
                 { 7200000, 60000, "min" },
                 { 172800000, 3600000, "h" },
                 { UINT64_MAX, 86400000, "d" } };
    out_text text = { "unlimited" };
    CAY_EACH(row, rows)
        if (ms < row->below) {
            CAY_FORMAT(text.s, "%ju %s", ms / row->unit, row->name);
            break;
        }
    return text;
}

out_text out_age(int64_t ms)
{
    return out_span((uint64_t)CAY_MAX(ms, 0));
}

const char *out_plural(uint64_t n, const char *suffix)
{
    if (n == 1)
        return "";
    return suffix;
}

out_text out_when(int64_t wall_ms)
{
    if (wall_ms)
        return out_time(wall_ms);
    return (out_text){ "" };
}

out_text out_time(int64_t wall_ms)
{
    out_text text = { "-" };
    time_t t = (time_t)(wall_ms / 1000);
    struct tm tm;
    if (!localtime_r(&t, &tm) || !strftime(text.s, sizeof text.s, "%Y-%m-%d %H:%M:%S", &tm))
        CAY_COPY(text.s, "-");
    return text;
}

void out_table_open(out_table *t, const char *titles)
{
    *t = (out_table){ .titles = cay__strdup(titles) };
    for (char *rest = t->titles; rest && t->columns < OUT_COLUMNS;)
        t->title[t->columns++] = strsep(&rest, "|");
}

void out_cell(out_table *t, out_style style, const char *text)
{
    CAY_GROW(t->cells, t->nrows);
    CAY_GROW(t->style, t->nrows);
    cay__buf b = CAY__BUF(strlen(text) * 4 + 8);
    cay__buf_safe(&b, text, strlen(text), false);
    t->cells[t->nrows] = CAY_OR(b.data, cay__strdup(""));
    t->style[t->nrows++] = style;
}

static out_style read_style(const char **fmt, va_list *ap)
{
    if (**fmt == '*' || **fmt == '~')
        return *(*fmt)++ == '*' ? OUT_BOLD : OUT_DIM;
    if (strncmp(*fmt, "%c", 2))
        return OUT_PLAIN;
    *fmt += 2;
    return (out_style)va_arg(*ap, int);
}

void out_row(out_table *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    for (; *fmt; fmt += *fmt == '|') {
        CAY_AUTOBUF b = CAY__BUF(256u << 20);
        out_style style = read_style(&fmt, &ap);
        bool dash = *fmt == '-';
        char number[24];
        const char *text;
        for (fmt += dash; *fmt && *fmt != '|';) {
            size_t n = strcspn(fmt, "%|");
            cay__buf_add(&b, fmt, n);
            fmt += n;
            if (*fmt != '%')
                continue;
            fmt = out_argument(fmt, &ap, number, &text);
            if (text && !(dash && text == number && !strcmp(text, "0")))
                cay__buf_str(&b, text);
        }
        out_cell(t, style, cay__text_or(b.data, dash ? "-" : ""));
    }
    va_end(ap);
}

void out_cellf(out_table *t, out_style style, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    out_cell(t, style, text);
}

/* Characters, not bytes: cells are valid UTF-8 by now. */
static size_t count_columns(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void put_cell(cay__buf *to, const char *text, out_style style, size_t room, bool right,
                     bool last)
{
    size_t w = count_columns(text), pad = room > w ? room - w : 0;
    if (right)
        cay__buf_fmt(to, "%*s", (int)pad, "");
    if (style != OUT_PLAIN && *out_on(1, style))
        cay__buf_fmt(to, "%s%s%s", out_on(1, style), text, out_off(1));
    else
        cay__buf_str(to, text);
    if (!right && !last)
        cay__buf_fmt(to, "%*s", (int)pad, "");
    cay__buf_str(to, last ? "\n" : "  ");
}

void out_table_text(out_table *t, cay__buf *to)
{
    size_t room[OUT_COLUMNS];
    for (size_t c = 0; c < t->columns; c++) {
        room[c] = count_columns(t->title[c] + (*t->title[c] == '>'));
        for (size_t i = c; i < t->nrows; i += t->columns)
            room[c] = CAY_MAX(room[c], count_columns(t->cells[i]));
    }
    for (size_t c = 0; c < t->columns; c++) {
        bool right = *t->title[c] == '>';
        put_cell(to, t->title[c] + right, OUT_DIM, room[c], right, c + 1 == t->columns);
    }
    for (size_t i = 0; i < t->nrows; i++) {
        size_t c = i % t->columns;
        put_cell(to, t->cells[i], t->style[i], room[c], *t->title[c] == '>', c + 1 == t->columns);
    }
}

void out_table_print(out_table *t)
{
    CAY_AUTOBUF b = CAY__BUF(256u << 20);
    out_table_text(t, &b);
    out_write(b.data, b.len);
    out_table_close(t);
}

void out_table_close(out_table *t)
{
    CAY_EACH_OF(cell, t->cells, t->nrows)
        free(*cell);
    free(t->titles);
    free(t->cells);
    free(t->style);
    memset(t, 0, sizeof *t);
}

void out_list_open(out_list *r, const char *titles)
{
    *r = (out_list){ .json = OUT_JSON(true), .now = cay__clock_ms() };
    out_table_open(&r->table, titles);
    js_open(&r->json, '[');
}

void out_list_close(out_list *r, bool print)
{
    js_close(&r->json, ']');
    if (print && cli.json)
        js_flush(&r->json);
    else if (print && !cli.quiet)
        out_table_print(&r->table);
    out_table_close(&r->table);
    cay__buf_clear(&r->json.b);
}

bool out_list_name(const char *name)
{
    if (cli.quiet)
        out_fmt("%s\n", name);
    return cli.quiet;
}

void out_list_labels(out_list *r, const cay_pair *labels)
{
    CAY_AUTOBUF text = CAY__BUF(400);
    for (; labels && labels->key; labels++)
        cay__buf_fmt(&text, "%s%s=%s", text.len ? " " : "", labels->key, labels->value);
    out_row(&r->table, "~-%s", text.data);
}
