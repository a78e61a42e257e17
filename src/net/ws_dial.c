/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"
#include "ws.h"
#include <base/base.h>
#include <strings.h>

static int fields_of(const char *const *headers, const char *key, cay__buf *b, cay_err *err)
{
    cay__buf_fmt(b,
                 "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: "
                 "13\r\nSec-WebSocket-Key: %s\r\n",
                 key);
    for (size_t i = 0; headers && headers[i]; i++) {
        const char *colon = strchr(headers[i], ':');
        if (!colon || colon == headers[i] || strpbrk(headers[i], "\r\n"))
            return cay_fail_why(
                err, CAY_EINVAL, "header_invalid",
                "a header is \"Name: value\" on one line"); /* it may be a key: it is not told */
        if (strncasecmp(headers[i], "Content-", 8))         /* there is no body */
            cay__buf_fmt(b, "%s\r\n", headers[i]);
    }
    if (b->full)
        return cay_fail(err, CAY_ETOOBIG, "the headers are too long");
    return 0;
}

static int read_refusal(cay__answer *a, const cay_call *call, cay__buf *said, cay_err *err)
{
    char piece[1024];
    for (size_t n = 1; n && !said->full;) {
        CAY_TRY(cay__answer_bytes(a, call, piece, sizeof piece, &n, err));
        cay__buf_add(said, piece, n);
    }
    return 0;
}

static int request_upgrade(cay__http_client *c, const char *target, const char *fields,
                           const char *key, const cay_call *call, int *fd, int *status,
                           cay__buf *said, cay_err *err)
{
    const cay__ask ask = { .method = "GET", .target = target, .fields = fields, .upgrade = true };
    cay__answer *a = NULL;
    CAY_TRY(cay__http_client_ask(c, call, &ask, &a, err));
    *status = cay__answer_head(a)->status;
    if (*status == 101 &&
        cay__ws_accepts(key, cay__head_field(cay__answer_head(a), "sec-websocket-accept"))) {
        *fd = cay__answer_take(a);
        return 0;
    }
    int rc;
    if (*status == 101)
        rc = cay_fail_why(err, CAY_EUPSTREAM, "net_answer",
                          "the server does not answer as one that speaks WebSocket");
    else
        rc = read_refusal(a, call, said, err);
    cay__answer_end(a);
    return rc;
}

int cay__ws_dial(const char *url, const char *target, const char *const *headers,
                 const cay_call *call, int *fd, int *status, cay__buf *said, cay_err *err)
{
    char key[CAY__WS_KEY];
    cay__http_client *c = NULL;
    cay__buf fields = CAY__BUF(64 << 10);
    cay__ws_key(key);
    int rc = fields_of(headers, key, &fields, err);
    if (rc == 0)
        rc = cay__http_client_open(url, NULL, &c, err);
    if (rc == 0)
        rc = request_upgrade(c, target, fields.data, key, call, fd, status, said, err);
    cay__http_client_unref(c);
    if (fields.data)
        explicit_bzero(fields.data, fields.len); /* a key is among them */
    cay__buf_clear(&fields);
    return rc;
}
