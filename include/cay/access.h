/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/access.h - who may ask for what: tenants with their quotas, and the keys they show.
 *
 *   cay_tenant_create()   a name and how much it may have
 *   cay_key_create()      a key, told once
 *   cay_tenant_list()     with what each of them uses
 *   cay_key_check()       who shows this key?
 *   cay_key_revoke()      from now on nobody
 *   cay_key_list()        those there are, without their secrets
 *   cay_login_create()  a secret of a browser, no key
 *   cay_login_check()   who shows it, as long as its key is good?
 *
 * A sandbox belongs to one tenant (cay_create.tenant); without a server everything is "default".
 * The store has only a hash of a key.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAY_TENANT_MAX     63 /* bytes of a name: [a-z0-9-], the first a letter */
#define CAY_TENANT_DEFAULT "default"

/* What all sandboxes of a tenant may have together. 0: no bound. */
typedef struct cay_quota {
    uint64_t sandboxes;       /* that exist, stopped ones too */
    uint64_t cpu_milli;       /* limits of those that are not stopped, added up */
    uint64_t memory;          /* likewise, bytes */
    uint64_t disk;            /* limits of all that exist, bytes */
    uint64_t creates_per_min; /* new ones in a minute; as many may come at once */
    uint64_t templates;       /* bytes of all layers of its own templates; one that several stand on
                                 counts once; and of its builds' caches */
} cay_quota;

typedef struct cay_tenant {
    size_t size;
    const char *name;
    cay_quota most;
    cay_quota used; /* only when reading; creates_per_min: those that count now */
    int64_t created_ms;
    const char *once; /* only when creating: as that of cay_volume_spec; or NULL */
} cay_tenant;
typedef int cay_tenant_fn(const cay_tenant *tenant, void *arg);

CAY_API int cay_tenant_create(cay_client *client, const cay_tenant *spec,
                              cay_err *err); /* CAY_EEXIST */
CAY_API int cay_tenant_set(cay_client *client, const cay_tenant *spec,
                           cay_err *err); /* other quotas; what exists stays */
/* Its keys go with it. CAY_ESTATE, "tenant_in_use", while it has sandboxes or snapshots; "default"
 * stays always. */
CAY_API int cay_tenant_remove(cay_client *client, const char *name, cay_err *err);
CAY_API int cay_tenant_list(cay_client *client, cay_tenant_fn *fn, void *arg, cay_err *err);
CAY_API int cay_tenant_get(cay_client *client, const char *name, cay_tenant_fn *fn, void *arg,
                           cay_err *err);

/* What a key opens, from little to much. */
typedef enum cay_key_scope {
    CAY_KEY_NONE = 0,
    CAY_KEY_LOGIN_LINK,    /* nothing: the console changes it, once, into a session of scope admin;
                         lives 15 minutes at most */
    CAY_KEY_PORT,          /* one port of one sandbox */
    CAY_KEY_FILE,          /* files of one sandbox at or below a path */
    CAY_KEY_SANDBOX,       /* one sandbox */
    CAY_KEY_TENANT,        /* all of one tenant */
    CAY_KEY_ADMIN,         /* everything, tenants and keys too */
    CAY_KEY_CONSOLE_LOGIN, /* nothing as a key: a session below; only when reading */
} cay_key_scope;
CAY_API const char *cay_key_scope_name(cay_key_scope s);
CAY_API cay_key_scope cay_key_scope_parse(const char *name); /* CAY_KEY_NONE: no such word */

#define CAY_KEY_ID_LEN 8
#define CAY_KEY_LEN    76 /* "e2b_", the id, 64 hex digits */

typedef struct cay_key {
    size_t size;
    const char *id;      /* 8 hex digits; only when reading */
    const char *tenant;  /* NULL: "default" */
    const char *name;    /* for people, at most 100 bytes; NULL: none */
    cay_key_scope scope; /* CAY_KEY_NONE: tenant */
    const char *sandbox; /* with sandbox, port and file: whole id */
    const char *path;    /* with file; absolute; "" when reading others */
    uint16_t port;       /* with port */
    int64_t created_ms, expires_ms /* 0: never */, revoked_ms /* 0: it is good */; /* wall clock */
    const char *from; /* only when reading; with session: the id of the key it stands for, "" when
                         it came by a link; "" of others */
    int64_t
        used_ms; /* only when reading: when it last opened something, to the minute; 0: never yet */
    const char *text; /* only when making: what it shall be, by cay_key_text(); NULL: something new.
                         CAY_EEXIST, "key_revoked", when that was one */
} cay_key;
typedef int cay_key_fn(const cay_key *key, void *arg);
/* A key that nobody has yet, of which nothing is recorded. */
CAY_API void cay_key_text(char text[CAY_KEY_LEN + 1]);

