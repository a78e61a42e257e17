/* SPDX-License-Identifier: Apache-2.0 */
#include "head.h"
#include <base/base.h>
#include <base/mutant.h>
#include <strings.h>

enum { METHOD_MAX = 32 };

/* RFC 9110 section 5.6.2 */
static bool is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int fail_head(cay_err *err, const char *what)
{
    return cay_fail_why(err, CAY_EINVAL, "http_syntax",
                        "the head of the message is not HTTP/1.1: %s", what);
}

/* Finds the empty line. Every LF has its CR, so that a line has one end for everybody. */
static int find_end(const char *data, size_t n, size_t *scanned, cay_err *err)
{
    size_t look = CAY_MIN(n, (size_t)CAY__HEAD_MAX), at = *scanned;
    const char *lf;
    while ((lf = memchr(data + at, '\n', look - at))) {
        size_t i = (size_t)(lf - data);
        if (i == 0 || data[i - 1] != '\r')
            return fail_head(err, "a line ends without CR");
        if (i == 1)
            return fail_head(err, "it begins with an empty line");
        if (i >= 3 && data[i - 2] == '\n')
            return (int)i + 1;
        at = i + 1;
    }
    *scanned = look;
    if (n >= CAY__HEAD_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "head_too_big",
                            "the head of the message has more than %d bytes", CAY__HEAD_MAX);
    return 0;
}

/* One line of a field, cut in place: name, colon, value. */
static int read_field(char *line, char *end, cay__field_line *f, cay_err *err)
{
    char *p = line;
    if (*p == ' ' || *p == '\t')
        return fail_head(err, "a folded line");
    for (; is_token((unsigned char)*p); p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p + 'a' - 'A');
    if (p == line || *p != ':')
        return fail_head(err, "a field without a proper name");
    *p++ = 0;
    while (*p == ' ' || *p == '\t')
        p++;
    while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = 0;
    for (const char *q = p; q < end; q++)
        if ((((unsigned char)*q < 0x20 && *q != '\t') || *q == 0x7f) &&
            !CAY__MUTANT("fuzz-request"))
            return fail_head(err, "a control character in a field");
    *f = (cay__field_line){ .name = line, .value = p, .value_len = (size_t)(end - p) };
    return 0;
}

static int read_fields(char *p, char *end, cay__head *h, cay_err *err)
{
    while (p < end) {
        char *cr = memchr(p, '\r', (size_t)(end - p));
        if (!cr || cr[1] != '\n')
            return fail_head(err, "a CR without its LF");
        if (cr == p)
            return 0;
        if (h->nfields == CAY__HEAD_FIELDS)
            return cay_fail_why(err, CAY_ETOOBIG, "head_too_big",
                                "the head of the message has more than %d fields",
                                CAY__HEAD_FIELDS);
        CAY_TRY(read_field(p, cr, &h->fields[h->nfields], err));
        h->nfields++;
        p = cr + 2;
    }
    return 0;
}

/* The one line of that name, or NULL; *n tells how many there are. */
static const char *find_only_field(const cay__head *h, const char *name, unsigned *n)
{
    const char *v = NULL;
    *n = 0;
    CAY_EACH_OF(field, h->fields, h->nfields)
        if (!strcmp(field->name, name)) {
            v = field->value;
            ++*n;
        }
    return v;
}

static int read_length(const char *v, uint64_t *out, cay_err *err)
{
    uint64_t n = 0;
    size_t len = strlen(v);
    if (len < 1 || len > 18)
        return fail_head(err, "Content-Length is no sensible number");
    for (; *v; v++) {
        if (*v < '0' || *v > '9')
            return fail_head(err, "Content-Length is not of digits alone");
        n = n * 10 + (uint64_t)(*v - '0');
    }
    *out = n;
    return 0;
}

