/* SPDX-License-Identifier: Apache-2.0 */
/* cay create, pause, extend, kill, rm, wait, gc, signal: what happens to whole sandboxes. */
#include "main.h"
#include "out.h"
#include "parse.h"
#include "progress.h"
#include "sandbox_options.h"
#include "show.h"
#include <base/base.h>
#include <cay/build.h>
#include <cay/snapshot.h>
#include <signal.h>

static int print_created(cay_sandbox *sb, cay_err *err)
{
    cay_info *info = NULL;
    if (!cli.json) {
        out_fmt("%s\n", cay_sandbox_id(sb));
        return CLI_OK;
    }
    CAY_TRY(cay_sandbox_describe(sb, NULL, &info, err));
    out_json j = OUT_JSON(true);
    show_info_json(&j, info, NULL);
    js_flush(&j);
    cay_info_free(info);
    return CLI_OK;
}

static int create_sandbox(cli_call *c, cay_err *err)
{
    box_spec spec;
    int rc;
    if (box_spec_make(c->opts, &spec, err) < 0) {
        rc = cli_usage(c->verb, err);
    } else {
        rc = cli_boxes->check_name(spec.create.name, err);
        if (rc == 0)
            rc = cli_boxes->create(&spec.create, &c->sb, err);
        if (rc == 0) {
            box_spec_tell(&spec);
            rc = print_created(c->sb, err);
        }
    }
    box_spec_clear(&spec);
    return rc;
}

const cli_verb cli_create = {
    "create",
    "[OPTIONS]",
    "make a sandbox and print its id",
    .text = "It lives until `cay rm`, its --ttl or its --idle time; no program of ours has to stay "
            "for that.",
    .examples = "  id=$(cay create)\n"
                "  cay create --name build --memory 4G --cpus 2 --ttl 1h\n"
                "  cay create --mount ~/project:/workspace/project:rw\n"
                "  cay create --net 'all,!**.internal.example'      # everything public but\n"
                "  cay create --isolation root --require disk-quota  # refuse rather than do less",
    CLI_OPTS(box_opt_defs, box_opts),
    .fn = create_sandbox,
};

static int print_id(cli_call *c)
{
    out_done("id", cay_sandbox_id(c->sb));
    return CLI_OK;
}

static int pause_sandbox(cli_call *c, cay_err *err)
{
    CAY_TRY(cay_sandbox_pause(c->sb, NULL, err));
    return print_id(c);
}

const cli_verb cli_pause = {
    "pause",
    "ID…",
    "freeze sandboxes, with their processes intact",
    .examples = "  cay pause c7f && cay resume c7f",
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_SANDBOX | CLI_EACH | CLI_GO_ON,
    .fn = pause_sandbox,
};

typedef struct extend_args {
    uint64_t ttl_ms, idle_ms;
} extend_args;

static const opt_def extend_defs[] = {
    OPT_MS("--ttl TIME", "time left from now; unlimited takes the end away", extend_args, ttl_ms,
           1),
    OPT_MS("--idle TIME", "time it may go unused; unlimited takes it away", extend_args, idle_ms,
           1),
    OPT_END
};

static int extend_sandbox(cli_call *c, cay_err *err)
{
    const extend_args *a = c->opts;
    if (!a->ttl_ms && !a->idle_ms)
        return cli_misuse(c, "say how long: --ttl TIME, --idle TIME or both");
    CAY_TRY(cli_find(c, err));
    CAY_TRY(cay_sandbox_extend(c->sb, NULL, a->ttl_ms, a->idle_ms, err));
    return print_id(c);
}

const cli_verb cli_extend = {
    "extend",
    "--ttl TIME|--idle TIME ID…",
    "move the time at which sandboxes end",
    .examples = "  cay extend --ttl 30m c7f\n"
                "  cay extend --idle unlimited c7f",
    CLI_OPTS(extend_defs, extend_args),
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_EACH | CLI_GO_ON,
    .fn = extend_sandbox,
};

