/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/sys/store.h - for those who keep the records: what exists and is wanted.
 *
 * A store is one table of functions. Every call is one transaction: when it returns 0 the change is
 * committed, when it fails nothing changed. Calls may come from any thread and any process at once.
 * tests/unit/test_store.c is the contract, run against every store there is.
 */
#pragma once
#include <cay/service.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct json_t cay_json;

/* One sandbox as recorded. Strings are the caller's when putting, the row's when reading. */
typedef struct cay_row {
    size_t      size;
    const char *id, *name, *provider, *reason;
    cay_state   state;
    const char *spec;     /* JSON: the create request, complete enough to start it again */
    const char *box;      /* JSON: what the provider's attach() wants, or "" */
    const char *labels;   /* JSON object */
    const char *metadata; /* JSON object or "" */
    int64_t     created_ms, changed_ms;
    int64_t     version;  /* grows with every change; compare-and-set */
} cay_row;

typedef struct cay_store_ops {
    size_t      size;
    const char *name; /* "sqlite" */
    int  (*open)(const char *where, void **self, cay_err *err); /* CAY_ESTATE: written by a newer cay */
    void (*close)(void *self);
    const char *(*instance)(void *self); /* random id made with the store; lives as long as self */
    /* CAY_EEXIST when the id is there. Durable when it returns. */
    int  (*insert)(void *self, const cay_row *row, cay_err *err);
    /* Sets state, reason and box (NULL leaves box) if the row still is in one of the states `from`
     * (bits), else CAY_ESTATE with reason "state_changed"; CAY_ENOENT when there is no row. */
    int  (*move)(void *self, const char *id, unsigned from, cay_state to, const char *reason,
                 const char *box, cay_err *err);
    int  (*remove)(void *self, const char *id, cay_err *err); /* CAY_ENOENT when not there */
    /* fn gets one row; its return is returned. */
    int  (*get)(void *self, const char *id, int (*fn)(const cay_row *, void *), void *arg, cay_err *err);
    /* Rows in order of creation. A damaged row is given with state CAY_DAMAGED, never skipped. */
    int  (*list)(void *self, const cay_filter *filter, int (*fn)(const cay_row *, void *), void *arg,
                 cay_err *err);
    /* Ids that start with prefix, or whose name is exactly prefix; at most max. Returns the count. */
    int  (*resolve)(void *self, const char *prefix, char (*ids)[CAY_ID_LEN + 1], size_t max,
                    size_t *n, cay_err *err);
    /* Small named notes: (space, key) → JSON text. value NULL removes. */
    int  (*note_put)(void *self, const char *space, const char *key, const char *value, cay_err *err);
    int  (*note_get)(void *self, const char *space, const char *key,
                     int (*fn)(const char *value, void *arg), void *arg, cay_err *err);
    /* The notes of a space whose key begins with prefix, by key. */
    int  (*note_list)(void *self, const char *space, const char *prefix,
                      int (*fn)(const char *key, const char *value, void *arg), void *arg, cay_err *err);
    /* Another request behind the same sandbox, if the row still has that version, else CAY_ESTATE with reason "state_changed". */
    int  (*respec)(void *self, const char *id, int64_t version, const char *spec, cay_err *err);
} cay_store_ops;

extern const cay_store_ops cay__store_sqlite;

#ifdef __cplusplus
}
#endif
