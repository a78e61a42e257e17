/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane: which path leads where. Both generations of paths. */
#include "e2b.h"

static int on_health(cay__req *r, cay_err *err)
{
    return cay__reply_empty(r, 204);
}

#define CREATE  (CAY__OP_CREATE | CAY__OP_SECRET) /* the answer has the sandbox's tokens */
#define VOLUMES CAY__OP_SHARED, .tag = "volumes"
#define SECRETS CAY__OP_SHARED, .tag = "secrets"
static const cay__route routes[] = {
    CAY__ROUTE("GET", "/health", on_health, CAY__OP_OPEN),
    CAY__ROUTE("POST", "/v2/sandboxes", e2b_on_create, CREATE),
    CAY__ROUTE("POST", "/sandboxes", e2b_on_create_v1, CREATE),
    CAY__ROUTE("GET", "/v2/sandboxes", e2b_on_list),
    CAY__ROUTE("GET", "/sandboxes", e2b_on_list_v1),
    CAY__ROUTE("GET", "/sandboxes/metrics", e2b_on_all_metrics),
    CAY__ROUTE("GET", "/sandboxes/{id}", e2b_on_get, CAY__OP_BOX),
    CAY__ROUTE("DELETE", "/sandboxes/{id}", e2b_on_kill, CAY__OP_BOX),
    CAY__ROUTE("POST", "/v2/sandboxes/{id}/connect", e2b_on_connect),
    CAY__ROUTE("POST", "/sandboxes/{id}/connect", e2b_on_connect, CAY__OP_BOX),
    CAY__ROUTE("POST", "/sandboxes/{id}/resume", e2b_on_resume, CAY__OP_BOX),
    CAY__ROUTE("POST", "/sandboxes/{id}/pause", e2b_on_pause, CAY__OP_BOX),
    CAY__ROUTE("POST", "/sandboxes/{id}/timeout", e2b_on_timeout, CAY__OP_BOX),
    CAY__ROUTE("POST", "/sandboxes/{id}/refreshes", e2b_on_refresh, CAY__OP_BOX),
    CAY__ROUTE("PUT", "/sandboxes/{id}/network", e2b_on_network, CAY__OP_BOX),
    CAY__ROUTE("GET", "/sandboxes/{id}/metrics", e2b_on_metrics, CAY__OP_BOX),
    CAY__ROUTE("GET", "/sandboxes/{id}/logs", e2b_on_logs, CAY__OP_BOX),
    CAY__ROUTE("GET", "/v2/sandboxes/{id}/logs", e2b_on_logs_v2),
    CAY__ROUTE("POST", "/sandboxes/{id}/snapshots", e2b_on_snapshot, CAY__OP_BOX),
    CAY__ROUTE("POST", "/sandboxes/{id}/fork", e2b_on_fork),
    CAY__ROUTE("GET", "/snapshots", e2b_on_snapshots),
    CAY__ROUTE("GET", "/templates", e2b_on_templates),
    CAY__ROUTE("GET", "/v2/templates", e2b_on_templates),
    CAY__ROUTE("GET", "/templates/aliases/{alias}", e2b_on_alias),
    CAY__ROUTE("POST", "/templates/tags", e2b_on_tags_add),
    CAY__ROUTE("DELETE", "/templates/tags", e2b_on_tags_remove),
    CAY__ROUTE("GET", "/templates/{id}", e2b_on_template),
    CAY__ROUTE("DELETE", "/templates/{id}", e2b_on_template_delete),
    CAY__ROUTE("PATCH", "/templates/{id}", e2b_on_template_patch),
    CAY__ROUTE("PATCH", "/v2/templates/{id}", e2b_on_template_patch),
    CAY__ROUTE("GET", "/templates/{id}/tags", e2b_on_tags),
    CAY__ROUTE("GET", "/templates/{id}/files/{hash}", e2b_on_template_files),
    CAY__ROUTE("PUT", "/upload/{tenant}/{hash}", e2b_on_template_upload,
               CAY__OP_TOKEN | E2B_UPLOAD | CAY__OP_RAW),
    CAY__ROUTE("POST", "/v3/templates", e2b_on_template_create),
    CAY__ROUTE("POST", "/v2/templates/{id}/builds/{build}", e2b_on_build_start),
    CAY__ROUTE("GET", "/templates/{id}/builds/{build}/status", e2b_on_build_status),
    CAY__ROUTE("GET", "/templates/{id}/builds/{build}/logs", e2b_on_build_logs),
    CAY__ROUTE("POST", "/v2/templates", e2b_on_build),
    CAY__ROUTE("POST", "/templates", e2b_on_build),
    CAY__ROUTE("POST", "/templates/{id}", e2b_on_build),
    CAY__ROUTE("POST", "/templates/{id}/builds/{build}", e2b_on_build),
    CAY__ROUTE("POST", "/volumes", e2b_on_volume_create, VOLUMES),
    CAY__ROUTE("GET", "/volumes", e2b_on_volumes, VOLUMES),
    CAY__ROUTE("GET", "/volumes/{id}", e2b_on_volume, VOLUMES),
    CAY__ROUTE("DELETE", "/volumes/{id}", e2b_on_volume_delete, VOLUMES),
    CAY__ROUTE("GET", "/volumecontent/{id}/dir", e2b_on_volume_dir, CAY__OP_TOKEN),
    CAY__ROUTE("POST", "/volumecontent/{id}/dir", e2b_on_volume_mkdir, CAY__OP_TOKEN),
    CAY__ROUTE("GET", "/volumecontent/{id}/path", e2b_on_volume_stat, CAY__OP_TOKEN),
    CAY__ROUTE("PATCH", "/volumecontent/{id}/path", e2b_on_volume_patch, CAY__OP_TOKEN),
    CAY__ROUTE("DELETE", "/volumecontent/{id}/path", e2b_on_volume_remove, CAY__OP_TOKEN),
    CAY__ROUTE("GET", "/volumecontent/{id}/file", e2b_on_volume_get, CAY__OP_TOKEN),
    CAY__ROUTE("PUT", "/volumecontent/{id}/file", e2b_on_volume_put, CAY__OP_TOKEN | CAY__OP_RAW),
    CAY__ROUTE("POST", "/secrets", e2b_on_secret_create, SECRETS),
    CAY__ROUTE("GET", "/secrets", e2b_on_secrets, SECRETS),
    CAY__ROUTE("GET", "/secrets/{id}", e2b_on_secret, SECRETS),
    CAY__ROUTE("POST", "/secrets/{id}", e2b_on_secret_update, SECRETS),
    CAY__ROUTE("DELETE", "/secrets/{id}", e2b_on_secret_delete, SECRETS),
    CAY__ROUTE("GET", "/teams", e2b_on_teams),
};

