/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/op.h - every operation of the native API: one row in ops.c, which the server's routes, the
 * callers of provider/remote and the OpenAPI document are made from.
 *
 *     OP(snapshot_patch, "PATCH", "/snapshots/{ref}", 0, "renameSnapshot", "snapshots",
 *        "give it another label", BODY(snapshot_label), GIVES(snapshot),
 *        .fails = CAY__E400 | CAY__E404 | CAY__E409),
 *
 * A new operation is its name in CAY__OPS below, its row in ops.c, its shapes in the file of their
 * subject (wire/shapes.h) and its handler cay__on_NAME() in server/dialect/native.
 *
 * Who calls one (CAY__OPERATION(snapshot_patch)) needs from here
 *
 *   cay__operation_target()    path and query, from the values of {…} and the struct of its query
 *   op->body            the shape of what is sent: cay__shape_put(b, op->body, CAY__F_IN, &spec)
 *   op->answers[0]      what comes back: cay__shape_read(mem, j, shape, CAY__F_OUT, &out, NULL);
 *                       with .list the answer is {"items": […], "next"}
 *   CAY__OP_CREATE      an Idempotency-Key makes a repetition safe
 *   CAY__OP_STREAM      it streams, upgrades or carries bytes: it has a caller of its own
 *
 * Paths are in the order in which they are matched and documented: what is said literally comes
 * before a {name} in the same place.
 */
#pragma once
#include "shape.h"

enum {
    /* rights: who is admitted. Without any of these: keys of scope tenant and admin */
    CAY__OP_OPEN = 1u << 0,   /* everybody; a key is looked at when there is one */
    CAY__OP_ADMIN = 1u << 1,  /* scope admin alone */
    CAY__OP_BOX = 1u << 2,    /* also a key of the one sandbox that the first {…} names */
    CAY__OP_FILE = 1u << 3,   /* also a key of files at or above ?path=, without ?user= */
    CAY__OP_SHARED = 1u << 4, /* of tenants, only the default one: it is the service's own */
    CAY__OP_TOKEN = 1u << 5,  /* instead of a key the dialect's own token: dialect->admit */
    /* how it is served */
    CAY__OP_CREATE = 1u << 6, /* Idempotency-Key: the same answer for the same key and body */
    CAY__OP_SECRET = 1u << 7, /* the answer has a secret; with CREATE it is kept such that only who
                                 asked can have it again */
    CAY__OP_LOOP = 1u << 8,   /* answers on the loop: it never blocks and reads no body */
    CAY__OP_RAW = 1u << 9,    /* reads a large body in pieces: of others a short one is gathered
                                 before a worker has to wait for it */
    CAY__OP_ASKS = 1u << 10,  /* changes nothing, whatever its method: no line of the audit log */
    /* the sandbox that the first {…} names: found before its handler, which has it as r->sb */
    CAY__OP_FIND = 1u << 12,
    CAY__OP_WAKE = 1u << 13,    /* woken, where it was made so */
    CAY__OP_USER = 1u << 14,    /* its files are reached with the rights of ?user= */
    CAY__OP_DIALECT = 1u << 16, /* this bit and those above it are each dialect's own */
    CAY__OP_STREAM = 1u << 11,  /* body or answer is no JSON object that a shape describes */
};

enum {
    CAY__E400 = 1u << 0,
    CAY__E403 = 1u << 1,
    CAY__E404 = 1u << 2,
    CAY__E409 = 1u << 3,
    CAY__E413 = 1u << 4,
    CAY__E416 = 1u << 5,
    CAY__E422 = 1u << 6,
    CAY__E426 = 1u << 7,
    CAY__E501 = 1u << 8,
    CAY__E502 = 1u << 9,
    CAY__E503 = 1u << 10,
};

typedef struct cay__op_answer {
    int status;
    const cay__shape *shape; /* NULL: no body, or one of `type` */
    bool list;               /* {"items": [shape…], "next"} */
    const char *type;        /* another content type than JSON */
} cay__op_answer;

