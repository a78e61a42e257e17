/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/dialect/native/native.h - the handlers of the native API.
 *
 * Each operation is a row of wire/ops.c and a handler cay__on_NAME() in the file of its kind:
 * sandboxes.c, sandbox_create.c, sandbox_life.c, wait.c; processes.c, process_control.c, stream.c,
 * ws.c; shells.c; files.c, files_content.c, files_edit.c, files_tar.c, files_watch.c; manifests.c;
 * access.c (keys, tenants, audit); jobs.c; ports.c; services.c; snapshots.c, changes.c; volumes.c
 * (and secrets); templates.c (registries, pools); builds.c; net.c; host.c (events, usage), speed.c,
 * walls.c.
 *
 * A handler reads its query and body and gives its answer by the shapes that the row names.
 */
#pragma once
#include <base/base.h>
#include <server/dialect/dialect.h>
#include <server/http/server.h>
#include <server/list_cache.h>
#include <wire/shapes.h>

CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref)
CAY_DEFINE_AUTO(cay_proc, cay_proc_unref)
CAY_DEFINE_AUTO(cay_snapshot, cay_snapshot_free)
CAY_DEFINE_AUTO(cay_info, cay_info_free)

#define CAY__HANDLER(name) int cay__on_##name(cay__req *r, cay_err *err);
CAY__OPS(CAY__HANDLER)
#undef CAY__HANDLER

/* speed.c: `true`, without a sandbox, tried within the last ten minutes: what is measured is told
 * beside it. */
int cay__native_spawn_kept(uint64_t *out, cay_err *err);
/* Likewise: fn in a sandbox that is made for it and removed. */
int cay__native_try(cay__req *r,
                    int (*fn)(cay_sandbox *sb, const cay_call *call, void *arg, cay_err *err),
                    void *arg, cay__speed *took, cay_err *err);

/* The body as JSON, and what follows the question mark, into the structs of the operation's shapes;
 * numbers, flags and lists of a query that are not there stay as they are. */
int cay__req_body(cay__req *r, void *out, cay_err *err);
int cay__req_asked(cay__req *r, void *out, cay_err *err);
/* Answers with one object: the first answer of the operation that has a shape, or the one of that
 * status. What the one who asks may not see is left out. */
int cay__reply_object(cay__req *r, const void *obj);
int cay__reply_status(cay__req *r, int status, const void *obj);
int cay__reply_done(cay__req *r); /* 204 */
/* CAY__F_ADMIN and CAY__F_SECRET as the one who asks may have it. */
unsigned cay__native_view(const cay__req *r);
/* Templates of other tenants than the default one are their own, whatever was asked. */
static inline bool cay__native_hidden(const cay__req *r, bool asked)
{
    return asked || strcmp(r->who.tenant, CAY_TENANT_DEFAULT);
}
/* Whose things are looked at: NULL for all. */
const char *cay__native_owner(const cay__req *r);

/* {"items": […]}: a list that grows by calls of cay__items_add(), as the library's functions that
 * call back give it. */
typedef struct cay__items {
    cay__req *r;
    const cay__shape *shape;
    cay__buf b;
    size_t n;                                            /* of a page, so far */
    char last[CAY__LISTED_NEXT], next[CAY__LISTED_NEXT]; /* next, with a value: where to go on */
} cay__items;
cay__items cay__items_of(cay__req *r);
int cay__items_add(cay__items *l,
                   const void *obj); /* CAY_ETOOBIG when the answer grows beyond 64 MiB */
/* The same of a page: 1 when it has `limit` already, so that there is a next one. */
int cay__items_page(cay__items *l, size_t limit, const char *id, int64_t created_ms,
                    const void *obj);
/* Answers after a function that called back, which returned rc; frees it. */
int cay__items_finish(cay__items *l, int rc, cay_err *err);
int cay__items_end(cay__items *l, cay_err *err); /* the text of it, which is whole then, in l->b */
/* A callback of the library that adds what it is given. */
#define CAY__ITEMS_ADD(name, type)                                                                 \
    static int name(const type *item, void *arg)                                                   \
    {                                                                                              \
        return cay__items_add(arg, item);                                                          \
    }

/* The sandbox woken, for a file call with the rights of ?user=; nothing of the kind with ?kept=1.
 */
int cay__native_wake(cay__req *r, const cay__file_query *q, cay_err *err);
/* The process of the first two. The caller gives it back. */
int cay__native_proc(cay__req *r, cay_proc **out, cay_err *err);
/* stdout and stderr of a query, or Last-Event-ID. */
int cay__native_offsets(cay__req *r, uint64_t out[2], cay_err *err);
/* {"code", "reason", "message"}: an error inside a stream. */
void cay__native_error(cay__buf *b, const cay_err *err);
int64_t cay__native_now(void); /* CLOCK_MONOTONIC milliseconds */
int cay__reply_file(cay__req *r, int status, const char *path, bool follow,
                    cay_err *err);                                 /* status 0: the operation's */
void cay__reply_number(cay__req *r, const char *name, uint64_t v); /* a line of the head */
/* A file without a name, for a request that counts among those of its tenant that do `crowd`; with
 * the body in it; and as the answer, which takes it. */
int cay__native_scratch(cay__req *r, const char *crowd, const char *what, int *fd, cay_err *err);
int cay__native_receive(cay__req *r, const char *what, uint64_t max, int *fd, uint64_t *n,
                        cay_err *err);
int cay__native_send(cay__req *r, const char *type, int *fd, cay_err *err);
/* wait.c: an answer that comes when look() says so, or the time is over. It is asked on a worker,
 * at each event of the sandbox, and writes what is answered if it is the last time. */
typedef struct cay__waiter {
    cay_sandbox *sb;
    cay_events *ev;
    int64_t end_ms;
    bool (*look)(struct cay__waiter *w, const cay_call *call, cay__buf *answer);
    char name[CAY_SERVICE_NAME]; /* look()'s own: of one service alone */
    cay_state last;              /* likewise: as it was seen */
} cay__waiter;
int cay__native_wait(cay__req *r, const cay__waiter *first, const cay__wait_query *q,
                     unsigned beat_ms, cay_err *err);
/* files_content.c: bytes that fn gives (*n 0 at their end) become a file. */
typedef int cay__native_give(void *arg, void *buf, size_t cap, size_t *n, cay_err *err);
int cay__native_store(cay__req *r, const char *path, const cay_write *spec, cay__native_give *fn,
                      void *arg, uint64_t *total, cay_err *err);
cay__native_give cay__native_body; /* of the request that is arg */
/* A relative path without a way up. */
bool cay__native_below(const char *name);
/* Answers by following a process: SSE. Takes p. start: begin with a `start` event. */
int cay__native_stream(cay__req *r, cay_proc *p, const uint64_t offset[2], bool start,
                       cay_err *err);
/* sandbox_create.c: sources that name something of the host are scope admin's. */
int cay__native_sources(const cay__req *r, const cay_secret *list, size_t n, cay_err *err);
