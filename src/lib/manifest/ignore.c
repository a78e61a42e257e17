/* SPDX-License-Identifier: Apache-2.0 */
#include "ignore.h"
#include <base/base.h>

bool cay__ignore_add(cay__ignore *ig, const char *line, size_t len)
{
    cay__ignore_rule r = { 0 };
    while (len && (line[len - 1] == '\r' || line[len - 1] == '\n' ||
                   (line[len - 1] == ' ' && (len < 2 || line[len - 2] != '\\'))))
        len--;
    if (!len || *line == '#')
        return true;
    if (*line == '!') {
        r.keep = true;
        line++;
        len--;
    }
    while (len && line[len - 1] == '/') {
        r.dirs = true;
        len--;
    }
    r.anchored = memchr(line, '/', len) != NULL;
    while (len && *line == '/') {
        line++;
        len--;
    }
    if (!len || ig->n >= CAY__IGNORE_RULES)
        return !len;
    char *copy = cay__arena_take(&ig->mem, len + 1);
    memcpy(copy, line, len);
    r.pattern = copy;
    if (!(ig->n & (ig->n - 1))) {
        ig->rules = realloc(ig->rules, CAY_OR(2 * ig->n, 1) * sizeof r);
        if (!ig->rules)
            abort();
    }
    ig->rules[ig->n++] = r;
    return true;
}

bool cay__ignore_text(cay__ignore *ig, const char *text, size_t len)
{
    for (const char *s = text, *end = text + len, *e; s < end; s = e + 1) {
        e = memchr(s, '\n', (size_t)(end - s));
        e = CAY_OR(e, end);
        if (!cay__ignore_add(ig, s, (size_t)(e - s)))
            return false;
    }
    return true;
}

/* [set] at p, behind its '['. Gives where the pattern goes on; NULL: it is no set. */
static const char *in_set(const char *p, unsigned char c, bool *yes)
{
    bool not = *p == '!' || *p == '^', hit = false, first = true;
    for (p += not ; *p && (first || *p != ']'); first = false) {
        p += *p == '\\' && p[1];
        unsigned char a = (unsigned char)*p++, b = a;
        if (*p == '-' && p[1] && p[1] != ']') {
            b = (unsigned char)p[1];
            p += 2;
        }
        hit |= a <= c && c <= b;
    }
    *yes = hit != not ;
    if (*p)
        return p + 1;
    return NULL;
}

/* Goes back only to the last star of one name and the last pair of stars: no pattern takes longer
 * than pattern × path. */
bool cay__ignore_fits(const char *p, const char *s)
{
    const char *star = NULL, *back = NULL, *far = NULL, *far_back = NULL;
    for (;;) {
        bool yes = false;
        const char *next = NULL;
        if (p[0] == '*' && p[1] == '*') {
            p += 2;
            if (!*p)
                return true;
            p += *p == '/';
            far = p;
            far_back = s;
            star = NULL;
            continue;
        }
        if (*p == '*') {
            star = ++p;
            back = s;
            continue;
        }
        if (!*s && !*p)
            return true;
        if (*s && *p == '[' && *s != '/' && (next = in_set(p + 1, (unsigned char)*s, &yes)) && yes)
            p = next, s++;
        else if (*s && *p == '?' && *s != '/')
            p++, s++;
        else if (*s && *p && !next && (p[0] == '\\' && p[1] ? p[1] == *s : *p == *s && *p != '?'))
            p += 1 + (p[0] == '\\' && p[1]), s++;
        else if (star && *back && *back != '/')
            p = star, s = ++back;
        else if (far && *far_back) {
            far_back += strcspn(far_back, "/");
            far_back += *far_back == '/';
            if (!*far_back)
                return false;
            p = far;
            s = far_back;
            star = NULL;
        } else
            return false;
    }
}

bool cay__ignored(const cay__ignore *ig, const char *path, bool dir)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = ig ? ig->n : 0; i-- > 0;) {
        const cay__ignore_rule *r = &ig->rules[i];
        if ((!r->dirs || dir) && cay__ignore_fits(r->pattern, r->anchored ? path : name))
            return !r->keep;
    }
    return false;
}

void cay__ignore_clear(cay__ignore *ig)
{
    cay__arena_clear(&ig->mem);
    free(ig->rules);
    *ig = (cay__ignore){ 0 };
}
