/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/sys/store.h - for those who keep the records: what exists and is wanted.
 *
 * A store is one table of functions. Every call is one transaction: when it returns 0 the change is
 * committed, when it fails nothing changed. Calls may come from any thread and any process at once.
 * tests/service/test_store.c is the contract, run against every store there is.
 */
#pragma once
#include <cay/access.h>
#include <cay/jobs.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct json_t cay_json;

/* One sandbox as recorded. Strings are the caller's when putting, the row's when reading. */
typedef struct cay_row {
    size_t size;
    const char *id, *name, *provider, *reason;
    cay_state state;
    const char *spec;     /* JSON: the create request, complete enough to start it again */
    const char *box;      /* JSON: what the provider's attach() wants, or "" */
    const char *labels;   /* JSON object */
    const char *metadata; /* JSON object or "" */
    int64_t created_ms, changed_ms;
    int64_t version;    /* grows with every change; compare-and-set */
    const char *tenant; /* putting: NULL is "default" */
    const char
        *once; /* putting: a word that no two sandboxes of a tenant have, or NULL; not read back */
    uint64_t cpu_milli, memory, disk; /* putting: what it may use, for the quotas */
} cay_row;
typedef int cay_row_fn(const cay_row *row, void *arg);

/* One snapshot as recorded. */
typedef struct cay_snap_row {
    size_t size;
    const char *id, *sandbox, *parent, *label, *provider, *template_, *method, *digest;
    const char *state; /* "making", "ready"; reading: "damaged" when the row cannot be believed */
    const char *boot;  /* id of the boot it was made in */
    const char *mark;  /* making: what the sandbox's upper directory was before */
    const char *metadata; /* JSON object or "" */
    const char *layers; /* JSON list of layer names, bottom first, its own last; the template is not
                           among them */
    const char *spec;   /* JSON: the request behind its sandbox */
    bool automatic, durable;
    int64_t created_ms;
    uint64_t bytes, files, frozen_us, total_us;
    size_t depth, users; /* only when reading */
    const char *tenant;  /* putting: NULL is that of the sandbox, "default" when that is gone */
} cay_snap_row;
typedef int cay_snap_row_fn(const cay_snap_row *row, void *arg);

/* One template as recorded. */
typedef struct cay_template_row {
    size_t size;
    const char *id, *tenant, *base, *source, *digest;
    const char *names;  /* JSON list of names, with tags */
    const char *layers; /* JSON list of layer names, bottom first */
    const char *config; /* JSON object */
    bool shared;
    uint64_t bytes, files;
    int64_t created_ms;
    size_t users; /* only when reading */
} cay_template_row;
typedef int cay_template_row_fn(const cay_template_row *row, void *arg);

/* A key as recorded. */
typedef struct cay_key_row {
    cay_key key;
    const char *hash; /* SHA-256 of its whole text, hex */
} cay_key_row;
typedef int cay_key_row_fn(const cay_key_row *row, void *arg);

/* Work that outlives who began it. */
typedef struct cay_layer_job {
    size_t size;
    const char *kind; /* "remove" a layer, "merge" into one, "merged", "undo" of a sandbox */
    const char *subject;
    const char *detail; /* remove: the provider; merge, merged: the layers as a JSON list; undo:
                           {"to","mark","layers"} */
    int64_t created_ms;
} cay_layer_job;
typedef int cay_layer_job_fn(const cay_layer_job *job, void *arg);

enum { CAY_STORE_LATER = 1, CAY_STORE_BROKEN = 2 };

