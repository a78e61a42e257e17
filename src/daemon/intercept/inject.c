/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's head, rewritten. What a client sent in the place of a credential goes, whether one
 * fits this request or not: a program inside can neither choose between its own and ours, nor be
 * made to send ours under another name.
 */
#include "intercept.h"
#include <base/mutant.h>
#include <daemon/egress/httphead.h>

enum { WORD_MIN = 8 }; /* shorter ones stand in any answer */

typedef struct request {
    span method, path, query, version, fields; /* fields: all lines behind the first */
    bool has_query;
} request;

/* The head was read by http_unit() before: its form is right. An absolute target loses its
 * authority, which was judged there. */
static void split_head(const char *p, size_t len, request *r)
{
    const char *eol = memmem(p, len, "\r\n", 2), *sp = memchr(p, ' ', len),
               *sp2 = memchr(sp + 1, ' ', (size_t)(eol - sp - 1));
    span target = { sp + 1, (size_t)(sp2 - sp - 1) };
    r->method = (span){ p, (size_t)(sp - p) };
    r->version = (span){ sp2 + 1, (size_t)(eol - sp2 - 1) };
    r->fields = (span){ eol + 2, len - (size_t)(eol + 2 - p) };
    if (target.p[0] != '/' && target.p[0] != '*') {
        size_t skip = (size_t)((const char *)memmem(target.p, target.n, "//", 2) - target.p) + 2;
        while (skip < target.n && target.p[skip] != '/' && target.p[skip] != '?')
            skip++;
        target = (span){ target.p + skip, target.n - skip };
    }
    const char *q = memchr(target.p, '?', target.n);
    r->has_query = q;
    r->path = (span){ target.p, q ? (size_t)(q - target.p) : target.n };
    if (q)
        r->query = (span){ q + 1, target.n - r->path.n - 1 };
    else
        r->query = (span){ target.p, 0 };
    if (!r->path.n)
        r->path = (span){ "/", 1 };
}

/* Where a request goes, and how exactly that is named by the bindings that count there. */
typedef struct place {
    const char *name;
    uint16_t port;
    bool tls;
    size_t exact;
} place;

static place place_of(const vault *v, const char *name, uint16_t port, bool tls)
{
    return (place){ name, port, tls, cay__binding_exact(&v->policy, tls, name, port) };
}

static bool is_bound_at(const cay__binding *b, const place *at)
{
    return at->exact && cay__binding_fits(b, at->tls, at->name, at->port) == at->exact;
}

/* The value as it stands in a request; false: it cannot. The caller wipes. */
static bool render_value(const vault *v, const cay__binding *b, cay__buf *value)
{
    const secret *s = vault_secret(v, b->name);
    return s && cay__binding_render(b, s->value, s->len, value);
}

static void wipe_buffer(cay__buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->cap);
    cay__buf_clear(b);
}

static void add_query(cay__buf *out, const vault *v, const place *at, const request *r,
                      const injected *in)
{
    CAY_AUTOBUF now = CAY__BUF(HEAD_MAX), next = CAY__BUF(HEAD_MAX);
    cay__buf_add(&now, r->query.p, r->query.n);
    CAY_EACH_OF(b, v->policy.bindings, v->policy.nbindings) {
        if (b->kind != CAY__BIND_QUERY || !is_bound_at(b, at) || !now.len)
            continue;
        cay__query_without(now.data, now.len, b->arg, &next);
        now.len = 0;
        cay__buf_add(&now, CAY_OR(next.data, ""), next.len);
        next.len = 0;
    }
    for (size_t i = 0; i < in->n; i++) {
        cay__buf value = CAY__BUF(HEAD_MAX);
        if (in->use[i]->kind != CAY__BIND_QUERY)
            continue;
        out->full |= !render_value(v, in->use[i], &value);
        cay__buf_fmt(&now, "%s%s=%.*s", now.len ? "&" : "", in->use[i]->arg, (int)value.len,
                     CAY_OR(value.data, ""));
        wipe_buffer(&value);
    }
    if (now.len || r->has_query)
        cay__buf_fmt(out, "?%.*s", (int)now.len, CAY_OR(now.data, ""));
    out->full |= now.full;
    if (now.data)
        explicit_bzero(now.data, now.len);
}

/* A credential's place at this host; what would hide an answer from the mask, or cut one out of its
 * middle; what lets a server take the request for another than we judged; and an upgrade to
 * anything but a WebSocket, whose bytes are no requests any more. */
static bool is_dropped_field(const vault *v, const place *at, span key, span value)
{
    static const char *const never[] = { "Accept-Encoding",
                                         "TE",
                                         "Range",
                                         "If-Range",
                                         "X-HTTP-Method-Override",
                                         "X-HTTP-Method",
                                         "X-Method-Override",
                                         "X-Original-URL",
                                         "X-Rewrite-URL",
                                         "HTTP2-Settings" };
    CAY_EACH_OF(b, v->policy.bindings, v->policy.nbindings) {
        const char *h = NULL;
        if (is_bound_at(b, at))
            h = cay__binding_header(b);
        if (h && (CAY__MUTANT("fuzz-inject") ? strlen(h) == key.n && !memcmp(h, key.p, key.n)
                                             : span_is(key, h)))
            return true;
    }
    CAY_EACH(it, never)
        if (span_is(key, *it))
            return true;
    return span_is(key, "Upgrade") && !span_is(span_trim(value), "websocket");
}

