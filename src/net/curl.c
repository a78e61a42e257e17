/* SPDX-License-Identifier: Apache-2.0 */
/* libcay-net.so: requests by libcurl. With curl_dial.c the one place that includes it. */
#include "http.h"
#include <base/base.h>
#include <base/mutant.h>
#include <base/path.h>
#include <ctype.h>
#include <curl/curl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <strings.h>

typedef struct client {
    CURLM *multi;
    CURL *easy;
} client;

/* One request on its way. */
typedef struct trip {
    const cay__http_req *req;
    cay__http_reply *reply;
    CURL *easy;
    uint64_t got, max;
    int64_t last_ms; /* when a byte came */
    bool head;       /* on_head was called */
    int rc;          /* what a callback failed with */
    cay_err *err;
} trip;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode global;
static void init_curl(void)
{
    global = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void client_close(void *self)
{
    client *c = self;
    if (c->easy)
        curl_easy_cleanup(c->easy);
    if (c->multi)
        curl_multi_cleanup(c->multi);
    free(c);
}

static int client_open(void **out, cay_err *err)
{
    pthread_once(&once, init_curl);
    client *c = cay__alloc(sizeof *c);
    if (global == CURLE_OK)
        c->multi = curl_multi_init(), c->easy = curl_easy_init();
    if (!c->multi || !c->easy) {
        client_close(c);
        return cay_fail(err, CAY_ESYS, "libcurl cannot be started: %s", curl_easy_strerror(global));
    }
    *out = c;
    return 0;
}

static void copy_value(char *dst, size_t cap, const char *s, size_t n)
{
    n = CAY_MIN(n, cap - 1);
    memcpy(dst, s, n);
    dst[n] = 0;
}

static void take_retry(cay__http_reply *r, const char *value, size_t n, double unit)
{
    char text[40];
    copy_value(text, sizeof text, value, n);
    char *end;
    double v = strtod(text, &end); /* a date instead of seconds is not used: clocks differ */
    if (end != text && v > 0 && v * unit < 86400e3)
        r->retry_after_ms = (uint32_t)(v * unit);
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    trip *t = arg;
    n *= size;
    if (n > 5 &&
        !strncmp(line, "HTTP/", 5)) { /* a new head: after 100 Continue, or a proxy's answer */
        memset(t->reply, 0, sizeof *t->reply);
        return n;
    }
    const char *colon = memchr(line, ':', n);
    if (!colon)
        return n;
    size_t key = (size_t)(colon - line), len = n - key - 1;
    const char *v = colon + 1;
    while (len && isspace((unsigned char)*v))
        v++, len--;
    while (len && isspace((unsigned char)v[len - 1]))
        len--;
    if (t->req->on_header)
        t->req->on_header(line, key, v, len, t->req->arg);
#define IS(name) (key == sizeof name - 1 && !strncasecmp(line, name, key))
    if (IS("content-type")) {
        const char *semi = memchr(v, ';', len);
        copy_value(t->reply->type, sizeof t->reply->type, v, semi ? (size_t)(semi - v) : len);
        for (char *c = t->reply->type; *c; c++)
            *c = (char)tolower((unsigned char)*c);
    } else if (IS("x-request-id")) {
        copy_value(t->reply->request_id, sizeof t->reply->request_id, v, len);
    } else if (IS("mcp-session-id")) {
        copy_value(t->reply->session, sizeof t->reply->session, v, len);
    } else if (IS("retry-after-ms")) {
        take_retry(t->reply, v, len, 1);
    } else if (IS("retry-after") && !t->reply->retry_after_ms) {
        take_retry(t->reply, v, len, 1000);
    }
#undef IS
    return n;
}

static int begin_body(trip *t)
{
    long status = 0;
    if (t->head)
        return 0;
    t->head = true;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    t->reply->status = (int)status;
    if (t->req->on_head)
        return t->req->on_head((int)status, t->reply->type, t->req->arg, t->err);
    return 0;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    trip *t = arg;
    n *= size;
    t->last_ms = cay__now_ms();
    t->rc = begin_body(t);
    if (!t->rc && t->got + n > t->max)
        t->rc = cay_fail_why(t->err, CAY_ETOOBIG, "answer_too_big",
                             "the answer is larger than %llu bytes", (unsigned long long)t->max);
    t->got += n;
    if (!t->rc && t->req->on_data)
        t->rc = t->req->on_data(bytes, n, t->req->arg, t->err);
    if (t->rc)
        return CURL_WRITEFUNC_ERROR;
    return n;
}

static const struct {
    CURLcode code;
    int ours;
    const char *reason;
    bool again;
} faults[] = {
    { CURLE_OPERATION_TIMEDOUT, CAY_ETIMEOUT, "net_timeout", true },
    { CURLE_COULDNT_RESOLVE_HOST, CAY_EUPSTREAM, "net_unreachable", true },
    { CURLE_COULDNT_RESOLVE_PROXY, CAY_EUPSTREAM, "net_unreachable", true },
    { CURLE_COULDNT_CONNECT, CAY_EUPSTREAM, "net_unreachable", true },
    { CURLE_PEER_FAILED_VERIFICATION, CAY_EUPSTREAM, "net_tls", false },
    { CURLE_SSL_CONNECT_ERROR, CAY_EUPSTREAM, "net_tls", false },
    { CURLE_URL_MALFORMAT, CAY_EINVAL, "url_invalid", false },
    { CURLE_UNSUPPORTED_PROTOCOL, CAY_EINVAL, "url_invalid", false },
};

static int fail_transfer(const trip *t, CURLcode code, const char *said)
{
    if (t->rc)
        return t->rc;
    int ours = CAY_EUPSTREAM;
    const char *reason = "net_cut", *url = t->req->url;
    bool again = true;
    CAY_EACH(fault, faults)
        if (fault->code == code)
            ours = fault->ours, reason = fault->reason, again = fault->again;
    int rc = cay_fail_why(t->err, ours, reason, "%.*s: %.140s",
                          (int)CAY_MIN(strcspn(url, "?#"), (size_t)80), url,
                          *said ? said : curl_easy_strerror(code));
    if (t->err) {
        if (again)
            t->err->retry = CAY_RETRY_YES;
        else
            t->err->retry = CAY_RETRY_NO;
    }
    return rc;
}

/* The address is judged that is connected to, so a name that resolves to another one the second
 * time gains nothing. */
static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
    const trip *t = arg;
    uint8_t addr[16] = { [10] = 0xff, [11] = 0xff };
    if (a->family == AF_INET)
        memcpy(addr + 12, &((const struct sockaddr_in *)&a->addr)->sin_addr, 4);
    else if (a->family == AF_INET6)
        memcpy(addr, &((const struct sockaddr_in6 *)&a->addr)->sin6_addr, 16);
    if ((a->family != AF_INET && a->family != AF_INET6) || !t->req->may(addr, t->req->arg)) {
        errno = EACCES;
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static void set_up(CURL *e, trip *t, struct curl_slist *headers, char *said)
{
    const cay__http_req *q = t->req;
    const char *roots = cay__trust_roots(NULL);
    curl_easy_reset(e); /* connections stay */
    curl_easy_setopt(e, CURLOPT_URL, q->url);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    /* Where a server points is another one, and what is sent, with its keys, is not for that. */
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, CAY__MUTANT("model-redirect") ? 1L : 0L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, said);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "cay/" CAY_VERSION);
    if (roots)
        curl_easy_setopt(e, CURLOPT_CAINFO, roots);
    if (!q->raw)
        curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "");
    if (q->may) {
        curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
        curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
        curl_easy_setopt(e, CURLOPT_PROXY, "");
    }
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)(CAY_OR(q->connect_ms, 30000)));
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    if (q->body) {
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, q->body);
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_len);
    }
    if (q->method)
        curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, q->method);
}