/* SDKs read `code`, which is the status again. */
static int reply_error(cay__req *r, const cay_err *err)
{
    int status = e2b_fault_of(err)->control;
    return cay__reply_pack(r, status, "{s:i,s:s,s:s}", "code", status, "message", err->msg,
                           "error_code", cay__text_or(err->reason, "internal_server_error"));
}

/* Paths that nobody else has, shown with a key: SDKs are told one address for everything. */
static bool is_own_path(cay__req *r)
{
    if (cay__str_starts(r->head.path, "/volumecontent/")) /* these have a token of the volume's */
        return true;
    static const char *const paths[] = { "/sandboxes",    "/v2/sandboxes", "/templates",
                                         "/v2/templates", "/v3/templates", "/snapshots",
                                         "/volumes",      "/secrets",      "/teams" };
    CAY_EACH(it, paths) {
        size_t n = strlen(*it);
        if (!strncmp(r->head.path, *it, n) && (!r->head.path[n] || r->head.path[n] == '/'))
            return r->as || cay__req_key(r);
    }
    return false;
}

/* Ports of E2B's sandboxes are open to whoever knows their names, unless that was asked not to be;
 * then to whoever has the token. */
static bool can_open_port(cay__req *r, const char *id, unsigned port)
{
    E2B_AUTOBOX b = { 0 };
    char token[E2B_TOKEN_LEN + 1];
    const char *given = cay__head_field(&r->head, "e2b-traffic-access-token");
    if (given && (e2b_token(r, "traffic", id, token, NULL) < 0 || !e2b_same(given, token)))
        return false;
    if (e2b_find(r, id, true, &b, NULL) < 0 ||
        (!given && !(b.note.own && cay__json_bool(b.note.network, "allowPublicTraffic", true))))
        return given != NULL; /* that it is gone is told by who looks for it next */
    return true;
}

static void configure_upstream(cay__req *r, const char *id, unsigned port)
{
    E2B_AUTOBOX b = { 0 };
    char host[E2B_HOST_MAX + 1];
    const json_t *v;
    size_t i;
    if (e2b_find(r, id, true, &b, NULL) < 0)
        return;
    if (e2b_mask_host(cay__json_str(b.note.network, "maskRequestHost", ""), port, host,
                      sizeof host))
        r->as_host = cay__arena_str(&r->arena, host);
    json_array_foreach(json_object_get(b.note.network, "httpsPorts"), i, v)
        r->as_tls |= json_integer_value(v) == (json_int_t)port;
}

/* Volumes and uploads have tokens of their own; all else is by key. */
static int admit_control(cay__req *r, cay_err *err)
{
    if (!(r->route->op->flags & CAY__OP_TOKEN))
        return cay__admit(r, err);
    if (r->route->op->flags & E2B_UPLOAD)
        return e2b_upload_admit(r, err);
    return e2b_volume_admit(r, err);
}

static const cay__dialect *const with[] = { &cay__dialect_e2b_envd, &cay__dialect_e2b_code, NULL };
const cay__dialect cay__dialect_e2b = { .name = "e2b",
                                        .base = "/e2b",
                                        .routes = routes,
                                        .nroutes = CAY_LEN(routes),
                                        .admit = admit_control,
                                        .fail = reply_error,
                                        .also = is_own_path,
                                        .opens = can_open_port,
                                        .shows = configure_upstream,
                                        .with = with };
