/* SPDX-License-Identifier: Apache-2.0 */
/* What a request says: its query and its body. */
#include "connection.h"
#include <base/base.h>
#include <base/mutant.h>
#include <inttypes.h>
#include <poll.h>
#include <strings.h>

enum { JSON_MOST = 8 << 20, JSON_DEPTH = 64, JSON_VALUES = 200000, PIECE = 65536, LEAST = 512 };

int cay__req_texts(cay__req *r, const char *what, const char *first, const json_t *list,
                   const char *const **out, cay_err *err)
{
    const json_t *v;
    size_t n = 0, i;
    const char **texts = cay__arena_take(&r->arena, (json_array_size(list) + 2) * sizeof *texts);
    if (first)
        texts[n++] = first;
    json_array_foreach(list, i, v)
        if (!(texts[n++] = cay__json_cstr(v)))
            return cay_fail(err, CAY_EINVAL, "%s[%zu] is not a text without NUL", what, i);
    *out = texts;
    return 0;
}

int cay__req_pairs(cay__req *r, const char *what, const cay_pair *first, const json_t *object,
                   const cay_pair **out, cay_err *err)
{
    const char *key;
    json_t *v;
    size_t n = 0;
    while (first && first[n].key)
        n++;
    cay_pair *pairs =
        cay__arena_take(&r->arena, (n + json_object_size(object) + 1) * sizeof *pairs);
    if (n)
        memcpy(pairs, first, n * sizeof *pairs);
    json_object_foreach((json_t *)object, key, v) {
        pairs[n++] = (cay_pair){ key, cay__json_cstr(v) };
        if (!cay__json_cstr(v))
            return cay_fail(err, CAY_EINVAL, "%s.%.60s is not a text without NUL", what, key);
    }
    *out = pairs;
    return 0;
}

char *cay__req_text(cay__req *r, const char *fmt, ...)
{
    va_list ap;
    char *s;
    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0)
        abort();
    va_end(ap);
    return cay__arena_adopt(&r->arena, s);
}

const char *cay__req_query(cay__req *r, const char *name)
{
    size_t want = strlen(name);
    for (const char *p = r->head.query; *p;) {
        size_t n = strcspn(p, "&"), key = strcspn(p, "=&");
        char *word = cay__arena_take(&r->arena, n + 1);
        if (cay__url_decode(p, key, true, word) && strlen(word) == want &&
            !memcmp(word, name, want)) {
            if (key >= n)
                return "";
            if (cay__url_decode(p + key + 1, n - key - 1, true, word))
                return word;
            return NULL;
        }
        p += n + (p[n] == '&');
    }
    return NULL;
}

bool cay__req_flag(cay__req *r, const char *name)
{
    const char *v = cay__req_query(r, name);
    return v && (!*v || !strcmp(v, "1") || !strcasecmp(v, "true") || !strcasecmp(v, "yes"));
}

int cay__req_number(cay__req *r, const char *name, uint64_t none, uint64_t max, uint64_t *out,
                    cay_err *err)
{
    const char *v = cay__req_query(r, name);
    uint64_t n = none;
    if (v && (!cay__str_to_u64(v, &n) || n > max))
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?%s=%.40s: want a number up to %" PRIu64,
                            name, v, max);
    *out = n;
    return 0;
}

/* Bytes of the connection that are here already. */
static size_t at_hand(const cay__conn *c, const char **data)
{
    if (c->in.data)
        *data = c->in.data + c->in_at;
    else
        *data = "";
    return c->in.len - c->in_at;
}

static int say_continue(cay__req *r, cay_err *err)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    cay__reply_state *a = r->reply;
    if (!r->head.expect_continue || a->continued)
        return 0;
    a->continued = true;
    if (cay__io_write(r->conn, line, sizeof line - 1) != (ssize_t)sizeof line - 1)
        return cay_fail_why(err, CAY_ECANCELED, "peer_gone", "the peer went away");
    return 0;
}

/* Less than LEAST bytes a second, over as long as silence is borne, is a client that holds a worker
 * and hardly sends. */
static int fast_enough(cay__req *r, cay_err *err)
{
    cay__reply_state *a = r->reply;
    int64_t now = cay__now_ms(), span = r->server->conf.body_ms;
    if (a->window_ms && now - a->window_ms < span)
        return 0;
    if (a->window_ms && a->window_bytes < (uint64_t)span * LEAST / 1000)
        return cay_fail_why(err, CAY_ETIMEOUT, "body_too_slow",
                            "%" PRIu64
                            " bytes of the body came in %d s, and %d a second are the least",
                            a->window_bytes, (int)(span / 1000), LEAST);
    a->window_ms = now;
    a->window_bytes = 0;
    return 0;
}

