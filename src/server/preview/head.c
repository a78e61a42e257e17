/* SPDX-License-Identifier: Apache-2.0 */
#include "preview.h"
#include <base/base.h>
#include <base/mutant.h>
#include <inttypes.h>
#include <strings.h>

/* Of one connection only (RFC 9110, 7.6.1), or written by us instead. */
static const char *const hop_fields[] = { "connection",
                                          "keep-alive",
                                          "proxy-connection",
                                          "proxy-authenticate",
                                          "proxy-authorization",
                                          "te",
                                          "trailer",
                                          "transfer-encoding",
                                          "upgrade",
                                          "http2-settings",
                                          "content-length" };
/* Said of the peer by us, so never by the peer; and what opens our doors, not theirs. */
static const char *const ask_fields[] = { "host", "expect",    "forwarded",
                                          "via",  "x-real-ip", "e2b-traffic-access-token" };
static const char *const ask_prefixes[] = { "x-forwarded-", "x-cay-" };
/* What speaks for more than one origin: the site's cookies, its transport. */
static const char *const answer_fields[] = { "clear-site-data", "strict-transport-security",
                                             "alt-svc", "set-cookie2", "public-key-pins" };
/* What speaks for all of an origin, which by path is our own. */
static const char *const path_fields[] = { "set-cookie",
                                           "service-worker-allowed",
                                           "nel",
                                           "report-to",
                                           "reporting-endpoints",
                                           "accept-ch",
                                           "critical-ch",
                                           "origin-trial",
                                           "referrer-policy",
                                           "origin-agent-cluster",
                                           "www-authenticate",
                                           "x-content-type-options" };

/* Names alike to programs that turn '-' into '_' count as one. */
static bool is_same_name(const char *name, const char *row, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((name[i] == '_' ? '-' : name[i]) != row[i])
            return false;
    return true;
}

#define IN(name, table) in_table(name, table, CAY_LEN(table))
static bool in_table(const char *name, const char *const *rows, size_t n)
{
    size_t len = strlen(name);
    CAY_EACH_OF(row, rows, n)
        if (len == strlen(*row) && is_same_name(name, *row, len))
            return true;
    return false;
}

static bool begins_in(const char *name)
{
    CAY_EACH(ask_prefixe, ask_prefixes)
        if (strlen(name) >= strlen(*ask_prefixe) &&
            is_same_name(name, *ask_prefixe, strlen(*ask_prefixe)))
            return true;
    return false;
}

static bool ours_key(const cay__field_line *f)
{
    const char *v = f->value;
    if (!strcmp(f->name, "authorization") && !strncasecmp(v, "bearer ", 7))
        v += 7 + strspn(v + 7, " ");
    else if (strcmp(f->name, "x-api-key") != 0)
        return false;
    return cay__str_starts(v, "e2b_") || cay__str_starts(v, "cayp_");
}

static void write_field(cay__buf *out, const char *name, const char *value)
{
    cay__buf_str(out, name);
    cay__buf_str(out, ": ");
    cay__buf_str(out, value);
    cay__buf_str(out, "\r\n");
}

/* As the peer calls us: scheme, host and, by path, what stands before the program's own paths. */
static void write_origin(cay__buf *out, bool tls, const char *host)
{
    cay__buf_fmt(out, "%s://%s", cay__scheme(tls), host);
}

static void write_prefix(cay__buf *out, const cay__preview_at *at)
{
    if (at->by_path)
        cay__buf_fmt(out, "/preview/%s/%u", at->id, at->port);
}

static void told_host(const cay__preview_ask *a, cay__buf *out)
{
    if (a->host)
        cay__buf_str(out, a->host);
    else
        cay__buf_fmt(out, "localhost:%u", a->at->port);
}

static void ask_field(const cay__preview_ask *a, const cay__field_line *f, cay__buf *out)
{
    bool ours = !CAY__MUTANT("preview-secret") && (begins_in(f->name) || ours_key(f));
    bool hop = IN(f->name, hop_fields) ||
               (!CAY__MUTANT("preview-hop") && cay__head_list(a->head, "connection", f->name));
    if (ours || hop || IN(f->name, ask_fields) || (a->trace && !strcmp(f->name, "traceparent")))
        return;
    if (!strcmp(f->name, "cookie")) {
        CAY_AUTOBUF rest = CAY__BUF(CAY__HEAD_MAX);
        /* By path the browser's cookies are those of the console. */
        if (!a->at->by_path)
            cay__cookie_strip(f->value, &rest);
        if (rest.len)
            write_field(out, "cookie", rest.data);
        return;
    }
    if (!strcmp(f->name, "referer") && strstr(f->value, CAY__PREVIEW_TOKEN "="))
        return;
    if (!strcmp(f->name, "origin")) {
        /* Servers compare it with the Host that they see. */
        CAY_AUTOBUF own = CAY__BUF(512);
        write_origin(&own, a->tls, a->head->host);
        if (!strcasecmp(own.data, f->value)) {
            cay__buf_fmt(out, "origin: %s://", cay__scheme(a->tls_inside));
            told_host(a, out);
            cay__buf_str(out, "\r\n");
            return;
        }
    }
    write_field(out, f->name, f->value);
}

