/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Agents SDK for JavaScript keeps a workspace as one JSON text:
 *
 *     {"version":1, "directories":["a",…], "files":[{"path":"a/b","data":"base64…"},…]}
 *
 * It is read as it comes, since a whole one does not have to fit into memory: that is why no JSON
 * library does it. A file's path has to come before its data, as the SDK writes it. Unknown members
 * are refused.
 */
#include "unpack.h"
#include <base/base64.h>
#include <base/json_scan.h>
#include <base/mutant.h>

typedef struct js {
    unpack *u;
    input *s;
    const uint8_t *p;
    size_t n;
    uint64_t at; /* bytes so far, for messages */
} js;

static int fail_corrupt(js *j, const char *why)
{
    return fail(j->u, "", "archive_corrupt", "byte %llu: %s", (unsigned long long)j->at, why);
}

/* The next byte, not taken; -1 at the end, -2 after a failure. */
static int peek_byte(js *j)
{
    const void *p;
    if (j->n == 0) {
        if (input_read(j->s, &p, &j->n) < 0)
            return -2;
        if (j->n == 0)
            return -1;
        j->p = p;
    }
    return *j->p;
}

static int next_byte(js *j)
{
    int c = peek_byte(j);
    if (c >= 0) {
        j->p++;
        j->n--;
        j->at++;
    }
    return c;
}

static int skip_blanks(js *j)
{
    int c;
    while ((c = peek_byte(j)) == ' ' || c == '\t' || c == '\n' || c == '\r')
        next_byte(j);
    return c;
}

static int expect_char(js *j, char c)
{
    char why[32];
    int got = skip_blanks(j);
    if (got == c) {
        next_byte(j);
        return 0;
    }
    CAY_FORMAT(why, "'%c' is missing", c);
    if (got == -2)
        return -1;
    return fail_corrupt(j, why);
}

/* The backslash was taken. */
static int decode_escape(js *j, char *out, size_t *n)
{
    char esc[12] = { '\\' };
    uint32_t c = 0;
    int rc = 0;
    for (size_t have = 1; rc == 0; rc = cay__scan_escape(esc, have, &c)) {
        int byte = next_byte(j);
        if (byte == -2)
            return -1;
        if (byte < 0)
            return fail_corrupt(j, "it ends in a string");
        esc[have++] = (char)byte;
    }
    if (rc < 0)
        return fail_corrupt(j, esc[1] == 'u' ? "four hex digits belong after \\u"
                                             : "an unknown escape");
    if (c >= 0xd800 && c < 0xe000)
        return fail_corrupt(j, "half a surrogate pair");
    if (c == 0)
        return fail_corrupt(j, "a NUL in a string");
    *n = cay__utf8_put(out, c);
    return 0;
}

/* One character of a string, as its bytes; *n 0: the string ends. */
static int next_char(js *j, char *out, size_t *n)
{
    int c = next_byte(j);
    *n = 0;
    if (c == '"')
        return 0;
    if (c == '\\')
        return decode_escape(j, out, n);
    if (c < 0x20) {
        if (c == -2)
            return -1;
        return fail_corrupt(j, c == -1 ? "it ends in a string" : "a control character in a string");
    }
    out[0] = (char)c;
    *n = 1;
    return 0;
}

static int parse_string(js *j, char *out, size_t cap)
{
    size_t len = 0, n;
    char c[4];
    CAY_TRY(expect_char(j, '"'));
    for (;;) {
        CAY_TRY(next_char(j, c, &n));
        if (!n)
            break;
        if (len + n >= cap)
            return fail_corrupt(j, "a name too long");
        memcpy(out + len, c, n);
        len += n;
    }
    out[len] = 0;
    for (size_t i = 0; i < len;) {
        size_t k = cay__utf8_len(out + i, len - i);
        if (!k)
            return fail_corrupt(j, "a name that is not UTF-8");
        i += k;
    }
    return 0;
}

static int parse_data(js *j, const char *path)
{
    char out[3 * 4096];
    size_t len = 0, n, have = 0, pad = 0;
    uint32_t acc = 0;
    char c[4];
    CAY_TRY(expect_char(j, '"'));
    for (;;) {
        CAY_TRY(next_char(j, c, &n));
        if (!n)
            break;
        int v = -1;
        if (n == 1)
            v = cay__base64_digit(c[0]);
        if (n == 1 && c[0] == '=' && have >= 2 && ++pad <= 4 - have)
            continue;
        if (v < 0 || pad)
            return fail(j->u, path, "archive_corrupt", "data that is no base64");
        acc = acc << 6 | (uint32_t)v;
        if (++have < 4)
            continue;
        out[len++] = (char)(acc >> 16);
        out[len++] = (char)(acc >> 8);
        out[len++] = (char)acc;
        have = 0;
        acc = 0;
        if (len == sizeof out) {
            CAY_TRY(grow(j->u, path, len));
            cay__item_data(&j->u->out, out, len);
            len = 0;
        }
    }
    if (have == 1 || (pad && have + pad != 4))
        return fail(j->u, path, "archive_corrupt", "data that is no base64");
    if (have >= 2)
        out[len++] = (char)(acc >> (have == 2 ? 4 : 10));
    if (have == 3)
        out[len++] = (char)(acc >> 2);
    CAY_TRY(grow(j->u, path, len));
    cay__item_data(&j->u->out, out, len);
    cay__item_done(&j->u->out);
    return 0;
}

