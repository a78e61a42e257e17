/* SPDX-License-Identifier: Apache-2.0 */
/* The full program: every verb, over the public API. */
#include "main.h"
#include "out.h"
#include <base/base.h>
#include <base/path.h>
#include <signal.h>

#define HEADING(text)                                                                              \
    &(const cli_verb)                                                                              \
    {                                                                                              \
        .name = text                                                                               \
    }
const cli_verb *const cli_verbs[] = {
    HEADING("start here"),
    &cli_tour,
    &cli_doctor,
    &cli_run,
    &cli_shell,
    &cli_agent,
    &cli_chat,
    HEADING("talks"),
    &cli_chat_list,
    &cli_chat_rm,
    &cli_chat_reset,
    HEADING("tools for agents"),
    &cli_tools,
    &cli_tools_call,
    HEADING("sandboxes"),
    &cli_create,
    &cli_ls,
    &cli_inspect,
    &cli_pause,
    &cli_resume,
    &cli_state,
    &cli_extend,
    &cli_wait,
    &cli_kill,
    &cli_rm,
    HEADING("workspaces"),
    &cli_snapshot,
    &cli_snapshots,
    &cli_fork,
    &cli_undo,
    &cli_diff,
    &cli_apply,
    &cli_snapshot_inspect,
    &cli_snapshot_rename,
    &cli_snapshot_rm,
    &cli_snapshot_export,
    &cli_snapshot_import,
    &cli_snapshot_push,
    &cli_snapshot_pull,
    HEADING("templates"),
    &cli_template_ls,
    &cli_template_inspect,
    &cli_template_pull,
    &cli_template_import,
    &cli_template_export,
    &cli_template_save,
    &cli_template_tag,
    &cli_template_rm,
    &cli_template_login,
    &cli_template_logins,
    &cli_template_logout,
    &cli_template_build,
    &cli_template_log,
    &cli_template_builds,
    &cli_template_caches,
    &cli_template_prune,
    HEADING("manifests"),
    &cli_manifest_check,
    &cli_manifest_schema,
    &cli_manifest_show,
    &cli_manifest_apply,
    HEADING("commands inside"),
    &cli_exec,
    &cli_attach,
    &cli_ps,
    &cli_logs,
    &cli_signal,
    HEADING("services inside"),
    &cli_services,
    &cli_services_start,
    &cli_services_stop,
    &cli_services_restart,
    &cli_services_wait,
    HEADING("files inside"),
    &cli_cp,
    &cli_files_ls,
    &cli_files_cat,
    &cli_files_put,
    &cli_files_stat,
    &cli_files_mkdir,
    &cli_files_rm,
    &cli_files_mv,
    &cli_files_chmod,
    &cli_files_chown,
    &cli_files_ln,
    &cli_files_find,
    &cli_files_grep,
    &cli_files_watch,
    &cli_files_xattr,
    &cli_files_patch,
    HEADING("network"),
    &cli_net_show,
    &cli_net_allow,
    &cli_net_deny,
    &cli_net_set,
    &cli_net_log,
    &cli_net_blocked,
    &cli_net_why,
    &cli_net_presets,
    &cli_secret_set,
    &cli_secret_ls,
    &cli_secret_rm,
    &cli_secret_renew,
    &cli_secret_bind,
    HEADING("ports inside"),
    &cli_port_ls,
    &cli_port_forward,
    &cli_port_connect,
    &cli_port_expose,
    &cli_port_unexpose,
    &cli_port_exposed,
    &cli_port_endpoint,
    HEADING("volumes"),
    &cli_volume_create,
    &cli_volume_ls,
    &cli_volume_inspect,
    &cli_volume_rm,
    HEADING("who may ask"),
    &cli_key_create,
    &cli_key_ls,
    &cli_key_revoke,
    &cli_tenant_create,
    &cli_tenant_ls,
    &cli_tenant_set,
    &cli_tenant_rm,
    &cli_pool_set,
    &cli_pool_ls,
    &cli_pool_rm,
    &cli_jobs_ls,
    &cli_jobs_cancel,
    &cli_jobs_replay,
    &cli_audit_ls,
    &cli_audit_verify,
    HEADING("watching and cleaning"),
    &cli_top,
    &cli_events,
    &cli_trace,
    &cli_gc,
    &cli_purge,
    HEADING("the server"),
    &cli_serve,
    &cli_open,
    &cli_e2b_env,
    &cli_cloudflare_env,
    HEADING("about cay"),
    &cli_help,
    &cli_version,
    &cli_completion,
    NULL,
};

