/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox-server protocol: its routes, its errors, and the life of a sandbox in its words.
 * docs/wire/sandbox-server.md. */
#include "sandbox_server.h"
#include <time.h>

CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref)

#define SPACE    "sandbox-server"
#define TIMEOUT  7200 /* seconds without a request after which a sandbox is paused */
#define LONGEST  86400
#define TOUCH_MS 1000             /* how exact the time of the last activity is */
#define KEEP_MS  (7 * 86400000ll) /* what was deleted is remembered so long */

int cay__ss_str(const json_t *body, const char *name, bool needed, const char **out, cay_err *err)
{
    const json_t *v = json_object_get(body, name);
    *out = NULL;
    if (!v || json_is_null(v)) {
        if (needed)
            return cay_fail_why(err, CAY_EINVAL, "field_missing", "%s is required", name);
        return 0;
    }
    if ((*out = cay__json_cstr(v)))
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "field_invalid", "%s must be a string without NUL", name);
}

int cay__ss_bool(const json_t *body, const char *name, bool none, bool *out, cay_err *err)
{
    const json_t *v = json_object_get(body, name);
    *out = cay__json_bool(body, name, none);
    if (!v || json_is_null(v) || json_is_boolean(v))
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "field_invalid", "%s must be true or false", name);
}

int cay__ss_int(const json_t *body, const char *name, int64_t min, int64_t max, int64_t *out,
                cay_err *err)
{
    const json_t *v = json_object_get(body, name);
    if (!v || json_is_null(v))
        return cay_fail_why(err, CAY_EINVAL, "field_missing", "%s is required", name);
    *out = json_integer_value(v);
    if (!json_is_integer(v) || *out < min || *out > max)
        return cay_fail_why(err, CAY_EINVAL, "field_invalid",
                            "%s must be a number from %lld to %lld", name, (long long)min,
                            (long long)max);
    return 0;
}

json_t *cay__ss_text(const char *s, size_t n)
{
    json_t *plain = json_stringn(s, n);
    if (plain)
        return plain;
    CAY_AUTOBUF b = CAY__BUF(3 * n + 1);
    for (size_t i = 0, k; i < n; i += CAY_OR(k, 1)) {
        k = cay__utf8_len(s + i, n - i);
        cay__buf_add(&b, k ? s + i : "\xef\xbf\xbd", CAY_OR(k, 3));
    }
    return json_stringn(b.data, b.len);
}

int cay__ss_done(cay__req *r, const char *message)
{
    return cay__reply_pack(r, 200, "{s:b,s:s}", "success", 1, "message", message);
}

static bool is_uuid(const char *s)
{
    if (strlen(s) != 36)
        return false;
    for (size_t i = 0; i < 36; i++)
        if (i == 8 || i == 13 || i == 18 || i == 23 ? s[i] != '-'
                                                    : !strchr("0123456789abcdef", s[i]))
            return false;
    return true;
}

/* One that was not made here has none. */
static int save_note(cay__req *r, const char *id, const json_t *note, cay_err *err)
{
    CAY_AUTOFREE char *text = cay__json_text(note, 60000);
    if (!is_uuid(id))
        return 0;
    return cay_note_put(r->client, SPACE, id, CAY_OR(text, "{}"), err);
}

static int not_found(const char *id, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found", "Sandbox %.60s not found", id);
}

/* By the name that the client has for it. Wakes nothing. */
static int find_box(cay__req *r, const char *id, cay__ss_box *out, cay_err *err)
{
    CAY_AUTOFREE char *text = NULL;
    json_t *note = NULL;
    const char *own = id;
    if (is_uuid(id)) {
        if (cay_note_get(r->client, SPACE, id, &text, NULL) < 0)
            return not_found(id, err);
        CAY_TRY(cay__json_object("record", text, &note, err));
        own = cay__json_str(note, "sandbox", "");
    } else if (cay__id_valid(id, 'c')) {
        note = json_object();
    }
    cay__req_keep(r, note);
    if (!note || json_object_get(note, "deleted_ms"))
        return not_found(id, err);
    int rc = cay__req_sandbox(r, own, &out->sb, err);
    if (rc == CAY_ENOENT)
        return not_found(id, err);
    CAY_TRY(rc);
    CAY_COPY(out->id, id);
    out->note = note;
    return 0;
}

