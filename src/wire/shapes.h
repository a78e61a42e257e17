/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/shapes.h - the objects of the native API, as JSON and as structs.
 *
 * A shape cay__NAME_shape is a table of one file of wire/: sandbox.c, process.c, file.c,
 * snapshot.c, template.c, access.c, net.c, host.c. Most are of a struct of the public API (said
 * behind their declaration); the structs here are those that only travel. cay__NAME_query is the
 * shape of what follows the question mark.
 *
 * Adding a member to what is told of a sandbox: one line in sandbox_fields, one member of cay_info,
 * and docs/wire/native.md.
 */
#pragma once
#include "op.h"
#include <cay/access.h>
#include <cay/audit.h>
#include <cay/build.h>
#include <cay/cay.h>
#include <cay/jobs.h>
#include <cay/manifest.h>
#include <cay/patch.h>
#include <cay/policy.h>
#include <cay/pool.h>
#include <cay/services.h>
#include <cay/shell.h>
#include <cay/snapshot.h>
#include <cay/template.h>
#include <cay/volume.h>
#include <cay/workspace.h>

/* The limit's one name: of a field, in recipes of dialects, and of a column of the store. */
#define CAY__CPU_MILLI "cpu_milli"

/* sandbox.c: cay_info, cay_limits, cay_wall, cay_usage; cay_grant, cay_volume_use, cay_secret,
 * cay_fork */
extern const cay__shape cay__sandbox_shape, cay__limits_shape, cay__wall_shape, cay__usage_shape;
extern const cay__shape cay__grant_shape, cay__volume_use_shape, cay__secret_use_shape,
    cay__fork_shape;
extern const cay__shape cay__nothing_shape; /* an object without members */
typedef struct cay__create_body {
    cay_create c;
    const char *isolation; /* becomes c.min_level */
    const char *net;       /* JSON: a list of rules, or a policy; becomes c.net */
} cay__create_body;
extern const cay__shape cay__create_shape;
/* A request as a record of the store keeps it: without provider, name, labels, metadata and tenant,
 * which have columns of their own. */
typedef struct cay__create_record {
    cay_create c;
    const char *net; /* c.net.policy as JSON */
    const char *template_config, *template_id, *template_name;
    const char *const *layers; /* NULL-terminated */
    uint64_t on_since_ms;
} cay__create_record;
extern const cay__shape cay__create_record_shape;
typedef struct cay__extend_body {
    uint64_t ttl_ms, idle_ms;
} cay__extend_body;
extern const cay__shape cay__extend_shape;
typedef struct cay__sandbox_patch {
    cay_update words;
    cay__extend_body time;
} cay__sandbox_patch;
extern const cay__shape cay__sandbox_patch_shape;
typedef struct cay__undo_body {
    const char *to;
} cay__undo_body;
extern const cay__shape cay__undo_shape;
typedef struct cay__waited {
    const char *state;
} cay__waited;
extern const cay__shape cay__waited_shape;
typedef struct cay__manifest_judged {
    const char *root, *tree;
    cay_manifest_totals sum;
} cay__manifest_judged;
extern const cay__shape cay__manifest_sum_shape;
typedef struct cay__manifest_given {
    const char *root, *tree;
    size_t entries, variables;
} cay__manifest_given;
extern const cay__shape cay__manifest_given_shape;
typedef struct cay__usage_point {
    int64_t time_ms;
    uint64_t cpu_milli, memory, disk, net_rx, net_tx;
} cay__usage_point;
extern const cay__shape cay__usage_point_shape;

typedef struct cay__list_query {
    cay_filter f;
    const char *const *states, *const *ids;
} cay__list_query;
typedef struct cay__past_query {
    uint64_t since_ms, until_ms;
} cay__past_query;
typedef struct cay__wait_query {
    uint64_t timeout_ms;
    const char *name; /* of a service */
} cay__wait_query;
typedef struct cay__events_query {
    const char *after;
    const char *const *kinds;
} cay__events_query;
extern const cay__shape cay__sandbox_list_query, cay__usage_past_query, cay__wait_for_query,
    cay__event_query;
extern const cay__shape cay__manifest_put_query; /* bool: replace */

/* process.c: cay_exit, cay_result; cay_shell_spec, cay_shell_cmd */
extern const cay__shape cay__exit_shape, cay__result_shape;
extern const cay__shape cay__shell_open_shape, cay__shell_run_shape;
typedef struct cay__spawn_body {
    cay_spawn s;
    const char *input, *input64; /* of a run alone */
    size_t input_len, max_output;
} cay__spawn_body;
extern const cay__shape cay__spawn_shape, cay__run_shape;
typedef struct cay__started {
    const char *id;
    int pid;
} cay__started;
extern const cay__shape cay__started_shape;
typedef struct cay__process_told {
    cay_proc_info i;
    const cay_exit *exit; /* of one that ended */
} cay__process_told;
extern const cay__shape cay__process_shape;
typedef struct cay__signal_body {
    int sig, scope;
} cay__signal_body;
typedef struct cay__size_body {
    uint16_t cols, rows;
} cay__size_body;
extern const cay__shape cay__signal_shape, cay__size_shape;
typedef struct cay__process_waited {
    bool ended;
    const cay_exit *exit;
} cay__process_waited;
extern const cay__shape cay__process_waited_shape;
typedef struct cay__shell_told {
    const char *name, *id, *user;
    int pid;
    int64_t started_ms;
} cay__shell_told;
extern const cay__shape cay__shell_shape;

