/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E2B's protocol as its published SDKs speak it: a control plane of REST (control.c), and for each
 * sandbox the daemon "envd" that they believe to be inside (process.c, filesystem.c, files.c),
 * which is this server. docs/wire/e2b.md tells what is answered.
 *
 * What E2B knows of a sandbox and we do not is in its metadata, {"e2b": {…}, "metadata": {…}};
 * tokens are made from the server's secret and the sandbox's id, so nothing is kept of them.
 */
#pragma once
#include <server/dialect/dialect.h>
#include "envelope.h"

#define E2B_ENVD_PORT    49983
#define E2B_ENVD_VERSION "0.6.13" /* SDKs choose what they use by it */
#define E2B_TIMEOUT      300      /* seconds, unless the request says */

typedef struct e2b_note {
    const char *template_;
    int64_t timeout; /* seconds, as asked at first */
    bool own;        /* it was made by this protocol */
    bool files;      /* at its end it is paused, without its memory */
    bool auto_resume, internet_set, internet;
    json_t *network;  /* as given, or NULL */
    json_t *metadata; /* the user's, an object */
    json_t *volumes;  /* as given, or NULL */
    json_t *all;      /* owns what the others point to */
} e2b_note;

typedef struct e2b_box {
    cay_sandbox *sb; /* the request's own */
    cay_info *info;
    e2b_note note;
} e2b_box;

void e2b_box_clear(e2b_box *b);
#define E2B_AUTOBOX __attribute__((cleanup(e2b_box_clear))) e2b_box
/* By E2B's id, which may have "-CLIENT" behind it. What ended by its time-out counts as gone. */
int e2b_find(cay__req *r, const char *id, bool any, e2b_box *out,
             cay_err *err); /* any: of whatever tenant */
/* A member; NULL for none and for null. */
json_t *e2b_member(const json_t *in, const char *key);
/* A note of that space, freed with the request; NULL: there is none. */
json_t *e2b_note_get(cay__req *r, const char *space, const char *key);
int e2b_open(cay__req *r, e2b_box *out, cay_err *err); /* the one of the route */
bool e2b_running(const cay_info *info);
bool e2b_alive(cay_sandbox *sb, const cay_call *call); /* it can be asked, and runs */
/* The one sandbox of SDKs in debug mode (debug.c), on listeners that need no key: is it meant by
 * that id, or by none (NULL)? It is made when it is not there. */
bool e2b_debug(const cay__req *r, const char *id);
int e2b_debug_find(cay__req *r, char id[CAY_ID_LEN + 1], cay_err *err);

CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref)
CAY_DEFINE_AUTO(cay_proc, cay_proc_unref)
CAY_DEFINE_AUTO(cay_info, cay_info_free)
CAY_DEFINE_AUTO(cay_upload, cay_upload_abort)
CAY_DEFINE_AUTO(cay_snapshot, cay_snapshot_free)
CAY_DEFINE_AUTO(cay_template, cay_template_free)

#define E2B_TOKEN_LEN 64
/* kind: "envd", "traffic". The same for the same sandbox as long as the state directory lives. */
int e2b_token(cay__req *r, const char *kind, const char *id, char token[E2B_TOKEN_LEN + 1],
              cay_err *err);
/* The same in two steps, for who makes many. */
int e2b_secret(cay__req *r, unsigned char key[32], cay_err *err);
int e2b_token_by(const unsigned char key[32], const char *kind, const char *id,
                 char token[E2B_TOKEN_LEN + 1], cay_err *err);

/* the control plane's looks (look.c) and rows (create.c, list.c, life.c, figures.c, logs.c,
 * snapshots.c, templates.c, volumes.c, secrets.c) */
#define E2B_PAGE 100
int e2b_level(const char *level); /* of a log: 0 debug, info, warn, 3 error; -1: none of them */
int e2b_limit(cay__req *r, uint64_t *out, cay_err *err); /* ?limit= of a list */
/* The list on the heap with room for one more behind its n; *cap is how many it has room for. */
void *e2b_grow(void *list, size_t n, size_t *cap, size_t size);
const char *e2b_when(int64_t ms, char out[32]); /* gives out back */
json_t *e2b_domain(cay__req *r);
int64_t e2b_bounded(uint64_t v, int64_t none);
int e2b_cpus(const cay_info *i);
json_t *e2b_listed(const e2b_box *b);
int e2b_sandbox_json(cay__req *r, const char *id, const char *template_, json_t **out,
                     cay_err *err);