static int note_times(cay__req *r, const cay__ss_box *b, const char *also, cay_err *err)
{
    int64_t now = cay__clock_ms();
    if (!also && now - cay__json_int(b->note, "seen_ms", 0) < TOUCH_MS)
        return 0;
    json_object_set_new(b->note, "seen_ms", json_integer(now));
    if (also)
        json_object_set_new(b->note, also, json_integer(now));
    return save_note(r, b->id, b->note, err);
}

static int state_of(cay__req *r, cay_sandbox *sb, cay_info **out, cay_err *err)
{
    CAY_TRY(cay_sandbox_describe(sb, &r->call, out, err));
    cay__req_defer(r, (void (*)(void *))cay_info_free, *out);
    return 0;
}

static const char *state_word(cay_state s)
{
    if (s == CAY_CREATING)
        return "initializing";
    return cay_state_name(s);
}

int cay__ss_connect(cay__req *r, const char *id, cay__ss_box *out, cay_err *err)
{
    cay_info *info;
    CAY_TRY(find_box(r, id, out, err));
    CAY_TRY(state_of(r, out->sb, &info, err));
    bool paused = info->state == CAY_PAUSED;
    if (!paused && info->state != CAY_RUNNING)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_state",
                            "Sandbox %s is %s: it is neither running nor paused", out->id,
                            state_word(info->state));
    if (paused)
        CAY_TRY(cay_sandbox_resume(out->sb, &r->call, err));
    uint64_t left = (uint64_t)cay__json_int(out->note, "timeout_s", TIMEOUT) * 1000;
    CAY_TRY(cay_sandbox_extend(out->sb, &r->call, left, 0, err));
    return note_times(r, out, paused ? "started_ms" : NULL, err);
}

int cay__ss_begin(cay__req *r, cay__ss_box *out, cay_err *err)
{
    const char *id;
    CAY_TRY(cay__req_json(r, 0, &out->body, err));
    CAY_TRY(cay__ss_str(out->body, "sandbox_id", true, &id, err));
    return cay__ss_connect(r, id, out, err);
}

static int on_health(cay__req *r, cay_err *err)
{
    static const char healthy[] = "{\"status\":\"healthy\"}";
    return cay__reply(r, 200, "application/json", healthy, sizeof healthy - 1);
}

static int reply_sandbox(cay__req *r, const char *id, const char *own, const char *message)
{
    return cay__reply_pack(r, 200, "{s:b,s:s,s:s,s:s,s:s,s:n,s:n}", "success", 1, "sandbox_id", id,
                           "provider_sandbox_id", own, "status", "running", "message", message,
                           "mcp_url", "vscode_url");
}

static int on_create(cay__req *r, cay_err *err)
{
    json_t *body;
    const char *user, *template_;
    char uuid[37];
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    CAY_TRY(cay__req_json(r, 0, &body, err));
    CAY_TRY(cay__ss_str(body, "user_id", true, &user, err));
    CAY_TRY(cay__ss_str(body, "sandbox_template_id", false, &template_, err));
    cay__uuid_make(uuid);
    const cay_pair labels[] = { { "sandbox-server.id", uuid },
                                { "sandbox-server.user", user },
                                { NULL, NULL } };
    cay_create spec = { .size = sizeof spec,
                        .from.template_ = cay__text_or(template_, NULL),
                        .labels = labels,
                        .life.ttl_ms = TIMEOUT * 1000ull,
                        .life.on_expiry = CAY_EXPIRE_PAUSE,
                        .tenant = r->who.tenant };
    CAY_TRY(cay_client_create(r->client, &r->call, &spec, &sb, err));
    const char *own = cay_sandbox_id(sb);
    cay__req_about(r, own);
    int64_t now = cay__clock_ms();
    CAY_AUTOJSON *note = json_pack("{s:s,s:s,s:I,s:I,s:I,s:I}", "sandbox", own, "user_id", user,
                                   "created_ms", (json_int_t)now, "started_ms", (json_int_t)now,
                                   "seen_ms", (json_int_t)now, "timeout_s", (json_int_t)TIMEOUT);
    int rc = save_note(r, uuid, note, err);
    if (rc < 0) /* nobody would find it */
        cay_sandbox_remove(sb, NULL, NULL);
    CAY_TRY(rc);
    return reply_sandbox(r, uuid, own, "Sandbox created successfully");
}

