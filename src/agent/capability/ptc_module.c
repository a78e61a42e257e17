/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools as Python text. Names, schemas and descriptions come from MCP servers too, so nothing of
 * them is pasted: identifiers are made of letters, digits and _; whatever is text becomes a JSON
 * string, which is a Python literal as well.
 */
#include "ptc.h"
#include <base/mutant.h>
#include <ctype.h>

enum { DEEP = 6, CHOICES = 24, ARGUMENTS = 64 };

const char cay__py_client[] =
    "\"\"\"How the functions of this package reach their tools: by a unix socket, while "
    "execute_code runs.\"\"\"\n"
    "import json, os, socket\n"
    "\n"
    "\n"
    "class ToolError(Exception):\n"
    "    \"\"\"The tool could not be called: it is not there, its arguments do not fit, or "
    "somebody said no.\"\"\"\n"
    "\n"
    "\n"
    "class Result(str):\n"
    "    \"\"\"What a tool answered, a text. json() reads it where it is JSON.\"\"\"\n"
    "\n"
    "    def json(self):\n"
    "        return json.loads(self)\n"
    "\n"
    "\n"
    "def call(tool, arguments, optional=None):\n"
    "    arguments = dict(arguments)\n"
    "    arguments.update((k, v) for k, v in (optional or {}).items() if v is not None)\n"
    "    path = os.environ.get('CAY_TOOLS_SOCKET')\n"
    "    if not path:\n"
    "        raise ToolError('tools can be called by code that execute_code runs')\n"
    "    with socket.socket(socket.AF_UNIX) as s:\n"
    "        try:\n"
    "            s.connect(path)\n"
    "        except OSError as e:\n"
    "            raise ToolError(f'nobody answers calls any more: {e}') from None\n"
    "        with s.makefile('rwb') as f:\n"
    "            f.write(json.dumps({'tool': tool, 'arguments': arguments}).encode() + b'\\n')\n"
    "            f.flush()\n"
    "            line = f.readline()\n"
    "    if not line:\n"
    "        raise ToolError('the call was not answered')\n"
    "    answer = json.loads(line)\n"
    "    if not answer['ok']:\n"
    "        raise ToolError(answer['output'])\n"
    "    out = answer['output']\n"
    "    return Result(out) if isinstance(out, str) else out\n";

static bool is_keyword(const char *s)
{
    static const char *const words[] = {
        "False",   "None",     "True",     "and",    "as",     "assert", "async",  "await",
        "break",   "class",    "continue", "def",    "del",    "elif",   "else",   "except",
        "finally", "for",      "from",     "global", "if",     "import", "in",     "is",
        "lambda",  "nonlocal", "not",      "or",     "pass",   "raise",  "return", "try",
        "while",   "with",     "yield",    "call",   "Result", "Any",    "Literal"
    };
    CAY_EACH(word, words)
        if (!strcmp(*word, s))
            return true;
    return false;
}

bool cay__py_name(const char *name, char *dst, size_t cap)
{
    size_t n = 0;
    bool letter = false;
    if (isdigit((unsigned char)*name))
        dst[n++] = '_';
    for (const char *p = name; *p && n + 2 < cap; p++) {
        letter = letter || isalpha((unsigned char)*p);
        dst[n++] = isalnum((unsigned char)*p) ? *p : '_';
    }
    dst[n] = 0;
    if (is_keyword(dst) ||
        (n > 1 && dst[0] == '_' &&
         dst[1] == '_')) /* __x inside a class or as a dunder means more than a name */
        snprintf(dst + n, cap - n, "_");
    return letter;
}

static void write_literal(cay__buf *b, const char *text)
{
    if (CAY__MUTANT("fuzz-ptc"))
        cay__buf_str(b, text);
    else
        cay__buf_json(b, text, strlen(text));
}

static void type_of(const json_t *s, int depth, cay__buf *b);

