/* SPDX-License-Identifier: Apache-2.0 */
/* The API of our own: every operation that there is, and how its handlers answer.
 * docs/wire/native.md tells it to people. */
#include "native.h"
#include <base/base.h>
#include <base/str.h>
#include <stdio.h>
#include <time.h>
#include <poll.h>

enum { ITEMS_MAX = 64 << 20, DRAIN_MS = 20 };

#define OP(method, path, name, flags)                                                              \
    {                                                                                              \
        method, path, cay__on_##name, flags, &cay__doc_##name                                      \
    }
#define BOX    "/sandboxes/{id}"
#define PROC   BOX "/processes/{ref}"
#define FILES  BOX "/files"
#define CREATE CAY__ROUTE_CREATE
#define RAW    CAY__ROUTE_RAW
#define SECRET (CAY__ROUTE_CREATE | CAY__ROUTE_SECRET)

static const cay__route routes[] = {
    OP("GET", "/openapi.json", openapi, CAY__ROUTE_OPEN),

    OP("POST", "/sandboxes", sandbox_create, CREATE),
    OP("GET", "/sandboxes", sandbox_list, 0),
    OP("GET", BOX, sandbox_get, 0),
    OP("PATCH", BOX, sandbox_patch, 0),
    OP("DELETE", BOX, sandbox_delete, 0),
    OP("POST", BOX "/kill", sandbox_kill, 0),
    OP("POST", BOX "/pause", sandbox_pause, 0),
    OP("POST", BOX "/resume", sandbox_resume, 0),
    OP("POST", BOX "/extend", sandbox_extend, 0),
    OP("POST", BOX "/fork", sandbox_fork, CREATE),
    OP("POST", BOX "/undo", sandbox_undo, 0),
    OP("GET", BOX "/usage", sandbox_usage, 0),
    OP("GET", BOX "/usage/past", sandbox_past, 0),
    OP("GET", BOX "/wait", sandbox_wait, 0),

    OP("POST", BOX "/processes", process_start, CREATE),
    OP("GET", BOX "/processes", process_list, 0),
    OP("POST", BOX "/run", process_run, 0),
    OP("POST", BOX "/pty", pty_start, CREATE),
    OP("GET", PROC, process_get, 0),
    OP("GET", PROC "/output", process_output, 0),
    OP("GET", PROC "/stream", process_stream, 0),
    OP("GET", PROC "/ws", process_ws, 0),
    OP("GET", PROC "/wait", process_wait, 0),
    OP("POST", PROC "/stdin", process_stdin, RAW),
    OP("POST", PROC "/signal", process_signal, 0),
    OP("POST", PROC "/resize", process_resize, 0),

    OP("POST", BOX "/shells", shell_open, 0),
    OP("GET", BOX "/shells", shell_list, 0),
    OP("POST", BOX "/shells/{name}/run", shell_run, 0),
    OP("DELETE", BOX "/shells/{name}", shell_end, 0),

    OP("GET", FILES, file_get, 0),
    OP("PUT", FILES, file_put, RAW),
    OP("POST", FILES, file_post, RAW),
    OP("DELETE", FILES, file_delete, 0),
    OP("GET", FILES "/stat", file_stat, 0),
    OP("GET", FILES "/list", file_list, 0),
    OP("GET", FILES "/glob", file_glob, 0),
    OP("POST", FILES "/grep", file_grep, 0),
    OP("POST", FILES "/mkdir", file_mkdir, CREATE),
    OP("POST", FILES "/rename", file_rename, 0),
    OP("POST", FILES "/chmod", file_chmod, 0),
    OP("POST", FILES "/chown", file_chown, 0),
    OP("POST", FILES "/symlink", file_symlink, CREATE),
    OP("GET", FILES "/xattrs", file_xattrs, 0),
    OP("GET", FILES "/xattr", file_xattr_get, 0),
    OP("PUT", FILES "/xattr", file_xattr_put, RAW),
    OP("DELETE", FILES "/xattr", file_xattr_delete, 0),
    OP("POST", FILES "/patch", file_patch, 0),
    OP("GET", FILES "/tar", file_tar_get, 0),
    OP("PUT", FILES "/tar", file_tar_put, RAW),
    OP("GET", FILES "/watch", file_watch, 0),

    OP("GET", BOX "/ports", port_list, 0),
    OP("GET", BOX "/ports/{port}/connect", port_connect, 0),
    OP("POST", BOX "/ports/{port}/expose", port_expose, SECRET),
    OP("DELETE", BOX "/ports/{port}/expose", port_unexpose, 0),
    OP("GET", BOX "/exposed", exposed_list, 0),
    OP("GET", BOX "/endpoints", endpoint_list, 0),
    OP("GET", BOX "/ports/{port}/endpoint", endpoint_get, 0),

    OP("GET", BOX "/services", service_list, 0),
    OP("POST", BOX "/services", service_act, 0),
    OP("GET", BOX "/services/wait", service_wait, 0),

    OP("POST", "/manifest/check", manifest_check, CAY__ROUTE_ASKS),
    OP("GET", "/manifest/schema", manifest_schema, 0),
    OP("GET", BOX "/manifest", sandbox_manifest, 0),
    OP("GET", BOX "/manifest/text", manifest_get, 0),
    OP("PUT", BOX "/manifest", manifest_put, 0),

    OP("POST", BOX "/snapshots", snapshot_create, CREATE),
    OP("GET", "/snapshots", snapshot_list, 0),
    OP("POST", "/snapshots/import", snapshot_import, RAW | CREATE),
    OP("GET", "/snapshots/{ref}", snapshot_get, 0),
    OP("PATCH", "/snapshots/{ref}", snapshot_patch, 0),
    OP("DELETE", "/snapshots/{ref}", snapshot_delete, 0),
    OP("GET", "/snapshots/{ref}/export", snapshot_export, 0),
    OP("GET", "/diff", diff, 0),
    OP("GET", "/diff/patch", diff_patch, 0),

    OP("POST", "/volumes", volume_create, CREATE),
    OP("GET", "/volumes", volume_list, 0),
    OP("GET", "/volumes/{name}", volume_get, 0),
    OP("DELETE", "/volumes/{name}", volume_delete, 0),
    OP("POST", "/templates", template_create, CREATE),
    OP("GET", "/templates", template_list, 0),
    OP("DELETE", "/templates", template_forget, 0),
    OP("POST", "/templates/import", template_import, RAW | CREATE),
    OP("POST", "/templates/pull", template_pull, CREATE),
    OP("GET", "/templates/{ref}", template_get, 0),
    OP("PATCH", "/templates/{ref}", template_patch, 0),
    OP("DELETE", "/templates/{ref}", template_delete, 0),
    OP("GET", "/templates/{ref}/export", template_export, 0),
    OP("PUT", "/pools", pool_put, CAY__ROUTE_ADMIN),
    OP("GET", "/pools", pool_list, CAY__ROUTE_ADMIN),
    OP("DELETE", "/pools", pool_delete, CAY__ROUTE_ADMIN),
    OP("PUT", "/registries/{host}", registry_put, 0),
    OP("GET", "/registries", registry_list, 0),
    OP("DELETE", "/registries/{host}", registry_delete, 0),
    OP("POST", "/builds", build_create, RAW | CREATE),
    OP("GET", "/builds", build_list, 0),
    OP("POST", "/builds/prune", build_prune, 0),
    OP("GET", "/builds/caches", build_caches, 0),
    OP("GET", "/builds/{id}", build_get, 0),
    OP("POST", "/builds/{id}/cancel", build_cancel, 0),
    OP("GET", "/builds/{id}/log", build_log, 0),
    OP("PUT", "/secrets/{name}", secret_put, 0),
    OP("GET", "/secrets", secret_list, 0),
    OP("DELETE", "/secrets/{name}", secret_delete, 0),
    OP("POST", BOX "/secrets/renew", secret_renew, 0),
    OP("PUT", BOX "/secrets", secret_bind, 0),

    OP("GET", BOX "/net", net_get, 0),
    OP("PUT", BOX "/net", net_put, 0),
    OP("POST", BOX "/net/rules", net_rules, 0),
    OP("GET", BOX "/net/why", net_why, 0),
    OP("GET", BOX "/net/log", net_log, 0),
    OP("GET", "/net/presets", net_presets, 0),

    OP("GET", "/events", event_stream, 0),
    OP("GET", BOX "/events", sandbox_events, 0),

    OP("GET", "/version", version, CAY__ROUTE_OPEN),
    OP("GET", "/doctor", doctor, 0),
    OP("POST", "/doctor/speed", doctor_speed, CAY__ROUTE_ADMIN),
    OP("POST", "/doctor/walls", doctor_walls, CAY__ROUTE_ADMIN),
    OP("POST", "/gc", gc, CAY__ROUTE_ADMIN),
    OP("GET", "/usage", tenant_usage, 0),
    OP("GET", "/usage/past", host_past, CAY__ROUTE_ADMIN),

    OP("POST", "/keys", key_create, SECRET),
    OP("GET", "/keys", key_list, 0),
    OP("DELETE", "/keys/{key}", key_revoke, 0),
    OP("POST", "/tenants", tenant_create, CAY__ROUTE_ADMIN | CREATE),
    OP("GET", "/tenants", tenant_list, CAY__ROUTE_ADMIN),
    OP("PATCH", "/tenants/{name}", tenant_patch, CAY__ROUTE_ADMIN),
    OP("DELETE", "/tenants/{name}", tenant_delete, CAY__ROUTE_ADMIN),
    OP("POST", "/jobs", job_create, CREATE),
    OP("GET", "/jobs", job_list, 0),
    OP("GET", "/jobs/{job}", job_get, 0),
    OP("POST", "/jobs/{job}/cancel", job_cancel, 0),
    OP("POST", "/jobs/{job}/replay", job_replay, 0),
    OP("GET", "/audit", audit_list, 0),
    OP("GET", "/audit/proof", audit_proof, CAY__ROUTE_ADMIN),
};

