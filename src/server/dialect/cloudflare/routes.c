/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes, files, archives, sessions and tunnels of the bridge. */
#include "cloudflare.h"
#include <base/path.h>
#include <ctype.h>
#include <server/preview/preview.h>

CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref)
CAY_DEFINE_AUTO(cay_upload, cay_upload_abort)

int cf_path(cay__req *r, const char *given, const char **out, cay_err *err)
{
    size_t cap = strlen(given) + 3;
    char *to = cay__arena_take(&r->arena, cap);
    cay__path_clean("", given, to, cap);
    if (!*given)
        return cay_fail(err, CAY_EINVAL, "the path is empty");
    if (strncmp(to, CF_ROOT, sizeof CF_ROOT - 1) ||
        (to[sizeof CF_ROOT - 1] && to[sizeof CF_ROOT - 1] != '/'))
        return cay_fail(err, CAY_EPERM, "the path leaves " CF_ROOT);
    *out = to;
    return 0;
}

int cf_ok(cay__req *r, cay_err *err)
{
    return cay__reply_pack(r, 200, "{s:b}", "ok", true);
}

int cf_as(int rc, cay_reason reason, cay_err *err)
{
    if (rc < 0 && rc != CAY_EINVAL && rc != CAY_EPERM && rc != CAY_EGONE && rc != CAY_ETOOBIG) {
        err->code = CAY_EUPSTREAM;
        CAY_COPY(err->reason, cay_reason_word(reason));
        return CAY_EUPSTREAM;
    }
    return rc;
}

static int on_create(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    const cay_policy open = { .size = sizeof open,
                              .mode = CAY_NET_ALL }; /* as the bridge's containers have it */
    CAY_AUTOFREE char *net = NULL;
    CAY_TRY(cay_policy_text(&open, &net, err));
    cay_create c = { .size = sizeof c,
                     .tenant = r->who.tenant,
                     .net.policy = net,
                     .net.is_default = true,
                     .metadata = "{\"dialect\":\"cloudflare\"}" };
    CAY_TRY(cay__create_sudo(r, &c, &sb, err));
    return cay__reply_pack(r, 200, "{s:s}", "id", cay_sandbox_id(sb));
}

static int on_delete(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    int rc = cay__req_sandbox(r, r->param[0], &sb, err);
    if (rc == 0)
        rc = cay_sandbox_remove(sb, &r->call, err);
    if (rc < 0 && rc != CAY_ENOENT)
        return rc;
    return cay__reply_empty(r, 204);
}

static int on_running(cay__req *r, cay_err *err)
{
    cay_info *i;
    CAY_TRY(cay_sandbox_describe(r->sb, &r->call, &i, err));
    bool running = i->state == CAY_RUNNING;
    cay_info_free(i);
    return cay__reply_pack(r, 200, "{s:b}", "running", running);
}

static int on_file_get(cay__req *r, cay_err *err)
{
    const char *path;
    cay_stat st = { .size_of = sizeof st };
    int fd;
    CAY_TRY(cf_path(r, r->param[1], &path, err));
    int rc = cay_file_stat(r->sb, &r->call, path, true, &st, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, CAY_ENOENT, "workspace_read_not_found", "%.150s is not there",
                            path);
    CAY_TRY(cf_as(rc, CAY_REASON_EXEC_TRANSPORT_ERROR, err));
    CAY_TRY(cf_as(cay__file_open(r, r->sb, path, NULL, &st, &fd, err),
                  CAY_REASON_EXEC_TRANSPORT_ERROR, err));
    return cay__reply_fd(r, 200, "application/octet-stream", fd, (int64_t)st.size);
}

/* The body into a file; the whole of it or nothing. */
static int write_body_file(cay__req *r, const char *path, uint64_t *n, cay_err *err)
{
    const cay_write spec = { .size = sizeof spec, .parents = true };
    CAY_AUTOPTR(cay_upload) up = NULL;
    if (r->head.body == CAY__BODY_LENGTH && r->head.length > CF_BODY_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "payload_too_large", "a body has at most 32 MiB");
    CAY_TRY(cay_file_open_write(r->sb, &r->call, path, &spec, &up, err));
    CAY_TRY(cay__req_to_fd(r, cay_upload_fd(up), CF_BODY_MAX, n, err));
    return cay_upload_commit(CAY_STEAL(up), &r->call, err);
}

