/* SPDX-License-Identifier: Apache-2.0 */
/* Errors as answers. */
#include "connection.h"
#include <base/base.h>

static const struct {
    cay_reason reason;
    int status;
} by_reason[] = {
    { CAY_REASON_METHOD_NOT_ALLOWED, 405 },
    { CAY_REASON_CONTENT_TYPE, 415 },
    { CAY_REASON_RANGE_NOT_SATISFIABLE, 416 },
    { CAY_REASON_HOST_NOT_ALLOWED, 421 },
    { CAY_REASON_IDEMPOTENCY_BUSY, 409 },
    { CAY_REASON_HEAD_TOO_BIG, 431 },
    { CAY_REASON_OVERLOADED, 503 },
    { CAY_REASON_HTTP_VERSION, 505 },
    { CAY_REASON_UPGRADE_REQUIRED, 426 },
    { CAY_REASON_BODY_TOO_SLOW, 408 },
};

static const struct {
    int status;
    bool retry; /* the same call may help */
    const char *title;
} by_code[] = {
    [-CAY_EINVAL] = { 400, false, "The request is wrong" },
    [-CAY_EAUTH] = { 401, false, "A key is needed" },
    [-CAY_EPERM] = { 403, false, "This is not allowed" },
    [-CAY_ENOENT] = { 404, false, "There is no such thing" },
    [-CAY_EEXIST] = { 409, false, "It is there already" },
    [-CAY_ETYPE] = { 409, false, "It is of another kind" },
    [-CAY_ESTATE] = { 409, false, "Its state does not allow this" },
    [-CAY_EBUSY] = { 503, true, "It is busy" },
    [-CAY_EGONE] = { 410, false, "It is gone" },
    [-CAY_ERATE] = { 429, true, "Too many requests" },
    [-CAY_ETOOBIG] = { 413, false, "It is too big" },
    [-CAY_ENOSPACE] = { 507, false, "There is no room" },
    [-CAY_ETIMEOUT] = { 504, true, "It took too long" },
    [-CAY_ECANCELED] = { 503, true, "It was canceled" },
    [-CAY_ENOTSUP] = { 501, false, "This is not supported" },
    [-CAY_EISOLATION] = { 422, false, "The host cannot give this isolation" },
    [-CAY_EUPSTREAM] = { 502, true, "Another service failed" },
    [-CAY_ESYS] = { 500, false, "The server failed" },
};

static size_t row_of(const cay_err *err)
{
    if (err->code < 0 && (size_t)-err->code < CAY_LEN(by_code))
        return (size_t)-err->code;
    return (size_t)-CAY_ESYS;
}

static int status_of(const cay_err *err)
{
    CAY_EACH(it, by_reason)
        if (cay_err_is(err, it->reason))
            return it->status;
    return by_code[row_of(err)].status;
}

/* What a retry would do, as far as anybody knows. */
static const char *retry_word(const cay_err *err, size_t row, int status)
{
    if (err->retry == CAY_RETRY_YES || status == 503 ||
        (err->retry == CAY_RETRY_UNKNOWN && by_code[row].retry))
        return "yes";
    if (err->retry == CAY_RETRY_NO || (status >= 400 && status < 500))
        return "no";
    return "unknown";
}

int cay__reply_problem(cay__req *r, const cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(8192);
    size_t row = row_of(err);
    int status = status_of(err);
    bool hide = row == (size_t)-CAY_ESYS; /* it may name paths of the host */
    const char *text = "the server's log tells more, under this request's id";
    if (!hide)
        text = err->msg;
    cay__buf_fmt(&b,
                 "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"code\":\"%s\","
                 "\"reason\":\"%s\",\"detail\":",
                 by_code[row].title, status, cay_code_name(-(int)row), err->reason);
    cay__buf_json(&b, text, strlen(text));
    cay__buf_fmt(&b, ",\"retry\":\"%s\",\"request\":\"%s\"", retry_word(err, row, status), r->id);
    if (err->sys)
        cay__buf_fmt(&b, ",\"errno\":%d", err->sys);
    if (err->retry_after_ms)
        cay__buf_fmt(&b, ",\"retry_after_ms\":%u", err->retry_after_ms);
    json_t *info = NULL;
    if (*err->detail && !hide)
        info = json_loads(err->detail, 0, NULL);
    if (info)
        cay__buf_fmt(&b, ",\"info\":%s", err->detail);
    json_decref(info);
    cay__buf_str(&b, "}\n");
    if (status == 401)
        cay__reply_field(r, "WWW-Authenticate", "Bearer");
    if (status == 503 || (status == 429 && err->retry != CAY_RETRY_NO)) {
        char s[16];
        CAY_FORMAT(s, "%u", CAY_MAX((err->retry_after_ms + 999) / 1000, 1u));
        cay__reply_field(r, "Retry-After", s);
    }
    return cay__reply(r, status, "application/problem+json", b.data, b.len);
}
