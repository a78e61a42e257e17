/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of answers, and answers that are whole. */
#include "connection.h"
#include "stream.h"
#include <base/base.h>
#include <strings.h>
#include <time.h>
#include <zlib.h>

/* A value from elsewhere never makes a second line. */
void cay__reply_field(cay__req *r, const char *name, const char *value)
{
    cay__buf *b = &r->reply->fields;
    cay__buf_str(b, name);
    cay__buf_str(b, ": ");
    for (const char *p = value; *p; p++) {
        char c;
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            c = ' ';
        else
            c = *p;
        cay__buf_add(b, &c, 1);
    }
    cay__buf_str(b, "\r\n");
}

static bool has_field(const cay__req *r, const char *name)
{
    size_t n = strlen(name);
    const char *p = r->reply->fields.data;
    if (!r->reply->fields.len)
        return false;
    for (; *p; p += strcspn(p, "\n") + 1)
        if (!strncasecmp(p, name, n) && p[n] == ':')
            return true;
    return false;
}

/* n digits of v, with zeros in front. */
static char *write_digits(char *p, unsigned v, int n)
{
    for (int i = n - 1; i >= 0; i--, v /= 10)
        p[i] = (char)('0' + v % 10);
    return p + n;
}

static char *write_text(char *p, const char *s, size_t n)
{
    memcpy(p, s, n);
    return p + n;
}

/* RFC 9110 section 5.6.7. By hand: every answer has one, and gmtime_r(3) takes a lock that all
 * threads share. */
static void put_date(cay__buf *out)
{
    static const char days[] = "ThuFriSatSunMonTueWed",
                      months[] = "MarAprMayJunJulAugSepOctNovDecJanFeb";
    char text[40], *p = text;
    unsigned now = (unsigned)time(NULL), day = now / 86400, s = now % 86400;
    unsigned z = day + 719468, era = z / 146097, doe = z % 146097,
             yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100),
             mp = (5 * doy + 2) / 153; /* years that begin in March */
    p = write_text(p, "Date: ", 6);
    p = write_text(p, days + (size_t)(day % 7) * 3, 3);
    p = write_text(p, ", ", 2);
    p = write_text(write_digits(p, doy - (153 * mp + 2) / 5 + 1, 2), " ", 1);
    p = write_text(p, months + (size_t)mp * 3, 3);
    p = write_text(write_digits(write_text(p, " ", 1), yoe + era * 400 + (mp >= 10), 4), " ", 1);
    p = write_text(write_digits(p, s / 3600, 2), ":", 1);
    p = write_text(write_digits(p, s / 60 % 60, 2), ":", 1);
    p = write_text(write_digits(p, s % 60, 2), " GMT\r\n", 6);
    cay__buf_add(out, text, (size_t)(p - text));
}

static void put_number(cay__buf *out, uint64_t v)
{
    char text[24];
    cay__buf_str(out, cay__str_u64(text, v));
}

static void put_field(cay__buf *out, const char *name, const char *value)
{
    cay__buf_str(out, name);
    cay__buf_str(out, value);
    cay__buf_add(out, "\r\n", 2);
}

bool cay__reply_bodiless(const cay__req *r, int status)
{
    return !strcmp(r->head.method, "HEAD") || status < 200 || status == 204 || status == 304;
}

void cay__reply_head(cay__req *r, int status, const char *type, int64_t len)
{
    cay__conn *c = r->conn;
    cay__reply_state *a = r->reply;
    cay__buf *out = &c->out;
    a->status = status;
    if (status != 101)
        c->keep = c->keep && cay__body_settle(r) && r->head.keep_alive && !r->server->draining;
    a->chunked = len < 0 && r->head.minor == 1 && status != 101;
    if (len < 0 && !a->chunked && status != 101)
        c->keep = false; /* its end is the connection's */
    cay__buf_str(out, "HTTP/1.1 ");
    put_number(out, (uint64_t)status);
    put_field(out, " ", cay__status_text(status));
    put_date(out);
    put_field(out, "X-Request-Id: ", r->id);
    if (type) {
        put_field(out, "Content-Type: ", type);
        cay__buf_str(out, "X-Content-Type-Options: nosniff\r\n");
    }
    if (!has_field(r, "Cache-Control") && status != 101)
        cay__buf_str(out, "Cache-Control: no-store\r\n");
    if (len >= 0 && status >= 200 && status != 204 && status != 304) {
        cay__buf_str(out, "Content-Length: ");
        put_number(out, (uint64_t)len);
        cay__buf_str(out, "\r\n");
    }
    if (a->chunked)
        cay__buf_str(out, "Transfer-Encoding: chunked\r\n");
    if (!c->keep && status != 101)
        cay__buf_str(out, "Connection: close\r\n");
    else if (r->head.minor == 0)
        cay__buf_str(out, "Connection: keep-alive\r\n");
    cay__buf_add(out, a->fields.data, a->fields.len);
    cay__buf_str(out, "\r\n");
}

