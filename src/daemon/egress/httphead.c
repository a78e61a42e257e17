/* SPDX-License-Identifier: Apache-2.0 */
#include "httphead.h"
#include <base/base.h>
#include <base/mutant.h>
#include <strings.h>

/* What a head told. */
typedef struct head {
    int hosts, lengths;
    bool chunked, upgrade, websocket, coded, expect, old; /* old: HTTP/1.0 */
    uint64_t length;
    char host[256];
} head;

static bool is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool span_is(span s, const char *word)
{
    return s.n == strlen(word) && !strncasecmp(s.p, word, s.n);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

span span_trim(span s)
{
    while (s.n && is_blank(*s.p))
        s = (span){ s.p + 1, s.n - 1 };
    while (s.n && is_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

/* A word in a list with commas. */
static bool list_has_word(span s, const char *word)
{
    while (s.n) {
        const char *comma = memchr(s.p, ',', s.n);
        span one = { s.p, comma ? (size_t)(comma - s.p) : s.n };
        size_t used = one.n + !!comma;
        s = (span){ s.p + used, s.n - used };
        if (span_is(span_trim(one), word))
            return true;
    }
    return false;
}

/* HOST or HOST:PORT into folded text without a trailing dot. False when it is neither, or for
 * another port. */
static bool read_authority(span s, uint16_t port, char out[256])
{
    size_t n = s.n;
    if (s.n && s.p[0] == '[') { /* an address is never the name we look for, but say which */
        const char *end = memchr(s.p, ']', s.n);
        if (end)
            n = (size_t)(end - s.p) + 1;
        else
            n = 0;
    } else {
        const char *colon = memchr(s.p, ':', s.n);
        if (colon)
            n = (size_t)(colon - s.p);
    }
    if (n == 0 || (n > 255 && !CAY__MUTANT("fuzz-http_head")))
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = s.p[i];
        out[i] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
    out[n] = 0;
    if (n > 1 && out[n - 1] == '.')
        out[n - 1] = 0;
    if (n == s.n)
        return true;
    uint32_t v = 0;
    if (s.p[n] != ':' || s.n - n > 6 || s.n - n < 2)
        return false;
    for (size_t i = n + 1; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        v = v * 10 + (uint32_t)(s.p[i] - '0');
    }
    return v == port;
}

/* A line without its CRLF. HTTP_MORE when its end is not there; HTTP_BAD for a bare CR, LF or NUL.
 */
static int next_line(const char *p, size_t len, size_t *at, span *line)
{
    const char *lf = NULL;
    if (*at < len)
        lf = memchr(p + *at, '\n', len - *at);
    size_t end = len;
    if (lf)
        end = (size_t)(lf - p);
    for (size_t i = *at; i < end; i++)
        if (p[i] == 0 || (p[i] == '\r' && i + 1 != end))
            return HTTP_BAD;
    if (!lf)
        return HTTP_MORE;
    if (end == *at || p[end - 1] != '\r')
        return HTTP_BAD;
    *line = (span){ p + *at, end - 1 - *at };
    *at = end + 1;
    return HTTP_OK;
}

/* METHOD SP target SP HTTP/1.x. The authority of an absolute target goes to host. */
static int read_request(span l, uint16_t port, char host[256], bool *old, const char **why)
{
    size_t m = 0;
    while (m < l.n && is_token((unsigned char)l.p[m]))
        m++;
    span method = { l.p, m };
    const char *sp = NULL;
    if (m && m < l.n && l.p[m] == ' ')
        sp = memchr(l.p + m + 1, ' ', l.n - m - 1);
    *why = "http_unreadable";
    if (!sp)
        return HTTP_BAD;
    span target = { l.p + m + 1, (size_t)(sp - l.p) - m - 1 },
         version = { sp + 1, l.n - (size_t)(sp + 1 - l.p) };
    if (span_is(method, "CONNECT")) {
        *why = "http_connect";
        return HTTP_BAD;
    }
    if (!target.n || !(span_is(version, "HTTP/1.1") || span_is(version, "HTTP/1.0")) ||
        version.p[0] != 'H')
        return HTTP_BAD;
    CAY_EACH_OF(it, target.p, target.n)
        if ((unsigned char)*it <= ' ' || *it == 0x7f)
            return HTTP_BAD;
    *old = version.p[7] == '0';
    host[0] = 0;
    if (target.p[0] == '/' || span_is(target, "*"))
        return HTTP_OK;
    if (target.n < 8 || strncasecmp(target.p, "http://", 7))
        return HTTP_BAD;
    span rest = { target.p + 7, target.n - 7 };
    size_t n = 0;
    while (n < rest.n && !strchr("/?#", rest.p[n]))
        n++;
    /* user@host in a target is how one reader is led astray from another. */
    if (memchr(rest.p, '@', n) || !read_authority((span){ rest.p, n }, port, host))
        return HTTP_OTHER;
    return HTTP_OK;
}

static bool read_length(span v, uint64_t *out)
{
    *out = 0;
    if (!v.n || v.n > 18)
        return false;
    CAY_EACH_OF(it, v.p, v.n) {
        if (*it < '0' || *it > '9')
            return false;
        *out = *out * 10 + (uint64_t)(*it - '0');
    }
    return true;
}

static int read_field(span l, uint16_t port, head *h)
{
    size_t n = 0;
    while (n < l.n && is_token((unsigned char)l.p[n]))
        n++;
    if (!n || n == l.n || l.p[n] != ':') /* a folded line begins with a space and ends here, too */
        return HTTP_BAD;
    span key = { l.p, n }, v = span_trim((span){ l.p + n + 1, l.n - n - 1 });
    uint64_t length;
    if (span_is(key, "host")) {
        h->hosts++;
        if (!read_authority(v, port, h->host))
            return HTTP_OTHER;
    } else if (span_is(key, "content-length")) {
        if (!read_length(v, &length) || (h->lengths++ && length != h->length))
            return HTTP_BAD;
        h->length = length;
    } else if (span_is(key, "transfer-encoding")) {
        if (h->coded || !span_is(v, "chunked"))
            return HTTP_BAD;
        h->coded = h->chunked = true;
    } else if (span_is(key, "connection")) {
        h->upgrade |= list_has_word(v, "upgrade");
    } else if (span_is(key, "expect")) {
        h->expect = true;
    } else if (span_is(key, "upgrade")) {
        h->websocket |= list_has_word(v, "websocket");
    }
    return HTTP_OK;
}

static int read_head(http_state *s, const char *p, size_t len, const char *name, uint16_t port,
                     char host[256], const char **why)
{
    head h = { 0 };
    span line;
    size_t at = 0;
    int fields = 0, rc;
    /* Empty lines before a request are allowed (RFC 9112, 2.2); a few. */
    while (at + 1 < len && at < 8 && p[at] == '\r' && p[at + 1] == '\n')
        at += 2;
    if ((rc = next_line(p, len, &at, &line)) != HTTP_OK)
        return rc;
    if ((rc = read_request(line, port, host, &h.old, why)) != HTTP_OK)
        return rc;
    if (host[0] && strcmp(host, name) != 0)
        return HTTP_OTHER;
    for (;;) {
        if ((rc = next_line(p, len, &at, &line)) != HTTP_OK)
            return rc;
        if (!line.n)
            break;
        if (++fields > HTTP_FIELDS)
            return HTTP_BAD;
        if ((rc = read_field(line, port, &h)) != HTTP_OK) {
            memcpy(host, h.host, sizeof h.host);
            return rc;
        }
    }
    memcpy(host, h.host, sizeof h.host);
    if (h.hosts != 1) {
        *why = h.hosts ? "http_two_hosts" : "http_no_host";
        return HTTP_BAD;
    }
    if (strcmp(h.host, name) != 0)
        return HTTP_OTHER;
    if (h.chunked && (h.lengths || h.old)) /* servers differ in what they make of it */
        return HTTP_BAD;
    if (h.upgrade && h.websocket && (s->heads || h.expect)) {
        *why = "http_late_upgrade";
        return HTTP_BAD;
    }
    s->heads = 1;
    s->left = at + (h.chunked ? 0 : h.length);
    if (h.chunked)
        s->next = HTTP_CHUNK;
    else if (h.upgrade && h.websocket)
        s->next = HTTP_ASKED;
    else
        s->next = HTTP_HEAD;
    return HTTP_OK;
}

/* HEX[;ext] CRLF, then so many bytes. */
static int read_chunk(http_state *s, const char *p, size_t len)
{
    span line;
    size_t at = 0, i = 0;
    uint64_t size = 0;
    int rc = next_line(p, CAY_MIN(len, 1024), &at, &line);
    if (rc != HTTP_OK) {
        if (rc == HTTP_MORE && len >= 1024)
            return HTTP_BAD;
        return rc;
    }
    for (int d; i < line.n && i < 15 && (d = cay__hex_digit(line.p[i])) >= 0; i++)
        size = size << 4 | (uint64_t)d;
    if (i == 0 || (i < line.n && line.p[i] != ';'))
        return HTTP_BAD;
    s->left = at + size;
    if (size)
        s->next = HTTP_CHUNK_END;
    else
        s->next = HTTP_TRAILER;
    return HTTP_OK;
}

/* Two bytes that some server might read otherwise are two readers of one body. */
static int read_chunk_end(http_state *s, const char *p, size_t len)
{
    if (p[0] != '\r' || (len > 1 && p[1] != '\n'))
        return HTTP_BAD;
    if (len < 2)
        return HTTP_MORE;
    s->left = 2;
    s->next = HTTP_CHUNK;
    return HTTP_OK;
}

static int read_trailer(http_state *s, const char *p, size_t len)
{
    span line;
    size_t at = 0;
    int fields = 0, rc;
    while ((rc = next_line(p, len, &at, &line)) == HTTP_OK) {
        if (++fields > HTTP_FIELDS)
            return HTTP_BAD;
        if (!line.n) {
            s->left = at;
            s->next = HTTP_HEAD;
            return HTTP_OK;
        }
        /* What belongs into a head has no place here, and nothing that is no field either. */
        head h = { 0 };
        if (read_field(line, 0, &h) != HTTP_OK || h.hosts || h.lengths || h.coded || h.upgrade ||
            h.websocket)
            return HTTP_BAD;
    }
    return rc;
}

int http_unit(http_state *s, const char *p, size_t len, const char *name, uint16_t port,
              char host[256], const char **why)
{
    int rc;
    host[0] = 0;
    *why = "http_unreadable";
    if (s->next == HTTP_CHUNK)
        rc = read_chunk(s, p, CAY_MIN(len, HTTP_HEAD_MAX));
    else if (s->next == HTTP_CHUNK_END)
        rc = read_chunk_end(s, p, len);
    else if (s->next == HTTP_TRAILER)
        rc = read_trailer(s, p, CAY_MIN(len, HTTP_HEAD_MAX));
    else
        rc = read_head(s, p, CAY_MIN(len, HTTP_HEAD_MAX), name, port, host, why);
    if (rc == HTTP_MORE && len >= HTTP_HEAD_MAX) {
        *why = "http_head_too_long";
        return HTTP_BAD;
    }
    if (rc == HTTP_OTHER)
        *why = "http_host_mismatch";
    return rc;
}

int http_answer(http_state *s, const char *p, size_t len)
{
    static const char yes[] = "HTTP/1.1 101";
    size_t n = CAY_MIN(len, sizeof yes - 1);
    if (!strncmp(p, yes, n) && n < sizeof yes - 1)
        return HTTP_MORE;
    if (!strncmp(p, yes, n))
        s->next = HTTP_TUNNEL;
    else
        s->next = HTTP_HEAD;
    return HTTP_OK;
}