static int kill_sandbox(cli_call *c, cay_err *err)
{
    CAY_TRY(cay_sandbox_kill(c->sb, NULL, err));
    return print_id(c);
}

const cli_verb cli_kill = {
    "kill",
    "ID…",
    "end every process of sandboxes; their files stay",
    .text = "`cay resume` starts one again on its files; `cay signal` reaches a single process "
            "instead.",
    .examples = "  cay kill c7f",
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_SANDBOX | CLI_EACH | CLI_GO_ON,
    .fn = kill_sandbox,
};

static const opt_def rm_defs[] = { OPT_FLAG("-f, --force",
                                            "running ones too; an id that is not there is no error",
                                            cli_force, force),
                                   OPT_END };

static int check_stopped(cli_call *c, cay_err *err)
{
    cay_info *info = NULL;
    int rc = cay_sandbox_describe(c->sb, NULL, &info, err);
    if (rc >= 0 && (info->state == CAY_RUNNING || info->state == CAY_PAUSED))
        rc = cay_fail_why(err, CAY_EBUSY, "sandbox_running",
                          "%s is %s; `cay rm -f %s` ends and removes it", info->id,
                          cay_state_name(info->state), c->argv[0]);
    if (info)
        cay_info_free(info);
    return rc;
}

static int remove_sandbox(cli_call *c, cay_err *err)
{
    const cli_force *a = c->opts;
    int rc = cli_find(c, err);
    if (rc < 0)
        return cli_forgive(c, rc);
    if (!a->force)
        CAY_TRY(check_stopped(c, err));
    CAY_TRY(cay_sandbox_remove(c->sb, NULL, err));
    return print_id(c);
}

const cli_verb cli_rm = {
    "rm",
    "[-f] ID…",
    "remove sandboxes with their files",
    .examples = "  cay rm -f c7f\n"
                "  cay ls -q | xargs -r cay rm -f",
    CLI_OPTS(rm_defs, cli_force),
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_EACH | CLI_GO_ON,
    .fn = remove_sandbox,
};

typedef struct wait_args {
    uint64_t timeout_ms;
} wait_args;

static const opt_def wait_defs[] = {
    OPT_MS("--timeout TIME", "give up after this time", wait_args, timeout_ms, 1), OPT_END
};

static int wait_for_sandbox(cli_call *c, cay_err *err)
{
    const wait_args *a = c->opts;
    cay_state state;
    cay_call call = { .size = sizeof call };
    if (a->timeout_ms && a->timeout_ms != CAY_UNLIMITED)
        call.deadline_ms = cay__now_ms() + (int64_t)a->timeout_ms;
    CAY_TRY(cay_sandbox_wait(c->sb, &call, &state, err));
    if (cli.json)
        out_done("state", cay_state_name(state));
    else /* an answer, not a note: --quiet has it too */
        out_fmt("%s\n", cay_state_name(state));
    return CLI_OK;
}

const cli_verb cli_wait = {
    "wait",
    "[--timeout TIME] ID",
    "wait until a sandbox is stopped or gone, and print which",
    CLI_OPTS(wait_defs, wait_args),
    .min = 1,
    .needs = CLI_SANDBOX,
    .fn = wait_for_sandbox,
};

typedef struct signal_args {
    const char *signal, *scope;
} signal_args;

static const opt_def signal_defs[] = {
    OPT_STR("-s, --signal SIGNAL", "a name or number (default TERM)", signal_args, signal),
    OPT_STR("--scope one|group|tree|below", "whom it reaches (default tree: it and all it started)",
            signal_args, scope),
    OPT_END
};

static int parse_scope(const char *s, cay_scope *out, cay_err *err)
{
    static const char *const names[] = { "one", "group", "tree", "below" };
    *out = CAY_SCOPE_TREE;
    for (size_t i = 0; s && i < CAY_LEN(names); i++)
        if (!strcmp(s, names[i])) {
            *out = (cay_scope)i;
            return 0;
        }
    if (s)
        return cay_fail(err, CAY_EINVAL, "--scope \"%s\": want one, group, tree or below", s);
    return 0;
}