static char **words_given;

/* The verb that argv begins with, and how many words it has: `snapshot rm` rather than `snapshot`.
 */
static const cli_verb *find_verb(int argc, char **argv, int *words)
{
    const cli_verb *alone = NULL;
    for (const cli_verb *const *p = cli_verbs; *p; p++) {
        const char *second = strchr((*p)->name, ' ');
        size_t first;
        if (second)
            first = (size_t)(second - (*p)->name);
        else
            first = strlen((*p)->name);
        if (!(*p)->operands || strlen(argv[0]) != first || memcmp(argv[0], (*p)->name, first))
            continue;
        if (!second) {
            alone = *p;
        } else if (argc > 1 && !strcmp(argv[1], second + 1)) {
            *words = 2;
            return *p;
        }
    }
    *words = 1;
    return alone;
}

/* `cay files`, or `cay files foo`: a family whose second word is missing or wrong. */
static bool is_family(const char *word)
{
    size_t n = strlen(word);
    for (const cli_verb *const *p = cli_verbs; *p; p++)
        if ((*p)->operands && !strncmp((*p)->name, word, n) && (*p)->name[n] == ' ')
            return true;
    return false;
}

static int unknown_verb(int argc, char **argv)
{
    enum { MOST = 64 };
    const char *names[MOST + 1], *word = argv[0], *near;
    size_t n = 0;
    bool family = is_family(argv[0]);
    cay_err err = CAY_ERR_INIT;
    if (family && argc > 1)
        word = argv[1];
    for (const cli_verb *const *p = cli_verbs; *p && n < MOST; p++) {
        const char *second = strchr((*p)->name, ' ');
        if ((*p)->operands &&
            (family ? second && !strncmp((*p)->name, argv[0], strlen(argv[0])) : !second))
            names[n++] = family ? second + 1 : (*p)->name;
    }
    names[n] = NULL;
    near = opt_nearest(word, names);
    const char *first = "", *blank = "", *shows = "all";
    if (family) {
        first = argv[0];
        blank = " ";
        shows = "those of that kind";
    }
    if (family && argc < 2)
        cay_fail(&err, CAY_EINVAL, "%s what? `cay help %s` shows its verbs", argv[0], argv[0]);
    else if (near)
        cay_fail(&err, CAY_EINVAL, "unknown command \"%s%s%.80s\"; did you mean `cay %s%s%s`?",
                 first, blank, word, first, blank, near);
    else
        cay_fail(&err, CAY_EINVAL, "unknown command \"%s%s%.80s\"; `cay help%s%s` shows %s", first,
                 blank, word, blank, first, shows);
    return cli_fail(&err, CLI_USAGE);
}

/* What needs libraries that nobody else should load is a program of its own. */
static int hand_over(const char *program)
{
    cay_err err = CAY_ERR_INIT;
    char path[4096];
    if (cay__libexec_find(NULL, program, path, sizeof path, &err) == 0) {
        execv(path, words_given);
        cay_fail_sys(&err, "%s", path);
    }
    return cli_fail(&err, CLI_CANNOT);
}

static int run_plain(const cli_verb *v, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    return v->fn(&(cli_call){ .verb = v, .argc = argc, .argv = argv }, &err);
}

static int run_verb(int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    int words = 0, code = CLI_OK;
    const cli_verb *v = find_verb(argc, argv, &words);
    if (!v) {
        bool help =
            cli.help || (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")));
        if (help && is_family(argv[0]))
            return run_plain(&cli_help, 1, argv);
        return unknown_verb(argc, argv);
    }
    if (v->program)
        return hand_over(v->program);
    if (cli_verb_run(v, argc - words, argv + words, &code, &err) < 0)
        return cli_usage(v, &err);
    return code;
}

int main(int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    int used = 0, code;
    words_given = argv;
    cli_begin();
    cli_boxes = &cli_client_boxes;
    if (argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")))
        code = run_plain(&cli_version, 0, argv);
    else if (cli_take_globals(argc - 1, argv + 1, &used, &err) < 0)
        code = cli_fail(&err, CLI_USAGE);
    else if (1 + used == argc)
        code = run_plain(&cli_help, 0, argv);
    else
        code = run_verb(argc - 1 - used, argv + 1 + used);
    if (out_broken() && code == CLI_OK)
        code = 128 + SIGPIPE;
    return code;
}