typedef struct cay_store_ops {
    size_t size;
    const char *name; /* "sqlite" */
    int (*open)(const char *where, void **self,
                cay_err *err); /* CAY_ESTATE: written by a newer cay */
    void (*close)(void *self);
    const char *(*instance)(void *self); /* random id made with the store; lives as long as self */
    /* CAY_EEXIST when the id is there, or with reason "once" the word. CAY_ENOENT,
     * "tenant_not_found". What the tenant has is counted in the same transaction: CAY_ERATE,
     * "quota_exceeded" or "create_rate". Durable when it returns. */
    int (*insert)(void *self, const cay_row *row, cay_err *err);
    /* Sets state, reason and box (NULL leaves box) if the row still is in one of the states `from`
     * (bits), else CAY_ESTATE with reason "state_changed"; CAY_ENOENT when there is no row. A
     * stopped one that gets reason "starting" counts as running, and is refused like a new one. */
    int (*move)(void *self, const char *id, unsigned from, cay_state to, const char *reason,
                const char *box, cay_err *err);
    int (*remove)(void *self, const char *id, cay_err *err); /* CAY_ENOENT when not there */
    /* fn gets one row; its return is returned. */
    int (*get)(void *self, const char *id, cay_row_fn *fn, void *arg, cay_err *err);
    /* Rows in order of creation. A damaged row is given with state CAY_DAMAGED, never skipped. */
    int (*list)(void *self, const cay_filter *filter, cay_row_fn *fn, void *arg, cay_err *err);
    /* Two numbers, other ones after every change of the store, by whomever. */
    int (*version)(void *self, uint64_t out[2], cay_err *err);
    /* Ids that start with prefix, or whose name is exactly prefix; at most max. Returns the count.
     */
    int (*resolve)(void *self, const char *prefix, char (*ids)[CAY_ID_LEN + 1], size_t max,
                   size_t *n, cay_err *err);
    /* Small named notes: (space, key) → JSON text. value NULL removes. */
    int (*note_put)(void *self, const char *space, const char *key, const char *value,
                    cay_err *err);
    int (*note_get)(void *self, const char *space, const char *key,
                    int (*fn)(const char *value, void *arg), void *arg, cay_err *err);
    /* The notes of a space whose key begins with prefix, by key. */
    int (*note_list)(void *self, const char *space, const char *prefix,
                     int (*fn)(const char *key, const char *value, void *arg), void *arg,
                     cay_err *err);
    /* Another request behind the same sandbox, if the row still has that version, else CAY_ESTATE
     * with reason "state_changed". */
    int (*respec)(void *self, const char *id, int64_t version, const char *spec, cay_err *err);
    /* Other words for it; NULL leaves one as it is. CAY_ENOENT when there is no row. */
    int (*rename)(void *self, const char *id, const char *name, const char *labels,
                  const char *metadata, cay_err *err);

    /* Snapshots. A layer is in use while the stack of a sandbox or snapshot names it, or a job or
     * lease does; that is asked each time and never counted. Whatever takes the last user of a
     * layer away leaves a job "remove" for it, in the same transaction. snap_insert is on the disk
     * when it returns; the others need not be: without them whoever looks at a row "making" or a
     * job "undo" comes to the same end. CAY_EEXIST: "label_in_use", "snapshot_exists". */
    int (*snap_insert)(void *self, const cay_snap_row *row, cay_err *err);
    /* It is made: state, method, layers and figures. `stacked`: the sandbox now stands on these
     * layers, too. */
    int (*snap_ready)(void *self, const cay_snap_row *row, bool stacked, cay_err *err);
    /* digest "": as it was. bytes and files of its own layer, where nobody has counted them yet. */
    int (*snap_settled)(void *self, const char *id, const char *digest, bool durable,
                        uint64_t bytes, uint64_t files, cay_err *err);
    int (*snap_label)(void *self, const char *id, const char *label,
                      cay_err *err); /* "": none. CAY_EEXIST, "label_in_use"; CAY_ENOENT */
    int (*snap_remove)(void *self, const char *id,
                       cay_err *err); /* CAY_ENOENT, "snapshot_not_found" */
    /* In order of creation; sandbox, after: or NULL. */
    int (*snap_list)(void *self, const char *sandbox, const char *after, cay_snap_row_fn *fn,
                     void *arg, cay_err *err);
    int (*snap_get)(void *self, const char *id, cay_snap_row_fn *fn, void *arg, cay_err *err);
    /* The newest copy of what is above the stack `layers`, taken while processes of that sandbox
     * ran; "" when there is none. */
    int (*snap_last)(void *self, const char *sandbox, const char *layers, char id[CAY_ID_LEN + 1],
                     cay_err *err);
    /* tenant NULL: of all. Two of one tenant never have the same label. */
    int (*snap_resolve)(void *self, const char *tenant, const char *ref,
                        char (*ids)[CAY_ID_LEN + 1], size_t max, size_t *n, cay_err *err);
    /* The sandbox stands on other layers, and on snapshot `from`; ends a job "undo" of it. */
    int (*restack)(void *self, const char *id, const char *layers, const char *from, cay_err *err);
    int (*layer_used)(void *self, const char *layer, bool *used, cay_err *err);
    /* Stacks that begin with `layers` (a JSON list) and go on begin with `merged` instead: of
     * snapshots, and of sandboxes that are stopped, or only of sandbox `id` whatever its state.
     * *left: so many still begin with it. */
    int (*layers_merge)(void *self, const char *layers, const char *merged, const char *provider,
                        const char *id, size_t *left, cay_err *err);
    /* What was changed before it is on the disk when it returns. */
    int (*sync)(void *self, cay_err *err);
    int (*layer_job_put)(void *self, const char *kind, const char *subject, const char *detail,
                         cay_err *err);
    int (*layer_job_drop)(void *self, const char *kind, const char *subject, cay_err *err);
    int (*layer_job_list)(void *self, const char *kind, cay_layer_job_fn *fn, void *arg,
                          cay_err *err);
    /* CAY_STORE_LATER: jobs other than "merged", or snapshots of boot `boot` that are not durable.
     * CAY_STORE_BROKEN: snapshots or undos that were begun and not ended, by somebody who lives or
     * not. */
    int (*unsettled)(void *self, const char *boot, unsigned *what, cay_err *err);

    /* Templates. Their layers are in use as those of snapshots are. Names go from the one of that
     * tenant that had them; the lease of the same id ends. Durable when they return. */
    int (*template_insert)(void *self, const cay_template_row *row,
                           cay_err *err); /* CAY_EEXIST: the id */
    int (*template_remove)(void *self, const char *id,
                           cay_err *err); /* CAY_ENOENT, "template_not_found" */
    /* id NULL: nobody has that name any more. */
    int (*template_name)(void *self, const char *tenant, const char *name, const char *id,
                         cay_err *err);
    int (*template_share)(void *self, const char *id, bool shared,
                          cay_err *err); /* CAY_ENOENT, "template_not_found" */
    /* In order of creation: tenant's own and shared ones, or NULL; id, after: or NULL. */
    int (*template_list)(void *self, const char *tenant, const char *id, const char *after,
                         cay_template_row_fn *fn, void *arg, cay_err *err);
    /* Those of a name or of the beginning of an id: first the tenant's own, then shared ones.
     * tenant NULL: of all. */
    int (*template_resolve)(void *self, const char *tenant, const char *ref,
                            char (*ids)[CAY_ID_LEN + 1], size_t max, size_t *n, cay_err *err);

    /* Who may ask. Durable when they return. "default" is there from the beginning and stays. */
    int (*tenant_put)(void *self, const cay_tenant *t, bool fresh,
                      cay_err *err); /* CAY_EEXIST when fresh, else CAY_ENOENT */
    int (*tenant_drop)(void *self, const char *name,
                       cay_err *err); /* with its keys; CAY_ESTATE, "tenant_in_use" */
    int (*tenant_list)(void *self, const char *name, cay_tenant_fn *fn, void *arg,
                       cay_err *err); /* NULL: all, by name */
    int (*key_put)(void *self, const cay_key_row *row,
                   cay_err *err); /* CAY_EEXIST: the id; CAY_ENOENT: no such tenant */
    int (*key_get)(void *self, const char *id, cay_key_row_fn *fn, void *arg, cay_err *err);
    int (*key_list)(void *self, const char *tenant, cay_key_row_fn *fn, void *arg, cay_err *err);
    int (*key_revoke)(void *self, const char *id, int64_t at_ms,
                      cay_err *err); /* keeps an earlier time */
    int (*key_used)(void *self, const char *id, int64_t at_ms,
                    cay_err *err); /* need not be on the disk; one that is gone is no failure */
    int (*key_sweep)(void *self, int64_t before_ms,
                     cay_err *err); /* sessions and links whose end was before */
    /* The sandbox that was made with that word; CAY_ENOENT. */
    int (*once_find)(void *self, const char *tenant, const char *once, char id[CAY_ID_LEN + 1],
                     cay_err *err);

    /* Answers. owner: who is at it. 0: the row is the caller's, new or taken over from the owner
     * `dead`, of whom fn gets what he left by `begun`. CAY_EEXIST and CAY_EBUSY as
     * cay_idempotency_begin() says; with both fn gets the row, and `owner` of who is at it. */
    int (*idempotency_begin)(void *self, const cay_idempotency_record *ask, const char *owner,
                             const char *dead,
                             int (*fn)(const cay_idempotency_record *, const char *owner, void *),
                             void *arg, cay_err *err);
    int (*idempotency_end)(void *self, const cay_idempotency_record *a, const char *owner,
                           int64_t expires_ms, cay_err *err); /* status 0: forget it */
    int (*idempotency_sweep)(void *self, int64_t now_ms, cay_err *err);

    /* The queue; now_ms is the caller's clock. Durable when they return. What waits is counted in
     * the same transaction: CAY_ERATE, "queue_full". */
    int (*job_put)(void *self, const cay_job *t, unsigned how, char id[CAY_ID_LEN + 1],
                   cay_err *err);
    /* CAY_ENOENT: nothing is due, and *next_ms is when something will be, or 0. */
    int (*job_claim)(void *self, const char *kinds, const char *owner, int64_t now_ms,
                     int64_t lease_ms, cay_job_fn *fn, void *arg, int64_t *next_ms,
                     cay_err *err); /* kinds: JSON list, or NULL; lease_ms: when it ends */
    int (*job_claim_fair)(void *self, const char *kinds, const char *owner, int64_t now_ms,
                          int64_t lease_ms, cay_job_fn *fn, void *arg, int64_t *next_ms,
                          cay_err *err); /* the same, as cay_job_claim_fair() */
    /* state: "running" (lease_ms: until when), "done", "waiting" (due_ms), "dead". CAY_ESTATE,
     * "task_lost". */
    int (*job_end)(void *self, const char *id, uint64_t fence, const char *state, int64_t when_ms,
                   const char *error, cay_err *err);
    int (*job_cancel)(void *self, const char *id, const char *kind, const char *subject, size_t *n,
                      cay_err *err); /* by id, or by the others */
    int (*job_replay)(void *self, const char *id, int64_t now_ms, cay_err *err);
    int (*job_sweep)(void *self, int64_t before_ms, size_t *n, cay_err *err);
    int (*job_list)(void *self, const cay_job_filter *f, cay_job_fn *fn, void *arg, cay_err *err);

    /* The oldest running row of tenant `from` with that name becomes `row` (its state, box, name,
     * labels, metadata, spec, once and tenant), newest of all, counted and refused as by insert.
     * *box: what the old row had, malloc'ed. CAY_ENOENT, "warm_none". Rows of a tenant whose name
     * begins with a dot are in no quota. Durable when it returns. */
    int (*pool_take)(void *self, const char *from, const char *name, const cay_row *row,
                     char id[CAY_ID_LEN + 1], char **box, cay_err *err);
    /* That row becomes CAY_DELETING, whatever its state, if it still is of tenant `from`; else
     * nothing changes: CAY_ENOENT, "warm_none". So what somebody has taken is never removed as
     * nobody's. Durable when it returns. */
    int (*warm_drop)(void *self, const char *from, const char *id, cay_err *err);
} cay_store_ops;

extern const cay_store_ops cay__store_sqlite;

#ifdef __cplusplus
}
#endif