typedef struct cay__process_query {
    const char *from_out, *from_err, *stream, *offset;
    bool follow, ended, close_input;
} cay__process_query;
extern const cay__shape cay__process_list_query, cay__process_output_query,
    cay__process_offset_query, cay__process_stdin_query;

/* file.c: cay_dirent, cay_match, cay_watch_event */
extern const cay__shape cay__file_shape, cay__match_shape, cay__watch_event_shape;
typedef struct cay__grep_body {
    cay_grep g;
    const char *path;
} cay__grep_body;
extern const cay__shape cay__grep_shape;
/* One struct for all bodies that name a path or two. */
typedef struct cay__edit_body {
    const char *path, *from, *to, *target;
    uint32_t mode, uid, gid; /* UINT32_MAX: that owner or group stays */
    bool parents;
} cay__edit_body;
extern const cay__shape cay__mkdir_shape, cay__rename_shape, cay__symlink_shape, cay__chmod_shape,
    cay__chown_shape;
typedef struct cay__names {
    const char *const *items;
} cay__names;
extern const cay__shape cay__names_shape;
typedef struct cay__file_patch {
    cay_patch_spec spec;
    const char *patch;
} cay__file_patch;
extern const cay__shape cay__file_patch_shape;
typedef struct cay__patched {
    const char *const *lines;
} cay__patched;
extern const cay__shape cay__patched_shape;
typedef struct cay__unpacked {
    uint64_t files, directories, links, bytes;
} cay__unpacked;
extern const cay__shape cay__unpacked_shape;

typedef struct cay__file_query {
    const char *path, *pattern, *name, *user, *mode;
    uint64_t depth;
    bool follow, kept, recursive, parents, append, exclusive;
} cay__file_query;
extern const cay__shape cay__file_stat_query, cay__file_list_query, cay__file_glob_query,
    cay__file_get_query, cay__file_put_query, cay__file_post_query, cay__file_user_query,
    cay__file_delete_query, cay__file_path_query, cay__file_xattr_query, cay__file_tar_query,
    cay__file_watch_query;

/* snapshot.c: cay_snapshot, cay_snapshot_spec */
extern const cay__shape cay__snapshot_shape, cay__snapshot_spec_shape;
extern const cay__shape cay__snapshot_label_shape; /* const char * */
extern const cay__shape cay__snapshot_gone_shape;  /* bool: deferred */
typedef struct cay__change_side {
    const char *type;
    uint32_t mode;
    uint64_t size;
} cay__change_side;
typedef struct cay__file_changed {
    char kind[2];
    const char *path, *from, *text;
    size_t text_len;
    const char *old_digest;
    bool content, mode, owner;
    const cay__change_side *old, *new; /* NULL, or what is in sides */
    cay__change_side sides[2];
} cay__file_changed;
void cay__file_changed_set(cay__file_changed *x, const cay_file_change *c);
extern const cay__shape cay__change_side_shape, cay__change_shape;

extern const cay__shape cay__snapshot_list_query, cay__snapshot_export_query,
    cay__snapshot_import_query, cay__diff_query; /* cay_snapshot_filter, cay_export, cay_import,
                                                    cay_diff */

/* template.c: cay_build_info, cay_build_cache, cay_pool */
extern const cay__shape cay__build_shape, cay__build_cache_shape, cay__pool_shape,
    cay__pool_put_shape;
typedef struct cay__template_view {
    const char *name, *about;
    cay_template t;
} cay__template_view;
extern const cay__shape cay__template_shape;
typedef struct cay__template_patch {
    const char *name;
    bool shared;
} cay__template_patch;
extern const cay__shape cay__template_patch_shape;
typedef struct cay__publish_body {
    const char *from, *config;
    const char *const *names;
    bool hidden;
} cay__publish_body;
extern const cay__shape cay__publish_shape;
typedef struct cay__pull_body {
    const char *image, *platform;
    const char *const *names;
    bool hidden;
} cay__pull_body;
extern const cay__shape cay__pull_shape;
typedef struct cay__registry_login {
    const char *username, *password;
} cay__registry_login;
extern const cay__shape cay__registry_login_shape;
typedef struct cay__registry_told {
    const char *registry, *tenant;
    int64_t changed_ms;
} cay__registry_told;
extern const cay__shape cay__registry_shape;
typedef struct cay__removed {
    size_t removed;
} cay__removed;
extern const cay__shape cay__removed_shape;

typedef struct cay__build_query {
    cay_build b;
    const char *const *names, *const *args, *const *rules; /* args: NAME=VALUE */
} cay__build_query;
typedef struct cay__log_query {
    uint64_t after, count;
    bool follow, denied;
} cay__log_query;
extern const cay__shape cay__build_create_query, cay__build_log_query;
extern const cay__shape cay__template_list_query, cay__template_import_query,
    cay__pool_delete_query; /* cay_template_filter, cay_template_file, cay_pool */
