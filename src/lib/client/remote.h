/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/remote.h - a client whose sandboxes are a server's: it asks that server instead of the
 * store and the providers of this host.
 *
 * Inside one sandbox nothing differs: its handle has a box of provider `cay`, and everything of
 * cay/sandbox.h goes there. A function about which sandboxes, snapshots, … there are begins with
 *
 *     if (client->remote)
 *         return cay__remote_do(client->remote, call,
 *                               &CAY__REQUEST(volume_delete, .path = { name }), err);
 *
 * and one that a server is not asked for with cay__remote_none().
 */
#pragma once
#include "client.h"
#include <wire/shapes.h>

/* One request: a row of wire/ops.c and what goes into it. */
typedef struct cay__request {
    const cay__operation *op;
    const char *path[3]; /* values of {…} in the row's path */
    const void *query;   /* the struct of op->query, or NULL */
    const void *body;    /* the struct of op->body, */
    const char *text;    /* or the body as JSON text */
    const char *key;     /* Idempotency-Key; NULL: operations that make something get one */
    const char *more;    /* lines for the head, and */
    const char *tail;    /* for the target behind the query; or NULL */
    const char *type;    /* of data, when it is not the row's */
    const void *data;    /* a body of bytes: these, */
    int fd;              /* or with from_fd those of a descriptor; */
    size_t len;          /* so many */
    bool from_fd, upgrade;
} cay__request;
#define CAY__REQUEST(name, ...) ((cay__request){ .op = CAY__OPERATION(name), __VA_ARGS__ })

static inline cay__remote *cay__remote_of(const cay_sandbox *sb)
{
    const cay_client *client = sb->owner;
    if (client)
        return client->remote;
    return NULL;
}
/* CAY_ENOTSUP, "remote_unsupported", where the client is a server's. client.c */
int cay__remote_none(const cay_client *client, const char *what, cay_err *err);

/* lib/provider/remote/ask.c: an answer that matters to nobody; */
int cay__remote_do(const cay__remote *r, const cay_call *call, const cay__request *q, cay_err *err);
/* The same without a call: an operation, and what it is asked. */
#define CAY__REMOTE_DO(remote, err, ...)                                                           \
    cay__remote_do(remote, NULL, &CAY__REQUEST(__VA_ARGS__), err)
/* one that is taken as it is, where out may be NULL; */
int cay__remote_json(const cay__remote *r, const cay_call *call, const cay__request *q,
                     json_t **out, cay_err *err);
/* one that is read into the struct of its shape, which the caller has set to its defaults; what it
 * points to is in mem, which may be NULL when it points to nothing; */
int cay__remote_get(const cay__remote *r, const cay_call *call, const cay__request *q,
                    cay__arena *mem, void *out, cay_err *err);
/* and a list, page by page where the query has `limit` and `after`: */
typedef struct cay__listing {
    const cay__remote *remote;
    const cay_call *call;
    cay__request q;
    json_t *answer;
    size_t at, told, most; /* most 0: all */
    void *query;           /* of this page */
    char after[64];
    cay__arena mem;
} cay__listing;
/* 1: *item is the next, and lives until the call after; 0: there is none. */
int cay__listing_next(cay__listing *l, void *item, cay_err *err);
void cay__listing_end(cay__listing *l);
/* Each of a list to fn(const type *, arg), after clean(type *). Its value is a code, or what fn
 * gave that was not 0. */
#define CAY__REMOTE_CLEAN(type_, clean_, remote_, call_, q_, fn_, arg_, err_)                      \
    ({                                                                                             \
        cay__listing l_ = { .remote = (remote_), .call = (call_), .q = q_ };                       \
        type_ item_;                                                                               \
        int got_;                                                                                  \
        while ((got_ = cay__listing_next(&l_, &item_, err_)) > 0) {                                \
            clean_(&item_);                                                                        \
            if ((got_ = (fn_)(&item_, arg_)) != 0)                                                 \
                break;                                                                             \
        }                                                                                          \
        cay__listing_end(&l_);                                                                     \
        got_;                                                                                      \
    })
#define CAY__REMOTE_EACH(type_, remote_, call_, q_, fn_, arg_, err_)                               \
    CAY__REMOTE_CLEAN(type_, (void), remote_, call_, q_, fn_, arg_, err_)