static int on_file_put(cay__req *r, cay_err *err)
{
    const char *path;
    uint64_t n;
    CAY_TRY(cf_path(r, r->param[1], &path, err));
    CAY_TRY(
        cf_as(write_body_file(r, path, &n, err), CAY_REASON_WORKSPACE_ARCHIVE_WRITE_ERROR, err));
    return cf_ok(r, err);
}

static int run_tar(cay__req *r, const char *const *argv, const char *reason, cay_err *err)
{
    const cay_spawn s = { .size = sizeof s, .argv = argv, .cwd = CF_ROOT };
    cay_result res = { .size = sizeof res };
    CAY_TRY(cay_sandbox_run(r->sb, &r->call, &s, NULL, 0, 4096, &res, err));
    int rc = 0;
    if (res.exit.code)
        rc = cay_fail_why(err, CAY_EUPSTREAM, reason, "tar: status %d: %.150s", res.exit.code,
                          res.errout);
    cay_result_clear(&res);
    return rc;
}

/* Written beside first, inside: so what is answered is whole, and an error is an error. */
static int on_persist(cay__req *r, cay_err *err)
{
    char file[64];
    const char *argv[128] = { "tar", "-C", CF_ROOT, "--one-file-system", "-c", "-f", file },
               *q = cay__req_query(r, "excludes");
    char *s = cay__arena_str(&r->arena, CAY_OR(q, "")), *save = NULL;
    size_t n = 7;
    cay_stat st = { .size_of = sizeof st };
    int fd;
    CAY_FORMAT(file, "/tmp/.cay-persist-%s", r->id);
    for (char *one = strtok_r(s, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
        if (strstr(one, ".."))
            return cay_fail(err, CAY_EINVAL, "an exclude has \"..\" in it");
        if (n + 3 >= CAY_LEN(argv))
            return cay_fail(err, CAY_EINVAL, "at most 100 excludes");
        argv[n++] = cay__req_text(r, "--exclude=./%s", one);
    }
    argv[n] = "."; /* NULL follows */
    int rc = run_tar(r, argv, "workspace_archive_read_error", err);
    if (rc == 0)
        rc = cay_file_stat(r->sb, &r->call, file, true, &st, err);
    if (rc == 0)
        rc = cay_file_open_read(r->sb, &r->call, file, NULL, &fd, err);
    cay_file_remove(r->sb, &r->call, file, false, NULL); /* what is open is read to its end */
    CAY_TRY(rc);
    return cay__reply_fd(r, 200, "application/x-tar", fd, (int64_t)st.size);
}

/* Unpacked inside, where names that leave reach nothing of ours. */
static int on_hydrate(cay__req *r, cay_err *err)
{
    char file[64];
    uint64_t n = 0;
    const char *argv[] = { "tar", "-C", CF_ROOT, "-x", "-f", file, NULL };
    CAY_FORMAT(file, "/tmp/.cay-hydrate-%s", r->id);
    int rc = write_body_file(r, file, &n, err);
    if (rc == CAY_ETOOBIG || (rc == 0 && !n))
        rc = cay_fail(err, CAY_EINVAL,
                      rc ? "an archive has at most 32 MiB" : "the archive is empty");
    if (rc == 0)
        rc = run_tar(r, argv, "workspace_archive_write_error", err);
    cay_file_remove(r->sb, &r->call, file, false, NULL);
    CAY_TRY(rc);
    return cf_ok(r, err);
}

static int read_port(cay__req *r, uint16_t *port, cay_err *err)
{
    char *end;
    unsigned long p = 0;
    if (isdigit((unsigned char)*r->param[1]))
        p = strtoul(r->param[1], &end, 10);
    if (p < 1024 || p > 65535 || *end || p == 3000) /* that one is the bridge's own */
        return cay_fail(err, CAY_EINVAL, "a port is a number from 1024 to 65535, and not 3000");
    *port = (uint16_t)p;
    return 0;
}

/* A label of DNS; it is told again, and the address stays the port's. */
static int tunnel_name(cay__req *r, const char **out, cay_err *err)
{
    json_t *in;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    const json_t *v = json_object_get(in, "name");
    const char *s = CAY_OR(json_string_value(v), "");
    size_t n = strlen(s);
    *out = json_string_value(v);
    if (!v || json_is_null(v))
        return 0;
    if (n < 1 || n > 63 || strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != n || s[0] == '-' ||
        s[n - 1] == '-')
        return cay_fail(err, CAY_EINVAL,
                        "a tunnel's name is 1 to 63 letters a to z, digits or '-', which is "
                        "neither first nor last");
    return 0;
}

static int on_tunnel(cay__req *r, cay_err *err)
{
    uint16_t port;
    const char *name;
    cay_exposed e = { .size = sizeof e };
    char host[200];
    const char *colon = strrchr(r->head.host, ':');
    CAY_TRY(read_port(r, &port, err));
    CAY_TRY(tunnel_name(r, &name, err));
    CAY_TRY(cf_as(cay_port_expose(r->sb, port, 0, &e, err), CAY_REASON_TUNNEL_ERROR, err));
    CAY_FORMAT(host, "%u-%s.%.100s%.7s", port, cay_sandbox_id(r->sb), cay__server_domain(r->server),
               colon && !strchr(colon, ']') ? colon : "");
    return cay__reply_pack(
        r, 200, "{s:s,s:i,s:o,s:s,s:I,s:s*}", "id", cay_sandbox_id(r->sb), "port", port, "url",
        json_sprintf("%s://%s/?" CAY__PREVIEW_TOKEN "=%s", cay__scheme(r->tls), host, e.token),
        "hostname", host, "createdAt", (json_int_t)e.created_ms, "name", name);
}

static int on_tunnel_end(cay__req *r, cay_err *err)
{
    uint16_t port;
    CAY_TRY(read_port(r, &port, err));
    int rc = cay_port_unexpose(r->sb, port, err);
    if (rc < 0 && rc != CAY_ENOENT)
        return cf_as(rc, CAY_REASON_TUNNEL_ERROR, err);
    return cay__reply_empty(r, 204);
}

/* What is beside sandboxes: the pool, and the description of all of it. */

static int on_list_sandbox(const cay_info *i, void *arg)
{
    ++*(json_int_t *)arg;
    return 0;
}

/* Sandboxes are made ahead of time below, for everybody: none of them is a tenant's before it asks.
 */
static int on_pool_stats(cay__req *r, cay_err *err)
{
    json_int_t n = 0;
    const cay_filter f = { .size = sizeof f,
                           .tenant = cay__req_tenant(r),
                           .states = 1u << CAY_RUNNING };
    CAY_TRY(cay_client_list(r->client, &r->call, &f, on_list_sandbox, &n, err));
    return cay__reply_pack(r, 200, "{s:i,s:I,s:I,s:{s:i,s:i},s:i}", "warm", 0, "assigned", n,
                           "total", n, "config", "warmTarget", 0, "refreshInterval", 10000,
                           "maxInstances", 0);
}

static json_t *describe_api(void)
{
    return cay__openapi(&cay__dialect_cloudflare, "Cloudflare sandbox bridge, by cay");
}

static int on_openapi(cay__req *r, cay_err *err)
{
    return cay__reply_json(r, 200, describe_api());
}

static int on_openapi_page(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *o = describe_api();
    CAY_AUTOFREE char *text = json_dumps(o, JSON_INDENT(2));
    CAY_AUTOBUF b = CAY__BUF((size_t)1 << 20);
    cay__buf_str(
        &b, "<!doctype html><meta charset=\"utf-8\"><title>Cloudflare sandbox bridge</title><pre>");
    for (const char *c = CAY_OR(text, ""); *c; c++) {
        if (*c == '<')
            cay__buf_str(&b, "&lt;");
        else if (*c == '&')
            cay__buf_str(&b, "&amp;");
        else
            cay__buf_add(&b, c, 1);
    }
    cay__buf_str(&b, "</pre>");
    if (b.full)
        return cay_fail(err, CAY_ETOOBIG, "the document is too long");
    return cay__reply(r, 200, "text/html; charset=utf-8", b.data, b.len);
}

#define GIVES(status, type_) .answers = { { status, .type = type_ } }
#define GIVES_JSON           GIVES(200, "application/json")

static const cay__route routes[] = {
    CAY__ROUTE("GET", "/health", cf_ok, CAY__OP_OPEN, "health", "sandbox", "is the server well",
               GIVES_JSON),
    CAY__ROUTE("POST", "/v1/sandbox", on_create, CAY__OP_CREATE, "createSandbox", "sandbox",
               "make a sandbox", GIVES_JSON),
    CAY__ROUTE("DELETE", "/v1/sandbox/{id}", on_delete, 0, "deleteSandbox", "sandbox",
               "end one; fine when there is none", GIVES(204, NULL)),
    CAY__ROUTE("GET", "/v1/sandbox/{id}/running", on_running, CAY__OP_FIND, "isRunning", "sandbox",
               "does it run", GIVES_JSON, .fails = CAY__E404),
    CAY__ROUTE("POST", "/v1/sandbox/{id}/exec", cf_exec, CAY__OP_FIND, "exec", "sandbox",
               "run a command; its output and end as events", GIVES(200, "text/event-stream"),
               .fails = CAY__E400 | CAY__E404),
    CAY__ROUTE("GET", "/v1/sandbox/{id}/file/{path*}", on_file_get, CAY__OP_FIND, "readFile",
               "sandbox", "a file below /workspace", GIVES(200, "application/octet-stream"),
               .fails = CAY__E404),
    CAY__ROUTE("PUT", "/v1/sandbox/{id}/file/{path*}", on_file_put, CAY__OP_FIND | CAY__OP_RAW,
               "writeFile", "sandbox", "write one, at most 32 MiB", GIVES_JSON, .fails = CAY__E404),
    CAY__ROUTE("POST", "/v1/sandbox/{id}/persist", on_persist, CAY__OP_FIND, "persist", "sandbox",
               "/workspace as a tar", GIVES(200, "application/x-tar"),
               .fails = CAY__E400 | CAY__E404),
    CAY__ROUTE("POST", "/v1/sandbox/{id}/hydrate", on_hydrate, CAY__OP_FIND | CAY__OP_RAW,
               "hydrate", "sandbox", "unpack a tar there", GIVES_JSON,
               .fails = CAY__E400 | CAY__E404),
    CAY__ROUTE("GET", "/v1/sandbox/{id}/pty", cf_pty, CAY__OP_FIND, "pty", "sandbox",
               "a terminal, as a WebSocket", GIVES(101, NULL), .fails = CAY__E400 | CAY__E404),
    CAY__ROUTE("POST", "/v1/sandbox/{id}/session", cf_session, CAY__OP_FIND, "createSession",
               "sandbox", "a shell that stays", GIVES_JSON, .fails = CAY__E400 | CAY__E404),
    CAY__ROUTE("DELETE", "/v1/sandbox/{id}/session/{sid}", cf_session_end, CAY__OP_FIND,
               "deleteSession", "sandbox", "end it", GIVES_JSON, .fails = CAY__E400 | CAY__E404),
    CAY__ROUTE("POST", "/v1/sandbox/{id}/tunnel/{port}", on_tunnel, CAY__OP_FIND, "createTunnel",
               "sandbox", "an address for a port", GIVES_JSON, .fails = CAY__E400 | CAY__E404),
    CAY__ROUTE("DELETE", "/v1/sandbox/{id}/tunnel/{port}", on_tunnel_end, CAY__OP_FIND,
               "deleteTunnel", "sandbox", "take it away", GIVES(204, NULL),
               .fails = CAY__E400 | CAY__E404),
    CAY__ROUTE("POST", "/v1/sandbox/{id}/mount", cf_mount, CAY__OP_FIND, "mount", "sandbox",
               "a bucket into a sandbox that runs", GIVES_JSON,
               .fails = CAY__E400 | CAY__E403 | CAY__E404 | CAY__E502),
    CAY__ROUTE("POST", "/v1/sandbox/{id}/unmount", cf_unmount, CAY__OP_FIND, "unmount", "sandbox",
               "and away again, once all is written", GIVES_JSON,
               .fails = CAY__E400 | CAY__E404 | CAY__E502),
    CAY__ROUTE("GET", "/v1/pool/stats", on_pool_stats, 0, "poolStats", "sandbox",
               "how many sandboxes there are", GIVES_JSON),
    CAY__ROUTE("POST", "/v1/pool/prime", cf_ok, 0, "poolPrime", "sandbox",
               "nothing is to be done: sandboxes are made ahead of time anyway", GIVES_JSON),
    CAY__ROUTE("POST", "/v1/pool/shutdown-prewarmed", cf_ok),
    CAY__ROUTE("GET", "/v1/openapi.json", on_openapi),
    CAY__ROUTE("GET", "/v1/openapi", on_openapi),
    CAY__ROUTE("GET", "/v1/openapi.html", on_openapi_page),
};

static const struct {
    int code, status;
    const char *word;
} errors[] = {
    { CAY_EINVAL, 400, "invalid_request" },     { CAY_EAUTH, 401, "unauthorized" },
    { CAY_EPERM, 403, "invalid_request" },      { CAY_ENOENT, 404, "not_found" },
    { CAY_ETYPE, 400, "invalid_request" },      { CAY_ETOOBIG, 413, "payload_too_large" },
    { CAY_ERATE, 429, "rate_limited" },         { CAY_EBUSY, 503, "capacity_exceeded" },
    { CAY_ENOSPACE, 503, "capacity_exceeded" }, { CAY_EISOLATION, 503, "capacity_exceeded" },
};

static int reply_error(cay__req *r, const cay_err *err)
{
    int status = 502;
    const char *word = "exec_transport_error";
    CAY_EACH(error, errors)
        if (error->code == err->code) {
            status = error->status;
            word = error->word;
        }
    static const cay_reason own[] = { CAY_REASON_WORKSPACE_READ_NOT_FOUND,
                                      CAY_REASON_WORKSPACE_ARCHIVE_READ_ERROR,
                                      CAY_REASON_WORKSPACE_ARCHIVE_WRITE_ERROR,
                                      CAY_REASON_MOUNT_ERROR,
                                      CAY_REASON_UNMOUNT_ERROR,
                                      CAY_REASON_SESSION_ERROR,
                                      CAY_REASON_TUNNEL_ERROR,
                                      CAY_REASON_PAYLOAD_TOO_LARGE };
    CAY_EACH(it, own)
        if (cay_err_is(err, *it))
            word = cay_reason_word(*it);
    return cay__reply_pack(r, status, "{s:s,s:s}", "error", err->msg, "code", word);
}

/* Where a client cannot set fields of a WebSocket's request, its key comes as a query, on that
 * route alone. */
static const char *read_query_key(cay__req *r)
{
    const char *q = NULL;
    if (r->route && r->route->fn == cf_pty)
        q = cay__req_query(r, "authorization");
    if (r->route && (r->route->fn == on_openapi || r->route->fn == on_openapi_page))
        return cay__req_query(r, "token");
    if (q && !strncasecmp(q, "bearer ", 7))
        return q + 7;
    return NULL;
}

static bool is_own_path(cay__req *r)
{
    static const char *const begins[] = { "/v1/sandbox/", "/v1/pool/", "/v1/openapi" };
    CAY_EACH(begin, begins)
        if (cay__str_starts(r->head.path, *begin))
            return true;
    return !strcmp(r->head.path, "/v1/sandbox");
}

/* An id that can be none is bad input, before anybody looks for it. */
static int admit_bridge(cay__req *r, cay_err *err)
{
    const char *id = r->param[0];
    CAY_TRY(cay__admit(r, err));
    if (!cay__str_starts(r->route->op->path, "/v1/sandbox/"))
        return 0;
    size_t n = strlen(id);
    if (n >= 1 && n <= 128 && strspn(id, "abcdefghijklmnopqrstuvwxyz234567") == n)
        return 0;
    return cay_fail(err, CAY_EINVAL, "a sandbox's id is 1 to 128 letters a to z and digits 2 to 7");
}

const cay__dialect cay__dialect_cloudflare = { .name = "cloudflare",
                                               .base = "/cloudflare",
                                               .routes = routes,
                                               .nroutes = CAY_LEN(routes),
                                               .admit = admit_bridge,
                                               .fail = reply_error,
                                               .key = read_query_key,
                                               .also = is_own_path };
