/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of answers, and answers that are whole. */
#include "inside.h"
#include "stream.h"
#include <base/base.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

/* A value from elsewhere never makes a second line. */
void cay__reply_field(cay__req *r, const char *name, const char *value)
{
    cay__buf *b = &r->reply->fields;
    cay__buf_str(b, name);
    cay__buf_str(b, ": ");
    for (const char *p = value; *p; p++) {
        char c = ((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f ? ' ' : *p;
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

static void put_date(cay__buf *out)
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = time(NULL);
    struct tm t;
    gmtime_r(&now, &t);
    cay__buf_fmt(out, "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n", days + (size_t)t.tm_wday * 3, t.tm_mday, months + (size_t)t.tm_mon * 3,
                 t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
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
    cay__buf_fmt(out, "HTTP/1.1 %d %s\r\n", status, cay__status_text(status));
    put_date(out);
    cay__buf_fmt(out, "X-Request-Id: %s\r\n", r->id);
    if (type)
        cay__buf_fmt(out, "Content-Type: %s\r\nX-Content-Type-Options: nosniff\r\n", type);
    if (!has_field(r, "Cache-Control") && status != 101)
        cay__buf_str(out, "Cache-Control: no-store\r\n");
    if (len >= 0 && status >= 200 && status != 204 && status != 304)
        cay__buf_fmt(out, "Content-Length: %lld\r\n", (long long)len);
    if (a->chunked)
        cay__buf_str(out, "Transfer-Encoding: chunked\r\n");
    if (!c->keep && status != 101)
        cay__buf_str(out, "Connection: close\r\n");
    else if (r->head.minor == 0)
        cay__buf_str(out, "Connection: keep-alive\r\n");
    cay__buf_add(out, a->fields.data, a->fields.len);
    cay__buf_str(out, "\r\n");
}

int cay__reply(cay__req *r, int status, const char *type, const void *data, size_t len)
{
    if (r->reply->status)
        abort(); /* answered twice */
    CAY_AUTOBUF packed = CAY__BUF(0);
    if (!type)
        len = 0;
    cay__once_answer(r, status, type, data, len);
    if (len && !has_field(r, "Content-Encoding") && cay__gzip(r, type, data, len, &packed)) {
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

int cay__reply_json(cay__req *r, int status, json_t *j)
{
    CAY_AUTOFREE char *text = j ? cay__json_text(j, CAY__OUT_MAX / 2) : NULL;
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
