/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"
#include "image.h"
#include <base/sha256.h>
#include <base/base64.h>
#include <base/json.h>
#include <base/mutant.h>
#include <ctype.h>
#include <policy/policy.h>
#include <strings.h>

#define HOPS      5
#define TOKEN_MAX (64u << 10)
#define ACCEPT                                                                                     \
    "Accept: application/vnd.oci.image.index.v1+json, "                                            \
    "application/vnd.oci.image.manifest.v1+json, "                                                 \
    "application/vnd.docker.distribution.manifest.list.v2+json, "                                  \
    "application/vnd.docker.distribution.manifest.v2+json"

struct cay__reg {
    cay__http *http;
    const cay__tconf *conf;
    const cay__policy *op;
    cay__tname name;
    char host[300], base[400]; /* "registry-1.docker.io", "https://…" */
    char *login, *token;       /* token: the whole header */
    bool trusted, plain, lan;
};

/* One request on its way. */
typedef struct trip {
    cay__reg *r;
    bool private_ok, blocked, denied; /* denied: by the operator's egress.conf */
    char to[300];                     /* where it goes: name or address, without brackets */
    uint16_t port;
    char location[4096];
    cay__challenge challenge;
    bool want; /* the status is one whose body is asked for */
    int status;
    bool *whole;
    int (*fn)(const char *p, size_t n, void *arg, cay_err *err);
    void *arg;
} trip;

static bool is_loopback(const char *host)
{
    char url[320];
    CAY_FORMAT(url, "http://%s/", host);
    return cay__http_is_loopback(url);
}

/* "host[:port]" of a URL, in small letters; false: it is none that we follow. */
static bool host_of(const char *url, bool *tls, char out[300])
{
    size_t skip;
    if (!strncasecmp(url, "https://", 8))
        skip = 8;
    else if (!strncasecmp(url, "http://", 7))
        skip = 7;
    else
        skip = 0;
    size_t n = strcspn(url + skip, "/?#");
    if (!skip || !n || n >= 300 || memchr(url + skip, '@', n))
        return false;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)tolower((unsigned char)url[skip + i]);
    out[n] = 0;
    *tls = skip == 8;
    return true;
}

static bool conf_private(const cay__tconf *c, const char *host)
{
    CAY_EACH_OF(registrie, c->registries, c->nregistries)
        if (!strcmp(registrie->host, host))
            return registrie->lan;
    return false;
}

/* Takes "host[:port]" apart; false: it is neither a name nor an address with a port. */
static bool parse_host(const char *host, bool tls, char out[300], uint16_t *port)
{
    const char *end;
    if (*host == '[')
        end = strchr(host, ']');
    else
        end = host + strcspn(host, ":");
    uint64_t n = 80;
    if (tls)
        n = 443;
    if (!end)
        return false;
    size_t len = (size_t)(end - host) - (*host == '[');
    memcpy(out, host + (*host == '['), len);
    out[len] = 0;
    end += *end == ']';
    if (*end && (*end != ':' || !cay__str_to_u64(end + 1, &n) || !n || n > 65535))
        return false;
    *port = (uint16_t)n;
    return len > 0;
}

static int operator_says_no(const trip *t, cay_err *err)
{
    return cay_fail_why(err, CAY_EPERM, "registry_denied",
                        "the operator's egress.conf does not let anything go to %.150s:%u; a rule "
                        "there may allow it",
                        t->to, t->port);
}

/* The operator's word stands above it, as above every fetch; ranges that are always blocked are
 * judged by the address that is connected to. */
static int judge_operator(trip *t, const char *host, bool tls, cay_err *err)
{
    if (!parse_host(host, tls, t->to, &t->port))
        return cay_fail_why(err, CAY_EUPSTREAM, "registry_answer",
                            "\"%.100s\" is no address to go to", host);
    /* A name of this machine has no rules of its own: they are those of its address. */
    cay__verdict v = cay__decide_host(
        t->r->op, NULL, cay__name_is_local(t->to) ? "127.0.0.1" : t->to, t->port, true);
    /* What is no name that a rule could have is an address in another spelling, which is judged
     * when it is connected to. */
    bool spelling = !strcmp(v.reason, "default_deny") && t->r->op->mode == CAY__NET_ALL;
    bool later = spelling || !strcmp(v.reason, "blocked_range") ||
                 !strcmp(v.reason, "off"); /* off: a service line, which is for sandboxes */
    if (v.allow || later || CAY__MUTANT("registry-operator"))
        return 0;
    return operator_says_no(t, err);
}

