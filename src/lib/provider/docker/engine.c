/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"
#include <net/client.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { API_LEAST = 41, ANSWER_MAX = 64 << 20, LINE_MAX_BYTES = 1 << 20 };

struct cay__engine {
    cay__http_client *client;
    cay__engine_where where;
    pthread_mutex_t lock;
    bool met;
    cay__engine_info info;
};

int cay__engine_open(const char *url, cay__engine **out, cay_err *err)
{
    cay__engine_where w;
    CAY_TRY(cay__engine_find(url, &w, err));
    cay__http_client *client = NULL;
    CAY_TRY(cay__http_client_open(w.url, NULL, &client, err));
    if (!cay__http_client_certs(client, w.certs)) {
        cay__http_client_unref(client);
        return cay_fail_why(err, CAY_EINVAL, "engine_certs",
                            "engine %.80s: DOCKER_CERT_PATH is too long", url);
    }
    cay__engine *e = cay__alloc(sizeof *e);
    e->client = client;
    e->where = w;
    pthread_mutex_init(&e->lock, NULL);
    *out = e;
    return 0;
}

void cay__engine_close(cay__engine *e)
{
    if (!e)
        return;
    cay__http_client_unref(e->client);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

const char *cay__engine_path(const cay__engine *e)
{
    return e->where.path;
}

void cay__engine_encode(cay__buf *path, const char *value)
{
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("-._~", c))
            cay__buf_add(path, value, 1);
        else
            cay__buf_fmt(path, "%%%02X", c);
    }
}

/* Why its socket could not be reached, by trying once more without anything between. */
static int fail_unreachable(const cay__engine *e, cay_err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    const char *path = e->where.path;
    CAY_AUTOFD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CAY_COPY(a.sun_path, path);
    int sys = fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) == 0 ? 0 : errno, rc;
    if (sys == ENOENT)
        rc = cay_fail_why(err, CAY_EUPSTREAM, "engine_absent",
                          "there is no container engine at %.100s; install docker.io or podman, or "
                          "set DOCKER_HOST=unix:///PATH",
                          path);
    else if (sys == EACCES || sys == EPERM)
        rc = cay_fail_why(err, CAY_EPERM, "engine_denied",
                          "the engine's socket %.100s does not let this user in; join its group "
                          "(docker), or run the engine rootless",
                          path);
    else
        rc = cay_fail_why(err, CAY_EUPSTREAM, "engine_down",
                          "the engine at %.100s does not answer: %s; is it running?", path,
                          sys ? strerror(sys) : "it hung up");
    if (err) {
        err->sys = sys;
        if (sys == EACCES)
            err->retry = CAY_RETRY_NO;
        else
            err->retry = CAY_RETRY_YES;
    }
    return rc;
}

/* The words of who tried, with what helps. */
static int unreachable_tcp(const cay__engine *e, const cay_err *why, cay_err *err)
{
    bool tls = cay_err_is(why, CAY_REASON_NET_TLS) ||
               (*e->where.certs && cay_err_is(why, CAY_REASON_NET_CUT));
    int rc;
    if (tls)
        rc = cay_fail_why(err, CAY_EUPSTREAM, "engine_tls",
                          "the engine at %.60s and we do not trust each other: %.90s; look at "
                          "ca.pem, cert.pem and key.pem in %.60s",
                          e->where.path, why->msg, e->where.certs);
    else
        rc = cay_fail_why(
            err, CAY_EUPSTREAM, "engine_down",
            "the engine at %.60s does not answer: %.100s; is it running, and does "
            "it listen there%s?",
            e->where.path, why->msg,
            CAY_TEXT_IF(!*e->where.certs, " without TLS (else set DOCKER_TLS_VERIFY=1)"));
    if (err) {
        if (tls)
            err->retry = CAY_RETRY_NO;
        else
            err->retry = CAY_RETRY_YES;
    }
    return rc;
}

