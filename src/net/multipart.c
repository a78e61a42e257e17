/* SPDX-License-Identifier: Apache-2.0 */
#include "multipart.h"
#include <base/base.h>
#include <base/mutant.h>
#include <strings.h>

#define BOUNDARY_MAX 70 /* RFC 2046, 5.1.1 */
#define HEAD_MAX     8192
#define PARTS_MAX    1000
#define ROOM         (32u << 10)

struct cay__multipart {
    cay__multipart_read *read;
    void *arg;
    char delim[BOUNDARY_MAX + 5]; /* CR LF -- boundary */
    size_t dlen, at, end, parts;
    bool eof, over, in; /* in: a part, or what is before the first, is being read */
    char buf[ROOM];
};

static int fail_multipart(cay_err *err, const char *what)
{
    return cay_fail_why(err, CAY_EINVAL, "multipart_invalid", "the multipart body: %s", what);
}

/* The value of a parameter "; name=value" or "; name=\"value\"". curl escapes quotes by a
 * backslash, browsers by %22; before any other character a backslash is one. */
static bool read_parameter(const char *s, const char *name, char *out, size_t cap, bool *found)
{
    size_t k = strlen(name);
    *found = false;
    s += strcspn(s, ";");
    while (*s == ';') {
        s++;
        s += strspn(s, " \t");
        bool ours = !strncasecmp(s, name, k) && s[k] == '=';
        s += strcspn(s, "=;");
        if (*s != '=')
            continue;
        bool quoted = *++s == '"';
        size_t n = 0;
        s += quoted;
        for (; *s && (quoted ? *s != '"' : !strchr("; \t", *s)); s++) {
            if (quoted && *s == '\\' && (s[1] == '"' || s[1] == '\\'))
                s++;
            if (ours && n + 1 >= cap)
                return false;
            if (ours)
                out[n++] = *s;
        }
        if (quoted && *s++ != '"')
            return false;
        if (ours) {
            if (*found)
                return false; /* twice: which one counts? */
            out[n] = 0;
            *found = true;
        }
        s += strspn(s, " \t");
    }
    return !*s;
}

int cay__multipart_open(const char *content_type, cay__multipart_read *read, void *arg,
                        cay__multipart **out, cay_err *err)
{
    char boundary[BOUNDARY_MAX + 1] = "";
    bool found = false;
    static const char kind[] = "multipart/form-data";
    size_t k = sizeof kind - 1;
    if (!content_type || strncasecmp(content_type, kind, k) || !strchr("; \t", content_type[k]))
        return cay_fail_why(err, CAY_EINVAL, "multipart_invalid",
                            "the content type is not multipart/form-data");
    if (!read_parameter(content_type, "boundary", boundary, sizeof boundary, &found) || !found ||
        !*boundary)
        return fail_multipart(err, "its content type has no boundary of 1 to 70 characters");
    cay__multipart *m = cay__alloc(sizeof *m);
    m->read = read;
    m->arg = arg;
    m->dlen = (size_t)CAY_FORMAT(m->delim, "\r\n--%s", boundary);
    memcpy(m->buf, "\r\n", 2); /* so that the first delimiter looks like the others */
    m->end = 2;
    m->in = true;
    *out = m;
    return 0;
}

void cay__multipart_close(cay__multipart *m)
{
    free(m);
}

static int fill_buffer(cay__multipart *m, cay_err *err)
{
    size_t n = 0;
    memmove(m->buf, m->buf + m->at, m->end - m->at);
    m->end -= m->at;
    m->at = 0;
    if (m->eof)
        return fail_multipart(err, "it ends before its last delimiter");
    if (m->end == ROOM)
        return fail_multipart(err, "the head of a part is longer than 8 KiB");
    CAY_TRY(m->read(m->arg, m->buf + m->end, ROOM - m->end, &n, err));
    m->end += n;
    m->eof = n == 0;
    return 0;
}

static int ensure_bytes(cay__multipart *m, size_t n, cay_err *err)
{
    while (m->end - m->at < n)
        CAY_TRY(fill_buffer(m, err));
    return 0;
}

/* What looks like a delimiter ends a part only when it is one to its end: a file whose bytes hold
 * the boundary is not taken for complete. */
static int end_part(cay__multipart *m, cay_err *err)
{
    CAY_TRY(ensure_bytes(m, m->dlen + 2, err));
    const char *mark = m->buf + m->at + m->dlen;
    if (memcmp(mark, "--", 2) && memcmp(mark, "\r\n", 2))
        return fail_multipart(err, "a delimiter is not alone on its line");
    m->in = false;
    return 0;
}

