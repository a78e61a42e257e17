/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/dialect/native/native.h - the API's own words: handlers, what the document says of them,
 * and shapes that several files use.
 *
 * Each operation is a handler cay__on_NAME and a cay__doc cay__doc_NAME in the file of its kind,
 * one line below and one row in native.c.
 */
#pragma once
#include <server/dialect/dialect.h>
#include <server/list_cache.h>
#include <server/http/openapi.h>
#include <server/http/server.h>

#define CAY__OP(name)                                                                              \
    int cay__on_##name(cay__req *r, cay_err *err);                                                 \
    extern const cay__doc cay__doc_##name

/* native.c */
CAY__OP(openapi);
/* sandboxes.c, sandbox_create.c, sandbox_life.c */
CAY__OP(sandbox_create);
CAY__OP(sandbox_list);
CAY__OP(sandbox_get);
CAY__OP(sandbox_patch);
CAY__OP(sandbox_delete);
CAY__OP(sandbox_kill);
CAY__OP(sandbox_pause);
CAY__OP(sandbox_resume);
CAY__OP(sandbox_extend);
CAY__OP(sandbox_fork);
CAY__OP(sandbox_undo);
CAY__OP(sandbox_usage);
CAY__OP(sandbox_wait);
/* processes.c, process_control.c, stream.c, ws.c */
CAY__OP(process_start);
CAY__OP(process_run);
CAY__OP(process_list);
CAY__OP(process_get);
CAY__OP(process_output);
CAY__OP(process_stream);
CAY__OP(process_ws);
CAY__OP(process_stdin);
CAY__OP(process_signal);
CAY__OP(process_resize);
CAY__OP(process_wait);
CAY__OP(pty_start);
/* shells.c */
CAY__OP(shell_open);
CAY__OP(shell_list);
CAY__OP(shell_run);
CAY__OP(shell_end);
/* files.c, files_content.c, files_edit.c, files_watch.c, multipart.c, tar_out.c, tar_in.c */
CAY__OP(file_get);
CAY__OP(file_put);
CAY__OP(file_post);
CAY__OP(file_delete);
CAY__OP(file_stat);
CAY__OP(file_list);
CAY__OP(file_glob);
CAY__OP(file_grep);
CAY__OP(file_mkdir);
CAY__OP(file_rename);
CAY__OP(file_chmod);
CAY__OP(file_chown);
CAY__OP(file_symlink);
CAY__OP(file_xattrs);
CAY__OP(file_xattr_get);
CAY__OP(file_xattr_put);
CAY__OP(file_xattr_delete);
CAY__OP(file_patch);
CAY__OP(file_tar_get);
CAY__OP(file_tar_put);
CAY__OP(file_watch);
/* manifests.c */
CAY__OP(sandbox_past);
CAY__OP(host_past);
CAY__OP(manifest_check);
CAY__OP(manifest_schema);
CAY__OP(sandbox_manifest);
CAY__OP(manifest_get);
CAY__OP(manifest_put);
/* access.c */
CAY__OP(key_create);
CAY__OP(key_list);
CAY__OP(key_revoke);
CAY__OP(tenant_create);
CAY__OP(tenant_list);
CAY__OP(tenant_patch);
CAY__OP(tenant_delete);
/* jobs.c */
CAY__OP(job_create);
CAY__OP(job_list);
CAY__OP(job_get);
CAY__OP(job_cancel);
CAY__OP(job_replay);
/* audit.c */
CAY__OP(audit_list);
CAY__OP(audit_proof);

/* ports.c */
CAY__OP(port_list);
CAY__OP(port_connect);
CAY__OP(port_expose);
CAY__OP(port_unexpose);
CAY__OP(exposed_list);
CAY__OP(endpoint_list);
CAY__OP(endpoint_get);
/* services.c */
CAY__OP(service_list);
CAY__OP(service_act);
CAY__OP(service_wait);
/* snapshots.c, changes.c */
CAY__OP(snapshot_create);
CAY__OP(snapshot_list);
CAY__OP(snapshot_get);
CAY__OP(snapshot_patch);
CAY__OP(snapshot_delete);
CAY__OP(snapshot_export);
CAY__OP(snapshot_import);
CAY__OP(diff);
CAY__OP(diff_patch);
/* volumes.c */
CAY__OP(volume_create);
CAY__OP(volume_list);
CAY__OP(volume_get);
CAY__OP(volume_delete);
CAY__OP(secret_put);
CAY__OP(secret_list);
CAY__OP(secret_delete);
CAY__OP(secret_renew);
CAY__OP(secret_bind);
/* registries.c */
CAY__OP(registry_put);
CAY__OP(registry_list);
CAY__OP(registry_delete);
/* templates.c */
CAY__OP(template_list);
CAY__OP(template_get);
CAY__OP(template_delete);
CAY__OP(template_import);
CAY__OP(template_export);
CAY__OP(template_create);
CAY__OP(template_patch);
/* builds.c */
CAY__OP(build_create);
CAY__OP(build_prune);
CAY__OP(gc);
CAY__OP(template_pull);
CAY__OP(template_forget);
CAY__OP(pool_put);
CAY__OP(pool_list);
CAY__OP(pool_delete);
CAY__OP(build_list);
CAY__OP(build_caches);
CAY__OP(build_get);
CAY__OP(build_cancel);
CAY__OP(build_log);
/* net.c */
CAY__OP(net_get);
CAY__OP(net_put);
CAY__OP(net_rules);
CAY__OP(net_why);
CAY__OP(net_log);
CAY__OP(net_presets);
/* events.c, host.c */
CAY__OP(event_stream);
CAY__OP(sandbox_events);
CAY__OP(version);
CAY__OP(doctor);
/* speed.c */
int cay__native_spawn_us(
    uint64_t *out,
    cay_err *err); /* `true`, without a sandbox: what is measured is told beside it */