static int read_all(cay__answer *a, const cay_call *call, cay__buf *out, cay_err *err)
{
    for (size_t n;;) {
        char *room = cay__buf_room(out, 65536);
        if (!room)
            return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                                "the engine's answer is larger than %zu bytes", out->max);
        CAY_TRY(cay__answer_bytes(a, call, room, 65536, &n, err));
        cay__buf_used(out, n);
        if (!n)
            return 0;
    }
}

static int read_error(cay__answer *a, const cay_call *call, cay_err *err)
{
    CAY_AUTOBUF text = CAY__BUF(LINE_MAX_BYTES);
    CAY_AUTOJSON *o = NULL;
    read_all(a, call, &text, NULL);
    if (text.data && strstr(text.data, "HTTP request to an HTTPS server"))
        return cay_fail_why(
            err, CAY_EUPSTREAM, "engine_tls",
            "the engine speaks TLS alone; set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH");
    cay__json_object("answer", CAY_OR(text.data, ""), &o, NULL);
    return cay__engine_error(cay__answer_head(a)->status, cay__json_str(o, "message", ""), err);
}

static int send_request(cay__engine *e, const cay_call *call, const cay__ask *q, cay__answer **out,
                        cay_err *err)
{
    CAY_AUTOPTR(cay__answer) a = NULL;
    cay_err why = CAY_ERR_INIT;
    int rc = cay__http_client_ask(e->client, call, q, &a, &why);
    if (rc == CAY_EUPSTREAM &&
        (cay_err_is(&why, CAY_REASON_NET_UNREACHABLE) || cay_err_is(&why, CAY_REASON_NET_CUT) ||
         cay_err_is(&why, CAY_REASON_NET_TLS))) {
        if (e->where.tcp)
            return unreachable_tcp(e, &why, err);
        return fail_unreachable(e, err);
    }
    if (rc < 0)
        return cay__err_pass(rc, &why, err);
    int status = cay__answer_head(a)->status;
    if ((status < 200 || status >= 300) && status != 304 && status != 101)
        return read_error(a, call, err);
    *out = CAY_STEAL(a);
    return 0;
}

static int take_json(cay__answer *a, const cay_call *call, json_t **out, cay_err *err)
{
    CAY_AUTOBUF text = CAY__BUF(ANSWER_MAX);
    CAY_TRY(read_all(a, call, &text, err));
    if (!out)
        return 0;
    if (cay__json_any("answer", CAY_OR(text.data, ""), out, err) < 0)
        return cay_fail_why(err, CAY_EUPSTREAM, "engine_answer",
                            "the engine answers with something that is not JSON");
    return 0;
}

static int ask_json(cay__engine *e, const cay_call *call, const char *method, const char *target,
                    json_t *body, json_t **out, cay_err *err)
{
    CAY_AUTOFREE char *text = NULL;
    if (body)
        text = cay__json_text(body, ANSWER_MAX);
    CAY_AUTOPTR(cay__answer) a = NULL;
    if (body && !text)
        return cay_fail_why(err, CAY_ETOOBIG, "request_too_big",
                            "the request to the engine is too long");
    cay__ask q = {
        .method = method, .target = target, .body = text, .len = strlen(CAY_OR(text, ""))
    };
    CAY_TRY(send_request(e, call, &q, &a, err));
    return take_json(a, call, out, err);
}

static int parse_minor(const char *api)
{
    uint64_t n;
    if (cay__str_starts(api, "1.") && cay__str_to_u64(api + 2, &n) && n < 1000)
        return (int)n;
    return 0;
}

static int take_version(cay__engine_info *i, const json_t *v, cay_err *err)
{
    int most = parse_minor(cay__json_str(v, "ApiVersion", "")),
        least = parse_minor(cay__json_str(v, "MinAPIVersion", "1.0"));
    json_t *parts = json_object_get(v, "Components"), *c;
    size_t k;
    CAY_COPY(i->name, "Docker");
    json_array_foreach(parts, k, c) {
        i->podman |= cay__str_starts(cay__json_str(c, "Name", ""), "Podman");
    }
    if (i->podman)
        CAY_COPY(i->name, "Podman");
    CAY_COPY(i->version, cay__json_str(v, "Version", ""));
    CAY_COPY(i->arch, cay__json_str(v, "Arch", ""));
    if (most < API_LEAST)
        return cay_fail_why(err, CAY_EUPSTREAM, "engine_old",
                            "%s %.30s speaks API %.10s and 1.%d is needed; use Docker since 20.10 "
                            "or Podman since 3",
                            i->name, i->version, cay__json_str(v, "ApiVersion", "none"), API_LEAST);
    CAY_FORMAT(i->api, "1.%d", CAY_MAX(API_LEAST, least));
    return 0;
}