const cay__dialect cay__dialect_native = {
    .name = "native", .base = "/api/v1", .routes = routes, .nroutes = CAY_LEN(routes), .pages = true
};

const cay__doc cay__doc_openapi = { "getDocument", "about", "this document",
                                    .answers = { { 200, .type = "application/json" } } };
int cay__on_openapi(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_json(r, 200, cay__openapi(&cay__dialect_native, "cay"));
}

int cay__req_shape(cay__req *r, const cay__shape *s, void *out, cay_err *err)
{
    json_t *j;
    CAY_TRY(cay__req_json(r, 0, &j, err));
    return cay__shape_read(&r->arena, j, s, out, err);
}

int cay__reply_shape(cay__req *r, int status, const cay__shape *s, const void *obj)
{
    CAY_AUTOBUF b = CAY__BUF(2 * (size_t)ITEMS_MAX);
    cay__shape_put(&b, s, obj);
    return cay__reply(r, status, "application/json", b.data, b.len);
}

void cay__items_begin(cay__items *l, cay__req *r, const cay__shape *s)
{
    *l = (cay__items){ .r = r, .shape = s, .b = CAY__BUF(ITEMS_MAX) };
    cay__buf_str(&l->b, "{\"items\":[");
}

int cay__items_add(cay__items *l, const void *obj)
{
    if (l->b.data[l->b.len - 1] != '[')
        cay__buf_str(&l->b, ",");
    cay__shape_put(&l->b, l->shape, obj);
    if (l->b.full)
        return CAY_ETOOBIG;
    return 0;
}

