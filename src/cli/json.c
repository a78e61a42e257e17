/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "out.h"
#include <base/base.h>
#include <inttypes.h>

static void write_indent(out_json *j)
{
    if (j->pretty)
        cay__buf_fmt(&j->b, "\n%*s", (int)(j->depth * 2), "");
}

/* What stands in front of a value: nothing after its key, else a comma and a new line. */
static void write_separator(out_json *j)
{
    if (j->after_key) {
        j->after_key = false;
        return;
    }
    if (j->comma)
        cay__buf_str(&j->b, ",");
    if (j->depth)
        write_indent(j);
}

void js_open(out_json *j, char bracket)
{
    write_separator(j);
    cay__buf_add(&j->b, &bracket, 1);
    j->depth++;
    j->comma = false;
}

void js_close(out_json *j, char bracket)
{
    bool empty = !j->comma;
    j->depth--;
    if (!empty)
        write_indent(j);
    cay__buf_add(&j->b, &bracket, 1);
    j->comma = true;
}

void js_key(out_json *j, const char *key)
{
    write_separator(j);
    cay__buf_json(&j->b, key, strlen(key));
    cay__buf_str(&j->b, j->pretty ? ": " : ":");
    j->after_key = true;
}

void js_bytes(out_json *j, const char *s, size_t n)
{
    write_separator(j);
    cay__buf_json(&j->b, s, n);
    j->comma = true;
}

void js_raw(out_json *j, const char *text)
{
    write_separator(j);
    cay__buf_str(&j->b, text);
    j->comma = true;
}

void js_str(out_json *j, const char *s)
{
    if (s)
        js_bytes(j, s, strlen(s));
    else
        js_raw(j, "null");
}

void js_u64(out_json *j, uint64_t v)
{
    write_separator(j);
    cay__buf_fmt(&j->b, "%" PRIu64, v);
    j->comma = true;
}

void js_i64(out_json *j, int64_t v)
{
    write_separator(j);
    cay__buf_fmt(&j->b, "%" PRId64, v);
    j->comma = true;
}

void js_bool(out_json *j, bool v)
{
    js_raw(j, v ? "true" : "false");
}

void js_null(out_json *j)
{
    js_raw(j, "null");
}

void js_kstr(out_json *j, const char *key, const char *s)
{
    js_key(j, key);
    js_str(j, s);
}

void js_ku64(out_json *j, const char *key, uint64_t v)
{
    js_key(j, key);
    js_u64(j, v);
}

void js_ki64(out_json *j, const char *key, int64_t v)
{
    js_key(j, key);
    js_i64(j, v);
}

void js_kbool(out_json *j, const char *key, bool v)
{
    js_key(j, key);
    js_bool(j, v);
}

void js_klimit(out_json *j, const char *key, uint64_t v)
{
    js_key(j, key);
    if (v == CAY_UNLIMITED)
        js_null(j);
    else
        js_u64(j, v);
}

void js_flush(out_json *j)
{
    cay__buf_str(&j->b, "\n");
    if (j->b.data && !j->b.full)
        out_write(j->b.data, j->b.len);
    cay__buf_clear(&j->b);
    j->depth = 0;
    j->comma = j->after_key = false;
}

out_json js_begin(bool pretty, char bracket)
{
    out_json j = OUT_JSON(pretty);
    js_open(&j, bracket);
    return j;
}

void js_end(out_json *j, char bracket)
{
    js_close(j, bracket);
    js_flush(j);
}

void out_done(const char *key, const char *value)
{
    out_json j = OUT_JSON(false);
    if (!cli.json && !cli.quiet)
        out_fmt("%s\n", value);
    if (!cli.json)
        return;
    js_open(&j, '{');
    js_kstr(&j, key, value);
    js_end(&j, '}');
}