/* Judges a URL that the registry names. */
static int check_url(trip *t, const char *url, bool *own, cay_err *err)
{
    char host[300];
    bool tls;
    cay__reg *r = t->r;
    if (!host_of(url, &tls, host))
        return cay_fail_why(err, CAY_EUPSTREAM, "registry_answer",
                            "%s leads to \"%.100s\", which is no address to go to", r->host, url);
    *own = !strcmp(host, r->host);
    if (!tls && !(*own && r->plain))
        return cay_fail_why(err, CAY_EPERM, "registry_private", "%s leads to %.100s without TLS",
                            r->host, host);
    t->private_ok = CAY__MUTANT("registry-private") || (*own && (r->lan || r->trusted)) ||
                    conf_private(r->conf, host);
    return judge_operator(t, host, tls, err);
}

static bool can_connect(const uint8_t addr[16], void *arg)
{
    trip *t = arg;
    cay__verdict v = cay__decide_addr(t->r->op, NULL, t->to, addr, t->port);
    bool range = !v.allow && !strcmp(v.reason, "blocked_range");
    if (v.allow || (range && t->private_ok) || (!range && CAY__MUTANT("registry-operator")))
        return true;
    *(range ? &t->blocked : &t->denied) = true;
    return false;
}

static void on_header(const char *name, size_t n, const char *value, size_t len, void *arg)
{
    trip *t = arg;
    if (n == 8 && !strncasecmp(name, "location", 8) && len < sizeof t->location) {
        memcpy(t->location, value, len);
        t->location[len] = 0;
    } else if (n == 16 && !strncasecmp(name, "www-authenticate", 16)) {
        cay__challenge c;
        cay__challenge_read(value, len, &c);
        if (c.kind > t->challenge.kind)
            t->challenge = c;
    }
}

static int on_head(int status, const char *type, void *arg, cay_err *err)
{
    trip *t = arg;
    t->status = status;
    t->want = status == 200 || status == 206;
    if (t->whole)
        *t->whole = status == 200;
    return 0;
}

static int on_data(const char *p, size_t n, void *arg, cay_err *err)
{
    trip *t = arg;
    if (t->want)
        return t->fn(p, n, t->arg, err);
    return 0;
}

static int send_request(trip *t, const cay_call *call, const char *url, const char *auth,
                        const char *more, uint64_t max, cay_err *err)
{
    const char *headers[4];
    size_t n = 0;
    cay__http_reply reply;
    if (auth)
        headers[n++] = auth;
    if (more)
        headers[n++] = more;
    headers[n] = NULL;
    t->location[0] = 0;
    t->challenge = (cay__challenge){ 0 };
    t->blocked = t->denied = false;
    cay__http_req q = { .method = "GET",
                        .url = url,
                        .headers = headers,
                        .idle_ms = CAY_OR(t->r->conf->idle_ms, 60000),
                        .max_body = max + 4096,
                        .on_head = on_head,
                        .on_data = on_data,
                        .on_header = on_header,
                        .may = can_connect,
                        .arg = t,
                        .raw = true };
    int rc = cay__http_do(t->r->http, call, &q, &reply, err);
    if (rc < 0 && t->denied)
        return operator_says_no(t, err);
    if (rc < 0 && t->blocked) {
        char host[300] = "";
        bool tls;
        host_of(url, &tls, host);
        return cay_fail_why(err, CAY_EPERM, "registry_private",
                            "%.200s is at a private address; the operator may allow it by "
                            "`registry %.200s private` in templates.conf",
                            host, host);
    }
    return rc;
}

static int make_basic_auth(const char *login, char **out)
{
    CAY_AUTOBUF b = CAY__BUF(8192);
    cay__buf_str(&b, "Authorization: Basic ");
    cay__base64_put(&b, login, strlen(login));
    if (b.full)
        *out = NULL;
    else
        *out = cay__strdup(b.data);
    if (*out)
        return 0;
    return CAY_ETOOBIG;
}

static void put_query(cay__buf *b, const char *key, const char *value)
{
    cay__buf_fmt(b, "%s%s=", memchr(b->data, '?', b->len) ? "&" : "?", key);
    for (; *value; value++)
        cay__buf_fmt(b, isalnum((unsigned char)*value) || strchr("-._~", *value) ? "%c" : "%%%02X",
                     (unsigned char)*value);
}

