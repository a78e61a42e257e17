/* SPDX-License-Identifier: Apache-2.0 */
/* A request to a server, and what it answers: a problem document becomes our error again. */
#include "remote.h"

#define ANSWER_MAX (256u << 20) /* a listing may be long */
enum { PAGE = 1000 };

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

static int parse_failure(const cay__remote *r, int status, const char *text, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    CAY_AUTOJSON *o = NULL;
    cay__problem p = { 0 };
    if (!text || cay__json_object("answer", text, &o, NULL) < 0)
        o = json_object();
    cay__shape_read(&mem, o, &cay__problem_shape, CAY__F_OUT, &p, NULL);
    int code = code_of(p.code);
    CAY_EACH(it, statuses)
        if (!code && it->status == status)
            code = it->code;
    const char *said = cay__text_or(p.detail, p.title);
    if (!code || !*said)
        return cay_fail_why(err, CAY_OR(code, CAY_EUPSTREAM), cay__text_or(p.reason, "net_answer"),
                            "%.120s answered with status %d", cay__remote_url(r), status);
    cay_fail(err, code, "%.250s", said);
    if (!err)
        return code;
    err->retry = CAY_RETRY_UNKNOWN;
    if (!strcmp(p.retry, "yes"))
        err->retry = CAY_RETRY_YES;
    else if (!strcmp(p.retry, "no"))
        err->retry = CAY_RETRY_NO;
    CAY_COPY(err->reason, p.reason);
    err->sys = p.sys;
    err->retry_after_ms = p.retry_after_ms;
    if (!CAY_COPY(err->detail, p.info))
        err->detail[0] = 0;
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

/* An answer of 2xx or 101; any other is an error, in the server's own words. */
static int ask_server(const cay__remote *r, const cay_call *call, const cay__ask *ask,
                      cay__answer **out, cay_err *err)
{
    CAY_AUTOPTR(cay__answer) a = NULL;
    if (!r->client)
        return cay__remote_no_host(err);
    CAY_TRY(cay__http_client_ask(r->client, call, ask, &a, err));
    int status = cay__answer_head(a)->status;
    if ((status >= 200 && status < 300) || (ask->upgrade && status == 101)) {
        *out = CAY_STEAL(a);
        return 0;
    }
    CAY_AUTOBUF text = CAY__BUF(1u << 20);
    const char *said = NULL;
    if (read_all(a, call, &text, NULL) == 0)
        said = text.data;
    return parse_failure(r, status, said, err);
}

static int put_body(cay__buf *b, const cay__request *q, cay_err *err)
{
    const unsigned view = CAY__F_IN | CAY__F_ADMIN | CAY__F_SECRET;
    if (q->body && !cay__shape_utf8(q->op->body, q->body))
        return cay_fail_why(err, CAY_EINVAL, "not_utf8", "a server takes UTF-8 alone");
    if (q->body)
        cay__shape_put(b, q->op->body, view, q->body);
    else if (q->text)
        cay__buf_str(b, q->text);
    if (b->full)
        return cay_fail_why(err, CAY_ETOOBIG, "request_too_big", "the request is too long");
    return 0;
}

/* Who asks again because the answer was lost makes nothing twice. What streams says so itself. */
static void put_key(cay__buf *head, const cay__request *q)
{
    char fresh[CAY_ID_LEN + 1];
    bool makes = (q->op->flags & (CAY__OP_CREATE | CAY__OP_STREAM)) == CAY__OP_CREATE;
    if (!q->key && !makes)
        return;
    cay__id_make(fresh, 'j');
    cay__buf_fmt(head, "Idempotency-Key: %s\r\n", CAY_OR(q->key, fresh));
}

int cay__remote_stream(const cay__remote *r, const cay_call *call, const cay__request *q,
                       cay__answer **out, cay_err *err)
{
    CAY_AUTOBUF target = CAY__BUF(64u << 10), body = CAY__BUF(64u << 20), head = CAY__BUF(4096);
    const char *path[CAY_LEN(q->path)];
    for (size_t i = 0; i < CAY_LEN(path); i++)
        path[i] = CAY_OR(q->path[i], "");
    cay__buf_str(&target, CAY__REMOTE_API);
    cay__operation_target(&target, q->op, path, q->query);
    cay__buf_str(&target, CAY_OR(q->tail, ""));
    cay__buf_str(&head, CAY_OR(q->more, ""));
    put_key(&head, q);
    CAY_TRY(put_body(&body, q, err));
    if (target.full)
        return cay_fail_why(err, CAY_ETOOBIG, "request_too_big", "the request is too long");
    cay__ask ask = { .method = q->op->method,
                     .target = target.data,
                     .fields = head.data,
                     .type = CAY_OR(q->type, q->op->body_type),
                     .body = CAY_OR(q->data, body.data),
                     .len = CAY_OR(q->len, body.len),
                     .fd = q->fd,
                     .from_fd = q->from_fd,
                     .upgrade = q->upgrade };
    int rc = ask_server(r, call, &ask, out, err);
    if (body.data)
        explicit_bzero(body.data, body.len); /* it may have had a secret */
    return rc;
}

int cay__remote_json(const cay__remote *r, const cay_call *call, const cay__request *q,
                     json_t **out, cay_err *err)
{
    CAY_AUTOPTR(cay__answer) a = NULL;
    CAY_AUTOBUF text = CAY__BUF(ANSWER_MAX);
    CAY_TRY(cay__remote_stream(r, call, q, &a, err));
    CAY_TRY(read_all(a, call, &text, err));
    if (!out || cay__json_object("answer", CAY_OR(text.data, ""), out, err) == 0)
        return 0;
    return cay_fail_why(err, CAY_EUPSTREAM, "net_answer",
                        "%.120s answers with something that is not JSON", cay__remote_url(r));
}

int cay__remote_do(const cay__remote *r, const cay_call *call, const cay__request *q, cay_err *err)
{
    return cay__remote_json(r, call, q, NULL, err);
}

static const cay__shape *shape_of(const cay__operation *op)
{
    const cay__op_answer *a = op->answers;
    while (!a->shape && a[1].status)
        a++;
    return a->shape;
}

int cay__remote_get(const cay__remote *r, const cay_call *call, const cay__request *q,
                    cay__arena *mem, void *out, cay_err *err)
{
    CAY__AUTOARENA own = { 0 };
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__remote_json(r, call, q, &o, err));
    return cay__shape_read(CAY_OR(mem, &own), o, shape_of(q->op), CAY__F_OUT, out, err);
}

