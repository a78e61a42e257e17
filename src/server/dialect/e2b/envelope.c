/* SPDX-License-Identifier: Apache-2.0 */
/* Envelopes of Connect-RPC streams, and the words of its errors. */
#include "envelope.h"
#include <base/json.h>
#include <base/mutant.h>

static const struct {
    int code;
    const char *word;
} words[] = {
    { CAY_EINVAL, "invalid_argument" },    { CAY_EAUTH, "unauthenticated" },
    { CAY_EPERM, "permission_denied" },    { CAY_ENOENT, "not_found" },
    { CAY_EEXIST, "already_exists" },      { CAY_ETYPE, "invalid_argument" },
    { CAY_ESTATE, "failed_precondition" }, { CAY_EBUSY, "unavailable" },
    { CAY_EGONE, "unavailable" },          { CAY_ERATE, "resource_exhausted" },
    { CAY_ETOOBIG, "resource_exhausted" }, { CAY_ENOSPACE, "resource_exhausted" },
    { CAY_ETIMEOUT, "deadline_exceeded" }, { CAY_ECANCELED, "canceled" },
    { CAY_ENOTSUP, "unimplemented" },      { CAY_EUPSTREAM, "unavailable" },
};

const char *e2b_rpc_code(const cay_err *err)
{
    CAY_EACH(it, words)
        if (it->code == err->code)
            return it->word;
    return "internal";
}

void e2b_envelope(cay__buf *out, unsigned flags, const char *json, size_t len)
{
    unsigned char head[5] = { (unsigned char)flags, (unsigned char)(len >> 24),
                              (unsigned char)(len >> 16), (unsigned char)(len >> 8),
                              (unsigned char)len };
    cay__buf_add(out, head, sizeof head);
    cay__buf_add(out, json, len);
}

void e2b_envelope_json(cay__buf *out, json_t *j)
{
    CAY_AUTOFREE char *text = cay__json_text(j, E2B_MESSAGE_MAX);
    if (text)
        e2b_envelope(out, 0, text, strlen(text));
    json_decref(j);
}

void e2b_envelope_end(cay__buf *out, const cay_err *err)
{
    CAY_AUTOJSON *o =
        err ? json_pack("{s:{s:s,s:s}}", "error", "code", e2b_rpc_code(err), "message", err->msg)
            : json_object();
    CAY_AUTOFREE char *text = cay__json_text(o, E2B_MESSAGE_MAX);
    e2b_envelope(out, 2, CAY_OR(text, "{}"), text ? strlen(text) : 2);
}

int e2b_next(const char *data, size_t n, size_t *used, const char **text, size_t *len, cay_err *err)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t want = 0;
    if (n >= 5)
        want = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (n < 5)
        return 0;
    if (p[0] & 1)
        return cay_fail(err, CAY_ENOTSUP, "compressed envelopes are not read");
    if (want > E2B_MESSAGE_MAX)
        return cay_fail(err, CAY_ETOOBIG, "the message is longer than %zu bytes", E2B_MESSAGE_MAX);
    if (want > n - 5 && !CAY__MUTANT("fuzz-e2b_envelope"))
        return 0;
    *text = data + 5;
    *len = want;
    *used = want + 5;
    return 1;
}

bool e2b_whole(const char *data, size_t n)
{
    const char *text;
    size_t used, len;
    return e2b_next(data, n, &used, &text, &len, NULL) != 0;
}

int e2b_unwrap(const char *data, size_t n, const char **text, size_t *len, cay_err *err)
{
    size_t used = 0;
    int rc = e2b_next(data, n, &used, text, len, err);
    if (rc < 0)
        return rc;
    if (rc && used == n)
        return 0;
    return cay_fail(err, CAY_EINVAL, "the envelope's length does not fit what was sent");
}
