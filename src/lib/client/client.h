/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/client.h - the client from inside: store, providers, and how records meet what is
 * alive.
 *
 * The store says what exists and is wanted; a provider says what is alive. Whoever sees both writes
 * the newer fact into the store by compare-and-set, so any number of programs may do it at once.
 */
#pragma once
#include "lifecycle.h"
#include <lib/snapshot/layer.h>
#include <lib/store/row.h>
#include <base/base.h>
#include <base/path.h>
#include <cay/sys/provider.h>
#include <cay/sys/store.h>
#include <pthread.h>
#include <lib/sandbox/sandbox.h>
#include <stdatomic.h>

struct cay__spec; /* spec.h */

typedef struct cay__place {
    const cay_provider_ops *ops;
    _Atomic(void *) self; /* NULL until it is needed */
} cay__place;

typedef struct cay__remote cay__remote;

typedef struct cay__retired {
    struct cay__retired *next;
    const cay_sandbox *of;
    void *box;
} cay__retired;

struct cay_client {
    atomic_int refs; /* the opener's, and one for each handle */
    char home[CAY__HOME_MAX], run[CAY__RUN_MAX];
    int home_fd;
    char *libexec, *provider; /* provider: the default one's name */
    cay__layer_at layers;     /* home and libexec, for cay-layer */
    bool named;               /* the opener named it */
    const cay_store_ops *store;
    void *db;
    cay__place *places;
    size_t nplaces;
    pthread_mutex_t lock; /* of retired, keys and auditor */
    cay__retired *retired;
    struct cay__remote *remote;               /* remote.h: it is a server's; NULL: it is not */
    struct cay__keyring *keys;                /* NULL until one is shown; access.c */
    struct cay__auditor *auditor;             /* NULL until something is told; audit.c */
    _Atomic uint64_t warm_taken, warm_missed; /* pool_take.c */
    char owner[160]; /* as of cay__creator_text(), the same as long as it is open */
};

/* An operation of the client's store. */
#define CAY__STORE(client, op, ...) (client)->store->op((client)->db, __VA_ARGS__)

void cay__client_unref(cay_client *client);
/* CAY_ENOENT naming the providers there are. */
int cay__client_place(cay_client *client, const char *name, cay__place **out, cay_err *err);
/* Opens it at first use. */
int cay__client_self(cay_client *client, cay__place *p, void **self, cay_err *err);
/* The record, copied; free() it. */
int cay__client_row(cay_client *client, const char *id, cay__row **out, cay_err *err);
/* Moves along the table of lifecycle.h. 0 too when somebody else already moved it there. */
int cay__client_move(cay_client *client, const char *id, cay_state to, const char *reason,
                     const char *box, cay_err *err);
/* Lets providers remove what no record owns; only those in use already unless `all`. */
int cay__client_sweep(cay_client *client, const cay_call *call, bool all, size_t *removed,
                      cay_err *err);

/* As long for a near miss as for a far one; keys.c. */
bool cay__equal_const_time(const char *a, const char *b, size_t n);
void cay__keyring_free(struct cay__keyring *k);
void cay__auditor_free(struct cay__auditor *w);
/* CAY_EINVAL, "tenant_invalid". */
int cay__tenant_check(const char *name, cay_err *err);
int cay__alias_get(cay_client *client, const char *tenant, const char *alias,
                   int (*fn)(const char *id, void *arg), void *arg);
/* A note's value, copied. */
int cay__note_text(cay_client *client, const char *space, const char *key, char **out,
                   cay_err *err);
void cay__alias_forget(cay_client *client, const char *id);

/* A handle of its own on the provider's box; CAY_EGONE when it is no more. ops->release() it. */
int cay__box_attach(cay_client *client, const cay_call *call, const cay_row *row,
                    cay__place **place, void **box, cay_err *err);
/* Ends whatever the provider has under that id and removes its files; nothing there is fine too. */
int cay__box_wipe(cay_client *client, const cay_call *call, const cay_row *row, cay_err *err);
/* What state() gives as text, "" without one. The caller frees. */
int cay__box_text(const cay_provider_ops *ops, void *box, char **out, cay_err *err);

/* A record beside what is alive. */
typedef struct cay__truth {
    cay_state state;
    char reason[64];
    const cay_provider_ops *ops; /* NULL when the provider is unknown here */
    void *box;                   /* owned; NULL unless alive */
    bool asked;                  /* status is filled */
    cay_box_status status;
} cay__truth;
/* Asks the provider about a record in a live state and takes a newer fact over into the store.
 * Fails only when the provider cannot be asked; then *out still tells what the record says. */
