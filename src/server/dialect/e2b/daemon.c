/* SPDX-License-Identifier: Apache-2.0 */
/* What SDKs believe to be a daemon inside the sandbox: which sandbox, whose token, as which user.
 */
#include "e2b.h"
#include <base/base64.h>
#include <ctype.h>
#include <time.h>

/* "PORT-ID.…" as the first label of the host. */
static bool from_host(const char *host, unsigned *port, char id[CAY_ID_LEN + 1])
{
    char *end;
    if (!isdigit((unsigned char)*host))
        return false;
    unsigned long p = strtoul(host, &end, 10);
    if (*end != '-' || p > 65535)
        return false;
    size_t n = strcspn(end + 1, ".");
    if (n != CAY_ID_LEN || end[1 + n] != '.')
        return false;
    memcpy(id, end + 1, n);
    id[n] = 0;
    *port = (unsigned)p;
    return true;
}

/* By header, or by the host's first label. */
static bool find_address(const cay__head *h, unsigned *port, char id[CAY_ID_LEN + 1])
{
    const char *s = cay__head_field(h, "e2b-sandbox-id"),
               *p = cay__head_field(h, "e2b-sandbox-port");
    if (!s)
        return from_host(h->host, port, id);
    size_t n = strcspn(s, "-");
    if (n != CAY_ID_LEN || !p)
        return false;
    memcpy(id, s, n);
    id[n] = 0;
    *port = (unsigned)strtoul(p, NULL, 10);
    return true;
}

typedef struct sign {
    const char *sig, *path, *op, *user, *exp;
    unsigned char key[32]; /* for by_signature() */
    char id[CAY_ID_LEN + 1];
} sign;

static bool read_sign(cay__req *r, sign *s)
{
    const char *path = cay__req_query(r, "path"), *user = cay__req_query(r, "username");
    *s = (sign){ .sig = cay__req_query(r, "signature"),
                 .path = CAY_OR(path, ""),
                 .op = strcmp(r->head.method, "POST") ? "read" : "write",
                 .user = CAY_OR(user, ""),
                 .exp = cay__req_query(r, "signature_expiration") };
    return s->sig;
}

static bool has_valid_signature(const sign *s, const char *token)
{
    char want[64];
    e2b_signature(s->path, s->op, s->user, token, s->exp, want);
    return e2b_same(want, s->sig);
}

static int try_signature(const cay_info *i, void *arg)
{
    sign *s = arg;
    char token[E2B_TOKEN_LEN + 1];
    if (e2b_token_by(s->key, "envd", i->id, token, NULL) < 0 || !has_valid_signature(s, token))
        return 0;
    CAY_COPY(s->id, i->id);
    return 1;
}

/* A URL that was signed for a server with one address has neither header nor label: the signature
 * itself tells whose it is. */
static bool by_signature(cay__req *r, char id[CAY_ID_LEN + 1])
{
    sign s;
    if (!read_sign(r, &s) || e2b_secret(r, s.key, NULL) < 0 ||
        cay_client_list(r->client, &r->call, NULL, try_signature, &s, NULL) != 1)
        return false;
    cay__str_copy(id, CAY_ID_LEN + 1, s.id);
    return true;
}

/* The header's token, or where that is allowed the signature of this very request. A token that is
 * there and wrong is not made good by one. */
static int check_access(cay__req *r, unsigned flags, const char *id, cay_err *err)
{
    const char *given = cay__head_field(&r->head, "x-access-token");
    char token[E2B_TOKEN_LEN + 1];
    sign s;
    CAY_TRY(e2b_token(r, "envd", id, token, err));
    if (given && e2b_same(given, token))
        return 0;
    if (flags & E2B_TRAFFIC)
        given = cay__head_field(&r->head, "e2b-traffic-access-token");
    if (flags & E2B_TRAFFIC)
        CAY_TRY(e2b_token(r, "traffic", id, token, err));
    if (flags & E2B_TRAFFIC && given && e2b_same(given, token))
        return 0;
    if (given || !(flags & E2B_SIGNED) || !read_sign(r, &s))
        return cay_fail(err, CAY_EAUTH,
                        "unauthorized access, please provide a valid access token or method "
                        "signing if supported");
    if (!has_valid_signature(&s, token))
        return cay_fail(err, CAY_EAUTH, "invalid signature");
    if (s.exp && e2b_expired(s.exp, (long long)time(NULL)))
        return cay_fail(err, CAY_EAUTH, "signature is already expired");
    return 0;
}