/* Waits for more of the body. */
static int wait_more(cay__req *r, cay_err *err)
{
    struct pollfd p[2] = { { .fd = r->conn->w.fd, .events = POLLIN },
                           { .fd = cay__call_cancel(&r->call), .events = POLLIN } };
    int left = cay__call_left(&r->call), idle = (int)r->server->conf.body_ms,
        ms = left < 0 ? idle : CAY_MIN(left, idle);
    CAY_TRY(say_continue(r, err));
    CAY_TRY(fast_enough(r, err));
    int n = poll(p, 2, ms);
    if (n == 0)
        return cay_fail_why(err, CAY_ETIMEOUT, "body_too_slow", "no more of the body came for %d s",
                            ms / 1000);
    if (n > 0 && !p[0].revents)
        return cay_fail_why(err, CAY_ECANCELED, "peer_gone", "the peer went away");
    return 0;
}

/* Bytes as they are on the wire, at most cap of them. */
static int read_wire(cay__req *r, char *buf, size_t cap, size_t *n, cay_err *err)
{
    cay__conn *c = r->conn;
    for (;;) {
        ssize_t got = cay__io_read(c, buf, cap);
        if (got > 0) {
            *n = (size_t)got;
            r->reply->window_bytes += (uint64_t)got;
            return 0;
        }
        if (got != -1) {
            c->keep = false;
            return cay_fail_why(err, CAY_ECANCELED, "peer_gone",
                                "the peer went away before the end of its body");
        }
        CAY_TRY(wait_more(r, err));
    }
}

static int read_length(cay__req *r, char *buf, size_t cap, size_t *n, cay_err *err)
{
    cay__conn *c = r->conn;
    cay__reply_state *a = r->reply;
    const char *data;
    size_t have = at_hand(c, &data), want = (size_t)CAY_MIN((uint64_t)cap, a->body_left);
    if (have) {
        *n = CAY_MIN(have, want);
        memcpy(buf, data, *n);
        c->in_at += *n;
    } else {
        CAY_TRY(read_wire(r, buf, want, n, err));
    }
    a->body_left -= *n;
    a->body_done = !a->body_left;
    return 0;
}

static int read_chunked(cay__req *r, char *buf, size_t cap, size_t *n, cay_err *err)
{
    cay__conn *c = r->conn;
    cay__reply_state *a = r->reply;
    for (;;) {
        const char *data, *piece;
        size_t have = at_hand(c, &data), used, len;
        int rc = cay__chunk_read(&a->chunk, data, have, cap, &used, &piece, &len, err);
        if (rc < 0) {
            c->keep = false;
            return rc;
        }
        if (len)
            memcpy(buf, piece, len);
        c->in_at += used;
        a->body_done = a->chunk.done;
        *n = len;
        if (len || a->chunk.done)
            return 0;
        c->in_at = c->in.len = 0;
        char *room = cay__buf_room(&c->in, PIECE / 2);
        size_t got = 0;
        if (!room)
            return cay_fail(err, CAY_ETOOBIG, "the body");
        CAY_TRY(read_wire(r, room, PIECE / 2, &got, err));
        cay__buf_used(&c->in, got);
    }
}

int cay__req_read(cay__req *r, void *buf, size_t cap, size_t *n, cay_err *err)
{
    cay__reply_state *a = r->reply;
    *n = 0;
    if (r->head.body == CAY__BODY_LENGTH && !a->body_left && !a->body_done)
        a->body_left = r->head.length;
    if (r->head.body == CAY__BODY_NONE || a->body_done || !cap)
        return 0;
    if (r->head.body == CAY__BODY_LENGTH)
        return read_length(r, buf, cap, n, err);
    return read_chunked(r, buf, cap, n, err);
}

int cay__req_to_fd(cay__req *r, int fd, uint64_t max, uint64_t *n, cay_err *err)
{
    CAY_AUTOFREE char *buf = cay__alloc(PIECE);
    uint64_t all = 0;
    if (r->head.body == CAY__BODY_LENGTH && r->head.length > max)
        return cay_fail_why(err, CAY_ETOOBIG, "body_too_big",
                            "the body has %" PRIu64 " bytes, at most %" PRIu64 " are taken",
                            r->head.length, max);
    for (;;) {
        size_t got;
        CAY_TRY(cay__req_read(r, buf, PIECE, &got, err));
        if (!got)
            break;
        if ((all += got) > max)
            return cay_fail_why(err, CAY_ETOOBIG, "body_too_big",
                                "the body has more than %" PRIu64 " bytes", max);
        if (!cay__fd_write_all(fd, buf, got))
            return cay_fail_sys(err, "write the body");
    }
    if (n)
        *n = all;
    return 0;
}