/* lib/provider/remote/client.c: what is more than one request, or has a type of its own. */
int cay__remote_open(const cay_open *spec, cay__remote **out, cay_err *err);
void cay__remote_close(cay__remote *r);
const char *cay__remote_url(const cay__remote *r);
int cay__remote_create(cay_client *client, const cay_call *call, const cay_create *given,
                       cay_sandbox **out, cay_err *err);
int cay__remote_find(cay_client *client, const cay_call *call, const char *ref, cay_sandbox **out,
                     cay_err *err);
int cay__remote_list(cay_client *client, const cay_call *call, const cay_filter *given,
                     cay_info_fn *fn, void *arg, cay_err *err);
int cay__remote_describe(cay_sandbox *sb, const cay_call *call, cay_info **out, cay_err *err);
/* An order without a body, after which the sandbox is in that state. */
int cay__remote_order(cay_sandbox *sb, const cay_call *call, const cay__operation *op, cay_state to,
                      cay_err *err);
int cay__remote_probe(cay__remote *r, cay_probe **out, cay_err *err);
int cay__remote_events(cay__remote *r, const char *id, int *fd, cay_err *err);
int cay__remote_fork(cay_client *client, const cay_call *call, const char *from,
                     const cay_fork *given, int (*fn)(cay_sandbox *, void *), void *arg,
                     cay_err *err);
/* Of an operation that answers with a snapshot; out may be NULL. */
int cay__remote_snapshot(const cay__remote *r, const cay_call *call, const cay__request *q,
                         cay_snapshot **out, cay_err *err);
int cay__remote_snapshots(const cay__remote *r, const cay_call *call,
                          const cay_snapshot_filter *given, cay_snapshot_fn *fn, void *arg,
                          cay_err *err);
int cay__remote_diff(cay_client *client, const cay_call *call, const cay_diff *given,
                     cay_file_change_fn *fn, void *arg, cay_err *err);
int cay__remote_net_log(cay_sandbox *sb, cay_net_record_fn *fn, void *arg, cay_err *err);
/* "/removed": how many; n may be NULL. */
int cay__remote_removed(const cay__remote *r, const cay_call *call, const cay__operation *op,
                        size_t *n, cay_err *err);

/* archives.c: snapshots and templates as files. builds.c: templates that the server builds. Whose
 * templates and builds are meant is the key's; specs are whole: cay__spec_take() was there. */
int cay__remote_export(cay_client *client, const cay_call *call, const cay_export *given, int fd,
                       cay_archived *out, cay_err *err);
int cay__remote_import(cay_client *client, const cay_call *call, const cay_import *given, int fd,
                       cay_snapshot **out, cay_err *err);
int cay__remote_template_import(const cay__remote *r, const cay_call *call,
                                const cay_template_file *s, cay_template **out, cay_err *err);
int cay__remote_template_export(const cay__remote *r, const cay_call *call,
                                const cay_template_out *s, cay_err *err);
int cay__remote_template_find(const cay__remote *r, const cay_call *call, const char *ref,
                              cay_template **out, cay_err *err);
int cay__remote_template_list(const cay__remote *r, const cay_call *call,
                              const cay_template_filter *f, cay_template_fn *fn, void *arg,
                              cay_err *err);
/* body: JSON of what is to be different. */
int cay__remote_template_patch(const cay__remote *r, const cay_call *call, const char *ref,
                               const char *body, cay_err *err);
int cay__remote_template_publish(cay_client *client, const cay_call *call,
                                 const cay_template_spec *s, cay_template **out, cay_err *err);
int cay__remote_template_pull(cay_client *client, const cay_call *call,
                              const cay_template_remote *s, cay_template **out, cay_err *err);
int cay__remote_build_run(const cay__remote *r, const cay_call *call, const cay_build *s,
                          cay_built *out, cay_err *err);
int cay__remote_build_get(const cay__remote *r, const char *ref, cay_build_info_fn *fn, void *arg,
                          cay_err *err);
int cay__remote_build_log(const cay__remote *r, const char *id, uint64_t *offset,
                          cay_build_event_fn *fn, void *arg, cay_err *err);
/* cay_client_purge() of a server. purge_remote.c */
int cay__purge_remote(cay_client *client, const cay_call *call, bool forget,
                      void (*left)(const char *what, void *arg), void *arg, cay_err *err);