/* gzip of whole text answers, for peers that take it. */

enum { LEAST = 1024, WINDOW = 15 + 16 /* with gzip's frame */ };

/* "gzip" in Accept-Encoding, and not with q=0. */
bool cay__gzip_wanted(const cay__head *h)
{
    const char *v = cay__head_field(h, "accept-encoding");
    while (v && *v) {
        v += strspn(v, " \t,");
        size_t n = strcspn(v, ",");
        if (n >= 4 && !strncasecmp(v, "gzip", 4) && (n == 4 || strchr(" \t;", v[4]))) {
            const char *q = memmem(v, n, "q=", 2);
            return !q || strtod(q + 2, NULL) > 0;
        }
        v += n;
    }
    return false;
}

static bool is_text(const char *type)
{
    size_t n = strcspn(type, ";");
    return !strncasecmp(type, "text/", 5) || !strncasecmp(type, "application/json", 16) ||
           (n > 5 && !strncasecmp(type + n - 5, "+json", 5)) ||
           !strncasecmp(type, "application/javascript", 22) || !strncasecmp(type, "image/svg", 9);
}

static bool gzip_answer(const cay__req *r, const char *type, const void *data, size_t len,
                        cay__buf *out)
{
    z_stream z = { .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)len };
    if (len < LEAST || len > 64u << 20 || !type || !is_text(type) || !cay__gzip_wanted(&r->head) ||
        deflateInit2(&z, 1, Z_DEFLATED, WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    size_t room = deflateBound(&z, (uLong)len);
    out->max = room + 1;
    z.next_out = (Bytef *)cay__buf_room(out, room);
    z.avail_out = (uInt)room;
    bool ok = z.next_out && deflate(&z, Z_FINISH) == Z_STREAM_END;
    if (ok)
        cay__buf_used(out, z.total_out);
    deflateEnd(&z);
    return ok && out->len < len;
}

int cay__reply(cay__req *r, int status, const char *type, const void *data, size_t len)
{
    if (r->reply->status)
        abort(); /* answered twice */
    CAY_AUTOBUF packed = CAY__BUF(0);
    if (!type)
        len = 0;
    cay__once_answer(r, status, type, data, len);
    if (len && !has_field(r, "Content-Encoding") && gzip_answer(r, type, data, len, &packed)) {
        cay__reply_field(r, "Content-Encoding", "gzip");
        cay__reply_field(r, "Vary", "Accept-Encoding");
        data = packed.data;
        len = packed.len;
    }
    cay__reply_head(r, status, type, (int64_t)len);
    r->reply->bytes = len;
    if (len && !cay__reply_bodiless(r, status))
        cay__buf_add(&r->conn->out, data, len);
    return 0;
}

int cay__reply_empty(cay__req *r, int status)
{
    return cay__reply(r, status, NULL, NULL, 0);
}

int cay__reply_pack(cay__req *r, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    json_t *j = json_vpack_ex(NULL, 0, fmt, ap);
    va_end(ap);
    return cay__reply_json(r, status, j);
}

int cay__reply_json(cay__req *r, int status, json_t *j)
{
    CAY_AUTOFREE char *text = NULL;
    if (j)
        text = cay__json_text(j, CAY__OUT_MAX / 2);
    json_decref(j);
    if (!text) {
        cay_err err = CAY_ERR_INIT;
        cay_fail_why(&err, CAY_ESYS, "no_answer", "the answer could not be written as JSON");
        cay__route_fail(r, &err);
        return 0;
    }
    return cay__reply(r, status, "application/json", text, strlen(text));
}

void cay__sse_event(cay__buf *out, const char *id, const char *event, const char *data, size_t len)
{
    if (id)
        cay__buf_fmt(out, "id: %s\n", id);
    if (event)
        cay__buf_fmt(out, "event: %s\n", event);
    for (const char *end = data + len;;) { /* CR, LF and CRLF all end a line of an event */
        const char *p = data;
        while (p < end && *p != '\n' && *p != '\r')
            p++;
        cay__buf_str(out, "data: ");
        cay__buf_add(out, data, (size_t)(p - data));
        cay__buf_str(out, "\n");
        if (p == end)
            break;
        data = p + (*p == '\r' && p + 1 < end && p[1] == '\n' ? 2 : 1);
    }
    cay__buf_str(out, "\n");
}