int cay__native_spawn_kept(uint64_t *out,
                           cay_err *err); /* the same, tried within the last ten minutes */
CAY__OP(doctor_speed);
CAY__OP(doctor_walls);
CAY__OP(tenant_usage);

extern const cay__shape cay__sandbox_shape;    /* of a cay_info */
extern const cay__shape cay__limits_shape;     /* of a cay_limits */
extern const cay__shape cay__secret_use_shape; /* of a cay_secret */
extern const cay__shape cay__layer_shape;      /* of a cay_wall */
extern const cay__shape cay__snapshot_shape;   /* of a cay_snapshot */
extern const cay__shape cay__exit_shape;       /* of a cay_exit */
extern const cay__shape cay__result_shape;     /* of a cay_result */
extern const cay__shape cay__spawn_shape;      /* of a cay_spawn */
typedef struct cay__signal_body {
    int sig, scope;
} cay__signal_body;
typedef struct cay__size_body {
    uint16_t cols, rows;
} cay__size_body;
extern const char *const cay__scope_words[];
extern const cay__shape cay__signal_shape, cay__size_shape;
extern const cay__shape cay__file_shape; /* of a cay_dirent */

/* The body as JSON, read by a shape into *out. */
int cay__req_shape(cay__req *r, const cay__shape *s, void *out, cay_err *err);
/* Answers with one object, or with {"items": […]}. */
int cay__reply_shape(cay__req *r, int status, const cay__shape *s, const void *obj);

/* A list that grows by calls of cay__items_add(), as the library's functions that call back give
 * it. */
typedef struct cay__items {
    cay__req *r;
    const cay__shape *shape;
    cay__buf b;
    char next[CAY__LISTED_NEXT]; /* with a value: where to go on */
} cay__items;
void cay__items_begin(cay__items *l, cay__req *r, const cay__shape *s);
int cay__items_add(cay__items *l,
                   const void *obj); /* CAY_ETOOBIG when the answer grows beyond 64 MiB */
int cay__items_reply(cay__items *l, int status, cay_err *err); /* frees it */
int cay__items_end(
    cay__items *l,
    cay_err *err); /* the text of it, which is whole then, in l->b; cay__items_drop() frees it */
void cay__items_drop(cay__items *l);

/* The sandbox of the route's first parameter, told as the one who asks may see it. */
int cay__reply_sandbox(cay__req *r, int status, cay_sandbox *sb, cay_err *err);
int cay__native_sandbox(cay__req *r, cay_sandbox **out, cay_err *err);
int cay__native_use(cay__req *r, cay_sandbox **out, cay_err *err); /* woken, where it was made so */
int cay__native_files(cay__req *r, cay_sandbox **out,
                      cay_err *err); /* the same, for file calls with the rights of ?user= */
#define CAY__USER_QUERY                                                                            \
    {                                                                                              \
        "user", "string", "with whose rights; the sandbox's default user"                          \
    }
/* The process of the first two. The caller gives it back. */
int cay__native_proc(cay__req *r, cay_proc **out, cay_err *err);
int cay__items_sandbox(cay__items *l, const cay_info *i); /* likewise */
/* query.c: a query that has to be there; the nth of a name, or NULL; all of ?label=KEY=VALUE, NULL
 * without one. */
int cay__native_query(cay__req *r, const char *name, const char **out, cay_err *err);
const char *cay__native_query_nth(cay__req *r, const char *name, size_t nth);
int cay__native_labels(cay__req *r, const cay_pair **out, cay_err *err);
/* stdout and stderr of a query, or Last-Event-ID. */
int cay__native_offsets(cay__req *r, uint64_t out[2], cay_err *err);
/* {"code", "reason", "message"}: an error inside a stream. */
void cay__native_error(cay__buf *b, const cay_err *err);
int64_t cay__native_now(void); /* CLOCK_MONOTONIC milliseconds */
/* Takes what is there and hardly waits: what made it readable may be no event of this sandbox. */
void cay__native_drain(cay_events *ev);
int cay__reply_file(cay__req *r, int status, cay_sandbox *sb, const char *path, bool follow,
                    cay_err *err);
/* files_content.c: bytes that fn gives (*n 0 at their end) become a file. */
typedef int cay__native_give(void *arg, void *buf, size_t cap, size_t *n, cay_err *err);
int cay__native_store(cay_sandbox *sb, const cay_call *call, const char *path,
                      const cay_write *spec, cay__native_give *fn, void *arg, uint64_t *total,
                      cay_err *err);
/* A relative path without a way up. */
bool cay__native_below(const char *name);
/* Answers by following a process: SSE. Takes p. start: begin with a `start` event. */
int cay__native_stream(cay__req *r, cay_proc *p, const uint64_t offset[2], bool start,
                       cay_err *err);
/* volumes.c: may the one who asks use what belongs to the whole service? */
int cay__native_shared(const cay__req *r, const char *what, cay_err *err);
/* sandbox_create.c: sources that name something of the host are scope admin's. */
int cay__native_sources(const cay__req *r, const cay_secret *list, size_t n, cay_err *err);
