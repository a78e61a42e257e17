/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/main.h - every command of the full program, in the order of `cay help`.
 */
#pragma once
#include "cli.h"
#include "opt.h"
#include <base/buf.h>
#include <base/kernel.h>
#include <cay/client.h>
#include <cay/sandbox.h>

/* A row per verb; one without operands is a heading. */
extern const cli_verb *const cli_verbs[];

extern const cli_verb cli_doctor, cli_tour, cli_create, cli_ls, cli_inspect, cli_pause, cli_resume,
    cli_extend, cli_wait, cli_kill, cli_rm, cli_cp, cli_port_ls, cli_port_forward, cli_port_connect,
    cli_port_expose, cli_port_unexpose, cli_port_exposed, cli_port_endpoint, cli_top, cli_events,
    cli_gc, cli_purge, cli_signal, cli_help, cli_version, cli_completion;
extern const cli_verb cli_files_ls, cli_files_cat, cli_files_put, cli_files_stat, cli_files_mkdir,
    cli_files_rm, cli_files_mv, cli_files_chmod, cli_files_chown, cli_files_ln, cli_files_find,
    cli_files_grep, cli_files_watch, cli_files_xattr;
extern const cli_verb cli_snapshot, cli_snapshots, cli_snapshot_inspect, cli_snapshot_rename,
    cli_snapshot_rm, cli_fork, cli_undo;
extern const cli_verb cli_template_ls, cli_template_inspect, cli_template_tag, cli_template_rm,
    cli_template_save, cli_template_import, cli_template_export, cli_template_pull;
extern const cli_verb cli_template_login, cli_template_logout, cli_template_logins;
extern const cli_verb cli_template_build, cli_template_log, cli_template_builds,
    cli_template_caches, cli_template_prune;
extern const cli_verb cli_snapshot_export, cli_snapshot_import, cli_snapshot_push,
    cli_snapshot_pull;
extern const cli_verb cli_diff, cli_apply;
extern const cli_verb cli_net_show, cli_net_allow, cli_net_deny, cli_net_set, cli_net_log,
    cli_net_blocked, cli_net_why, cli_net_presets, cli_secret_set, cli_secret_ls, cli_secret_rm,
    cli_secret_renew, cli_secret_bind;
extern const cli_verb cli_state;
extern const cli_verb cli_services, cli_services_start, cli_services_stop, cli_services_restart,
    cli_services_wait;
extern const cli_verb cli_key_create, cli_key_ls, cli_key_revoke, cli_tenant_create, cli_tenant_ls,
    cli_tenant_set, cli_tenant_rm;
extern const cli_verb cli_pool_set, cli_pool_ls, cli_pool_rm;
extern const cli_verb cli_jobs_ls, cli_jobs_cancel, cli_jobs_replay, cli_audit_ls, cli_audit_verify,
    cli_trace;
/* What nobody should see: one line that is typed, unseen; or all of a pipe, of which a last newline
 * is not part. value has room for CLI_SECRET_MAX + 3 bytes. */
enum { CLI_SECRET_MAX = 65536 };
ssize_t cli_read_secret(const char *what, char *value);
/* A line of the audit log: what this user did. A log that cannot be written is said aloud, and
 * undoes nothing. */
void cli_audit(const char *action, const char *tenant, const char *object);
/* Tells when the operator's file cannot be read. */
void cli_net_operator(void);
extern const cli_verb cli_manifest_check, cli_manifest_schema, cli_manifest_show,
    cli_manifest_apply;
extern const cli_verb cli_volume_create, cli_volume_ls, cli_volume_inspect, cli_volume_rm;
extern const cli_verb cli_agent, cli_files_patch;
extern const cli_verb cli_tools, cli_tools_call;
extern const cli_verb cli_open, cli_serve, cli_e2b_env, cli_cloudflare_env;

/* doctor_server.c: is this host fit to serve others, and does a server answer? */

enum { DOCTOR_ROWS = 12, DOCTOR_TEXT = 200 };
typedef struct doctor_rows {
    cay_wall row[DOCTOR_ROWS];
    char why[DOCTOR_ROWS][DOCTOR_TEXT];
    size_t n;
} doctor_rows;
void doctor_server(cay_client *client, doctor_rows *out);

/* doctor_try.c: what a sandbox made a moment ago had. */

enum { DOCTOR_WALLS = 32 };
typedef struct doctor_trial {
    cay__arena mem;
    cay_level level;
    cay_wall wall[DOCTOR_WALLS];
    char why[DOCTOR_WALLS][256];
    size_t n;
    signed char kernel[CAY_KERNEL_COUNT]; /* cay__kernel_answer of each row of base/kernel.def */
} doctor_trial;
void doctor_try(cay_client *client, const cay_probe *p, doctor_trial *out);

/*
 * debian.c: a root filesystem of Debian packages, for cay template import --debian.
 */

typedef struct cli_debian_ask {
    const char *suite, *mirror; /* mirror: or NULL */
    const opt_list *packages;   /* each may name several, between commas */
    bool quiet;
} cli_debian_ask;

/* *out: a tar of it, in a file without a name. CAY_ENOTSUP, "debian_tool": mmdebstrap is missing.
 */
int cli_debian(const cli_debian_ask *ask, int *out, cay_err *err);

/* serve_user.c: a server that root starts and that is not root. */

/* From now on this process is that user for ever (with root_keeper it stays root, and cay-hand,
 * which it has to execute, starts the server as that user), with a state directory and a runtime
 * directory of that user's, in "/", with few of root's variables, and what it executes has of what
 * is open only 0, 1, 2 and the sockets fd:N of `listen`. */
int serve_as(const char *name, bool root_keeper, const opt_list *listen, cay_err *err);

/*
 * tour_agent.c: the step of `cay tour` in which an agent mends something.
 */

int tour_agent(cay_sandbox *sb, char *said, size_t cap, cay_err *err);