/* Where a member of the query is in this page's copy of it. */
static void *find_member(const cay__listing *l, const char *name)
{
    const cay__shape *s = l->q.op->query;
    for (size_t i = 0; s && l->query && i < s->n; i++)
        if (!strcmp(s->fields[i].name, name))
            return (char *)l->query + s->fields[i].at;
    return NULL;
}

static int fetch_page(cay__listing *l, cay_err *err)
{
    cay__request q = l->q;
    if (!l->query && q.query) {
        l->query = cay__alloc(q.op->query->size);
        memcpy(l->query, q.query, q.op->query->size);
    }
    const char **after = find_member(l, "after");
    size_t *limit = find_member(l, "limit");
    if (after && limit && !l->answer)
        l->most = *limit;
    if (after && limit)
        *limit = CAY_MIN(CAY_OR(l->most - l->told, (size_t)PAGE), (size_t)PAGE);
    if (after && l->answer)
        *after = l->after;
    q.query = l->query;
    json_decref(l->answer);
    l->answer = NULL;
    l->at = 0;
    CAY_TRY(cay__remote_json(l->remote, l->call, &q, &l->answer, err));
    const char *next = cay__json_str(l->answer, "next", "");
    if (!after || !CAY_COPY(l->after, next))
        l->after[0] = 0;
    return 0;
}

int cay__listing_next(cay__listing *l, void *item, cay_err *err)
{
    const cay__shape *s = shape_of(l->q.op);
    for (;;) {
        const json_t *o = json_array_get(json_object_get(l->answer, "items"), l->at);
        if (l->answer && ((l->most && l->told == l->most) || (!o && !l->after[0])))
            return 0;
        if (!o) {
            CAY_TRY(fetch_page(l, err));
            continue;
        }
        l->at++;
        l->told++;
        cay__arena_clear(&l->mem);
        memset(item, 0, s->size);
        CAY_TRY(cay__shape_read(&l->mem, o, s, CAY__F_OUT, item, err));
        return 1;
    }
}

void cay__listing_end(cay__listing *l)
{
    cay__arena_clear(&l->mem);
    json_decref(l->answer);
    free(l->query);
}
