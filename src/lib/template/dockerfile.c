/* SPDX-License-Identifier: Apache-2.0 */
/* From the text of a Dockerfile to instructions: directives, comments, continuations,
 * here-documents. */
#include "recipe.h"
#include <base/base.h>
#include <base/mutant.h>
#include <ctype.h>

#define DOCS 16 /* here-documents of one instruction */

typedef struct reader {
    cay__recipe *r;
    const char *what, *p, *end;
    unsigned no; /* of the line at p, from 1 */
    cay_err *err;
} reader;

int cay__dockerfile_bad(cay_err *err, const cay__instruction *l, const char *reason,
                        const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int rc = cay_fail_why(err, CAY_EINVAL, reason, "%.60s:%u: %s%s%s", l->what, l->no, l->name,
                          CAY_TEXT_IF(*l->name, ": "), text);
    if (err)
        CAY_FORMAT(err->detail, "{\"line\":%u,\"instruction\":\"%s\"}", l->no, l->name);
    return rc;
}

/* One line of the file without its end; false at the end of all. */
static bool read_line(reader *rd, const char **s, size_t *n)
{
    if (rd->p >= rd->end)
        return false;
    const char *nl = memchr(rd->p, '\n', (size_t)(rd->end - rd->p)), *stop = CAY_OR(nl, rd->end);
    *s = rd->p;
    *n = (size_t)(stop - rd->p);
    if (*n && (*s)[*n - 1] == '\r')
        --*n;
    if (nl)
        rd->p = nl + 1;
    else
        rd->p = rd->end;
    rd->no++;
    return true;
}

static size_t count_blanks(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n + CAY__MUTANT("fuzz-dockerfile") && (s[i] == ' ' || s[i] == '\t'))
        i++;
    return i;
}

/* "# escape=`" and its kind, before anything else in the file. */
static int read_directives(reader *rd)
{
    for (;;) {
        reader back = *rd;
        const char *s;
        size_t n, i;
        char name[16] = "";
        if (!read_line(rd, &s, &n))
            return 0;
        i = count_blanks(s, n);
        if (i >= n || s[i] != '#') {
            *rd = back;
            return 0;
        }
        i++;
        i += count_blanks(s + i, n - i);
        size_t k = 0;
        while (i < n && isalpha((unsigned char)s[i]) && k < sizeof name - 1)
            name[k++] = (char)tolower((unsigned char)s[i++]);
        i += count_blanks(s + i, n - i);
        if (!k || i >= n || s[i] != '=') {
            *rd = back;
            return 0;
        }
        i++;
        i += count_blanks(s + i, n - i);
        while (n > i && (s[n - 1] == ' ' || s[n - 1] == '\t'))
            n--;
        if (!strcmp(name, "escape")) {
            if (n - i != 1 || (s[i] != '\\' && s[i] != '`'))
                return cay__dockerfile_bad(rd->err,
                                           &(cay__instruction){ .what = rd->what, .no = back.no },
                                           "dockerfile_invalid", "escape is \\ or `");
            rd->r->escape = s[i];
        } else if (strcmp(name, "syntax") && strcmp(name, "check")) {
            *rd = back;
            return 0;
        }
    }
}

/* An instruction over its continued lines, comments between them left out. *no: where it begins. 1:
 * there is one. */
static int read_instruction(reader *rd, cay__buf *out, unsigned *no)
{
    const char *s;
    size_t n;
    bool more = false;
    while (read_line(rd, &s, &n)) {
        size_t i = count_blanks(s, n);
        if (i == n || s[i] == '#') /* also between continued lines */
            continue;
        if (!more)
            *no = rd->no - 1;
        size_t e = n;
        while (e > i && (s[e - 1] == ' ' || s[e - 1] == '\t'))
            e--;
        bool go_on = e > i && s[e - 1] == rd->r->escape;
        if (memchr(s, 0, n))
            return cay__dockerfile_bad(rd->err,
                                       &(cay__instruction){ .what = rd->what, .no = rd->no - 1 },
                                       "dockerfile_invalid", "there is a NUL byte in it");
        if (!more) {
            s += i;
            n -= i;
            e -= i;
        }
        cay__buf_add(out, s, go_on ? e - 1 : n);
        more = true;
        if (!go_on)
            break;
    }
    return more;
}

