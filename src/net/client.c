/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"
#include <base/base.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum {
    KEPT = 16,
    KEEP_MS = 20000,
    ROOM = 65536
}; /* a server keeps idle connections longer than that */

struct cay__http_client {
    atomic_int refs;
    cay__origin to;
    char *url, *auth;
    pthread_mutex_t lock;
    struct {
        int fd;
        int64_t since;
    } kept[KEPT];
    size_t nkept;
};

struct cay__answer {
    cay__http_client *c;
    int fd;
    cay__head head;
    cay__chunk chunk;
    uint64_t left;
    bool done, keep;
    size_t at, end;
    char in[ROOM];
};

int cay__http_client_open(const char *url, const char *key, cay__http_client **out, cay_err *err)
{
    cay__origin to;
    CAY_TRY(cay__origin_parse(url, &to, err));
    for (const char *p = CAY_OR(key, ""); *p; p++)
        if (*p <= 0x20 || *p == 0x7f)
            return cay_fail_why(err, CAY_EINVAL, "key_invalid",
                                "the key for %.100s has a blank or control character", url);
    cay__http_client *c = cay__alloc(sizeof *c);
    atomic_init(&c->refs, 1);
    pthread_mutex_init(&c->lock, NULL);
    c->to = to;
    c->url = cay__strdup(url);
    if (key && *key) {
        size_t n = strlen(key) + 32;
        c->auth = cay__alloc(n);
        snprintf(c->auth, n, "Authorization: Bearer %s\r\n", key);
    }
    *out = c;
    return 0;
}

bool cay__http_client_certs(cay__http_client *c, const char *dir)
{
    return CAY_COPY(c->to.certs, dir);
}

cay__http_client *cay__http_client_ref(cay__http_client *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}

void cay__http_client_unref(cay__http_client *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
        return;
    CAY_EACH_OF(it, c->kept, c->nkept)
        close(it->fd);
    pthread_mutex_destroy(&c->lock);
    if (c->auth)
        explicit_bzero(c->auth, strlen(c->auth));
    free(c->auth);
    free(c->url);
    free(c);
}

const char *cay__http_client_url(const cay__http_client *c)
{
    return c->url;
}

/* One that waits and that the server has not closed; or -1. */
static int take_kept(cay__http_client *c)
{
    int fd = -1;
    char byte;
    pthread_mutex_lock(&c->lock);
    while (fd < 0 && c->nkept) {
        fd = c->kept[--c->nkept].fd;
        if (cay__now_ms() - c->kept[c->nkept].since > KEEP_MS ||
            recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN)
            cay__close_fd(&fd);
    }
    pthread_mutex_unlock(&c->lock);
    return fd;
}

static void keep_connection(cay__http_client *c, int fd)
{
    pthread_mutex_lock(&c->lock);
    if (c->nkept < KEPT) {
        c->kept[c->nkept].fd = fd;
        c->kept[c->nkept++].since = cay__now_ms();
        fd = -1;
    }
    pthread_mutex_unlock(&c->lock);
    cay__close_fd(&fd);
}

void cay__answer_end(cay__answer *a)
{
    if (!a)
        return;
    if (a->fd >= 0 && a->done && a->keep && a->at == a->end)
        keep_connection(a->c, CAY_STEAL_FD(a->fd));
    cay__close_fd(&a->fd);
    cay__head_clear(&a->head);
    cay__http_client_unref(a->c);
    free(a);
}

int cay__answer_take(cay__answer *a)
{
    int fd = CAY_STEAL_FD(a->fd);
    cay__answer_end(a);
    return fd;
}

static int fail_cut(const cay__http_client *c, const char *how, cay_err *err)
{
    int rc = cay_fail_why(err, CAY_EUPSTREAM, "net_cut", "%.120s: %s", c->url, how);
    if (err)
        err->retry = CAY_RETRY_YES;
    return rc;
}

/* 1: the peer takes no more; it may have answered why. */
static int send_all(int fd, const cay_call *call, const char *p, size_t n, cay_err *err)
{
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno == EAGAIN)
            CAY_TRY(cay__call_wait(call, fd, POLLOUT, "request", err));
        else if (k < 0 && errno != EINTR)
            return 1;
        else if (k > 0)
            p += k, n -= (size_t)k;
    }
    return 0;
}