static void take_info(cay__engine_info *i, const json_t *o)
{
    json_t *list = json_object_get(o, "SecurityOptions"), *v;
    size_t k;
    json_array_foreach(list, k, v) {
        const char *s = "";
        if (json_string_value(v))
            s = json_string_value(v);
        i->rootless |= strstr(s, "rootless") != NULL;
        i->userns |= strstr(s, "userns") != NULL;
        i->seccomp |= strstr(s, "seccomp") != NULL;
        i->apparmor |= strstr(s, "apparmor") != NULL;
        i->selinux |= strstr(s, "selinux") != NULL;
    }
    i->memory = cay__json_bool(o, "MemoryLimit", false);
    i->cpu = cay__json_bool(o, "CpuCfsQuota", false);
    i->pids = cay__json_bool(o, "PidsLimit", false);
    CAY_COPY(i->driver, cay__json_str(o, "Driver", ""));
    list = json_object_get(o, "DriverStatus");
    json_array_foreach(list, k, v) {
        const char *key = json_string_value(json_array_get(v, 0)),
                   *value = json_string_value(json_array_get(v, 1));
        if (key && value && !strcmp(key, "Backing Filesystem"))
            CAY_COPY(i->backing, value);
    }
}

int cay__engine_meet(cay__engine *e, const cay_call *call, const cay__engine_info **out,
                     cay_err *err)
{
    CAY_AUTOJSON *version = NULL, *info = NULL;
    cay__engine_info i = { 0 };
    char target[32];
    pthread_mutex_lock(&e->lock);
    bool met = e->met;
    pthread_mutex_unlock(&e->lock);
    if (!met) {
        CAY_TRY(ask_json(e, call, "GET", "/version", NULL, &version, err));
        CAY_TRY(take_version(&i, version, err));
        CAY_FORMAT(target, "/v%s/info", i.api);
        CAY_TRY(ask_json(e, call, "GET", target, NULL, &info, err));
        take_info(&i, info);
        CAY_LOCK(&e->lock);
        if (!e->met) /* others may read it from now on */
            e->info = i;
        e->met = true;
    }
    if (out)
        *out = &e->info;
    return 0;
}

static int build_target(cay__engine *e, const cay_call *call, const char *path, cay__buf *target,
                        cay_err *err)
{
    const cay__engine_info *i;
    CAY_TRY(cay__engine_meet(e, call, &i, err));
    cay__buf_fmt(target, "/v%s%s", i->api, path);
    if (target->full)
        return cay_fail_why(err, CAY_ETOOBIG, "request_too_big",
                            "the request to the engine is too long");
    return 0;
}

int cay__engine_ask(cay__engine *e, const cay_call *call, const char *method, const char *path,
                    json_t *body, json_t **out, cay_err *err)
{
    CAY_AUTOBUF target = CAY__BUF(64u << 10);
    CAY_AUTOJSON *own __attribute__((unused)) = body;
    CAY_TRY(build_target(e, call, path, &target, err));
    return ask_json(e, call, method, target.data, own, out, err);
}

static int each_line(cay__buf *got, cay__engine_line *fn, void *arg, cay_err *err)
{
    for (char *end; got->len && (end = memchr(got->data, '\n', got->len));) {
        CAY_AUTOJSON *o = NULL;
        size_t n = (size_t)(end - got->data) + 1;
        *end = 0;
        if (got->data[strspn(got->data, " \r\t")]) {
            if (cay__json_object("answer", got->data, &o, err) < 0)
                return cay_fail_why(err, CAY_EUPSTREAM, "engine_answer",
                                    "the engine answers with something that is not JSON");
            int rc = fn(o, arg, err);
            if (rc)
                return rc;
        }
        memmove(got->data, got->data + n, got->len - n + 1);
        got->len -= n;
    }
    return 0;
}