/* Bytes of the part that are here; 0 at its end. */
static int find_part_data(cay__multipart *m, size_t *n, cay_err *err)
{
    *n = 0;
    while (m->in) {
        size_t have = m->end - m->at;
        const char *p = memmem(m->buf + m->at, have, m->delim, m->dlen);
        if (p)
            *n = (size_t)(p - (m->buf + m->at));
        else if (CAY__MUTANT("fuzz-multipart"))
            *n = have;
        else if (have >= m->dlen)
            *n = have - m->dlen + 1;
        else
            *n = 0;
        if (p && !*n)
            CAY_TRY(end_part(m, err));
        else if (*n)
            return 0;
        else
            CAY_TRY(fill_buffer(m, err));
    }
    return 0;
}

int cay__multipart_bytes(cay__multipart *m, void *buf, size_t cap, size_t *n, cay_err *err)
{
    CAY_TRY(find_part_data(m, n, err));
    *n = CAY_MIN(*n, cap);
    memcpy(buf, m->buf + m->at, *n);
    m->at += *n;
    return 0;
}

int cay__multipart_text(cay__multipart *m, size_t max, char **out, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(max + 1);
    char piece[4096];
    size_t n;
    do {
        CAY_TRY(cay__multipart_bytes(m, piece, sizeof piece, &n, err));
        if (memchr(piece, 0, n))
            return fail_multipart(err, "a field has a NUL inside");
        cay__buf_add(&b, piece, n);
    } while (n && !b.full);
    if (b.full || b.len > max)
        return cay_fail_why(err, CAY_ETOOBIG, "multipart_invalid",
                            "a field of the multipart body is longer than %zu bytes", max);
    if (b.data)
        *out = CAY_STEAL(b.data);
    else
        *out = cay__strdup("");
    return 0;
}

static int take_line(char *line, cay__form_part *out, cay_err *err)
{
    char *colon = line + strcspn(line, ": \t"), *v;
    bool named, file;
    if (*colon != ':' || colon == line)
        return fail_multipart(err, "a line in the head of a part is no field");
    *colon = 0;
    v = colon + 1 + strspn(colon + 1, " \t");
    if (!strcasecmp(line, "content-type")) {
        CAY_FORMAT(out->type, "%s", v);
    } else if (!strcasecmp(line, "content-disposition")) {
        if (out->name[0] || strncasecmp(v, "form-data", 9) ||
            !read_parameter(v, "name", out->name, sizeof out->name, &named) ||
            !read_parameter(v, "filename", out->filename, sizeof out->filename, &file))
            return fail_multipart(err, "the Content-Disposition of a part cannot be read");
        out->file = file;
        if (!named)
            out->name[0] = 0;
    }
    return 0;
}

static int take_head(char *head, cay__form_part *out, cay_err *err)
{
    memset(out, 0, sizeof *out);
    for (char *end; *head; head = end + 2) {
        if (!(end = strstr(head, "\r\n")))
            return fail_multipart(err, "the head of a part cannot be read");
        *end = 0;
        if (strpbrk(head, "\r\n"))
            return fail_multipart(err, "a line ends with something else than CR LF");
        CAY_TRY(take_line(head, out, err));
    }
    if (out->name[0])
        return 0;
    return fail_multipart(err, "a part has no name");
}

int cay__multipart_next(cay__multipart *m, cay__form_part *out, cay_err *err)
{
    size_t n;
    if (m->over)
        return 0;
    do {
        CAY_TRY(find_part_data(m, &n, err));
        m->at += n;
    } while (n);
    m->at += m->dlen;
    if (m->buf[m->at] == '-') { /* what comes after the last one is nobody's */
        m->over = true;
        return 0;
    }
    if (++m->parts > PARTS_MAX)
        return fail_multipart(err, "it has more than 1000 parts");
    char *head, *end; /* from the delimiter's own CR LF on, so that an empty head ends, too */
    while (!(end = memmem(head = m->buf + m->at, m->end - m->at, "\r\n\r\n", 4)) &&
           m->end - m->at < HEAD_MAX)
        CAY_TRY(fill_buffer(m, err));
    if (!end || end - head > HEAD_MAX)
        return fail_multipart(err, "the head of a part is longer than 8 KiB");
    size_t len = (size_t)(end - head);
    char lines[HEAD_MAX + 1];
    memcpy(lines, head + 2, len);
    lines[len] = 0;
    if (strlen(lines) != len)
        return fail_multipart(err, "the head of a part has a NUL inside");
    m->at += len + 4;
    m->in = true;
    CAY_TRY(take_head(lines, out, err));
    return 1;
}
