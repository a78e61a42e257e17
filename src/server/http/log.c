/* SPDX-License-Identifier: Apache-2.0 */
/* What the server tells its operator: JSON, a line each. */
#include "connection.h"
#include <server/metrics.h>
#include <server/trace.h>
#include <base/base.h>
#include <base/mutant.h>
#include <base/fd.h>
#include <inttypes.h>

void cay__log_request(cay__req *r)
{
    cay__server *s = r->server;
    if (!r->reply->status)
        return;
    cay__metrics_request(s->metrics, r->dialect, r->route, r->reply->status, r->reply->bytes,
                         cay__now_us() - r->reply->began_us);
    cay__trace_end(r);
    if (s->log_fd < 0)
        return;
    CAY_AUTOBUF b = CAY__BUF(CAY__HEAD_MAX * 3);
    cay__buf_fmt(&b,
                 "{\"ts\":%" PRId64 ",\"id\":\"%s\",\"peer\":\"%s\",\"method\":", cay__clock_ms(),
                 r->id, r->peer);
    cay__buf_json(&b, r->head.method, strlen(r->head.method));
    cay__buf_str(&b, ",\"path\":"); /* without the query: it may hold a token */
    cay__buf_json(&b, r->head.path, strlen(r->head.path));
    cay__buf_fmt(&b, ",\"status\":%d,\"bytes\":%" PRIu64 ",\"us\":%" PRId64, r->reply->status,
                 r->reply->bytes, cay__now_us() - r->reply->began_us);
    if (*r->who.key)
        cay__buf_fmt(&b, ",\"key\":\"%s\"",
                     CAY__MUTANT("log-key") && r->shown ? r->shown : r->who.key);
    if (*r->reply->span.text)
        cay__buf_fmt(&b, ",\"trace\":\"%s\"", r->reply->span.self.trace);
    cay__buf_str(&b, "}\n");
    (void)!write(s->log_fd, b.data, b.len);
}

/* Failures of the server itself: with the text that the answer does not have. */
void cay__log_error(const cay__req *r, const cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(8192);
    if (err->code != CAY_ESYS)
        return;
    cay__buf_fmt(&b, "{\"ts\":%" PRId64 ",\"id\":\"%s\",\"error\":", cay__clock_ms(), r->id);
    cay__buf_json(&b, err->msg, strlen(err->msg));
    cay__buf_fmt(&b, ",\"reason\":\"%s\",\"sys\":%d}\n", err->reason, err->sys);
    (void)!write(r->server->log_fd >= 0 ? r->server->log_fd : 2, b.data, b.len);
}
