/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "out.h"
#include <base/base.h>

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

static const char *put_member(out_json *j, const char *key, bool maybe, const char *fmt,
                              va_list *ap)
{
    char number[24], kind = fmt[-1];
    const char *value;
    fmt = out_argument(fmt, ap, number, &value);
    if (maybe && (!value || !*value || (value == number && !strcmp(value, "0"))))
        return fmt;
    js_key(j, key);
    if (kind == '?')
        js_raw(j, *value == '0' ? "false" : "true");
    else if (kind == ':' && fmt[-1] == 's')
        js_str(j, value);
    else
        js_raw(j, CAY_OR(value, "null"));
    return fmt;
}

static void put_members(out_json *j, const char *fmt, va_list *ap)
{
    for (; *fmt; fmt += strspn(fmt, ", ")) {
        if (*fmt == '}' || *fmt == ']') {
            js_close(j, *fmt++);
            continue;
        }
        bool maybe = *fmt == '+';
        char key[40] = "";
        size_t n = strcspn(fmt, ":=?");
        memcpy(key, fmt + maybe, CAY_MIN(n - maybe, sizeof key - 1));
        fmt += n + 1;
        if (*fmt != '{' && *fmt != '[') {
            fmt = put_member(j, key, maybe, fmt, ap);
            continue;
        }
        js_key(j, key);
        js_open(j, *fmt++);
    }
}

void js_member(out_json *j, const char *key, const char *s)
{
    js_key(j, key);
    js_str(j, s);
}

void js_put(out_json *j, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_members(j, fmt, &ap);
    va_end(ap);
}

void js_object(out_json *j, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    js_open(j, '{');
    put_members(j, fmt, &ap);
    js_close(j, '}');
    va_end(ap);
}

void out_object(bool pretty, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    out_json j = js_begin(pretty, '{');
    put_members(&j, fmt, &ap);
    js_end(&j, '}');
    va_end(ap);
}

out_text js_limit(uint64_t v)
{
    out_text text = { "null" };
    if (v != CAY_UNLIMITED)
        CAY_FORMAT(text.s, "%ju", v);
    return text;
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
    if (cli.json) {
        out_json j = js_begin(false, '{');
        js_member(&j, key, value);
        js_end(&j, '}');
    } else if (!cli.quiet) {
        out_fmt("%s\n", value);
    }
}
