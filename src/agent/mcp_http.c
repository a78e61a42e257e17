/* SPDX-License-Identifier: Apache-2.0 */
/* An MCP server at an address: a request for each message, answered by a document or a short stream
 * of events. */
#include "mcp.h"
#include <agent/model/endpoint.h>
#include <net/http.h>
#include <net/sse.h>

typedef struct http {
    cay_mcp *mcp;
    cay__http *client, *side; /* side: for what is said while an answer still comes */
    char *url;
    char session[256];
    char **headers; /* the caller's, then one for the session */
    size_t n;
} http;

/* One answer on its way. */
typedef struct incoming {
    http *http;
    cay_call call;
    int64_t id;
    cay__sse sse;
    cay__buf body;
    bool stream;
    json_t *answer;
} incoming;

static int post_message(http *h, cay__http *client, const cay_call *call, const cay__http_req *q,
                        cay__http_reply *r, cay_err *err)
{
    char session[300];
    cay__http_req mine = *q;
    CAY_AUTOFREE const char **headers = cay__alloc((h->n + 2) * sizeof *headers);
    memcpy(headers, h->headers, h->n * sizeof *headers);
    CAY_FORMAT(session, "Mcp-Session-Id: %s", h->session);
    headers[h->n] = CAY_IF(*h->session, session);
    mine.headers = headers;
    mine.url = h->url;
    return cay__http_do(client, call, &mine, r, err);
}

/* What the server asks in between is answered by a request of its own. */
static int answer_request(incoming *in, const json_t *message, cay_err *err)
{
    http *h = in->http;
    cay__http_reply r;
    int64_t began = cay__now_ms();
    CAY_AUTOFREE char *reply = cay__mcp_reply(h->mcp, &in->call, message);
    if (!reply)
        return 0;
    if (!h->side)
        CAY_TRY(cay__http_open(&h->side, err));
    if (in->call.deadline_ms)
        in->call.deadline_ms +=
            cay__now_ms() - began; /* whoever was asked took his time, not the server's */
    cay__http_req q = { .body = reply, .body_len = strlen(reply), .max_body = 1 << 20 };
    return post_message(h, h->side, &in->call, &q, &r, err);
}

static int on_event(const char *name, const char *data, size_t len, void *arg, cay_err *err)
{
    incoming *in = arg;
    CAY_AUTOJSON *j = CAY_IF(!in->answer, json_loads(data, 0, NULL));
    if (j && cay__mcp_answers(j, in->id))
        in->answer = json_incref(j);
    else if (j && in->stream)
        return answer_request(in, j, err);
    return 0;
}

static int on_head(int status, const char *type, void *arg, cay_err *err)
{
    incoming *in = arg;
    in->stream = status / 100 == 2 && !strcmp(type, "text/event-stream");
    return 0;
}

static int on_data(const char *bytes, size_t n, void *arg, cay_err *err)
{
    incoming *in = arg;
    if (in->stream)
        return cay__sse_feed(&in->sse, bytes, n, err);
    cay__buf_add(&in->body, bytes, n);
    if (in->body.full)
        return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big", "its answer is larger than 64 MiB");
    return 0;
}

static int send_request(http *h, const char *message, incoming *in, cay_err *err)
{
    cay__http_reply r;
    cay__http_req q = { .body = message,
                        .body_len = strlen(message),
                        .on_head = on_head,
                        .on_data = on_data,
                        .arg = in,
                        .max_body = CAY__MCP_MESSAGE };
    CAY_TRY(post_message(h, h->client, &in->call, &q, &r, err));
    if (r.status / 100 != 2)
        return cay_fail_why(err, r.status == 401 || r.status == 403 ? CAY_EAUTH : CAY_EUPSTREAM,
                            "mcp_failed", "it answered %d", r.status);
    if (*r.session)
        CAY_COPY(h->session, r.session);
    return 0;
}