static void add_fields(cay__buf *out, const vault *v, const place *to, const request *r)
{
    for (size_t at = 0; at < r->fields.n;) {
        const char *line = r->fields.p + at, *eol = memmem(line, r->fields.n - at, "\r\n", 2);
        size_t n = 0;
        if (eol)
            n = (size_t)(eol - line);
        if (!n)
            return;
        const char *colon = memchr(line, ':', n);
        if (colon && !is_dropped_field(v, to, (span){ line, (size_t)(colon - line) },
                                       (span){ colon + 1, n - (size_t)(colon - line) - 1 }))
            cay__buf_add(out, line, n + 2);
        at += n + 2;
    }
}

/* What an answer may echo: the form it went in, and the value itself. */
static void mask_value(mask *m, const cay__binding *b, const secret *s, const cay__buf *value)
{
    const char *cut = value->data;
    if (b->kind == CAY__BIND_BEARER || b->kind == CAY__BIND_BASIC)
        cut = strchr(cut, ' ') + 1;
    mask_add(m, cut, value->len - (size_t)(cut - value->data));
    mask_add(m, s->value, s->len);
    /* "token abc…": a server that tells the token tells it without the word before it. */
    const char *blank = NULL;
    if (b->kind == CAY__BIND_HEADER)
        blank = memchr(s->value, ' ', s->len);
    size_t rest = 0;
    if (blank)
        rest = s->len - (size_t)(blank + 1 - s->value);
    if (rest >= WORD_MIN)
        mask_add(m, blank + 1, rest);
}

void mask_bound(const vault *v, const char *name, uint16_t port, bool tls, mask *m)
{
    const place at = place_of(v, name, port, tls);
    for (size_t i = 0; i < v->policy.nbindings; i++) {
        const cay__binding *b = &v->policy.bindings[i];
        cay__buf value = CAY__BUF(HEAD_MAX);
        if (is_bound_at(b, &at) && render_value(v, b, &value))
            mask_value(m, b, vault_secret(v, b->name), &value);
        wipe_buffer(&value);
    }
}

/* A line for each that goes into a header; and all of them into the mask. */
static void add_values(cay__buf *head, const vault *v, const injected *in)
{
    CAY_EACH_OF(it, in->use, in->n) {
        const cay__binding *b = *it;
        cay__buf value = CAY__BUF(HEAD_MAX);
        if (!render_value(v, b, &value))
            head->full = true;
        else if (b->kind != CAY__BIND_QUERY)
            cay__buf_fmt(head, "%s: %.*s\r\n", cay__binding_header(b), (int)value.len, value.data);
        if (!head->full)
            mask_value(in->mask, b, vault_secret(v, b->name), &value);
        wipe_buffer(&value);
    }
}

int inject(const vault *v, const char *name, uint16_t port, bool tls, const char *p, size_t len,
           injected *out, cay_err *err)
{
    const place at = place_of(v, name, port, tls);
    request r;
    bool many = false;
    split_head(p, len, &r);
    if (span_is(r.method, "TRACE")) /* made to say everything back */
        return cay_fail_why(err, CAY_EPERM, "http_trace",
                            "TRACE is not for a destination with a credential");
    out->n = cay__binding_find(&v->policy, tls, name, port, r.method.p, r.method.n, r.path.p,
                               r.path.n, out->use, &many);
    if (many)
        return cay_fail_why(err, CAY_EPERM, "secret_ambiguous",
                            "more than one credential fits this request to %s in one place", name);
    for (size_t i = 0; i < out->n; i++)
        if (!vault_secret(v, out->use[i]->name))
            return cay_fail_why(err, CAY_ENOENT, "secret_unknown",
                                "secret %s has no value any more; give it again",
                                out->use[i]->name);
    cay__buf head = CAY__BUF(HEAD_MAX);
    cay__buf_fmt(&head, "%.*s %.*s", (int)r.method.n, r.method.p, (int)r.path.n, r.path.p);
    add_query(&head, v, &at, &r, out);
    cay__buf_fmt(&head, " %.*s\r\n", (int)r.version.n, r.version.p);
    add_fields(&head, v, &at, &r);
    add_values(&head, v, out);
    cay__buf_str(&head, "Accept-Encoding: identity\r\n\r\n");
    if (head.full) {
        wipe_buffer(&head);
        return cay_fail_why(err, CAY_ETOOBIG, "http_head_too_long",
                            "the request's head with its credential has more than %d bytes",
                            HEAD_MAX);
    }
    out->head = head.data;
    out->len = head.len;
    return 0;
}

void mask_add(mask *m, const char *bytes, size_t len)
{
    if (!len || CAY__MUTANT("secret-mask"))
        return;
    CAY_EACH_LINK(n, m->needles)
        if (n->len == len && !memcmp(n->bytes, bytes, len))
            return;
    needle *n = cay__alloc(sizeof *n + len);
    n->len = len;
    memcpy(n->bytes, bytes, len);
    n->next = m->needles;
    m->needles = n;
}

void mask_clear(mask *m)
{
    for (needle *n; (n = m->needles);) {
        m->needles = n->next;
        explicit_bzero(n->bytes, n->len);
        free(n);
    }
}

size_t mask_apply(const mask *m, char *p, size_t len, bool end)
{
    size_t safe = len;
    CAY_EACH_LINK(n, m->needles) {
        for (char *at = p, *hit; (size_t)(p + len - at) >= n->len &&
                                 (hit = memmem(at, (size_t)(p + len - at), n->bytes, n->len));) {
            memset(hit, '*', n->len);
            at = hit + n->len;
        }
        /* The longest end of the text that begins this value. */
        size_t most = CAY_MIN(n->len - 1, len);
        for (size_t k = most; !end && k > 0; k--)
            if (!memcmp(p + len - k, n->bytes, k)) {
                safe = CAY_MIN(safe, len - k);
                break;
            }
    }
    return safe;
}
