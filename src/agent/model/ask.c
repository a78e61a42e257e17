/* SPDX-License-Identifier: Apache-2.0 */
/* One question to an endpoint: tries, waits in between, and what its errors say. */
#include "endpoint.h"
#include <net/sse.h>
#include <poll.h>

enum { EVENT_MAX = 32 << 20, ANSWER_MAX = 64 << 20, ERROR_MAX = 1 << 20, WAIT_MAX = 60000 };

typedef struct attempt {
    const cay__model_ask *ask;
    cay__sse sse;
    cay__buf body;
    bool stream, told; /* told: something of the answer was passed on */
} attempt;

static int on_sse(const char *name, const char *data, size_t len, void *arg, cay_err *err)
{
    attempt *a = arg;
    CAY_AUTOJSON *event = NULL;
    a->told = true;
    if (strcmp(data, "[DONE]") && cay__json_object("an event", data, &event, NULL) < 0)
        return cay_fail_why(err, CAY_EUPSTREAM, "model_answer",
                            "the model's server sent an event that is no JSON object");
    return a->ask->on_event(data, event, a->ask->arg, err);
}

static int on_head(int status, const char *type, void *arg, cay_err *err)
{
    attempt *a = arg;
    bool fine = status / 100 == 2;
    a->stream = fine && !strcmp(type, "text/event-stream");
    a->body.max = fine ? ANSWER_MAX : ERROR_MAX;
    return 0;
}

static int on_data(const char *bytes, size_t n, void *arg, cay_err *err)
{
    attempt *a = arg;
    if (a->stream)
        return cay__sse_feed(&a->sse, bytes, n, err);
    cay__buf_add(&a->body, bytes, n);
    if (a->body.full)
        return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                            "the model's answer is larger than %zu bytes", a->body.max);
    return 0;
}

/* The server's words for people; ours to cut, and never with the key in them. */
static void server_words(const cay__endpoint *e, const cay__buf *body, char *out, size_t cap)
{
    CAY_AUTOJSON *j = CAY_IF(body->len, json_loads(body->data, JSON_DECODE_ANY, NULL));
    const json_t *er = json_object_get(j, "error");
    const char *said;
    if (json_is_string(er))
        said = json_string_value(er);
    else
        said = cay__json_str(er, "message",
                             cay__json_str(j, "message", cay__json_str(j, "detail", "")));
    CAY_AUTOBUF safe = CAY__BUF(4096);
    cay__buf_safe(&safe, said, strnlen(said, 400), false);
    cay__str_copy(out, cap, CAY_TEXT_IF(safe.len, safe.data));
    cay__headers_mask(e, out);
}

static int code_of(int status)
{
    static const struct {
        int status, code;
    } map[] = { { 401, CAY_EAUTH }, { 403, CAY_EAUTH },    { 404, CAY_ENOENT },
                { 429, CAY_ERATE }, { 408, CAY_ETIMEOUT }, { 413, CAY_ETOOBIG } };
    CAY_EACH(row, map)
        if (row->status == status)
            return row->code;
    return status / 100 == 4 ? CAY_EINVAL : CAY_EUPSTREAM;
}

static int status_error(const cay__endpoint *e, const cay__http_reply *r, const cay__buf *body,
                        cay_err *err)
{
    char said[160], id[110] = "";
    server_words(e, body, said, sizeof said);
    if (*r->request_id)
        CAY_FORMAT(id, " (request %.60s)", r->request_id);
    int rc =
        cay_fail_why(err, code_of(r->status), "model_http", "the model's server answered %d%s%s%s",
                     r->status, CAY_TEXT_IF(*said, ": "), said, id);
    if (err) {
        bool again = r->status == 408 || r->status == 409 || r->status == 425 || r->status == 429 ||
                     r->status >= 500;
        err->retry = again ? CAY_RETRY_YES : CAY_RETRY_NO;
        err->retry_after_ms = r->retry_after_ms;
    }
    return rc;
}