static int not_there(cay_err *err)
{
    return cay_fail_why(err, CAY_EUPSTREAM, "sandbox_not_found", "The sandbox was not found");
}

bool e2b_dead(const cay_err *err)
{
    return err->code == CAY_EGONE || err->code == CAY_ESTATE;
}

static const char *home_of(const char *user)
{
    if (!strcmp(user, "root"))
        return "/root";
    return CAY_IF(!strcmp(user, "user"), "/home/user");
}

/* Files and commands of a request are this user's from here on; who it is, is looked for inside
 * when a path needs its home. */
void e2b_as(cay__req *r, e2b_daemon *d, const char *user)
{
    if (!user || !*user)
        return;
    d->user = r->call.user = user;
    d->home = home_of(user);
}

static bool is_rpc(const cay__req *r)
{
    return cay__str_starts(r->head.path, "/process.") ||
           cay__str_starts(r->head.path, "/filesystem.");
}

/* Authorization: Basic USER: names whom RPCs run as. Of files the query names it, which a signature
 * covers; code is the sandbox's own user's, as ports are. */
static int read_user(cay__req *r, e2b_daemon *d, cay_err *err)
{
    const char *a = cay__head_field(&r->head, "authorization");
    CAY_AUTOBUF b = CAY__BUF(256);
    if (!is_rpc(r) || !a || strncasecmp(a, "basic ", 6))
        return 0;
    if (!cay__base64_get(&b, a + 6, strlen(a + 6)) || b.full || !b.data)
        return cay_fail(err, CAY_EAUTH, "the Authorization field is not sound");
    b.data[strcspn(b.data, ":")] = 0;
    e2b_as(r, d, cay__arena_str(&r->arena, b.data));
    return 0;
}

/* The home of whoever is neither root nor user, as the sandbox's own accounts tell it. Nobody's is
 * the root. */
static const char *find_home(cay__req *r, const e2b_daemon *d)
{
    const char *who = CAY_OR(d->user, d->default_user);
    char home[256];
    CAY_AUTOFREE char *text = NULL;
    size_t len = 0;
    if (cay_file_get(d->sb, &r->call, "/etc/passwd", E2B_ACCOUNTS_MAX, &text, &len, NULL) < 0)
        return "";
    bool there = e2b_account(text, len, 0, who, 5, home, sizeof home) ||
                 e2b_account(text, len, 2, who, 5, home, sizeof home);
    if (there && strcmp(home, "/"))
        return cay__arena_str(&r->arena, home);
    return "";
}

static int wake_sandbox(cay__req *r, const e2b_box *b, cay_err *err)
{
    if (e2b_running(b->info))
        return 0;
    if (!b->note.auto_resume)
        return not_there(err);
    int rc = cay_sandbox_resume(b->sb, &r->call, err);
    if (rc < 0 && rc != CAY_ESTATE)
        return rc;
    return cay_sandbox_extend(b->sb, &r->call, (uint64_t)CAY_MAX(b->note.timeout, 300) * 1000, 0,
                              err);
}

/* SDKs in debug mode show nothing: the listener says whose they are. A sandbox that the host names
 * is asked for like one of a header, with its token. */
static bool is_debug(const cay__req *r)
{
    char id[CAY_ID_LEN + 1];
    unsigned port;
    const char *named = cay__head_field(&r->head, "e2b-sandbox-id");
    if (!named && from_host(r->head.host, &port, id))
        named = id;
    return e2b_debug(r, named);
}

static int find_id(cay__req *r, char id[CAY_ID_LEN + 1], cay_err *err)
{
    bool may_sign = r->route->op->flags & E2B_SIGNED;
    unsigned port;
    if (find_address(&r->head, &port, id) || (may_sign && by_signature(r, id)))
        return 0;
    if (may_sign && cay__req_query(r, "signature"))
        return cay_fail(err, CAY_EAUTH, "invalid signature");
    return cay_fail(err, CAY_EINVAL, "missing header: e2b-sandbox-id");
}

/* The token is this one sandbox's, whoever's it is. */
static void become_sandbox(cay__req *r, const char *id)
{
    r->who.scope = CAY__SCOPE_SANDBOX;
    CAY_COPY(r->who.sandbox, id);
    cay__req_about(r, id);
}

int e2b_daemon_admit(cay__req *r, cay_err *err)
{
    char id[CAY_ID_LEN + 1];
    if (!(r->route->op->flags & CAY__OP_TOKEN) || is_debug(r))
        return 0;
    CAY_TRY(find_id(r, id, err));
    CAY_TRY(check_access(r, r->route->op->flags, id, err));
    become_sandbox(r, id);
    return 0;
}