extern const cay__shape cay__template_forget_query, cay__registry_query; /* const char * */

/* access.c: cay_key, cay_tenant, cay_quota; cay_volume, cay_volume_spec; cay_job; cay_audit */
extern const cay__shape cay__key_shape, cay__tenant_shape, cay__tenant_create_shape,
    cay__tenant_patch_shape, cay__tenant_quota_shape;
extern const cay__shape cay__volume_shape, cay__volume_spec_shape, cay__job_shape, cay__audit_shape;
typedef struct cay__key_body {
    cay_key key;
    const char *scope; /* becomes key.scope */
    uint64_t ttl_ms;   /* becomes key.expires_ms */
} cay__key_body;
extern const cay__shape cay__key_create_shape;
typedef struct cay__key_made {
    char id[CAY_KEY_ID_LEN + 1], key[CAY_KEY_LEN + 1];
} cay__key_made;
extern const cay__shape cay__key_made_shape;
typedef struct cay__secret_body {
    const char *value, *base64;
    size_t base64_len;
} cay__secret_body;
extern const cay__shape cay__secret_value_shape;
typedef struct cay__secret_told {
    const char *name;
    int64_t changed_ms;
} cay__secret_told;
extern const cay__shape cay__secret_shape;
typedef struct cay__secret_binds {
    const cay_secret *secrets;
    size_t n;
    const char *net;
} cay__secret_binds;
extern const cay__shape cay__secret_bind_shape;
typedef struct cay__job_body {
    const char *kind, *sandbox;
    int64_t due_ms;
    uint64_t in_ms;
} cay__job_body;
extern const cay__shape cay__job_create_shape;
typedef struct cay__audit_proof_told {
    cay_audit_proof p;
    bool sound;
} cay__audit_proof_told;
extern const cay__shape cay__audit_proof_shape;

extern const cay__shape cay__job_list_query, cay__audit_list_query;  /* cay_job_filter,
                                                                        cay_audit_filter */
extern const cay__shape cay__key_list_query, cay__audit_proof_query; /* const char * */

/* net.c: cay_port, cay_endpoint, cay_service_info */
extern const cay__shape cay__port_shape, cay__endpoint_shape, cay__service_shape;
typedef struct cay__revised {
    uint64_t revision;
    const char *policy;
} cay__revised;
extern const cay__shape cay__revision_shape, cay__policy_shape;
typedef struct cay__net_rules {
    const char *const *rules;
    uint64_t ttl_ms;
} cay__net_rules;
extern const cay__shape cay__net_rules_shape;
typedef struct cay__net_judged {
    const char *host;
    uint16_t port;
    cay_net_verdict v;
} cay__net_judged;
extern const cay__shape cay__verdict_shape;
typedef struct cay__exposed_told {
    cay_exposed e;
    char url[400];
} cay__exposed_told;
extern const cay__shape cay__exposed_shape;
extern const cay__shape cay__expose_shape; /* uint64_t: ttl_ms */
typedef struct cay__service_act {
    int op; /* cay_service_op */
    const char *const *names;
} cay__service_act;
extern const cay__shape cay__service_act_shape;
typedef struct cay__services_waited {
    bool ready;
    const cay_service_info *items;
    size_t n;
} cay__services_waited;
extern const cay__shape cay__services_waited_shape;

extern const cay__shape cay__net_why_query, cay__net_log_query, cay__service_wait_query;
/* cay__net_judged, cay__log_query, cay__wait_query */

/* host.c */
typedef struct cay__version_told {
    const char *version, *api;
} cay__version_told;
extern const cay__shape cay__version_shape;
typedef struct cay__doctor_told {
    const char *version, *kernel, *machine, *home, *isolation, *mode;
    int level;
    const cay_wall *layers;
    size_t nlayers;
    int64_t time_ms;
    uint64_t took_us, spawn_us;
} cay__doctor_told;
extern const cay__shape cay__doctor_shape;
extern const cay__shape cay__quota_shape, cay__share_shape; /* cay_quota, cay_tenant */
typedef struct cay__speed {
    uint64_t create_us, exec_us, remove_us, spawn_us;
    int64_t time_ms;
} cay__speed;
extern const cay__shape cay__speed_shape;
typedef struct cay__wall_tried {
    const char *name;
    bool ok;
    char found[120];
    uint64_t took_us;
} cay__wall_tried;
typedef struct cay__walls_tried {
    cay__wall_tried at[24];
    size_t n;
    int64_t time_ms;
    uint64_t took_us;
    const cay__wall_tried *items;
} cay__walls_tried;
extern const cay__shape cay__wall_tried_shape, cay__walls_tried_shape;
typedef struct cay__problem { /* RFC 9457: how every operation tells of an error */
    const char *type, *title, *detail, *code, *reason, *retry, *info, *request;
    int status, sys;
    uint32_t retry_after_ms;
} cay__problem;
extern const cay__shape cay__problem_shape;

extern const cay__shape cay__doctor_query, cay__tenant_usage_query; /* const char * */