static int try_once(cay__endpoint *e, const cay_call *call, attempt *a, cay_err *err)
{
    char url[2048];
    if ((size_t)CAY_FORMAT(url, "%s%s", e->base, a->ask->path) >= sizeof url)
        return cay_fail(err, CAY_ETOOBIG, "the model's address is too long");
    cay__http_req q = { .url = url,
                        .headers = (const char *const *)e->headers,
                        .body = a->ask->body->data,
                        .body_len = a->ask->body->len,
                        .connect_ms = e->connect_ms,
                        .idle_ms = e->idle_ms,
                        .total_ms = e->total_ms,
                        .max_body = 4ull * ANSWER_MAX,
                        .on_head = on_head,
                        .on_data = on_data,
                        .arg = a };
    cay__http_reply r;
    CAY_TRY(cay__http_do(e->http, call, &q, &r, err));
    if (r.status / 100 != 2)
        return status_error(e, &r, &a->body, err);
    if (a->stream)
        return 0;
    CAY_AUTOJSON *j = NULL;
    int rc =
        cay__json_object("the model's answer", CAY_TEXT_IF(a->body.len, a->body.data), &j, err);
    if (rc < 0)
        return cay_fail_why(err, CAY_EUPSTREAM, "model_answer",
                            "the model's server answered with something that is no JSON object");
    a->told = true;
    return a->ask->on_json(j, a->ask->arg, err);
}

typedef struct turn {
    cay__endpoint *e;
    attempt *a;
} turn;

static int on_refusal(int status, const cay__buf *said, void *arg, cay_err *err)
{
    const turn *t = arg;
    return status_error(t->e, &(cay__http_reply){ .status = status }, said, err);
}

/* What would be a status elsewhere is an event here, {"type": "error", "status": 429, …}: before
 * anything else of the answer it counts as one. */
static int on_message(const char *data, size_t len, bool *over, void *arg, cay_err *err)
{
    const turn *t = arg;
    attempt *a = t->a;
    CAY_AUTOJSON *j = NULL;
    if (!a->told && len < ERROR_MAX && strstr(data, "\"error\"") &&
        cay__json_object("it", data, &j, NULL) == 0 &&
        !strcmp(cay__json_str(j, "type", ""), "error")) {
        int64_t status = cay__json_int(j, "status", 0);
        const cay__buf said = { .data = (char *)data, .len = len };
        if (status >= 400 && status < 600)
            return on_refusal((int)status, &said, arg, err);
    }
    CAY_TRY(on_sse("message", data, len, a, err));
    *over = a->ask->done(a->ask->arg);
    return 0;
}

static int try_socket(cay__endpoint *e, const cay_call *call, attempt *a, cay_err *err)
{
    turn t = { e, a };
    const cay__buf *body = a->ask->body;
    CAY_AUTOBUF b = CAY__BUF(body->len + 64);
    cay__buf_str(&b, "{\"type\":\"response.create\",");
    cay__buf_add(&b, body->data + 1, body->len - 1);
    const cay__socket_ask ask = { .path = a->ask->path,
                                  .body = b.data,
                                  .len = b.len,
                                  .on_message = on_message,
                                  .refused = on_refusal,
                                  .arg = &t };
    return cay__socket_try(e, call, &ask, err);
}

static uint64_t wait_for(const cay_err *err, unsigned attempt_no)
{
    uint32_t rnd;
    cay__random(&rnd, sizeof rnd);
    uint64_t ms = CAY_MIN((uint64_t)500 << CAY_MIN(attempt_no, 5u), (uint64_t)8000);
    ms -= ms / 4 * (rnd % 1000) /
          1000; /* so that many who were refused at once do not come back at once */
    if (err->retry_after_ms)
        return CAY_MAX((uint64_t)err->retry_after_ms, ms / 8);
    return ms;
}

static int pause_for(const cay_call *call, uint64_t ms, cay_err *err)
{
    int64_t end = cay__now_ms() + (int64_t)ms;
    struct pollfd p = { .fd = cay__call_cancel(call), .events = POLLIN };
    for (int64_t left; (left = end - cay__now_ms()) > 0;) {
        int bound = cay__call_left(call);
        poll(&p, 1, (int)(bound >= 0 ? CAY_MIN((int64_t)bound, left) : left));
        CAY_TRY(cay__call_check(call, "waiting for the model's server", err));
    }
    return 0;
}

int cay__endpoint_ask(cay__endpoint *e, const cay_call *call, const cay__model_ask *ask,
                      cay_err *err)
{
    if (!e->http && !e->over_socket)
        CAY_TRY(cay__http_open(&e->http, err));
    for (unsigned i = 0;; i++) {
        attempt a = { .ask = ask,
                      .sse = CAY__SSE(EVENT_MAX, on_sse, &a),
                      .body = CAY__BUF(ERROR_MAX) };
        cay_err own = CAY_ERR_INIT;
        int rc;
        if (e->over_socket)
            rc = try_socket(e, call, &a, &own);
        else
            rc = try_once(e, call, &a, &own);
        bool told = a.told;
        cay__sse_end(&a.sse);
        cay__buf_clear(&a.body);
        /* Once a piece was passed on, asking again would say it twice. */
        bool again = rc < 0 && !told && i < e->retries && own.retry == CAY_RETRY_YES &&
                     own.retry_after_ms <= WAIT_MAX && rc != CAY_ECANCELED;
        if (!again)
            return cay__err_pass(rc, &own, err);
        uint64_t ms = wait_for(&own, i);
        json_t *ev = json_pack("{s:s, s:i, s:I, s:s}", "type", "cay.retry", "attempt", (int)i + 1,
                               "wait_ms", (json_int_t)ms, "why", own.msg);
        CAY_TRY(cay__model_tell(ask->req, "cay.retry", ev, err));
        CAY_TRY(pause_for(call, ms, err));
    }
}