static int read_doc(reader *rd, const cay__instruction *l, const cay__heredoc *h, const char **data,
                    size_t *len)
{
    CAY_AUTOBUF body = CAY__BUF(CAY__RECIPE_BYTES);
    const char *s;
    size_t n;
    while (read_line(rd, &s, &n)) {
        size_t tabs = 0;
        while (h->strip && tabs < n && s[tabs] == '\t')
            tabs++;
        s += tabs;
        n -= tabs;
        if (n == strlen(h->name) && !memcmp(s, h->name, n)) {
            char *copy = cay__arena_take(&rd->r->mem, body.len + 1);
            if (body.len)
                memcpy(copy, body.data, body.len);
            *data = copy;
            *len = body.len;
            return 0;
        }
        cay__buf_add(&body, s, n);
        cay__buf_add(&body, "\n", 1);
    }
    return cay__dockerfile_bad(rd->err, l, "dockerfile_invalid",
                               "the here-document <<%s is not ended: no line is just %s", h->name,
                               h->name);
}

/* Bodies of what the instruction opens with <<. */
static int read_docs(reader *rd, cay__instruction *l, const char **docs, size_t *lens)
{
    if (strcmp(l->name, "RUN") && strcmp(l->name, "COPY") && strcmp(l->name, "ADD"))
        return 0;
    long n;
    for (const char *s = l->rest; (n = cay__word_next(&s, rd->r->escape)) > 0; s += n) {
        cay__heredoc h;
        if (!cay__heredoc_word(s, (size_t)n, &h))
            continue;
        if (l->ndocs >= DOCS)
            return cay__dockerfile_bad(rd->err, l, "dockerfile_invalid",
                                       "it has more than %d here-documents", DOCS);
        CAY_TRY(read_doc(rd, l, &h, &docs[l->ndocs], &lens[l->ndocs]));
        l->ndocs++;
    }
    return 0;
}

static int parse_instruction(reader *rd, char *text, unsigned no)
{
    const char *docs[DOCS];
    size_t lens[DOCS], n = 0;
    cay__instruction l = { .what = rd->what, .no = no, .docs = docs, .lens = lens };
    while (text[n] && text[n] != ' ' && text[n] != '\t')
        n++;
    for (size_t i = 0; i < n && i < sizeof l.name - 1; i++) {
        if (isalpha((unsigned char)text[i]))
            l.name[i] = (char)toupper((unsigned char)text[i]);
        else
            l.name[i] = '?';
    }
    l.rest = text + n + count_blanks(text + n, strlen(text + n));
    for (size_t k = strlen(text); k > n && (text[k - 1] == ' ' || text[k - 1] == '\t'); k--)
        text[k - 1] = 0;
    if (n >= sizeof l.name)
        return cay__dockerfile_bad(rd->err, &l, "dockerfile_unsupported",
                                   "no instruction has such a name");
    CAY_TRY(read_docs(rd, &l, docs, lens));
    return cay__dockerfile_step(rd->r, &l, rd->err);
}

static int read_all(reader *rd)
{
    CAY_TRY(read_directives(rd));
    for (;;) {
        CAY_AUTOBUF text = CAY__BUF(CAY__RECIPE_BYTES);
        unsigned no = 0;
        int rc = read_instruction(rd, &text, &no);
        CAY_TRY(rc);
        if (!rc)
            break;
        if (!text.len) /* a lone escape */
            continue;
        CAY_TRY(parse_instruction(rd, text.data, no));
    }
    if (!rd->r->nstages)
        return cay_fail_why(rd->err, CAY_EINVAL, "dockerfile_invalid",
                            "%.60s: there is no FROM in it", rd->what);
    return 0;
}

int cay__dockerfile_read(cay__recipe *r, const char *what, const char *text, size_t len,
                         cay_err *err)
{
    *r = (cay__recipe){ .escape = '\\', .sudo = -1 };
    if (len > CAY__RECIPE_BYTES)
        return cay_fail_why(err, CAY_ETOOBIG, "dockerfile_invalid",
                            "%.60s: it has more than %u bytes", what, CAY__RECIPE_BYTES);
    if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
        text += 3, len -= 3;
    r->name = r->services = r->settings = r->setting_files = r->interpreter = r->limits =
        r->aliases = r->net = r->start = r->ready = r->user = "";
    int rc = read_all(
        &(reader){ .r = r, .what = what, .p = text, .end = text + len, .no = 1, .err = err });
    if (rc < 0)
        cay__recipe_clear(r);
    return rc;
}