int e2b_body(cay__req *r, json_t **out, cay_err *err); /* whose members are of their kinds */
int e2b_seconds(const json_t *in, const char *key, int64_t none, int64_t *out, cay_err *err);
cay__handler e2b_on_create, e2b_on_create_v1, e2b_on_list, e2b_on_list_v1, e2b_on_get, e2b_on_kill,
    e2b_on_connect, e2b_on_resume, e2b_on_pause, e2b_on_timeout, e2b_on_refresh, e2b_on_network,
    e2b_on_metrics, e2b_on_all_metrics, e2b_on_logs, e2b_on_logs_v2, e2b_on_snapshot,
    e2b_on_snapshots, e2b_on_fork, e2b_on_templates, e2b_on_template, e2b_on_template_delete,
    e2b_on_alias, e2b_on_template_patch, e2b_on_tags_add, e2b_on_tags_remove, e2b_on_tags,
    e2b_on_template_create, e2b_on_template_files, e2b_on_template_upload, e2b_on_build_start,
    e2b_on_build_status, e2b_on_build_logs, e2b_on_build;
/* NAME:TAG as it is kept; tag NULL: that of `given`, else `default`. */
int e2b_template_name(cay__req *r, const char *given, const char *tag, const char **out,
                      cay_err *err);
char *e2b_without_tag(cay__req *r, const char *name);
bool e2b_is_base(const char *name); /* the host's own */
bool e2b_has_base(
    cay__req *r,
    const char *name); /* … but for a template of that name, as templates/make base leaves one */
int e2b_template_find(cay__req *r, const char *ref, cay_template **out, cay_err *err);
/* A snapshot of that label or id, unless one of the tenant's own templates has the name: a key of
 * one sandbox names snapshots, and none of them may be taken for a template. */
int e2b_snapshot_find(cay__req *r, const char *name, cay_snapshot **out, cay_err *err);
/* What a template starts in each of its sandboxes, until it is ready. */
int e2b_template_start(cay__req *r, cay_sandbox *sb, const char *config, cay_err *err);
cay__handler e2b_on_volume_create, e2b_on_volumes, e2b_on_volume, e2b_on_volume_delete,
    e2b_on_volume_dir, e2b_on_volume_mkdir, e2b_on_volume_stat, e2b_on_volume_patch,
    e2b_on_volume_remove, e2b_on_volume_get, e2b_on_volume_put, e2b_on_secret_create,
    e2b_on_secret_update, e2b_on_secrets, e2b_on_secret, e2b_on_secret_delete, e2b_on_teams;
const char *e2b_secret_stored(cay__arena *mem,
                              const char *name); /* its name in the store; NULL: it cannot be one */
/* Use of a sandbox now, its share of the CPU measured over a moment. */
int e2b_sample(const cay_call *call, cay_sandbox *sb, cay_usage *out, double *cpu, cay_err *err);

int e2b_policy(const json_t *network, bool internet, char **text, cay_err *err);
/* network.maskRequestHost for a port: the Host that programs inside are told. false: it is none.
 * out may be NULL. */
#define E2B_HOST_MAX 200
bool e2b_mask_host(const char *mask, unsigned port, char *out, size_t cap);
/* Fields that are put in on the way out (rules.c). */
typedef struct e2b_rule {
    const char *name;                   /* of the binding */
    const char *domain, *header, *text; /* as given */
    const char *secret;                 /* of the store; NULL: the value is given */
    const char *value, *own;            /* then it is kept as that secret of ours */
    bool kept, bearer;                  /* it was before; the value is behind that word */
} e2b_rule;
int e2b_rules_read(cay__req *r, const json_t *network, bool internet, e2b_rule **out, size_t *n,
                   cay_err *err);
/* Values into the store, and the bindings as a create has them. sandbox: that has some already, or
 * NULL. */
int e2b_rules_store(cay__req *r, e2b_rule *v, size_t n, const char *sandbox, const cay_secret **out,
                    cay_err *err);
void e2b_rules_made(cay__req *r, const e2b_rule *v, size_t n,
                    const char *sandbox); /* NULL: it was not; what was stored for it goes */
void e2b_rules_only(cay__req *r, const e2b_rule *v, size_t n,
                    const char *sandbox); /* forgets other values that it had */
int e2b_rules_mask(cay__req *r, json_t *network,
                   cay_err *err);  /* what may be kept of them, in place */