static int read_lines(cay__answer *a, const cay_call *call, cay__engine_line *fn, void *arg,
                      cay_err *err)
{
    CAY_AUTOBUF got = CAY__BUF(LINE_MAX_BYTES);
    for (size_t n = 1; n;) {
        char *room = cay__buf_room(&got, 16384);
        if (!room)
            return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                                "a line of the engine is larger than %zu bytes", got.max);
        CAY_TRY(cay__answer_bytes(a, call, room, 16384, &n, err));
        cay__buf_used(&got, n);
        if (!n)
            cay__buf_add(&got, "\n", 1);
        int rc = each_line(&got, fn, arg, err);
        if (rc)
            return rc;
    }
    return 0;
}

int cay__engine_lines(cay__engine *e, const cay_call *call, const char *path, const char *fields,
                      int body_fd, uint64_t body_len, cay__engine_line *fn, void *arg, cay_err *err)
{
    CAY_AUTOBUF target = CAY__BUF(64u << 10);
    CAY_AUTOPTR(cay__answer) a = NULL;
    CAY_TRY(build_target(e, call, path, &target, err));
    cay__ask q = { .method = "POST",
                   .target = target.data,
                   .fields = fields,
                   .fd = body_fd,
                   .from_fd = body_fd >= 0,
                   .len = (size_t)body_len,
                   .type = CAY_IF(body_fd >= 0, "application/x-tar") };
    CAY_TRY(send_request(e, call, &q, &a, err));
    return read_lines(a, call, fn, arg, err);
}

int cay__engine_put(cay__engine *e, const cay_call *call, const char *path, int fd, uint64_t len,
                    cay_err *err)
{
    CAY_AUTOBUF target = CAY__BUF(4096);
    CAY_AUTOPTR(cay__answer) a = NULL;
    CAY_TRY(build_target(e, call, path, &target, err));
    cay__ask q = { .method = "PUT",
                   .target = target.data,
                   .fd = fd,
                   .from_fd = true,
                   .len = (size_t)len,
                   .type = "application/x-tar" };
    CAY_TRY(send_request(e, call, &q, &a, err));
    return take_json(a, call, NULL, err);
}

int cay__engine_get(cay__engine *e, const cay_call *call, const char *path, cay__buf *out,
                    cay_err *err)
{
    CAY_AUTOBUF target = CAY__BUF(4096);
    CAY_AUTOPTR(cay__answer) a = NULL;
    CAY_TRY(build_target(e, call, path, &target, err));
    CAY_TRY(send_request(e, call, &(cay__ask){ .method = "GET", .target = target.data }, &a, err));
    return read_all(a, call, out, err);
}

int cay__engine_upgrade(cay__engine *e, const cay_call *call, const char *path, json_t *body,
                        int *fd, cay_err *err)
{
    CAY_AUTOBUF target = CAY__BUF(4096);
    CAY_AUTOJSON *own = body;
    CAY_AUTOFREE char *text = cay__json_text(body, 64 << 10);
    CAY_AUTOPTR(cay__answer) a = NULL;
    CAY_TRY(build_target(e, call, path, &target, err));
    cay__ask q = { .method = "POST",
                   .target = target.data,
                   .fields = "Connection: Upgrade\r\nUpgrade: tcp\r\n",
                   .body = text,
                   .len = strlen(CAY_OR(text, "")),
                   .upgrade = true };
    CAY_TRY(send_request(e, call, &q, &a, err));
    if (cay__answer_head(a)->status != 101)
        return cay_fail_why(err, CAY_EUPSTREAM, "engine_answer",
                            "the engine does not open a stream; is a proxy between?");
    *fd = cay__answer_take(CAY_STEAL(a));
    return 0;
}

bool cay__engine_far(const cay__engine *e)
{
    return e->where.far;
}
