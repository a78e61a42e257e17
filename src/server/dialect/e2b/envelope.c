/* SPDX-License-Identifier: Apache-2.0 */
/* Envelopes of Connect-RPC streams, and the words of its errors. */
#include "envelope.h"
#include <base/json.h>
#include <base/mutant.h>

const e2b_fault *e2b_fault_of(const cay_err *err)
{
    static const e2b_fault faults[] = {
        { CAY_EINVAL, 400, 400, 400, "invalid_argument" },
        { CAY_ETYPE, 400, 400, 400, "invalid_argument" },
        { CAY_EAUTH, 401, 401, 401, "unauthenticated" },
        { CAY_EPERM, 403, 403, 403, "permission_denied" },
        { CAY_ENOENT, 404, 404, 404, "not_found" },
        { CAY_EGONE, 404, 502, 503, "unavailable" },
        { CAY_EEXIST, 409, 409, 409, "already_exists" },
        { CAY_ESTATE, 409, 502, 400, "failed_precondition" },
        { CAY_ETOOBIG, 413, 413, 429, "resource_exhausted" },
        { CAY_ERATE, 429, 429, 429, "resource_exhausted" },
        { CAY_ENOTSUP, 501, 501, 501, "unimplemented" },
        { CAY_EBUSY, 503, 503, 503, "unavailable" },
        { CAY_ENOSPACE, 503, 507, 429, "resource_exhausted" },
        { CAY_EISOLATION, 503, 500, 500, "internal" },
        { CAY_ETIMEOUT, 504, 504, 504, "deadline_exceeded" },
        { CAY_ECANCELED, 500, 500, 499, "canceled" },
        { CAY_EUPSTREAM, 500, 502, 503, "unavailable" },
    };
    static const e2b_fault other = { 0, 500, 500, 500, "internal" };
    CAY_EACH(it, faults)
        if (it->code == err->code)
            return it;
    return &other;
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
    CAY_AUTOJSON *o = json_object();
    if (err)
        json_object_set_new(
            o, "error",
            json_pack("{s:s,s:s}", "code", e2b_fault_of(err)->word, "message", err->msg));
    CAY_AUTOFREE char *text = cay__json_text(o, E2B_MESSAGE_MAX);
    const char *told = CAY_OR(text, "{}");
    e2b_envelope(out, 2, told, strlen(told));
}

int e2b_next(const char *data, size_t n, size_t *used, const char **text, size_t *len, cay_err *err)
{
    const unsigned char *p = (const unsigned char *)data;
    if (n < 5)
        return 0;
    size_t want = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
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
    CAY_TRY(rc);
    if (rc && used == n)
        return 0;
    return cay_fail(err, CAY_EINVAL, "the envelope's length does not fit what was sent");
}