void e2b_rules_sweep(cay__req *r); /* forgets values of sandboxes that are gone */

typedef struct e2b_daemon {
    cay_sandbox *sb;
    const char *id;
    const char *user;         /* whom the request names; NULL: */
    const char *default_user; /* … the sandbox's own */
    const char *home;         /* NULL: its accounts tell */
    const char *workdir;      /* of its template; NULL: the home */
    const cay_pair
        *env; /* for its commands, besides its own: it got rules after it was made; or NULL */
} e2b_daemon;
enum {                               /* what opens an operation, besides the sandbox's token */
       E2B_SIGNED = CAY__OP_DIALECT, /* a signed URL */
       E2B_TRAFFIC = CAY__OP_DIALECT << 1, /* the token of its ports */
       E2B_UPLOAD = CAY__OP_DIALECT << 2, /* an address that was given out; else a volume's token */
};
/* The token of an operation with CAY__OP_TOKEN; then r->who.sandbox is the one that it opens. */
cay__handler e2b_daemon_admit;
/* The sandbox of a request that was admitted, or of an open one by its headers or host name,
 * resumed where it asked for that; 502 when it does not run. */
int e2b_daemon_open(cay__req *r, e2b_daemon *out, cay_err *err);
cay__handler e2b_volume_admit, e2b_upload_admit;
/* As the SDKs mean a path: absolute, ~, or below the user's home. In the request's arena. */
const char *e2b_path(cay__req *r, const e2b_daemon *d, const char *path);
bool e2b_dead(const cay_err *err);
bool e2b_nobody(const cay_err *err);
#define E2B_ACCOUNTS_MAX ((size_t)1 << 20) /* of a passwd(5) or group(5) */
void e2b_as(cay__req *r, e2b_daemon *d,
            const char *user); /* in the request's memory; "" or NULL: nothing changes */

typedef struct e2b_rpc {
    json_t *in; /* the message; the request's */
    uint64_t timeout_ms, keepalive_ms;
    e2b_daemon d;
} e2b_rpc;
int e2b_rpc_open(cay__req *r, e2b_rpc *out, cay_err *err);

/* process.c, input.c, filesystem.c, watch.c, files.c */
cay__handler e2b_process_list, e2b_process_start, e2b_process_connect, e2b_process_update,
    e2b_process_input, e2b_process_signal, e2b_process_close_stdin, e2b_process_stream_input;
int e2b_process_find(cay_sandbox *sb, const cay_call *call, const json_t *selector, cay_proc **out,
                     cay_err *err);
int e2b_process_feed(cay_sandbox *sb, const cay_call *call, cay_proc *p, const json_t *input,
                     cay_err *err); /* {"stdin"} or {"pty"}, in base64 */
cay__handler e2b_fs_stat, e2b_fs_mkdir, e2b_fs_move;
int e2b_stream_last(cay__pump *p, cay__buf *out); /* the last words of any stream */
cay__handler e2b_fs_list, e2b_fs_remove, e2b_fs_watch;
/* An entry as the SDKs read it. */
typedef struct e2b_names { /* of owners: a sandbox's accounts, read when the first stranger comes */
    cay_sandbox *sb;
    const cay_call *call;
    char *passwd, *group;
    size_t npasswd, ngroup;
} e2b_names;
void e2b_names_clear(e2b_names *n);
#define E2B_AUTONAMES __attribute__((cleanup(e2b_names_clear))) e2b_names
const char *e2b_leaf(const char *path); /* its last name; the path itself when that is "" */
/* A name in a directory, as long as the request. */
const char *e2b_below(cay__req *r, const char *dir, const char *name);
json_t *e2b_entry(e2b_names *n, const char *path, const cay_stat *st);
int e2b_named(cay__req *r, const e2b_rpc *q, const char *key, const char **out,
              cay_err *err); /* a path of the message */
cay__handler e2b_watcher_create, e2b_watcher_events, e2b_watcher_remove;
unsigned e2b_port(const cay__head *h); /* the port inside that a request names by E2B's headers or
                                          its host; 0: none */
/* Does who asked want this file as gzip; and it as that. Takes from. */
bool e2b_packs(const cay__head *h, uint64_t size);
int e2b_reply_packed(cay__req *r, int from, uint64_t size, cay_err *err);
cay__handler e2b_files_get, e2b_files_post, e2b_files_compose;
