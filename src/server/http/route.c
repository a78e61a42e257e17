/* SPDX-License-Identifier: Apache-2.0 */
/* From a request to the row that answers it, and from an error to its answer. */
#include "connection.h"
#include <server/telemetry.h>
#include "limits.h"
#include <base/base.h>
#include <strings.h>

cay__req *cay__req_new(cay__server *s)
{
    struct both {
        cay__req r;
        cay__reply_state a;
    } *b = malloc(sizeof *b);
    if (!b)
        abort();
    memset(&b->r, 0, offsetof(cay__req, head));
    memset(&b->r.head, 0, offsetof(cay__head, fields));
    memset((char *)&b->r + offsetof(cay__req, param), 0, sizeof b->r - offsetof(cay__req, param));
    memset(&b->a, 0, sizeof b->a);
    b->a.fields.max = CAY__HEAD_MAX;
    b->r.server = s;
    b->r.reply = &b->a;
    return &b->r;
}

void cay__req_reset(cay__req *r)
{
    cay__reply_state *a = r->reply;
    while (a->deferred) {
        struct cay__deferred *d = a->deferred;
        a->deferred = d->next;
        d->fn(d->p);
        free(d);
    }
    cay__head_clear(&r->head);
    cay__arena_clear(&r->arena);
    cay__buf_clear(&a->fields);
    r->dialect = NULL;
    r->route = NULL;
    r->conn = NULL;
    r->as_host = NULL; /* it was in the arena */
    r->as_tls = false;
    memset(r->param, 0, sizeof r->param);
    memset(&r->who, 0, sizeof r->who);
    r->shown = NULL; /* it was in the head */
    r->admitted = NULL;
    r->sb = NULL;
    memset(a, 0, sizeof *a);
    a->fields.max = CAY__HEAD_MAX;
}

void cay__req_free(cay__req *r)
{
    cay__req_reset(r);
    free(r); /* it is the first of both */
}

void cay__req_defer(cay__req *r, void (*fn)(void *p), void *p)
{
    struct cay__deferred *d = cay__alloc(sizeof *d);
    *d = (struct cay__deferred){ .next = r->reply->deferred, .fn = fn, .p = p };
    r->reply->deferred = d;
}

static bool is_path_below(const char *path, const char *base, const char **rest)
{
    size_t n = strlen(base);
    *rest = path + n;
    return !strncmp(path, base, n) && (!path[n] || path[n] == '/');
}

/* By Host or header: before previews, some of whose host names mean a protocol's own ports. */
static const cay__dialect *first_dialect(cay__req *r)
{
    const cay__dialect *root = r->conn->via->root;
    for (const cay__dialect *const *d = root ? root->with : cay__dialects; d && *d; d++)
        if ((*d)->first && (*d)->first(r))
            return *d;
    return NULL;
}

/* Decision by listener, base path, and path that nobody else has, in this order. */
static const cay__dialect *find_dialect(cay__req *r, const char **rest)
{
    *rest = r->head.path;
    if (r->conn->via->root)
        return r->conn->via->root;
    for (const cay__dialect *const *d = cay__dialects; *d; d++)
        if ((*d)->base && *(*d)->base && is_path_below(r->head.path, (*d)->base, rest))
            return *d;
    *rest = r->head.path;
    for (const cay__dialect *const *d = cay__dialects; *d; d++)
        if ((*d)->also && (*d)->also(r))
            return *d;
    for (const cay__dialect *const *d = cay__dialects; *d; d++)
        if ((*d)->base && !*(*d)->base)
            return *d;
    return NULL;
}

/* "." and ".." mean something else to other programs, however they are written. */
static bool is_dot_segment(const char *seg, size_t n)
{
    return (n == 1 && seg[0] == '.') || (n == 2 && seg[0] == '.' && seg[1] == '.');
}

static bool rest_sound(const char *p)
{
    for (;;) {
        size_t n = strcspn(p, "/");
        if (is_dot_segment(p, n))
            return false;
        if (!p[n])
            return true;
        p += n + 1;
    }
}

/* One segment of a path, decoded into the request. */
static int take_param(cay__req *r, size_t i, const char *s, size_t n, bool rest, cay_err *err)
{
    char *v = cay__arena_take(&r->arena, n + 1);
    if (!cay__url_decode(s, n, false, v))
        return cay_fail_why(err, CAY_EINVAL, "path_syntax", "the path has a broken %%-sequence");
    if (rest ? !rest_sound(v) : is_dot_segment(v, strlen(v)) || strchr(v, '/') != NULL)
        return cay_fail_why(err, CAY_EINVAL, "path_syntax",
                            "the path has a \".\", a \"..\" or a hidden slash");
    r->param[i] = v;
    return 0;
}

/* 1: it fits; 0: it does not; negative: it would, but what stands for a {name} is wrong. */
static int match_pattern(cay__req *r, const char *pattern, const char *path, cay_err *err)
{
    size_t np = 0;
    if (!pattern)
        return 1;
    while (*pattern) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return 0;
            continue;
        }
        size_t name = strcspn(pattern, "}"), n;
        bool rest = pattern[name - 1] == '*';
        if (rest)
            n = strlen(path);
        else
            n = strcspn(path, "/");
        if (!rest && !n)
            return 0;
        if (np == CAY_LEN(r->param))
            return 0;
        pattern += name + 1;
        if (!rest && *pattern != path[n])
            return 0; /* not decoded for nothing */
        CAY_TRY(take_param(r, np++, path, n, rest, err));
        path += n;
    }
    return !*path;
}