/* Curl's own low-speed limit counts whole seconds and averages; a stream that trickles is not idle.
 */
static int wait_step(client *c, trip *t, const cay_call *call, int64_t end_ms)
{
    uint64_t idle = CAY_OR(t->req->idle_ms, 600000);
    int64_t now = cay__now_ms(), wake = CAY_MIN(t->last_ms + (int64_t)idle, end_ms);
    int left = cay__call_left(call), ms = (int)CAY_MIN(CAY_MAX(wake - now, 0), (int64_t)INT_MAX);
    CAY_TRY(cay__call_check(call, "request", t->err));
    if (now >= wake) {
        int rc =
            cay_fail_why(t->err, CAY_ETIMEOUT, "net_timeout", "%.*s: %s",
                         (int)CAY_MIN(strcspn(t->req->url, "?#"), (size_t)80), t->req->url,
                         now >= end_ms ? "the answer took too long" : "no byte came for too long");
        if (t->err)
            t->err->retry = CAY_RETRY_YES;
        return rc;
    }
    struct curl_waitfd cancel = { .fd = cay__call_cancel(call), .events = CURL_WAIT_POLLIN };
    curl_multi_poll(c->multi, &cancel, cancel.fd >= 0, left >= 0 ? CAY_MIN(left, ms) : ms, NULL);
    return 0;
}