int cay__endpoint_post(cay__http *http, const cay_call *call, const cay__http_req *q, int tries,
                       int *status, cay_err *err)
{
    for (int left = tries; left--;) {
        CAY_AUTOBUF answer = CAY__BUF(65536);
        cay__http_reply r = { .status = 0 };
        int rc = cay__http_fetch(http, call, q, &r, &answer, err);
        if (rc < 0 && (!left || rc == CAY_ETIMEOUT))
            return rc;
        *status = r.status;
        if (rc == 0 && (*status < 500 || !left))
            return 0;
    }
    return 0;
}

static void begin_member(cay__body *b, const char *key)
{
    CAY_EACH_OF(it, b->keys, b->n)
        if (!strcmp(*it, key) && !b->twice)
            b->twice = cay__strdup(key);
    if (b->n < CAY_LEN(b->keys))
        b->keys[b->n++] = key;
    cay__buf_str(&b->b, b->b.len ? "," : "{");
    cay__buf_json(&b->b, key, strlen(key));
    cay__buf_str(&b->b, ":");
}

void cay__body_raw(cay__body *b, const char *key, const char *json)
{
    begin_member(b, key);
    cay__buf_str(&b->b, json);
}

void cay__body_json(cay__body *b, const char *key, json_t *value)
{
    CAY_AUTOJSON *own = value;
    CAY_AUTOFREE char *text = cay__json_text(own, b->b.max);
    cay__body_raw(b, key, CAY_OR(text, "null"));
}

void cay__body_str(cay__body *b, const char *key, const char *text)
{
    begin_member(b, key);
    cay__buf_json(&b->b, text, strlen(text));
}

int cay__body_merge(cay__body *b, const char *what, const char *object, json_t **keep, cay_err *err)
{
    if (!object)
        return 0;
    CAY_TRY(cay__json_object(what, object, keep, err));
    CAY_EACH_MEMBER(key, v, *keep) {
        CAY_AUTOFREE char *text = cay__json_text(v, ERROR_MAX);
        cay__body_raw(b, key, CAY_OR(text, "null"));
    }
    return 0;
}

int cay__body_end(cay__body *b, cay_err *err)
{
    cay__buf_str(&b->b, "}");
    if (b->twice)
        return cay_fail_why(err, CAY_EINVAL, "model_settings",
                            "\"%.60s\" of the model's request is given twice", b->twice);
    if (b->b.full)
        return cay_fail(err, CAY_ETOOBIG, "the model's request is larger than %zu bytes", b->b.max);
    return 0;
}

void cay__body_sampling(cay__body *b, const cay_model_settings *s, const char *tokens)
{
    char num[40];
    if (s->has_temperature) {
        CAY_FORMAT(num, "%.6g", s->temperature);
        cay__body_raw(b, "temperature", num);
    }
    if (s->has_top_p) {
        CAY_FORMAT(num, "%.6g", s->top_p);
        cay__body_raw(b, "top_p", num);
    }
    if (s->max_output_tokens)
        cay__body_raw(b, tokens, cay__str_u64(num, s->max_output_tokens));
}

bool cay__model_choice(const char *tool_choice)
{
    static const char *const words[] = { "auto", "required", "none" };
    CAY_EACH(word, words)
        if (!strcmp(tool_choice, *word))
            return true;
    return false;
}

int cay__model_tell(const cay_model_request *q, const char *type, json_t *ev, cay_err *err)
{
    CAY_AUTOJSON *own = ev;
    if (!q->on_event)
        return 0;
    cay__json_put(own, "type", type);
    CAY_AUTOFREE char *text = cay__json_plain(own, ANSWER_MAX);
    if (!text || q->on_event(type, text, q->arg) >= 0)
        return 0;
    return cay_fail_why(err, CAY_ECANCELED, "canceled", "the run was ended");
}