static int on_connect(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    CAY_TRY(cay__ss_begin(r, &b, err));
    return reply_sandbox(r, b.id, cay_sandbox_id(b.sb), "Connected to sandbox");
}

static int on_timeout(cay__req *r, cay_err *err)
{
    json_t *body;
    const char *id;
    int64_t seconds;
    cay__ss_box b;
    CAY_TRY(cay__req_json(r, 0, &body, err));
    CAY_TRY(cay__ss_str(body, "sandbox_id", true, &id, err));
    CAY_TRY(cay__ss_int(body, "timeout_seconds", 1, LONGEST, &seconds, err));
    CAY_TRY(find_box(r, id, &b, err));
    CAY_TRY(cay_sandbox_extend(b.sb, &r->call, (uint64_t)seconds * 1000, 0, err));
    json_object_set_new(b.note, "timeout_s",
                        json_integer(seconds)); /* what later requests start anew */
    CAY_TRY(save_note(r, b.id, b.note, err));
    return cay__ss_done(r, "Timeout scheduled");
}

static int on_status(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    cay_info *info;
    CAY_TRY(find_box(r, r->param[0], &b, err));
    CAY_TRY(state_of(r, b.sb, &info, err));
    return cay__reply_pack(r, 200, "{s:b,s:s,s:s,s:s,s:s}", "success", 1, "sandbox_id", b.id,
                           "status", state_word(info->state), "provider_sandbox_id", info->id,
                           "message", "Sandbox status");
}

/* RFC 3339 in UTC, or null. */
static json_t *format_time(int64_t ms)
{
    char text[48];
    struct tm t;
    time_t s = (time_t)(ms / 1000);
    if (ms <= 0 || !gmtime_r(&s, &t))
        return json_null();
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(text + n, sizeof text - n, ".%06d+00:00", (int)(ms % 1000) * 1000);
    return json_string(text);
}

static int on_info(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    cay_info *info;
    CAY_TRY(find_box(r, r->param[0], &b, err));
    CAY_TRY(state_of(r, b.sb, &info, err));
    bool down = info->state == CAY_PAUSED || info->state == CAY_STOPPED;
    /* One that was paused by its timeout was not seen by us: then the record of its state tells. */
    int64_t stopped = CAY_MAX(cay__json_int(b.note, "stopped_ms", 0), down ? info->changed_ms : 0);
    return cay__reply_pack(
        r, 200, "{s:b,s:s,s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:s}", "success", 1, "id", b.id,
        "provider", info->provider, "user_id", cay__json_str(b.note, "user_id", ""),
        "provider_sandbox_id", info->id, "status", state_word(info->state), "created_at",
        format_time(info->created_ms), "started_at",
        format_time(cay__json_int(b.note, "started_ms", info->created_ms)), "stopped_at",
        format_time(stopped), "last_activity_at", format_time(cay__json_int(b.note, "seen_ms", 0)),
        "message", "Sandbox information");
}

static int on_pause(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    CAY_TRY(find_box(r, r->param[0], &b, err));
    CAY_TRY(cay_sandbox_pause(b.sb, &r->call, err));
    CAY_TRY(note_times(r, &b, "stopped_ms", err));
    return cay__ss_done(r, "Sandbox paused");
}

typedef struct sweep {
    cay__buf keys; /* each with its NUL */
    int64_t before;
} sweep;

static int on_list_note(const char *key, const char *json, void *arg)
{
    sweep *s = arg;
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("record", json, &o, NULL) == 0 &&
        cay__json_int(o, "deleted_ms", INT64_MAX) < s->before)
        cay__buf_add(&s->keys, key, strlen(key) + 1);
    return 0;
}