int e2b_daemon_open(cay__req *r, e2b_daemon *out, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    char id[CAY_ID_LEN + 1];
    bool shown = r->route->op->flags & CAY__OP_TOKEN && !is_debug(r);
    if (shown)
        CAY_COPY(id, r->who.sandbox);
    else if (is_debug(r))
        CAY_TRY(e2b_debug_find(r, id, err)); /* makes it, where it is not there */
    else
        CAY_TRY(find_id(r, id, err));
    become_sandbox(r, id);
    if (e2b_find(r, id, true, &b, err) < 0)
        return not_there(err);
    if (!shown && !e2b_running(b.info))
        return not_there(err); /* nobody wakes it without a token */
    CAY_TRY(wake_sandbox(r, &b, err));
    *out = (e2b_daemon){ .sb = b.sb, .id = cay__arena_str(&r->arena, id) };
    if (b.note.own && *b.info->workdir && strcmp(b.info->workdir, "/home/user"))
        out->workdir = cay__arena_str(&r->arena, b.info->workdir);
    if (cay__json_bool(json_object_get(b.note.all, "e2b"), "changed", false))
        out->env = cay_secret_env();
    char *own = cay__arena_str(&r->arena, b.info->user);
    own[strcspn(own, ":")] = 0; /* its group */
    out->default_user = own;
    out->home = home_of(cay__text_or(own, "user"));
    return read_user(r, out, err);
}

const char *e2b_path(cay__req *r, const e2b_daemon *d, const char *path)
{
    const char *below = path;
    if (*path == '~' && (path[1] == '/' || !path[1]))
        below = path + 1 + (path[1] == '/');
    if (*path == '/')
        return path;
    const char *home = CAY_OR(d->home, find_home(r, d));
    return cay__req_text(r, "%s%s%s", home, *below || !*home ? "/" : "", below);
}

static int on_health(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    CAY_TRY(e2b_daemon_open(r, &d, err));
    return cay__reply_empty(r, 204);
}

static int on_metrics(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    cay_usage u;
    double cpu;
    CAY_AUTOPTR(cay_info) i = NULL;
    CAY_TRY(e2b_daemon_open(r, &d, err));
    CAY_TRY(e2b_sample(&r->call, d.sb, &u, &cpu, err));
    CAY_TRY(cay_sandbox_describe(d.sb, &r->call, &i, err));
    json_int_t memory = (json_int_t)e2b_bounded(i->limits.memory, 0),
               disk = (json_int_t)e2b_bounded(i->limits.disk, 0);
    int cpus = e2b_cpus(i);
    return cay__reply_pack(
        r, 200, "{s:I,s:i,s:f,s:I,s:I,s:i,s:I,s:I,s:I,s:I}", "ts", (json_int_t)time(NULL),
        "cpu_count", cpus, "cpu_used_pct", cpu / cpus, "mem_total", memory, "mem_used",
        (json_int_t)u.memory, "mem_cache", 0, "mem_total_mib", memory >> 20, "mem_used_mib",
        (json_int_t)(u.memory >> 20), "disk_used", (json_int_t)u.disk, "disk_total", disk);
}

/* What every process of the sandbox has: asked of one. */
static int on_envs(cay__req *r, cay_err *err)
{
    static const char *const argv[] = { "env", "-0", NULL };
    e2b_daemon d;
    cay_result res = { .size = sizeof res };
    CAY_TRY(e2b_daemon_open(r, &d, err));
    const cay_spawn s = { .size = sizeof s, .argv = argv, .cwd = "/" };
    CAY_TRY(cay_sandbox_run(d.sb, &r->call, &s, NULL, 0, (size_t)1 << 20, &res, err));
    json_t *o = json_object();
    for (char *p = res.out, *end = res.out + res.out_len; p && p < end; p += strlen(p) + 1) {
        char *v = strchr(p, '=');
        if (!v)
            continue;
        *v = 0;
        json_object_set_new(o, p, json_string(v + 1)); /* unless it is no text */
        *v = '=';
    }
    cay_result_clear(&res);
    return cay__reply_json(r, 200, o);
}