void cay__items_drop(cay__items *l)
{
    cay__buf_clear(&l->b);
}

int cay__items_end(cay__items *l, cay_err *err)
{
    cay__buf_str(&l->b, "]");
    if (*l->next) {
        cay__buf_str(&l->b, ",\"next\":");
        cay__buf_json(&l->b, l->next, strlen(l->next));
    }
    cay__buf_str(&l->b, "}");
    if (l->b.full)
        return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                            "the answer is larger than %d MiB; ask for less", ITEMS_MAX >> 20);
    return 0;
}

int cay__items_reply(cay__items *l, int status, cay_err *err)
{
    int rc = cay__items_end(l, err);
    if (rc == 0)
        rc = cay__reply(l->r, status, "application/json", l->b.data, l->b.len);
    cay__items_drop(l);
    return rc;
}

int cay__native_sandbox(cay__req *r, cay_sandbox **out, cay_err *err)
{
    return cay__req_sandbox(r, r->param[0], out, err);
}

int cay__native_use(cay__req *r, cay_sandbox **out, cay_err *err)
{
    return cay__req_awake(r, r->param[0], out, err);
}

int cay__native_files(cay__req *r, cay_sandbox **out, cay_err *err)
{
    CAY_TRY(cay__native_use(
        r, out, err)); /* whoever asks, it starts with the rights that it was made with */
    r->call.user = cay__req_query(r, "user");
    return 0;
}

int cay__native_proc(cay__req *r, cay_proc **out, cay_err *err)
{
    cay_sandbox *sb;
    CAY_TRY(cay__native_use(r, &sb, err));
    int rc = cay_sandbox_attach(sb, &r->call, r->param[1], out, err);
    if (rc < 0 && !cay__str_starts(err->msg, "process "))
        return cay_wrap(err, rc, "process %.60s", r->param[1]);
    return rc; /* some providers name it themselves */
}

void cay__native_drain(cay_events *ev)
{
    struct pollfd q = { cay_events_fd(ev), POLLIN, 0 };
    cay_event e = { .size = sizeof e };
    cay_call now = { .size = sizeof now, .deadline_ms = cay__native_now() + DRAIN_MS };
    while (poll(&q, 1, 0) > 0 && cay_events_next(ev, &now, &e, NULL) == 0)
        ;
}

int64_t cay__native_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void cay__native_error(cay__buf *b, const cay_err *err)
{
    cay__buf_fmt(b, "{\"code\":\"%s\",\"reason\":", cay_code_name(err->code));
    cay__buf_json(b, err->reason, strlen(err->reason));
    cay__buf_str(b, ",\"message\":");
    cay__buf_json(b, err->msg, strlen(err->msg));
    cay__buf_str(b, "}");
}
