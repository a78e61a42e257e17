/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/dialect/native/native.h - the handlers of the native API.
 *
 * Each operation is a row of wire/ops.c and a handler cay__on_NAME() in the file of its kind:
 * sandboxes.c, sandbox_create.c, sandbox_life.c; processes.c, process_control.c, stream.c, ws.c;
 * shells.c; files.c, files_content.c, files_edit.c, files_tar.c, files_watch.c; manifests.c;
 * access.c (keys, tenants, audit); jobs.c; ports.c; services.c; snapshots.c, changes.c; volumes.c
 * (and secrets); templates.c (registries, pools); builds.c; net.c; host.c (events, usage), speed.c,
 * walls.c.
 *
 * A handler reads its query and body and gives its answer by the shapes that the row names.
 */
#pragma once
#include <server/dialect/dialect.h>
#include <server/http/server.h>
#include <server/list_cache.h>
#include <wire/shapes.h>

#define CAY__HANDLER(name) int cay__on_##name(cay__req *r, cay_err *err);
CAY__OPS(CAY__HANDLER)
#undef CAY__HANDLER

/* speed.c: `true`, without a sandbox: what is measured is told beside it; the same, tried within
 * the last ten minutes. */
int cay__native_spawn_us(uint64_t *out, cay_err *err);
int cay__native_spawn_kept(uint64_t *out, cay_err *err);

/* The body as JSON, and what follows the question mark, into the structs of the operation's shapes;
 * numbers and lists of a query that are not there stay as they are. */
int cay__req_body(cay__req *r, void *out, cay_err *err);
int cay__req_asked(cay__req *r, void *out, cay_err *err);
/* Answers with one object: the first answer of the operation that has a shape, or the one of that
 * status. What the one who asks may not see is left out. */
int cay__reply_object(cay__req *r, const void *obj);
int cay__reply_status(cay__req *r, int status, const void *obj);
int cay__reply_done(cay__req *r); /* 204 */
/* CAY__F_ADMIN and CAY__F_SECRET as the one who asks may have it. */
unsigned cay__native_view(const cay__req *r);
/* Whose things are looked at: NULL for all. */
const char *cay__native_owner(const cay__req *r);

/* {"items": […]}: a list that grows by calls of cay__items_add(), as the library's functions that
 * call back give it. */
typedef struct cay__items {
    cay__req *r;
    const cay__shape *shape;
    cay__buf b;
    char next[CAY__LISTED_NEXT]; /* with a value: where to go on */
} cay__items;
void cay__items_begin(cay__items *l, cay__req *r);
int cay__items_add(cay__items *l,
                   const void *obj); /* CAY_ETOOBIG when the answer grows beyond 64 MiB */
int cay__items_reply(cay__items *l, cay_err *err); /* frees it */
/* The same after a function that called back, which returned rc. */
int cay__items_finish(cay__items *l, int rc, cay_err *err);
int cay__items_end(
    cay__items *l,
    cay_err *err); /* the text of it, which is whole then, in l->b; cay__items_drop() frees it */
void cay__items_drop(cay__items *l);
/* A callback of the library that adds what it is given. */
#define CAY__ITEMS_ADD(name, type)                                                                 \
    static int name(const type *item, void *arg)                                                   \
    {                                                                                              \
        return cay__items_add(arg, item);                                                          \
    }

/* The sandbox of the route's first parameter, told as the one who asks may see it. */
int cay__reply_sandbox(cay__req *r, cay_sandbox *sb, cay_err *err);
int cay__native_sandbox(cay__req *r, cay_sandbox **out, cay_err *err);
int cay__native_use(cay__req *r, cay_sandbox **out, cay_err *err); /* woken, where it was made so */
int cay__native_files(cay__req *r, cay_sandbox **out,
                      cay_err *err); /* the same, for file calls with the rights of ?user= */
/* The process of the first two. The caller gives it back. */
int cay__native_proc(cay__req *r, cay_proc **out, cay_err *err);
/* query.c: a query that has to be there; the nth of a name, or NULL. */
int cay__native_query(cay__req *r, const char *name, const char **out, cay_err *err);
const char *cay__native_query_nth(cay__req *r, const char *name, size_t nth);
/* stdout and stderr of a query, or Last-Event-ID. */
int cay__native_offsets(cay__req *r, uint64_t out[2], cay_err *err);
/* {"code", "reason", "message"}: an error inside a stream. */
void cay__native_error(cay__buf *b, const cay_err *err);
int64_t cay__native_now(void); /* CLOCK_MONOTONIC milliseconds */
/* Takes what is there and hardly waits: what made it readable may be no event of this sandbox. */
void cay__native_drain(cay_events *ev);
int cay__reply_file(cay__req *r, int status, cay_sandbox *sb, const char *path, bool follow,
                    cay_err *err); /* status 0: the operation's */
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
/* sandbox_create.c: sources that name something of the host are scope admin's. */
int cay__native_sources(const cay__req *r, const cay_secret *list, size_t n, cay_err *err);
