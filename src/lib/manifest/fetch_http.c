/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file or archive over HTTP. cay-fetch asks, in a sandbox that reaches that place; where an
 * answer leads elsewhere, that is judged here and asked again, at most five times. The digest is
 * taken outside. An archive is then read in another sandbox, without network.
 */
#include "fetch_inside.h"
#include <base/mutant.h>
#include <cay/fetch.h>
#include <cay/policy.h>
#include <lib/client/client.h>
#include <base/sha256.h>
#include <sys/mman.h>

enum { REDIRECTS = 5, HEADERS = 32 };
#define FILE_BYTES    (256ull << 20)
#define ARCHIVE_BYTES (1ull << 30)

typedef struct reply {
    unsigned status;
    char etag[512], location[CAY__URL_MAX];
    uint64_t bytes;
} reply;

typedef struct ask {
    cay_client *client;
    const cay_call *call;
    const cay__fetch_source *f;
    cay__url first, at;
    cay__oneshot *o;
    cay_secret secrets[HEADERS];
    char names[HEADERS][16], to[HEADERS][CAY__NAME_MAX + 160];
    size_t nsecrets;
} ask;

static uint64_t body_limit(const cay__fetch_source *f)
{
    return CAY_OR(f->max_bytes, f->kind == CAY__SOURCE_FILE ? FILE_BYTES : ARCHIVE_BYTES);
}

static bool is_source(const char *v)
{
    return cay__str_starts(v, "env:") || cay__str_starts(v, "file:") ||
           cay__str_starts(v, "cmd:") || cay__str_starts(v, "store:");
}

/* A header whose value is elsewhere is added on the way out, to the place that the URL names and to
 * no other. */
static int bind_headers(ask *a, cay_err *err)
{
    char place[CAY__NAME_MAX + 32];
    cay__source_place(&a->first, place, sizeof place);
    for (const cay_pair *h = a->f->headers; h && h->key; h++) {
        if (strpbrk(h->key, ":\r\n ,") || strpbrk(h->value, "\r\n"))
            return cay_fail_why(err, CAY_EINVAL, "fetch_header",
                                "\"%.60s\" is no header of one line", h->key);
        if (!is_source(h->value))
            continue;
        if (a->nsecrets == HEADERS)
            return cay_fail_why(err, CAY_ETOOBIG, "fetch_header", "more than %d secret headers",
                                HEADERS);
        size_t i = a->nsecrets++;
        CAY_FORMAT(a->names[i], "HEADER_%zu", i);
        CAY_FORMAT(a->to[i], "%s,header:%.100s", place, h->key);
        a->secrets[i] =
            (cay_secret){ .name = a->names[i], .source = h->value, .destination = a->to[i] };
    }
    return 0;
}

static int start_sandbox(ask *a, cay_err *err)
{
    CAY_TRY(cay__url_parse(a->f->url, &a->first, err));
    a->at = a->first;
    CAY_TRY(bind_headers(a, err));
    CAY_TRY(cay__source_sandbox(a->client, a->call, a->f, &a->first, a->secrets, a->nsecrets, &a->o,
                                err));
    return cay__oneshot_bring(a->o, a->call, "cay-fetch", err);
}