#define RPC(path, fn) CAY__ROUTE("POST", path, fn, CAY__OP_TOKEN | CAY__OP_RAW)
static const cay__route routes[] = {
    CAY__ROUTE("GET", "/health", on_health, CAY__OP_OPEN),
    CAY__ROUTE("GET", "/metrics", on_metrics, CAY__OP_TOKEN),
    CAY__ROUTE("GET", "/envs", on_envs, CAY__OP_TOKEN),
    CAY__ROUTE("GET", "/files", e2b_files_get, CAY__OP_TOKEN | E2B_SIGNED),
    CAY__ROUTE("POST", "/files", e2b_files_post, CAY__OP_TOKEN | E2B_SIGNED | CAY__OP_RAW),
    CAY__ROUTE("POST", "/files/compose", e2b_files_compose, CAY__OP_TOKEN),
    RPC("/process.Process/List", e2b_process_list),
    RPC("/process.Process/Start", e2b_process_start),
    RPC("/process.Process/Connect", e2b_process_connect),
    RPC("/process.Process/Update", e2b_process_update),
    RPC("/process.Process/SendInput", e2b_process_input),
    RPC("/process.Process/StreamInput", e2b_process_stream_input),
    RPC("/process.Process/SendSignal", e2b_process_signal),
    RPC("/process.Process/CloseStdin", e2b_process_close_stdin),
    RPC("/filesystem.Filesystem/Stat", e2b_fs_stat),
    RPC("/filesystem.Filesystem/MakeDir", e2b_fs_mkdir),
    RPC("/filesystem.Filesystem/Move", e2b_fs_move),
    RPC("/filesystem.Filesystem/ListDir", e2b_fs_list),
    RPC("/filesystem.Filesystem/Remove", e2b_fs_remove),
    RPC("/filesystem.Filesystem/WatchDir", e2b_fs_watch),
    RPC("/filesystem.Filesystem/CreateWatcher", e2b_watcher_create),
    RPC("/filesystem.Filesystem/GetWatcherEvents", e2b_watcher_events),
    RPC("/filesystem.Filesystem/RemoveWatcher", e2b_watcher_remove),
};

/* The user of a request is nobody inside. */
bool e2b_nobody(const cay_err *err)
{
    return cay__err_of_user(err) && !cay_err_is(err, CAY_REASON_USER_NOT_SUPPORTED);
}

/* A stream's error is its last envelope under 200, a call's a word with its status, a file's a
 * number. A sandbox that is gone is 502 everywhere. */
static int reply_error(cay__req *r, const cay_err *fault)
{
    cay_err whose = *fault;
    const cay_err *err = &whose;
    if (e2b_nobody(fault))
        whose.code = CAY_EAUTH;
    const char *type = cay__head_field(&r->head, "content-type");
    bool rpc = is_rpc(r), dead = err->code == CAY_EUPSTREAM || e2b_dead(err);
    if (rpc && !dead && type && !strncasecmp(type, "application/connect+json", 24)) {
        CAY_AUTOBUF b = CAY__BUF(65536);
        e2b_envelope_end(&b, err);
        return cay__reply(r, 200, "application/connect+json", b.data, b.len);
    }
    const e2b_fault *told = e2b_fault_of(err);
    if (rpc && !dead)
        return cay__reply_pack(r, told->rpc, "{s:s,s:s}", "code", told->word, "message", err->msg);
    const char *id = cay__head_field(&r->head, "e2b-sandbox-id");
    return cay__reply_pack(r, told->daemon, "{s:i,s:s,s:o*}", "code", told->daemon, "message",
                           dead ? "The sandbox was not found" : err->msg, "sandboxId",
                           CAY_IF(dead, json_string(CAY_OR(id, r->who.sandbox))));
}

/* Ports that E2B's own programs have inside a sandbox, and this server plays; asked before
 * previews, whose ports are all others. */
unsigned e2b_port(const cay__head *h)
{
    char id[CAY_ID_LEN + 1];
    unsigned port;
    if (find_address(h, &port, id))
        return port;
    if (!strcmp(h->path, "/files") && strstr(h->query, "signature="))
        return E2B_ENVD_PORT;
    return 0;
}

/* A browser asks before it sends such fields, without them: what it means to send tells. */
static bool is_preflight(const cay__head *h)
{
    const char *fields = NULL;
    if (!strcmp(h->method, "OPTIONS"))
        fields = cay__head_field(h, "access-control-request-headers");
    return fields && strcasestr(fields, "e2b-sandbox-id");
}

static bool is_own_request(cay__req *r)
{
    return e2b_port(&r->head) == E2B_ENVD_PORT || is_preflight(&r->head);
}

const cay__dialect cay__dialect_e2b_envd = { .name = "e2b-envd",
                                             .routes = routes,
                                             .nroutes = CAY_LEN(routes),
                                             .admit = e2b_daemon_admit,
                                             .fail = reply_error,
                                             .first = is_own_request,
                                             .any_origin = true };