static bool write_literal_type(const json_t *values, cay__buf *b)
{
    size_t n = json_array_size(values);
    if (!n || n > CHOICES)
        return false;
    CAY_EACH_ITEM(v, values)
        if (!json_is_string(v) && !json_is_integer(v) && !json_is_boolean(v) && !json_is_null(v))
            return false;
    cay__buf_str(b, "Literal[");
    CAY_EACH_ITEM(v, values) {
        cay__buf_str(b, CAY_TEXT_IF(v_at, ", "));
        if (json_is_string(v))
            cay__buf_json(b, json_string_value(v), json_string_length(v));
        else if (json_is_integer(v))
            cay__buf_fmt(b, "%lld", (long long)json_integer_value(v));
        else if (json_is_null(v))
            cay__buf_str(b, "None");
        else if (json_is_true(v))
            cay__buf_str(b, "True");
        else
            cay__buf_str(b, "False");
    }
    cay__buf_str(b, "]");
    return true;
}

static void write_named_type(const char *type, const json_t *s, int depth, cay__buf *b)
{
    static const char *const plain[][2] = { { "string", "str" },
                                            { "integer", "int" },
                                            { "number", "float" },
                                            { "boolean", "bool" },
                                            { "null", "None" } };
    for (size_t i = 0; i < CAY_LEN(plain); i++)
        if (!strcmp(plain[i][0], type)) {
            cay__buf_str(b, plain[i][1]);
            return;
        }
    if (!strcmp(type, "array")) {
        cay__buf_str(b, "list[");
        type_of(json_object_get(s, "items"), depth + 1, b);
        cay__buf_str(b, "]");
    } else if (!strcmp(type, "object")) {
        const json_t *more = json_object_get(s, "additionalProperties");
        cay__buf_str(b, "dict[str, ");
        type_of(CAY_IF(json_is_object(more), more), depth + 1, b);
        cay__buf_str(b, "]");
    } else {
        cay__buf_str(b, "Any");
    }
}

static void type_of(const json_t *s, int depth, cay__buf *b)
{
    const json_t *type = json_object_get(s, "type"), *choice = json_object_get(s, "anyOf");
    if (!choice)
        choice = json_object_get(s, "oneOf");
    if (!json_is_object(s) || depth > DEEP) {
        cay__buf_str(b, "Any");
    } else if (write_literal_type(json_object_get(s, "enum"), b)) {
        return;
    } else if (json_is_string(type)) {
        write_named_type(json_string_value(type), s, depth, b);
    } else if (json_array_size(type) && json_array_size(type) <= CHOICES) {
        CAY_EACH_ITEM(one, type) {
            cay__buf_str(b, CAY_TEXT_IF(one_at, " | "));
            write_named_type(CAY_OR(json_string_value(one), ""), s, depth, b);
        }
    } else if (json_array_size(choice) && json_array_size(choice) <= CHOICES) {
        CAY_EACH_ITEM(one, choice) {
            cay__buf_str(b, CAY_TEXT_IF(one_at, " | "));
            type_of(one, depth + 1, b);
        }
    } else {
        cay__buf_str(b, "Any");
    }
}

typedef struct argument {
    const char *key;
    const json_t *schema;
    bool required;
    char name[72];
} argument;

static bool is_required(const json_t *schema, const char *key)
{
    CAY_EACH_ITEM(r, json_object_get(schema, "required"))
        if (json_is_string(r) && !strcmp(json_string_value(r), key))
            return true;
    return false;
}

/* Those that must be given come first, as Python wants it. False: they cannot be named apart, so
 * they are taken as they come. */
static bool collect_arguments(const json_t *schema, argument *v, size_t *n)
{
    *n = 0;
    for (int round = 0; round < 2; round++)
        CAY_EACH_MEMBER(key, s, json_object_get(schema, "properties")) {
            if (is_required(schema, key) != !round)
                continue;
            if (*n == ARGUMENTS)
                return false;
            argument *a = &v[*n];
            *a = (argument){ .key = key, .schema = s, .required = !round };
            if (strlen(key) > 64 || !cay__py_name(key, a->name, sizeof a->name))
                return false;
            CAY_EACH_OF(it, v, *n)
                if (!strcmp(it->name, a->name))
                    return false;
            ++*n;
        }
    return true;
}

static void write_signature(const char *fn, const argument *v, size_t n, cay__buf *b)
{
    cay__buf_fmt(b, "%s(", fn);
    for (size_t i = 0; i < n; i++) {
        cay__buf_fmt(b, "%s%s: ", CAY_TEXT_IF(i, ", "), v[i].name);
        type_of(v[i].schema, 0, b);
        bool none = b->len > 7 && !strcmp(b->data + b->len - 7, " | None");
        if (!v[i].required && !none)
            cay__buf_str(b, " | None");
        if (!v[i].required)
            cay__buf_str(b, " = None");
    }
    cay__buf_str(b, ")");
}

