/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a Dockerfile: where they end, and what they become. */
#include "recipe.h"
#include <base/base.h>
#include <ctype.h>

#define DEPTH 16 /* ${a:-${b:-…}} */

long cay__word_next(const char **s, char escape)
{
    const char *p = *s;
    char quote = 0;
    while (*p == ' ' || *p == '\t' || *p == '\n')
        p++;
    *s = p;
    for (; *p; p++) {
        if (*p == escape && quote != '\'' && p[1])
            p++;
        else if (quote) {
            if (*p == quote)
                quote = 0;
        } else if (*p == '"' || *p == '\'')
            quote = *p;
        else if (*p == ' ' || *p == '\t' || *p == '\n')
            break;
    }
    if (quote)
        return -1;
    return p - *s;
}

bool cay__heredoc_word(const char *w, size_t len, cay__heredoc *out)
{
    const char *end = w + len;
    while (w < end && isdigit((unsigned char)*w))
        w++;
    if (end - w < 3 || w[0] != '<' || w[1] != '<')
        return false;
    w += 2;
    *out = (cay__heredoc){ .strip = *w == '-' };
    w += out->strip;
    if (end - w >= 2 && (*w == '"' || *w == '\'')) {
        if (end[-1] != *w)
            return false;
        out->quoted = true;
        w++, end--;
    }
    size_t n = (size_t)(end - w);
    if (w >= end || n >= sizeof out->name)
        return false;
    CAY_EACH_OF(it, w, n)
        if (!isalnum((unsigned char)*it) && *it != '_' && *it != '.' && *it != '-')
            return false;
    memcpy(out->name, w, n);
    return true;
}

typedef struct expand {
    const char *p;
    char escape;
    cay__recipe_get get;
    void *arg;
    cay__buf out;
    unsigned depth;
    cay_err *err;
} expand;

static int expand_variable(expand *x, bool skip);
static int expand_pieces(expand *x, const char *stop, bool quoted, bool skip);

static void append_text(expand *x, const char *s, size_t n, bool skip)
{
    if (!skip)
        cay__buf_add(&x->out, s, n);
}

/* Behind "${NAME": an operator with its word, then '}'. */
static int expand_braced(expand *x, const char *name, bool skip)
{
    const char *v = x->get(name, x->arg);
    bool colon = *x->p == ':', set = v && (!colon || *v);
    x->p += colon;
    char op = *x->p;
    if (op == '}' && !colon) {
        x->p++;
        append_text(x, CAY_OR(v, ""), v ? strlen(v) : 0, skip);
        return 0;
    }
    if (!op || !strchr("-+?", op))
        return cay_fail(
            x->err, CAY_EINVAL,
            "${%s…}: of the operators only -, + and ?, with or without a colon, are understood",
            name);
    x->p++;
    size_t at = x->out.len;
    bool use = set;
    if (op != '+')
        use = !set;
    if (op != '+' && set)
        append_text(x, v, strlen(v), skip);
    CAY_TRY(expand_pieces(x, "}", false, skip || !use));
    if (*x->p != '}')
        return cay_fail(x->err, CAY_EINVAL, "${%s: there is no closing brace", name);
    x->p++;
    if (op == '?' && use && !skip)
        return cay_fail(x->err, CAY_EINVAL, "%s is not set: %.100s", name,
                        x->out.len > at ? x->out.data + at : "it is required");
    return 0;
}

static int expand_variable(expand *x, bool skip)
{
    char name[128];
    size_t n = 0;
    bool brace = x->p[1] == '{';
    const char *s = x->p + 1 + brace;
    if (!isalpha((unsigned char)*s) && *s != '_') {
        if (brace)
            return cay_fail(x->err, CAY_EINVAL, "${: no name of a variable follows");
        append_text(x, "$", 1, skip);
        x->p++;
        return 0;
    }
    while (isalnum((unsigned char)s[n]) || s[n] == '_')
        n++;
    if (n >= sizeof name)
        return cay_fail(x->err, CAY_EINVAL, "a variable's name has more than %zu characters",
                        sizeof name - 1);
    memcpy(name, s, n);
    name[n] = 0;
    x->p = s + n;
    if (brace) {
        if (++x->depth > DEPTH)
            return cay_fail(x->err, CAY_EINVAL, "variables are more than %d deep in each other",
                            DEPTH);
        int rc = expand_braced(x, name, skip);
        x->depth--;
        return rc;
    }
    const char *v = x->get(name, x->arg);
    if (v)
        append_text(x, v, strlen(v), skip);
    return 0;
}

static int copy_single_quoted(expand *x, bool skip)
{
    const char *end = strchr(x->p + 1, '\'');
    if (!end)
        return cay_fail(x->err, CAY_EINVAL, "a single quote is not closed");
    append_text(x, x->p + 1, (size_t)(end - x->p - 1), skip);
    x->p = end + 1;
    return 0;
}

/* Up to one of `stop` that is in no quotes. */
static int expand_pieces(expand *x, const char *stop, bool quoted, bool skip)
{
    while (*x->p && !strchr(stop, *x->p)) {
        if (*x->p == x->escape && x->p[1]) {
            /* In double quotes it takes away the meaning of what has one there, and stays before
             * all else. */
            bool drop = !quoted || x->p[1] == '"' || x->p[1] == '$' || x->p[1] == x->escape;
            append_text(x, x->p + drop, drop ? 1 : 2, skip);
            x->p += 2;
        } else if (*x->p == '$') {
            CAY_TRY(expand_variable(x, skip));
        } else if (*x->p == '\'' && !quoted) {
            CAY_TRY(copy_single_quoted(x, skip));
        } else if (*x->p == '"' && !quoted) {
            x->p++;
            CAY_TRY(expand_pieces(x, "\"", true, skip));
            if (*x->p != '"')
                return cay_fail(x->err, CAY_EINVAL, "a double quote is not closed");
            x->p++;
        } else {
            append_text(x, x->p++, 1, skip);
        }
    }
    return 0;
}

int cay__recipe_expand(const char *word, char escape, cay__recipe_get get, void *arg, char **out,
                       cay_err *err)
{
    expand x = { .p = word,
                 .escape = escape,
                 .get = get,
                 .arg = arg,
                 .out = CAY__BUF(CAY__RECIPE_BYTES),
                 .err = err };
    cay__buf_str(&x.out, "");
    int rc = expand_pieces(&x, "", false, false);
    if (!rc && x.out.full)
        rc = cay_fail(err, CAY_ETOOBIG, "a word becomes longer than %u bytes", CAY__RECIPE_BYTES);
    if (rc < 0) {
        cay__buf_clear(&x.out);
        return rc;
    }
    *out = CAY_OR(x.out.data, cay__strdup(""));
    return 0;
}