static int read_framing(cay__head *h, cay_err *err)
{
    unsigned nte, ncl;
    const char *te = find_only_field(h, "transfer-encoding", &nte),
               *cl = find_only_field(h, "content-length", &ncl);
    if ((nte > 1 || ncl > 1 || (nte && ncl)) && !CAY__MUTANT("http-lengths"))
        return fail_head(err, "its length is told twice");
    if (te && h->minor == 0)
        return fail_head(err, "Transfer-Encoding in HTTP/1.0");
    if (te && strcasecmp(te, "chunked"))
        return cay_fail_why(err, CAY_ENOTSUP, "transfer_encoding",
                            "Transfer-Encoding \"%.40s\": only chunked is understood", te);
    if (cl)
        CAY_TRY(read_length(cl, &h->length, err));
    if (te)
        h->body = CAY__BODY_CHUNKED;
    else if (cl && h->length)
        h->body = CAY__BODY_LENGTH;
    if (h->minor == 1)
        h->keep_alive = !cay__head_list(h, "connection", "close");
    else
        h->keep_alive = cay__head_list(h, "connection", "keep-alive");
    return 0;
}

static int read_version(const char *v, cay__head *h, cay_err *err)
{
    if (strncmp(v, "HTTP/", 5) || strlen(v) != 8 || v[6] != '.')
        return fail_head(err, "the first line has no version");
    if (v[5] != '1' || (v[7] != '0' && v[7] != '1'))
        return cay_fail_why(err, CAY_ENOTSUP, "http_version",
                            "version \"%.12s\" is not spoken here: HTTP/1.1 is", v);
    h->minor = v[7] - '0';
    return 0;
}

static int read_target(char *t, cay__head *h, cay_err *err)
{
    for (const char *p = t; *p; p++)
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f || *p == '#' || *p == '\\')
            return fail_head(err, "a character in the target that may not be there");
    if (*t != '/' && !(!strcmp(t, "*") && !strcmp(h->method, "OPTIONS")))
        return fail_head(err, "the target does not begin with a slash");
    h->target = t;
    return 0;
}