static int exchange_message(void *self, const cay_call *call, const char *message, int64_t id,
                            json_t **answer, cay_err *err)
{
    http *h = self;
    incoming in = { .http = h,
                    .call = *call,
                    .id = id,
                    .sse = CAY__SSE(CAY__MCP_MESSAGE, on_event, &in),
                    .body = CAY__BUF(CAY__MCP_MESSAGE) };
    int rc = 0;
    if (!h->client)
        rc = cay__http_open(&h->client, err);
    if (rc == 0)
        rc = send_request(h, message, &in, err);
    if (rc == 0 && id > 0 && !in.stream && in.body.len)
        on_event("", in.body.data, in.body.len, &in, err);
    if (rc == 0 && id > 0 && !in.answer)
        rc = cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed", "it gave no answer");
    if (rc == 0 && id > 0)
        *answer = CAY_STEAL(in.answer);
    json_decref(in.answer);
    cay__sse_end(&in.sse);
    cay__buf_clear(&in.body);
    return rc;
}

static void close_http(void *self)
{
    http *h = self;
    cay__http_close(h->client);
    cay__http_close(h->side);
    CAY_EACH_OF(header, h->headers, h->n)
        cay__secret_free(*header);
    free(h->headers);
    free(h->url);
    free(h);
}

/* A value env:NAME or file:PATH is read there; what it holds is a secret, and does not travel for
 * everybody to read. */
static int header_of(const char *url, const char *line, char **out, cay_err *err)
{
    CAY_AUTOFREE char *secret = NULL;
    size_t n = strcspn(line, ":");
    const char *value = line + n + !!line[n];
    value += strspn(value, " \t");
    if (strncmp(value, "env:", 4) && strncmp(value, "file:", 5)) {
        *out = cay__strdup(line);
        return 0;
    }
    if (!strncmp(url, "http://", 7) && !cay__http_is_loopback(url))
        return cay_fail_why(err, CAY_EPERM, "mcp_header",
                            "header %.*s would travel to %.100s unencrypted; use https://",
                            (int)CAY_MIN(n, (size_t)60), line, url);
    cay_err own = CAY_ERR_INIT;
    int rc = cay__model_secret(value, &secret, &own);
    if (rc < 0)
        return cay_fail_why(err, rc, "mcp_header",
                            "header %.*s: %.100s cannot be read, or is empty",
                            (int)CAY_MIN(n, (size_t)60), line, value);
    bool sound = secret && !strpbrk(secret, "\r\n");
    if (!sound || asprintf(out, "%.*s: %s", (int)n, line, secret) < 0)
        rc = cay_fail_why(err, CAY_EINVAL, "mcp_header",
                          "header %.*s: what is in %.100s has a line break in it",
                          (int)CAY_MIN(n, (size_t)60), line, value);
    cay__secret_free(CAY_STEAL(secret));
    return rc;
}

int cay__mcp_http(cay_mcp *m, const cay_mcp_spec *spec, cay__mcp_link *out, cay_err *err)
{
    static const char *const ours[] = { "Content-Type: application/json",
                                        "Accept: application/json, text/event-stream",
                                        "MCP-Protocol-Version: 2025-06-18" };
    size_t n = 0;
    if (strncmp(spec->url, "https://", 8) && strncmp(spec->url, "http://", 7))
        return cay_fail_why(err, CAY_EINVAL, "url_invalid",
                            "\"%.100s\" is no http:// or https:// address", spec->url);
    while (spec->headers && spec->headers[n])
        n++;
    http *h = cay__alloc(sizeof *h);
    h->mcp = m;
    h->url = cay__strdup(spec->url);
    h->headers = cay__alloc((n + CAY_LEN(ours) + 2) * sizeof *h->headers);
    CAY_EACH(our, ours)
        h->headers[h->n++] = cay__strdup(*our);
    CAY_EACH_OF(header, spec->headers, n) {
        int rc = header_of(spec->url, *header, &h->headers[h->n], err);
        if (rc < 0) {
            close_http(h);
            return rc;
        }
        h->n++;
    }
    *out = (cay__mcp_link){ .self = h, .exchange = exchange_message, .close = close_http };
    return 0;
}