static void write_example(const char *fn, const argument *v, size_t n, cay__buf *b)
{
    static const char *const samples[][2] = { { "integer", "1" },    { "number", "1.0" },
                                              { "boolean", "True" }, { "array", "[]" },
                                              { "object", "{}" },    { "null", "None" } };
    bool first = true;
    cay__buf_fmt(b, "%s(", fn);
    CAY_EACH_OF(it, v, n) {
        const char *type = cay__json_str(it->schema, "type", "string"), *value = "\"...\"";
        if (!it->required)
            continue;
        for (size_t k = 0; k < CAY_LEN(samples); k++) {
            if (!strcmp(samples[k][0], type))
                value = samples[k][1];
        }
        cay__buf_fmt(b, "%s%s=%s", CAY_TEXT_IF(!first, ", "), it->name, value);
        first = false;
    }
    cay__buf_str(b, ")");
}

static void write_docstring(const cay__py_tool *t, const char *fn, const argument *v, size_t n,
                            cay__buf *b)
{
    cay__buf_str(b, cay__text_or(t->about, t->name));
    cay__buf_str(b, CAY_TEXT_IF(n, "\n\nArgs:"));
    CAY_EACH_OF(it, v, n) {
        cay__buf_fmt(b, "\n    %s: %s", it->name,
                     cay__json_str(it->schema, "description", it->required ? "" : "(optional)"));
        if (strcmp(it->name, it->key))
            cay__buf_fmt(b, " (\"%s\")", it->key);
    }
    cay__buf_str(b, "\n\nExample:\n    ");
    write_example(fn, v, n, b);
    cay__buf_str(b, "\n");
}

static void write_pairs(const argument *v, size_t n, bool required, cay__buf *b)
{
    bool first = true;
    cay__buf_str(b, "{");
    CAY_EACH_OF(it, v, n)
        if (it->required == required) {
            cay__buf_str(b, CAY_TEXT_IF(!first, ", "));
            write_literal(b, it->key);
            cay__buf_fmt(b, ": %s", it->name);
            first = false;
        }
    cay__buf_str(b, "}");
}

void cay__py_function(const cay__py_tool *t, const char *fn, cay__buf *out)
{
    argument v[ARGUMENTS];
    size_t n;
    CAY_AUTOBUF doc = CAY__BUF(1 << 20);
    bool apart = collect_arguments(t->schema, v, &n);
    write_docstring(t, fn, v, apart ? n : 0, &doc);
    cay__buf_str(out, "\n\ndef ");
    if (apart)
        write_signature(fn, v, n, out);
    else
        cay__buf_fmt(out, "%s(arguments: dict[str, Any])", fn);
    cay__buf_str(out, " -> Result:\n    ");
    write_literal(out, doc.data);
    cay__buf_str(out, "\n    return call(");
    write_literal(out, t->name);
    cay__buf_str(out, ", ");
    if (apart) {
        write_pairs(v, n, true, out);
        cay__buf_str(out, ", ");
        write_pairs(v, n, false, out);
    } else {
        cay__buf_str(out, "arguments");
    }
    cay__buf_str(out, ")\n");
}

void cay__py_document(const cay__py_tool *t, const char *module, const char *fn, cay__buf *out)
{
    argument v[ARGUMENTS];
    size_t n;
    bool apart = collect_arguments(t->schema, v, &n);
    cay__buf_fmt(out, "# %s\n\n```python\nfrom tools.%s import %s\n", fn, module, fn);
    if (apart)
        write_signature(fn, v, n, out);
    else
        cay__buf_fmt(out, "%s(arguments)", fn);
    cay__buf_str(out, "\n```\n\n");
    write_docstring(t, fn, v, apart ? n : 0, out);
}

void cay__py_head(const char *server, cay__buf *out)
{
    CAY_AUTOBUF doc = CAY__BUF(1024);
    cay__buf_fmt(&doc, "Tools of %.200s, as functions. Written by the harness; changes are lost.",
                 server);
    write_literal(out, CAY_OR(doc.data, "Tools"));
    cay__buf_str(out, "\nfrom __future__ import annotations\nfrom typing import Any, Literal\nfrom "
                      "._client import Result, call\n");
}