typedef struct cay__operation {
    const char *method; /* GET answers HEAD, too; "*": any */
    const char *path; /* below the dialect's base: "/sandboxes/{id}/files"; a last {name*} takes the
                         rest with its slashes; NULL: every path, as it was sent */
    unsigned flags;
    const char *id; /* operationId of the document; NULL: it is not in it */
    const char *tag;
    const char *about;         /* one line */
    const cay__shape *query;   /* after the question mark: texts, numbers, flags, lists; or NULL */
    const cay__shape *body;    /* JSON */
    const char *body_type;     /* the body is of this type instead */
    cay__op_answer answers[3]; /* up to the first with status 0 */
    unsigned
        fails; /* CAY__E400 | …; bit i: it may answer with cay__operation_fails[i], besides what any
                  request may meet: 401, 405, 413, 415, 429, 431, 500, 501, 502, 503, 504, 507 */
} cay__operation;

/* clang-format off */
#define CAY__OPS(X) \
    X(openapi) \
    X(sandbox_create) X(sandbox_list) X(sandbox_get) X(sandbox_patch) X(sandbox_delete) \
    X(sandbox_kill) X(sandbox_pause) X(sandbox_resume) X(sandbox_extend) X(sandbox_fork) \
    X(sandbox_undo) X(sandbox_usage) X(sandbox_past) X(sandbox_wait) \
    X(process_start) X(process_list) X(process_run) X(pty_start) X(process_get) \
    X(process_output) X(process_stream) X(process_ws) X(process_wait) X(process_stdin) \
    X(process_signal) X(process_resize) \
    X(shell_open) X(shell_list) X(shell_run) X(shell_end) \
    X(file_get) X(file_put) X(file_post) X(file_delete) X(file_stat) X(file_list) X(file_glob) \
    X(file_grep) X(file_mkdir) X(file_rename) X(file_chmod) X(file_chown) X(file_symlink) \
    X(file_xattrs) X(file_xattr_get) X(file_xattr_put) X(file_xattr_delete) X(file_patch) \
    X(file_tar_get) X(file_tar_put) X(file_watch) \
    X(port_list) X(port_connect) X(port_expose) X(port_unexpose) X(exposed_list) \
    X(endpoint_list) X(endpoint_get) \
    X(service_list) X(service_act) X(service_wait) \
    X(manifest_check) X(manifest_schema) X(sandbox_manifest) X(manifest_get) X(manifest_put) \
    X(snapshot_create) X(snapshot_list) X(snapshot_import) X(snapshot_get) X(snapshot_patch) \
    X(snapshot_delete) X(snapshot_export) X(diff) X(diff_patch) \
    X(volume_create) X(volume_list) X(volume_get) X(volume_delete) X(template_create) \
    X(template_list) X(template_forget) X(template_import) X(template_pull) X(template_get) \
    X(template_patch) X(template_delete) X(template_export) X(pool_put) X(pool_list) \
    X(pool_delete) X(registry_put) X(registry_list) X(registry_delete) X(build_create) \
    X(build_list) X(build_prune) X(build_caches) X(build_get) X(build_cancel) X(build_log) \
    X(secret_put) X(secret_list) X(secret_delete) X(secret_renew) X(secret_bind) \
    X(net_get) X(net_put) X(net_rules) X(net_why) X(net_log) X(net_presets) \
    X(event_stream) X(sandbox_events) \
    X(version) X(doctor) X(doctor_speed) X(doctor_walls) X(gc) X(tenant_usage) X(host_past) \
    X(key_create) X(key_list) X(key_revoke) X(tenant_create) X(tenant_list) X(tenant_patch) \
    X(tenant_delete) X(job_create) X(job_list) X(job_get) X(job_cancel) X(job_replay) \
    X(audit_list) X(audit_proof)
/* clang-format on */

#define CAY__OP_ID(name) CAY__OP_##name,
typedef enum cay__operation_id { CAY__OPS(CAY__OP_ID) CAY__OP_COUNT } cay__operation_id;
#undef CAY__OP_ID

extern const cay__operation cay__operations[CAY__OP_COUNT];
#define CAY__OPERATION(name) (&cay__operations[CAY__OP_##name])

#define CAY__FAILS_MAX       12
extern const int cay__operation_fails[CAY__FAILS_MAX]; /* ends with 0 */

/* Path and query of a request into b: params are the values of {…} in their order, encoded here;
 * query is the struct of op->query, or NULL. */
void cay__operation_target(cay__buf *b, const cay__operation *op, const char *const *params,
                           const void *query);
/* Of an answer that is an error (RFC 9457), as every operation gives it. */
extern const cay__shape cay__problem_shape;