static int on_body_data(const char *p, size_t n, void *arg, cay_err *err)
{
    cay__buf *b = arg;
    cay__buf_add(b, p, n);
    if (b->full)
        return cay_fail_why(err, CAY_ETOOBIG, "registry_answer",
                            "the registry's answer is too long");
    return 0;
}

static int fail_denied(const cay__reg *r, cay_err *err)
{
    return cay_fail_why(
        err, CAY_EAUTH, "registry_auth", "%s does not give %s%s", r->host, r->name.path,
        r->login ? " to this user"
                 : "; is the name right? else log in (docker login), or give --auth");
}

/* A token of the server that the registry names, for this repository alone. */
static int get_token(cay__reg *r, const cay_call *call, const cay__challenge *c, cay_err *err)
{
    CAY_AUTOBUF url = CAY__BUF(4096), body = CAY__BUF(TOKEN_MAX);
    CAY_AUTOFREE char *auth = NULL;
    CAY_AUTOJSON *o = NULL;
    char scope[300];
    bool own;
    trip t = { .r = r, .fn = on_body_data, .arg = &body };
    CAY_TRY(check_url(&t, c->realm, &own, err));
    CAY_FORMAT(scope, "repository:%s:pull", r->name.path);
    cay__buf_str(&url, c->realm);
    if (*c->service)
        put_query(&url, "service", c->service);
    put_query(&url, "scope", scope);
    if (url.full)
        return cay_fail_why(err, CAY_EUPSTREAM, "registry_answer",
                            "%s names a token server that is too long", r->host);
    if (r->login && make_basic_auth(r->login, &auth) < 0)
        return cay_fail_why(err, CAY_EINVAL, "registry_auth", "user and password are too long");
    CAY_TRY(send_request(&t, call, url.data, auth, NULL, TOKEN_MAX, err));
    if (t.status == 401 || t.status == 403)
        return fail_denied(r, err);
    if (t.status != 200 || !body.len || cay__json_object("", body.data, &o, NULL) < 0)
        return cay_fail_why(err, CAY_EUPSTREAM, "registry_answer",
                            "the token server of %s answered %d, without a token", r->host,
                            t.status);
    const char *token = cay__json_str(o, "token", cay__json_str(o, "access_token", ""));
    CAY_AUTOBUF head = CAY__BUF(TOKEN_MAX);
    if (!*token || strpbrk(token, " \r\n\t"))
        return cay_fail_why(err, CAY_EUPSTREAM, "registry_answer",
                            "the token server of %s answered without a token", r->host);
    cay__buf_fmt(&head, "Authorization: Bearer %s", token);
    free(r->token);
    r->token = cay__strdup(head.data);
    return 0;
}

static int log_in(cay__reg *r, const cay_call *call, const cay__challenge *c, cay_err *err)
{
    if (c->kind == CAY__AUTH_BEARER)
        return get_token(r, call, c, err);
    if (c->kind == CAY__AUTH_NONE || !r->login)
        return fail_denied(r, err);
    free(r->token);
    r->token = NULL;
    if (make_basic_auth(r->login, &r->token) < 0)
        return fail_denied(r, err);
    return 0;
}

/* Relative to where it was found. */
static bool resolve_location(const char *at, const char *location, char *out, size_t cap)
{
    if (*location != '/' || location[1] == '/')
        return cay__str_copy(out, cap, location);
    size_t n = (size_t)(strstr(at, "://") + 3 - at);
    n += strcspn(at + n, "/?#");
    char origin[400];
    if (n >= sizeof origin)
        return false;
    memcpy(origin, at, n);
    origin[n] = 0;
    return cay__str_join(out, cap, origin, location, NULL);
}

/* With a log-in when it is asked for, and redirects as far as they may lead. */
static int fetch_path(cay__reg *r, const cay_call *call, const char *path, const char *more,
                      uint64_t max, trip *t, cay_err *err)
{
    char url[4096], next[4096];
    bool own = true, asked = false;
    t->r = r;
    if (!CAY_JOIN(url, r->base, path))
        return cay_fail(err, CAY_ETOOBIG, "the name is too long");
    for (int hop = 0; hop <= HOPS;) {
        CAY_TRY(check_url(t, url, &own, err));
        CAY_TRY(send_request(t, call, url, CAY_IF(own, r->token), more, max, err));
        if (t->status == 401 && own && !asked) {
            asked = true;
            CAY_TRY(log_in(r, call, &t->challenge, err));
            continue;
        }
        if (t->status < 300 || t->status > 308 || t->status == 304 || !*t->location)
            return 0;
        if (!resolve_location(url, t->location, next, sizeof next))
            break;
        CAY_COPY(url, next);
        hop++;
    }
    return cay_fail_why(err, CAY_EUPSTREAM, "registry_answer",
                        "%s sends us from one place to the next without end", r->host);
}