void cay__preview_request(const cay__preview_ask *a, cay__buf *out)
{
    const cay__head *h = a->head;
    const char *path = h->path + (a->at->by_path ? a->at->prefix : 0);
    cay__buf_fmt(out, "%s %s", h->method, *path == '/' ? path : "/");
    if (*a->query)
        cay__buf_fmt(out, "?%s", a->query);
    cay__buf_str(out, " HTTP/1.1\r\nhost: ");
    told_host(a, out);
    cay__buf_str(out, "\r\n");
    CAY_EACH_OF(field, h->fields, h->nfields)
        ask_field(a, field, out);
    if (a->trace)
        write_field(out, "traceparent", a->trace);
    write_field(out, "x-forwarded-for", a->peer);
    write_field(out, "x-forwarded-host", h->host);
    write_field(out, "x-forwarded-proto", cay__scheme(a->tls));
    if (a->at->by_path) {
        cay__buf_str(out, "x-forwarded-prefix: ");
        write_prefix(out, a->at);
        cay__buf_str(out, "\r\n");
    }
    if (h->body == CAY__BODY_LENGTH)
        cay__buf_fmt(out, "content-length: %" PRIu64 "\r\n", h->length);
    else if (h->body == CAY__BODY_CHUNKED)
        cay__buf_str(out, "transfer-encoding: chunked\r\n");
    if (a->websocket)
        cay__buf_str(out, "connection: Upgrade\r\nupgrade: websocket\r\n");
    cay__buf_str(out, "\r\n");
}

/* What follows a name of the program's own origin in a Location, or NULL. */
static const char *skip_own_origin(const char *value, uint16_t port, bool tls)
{
    static const char *const hosts[] = { "localhost", "127.0.0.1", "[::1]", "0.0.0.0" };
    const char *scheme = "http://";
    if (tls)
        scheme = "https://";
    char text[8];
    if (strncasecmp(value, scheme, strlen(scheme)) != 0)
        return NULL;
    value += strlen(scheme);
    CAY_FORMAT(text, ":%u", port);
    CAY_EACH(host, hosts) {
        size_t n = strlen(*host), m = strlen(text);
        if (strncasecmp(value, *host, n) != 0)
            continue;
        const char *rest = value + n;
        if (!strncmp(rest, text, m))
            rest += m;
        else if (port != (tls ? 443 : 80))
            continue;
        if (!*rest || strchr("/?#", *rest))
            return rest;
    }
    return NULL;
}

static void write_location(const cay__preview_back *b, const char *value, cay__buf *out)
{
    const char *rest = skip_own_origin(value, b->at.port, b->tls_inside);
    cay__buf_str(out, "location: ");
    if (rest) {
        write_origin(out, b->tls, b->host);
        write_prefix(out, &b->at);
    } else if (b->at.by_path && value[0] == '/' && value[1] != '/' && value[1] != '\\') {
        write_prefix(out, &b->at);
    }
    cay__buf_str(out, CAY_OR(rest, value));
    cay__buf_str(out, "\r\n");
}

static void answer_field(const cay__preview_back *b, const cay__head *h, const cay__field_line *f,
                         cay__buf *out)
{
    if (IN(f->name, hop_fields) || IN(f->name, answer_fields) ||
        (b->at.by_path && IN(f->name, path_fields)) || cay__head_list(h, "connection", f->name) ||
        (b->origin && cay__str_starts(f->name, "access-control-")))
        return;
    if (!strcmp(f->name, "location")) {
        write_location(b, f->value, out);
    } else if (!strcmp(f->name, "set-cookie")) {
        CAY_AUTOBUF kept = CAY__BUF(CAY__HEAD_MAX);
        if (cay__set_cookie(f->value, &kept))
            write_field(out, "set-cookie", kept.data);
    } else {
        write_field(out, f->name, f->value);
    }
}

cay__preview_frame cay__preview_framing(const cay__preview_back *b, const cay__head *answer)
{
    if (answer->body == CAY__BODY_NONE)
        return CAY__FRAME_NONE;
    if (answer->body == CAY__BODY_LENGTH)
        return CAY__FRAME_LENGTH;
    if (b->http10)
        return CAY__FRAME_CLOSE;
    return CAY__FRAME_CHUNKED;
}

/* In a page of ours a script of the sandbox would be us: by path it gets an origin of its own,
 * which nothing knows. */
static void by_path(cay__buf *out)
{
    write_field(out, "content-security-policy",
                "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads");
    write_field(out, "x-content-type-options", "nosniff");
    write_field(out, "referrer-policy", "no-referrer");
}

void cay__preview_answer(const cay__preview_back *b, const cay__head *h, cay__preview_frame frame,
                         cay__buf *out)
{
    const char *length = cay__head_field(h, "content-length");
    cay__buf_fmt(out, "HTTP/1.1 %d %s\r\n", h->status, cay__status_text(h->status));
    for (size_t i = 0; i < h->nfields; i++)
        answer_field(b, h, &h->fields[i], out);
    if (b->at.by_path && !CAY__MUTANT("preview-sandbox"))
        by_path(out);
    if (b->origin && *b->origin) {
        write_field(out, "access-control-allow-origin", b->origin);
        write_field(out, "access-control-expose-headers", b->origin);
    }
    if (frame == CAY__FRAME_LENGTH)
        cay__buf_fmt(out, "content-length: %" PRIu64 "\r\n", h->length);
    else if (frame == CAY__FRAME_CHUNKED)
        write_field(out, "transfer-encoding", "chunked");
    else if (frame == CAY__FRAME_NONE && length && (b->head_only || h->status == 304))
        write_field(out, "content-length",
                    length); /* that GET would have; one line of digits, or the head was refused */
    else if (frame == CAY__FRAME_NONE && h->status != 101 && h->status != 204 && h->status != 304 &&
             !b->head_only)
        write_field(out, "content-length", "0");
    if (h->status == 101)
        cay__buf_str(out, "connection: Upgrade\r\nupgrade: websocket\r\n");
    else if (frame == CAY__FRAME_CLOSE || !b->keep)
        write_field(out, "connection", "close");
    else if (b->http10)
        write_field(out, "connection", "keep-alive");
    cay__buf_str(out, "\r\n");
}
