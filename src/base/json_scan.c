/* SPDX-License-Identifier: Apache-2.0 */
#include "json_scan.h"
#include "base.h"
#include "mutant.h"

enum { DEPTH_MAX = 64 };

typedef unsigned char sixteen __attribute__((vector_size(16)));

const char *cay__scan_blanks(const char *s, const char *end)
{
    while (s < end && (*s == ' ' || *s == '\n' || *s == '\r' || *s == '\t'))
        s++;
    return s;
}

/* Bytes at the front that stand for themselves: no quote, backslash, control character or part of a
 * longer one. */
static size_t count_plain(const char *s, size_t n)
{
    size_t k = 0;
    for (; n - k >= sizeof(sixteen); k += sizeof(sixteen)) {
        sixteen v;
        uint64_t odd[2];
        memcpy(&v, s + k, sizeof v);
        v = (sixteen)((v == '"') | (v == '\\') | (v < 0x20) | (v > 0x7f));
        memcpy(odd, &v, sizeof odd);
        if (odd[0] | odd[1])
            break;
    }
    while (k < n && (unsigned char)s[k] >= 0x20 && (unsigned char)s[k] < 0x80 && s[k] != '"' &&
           s[k] != '\\')
        k++;
    return k;
}

/* Four digits: 1, 0 when there are not enough bytes, -1 when one of those is no digit. */
static int read_hex4(const char *s, size_t n, uint32_t *out)
{
    uint32_t v = 0;
    for (size_t i = 0; i < 4; i++) {
        if (i == n && !CAY__MUTANT("fuzz-kernel_json"))
            return 0;
        int d = cay__hex_digit(s[i]);
        if (d < 0)
            return -1;
        v = v << 4 | (uint32_t)d;
    }
    *out = v;
    return 1;
}

/* The other half behind the first one at s: 12 bytes in all, 6 when there is none, 0 when that is
 * not known yet. */
static int join_halves(const char *s, size_t n, uint32_t *c)
{
    uint32_t low = 0;
    if ((n > 6 && s[6] != '\\') || (n > 7 && s[7] != 'u'))
        return 6;
    if (n < 8)
        return 0;
    int rc = read_hex4(s + 8, n - 8, &low);
    if (rc == 0)
        return 0;
    if (rc < 0 || low < 0xdc00 || low >= 0xe000)
        return 6;
    *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
    return 12;
}

int cay__scan_escape(const char *s, size_t n, uint32_t *c)
{
    static const char names[] = "\"\\/bfnrt", are[] = "\"\\/\b\f\n\r\t";
    if (n < 2)
        return 0;
    if (s[1] != 'u') {
        const char *at = memchr(names, s[1], sizeof names - 1);
        if (!at)
            return -1;
        *c = (uint32_t)are[at - names];
        return 2;
    }
    int rc = read_hex4(s + 2, n - 2, c);
    if (rc <= 0)
        return rc;
    if (*c >= 0xd800 && *c < 0xdc00)
        return join_halves(s, n, c);
    return 6;
}

static void add_char(cay__buf *b, uint32_t c, bool *half)
{
    char out[4];
    if (c >= 0xd800 && c < 0xe000) {
        *half = true;
        c = 0xfffd;
    }
    cay__buf_add(b, out, cay__utf8_put(out, c));
}

const char *cay__scan_string(const char *s, const char *end, cay__buf *room, cay__scanned *out)
{
    const char *from = ++s;
    bool escaped = false, half = false;
    if (out)
        room->len = 0;
    for (;;) {
        s += count_plain(s, (size_t)(end - s));
        if (s == end || ((unsigned char)*s < 0x20 && !CAY__MUTANT("fuzz-json_quick")))
            return NULL;
        if (*s == '"')
            break;
        if (*s != '\\') {
            size_t k = cay__utf8_len(s, (size_t)(end - s));
            if (!k)
                return NULL;
            s += k;
            continue;
        }
        uint32_t c;
        int k = cay__scan_escape(s, (size_t)(end - s), &c);
        if (k <= 0)
            return NULL;
        if (out) {
            cay__buf_add(room, from, (size_t)(s - from));
            add_char(room, c, &half);
        }
        s += k;
        from = s;
        escaped = true;
    }
    if (!out)
        return s + 1;
    *out = (cay__scanned){ from, (size_t)(s - from), half };
    if (escaped) {
        cay__buf_add(room, out->p, out->len);
        out->p = room->data;
        out->len = room->len;
    }
    if (room->full)
        return NULL;
    return s + 1;
}

