/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_box.h"
#include <stdio.h>

#define ANSWER_MAX (256u << 20) /* a listing may be long */

static void encode_url(cay__buf *b, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("-._~/", c))
            cay__buf_add(b, s, 1);
        else
            cay__buf_fmt(b, "%%%02X", c);
    }
}

void cay__far_query(cay__buf *target, const char *name, const char *value)
{
    cay__buf_fmt(target, "%c%s=", memchr(target->data, '?', target->len) ? '&' : '?', name);
    encode_url(target, value);
}

void cay__far_query_u64(cay__buf *target, const char *name, uint64_t value)
{
    char digits[24];
    cay__far_query(target, name, cay__str_u64(digits, value));
}

void cay__far_at(cay__buf *target, const cay__far_box *b, const char *rest)
{
    cay__buf_fmt(target, CAY__FAR_API "/sandboxes/%s%s", b->remote, rest);
}

static int code_of(const char *name)
{
    for (int c = CAY_EINVAL; c >= CAY_ESYS; c--)
        if (!strcmp(cay_code_name(c), name))
            return c;
    return 0;
}

static const struct {
    int status, code;
} statuses[] = { { 400, CAY_EINVAL },   { 401, CAY_EAUTH },   { 403, CAY_EPERM },
                 { 404, CAY_ENOENT },   { 410, CAY_EGONE },   { 413, CAY_ETOOBIG },
                 { 429, CAY_ERATE },    { 501, CAY_ENOTSUP }, { 503, CAY_EBUSY },
                 { 504, CAY_ETIMEOUT }, { 507, CAY_ENOSPACE } };

static int parse_failure(cay__far *f, int status, const char *text, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    int code = 0, retry = CAY_RETRY_UNKNOWN;
    if (text)
        cay__json_object("answer", text, &o, NULL);
    if (o)
        code = code_of(cay__json_str(o, "code", ""));
    else
        code = 0;
    for (size_t i = 0; !code && i < CAY_LEN(statuses); i++)
        if (statuses[i].status == status)
            code = statuses[i].code;
    const char *reason = o ? cay__json_str(o, "reason", "") : "",
               *word = o ? cay__json_str(o, "retry", "") : "";
    const char *said = "";
    if (o)
        said = cay__json_str(o, "detail", cay__json_str(o, "title", ""));
    if (!code || !*said)
        return cay_fail_why(err, CAY_OR(code, CAY_EUPSTREAM), cay__text_or(reason, "net_answer"),
                            "%.120s answered with status %d", cay__http_client_url(f->client),
                            status);
    if (!strcmp(word, "yes"))
        retry = CAY_RETRY_YES;
    else if (!strcmp(word, "no"))
        retry = CAY_RETRY_NO;
    else
        retry = CAY_RETRY_UNKNOWN;
    cay_fail(err, code, "%.250s", said);
    if (err) {
        cay__str_copy(err->reason, sizeof err->reason, reason);
        err->retry = retry;
        err->sys = (int)cay__json_int(o, "errno", 0);
        err->retry_after_ms = (uint32_t)CAY_MAX(cay__json_int(o, "retry_after_ms", 0), 0);
        CAY_AUTOFREE char *info = NULL;
        if (json_object_get(o, "info"))
            info = cay__json_text(json_object_get(o, "info"), sizeof err->detail - 1);
        cay__str_copy(err->detail, sizeof err->detail, CAY_OR(info, ""));
    }
    return code;
}

static int read_all(cay__answer *a, const cay_call *call, cay__buf *out, cay_err *err)
{
    for (size_t n;;) {
        char *room = cay__buf_room(out, 65536);
        if (!room)
            return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                                "the answer is larger than %zu bytes", out->max);
        CAY_TRY(cay__answer_bytes(a, call, room, 65536, &n, err));
        cay__buf_used(out, n);
        if (!n)
            return 0;
    }
}

int cay__far_ask(cay__far *f, const cay_call *call, const cay__ask *ask, cay__answer **out,
                 cay_err *err)
{
    cay__answer *a = NULL;
    if (!f->client)
        return cay_fail_why(err, CAY_EINVAL, "host_missing",
                            "no server is named; set CAY_HOST=http://HOST:8090 and CAY_API_KEY");
    CAY_TRY(cay__http_client_ask(f->client, call, ask, &a, err));
    int status = cay__answer_head(a)->status;
    if ((status >= 200 && status < 300) || (ask->upgrade && status == 101)) {
        *out = a;
        return 0;
    }
    CAY_AUTOBUF text = CAY__BUF(1u << 20);
    int rc;
    if (read_all(a, call, &text, NULL) < 0)
        rc = parse_failure(f, status, NULL, err);
    else
        rc = parse_failure(f, status, text.data, err);
    cay__answer_end(a);
    return rc;
}

static int take_json(cay__far *f, cay__answer *a, const cay_call *call, json_t **out, cay_err *err)
{
    CAY_AUTOBUF text = CAY__BUF(ANSWER_MAX);
    CAY_TRY(read_all(a, call, &text, err));
    if (!out)
        return 0;
    if (cay__json_object("answer", CAY_OR(text.data, ""), out, err) < 0)
        return cay_fail_why(err, CAY_EUPSTREAM, "net_answer",
                            "%.120s answers with something that is not JSON",
                            cay__http_client_url(f->client));
    return 0;
}

int cay__far_send(cay__far *f, const cay_call *call, const cay__ask *ask, json_t **out,
                  cay_err *err)
{
    cay__answer *a;
    CAY_TRY(cay__far_ask(f, call, ask, &a, err));
    int rc = take_json(f, a, call, out, err);
    cay__answer_end(a);
    return rc;
}

int cay__far_json_with(cay__far *f, const cay_call *call, const char *method,
                       const cay__buf *target, const char *fields, json_t *body, json_t **out,
                       cay_err *err)
{
    CAY_AUTOJSON *own = body;
    CAY_AUTOFREE char *text = NULL;
    if (body)
        text = cay__json_text(body, 64u << 20);
    if (target->full || (body && !text))
        return cay_fail_why(err, CAY_ETOOBIG, "request_too_big", "the request is too long");
    cay__ask ask = { .method = method,
                     .target = target->data,
                     .fields = fields,
                     .body = text,
                     .len = text ? strlen(text) : 0 };
    return cay__far_send(f, call, &ask, out, err);
}

int cay__far_json(cay__far *f, const cay_call *call, const char *method, const cay__buf *target,
                  json_t *body, json_t **out, cay_err *err)
{
    return cay__far_json_with(f, call, method, target, NULL, body, out, err);
}