/* Makes one and tells it: the only time. Keys of one sandbox die with it, those of a port or file
 * after 7 days unless expires_ms says sooner. */
CAY_API int cay_key_create(cay_client *client, const cay_key *spec, char text[CAY_KEY_LEN + 1],
                           cay_err *err);
/* Who shows it? fn gets the key; its return is returned. CAY_EAUTH, "key_invalid", alike for every
 * cause but an end that has passed
 * ("key_expired", which only who knows the whole key learns). Costs microseconds: what is known is
 * asked again after a second, so a key that another program revokes dies within one. */
CAY_API int cay_key_check(cay_client *client, const char *text, cay_key_fn *fn, void *arg,
                          cay_err *err);
CAY_API int cay_key_list(cay_client *client, const char *tenant, cay_key_fn *fn, void *arg,
                         cay_err *err); /* NULL: of all */
CAY_API int cay_key_revoke(cay_client *client, const char *id,
                           cay_err *err); /* CAY_ENOENT, "key_not_found"; twice is fine */

#define CAY_LOGIN_LEN 77 /* "cays_", the id, 64 hex digits */
/* What a browser keeps instead of a key: of `from`, as cay_key_check() tells it, a secret of its
 * own that dies after 7 days, with cay_key_revoke() of its id, and with that key. From a key of
 * scope login, which the caller uses up, it is of scope admin; narrower than tenant is CAY_EPERM,
 * "scope_too_narrow". Kept as a hash; cay_key_list() has it with scope session; cay_key_check()
 * refuses it. */
CAY_API int cay_login_create(cay_client *client, const cay_key *from, char text[CAY_LOGIN_LEN + 1],
                             cay_err *err);
/* As cay_key_check(); fn gets the session's id with tenant and scope of the key that it stands for.
 */
CAY_API int cay_login_check(cay_client *client, const char *text, cay_key_fn *fn, void *arg,
                            cay_err *err);

/* Writes down when keys were last used, which cay_key_check() only remembers: of each once a minute
 * at most, or all that is not written yet. Cheap when there is nothing to write; a program that
 * checks keys calls it now and then, and at its end. */
CAY_API int cay_key_flush_usage(cay_client *client, bool all, cay_err *err);
/* Forgets sessions and links that expired or were revoked before that time, which open nothing any
 * more; keys stay, so that a list tells of them. */
CAY_API int cay_key_sweep(cay_client *client, int64_t before_ms, cay_err *err);

/* An answer that is given again when the same request comes again: by tenant, route and a key that
 * the asker chose (Idempotency-Key). */
typedef struct cay_idempotency_record {
    size_t size;
    const char *tenant, *route, *key; /* key: 1 to 255 printing characters */
    const char *request;              /* hash of what was asked */
    int status;
    const char *type; /* of the body */
    const void *body;
    size_t len; /* at most 1 MiB is kept */
    bool begun; /* ending: it is still at work, and this is for who follows if it dies at it */
} cay_idempotency_record;
typedef int cay_idempotency_record_fn(const cay_idempotency_record *record, void *arg);
/* 0: it is the first time, and the caller's until cay_idempotency_end(). CAY_EEXIST,
 * "idempotency_replay": fn got what was answered; "idempotency_conflict": the same key came with
 * another request. CAY_EBUSY, "idempotency_busy": somebody is at it. Whoever died at it is followed
 * by the next who asks, and fn gets what he left by `begun`, if anything. What fn does not return 0
 * of is not the asker's: it stays as it is, and the answer is "idempotency_conflict". */
CAY_API int cay_idempotency_begin(cay_client *client, const cay_idempotency_record *ask,
                                  cay_idempotency_record_fn *fn, void *arg, cay_err *err);
/* Keeps it for a day; with status 0 nothing is kept, and the next one may try. */
CAY_API int cay_idempotency_end(cay_client *client, const cay_idempotency_record *a, cay_err *err);
CAY_API int cay_idempotency_sweep(cay_client *client, cay_err *err); /* those whose day is over */
/* SHA-256 in hex, for `request`. */
CAY_API void cay_idempotency_hash(const void *data, size_t len, char out[65]);

/* A sandbox of that tenant by its whole id or an alias of the tenant; those of others are not
 * there. tenant NULL: of any, without aliases. */
CAY_API int cay_client_find_of(cay_client *client, const cay_call *call, const char *tenant,
                               const char *id, cay_sandbox **out, cay_err *err);
/* Another name by which the tenant finds it, such as a UUID: 1 to 128 printing characters. Goes
 * with the sandbox. id NULL takes it away. */
CAY_API int cay_client_alias(cay_client *client, const char *tenant, const char *alias,
                             const char *id, cay_err *err);

#ifdef __cplusplus
}
#endif