static const char *check_value(const char *s, const char *end, int depth);

static const char *skip_digits(const char *s, const char *end)
{
    const char *from = s;
    while (s < end && *s >= '0' && *s <= '9')
        s++;
    if (s > from)
        return s;
    return NULL;
}

static const char *check_number(const char *s, const char *end)
{
    s += *s == '-';
    const char *whole_part = s;
    if (!(s = skip_digits(s, end)) || (*whole_part == '0' && s > whole_part + 1))
        return NULL;
    if (s < end && *s == '.' && !(s = skip_digits(s + 1, end)))
        return NULL;
    if (s < end && (*s == 'e' || *s == 'E')) {
        s++;
        s += s < end && (*s == '+' || *s == '-');
        s = skip_digits(s, end);
    }
    return s;
}

/* The name of a member at s, and its colon: where the value begins. */
static const char *check_name(const char *s, const char *end, const char **stop)
{
    if (s >= end || *s != '"' || !(s = cay__scan_string(s, end, NULL, NULL)))
        return NULL;
    *stop = s - 1;
    s = cay__scan_blanks(s, end);
    if (s >= end || *s != ':')
        return NULL;
    return cay__scan_blanks(s + 1, end);
}

/* Behind the list or object that begins at s. */
static const char *check_container(const char *s, const char *end, int depth)
{
    bool named = *s == '{';
    char last = ']';
    if (named)
        last = '}';
    s = cay__scan_blanks(s + 1, end);
    if (s < end && *s == last)
        return s + 1;
    while (s < end) {
        const char *stop;
        if (named && !(s = check_name(s, end, &stop)))
            return NULL;
        if (!(s = check_value(s, end, depth)) || (s = cay__scan_blanks(s, end)) >= end)
            return NULL;
        if (*s == last)
            return s + 1;
        if (*s != ',')
            return NULL;
        s = cay__scan_blanks(s + 1, end);
    }
    return NULL;
}

static const char *check_value(const char *s, const char *end, int depth)
{
    static const char *const words[] = { "true", "false", "null" };
    if (s >= end || depth > DEPTH_MAX)
        return NULL;
    if (*s == '"')
        return cay__scan_string(s, end, NULL, NULL);
    if (*s == '{' || *s == '[')
        return check_container(s, end, depth + 1);
    CAY_EACH(word, words) {
        size_t n = strlen(*word);
        if ((size_t)(end - s) >= n && !memcmp(s, *word, n))
            return s + n;
    }
    if (*s == '-' || (*s >= '0' && *s <= '9'))
        return check_number(s, end);
    return NULL;
}

bool cay__scan_sound(const char *s, const char *end)
{
    s = check_value(cay__scan_blanks(s, end), end, 0);
    return s && cay__scan_blanks(s, end) == end;
}

bool cay__scan_next(const char **s, const char *end, const char **name, size_t *len,
                    const char **at, const char **stop)
{
    const char *p = cay__scan_blanks(*s, end), *name_end;
    if (p < end && *p == ',')
        p = cay__scan_blanks(p + 1, end);
    const char *value = check_name(p, end, &name_end);
    if (!value || !(*stop = check_value(value, end, 0)))
        return false;
    *name = p + 1;
    *len = (size_t)(name_end - *name);
    *at = value;
    *s = *stop;
    return true;
}

bool cay__scan_member(const char *s, const char *end, const char *name, const char **at,
                      const char **stop)
{
    const char *key;
    size_t n;
    s = cay__scan_blanks(s, end);
    if (s >= end || *s++ != '{')
        return false;
    while (cay__scan_next(&s, end, &key, &n, at, stop))
        if (n == strlen(name) && !memcmp(key, name, n))
            return true;
    return false;
}

bool cay__scan_text(const char *at, const char *stop, cay__buf *out)
{
    CAY_AUTOBUF room = CAY__BUF((size_t)(stop - at));
    cay__scanned text;
    out->len = 0;
    cay__buf_add(out, "", 0);
    if (at >= stop || *at != '"' || cay__scan_string(at, stop, &room, &text) != stop)
        return false;
    for (const char *p = text.p, *end = p + text.len; p < end; p++) {
        const char *zero = memchr(p, 0, (size_t)(end - p));
        if (!zero)
            zero = end;
        cay__buf_add(out, p, (size_t)(zero - p));
        p = zero;
    }
    return true;
}