static int send_fd(int fd, const cay_call *call, const cay__ask *ask, cay_err *err)
{
    char *buf = cay__alloc(ROOM);
    uint64_t left = ask->len;
    int rc = 0;
    while (left && rc == 0) {
        ssize_t n = read(ask->fd, buf, (size_t)CAY_MIN(left, (uint64_t)ROOM));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n < 0)
                rc = cay_fail_sys(err, "read what is sent");
            else
                rc = cay_fail_why(err, CAY_EINVAL, "body_short",
                                  "what is sent became shorter meanwhile");
        } else
            rc = send_all(fd, call, buf, (size_t)n, err);
        if (n > 0)
            left -= (uint64_t)n;
    }
    free(buf);
    return rc;
}

static int send_ask(cay__http_client *c, int fd, const cay_call *call, const cay__ask *ask,
                    cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(256u << 10);
    bool body = ask->body || ask->from_fd;
    cay__buf_fmt(&b, "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: cay/" CAY_VERSION "\r\n",
                 ask->method, c->to.prefix, ask->target, c->to.authority);
    cay__buf_str(&b, CAY_OR(c->auth, ""));
    if (call && call->trace)
        cay__buf_fmt(&b, "traceparent: %s\r\n", call->trace);
    cay__buf_str(&b, CAY_OR(ask->fields, ""));
    if (body)
        cay__buf_fmt(&b, "Content-Type: %s\r\n", CAY_OR(ask->type, "application/json"));
    if (body || (strcmp(ask->method, "GET") && strcmp(ask->method, "HEAD")))
        cay__buf_fmt(&b, "Content-Length: %zu\r\n", ask->len);
    cay__buf_str(&b, "\r\n");
    if (b.full)
        return cay_fail_why(err, CAY_ETOOBIG, "request_too_big",
                            "the head of a request to %.100s is too long", c->url);
    if (ask->body && ask->len < 16384) /* one packet for what is small */
        cay__buf_add(&b, ask->body, ask->len);
    int rc = send_all(fd, call, b.data, b.len, err);
    if (rc == 0 && ask->body && ask->len >= 16384)
        rc = send_all(fd, call, ask->body, ask->len, err);
    if (rc == 0 && ask->from_fd)
        rc = send_fd(fd, call, ask, err);
    if (rc < 0)
        return rc;
    return 0;
}

