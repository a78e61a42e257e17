/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

static const char *const names[] = {
    "OK",        "EINVAL",  "EAUTH",      "EPERM",     "ENOENT",  "EEXIST",   "ETYPE",
    "ESTATE",    "EBUSY",   "EGONE",      "ERATE",     "ETOOBIG", "ENOSPACE", "ETIMEOUT",
    "ECANCELED", "ENOTSUP", "EISOLATION", "EUPSTREAM", "ESYS",
};

const char *cay_code_name(int code)
{
    size_t i = (size_t)(code <= 0 ? -(long)code : (long)CAY_LEN(names));
    if (i < CAY_LEN(names))
        return names[i];
    return "EUNKNOWN";
}

/* Cuts at the buffer's end, and keeps the message on one line whatever was formatted into it. */
__attribute__((format(printf, 4, 0))) static void format_message(char *dst, size_t cap, size_t at,
                                                                 const char *fmt, va_list ap)
{
    if (at >= cap)
        return;
    vsnprintf(dst + at, cap - at, fmt, ap);
    for (char *p = dst + at; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
}

static int fill_error(cay_err *err, int code, int sys, const char *reason, const char *fmt,
                      va_list ap)
{
    if (!err)
        return code;
    memset(err, 0, sizeof *err);
    err->size = sizeof *err;
    err->code = code;
    err->sys = sys;
    if (code == CAY_EBUSY || code == CAY_ETIMEOUT || code == CAY_ERATE)
        err->retry = CAY_RETRY_YES;
    else
        err->retry = CAY_RETRY_UNKNOWN;
    CAY_FORMAT(err->reason, "%s", CAY_OR(reason, ""));
    format_message(err->msg, sizeof err->msg, 0, fmt, ap);
    if (sys) {
        size_t n = strlen(err->msg);
        snprintf(err->msg + n, sizeof err->msg - n, ": %s", strerror(sys));
    }
    return code;
}

int cay_fail(cay_err *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fill_error(err, code, 0, NULL, fmt, ap);
    va_end(ap);
    return code;
}

int cay_fail_why(cay_err *err, int code, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fill_error(err, code, 0, reason, fmt, ap);
    va_end(ap);
    return code;
}

int cay_fail_sys(cay_err *err, const char *fmt, ...)
{
    int e = errno;
    va_list ap;
    va_start(ap, fmt);
    int code = fill_error(err, cay_code_of_errno(e), e, NULL, fmt, ap);
    va_end(ap);
    errno = e;
    return code;
}

int cay_fail_sys_as(cay_err *err, int code, const char *fmt, ...)
{
    int e = errno;
    va_list ap;
    va_start(ap, fmt);
    code = fill_error(err, code == CAY_ESYS ? cay_code_of_errno(e) : code, e, NULL, fmt, ap);
    va_end(ap);
    errno = e;
    return code;
}

int cay_wrap(cay_err *err, int code, const char *fmt, ...)
{
    if (!err || code >= 0)
        return code;
    char old[sizeof err->msg];
    memcpy(old, err->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    format_message(err->msg, sizeof err->msg, 0, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, ": %.*s", (int)sizeof old - 1, old);
    return code;
}

/* The one table of reason phrases (RFC 9110, section 15; 499 is the proxies' own). */
static const struct {
    int status;
    const char *text;
} phrases[] = {
    { 101, "Switching Protocols" },
    { 200, "OK" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 204, "No Content" },
    { 206, "Partial Content" },
    { 301, "Moved Permanently" },
    { 302, "Found" },
    { 303, "See Other" },
    { 304, "Not Modified" },
    { 307, "Temporary Redirect" },
    { 308, "Permanent Redirect" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 402, "Payment Required" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 411, "Length Required" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 416, "Range Not Satisfiable" },
    { 421, "Misdirected Request" },
    { 422, "Unprocessable Content" },
    { 424, "Failed Dependency" },
    { 426, "Upgrade Required" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 499, "Client Closed Request" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
    { 507, "Insufficient Storage" },
};

const char *cay__status_text(int status)
{
    CAY_EACH(it, phrases)
        if (it->status == status)
            return it->text;
    return "Status";
}
