/* SPDX-License-Identifier: Apache-2.0 */
/* Connect-RPC with its JSON codec: one message in, one out, or a stream of envelopes that ends with one of its own kind. */
#include "e2b.h"
#include <strings.h>

#define MESSAGE_MAX ((size_t)8 << 20)

/* ------------------------------------------------------------------ answers */

static const struct {
    int         code;
    const char *word;
} words[] = {
    { CAY_EINVAL, "invalid_argument" },   { CAY_EAUTH, "unauthenticated" },      { CAY_EPERM, "permission_denied" }, { CAY_ENOENT, "not_found" },
    { CAY_EEXIST, "already_exists" },     { CAY_ETYPE, "invalid_argument" },     { CAY_ESTATE, "failed_precondition" }, { CAY_EBUSY, "unavailable" },
    { CAY_EGONE, "unavailable" },         { CAY_ERATE, "resource_exhausted" },   { CAY_ETOOBIG, "resource_exhausted" }, { CAY_ENOSPACE, "resource_exhausted" },
    { CAY_ETIMEOUT, "deadline_exceeded" }, { CAY_ECANCELED, "canceled" },        { CAY_ENOTSUP, "unimplemented" },   { CAY_EUPSTREAM, "unavailable" },
};

const char *e2b_rpc_code(const cay_err *err)
{
    for (size_t i = 0; i < CAY_LEN(words); i++)
        if (words[i].code == err->code)
            return words[i].word;
    return "internal";
}

void e2b_envelope(cay__buf *out, unsigned flags, const char *json, size_t len)
{
    unsigned char head[5] = { (unsigned char)flags, (unsigned char)(len >> 24), (unsigned char)(len >> 16), (unsigned char)(len >> 8), (unsigned char)len };
    cay__buf_add(out, head, sizeof head);
    cay__buf_add(out, json, len);
}

void e2b_envelope_json(cay__buf *out, json_t *j)
{
    CAY_AUTOFREE char *text = cay__json_text(j, MESSAGE_MAX);
    if (text)
        e2b_envelope(out, 0, text, strlen(text));
    json_decref(j);
}

void e2b_envelope_end(cay__buf *out, const cay_err *err)
{
    CAY_AUTOJSON *o = err ? json_pack("{s:{s:s,s:s}}", "error", "code", e2b_rpc_code(err), "message", err->msg) : json_object();
    CAY_AUTOFREE char *text = cay__json_text(o, MESSAGE_MAX);
    e2b_envelope(out, 2, text ? text : "{}", text ? strlen(text) : 2);
}

int e2b_rpc_answer(cay__req *r, json_t *j)
{
    return cay__reply_json(r, 200, j);
}

/* ------------------------------------------------------------------ requests */

static uint64_t header_number(cay__req *r, const char *name, uint64_t none)
{
    const char *s = cay__head_field(&r->head, name);
    char *end;
    if (!s || *s < '0' || *s > '9')
        return none;
    uint64_t v = strtoull(s, &end, 10);
    return *end || v > UINT32_MAX ? none : v;
}

static int read_all(cay__req *r, cay__buf *b, cay_err *err)
{
    size_t n = 1;
    while (n) {
        char *room = cay__buf_room(b, 16384);
        if (!room)
            return cay_fail(err, CAY_ETOOBIG, "the message is longer than %zu bytes", MESSAGE_MAX);
        CAY_TRY(cay__req_read(r, room, 16384, &n, err));
        cay__buf_used(b, n);
    }
    return 0;
}

/* Exactly one envelope, not compressed. */
static int unwrap(const cay__buf *b, const char **text, size_t *len, cay_err *err)
{
    const unsigned char *p = (const unsigned char *)b->data;
    size_t n = b->len < 5 ? 0 : (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (b->len < 5 || n != b->len - 5)
        return cay_fail(err, CAY_EINVAL, "the envelope's length does not fit what was sent");
    if (p[0] & 1)
        return cay_fail(err, CAY_ENOTSUP, "compressed envelopes are not read");
    *text = b->data + 5;
    *len = n;
    return 0;
}

static int read_message(cay__req *r, e2b_rpc *out, cay_err *err)
{
    CAY_AUTOBUF body = CAY__BUF(MESSAGE_MAX + 16384);
    const char *type = cay__head_field(&r->head, "content-type"), *text;
    size_t len;
    json_error_t je;
    out->stream = type && !strncasecmp(type, "application/connect+json", 24);
    if (!out->stream && !(type && !strncasecmp(type, "application/json", 16)))
        return cay_fail_why(err, CAY_EINVAL, "content_type", "content type %.60s: only application/json and application/connect+json are read", type ? type : "none");
    CAY_TRY(read_all(r, &body, err));
    text = body.data ? body.data : "";
    len = body.len;
    if (out->stream)
        CAY_TRY(unwrap(&body, &text, &len, err));
    json_t *j = len ? json_loadb(text, len, JSON_REJECT_DUPLICATES, &je) : json_object();
    if (!json_is_object(j)) {
        json_decref(j);
        return cay_fail(err, CAY_EINVAL, "the message is not a JSON object");
    }
    out->in = j;
    return 0;
}

int e2b_rpc_open(cay__req *r, e2b_rpc *out, cay_err *err)
{
    *out = (e2b_rpc){ .keepalive_ms = 1000 * header_number(r, "keepalive-ping-interval", 90), .timeout_ms = header_number(r, "connect-timeout-ms", 0) };
    if (out->keepalive_ms < 1000)
        out->keepalive_ms = 90000;
    CAY_TRY(e2b_daemon_open(r, 0, &out->d, err));
    return read_message(r, out, err);
}