/* What is not secret goes in; to another place than the URL's nothing does. */
static int header_file(const ask *a, int *out, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(60000);
    CAY_AUTOFD fd = memfd_create("headers", MFD_CLOEXEC);
    if (cay__url_same_place(&a->at, &a->first))
        for (const cay_pair *h = a->f->headers; h && h->key; h++)
            if (!is_source(h->value))
                cay__buf_fmt(&b, "%s: %s\n", h->key, h->value);
    if (b.full)
        return cay_fail_why(err, CAY_ETOOBIG, "fetch_header", "the headers are too long");
    if (fd < 0 || !cay__fd_write_all(fd, b.data, b.len) || lseek(fd, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "headers of a request");
    *out = CAY_STEAL_FD(fd);
    return 0;
}

static void take_note(reply *r, const cay__item *it)
{
    uint64_t n;
    if (!strcmp(it->path, "status") && cay__str_to_u64(it->extra, &n) && n < 1000)
        r->status = (unsigned)n;
    if (!strcmp(it->path, "etag"))
        CAY_COPY(r->etag, it->extra);
    if (!strcmp(it->path, "location"))
        CAY_COPY(r->location, it->extra);
}

static int take_body(const ask *a, cay__items_in *in, reply *r, int body, cay_err *err)
{
    const char *p;
    size_t n;
    for (;;) {
        CAY_TRY(cay__item_bytes(in, &p, &n, err));
        if (!n)
            return 0;
        r->bytes += n;
        if (r->bytes > body_limit(a->f))
            return cay_fail_why(err, CAY_ETOOBIG, "fetch_too_big",
                                "%.120s is larger than %llu bytes", a->f->url,
                                (unsigned long long)body_limit(a->f));
        if (body >= 0 && r->status == 200 && !cay__fd_write_all(body, p, n))
            return cay_fail_sys(err, "keep what came");
        if (a->f->progress)
            CAY_TRY(a->f->progress(r->bytes, a->f->arg, err));
    }
}

static int read_reply(const ask *a, int fd, reply *r, int body, cay_err *err)
{
    cay__items_in in;
    cay__item it = { 0 };
    int rc = 0;
    cay__items_open(&in, fd);
    while (rc == 0 && it.type != CAY__ITEM_END) {
        rc = cay__item_next(&in, &it, err);
        if (rc == 0 && it.type == CAY__ITEM_NOTE)
            take_note(r, &it);
        else if (rc == 0 && it.type == CAY__ITEM_FILE)
            rc = take_body(a, &in, r, body, err);
    }
    cay__items_close(&in);
    return rc;
}

/* in: a body to send, of `max` bytes; -1: none, and at most `max` may come. */
static int send_request(ask *a, const char *verb, uint64_t max_bytes, int in, reply *r, int body,
                        cay_err *err)
{
    char place[CAY__NAME_MAX + 32], url[CAY__URL_MAX + sizeof place], max[24], said[300];
    CAY_AUTOFD headers = -1;
    cay__feed *feed = NULL;
    cay_exit end = { .size = sizeof end };
    cay_err why = CAY_ERR_INIT;
    *r = (reply){ 0 };
    cay__source_place(&a->at, place, sizeof place);
    CAY_FORMAT(url, "%s%s", place, a->at.target);
    CAY_FORMAT(max, "%llu", (unsigned long long)max_bytes);
    if (in < 0)
        CAY_TRY(header_file(a, &headers, err));
    const char *const argv[] = { "./cay-fetch", verb, url, max, NULL };
    cay_spawn spec = {
        .size = sizeof spec,
        .argv = argv,
        .timeout_ms = (uint64_t)CAY_MAX(cay__call_left(a->call), 0)
    }; /* reading its answer waits as long as it does */
    CAY_TRY(cay__feed_start(a->o, a->call, &spec, in < 0 ? headers : in, &feed, err));
    int rc = read_reply(a, cay__feed_fd(feed), r, body, &why),
        ended = cay__feed_end(feed, a->call, &end, said, sizeof said, err);
    CAY_TRY(ended);
    if (rc == CAY_ETOOBIG)
        return cay_fail_why(err, CAY_ETOOBIG, "fetch_too_big", "%.120s is larger than %llu bytes",
                            a->f->url, (unsigned long long)body_limit(a->f));
    if (rc == CAY_EUPSTREAM)
        return cay_fail_why(err, CAY_EUPSTREAM, "fetch_failed", "%.100s: %.130s", a->at.host,
                            said[0] ? cay__source_last_line(said) : why.msg);
    return cay__err_pass(rc, &why, err);
}

static bool is_redirect(unsigned status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Where the answer leads is another place only if a rule of the sandbox allows it. */
static int apply_redirect(ask *a, const reply *r, cay_err *err)
{
    cay__url to;
    cay_net_verdict v = { .size = sizeof v };
    CAY_TRY(cay__url_join(&a->at, r->location, &to, err));
    if (a->at.tls && !to.tls)
        return cay_fail_why(err, CAY_EUPSTREAM, "redirect_refused",
                            "%.80s redirects from https to http; that is refused", a->at.host);
    CAY_TRY(cay_net_evaluate(cay__oneshot_sandbox(a->o), a->call, to.host, to.port, &v, err));
    if (!v.allow)
        return cay_fail_why(err, CAY_EPERM, "redirect_refused",
                            "%.60s redirects to %.60s:%u, which may not be reached (%s)%s%.80s",
                            a->at.host, to.host, (unsigned)to.port, v.reason,
                            CAY_TEXT_IF(v.remedy[0], "; "), v.remedy);
    a->at = to;
    return 0;
}

static int follow_redirects(ask *a, const char *verb, reply *r, int body, cay_err *err)
{
    for (unsigned n = 0; n <= REDIRECTS; n++) {
        CAY_TRY(send_request(a, verb, body_limit(a->f), -1, r, body, err));
        if (!is_redirect(r->status) || !r->location[0])
            return 0;
        CAY_TRY(apply_redirect(a, r, err));
    }
    return cay_fail_why(err, CAY_EUPSTREAM, "too_many_redirects", "%.80s: more than %d redirects",
                        a->first.host, REDIRECTS);
}

/* URL and tag under one short word; a weak tag promises less than the same bytes, so it is none. */
static void tag_identity(const cay__fetch_source *f, const reply *r, char identity[CAY__IDENTITY])
{
    CAY_AUTOBUF b = CAY__BUF(2 * CAY__URL_MAX);
    char hex[CAY__SHA256_HEX];
    identity[0] = 0;
    if (r->status != 200 || r->etag[0] != '"')
        return;
    cay__buf_fmt(&b, "%s %s", r->etag, f->url);
    cay__sha256_hex(b.data, b.len, hex);
    snprintf(identity, CAY__IDENTITY, "etag:%s", hex);
}

int cay__remote_identity(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                         char identity[CAY__IDENTITY], cay_err *err)
{
    reply r;
    cay__url url;
    CAY_TRY(cay__url_parse(f->url, &url, err));
    if (f->sha256) {
        snprintf(identity, CAY__IDENTITY, "sha256:%.64s", f->sha256);
        for (char *p = identity; *p; p++) {
            if (*p >= 'A' && *p <= 'F')
                *p = (char)(*p + 32);
        }
        return 0;
    }
    ask *a = cay__alloc(sizeof *a);
    *a = (ask){ .client = client, .call = call, .f = f };
    int rc = start_sandbox(a, err);
    if (rc == 0)
        rc = follow_redirects(a, "head", &r, -1, err);
    cay__oneshot_close(a->o);
    free(a);
    if (rc == 0)
        tag_identity(f, &r, identity);
    return rc;
}

static int check_digest(const cay__fetch_source *f, int fd, uint64_t size, cay__brought *out,
                        cay_err *err)
{
    char hex[CAY__SHA256_HEX];
    void *map = NULL;
    if (size)
        map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return cay_fail_sys(err, "read what came");
    cay__sha256_hex(map, size, hex);
    if (map)
        munmap(map, size);
    CAY_FORMAT(out->identity, "sha256:%s", hex);
    if (f->sha256 && strncasecmp(hex, f->sha256, 64) && !CAY__MUTANT("fetch-digest"))
        return cay_fail_why(err, CAY_EUPSTREAM, "fetch_digest",
                            "%.80s has SHA-256 %.16s…, not %.16s…", f->url, hex, f->sha256);
    return 0;
}

/* What the cache was asked for is what came. */
static int as_known(const cay__fetch_source *f, const reply *r, const char *known,
                    cay__brought *out, cay_err *err)
{
    char now[CAY__IDENTITY] = "";
    if (!known || !*known || !strcmp(known, out->identity))
        return 0;
    tag_identity(f, r, now);
    if (strcmp(known, now))
        return cay_fail_why(err, CAY_EBUSY, "fetch_changed",
                            "%.120s changed while it was fetched; try again", f->url);
    CAY_COPY(out->identity, known);
    return 0;
}

static int put_file(int from, int dir, cay_err *err)
{
    CAY_AUTOFD fd = openat(dir, "file", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return cay_fail_sys(err, "make the file");
    for (ssize_t n; (n = copy_file_range(from, NULL, fd, NULL, 1 << 30, 0)) != 0;)
        if (n < 0)
            return cay_fail_sys(err, "copy what came");
    return 0;
}

static int put_tree(ask *a, int from, int dir, cay__brought *out, cay_err *err)
{
    CAY_AUTOPTR(cay__oneshot) o = NULL;
    const char *const args[] = { "tree", CAY_OR(a->f->format, "auto"), NULL };
    const char *sub = a->f->subpath;
    cay__sink sink = { .root = dir,
                       .threads = 1,
                       .max_bytes = 8ull << 30,
                       .max_items = 500000,
                       .only = CAY_IF(sub && *sub && strcmp(sub, "."), sub) };
    CAY_TRY(cay__oneshot_open(a->client, a->call, &(cay__oneshot_spec){ 0 }, &o, err));
    int rc = cay__oneshot_unpack(o, a->call, args, from, &sink, err);
    out->bytes = sink.bytes;
    out->items = sink.items;
    return rc;
}

/* The body, in a file without a name, at its start. */
static int download_body(ask *a, reply *r, int *out, cay_err *err)
{
    CAY_AUTOFD body = openat(a->client->home_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (body < 0)
        return cay_fail_sys(err, "a file for what comes");
    CAY_TRY(start_sandbox(a, err));
    CAY_TRY(follow_redirects(a, "get", r, body, err));
    cay__oneshot_close(CAY_STEAL(a->o)); /* its network is not needed any more */
    if (r->status != 200)
        return cay_fail_why(err, r->status == 404 || r->status == 410 ? CAY_ENOENT : CAY_EUPSTREAM,
                            "fetch_status", "%.120s: the server answered %u", a->f->url, r->status);
    if (lseek(body, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "read what came");
    *out = CAY_STEAL_FD(body);
    return 0;
}

static int fetch_source(ask *a, const char *known, int dir, cay__brought *out, cay_err *err)
{
    reply r;
    CAY_AUTOFD body = -1;
    CAY_TRY(download_body(a, &r, &body, err));
    CAY_TRY(check_digest(a->f, body, r.bytes, out, err));
    CAY_TRY(as_known(a->f, &r, known, out, err));
    out->bytes = r.bytes;
    out->items = 1;
    if (a->f->kind == CAY__SOURCE_FILE)
        return put_file(body, dir, err);
    return put_tree(a, body, dir, out, err);
}

int cay__remote_fetch(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                      const char *identity, int dir, cay__brought *out, cay_err *err)
{
    ask *a = cay__alloc(sizeof *a);
    *a = (ask){ .client = client, .call = call, .f = f };
    int rc = fetch_source(a, identity, dir, out, err);
    cay__oneshot_close(a->o);
    free(a);
    return rc;
}

static int with_url(cay_client *client, const cay_call *call, const cay_url *given,
                    int (*fn)(ask *a, void *arg, cay_err *err), void *arg, cay_err *err)
{
    cay_url own, *spec = &own;
    CAY_TRY(cay__spec_take(&own, sizeof own, given, "cay_url", err));
    if (!spec->url)
        return cay_fail_why(err, CAY_EINVAL, "url_invalid", "no URL");
    cay__fetch_source f = {
        .kind = CAY__SOURCE_FILE, .url = spec->url, .net = spec->net, .max_bytes = spec->max_bytes
    };
    ask *a = cay__alloc(sizeof *a);
    *a = (ask){ .client = client, .call = call, .f = &f };
    int rc = fn(a, arg, err);
    cay__oneshot_close(a->o);
    free(a);
    return rc;
}

typedef struct moved {
    int fd;
    uint64_t bytes;
} moved;

static int download_url(ask *a, void *arg, cay_err *err)
{
    moved *m = arg;
    reply r;
    CAY_TRY(download_body(a, &r, &m->fd, err));
    m->bytes = r.bytes;
    return 0;
}

int cay_url_get(cay_client *client, const cay_call *call, const cay_url *spec, int *fd,
                uint64_t *bytes, cay_err *err)
{
    moved m = { -1, 0 };
    CAY_TRY(with_url(client, call, spec, download_url, &m, err));
    *fd = m.fd;
    if (bytes)
        *bytes = m.bytes;
    return 0;
}

static int upload_url(ask *a, void *arg, cay_err *err)
{
    moved *m = arg;
    reply r;
    CAY_TRY(start_sandbox(a, err));
    CAY_TRY(send_request(a, "put", m->bytes, m->fd, &r, -1, err));
    if (r.status >= 200 && r.status < 300)
        return 0;
    return cay_fail_why(err, CAY_EUPSTREAM, "fetch_status", "%.120s: the server answered %u",
                        a->f->url, r.status);
}

int cay_url_put(cay_client *client, const cay_call *call, const cay_url *spec, int fd, uint64_t len,
                cay_err *err)
{
    moved m = { fd, len };
    return with_url(client, call, spec, upload_url, &m, err);
}