static int signal_processes(cli_call *c, cay_err *err)
{
    const signal_args *a = c->opts;
    int sig = SIGTERM, code = CLI_OK;
    cay_scope scope;
    if ((a->signal && cli_parse_signal(a->signal, &sig, err) < 0) ||
        parse_scope(a->scope, &scope, err) < 0)
        return cli_usage(c->verb, err);
    CAY_TRY(cli_find(c, err));
    for (int i = 1; i < c->argc; i++) {
        CAY_AUTOPTR(cay_proc) p = NULL;
        if (cli_name(err, cay_sandbox_attach(c->sb, NULL, c->argv[i], &p, err), c->argv[i]) < 0 ||
            cay_proc_signal(p, NULL, sig, scope, err) < 0)
            code = cli_fail(err, CLI_FAIL);
    }
    return code;
}

const cli_verb cli_signal = {
    "signal",
    "[-s SIGNAL] ID PROCESS…",
    "send a signal to processes inside",
    .text = "PROCESS is its id, its pid inside, or its tag.",
    .examples = "  cay signal c7f web\n"
                "  cay signal -s HUP --scope one c7f 12",
    CLI_OPTS(signal_defs, signal_args),
    .min = 2,
    .max = CLI_ANY,
    .fn = signal_processes,
};

typedef struct gc_args {
    bool settle;
} gc_args;

static const opt_def gc_defs[] = {
    OPT_FLAG("--settle",
             "only what snapshots left for later: to the disk, digests, merging deep stacks",
             gc_args, settle),
    OPT_END
};

/* Again when more came meanwhile; whoever brought it saw that we are at it. */
static int settle_client(cay_client *client, cay_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < 100 && cay_client_needs_maintenance(client); i++)
        rc = cay_client_maintain(client, NULL, err);
    return rc;
}

static int collect_garbage(cli_call *c, cay_err *err)
{
    const gc_args *a = c->opts;
    size_t n = 0, caches = 0;
    char path[4096];
    cli_settling = true;
    /* Started after somebody's answer, it may find that all is gone, and must not make it anew. */
    if (a->settle && cli.home && CAY_JOIN(path, cli.home, "/store.db") && access(path, F_OK) < 0)
        return CLI_OK;
    cli_waiting w = { .end = { -1, -1 } };
    if (!a->settle) /* that is nobody's, though it may have a terminal */
        waiting_begin(&w, "gc", "");
    int rc = cli_client(&c->client, err);
    if (rc == 0) {
        if (a->settle)
            rc = settle_client(c->client, err);
        else
            rc = cay_client_gc(c->client, NULL, &n, err);
    }
    if (rc == 0 && !a->settle && !cay_client_host(c->client)) /* a server does this with its own */
        rc = cay_build_gc(c->client, NULL, &caches, err);
    waiting_end(&w);
    CAY_TRY(rc);
    if (a->settle)
        return CLI_OK;
    if (cli.json)
        out_fmt("{\"removed\":%zu,\"caches\":%zu}\n", n, caches);
    else if (!cli.quiet)
        out_fmt("%zu thing%s without an owner removed\n", n, out_plural(n, "s"));
    if (caches && !cli.json && !cli.quiet)
        out_fmt("%zu cache%s of builds that none used for two weeks forgotten\n", caches,
                out_plural(caches, "s"));
    return CLI_OK;
}

const cli_verb cli_gc = {
    "gc",
    "[--settle]",
    "remove what no record owns: dead directories, groups, sockets and layers of ours",
    .text = "Sandboxes and snapshots are never removed by this, stopped ones neither.",
    CLI_OPTS(gc_defs, gc_args),
    .fn = collect_garbage,
};