static void forget_old(cay__req *r, int64_t now)
{
    sweep s = { .keys = CAY__BUF(1u << 20), .before = now - KEEP_MS };
    cay_note_list(r->client, SPACE, "", on_list_note, &s, NULL);
    for (size_t at = 0; at < s.keys.len; at += strlen(s.keys.data + at) + 1)
        cay_note_put(r->client, SPACE, s.keys.data + at, NULL, NULL);
    cay__buf_clear(&s.keys);
}

static int on_delete(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    int64_t now = cay__clock_ms();
    CAY_TRY(find_box(r, r->param[0], &b, err));
    CAY_TRY(cay_sandbox_remove(b.sb, &r->call, err));
    json_object_set_new(b.note, "deleted_ms", json_integer(now));
    CAY_TRY(save_note(r, b.id, b.note, err));
    forget_old(r, now);
    return cay__ss_done(r, "Sandbox deleted");
}

static const struct {
    int code, status;
} statuses[] = {
    { CAY_EINVAL, 400 },    { CAY_EEXIST, 400 },   { CAY_ETYPE, 400 }, { CAY_EAUTH, 401 },
    { CAY_EPERM, 403 },     { CAY_ENOENT, 404 },   { CAY_EGONE, 404 }, { CAY_ETIMEOUT, 408 },
    { CAY_ETOOBIG, 413 },   { CAY_ESTATE, 422 },   { CAY_ERATE, 429 }, { CAY_EBUSY, 503 },
    { CAY_ECANCELED, 503 }, { CAY_ENOSPACE, 507 },
};

static int reply_error(cay__req *r, const cay_err *err)
{
    int status = 500;
    CAY_EACH(it, statuses)
        if (it->code == err->code)
            status = it->status;
    if (cay_err_is(err, CAY_REASON_FETCH_REFUSED) ||
        cay_err_is(err, CAY_REASON_REDIRECT_REFUSED)) /* the URL was bad input */
        status = 400;
    if (cay_err_is(err, CAY_REASON_METHOD_NOT_ALLOWED))
        status = 405;
    if (status == 503 || status == 429)
        cay__reply_field(r, "Retry-After", "1");
    return cay__reply_pack(r, status, "{s:o}", "detail", cay__ss_text(err->msg, strlen(err->msg)));
}

static const cay__route routes[] = {
    CAY__ROUTE("GET", "/health", on_health, CAY__OP_OPEN | CAY__OP_LOOP),
    CAY__ROUTE("POST", "/sandboxes/create", on_create, CAY__OP_CREATE),
    CAY__ROUTE("POST", "/sandboxes/connect", on_connect),
    CAY__ROUTE("POST", "/sandboxes/schedule-timeout", on_timeout),
    CAY__ROUTE("GET", "/sandboxes/{id}/status", on_status),
    CAY__ROUTE("GET", "/sandboxes/{id}/info", on_info),
    CAY__ROUTE("GET", "/sandboxes/{id}/urls", cay__ss_urls, CAY__OP_SECRET),
    CAY__ROUTE("POST", "/sandboxes/{id}/pause", on_pause),
    CAY__ROUTE("DELETE", "/sandboxes/{id}", on_delete),
    CAY__ROUTE("POST", "/sandboxes/expose-port", cay__ss_expose),
    CAY__ROUTE("POST", "/sandboxes/run-cmd", cay__ss_run),
    CAY__ROUTE("POST", "/sandboxes/write-file", cay__ss_write),
    CAY__ROUTE("POST", "/sandboxes/read-file", cay__ss_read),
    CAY__ROUTE("POST", "/sandboxes/upload-file", cay__ss_upload, CAY__OP_RAW),
    CAY__ROUTE("POST", "/sandboxes/upload-file-from-url", cay__ss_upload_url),
    CAY__ROUTE("POST", "/sandboxes/download-file", cay__ss_download),
    CAY__ROUTE("POST", "/sandboxes/download-file-stream", cay__ss_download_stream),
    CAY__ROUTE("POST", "/sandboxes/download-to-presigned-url", cay__ss_download_url),
    CAY__ROUTE("POST", "/sandboxes/create-directory", cay__ss_mkdir),
};

const cay__dialect cay__dialect_sandbox_server = { .name = "sandbox-server",
                                                   .base = "/sandbox-server",
                                                   .routes = routes,
                                                   .nroutes = CAY_LEN(routes),
                                                   .fail = reply_error };