int cay__truth_find(cay_client *client, const cay_call *call, const cay_row *row, cay__truth *out,
                    cay_err *err);
#define CAY__ONCE_MAX 320
int cay__once_check(const char *once, cay_err *err); /* NULL is fine; access.c */
/* That no more may wait of this kind, and how many do; tasks.c. */
int cay__queue_full(const char *tenant, const char *kind, unsigned waiting, unsigned most,
                    cay_err *err);
/* The same of a status that was asked for already; its strings have to live as long as *out. */
void cay__truth_take(cay_client *client, const cay_row *row, const cay_box_status *status,
                     cay__truth *out);
void cay__truth_clear(cay__truth *t);
/* Why a box is no more: what its provider said, or "lost" when that tells nothing. */
const char *cay__gone_reason(const char *said);

/* handle.c, info.c, reconcile.c
 */

/* A handle that keeps the client; box may be NULL and is taken over. */
cay_sandbox *cay__handle_new(cay_client *client, const cay_provider_ops *ops, const char *id,
                             void *box, cay_state state);
/* Gives the handle another box; the old one lives until the handle goes, since calls on it may be
 * under way. */
void cay__handle_rebox(cay_sandbox *sb, void *box, cay_state state);

/* row NULL: a sandbox without record, of which `id` is known. */
cay_info *cay__info_new(const char *id, const cay_row *row, const cay__truth *truth);
/* To be filled: what it points to goes into *mem. cay_info_free() frees both. */
cay_info *cay__info_blank(cay__arena **mem);
void cay__info_mounts(cay_client *client,
                      cay_info *info); /* adds its storage to the layers, when it runs */
/* Of one that runs: its boot id, where it has one of its own. */
void cay__info_boot_id(cay_info *info, const cay_provider_ops *ops, void *box,
                       const cay_call *call);

/* Brings records and facts together after a crash or a reboot. Never fails because of one sandbox.
 */
int cay__reconcile(cay_client *client, cay_err *err);
/* Why `verb` cannot be done in that state, and what helps. life.c */
int cay__wrong_state(const cay_sandbox *sb, const char *verb, cay_state s, cay_err *err);
/* Finishes a deletion whose intent is recorded. */
int cay__delete_finish(cay_client *client, const cay_call *call, const cay_row *row, cay_err *err);
/* Tokens of its ports; expose.c. */
void cay__expose_forget(cay_client *client, const char *id);
/* cay_client_create() under an id that was another's life before: of a session that comes back
 * (create.c). NULL: a new one. */
int cay__create_as(cay_client *client, const cay_call *call, const char *id, const cay_create *spec,
                   cay_sandbox **out, cay_err *err);
/* One without a record that nobody but the client has a name for, whoever's snapshot it is made
 * of: it is no tenant's (create.c). */
int cay__create_own(cay_client *client, const cay_call *call, const cay_create *spec,
                    cay_sandbox **out, cay_err *err);
/* The record of a sandbox that is being made by this program. spec and labels are the row's, to be
 * freed after it. */
int cay__create_row(const struct cay__spec *s, cay_row *row, char **spec, char **labels,
                    char *creator, size_t cap, cay_err *err);
/* Nothing half-made stays; what cannot be undone now is left as a recorded deletion for whoever
 * opens next. */
void cay__create_undo(cay_client *client, const char *id, const cay_create *c);
int cay__metadata_check(const char *text, cay_err *err); /* NULL is fine; create.c */
/* Who makes a sandbox, as JSON for the box column while it is being made. */
void cay__creator_text(char *buf, size_t cap);
/* The same without asking /proc again, which costs more than the rest of a lease; after a fork it
 * is asked. */
void cay__creator_now(const cay_client *client, char *buf, size_t cap);
/* By that text in row->box. */
bool cay__maker_is_dead(const cay_row *row);

/* Volumes: which sandbox has which; volume.c. */
/* Before the sandbox is made: every volume it names is there, and stays there as long as the
 * sandbox does. */
int cay__volumes_take(cay_client *client, const cay_call *call, const char *id, const cay_create *c,
                      cay_err *err);
void cay__volumes_forget(cay_client *client, const char *id);

/* Volumes are tenant default's, but for those that builds of a tenant make for its steps: their
 * names begin with this, 16 hex digits of the tenant's SHA-256 and a dot, and nobody else may have
 * them. */
#define CAY__VOLUME_BUILD "build."
int cay__volumes_tenant(const cay_create *c, cay_err *err);
/* Those of its builds go with it: a tenant of the same name is another one. */
void cay__volumes_tenant_gone(cay_client *client, const char *tenant);
