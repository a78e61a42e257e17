/* SPDX-License-Identifier: Apache-2.0 */
/* Connect-RPC with its JSON codec: one message in, one out, or a stream of envelopes that ends with
 * one of its own kind. */
#include "e2b.h"

static uint64_t header_number(cay__req *r, const char *name, uint64_t none)
{
    const char *s = cay__head_field(&r->head, name);
    char *end;
    if (!s || *s < '0' || *s > '9')
        return none;
    uint64_t v = strtoull(s, &end, 10);
    if (*end || v > UINT32_MAX)
        return none;
    return v;
}

static int read_all(cay__req *r, cay__buf *b, cay_err *err)
{
    size_t n = 1;
    while (n) {
        char *room = cay__buf_room(b, 16384);
        if (!room)
            return cay_fail(err, CAY_ETOOBIG, "the message is longer than %zu bytes",
                            E2B_MESSAGE_MAX);
        CAY_TRY(cay__req_read(r, room, 16384, &n, err));
        cay__buf_used(b, n);
    }
    return 0;
}

static int read_message(cay__req *r, e2b_rpc *out, cay_err *err)
{
    CAY_AUTOBUF body = CAY__BUF(E2B_MESSAGE_MAX + 16384);
    const char *type = cay__head_field(&r->head, "content-type"), *text;
    size_t len;
    json_error_t je;
    bool stream = type && !strncasecmp(type, "application/connect+json", 24);
    if (!stream && !(type && !strncasecmp(type, "application/json", 16)))
        return cay_fail_why(
            err, CAY_EINVAL, "content_type",
            "content type %.60s: only application/json and application/connect+json are read",
            CAY_OR(type, "none"));
    CAY_TRY(read_all(r, &body, err));
    text = CAY_OR(body.data, "");
    len = body.len;
    if (stream)
        CAY_TRY(e2b_unwrap(text, len, &text, &len, err));
    if (!len)
        text = "{}";
    out->in = cay__req_keep(r, json_loadb(text, CAY_OR(len, 2), JSON_REJECT_DUPLICATES, &je));
    if (!json_is_object(out->in))
        return cay_fail(err, CAY_EINVAL, "the message is not a JSON object");
    return 0;
}

int e2b_rpc_open(cay__req *r, e2b_rpc *out, cay_err *err)
{
    *out = (e2b_rpc){ .keepalive_ms = 1000 * header_number(r, "keepalive-ping-interval", 90),
                      .timeout_ms = header_number(r, "connect-timeout-ms", 0) };
    if (out->keepalive_ms < 1000)
        out->keepalive_ms = 90000;
    CAY_TRY(e2b_daemon_open(r, &out->d, err));
    return read_message(r, out, err);
}