static int read_host(cay__head *h, cay_err *err)
{
    unsigned n;
    const char *v = find_only_field(h, "host", &n);
    if (n > 1 || (n == 0 && h->minor == 1))
        return fail_head(err, "it needs one Host");
    h->host = CAY_OR(v, "");
    for (const char *p = h->host; *p; p++)
        if (!((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
              strchr("-._:[]", *p)))
            return fail_head(err, "a character in Host that may not be there");
    return 0;
}

/* Copies n bytes of a head and cuts off the first line; *fields is where the others begin. */
static char *copy_head(cay__head *h, const char *data, size_t n, char **fields)
{
    memset(h, 0, offsetof(cay__head, fields));
    h->bytes = malloc(n + 1);
    if (!h->bytes)
        abort();
    memcpy(h->bytes, data, n);
    h->bytes[n] = 0;
    char *cr = memchr(h->bytes, '\r', n);
    *cr = 0; /* there is one: the end was found */
    *fields = cr + 2;
    return cr;
}

static int read_request(cay__head *h, const char *data, size_t n, cay_err *err)
{
    char *fields, *cr = copy_head(h, data, n, &fields),
                  *sp1 = memchr(h->bytes, ' ', (size_t)(cr - h->bytes)), *sp2;
    if (fields[-1] != '\n' || strlen(h->bytes) != (size_t)(cr - h->bytes))
        return fail_head(err, "a control character in its first line");
    if (!sp1 || !(sp2 = strchr(sp1 + 1, ' ')) || strchr(sp2 + 1, ' '))
        return fail_head(err, "the first line is not METHOD TARGET VERSION");
    *sp1 = *sp2 = 0;
    h->method = h->bytes;
    for (const char *p = h->method; *p; p++)
        if (!is_token((unsigned char)*p))
            return fail_head(err, "the method is no word");
    if (sp1 == h->bytes || sp1 - h->bytes > METHOD_MAX)
        return fail_head(err, "the method is no word");
    CAY_TRY(read_version(sp2 + 1, h, err));
    CAY_TRY(read_target(sp1 + 1, h, err));
    CAY_TRY(read_fields(fields, h->bytes + n, h, err));
    CAY_TRY(read_host(h, err));
    CAY_TRY(read_framing(h, err));
    const char *expect = cay__head_field(h, "expect"), *up = cay__head_field(h, "upgrade");
    if (expect && strcasecmp(expect, "100-continue"))
        return fail_head(err, "Expect asks for something unknown");
    h->expect_continue = expect && h->minor == 1 && h->body != CAY__BODY_NONE;
    if (up && h->minor == 1 && cay__head_list(h, "connection", "upgrade"))
        h->upgrade = up;
    return 0;
}

/* Path and query are cut apart in a second copy, so that the target stays whole. */
static void cut_target(cay__head *h)
{
    size_t n = strlen(h->target);
    char *copy = realloc(h->cut, n + 1), *q;
    if (!copy)
        abort();
    memcpy(copy, h->target, n + 1);
    h->cut = copy;
    q = strchr(copy, '?');
    if (q)
        *q++ = 0;
    h->path = copy;
    h->query = CAY_OR(q, copy + n);
}

int cay__request_read(const char *data, size_t n, size_t *scanned, cay__head *out, cay_err *err)
{
    int len = find_end(data, n, scanned, err);
    if (len <= 0)
        return len;
    int rc = read_request(out, data, (size_t)len, err);
    if (rc < 0) {
        cay__head_clear(out);
        return rc;
    }
    cut_target(out);
    return len;
}

static int read_answer(cay__head *h, const char *data, size_t n, bool to_head_request, cay_err *err)
{
    char *fields, *cr = copy_head(h, data, n, &fields), *line = h->bytes;
    if (fields[-1] != '\n' || strlen(line) != (size_t)(cr - line) || strlen(line) < 12 ||
        line[8] != ' ' || (line[12] && line[12] != ' '))
        return fail_head(err, "the first line is not VERSION STATUS");
    line[8] = 0;
    CAY_TRY(read_version(line, h, err));
    for (int i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9')
            return fail_head(err, "the status is no number");
        h->status = h->status * 10 + (line[i] - '0');
    }
    if (h->status < 100 || h->status > 599)
        return fail_head(err, "there is no such status");
    CAY_TRY(read_fields(fields, h->bytes + n, h, err));
    unsigned ncl;
    find_only_field(h, "content-length", &ncl);
    CAY_TRY(read_framing(h, err));
    if (to_head_request || h->status < 200 || h->status == 204 || h->status == 304)
        h->body = CAY__BODY_NONE;
    else if (h->body == CAY__BODY_NONE && !ncl)
        h->body = CAY__BODY_TO_END;
    h->method = h->target = h->path = h->query = h->host = "";
    const char *up = cay__head_field(h, "upgrade");
    if (up && cay__head_list(h, "connection", "upgrade"))
        h->upgrade = up;
    return 0;
}

int cay__answer_read(const char *data, size_t n, size_t *scanned, bool to_head_request,
                     cay__head *out, cay_err *err)
{
    int len = find_end(data, n, scanned, err);
    if (len <= 0)
        return len;
    int rc = read_answer(out, data, (size_t)len, to_head_request, err);
    if (rc < 0) {
        cay__head_clear(out);
        return rc;
    }
    return len;
}

void cay__head_clear(cay__head *h)
{
    free(h->bytes);
    free(h->cut);
    memset(h, 0, offsetof(cay__head, fields));
}

const char *cay__head_field(const cay__head *h, const char *lower_name)
{
    CAY_EACH_OF(field, h->fields, h->nfields)
        if (!strcmp(field->name, lower_name))
            return field->value;
    return NULL;
}

bool cay__head_list(const cay__head *h, const char *lower_name, const char *word)
{
    size_t n = strlen(word);
    CAY_EACH_OF(field, h->fields, h->nfields) {
        if (strcmp(field->name, lower_name))
            continue;
        for (const char *p = field->value; *p;) {
            p += strspn(p, " \t,");
            size_t len = strcspn(p, ","), word_len = len;
            while (word_len && (p[word_len - 1] == ' ' || p[word_len - 1] == '\t'))
                word_len--;
            if (word_len == n && !strncasecmp(p, word, n))
                return true;
            p += len;
        }
    }
    return false;
}

bool cay__url_decode(const char *s, size_t n, bool plus, char *out)
{
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)s[i];
        if (c == '%') {
            unsigned char byte;
            if (n - i < 3 || !cay__hex_get(&byte, s + i + 1, 1))
                return false;
            c = byte;
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (!c)
            return false;
        *out++ = (char)c;
    }
    *out = 0;
    return true;
}
