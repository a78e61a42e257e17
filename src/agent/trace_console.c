/* SPDX-License-Identifier: Apache-2.0 */
/* Spans for people: a run as a tree, once it is over. */
#include "trace.h"
#include <cay/trace.h>

enum { HELD_MAX = 8192, DEPTH_MAX = 24, TEXT_MAX = 4 << 20 };

typedef struct console {
    int fd;
    json_t *held; /* spans whose run goes on */
} console;

static int by_start(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    return strcmp(cay__json_str(x, "started_at", ""), cay__json_str(y, "started_at", ""));
}

static size_t depth_of(const json_t *ids, const json_t *s)
{
    size_t d = 0;
    const char *up;
    while (d < DEPTH_MAX && (up = cay__json_str(s, "parent_id", NULL)) &&
           (s = json_object_get(ids, up)))
        d++;
    return d;
}

static void format_span(cay__buf *b, const json_t *s, size_t depth)
{
    const json_t *data = json_object_get(s, "span_data"), *error = json_object_get(s, "error"),
                 *usage = json_object_get(data, "usage");
    const char *name = cay__json_str(data, "name", ""), *type = cay__json_str(data, "type", "");
    int64_t us = cay__trace_time(cay__json_str(s, "ended_at", "")) -
                 cay__trace_time(cay__json_str(s, "started_at", ""));
    cay__buf_fmt(b, "%10.1f ms  %*s", (double)us / 1000, (int)depth * 2, "");
    if (strcmp(type, "custom"))
        cay__buf_fmt(b, "%s ", type);
    cay__buf_safe(b, name, strlen(name), false);
    if (usage)
        cay__buf_fmt(b, "  %lld in, %lld out", (long long)cay__json_int(usage, "input_tokens", 0),
                     (long long)cay__json_int(usage, "output_tokens", 0));
    if (json_is_object(error)) {
        const char *why = cay__json_str(error, "message", "");
        cay__buf_str(b, "  FAILED: ");
        cay__buf_safe(b, why, strlen(why), false);
    }
    cay__buf_str(b, "\n");
}

static int print_spans(console *c, cay_err *err)
{
    size_t n = json_array_size(c->held);
    json_t **v = cay__alloc((n + 1) * sizeof(json_t *));
    CAY_AUTOJSON *ids = json_object();
    CAY_AUTOBUF b = CAY__BUF(TEXT_MAX);
    for (size_t i = 0; i < n; i++) {
        v[i] = json_array_get(c->held, i);
        json_object_set(ids, cay__json_str(v[i], "id", ""), v[i]);
    }
    qsort(v, n, sizeof *v, by_start);
    CAY_EACH_OF(it, v, n)
        format_span(&b, *it, depth_of(ids, *it));
    free(v);
    json_array_clear(c->held);
    if (!b.len || cay__fd_write_all(c->fd, b.data, b.len))
        return 0;
    return cay_fail_sys(err, "trace");
}

static int console_write(void *self, const char *const *objects, size_t n, cay_err *err)
{
    console *c = self;
    bool over = false;
    CAY_EACH_OF(object, objects, n) {
        json_t *s = json_loads(*object, 0, NULL);
        bool span = s && !strcmp(cay__json_str(s, "object", ""), "trace.span");
        over = over || (span && !cay__json_str(s, "parent_id", NULL));
        if (span)
            json_array_append(c->held, s);
        json_decref(s);
    }
    if (over || json_array_size(c->held) > HELD_MAX)
        return print_spans(c, err);
    return 0;
}

static void console_close(void *self)
{
    console *c = self;
    print_spans(c, NULL);
    json_decref(c->held);
    free(c);
}

static const cay_trace_sink sink = { .size = sizeof sink,
                                     .write = console_write,
                                     .close = console_close };

cay_tracer *cay_tracer_console(int fd)
{
    console *c = cay__alloc(sizeof *c);
    *c = (console){ .fd = fd, .held = json_array() };
    return cay_tracer_new(&sink, c);
}
