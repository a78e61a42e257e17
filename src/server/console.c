/* SPDX-License-Identifier: Apache-2.0 */
/* The console: one page and what it loads, from this program's own memory. docs/console.md tells
 * what people do with it. */
#include "console.h"
#include <server/http/connection.h>
#include <base/base.h>
#include <zlib.h>

enum { NONCE_BYTES = 16, PLAIN_MAX = 8 << 20 };

static const cay__console_file *find_file(const char *name)
{
    for (const cay__console_file *f = cay__console_files; f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

/* ":8090" of "localhost:8090", of "[::1]:8090"; "" without. */
static const char *port_of(const char *host)
{
    const char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
    if (colon && (!bracket || colon > bracket) &&
        strspn(colon + 1, "0123456789") == strlen(colon + 1))
        return colon;
    return "";
}

/* No script but our files, no style but them and what carries this page's nonce, nothing from
 * elsewhere; previews alone may be framed, and nobody frames us. */
static void add_security_fields(cay__req *r, const char *nonce)
{
    CAY_AUTOBUF b = CAY__BUF(1024);
    cay__buf_fmt(
        &b,
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; connect-src 'self'; "
        "img-src 'self' data: blob:; "
        "frame-src %s://*.%s%s; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        nonce, cay__scheme(r->tls), cay__server_domain(r->server), port_of(r->head.host));
    cay__reply_field(r, "Content-Security-Policy", b.data);
    cay__reply_field(r, "X-Frame-Options", "DENY");
    cay__reply_field(r, "Referrer-Policy", "no-referrer");
    cay__reply_field(r, "Cross-Origin-Opener-Policy", "same-origin");
    cay__reply_field(r, "Cross-Origin-Resource-Policy", "same-origin");
    cay__reply_field(r, "Permissions-Policy",
                     "camera=(), geolocation=(), microphone=(), payment=(), usb=()");
}

int cay__on_console(cay__req *r, cay_err *err)
{
    static const char mark[] = "NONCE-OF-THIS-PAGE";
    const cay__console_file *f = find_file("");
    unsigned char raw[NONCE_BYTES];
    char nonce[2 * NONCE_BYTES + 1];
    if (!f)
        return cay_fail_why(err, CAY_ENOENT, "no_console",
                            "this server was built without the console, because node and npm were "
                            "not there: `make deps`, then `make`; the API is at /api/v1");
    cay__random(raw, sizeof raw);
    cay__hex_put(nonce, raw, sizeof raw);
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    const char *p = (const char *)f->data, *end = (const char *)f->end, *at;
    while ((at = memmem(p, (size_t)(end - p), mark, sizeof mark - 1))) {
        cay__buf_add(&b, p, (size_t)(at - p));
        cay__buf_str(&b, nonce);
        p = at + sizeof mark - 1;
    }
    cay__buf_add(&b, p, (size_t)(end - p));
    add_security_fields(r, nonce);
    return cay__reply(r, 200, "text/html; charset=utf-8", b.data, b.len);
}

/* For a client that does not take gzip, which no browser is. */
static bool inflate_file(const cay__console_file *f, cay__buf *out)
{
    z_stream z = { .next_in = (Bytef *)(uintptr_t)f->data, .avail_in = (uInt)(f->end - f->data) };
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return false;
    int rc = Z_OK;
    while (rc == Z_OK && !out->full) {
        void *room = cay__buf_room(out, 65536);
        if (!room)
            break;
        z.next_out = room;
        z.avail_out = 65536;
        rc = inflate(&z, Z_NO_FLUSH);
        cay__buf_used(out, 65536 - z.avail_out);
    }
    inflateEnd(&z);
    return rc == Z_STREAM_END;
}

int cay__on_console_asset(cay__req *r, cay_err *err)
{
    const cay__console_file *f = NULL;
    if (*r->param[0])
        f = find_file(r->param[0]);
    CAY_AUTOBUF plain = CAY__BUF(PLAIN_MAX);
    if (!f)
        return cay_fail_why(err, CAY_ENOENT, "no_such_route", "the console has no such file");
    const char *known = cay__head_field(&r->head, "if-none-match");
    cay__reply_field(r, "ETag", f->etag);
    cay__reply_field(r, "Cache-Control",
                     "public, max-age=31536000, immutable"); /* its name has its hash */
    cay__reply_field(r, "Cross-Origin-Resource-Policy", "same-origin");
    cay__reply_field(r, "Vary", "Accept-Encoding");
    if (known && strstr(known, f->etag))
        return cay__reply(r, 304, NULL, NULL, 0);
    if (cay__gzip_wanted(&r->head)) {
        cay__reply_field(r, "Content-Encoding", "gzip");
        return cay__reply(r, 200, f->type, f->data, (size_t)(f->end - f->data));
    }
    cay__reply_field(r, "Content-Encoding", "identity");
    if (inflate_file(f, &plain))
        return cay__reply(r, 200, f->type, plain.data, plain.len);
    return cay_fail(err, CAY_ESYS, "unpack %s", f->name);
}