static int add_member(js *j, const char *raw, char type)
{
    char path[CAY__ITEM_PATH];
    if (name_clean(j->u, raw, path) < 0) {
        if (CAY__MUTANT("fuzz-js_archive"))
            return 0;
        return -1;
    }
    if (!strcmp(path, ".")) {
        if (type == CAY__ITEM_DIR)
            return 0;
        return fail(j->u, raw, "archive_path", "the root is no file");
    }
    CAY_TRY(name_add(j->u, path, type));
    cay__item_put(&j->u->out, &(cay__item){ .type = type,
                                            .path = path,
                                            .mode = type == CAY__ITEM_DIR ? 0755 : 0644,
                                            .uid = 1000,
                                            .gid = 1000,
                                            .size = UINT64_MAX });
    return 0;
}

static int parse_directory(js *j)
{
    char raw[CAY__ITEM_PATH];
    CAY_TRY(parse_string(j, raw, sizeof raw));
    return add_member(j, raw, CAY__ITEM_DIR);
}

static int parse_file(js *j)
{
    char key[32], raw[CAY__ITEM_PATH];
    bool named = false, filled = false;
    if (expect_char(j, '{') < 0)
        return -1;
    do {
        CAY_TRY(parse_string(j, key, sizeof key));
        CAY_TRY(expect_char(j, ':'));
        if (!strcmp(key, "path") && !named) {
            CAY_TRY(parse_string(j, raw, sizeof raw));
            CAY_TRY(add_member(j, raw, CAY__ITEM_FILE));
            named = true;
        } else if (!strcmp(key, "data") && !filled) {
            if (!named)
                return fail_corrupt(j, "a file's \"path\" has to come before its \"data\"");
            CAY_TRY(parse_data(j, raw));
            filled = true;
        } else {
            return fail_corrupt(j, "a file has one \"path\" and one \"data\" and nothing else");
        }
    } while (skip_blanks(j) == ',' && next_byte(j));
    if (expect_char(j, '}') < 0)
        return -1;
    if (named && filled)
        return 0;
    return fail_corrupt(j, "a file needs \"path\" and \"data\"");
}

static int parse_list(js *j, int (*each)(js *j))
{
    CAY_TRY(expect_char(j, '['));
    if (skip_blanks(j) == ']') {
        next_byte(j);
        return 0;
    }
    do
        if (each(j) < 0)
            return -1;
    while (skip_blanks(j) == ',' && next_byte(j));
    return expect_char(j, ']');
}

static int parse_version(js *j)
{
    if (skip_blanks(j) != '1')
        return fail(j->u, "", "archive_format", "its version is not 1");
    next_byte(j);
    int c = peek_byte(j);
    if (c >= '0' && c <= '9')
        return fail(j->u, "", "archive_format", "its version is not 1");
    return 0;
}

int read_js(unpack *u, input *s)
{
    static const struct {
        const char *key;
        int (*list)(js *j);
    } lists[] = { { "directories", parse_directory }, { "files", parse_file } };
    js j = { .u = u, .s = s };
    char key[32];
    unsigned had = 0;
    if (expect_char(&j, '{') < 0)
        return -1;
    do {
        CAY_TRY(parse_string(&j, key, sizeof key));
        CAY_TRY(expect_char(&j, ':'));
        unsigned bit;
        if (!strcmp(key, "version"))
            bit = 4;
        else if (!strcmp(key, lists[0].key))
            bit = 1;
        else if (!strcmp(key, lists[1].key))
            bit = 2;
        else
            bit = 0;
        if (!bit || had & bit)
            return fail_corrupt(&j, bit ? "a member that comes twice"
                                        : "it has version, directories and files and nothing else");
        had |= bit;
        if ((bit == 4 ? parse_version(&j) : parse_list(&j, lists[bit - 1].list)) < 0)
            return -1;
    } while (skip_blanks(&j) == ',' && next_byte(&j));
    if (expect_char(&j, '}') < 0)
        return -1;
    if (skip_blanks(&j) != -1) {
        if (u->failed)
            return -1;
        return fail_corrupt(&j, "something comes after it");
    }
    if (had == 7)
        return 0;
    return fail_corrupt(&j, "it lacks version, directories or files");
}