static int fail_status(const cay__reg *r, const trip *t, const char *what, cay_err *err)
{
    if (t->status == 404)
        return cay_fail_why(err, CAY_ENOENT, "image_unknown", "%s has no %s:%.80s", r->host,
                            r->name.path, what);
    if (t->status == 401 || t->status == 403)
        return fail_denied(r, err);
    int rc = cay_fail_why(err, t->status == 429 ? CAY_ERATE : CAY_EUPSTREAM, "registry_answer",
                          "%s answered %d for %s:%.80s", r->host, t->status, r->name.path, what);
    if (err) {
        if (t->status == 429 || t->status >= 500)
            err->retry = CAY_RETRY_YES;
        else
            err->retry = CAY_RETRY_NO;
    }
    return rc;
}

int cay__reg_manifest(cay__reg *r, const cay_call *call, const char *what, cay__buf *out,
                      char digest[72], cay_err *err)
{
    char path[600], hex[CAY__SHA256_HEX];
    trip t = { .fn = on_body_data, .arg = out };
    CAY_FORMAT(path, "/v2/%s/manifests/%s", r->name.path, what);
    CAY_TRY(fetch_path(r, call, path, ACCEPT, CAY__IMAGE_DOC_MAX, &t, err));
    if (t.status != 200)
        return fail_status(r, &t, what, err);
    cay__sha256_hex(CAY_OR(out->data, ""), out->len, hex);
    cay__str_join(digest, 72, "sha256:", hex, NULL);
    if (cay__digest_ok(what) && strcmp(what, digest))
        return cay_fail_why(err, CAY_EINVAL, "image_digest",
                            "%s gave a manifest with digest %.19s… for %.19s…", r->host, digest,
                            what);
    return 0;
}

int cay__reg_blob(cay__reg *r, const cay_call *call, const char *digest, uint64_t from,
                  uint64_t max, bool *whole, int (*fn)(const char *, size_t, void *, cay_err *),
                  void *arg, cay_err *err)
{
    char path[600], range[64];
    trip t = { .fn = fn, .arg = arg, .whole = whole };
    CAY_FORMAT(path, "/v2/%s/blobs/%s", r->name.path, digest);
    CAY_FORMAT(range, "Range: bytes=%llu-", (unsigned long long)from);
    CAY_TRY(fetch_path(r, call, path, CAY_IF(from, range), max, &t, err));
    if (t.want)
        return 0;
    return fail_status(r, &t, digest, err);
}

int cay__reg_open(const cay__tconf *conf, const cay__policy *op, const cay__tname *name,
                  const char *login, bool trusted, cay__reg **out, cay_err *err)
{
    cay__reg *r = cay__alloc(sizeof *r);
    *r = (cay__reg){ .conf = conf, .op = op, .name = *name, .trusted = trusted };
    CAY_COPY(r->host, strcmp(name->host, "docker.io") ? name->host : "registry-1.docker.io");
    r->plain = is_loopback(r->host);
    CAY_EACH_OF(registrie, conf->registries, conf->nregistries)
        if (!strcmp(registrie->host, r->host)) {
            r->plain = registrie->plain;
            r->lan = registrie->lan;
        }
    CAY_FORMAT(r->base, "%s://%s", r->plain ? "http" : "https", r->host);
    r->login = CAY_IF(login, cay__strdup(login));
    int rc = cay__http_open(&r->http, err);
    if (rc < 0)
        cay__reg_close(r);
    else
        *out = r;
    return rc;
}

void cay__reg_close(cay__reg *r)
{
    if (!r)
        return;
    cay__http_close(r->http);
    if (r->login)
        explicit_bzero(r->login, strlen(r->login));
    if (r->token)
        explicit_bzero(r->token, strlen(r->token));
    free(r->login);
    /* NOLINTNEXTLINE(analyzer-double-free): each token is replaced when it is freed */
    free(r->token);
    free(r);
}