bool cay__body_settle(cay__req *r)
{
    cay__conn *c = r->conn;
    cay__reply_state *a = r->reply;
    const char *data, *piece;
    size_t used, len, have;
    if (r->head.body == CAY__BODY_NONE || a->body_done)
        return true;
    if (r->head.expect_continue && !a->continued)
        return false; /* nobody knows whether it will come */
    if (r->head.body == CAY__BODY_LENGTH) {
        uint64_t left = CAY_OR(a->body_left, r->head.length);
        if (left > CAY__SKIP)
            return false;
        have = (size_t)CAY_MIN((uint64_t)at_hand(c, &data), left);
        c->in_at += have;
        c->skip = left - have;
        a->body_done = true;
        return true;
    }
    for (;;) { /* chunks: only when all of them are here */
        have = at_hand(c, &data);
        if (cay__chunk_read(&a->chunk, data, have, have, &used, &piece, &len, NULL) < 0)
            return false;
        c->in_at += used;
        if (a->chunk.done || !len)
            return a->chunk.done;
    }
}

/* Deep nesting and millions of tiny values cost the reader far more than their bytes: both are
 * counted before any is made. */
static int check_complexity(const char *s, size_t n, cay_err *err)
{
    size_t depth = 0, values = 1;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                quoted = false;
            continue;
        }
        if (s[i] == '"')
            quoted = true;
        else if (s[i] == '[' || s[i] == '{')
            depth++, values++;
        else if ((s[i] == ']' || s[i] == '}') && depth)
            depth--;
        else if (s[i] == ',')
            values++;
        if (depth > JSON_DEPTH && !CAY__MUTANT("json-depth"))
            return cay_fail_why(err, CAY_EINVAL, "json_too_deep", "the body nests deeper than %d",
                                JSON_DEPTH);
        if (values > JSON_VALUES)
            return cay_fail_why(err, CAY_ETOOBIG, "json_too_big",
                                "the body has more than %d values", JSON_VALUES);
    }
    return 0;
}

static int read_all(cay__req *r, size_t max, cay__buf *b, cay_err *err)
{
    uint64_t told = 0;
    if (r->head.body == CAY__BODY_LENGTH)
        told = r->head.length;
    b->max = max;
    for (;;) {
        size_t room = told ? (size_t)CAY_MIN(told - b->len, (uint64_t)PIECE * 4) : PIECE, got;
        if ((told > max && !CAY__MUTANT("body-bound")) || (room && !cay__buf_room(b, 1)))
            return cay_fail_why(err, CAY_ETOOBIG, "body_too_big",
                                "the body has more than %zu bytes", max);
        room = CAY_MIN(CAY_MAX(room, 1), max - b->len);
        CAY_TRY(cay__req_read(r, cay__buf_room(b, room), room, &got, err));
        if (!got)
            return 0;
        cay__buf_used(b, got);
    }
}

/* "application/json", "application/anything+json", with or without parameters. */
static bool is_json(const char *type)
{
    size_t n = 0;
    if (type)
        n = strcspn(type, "; \t");
    return (n == 16 && !strncasecmp(type, "application/json", n)) ||
           (n > 5 && !strncasecmp(type + n - 5, "+json", 5));
}

static void drop_json(void *j)
{
    json_decref(j);
}

json_t *cay__req_keep(cay__req *r, json_t *j)
{
    if (j)
        cay__req_defer(r, drop_json, j);
    return j;
}

int cay__req_json(cay__req *r, size_t max, json_t **out, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(0);
    json_t *j = NULL;
    CAY_TRY(read_all(r, CAY_OR(max, JSON_MOST), &b, err));
    CAY_TRY(cay__once_begin(r, CAY_OR(b.data, ""), b.len, err));
    if (b.len && !is_json(cay__head_field(&r->head, "content-type")))
        return cay_fail_why(err, CAY_EINVAL, "content_type",
                            "a body needs Content-Type: application/json");
    if (b.len && strlen(b.data) != b.len)
        return cay_fail(err, CAY_EINVAL, "the body is not sound JSON: it has a zero byte");
    if (b.len) {
        CAY_TRY(check_complexity(b.data, b.len, err));
        CAY_TRY(cay__json_object("the body", b.data, &j, err));
    } else {
        j = json_object();
    }
    *out = cay__req_keep(r, j);
    return 0;
}