static bool method_fits(const char *want, const char *method)
{
    return !strcmp(want, "*") || !strcmp(want, method) ||
           (!strcmp(want, "GET") && !strcmp(method, "HEAD"));
}

int cay__route_find(cay__req *r, cay_err *err)
{
    const char *rest;
    char allow[160] = "";
    int wrong = 0;
    cay_err first = CAY_ERR_INIT;
    r->dialect = first_dialect(r);
    /* By Host on a protocol's own listener, too: the addresses that it gives out name it. The
     * port's token is asked for there as everywhere, --as or not. */
    if (!r->dialect && (r->route = cay__preview_route(r->server, &r->head, !r->conn->via->root))) {
        r->dialect = &cay__preview_dialect;
        return 0;
    }
    rest = r->head.path;
    if (!r->dialect)
        r->dialect = find_dialect(r, &rest);
    if ((r->route = cay__cors_preflight(r)))
        return 0;
    for (size_t i = 0; r->dialect && i < r->dialect->nroutes; i++) {
        const cay__route *row = &r->dialect->routes[i];
        bool method = method_fits(row->op->method, r->head.method);
        int fit = match_pattern(r, row->op->path, rest, wrong ? NULL : &first);
        if (fit > 0 && method) {
            r->route = row;
            return 0;
        }
        if (fit < 0 && method)
            wrong = fit;
        size_t used = strlen(allow);
        if (fit > 0 && !strstr(allow, row->op->method))
            snprintf(allow + used, sizeof allow - used, "%s%s", used ? ", " : "", row->op->method);
    }
    if (wrong) {
        *err = first;
        return wrong;
    }
    if (*allow) {
        cay__reply_field(r, "Allow", allow);
        return cay_fail_why(err, CAY_EINVAL, "method_not_allowed", "%.40s is not answered here: %s",
                            r->head.method, allow);
    }
    return cay_fail_why(err, CAY_ENOENT, "no_such_route", "nothing is served at this path");
}

void cay__route_fail(cay__req *r, const cay_err *err)
{
    cay__log_error(r, err);
    if (r->reply->status) { /* it is too late to say so */
        r->conn->keep = false;
        r->conn->cut = true;
    } else if (r->dialect && r->dialect->fail) {
        r->dialect->fail(r, err);
    } else {
        cay__reply_problem(r, err);
    }
}

/* A filter that cannot be read would be one that is not there. */
static int sound_query(cay__req *r, cay_err *err)
{
    size_t n = strlen(r->head.query);
    if (!n || cay__url_decode(r->head.query, n, true, cay__arena_take(&r->arena, n + 1)))
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "bad_query",
                        "the query has a broken %%-sequence, or a zero byte");
}

/* Who asks, and whether they may: for every dialect, and before any handler. Previews have rules of
 * their own about Host and Origin. */
static int authorize_request(cay__req *r, cay_err *err)
{
    if (!(r->route->op->flags & CAY__OP_LOOP))
        cay__trace_begin(r);
    if (r->dialect == &cay__preview_dialect)
        return r->dialect->admit(r, err);
    CAY_TRY(cay__auth(r, err));
    if (r->reply->status)
        return 0;
    if (r->dialect && r->dialect->admit)
        CAY_TRY(r->dialect->admit(r, err));
    else
        CAY_TRY(cay__admit(r, err));
    return sound_query(r, err);
}

/* A worker would have to wait for its body. */
static bool is_upload(const cay__req *r)
{
    return (r->route->op->flags & CAY__OP_RAW) && r->head.body != CAY__BODY_NONE &&
           r->dialect != &cay__preview_dialect;
}

/* Whoever asks, a sandbox starts with the rights that it was made with: so that comes first. */
static int find_sandbox(cay__req *r, cay_err *err)
{
    unsigned flags = r->route->op->flags;
    if (flags & CAY__OP_FIND)
        CAY_TRY(cay__req_sandbox(r, r->param[0], &r->sb, err));
    if (flags & CAY__OP_WAKE)
        CAY_TRY(cay_sandbox_wake(r->sb, &r->call, err));
    if (flags & CAY__OP_USER)
        r->call.user = cay__req_query(r, "user");
    return 0;
}

bool cay__route_run(cay__req *r)
{
    cay_err err = CAY_ERR_INIT;
    int rc = 0;
    if (!r->reply->turn)
        rc = authorize_request(r, &err);
    if (rc == 0 && !r->reply->status && !r->reply->turn && is_upload(r) && !cay__uploads_enter(r))
        return false;
    if (rc == 0 && !r->reply->status)
        rc = find_sandbox(r, &err);
    if (rc == 0 && !r->reply->status)
        rc = r->route->fn(r, &err);
    if (rc == 0 && !r->reply->status)
        rc = cay_fail_why(&err, CAY_ESYS, "no_answer", "the handler gave no answer");
    if (rc < 0 && !cay__once_replay(r))
        cay__route_fail(r, &err);
    cay__once_end(r);
    cay__audit_request(r);
    return true;
}

const char *cay__req_key(cay__req *r)
{
    const char *v;
    if (r->dialect && r->dialect->key && (v = r->dialect->key(r)))
        return v;
    v = cay__head_field(&r->head, "authorization");
    if (v && !strncasecmp(v, "bearer ", 7))
        return v + 7 + strspn(v + 7, " ");
    return cay__head_field(&r->head, "x-api-key");
}