/* 1: the connection ended before a byte came. */
static int receive_more(cay__answer *a, const cay_call *call, int flags, cay_err *err)
{
    if (a->at == a->end)
        a->at = a->end = 0;
    for (;;) {
        ssize_t n = recv(a->fd, a->in + a->end, ROOM - a->end, MSG_DONTWAIT | flags);
        if (n < 0 && errno == EAGAIN) {
            CAY_TRY(cay__call_wait(call, a->fd, POLLIN, "answer", err));
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 1;
        a->end += (size_t)n;
        return 0;
    }
}

/* What was only looked at is taken, up to there. */
static int take_seen(cay__answer *a, size_t *taken, size_t upto, cay_err *err)
{
    while (*taken < upto) {
        ssize_t n = recv(a->fd, a->in + *taken, upto - *taken, 0);
        if (n <= 0)
            return fail_cut(a->c, "the connection ended within the answer's head", err);
        *taken += (size_t)n;
    }
    a->end = upto;
    return 0;
}

/* Before another protocol not one byte beyond the head is taken. */
static int read_head(cay__answer *a, const cay_call *call, const cay__ask *ask, cay_err *err)
{
    size_t scanned = 0, taken = 0;
    for (bool need = true;;) {
        int rc = 0;
        if (need)
            rc = receive_more(a, call, ask->upgrade ? MSG_PEEK : 0, err);
        if (rc != 0) {
            if (rc < 0)
                return rc;
            if (a->end)
                return fail_cut(a->c, "the connection ended within the answer's head", err);
            return 1;
        }
        rc = cay__answer_read(a->in, a->end, &scanned, !strcmp(ask->method, "HEAD"), &a->head, err);
        if (rc < 0 || (rc == 0 && a->end == ROOM))
            return cay_fail_why(err, CAY_EUPSTREAM, "net_answer",
                                "%.120s answers with something that is not HTTP", a->c->url);
        if (ask->upgrade)
            CAY_TRY(take_seen(a, &taken, rc > 0 ? (size_t)rc : a->end, err));
        need = rc == 0;
        if (need)
            continue;
        if (a->head.status >= 200 || a->head.status == 101) {
            a->at = (size_t)rc;
            break;
        }
        cay__head_clear(&a->head); /* 1xx: the answer comes after it */
        memmove(a->in, a->in + rc, a->end -= (size_t)rc);
        scanned = taken = 0;
        need = a->end == 0;
    }
    a->left = a->head.length;
    a->keep = a->head.keep_alive;
    a->done = a->head.body == CAY__BODY_NONE || (a->head.body == CAY__BODY_LENGTH && !a->left);
    return 0;
}

static int try_once(cay__http_client *c, int fd, const cay_call *call, const cay__ask *ask,
                    cay__answer **out, cay_err *err)
{
    cay__answer *a = cay__alloc(sizeof *a);
    a->c = cay__http_client_ref(c);
    a->fd = fd;
    int rc = send_ask(c, fd, call, ask, err);
    if (rc == 0)
        rc = read_head(a, call, ask, err);
    if (rc == 0)
        *out = a;
    else
        cay__answer_end(a);
    return rc;
}

int cay__http_client_ask(cay__http_client *c, const cay_call *call, const cay__ask *ask,
                         cay__answer **out, cay_err *err)
{
    int fd = ask->upgrade ? -1 : take_kept(c), rc;
    if (fd >= 0) {
        rc = try_once(c, fd, call, ask, out, err);
        /* The server closed it while we were writing: of a request without effects another try is
         * none. */
        if (rc <= 0 || strcmp(ask->method, "GET")) {
            if (rc <= 0)
                return rc;
            return fail_cut(c, "the connection ended before the answer", err);
        }
    }
    CAY_TRY(cay__dial(&c->to, call, &fd, err));
    rc = try_once(c, fd, call, ask, out, err);
    if (rc <= 0)
        return rc;
    return fail_cut(c, "the connection ended before the answer", err);
}

const cay__head *cay__answer_head(const cay__answer *a)
{
    return &a->head;
}

int cay__answer_fd(const cay__answer *a)
{
    return a->fd;
}

bool cay__answer_has(const cay__answer *a)
{
    return a->done || a->at < a->end;
}

/* What is here, decoded; *n 0: more is needed, or it is done. */
static int decode_body(cay__answer *a, char *buf, size_t cap, size_t *n, cay_err *err)
{
    size_t have = a->end - a->at, used = 0;
    const char *data = a->in + a->at;
    if (a->head.body == CAY__BODY_CHUNKED) {
        if (cay__chunk_read(&a->chunk, data, have, cap, &used, &data, n, err) < 0)
            return cay_fail_why(err, CAY_EUPSTREAM, "net_answer",
                                "%.120s: the answer's chunks cannot be read", a->c->url);
        if (*n)
            memcpy(buf, data, *n);
        a->done = a->chunk.done;
    } else {
        used = *n = CAY_MIN(CAY_MIN(have, cap), a->head.body == CAY__BODY_LENGTH
                                                    ? (size_t)CAY_MIN(a->left, (uint64_t)SIZE_MAX)
                                                    : have);
        memcpy(buf, data, used);
        if (a->head.body == CAY__BODY_LENGTH)
            a->left -= used;
        a->done = a->head.body == CAY__BODY_LENGTH && !a->left;
    }
    a->at += used;
    return 0;
}

int cay__answer_bytes(cay__answer *a, const cay_call *call, void *buf, size_t cap, size_t *n,
                      cay_err *err)
{
    *n = 0;
    while (!a->done) {
        if (a->at < a->end)
            CAY_TRY(decode_body(a, buf, cap, n, err));
        if (*n || a->done)
            return 0;
        int rc = receive_more(a, call, 0, err);
        if (rc < 0)
            return rc;
        if (rc > 0 && a->head.body != CAY__BODY_TO_END)
            return fail_cut(a->c, "the connection ended within the answer", err);
        if (rc > 0)
            a->done = true, a->keep = false;
    }
    return 0;
}