static int run_transfer(client *c, trip *t, const cay_call *call, const char *said)
{
    int64_t end = INT64_MAX;
    if (t->req->total_ms)
        end = cay__now_ms() + (int64_t)t->req->total_ms;
    for (;;) {
        int running = 0, left;
        CURLMcode m = curl_multi_perform(c->multi, &running);
        if (m != CURLM_OK)
            return cay_fail(t->err, CAY_ESYS, "libcurl: %s", curl_multi_strerror(m));
        CURLMsg *msg = curl_multi_info_read(c->multi, &left);
        if (msg && msg->msg == CURLMSG_DONE) {
            if (msg->data.result == CURLE_OK)
                return begin_body(t);
            return fail_transfer(t, msg->data.result, said);
        }
        CAY_TRY(wait_step(c, t, call, end));
    }
}

static int perform_request(void *self, const cay_call *call, const cay__http_req *req,
                           cay__http_reply *reply, cay_err *err)
{
    client *c = self;
    trip t = { .req = req,
               .reply = reply,
               .easy = c->easy,
               .max = CAY_OR(req->max_body, 64u << 20),
               .last_ms = cay__now_ms(),
               .err = err };
    char said[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers =
        curl_slist_append(NULL, "Expect:"); /* no round trip before the body */
    for (size_t i = 0; req->headers && req->headers[i]; i++)
        headers = curl_slist_append(headers, req->headers[i]);
    set_up(c->easy, &t, headers, said);
    int rc;
    if (curl_multi_add_handle(c->multi, c->easy) == CURLM_OK)
        rc = run_transfer(c, &t, call, said);
    else
        rc = cay_fail(err, CAY_ESYS, "libcurl takes no request");
    curl_multi_remove_handle(c->multi, c->easy);
    curl_easy_reset(c->easy); /* its pointers to our stack go */
    curl_slist_free_all(headers);
    return rc;
}

int cay__curl_dial(const char *url, const char *certs, const cay_call *call, int *fd,
                   cay_err *err); /* curl_dial.c */
static int dial_url(const char *url, const char *certs, const cay_call *call, int *fd, cay_err *err)
{
    pthread_once(&once, init_curl);
    return cay__curl_dial(url, certs, call, fd, err);
}

CAY_API const cay__net_ops cay__net_module;
const cay__net_ops cay__net_module = { .size = sizeof cay__net_module,
                                       .open = client_open,
                                       .close = client_close,
                                       .perform = perform_request,
                                       .dial = dial_url };
