/* SPDX-License-Identifier: Apache-2.0 */
/* cay pause, extend, kill, rm, wait, gc, signal: what happens to whole sandboxes. */
#include "main.h"
#include "open.h"
#include "out.h"
#include "parse.h"
#include "waiting.h"
#include <base/base.h>
#include <base/str.h>
#include <cay/build.h>
#include <cay/snapshot.h>
#include <base/fd.h>
#include <signal.h>

CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref)
CAY_DEFINE_AUTO(cay_proc, cay_proc_unref)

/* Does one thing to each id; goes on after a failure, and fails if any did. */
static int for_each_sandbox(int argc, char **argv,
                            int (*fn)(cay_sandbox *sb, const void *arg, cay_err *err),
                            const void *arg)
{
    int code = CLI_OK;
    for (int i = 0; i < argc; i++) {
        cay_err err = CAY_ERR_INIT;
        CAY_AUTOPTR(cay_sandbox) sb = NULL;
        if (cli_box_find(argv[i], &sb, &err) < 0 || fn(sb, arg, &err) < 0)
            code = cli_fail(&err, CLI_FAIL);
        else
            out_done("id", cay_sandbox_id(sb));
    }
    return code;
}

static int pause_sandbox(cay_sandbox *sb, const void *arg, cay_err *err)
{
    (void)arg;
    return cay_sandbox_pause(sb, NULL, err);
}

static int pause_sandboxes(void *opts, int argc, char **argv)
{
    (void)opts;
    return for_each_sandbox(argc, argv, pause_sandbox, NULL);
}

const cli_verb cli_pause = {
    .name = "pause",
    .operands = "ID…",
    .summary = "freeze sandboxes, with their processes intact",
    .examples = "  cay pause c7f && cay resume c7f",
    .min = 1,
    .max = CLI_ANY,
    .fn = pause_sandboxes,
};

typedef struct extend_args {
    uint64_t ttl_ms, idle_ms;
} extend_args;

static const opt_def extend_defs[] = {
    { "ttl", 0, "TIME", "time left from now; unlimited takes the end away", OPT_MS,
      offsetof(extend_args, ttl_ms), 1 },
    { "idle", 0, "TIME", "time it may go unused; unlimited takes it away", OPT_MS,
      offsetof(extend_args, idle_ms), 1 },
    OPT_END
};

static int extend_sandbox(cay_sandbox *sb, const void *arg, cay_err *err)
{
    const extend_args *a = arg;
    return cay_sandbox_extend(sb, NULL, a->ttl_ms, a->idle_ms, err);
}

static int extend_sandboxes(void *opts, int argc, char **argv)
{
    const extend_args *a = opts;
    if (!a->ttl_ms && !a->idle_ms) {
        cay_err err = CAY_ERR_INIT;
        cay_fail(&err, CAY_EINVAL, "say how long: --ttl TIME, --idle TIME or both");
        return cli_usage(&cli_extend, &err);
    }
    return for_each_sandbox(argc, argv, extend_sandbox, a);
}

const cli_verb cli_extend = {
    .name = "extend",
    .operands = "--ttl TIME|--idle TIME ID…",
    .summary = "move the time at which sandboxes end",
    .examples = "  cay extend --ttl 30m c7f\n"
                "  cay extend --idle unlimited c7f",
    .opts = { { extend_defs, 0 } },
    .size = sizeof(extend_args),
    .min = 1,
    .max = CLI_ANY,
    .fn = extend_sandboxes,
};

static int kill_sandbox(cay_sandbox *sb, const void *arg, cay_err *err)
{
    (void)arg;
    return cay_sandbox_kill(sb, NULL, err);
}

static int kill_sandboxes(void *opts, int argc, char **argv)
{
    (void)opts;
    return for_each_sandbox(argc, argv, kill_sandbox, NULL);
}

const cli_verb cli_kill = {
    .name = "kill",
    .operands = "ID…",
    .summary = "end every process of sandboxes; their files stay",
    .text = "`cay resume` starts one again on its files; `cay signal` reaches a single process "
            "instead.",
    .examples = "  cay kill c7f",
    .min = 1,
    .max = CLI_ANY,
    .fn = kill_sandboxes,
};

typedef struct rm_args {
    bool force;
} rm_args;

static const opt_def rm_defs[] = { { "force", 'f', NULL,
                                     "running ones too; an id that is not there is no error",
                                     OPT_FLAG, offsetof(rm_args, force) },
                                   OPT_END };

static int remove_sandbox(const char *id, bool force)
{
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    cay_info *info = NULL;
    int rc = cli_box_find(id, &sb, &err);
    if (force && rc == CAY_ENOENT)
        return CLI_OK;
    if (rc >= 0 && !force) {
        rc = cay_sandbox_describe(sb, NULL, &info, &err);
        if (rc >= 0 && (info->state == CAY_RUNNING || info->state == CAY_PAUSED))
            rc = cay_fail_why(&err, CAY_EBUSY, "sandbox_running",
                              "%s is %s; `cay rm -f %s` ends and removes it", info->id,
                              cay_state_name(info->state), id);
        if (info)
            cay_info_free(info);
    }
    if (rc >= 0)
        rc = cay_sandbox_remove(sb, NULL, &err);
    if (rc < 0)
        return cli_fail(&err, CLI_FAIL);
    out_done("id", cay_sandbox_id(sb));
    return CLI_OK;
}

static int remove_sandboxes(void *opts, int argc, char **argv)
{
    const rm_args *a = opts;
    int code = CLI_OK;
    for (int i = 0; i < argc; i++)
        code |= remove_sandbox(argv[i], a->force);
    return code;
}

const cli_verb cli_rm = {
    .name = "rm",
    .operands = "[-f] ID…",
    .summary = "remove sandboxes with their files",
    .examples = "  cay rm -f c7f\n"
                "  cay ls -q | xargs -r cay rm -f",
    .opts = { { rm_defs, 0 } },
    .size = sizeof(rm_args),
    .min = 1,
    .max = CLI_ANY,
    .fn = remove_sandboxes,
};

typedef struct wait_args {
    uint64_t timeout_ms;
} wait_args;

static const opt_def wait_defs[] = { { "timeout", 0, "TIME", "give up after this time", OPT_MS,
                                       offsetof(wait_args, timeout_ms), 1 },
                                     OPT_END };

static int wait_for_sandbox(void *opts, int argc, char **argv)
{
    const wait_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    cay_state state;
    cay_call call = { .size = sizeof call };
    (void)argc;
    if (a->timeout_ms && a->timeout_ms != CAY_UNLIMITED)
        call.deadline_ms = cay__now_ms() + (int64_t)a->timeout_ms;
    if (cli_box_find(argv[0], &sb, &err) < 0 || cay_sandbox_wait(sb, &call, &state, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    if (cli.json)
        out_done("state", cay_state_name(state));
    else /* an answer, not a note: --quiet has it too */
        out_fmt("%s\n", cay_state_name(state));
    return CLI_OK;
}

const cli_verb cli_wait = {
    .name = "wait",
    .operands = "[--timeout TIME] ID",
    .summary = "wait until a sandbox is stopped or gone, and print which",
    .opts = { { wait_defs, 0 } },
    .size = sizeof(wait_args),
    .min = 1,
    .max = 1,
    .fn = wait_for_sandbox,
};

typedef struct signal_args {
    const char *signal, *scope;
} signal_args;

static const opt_def signal_defs[] = { { "signal", 's', "SIGNAL", "a name or number (default TERM)",
                                         OPT_STR, offsetof(signal_args, signal) },
                                       { "scope", 0, "one|group|tree|below",
                                         "whom it reaches (default tree: it and all it started)",
                                         OPT_STR, offsetof(signal_args, scope) },
                                       OPT_END };

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

static int signal_processes(void *opts, int argc, char **argv)
{
    const signal_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    int sig = SIGTERM, code = CLI_OK;
    cay_scope scope;
    if ((a->signal && cli_parse_signal(a->signal, &sig, &err) < 0) ||
        parse_scope(a->scope, &scope, &err) < 0)
        return cli_usage(&cli_signal, &err);
    if (cli_box_find(argv[0], &sb, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    for (int i = 1; i < argc; i++) {
        CAY_AUTOPTR(cay_proc) p = NULL;
        if (cli_name(&err, cay_sandbox_attach(sb, NULL, argv[i], &p, &err), argv[i]) < 0 ||
            cay_proc_signal(p, NULL, sig, scope, &err) < 0)
            code = cli_fail(&err, CLI_FAIL);
    }
    return code;
}

const cli_verb cli_signal = {
    .name = "signal",
    .operands = "[-s SIGNAL] ID PROCESS…",
    .summary = "send a signal to processes inside",
    .text = "PROCESS is its id, its pid inside, or its tag.",
    .examples = "  cay signal c7f web\n"
                "  cay signal -s HUP --scope one c7f 12",
    .opts = { { signal_defs, 0 } },
    .size = sizeof(signal_args),
    .min = 2,
    .max = CLI_ANY,
    .fn = signal_processes,
};

typedef struct gc_args {
    bool settle;
} gc_args;

static const opt_def gc_defs[] = {
    { "settle", 0, NULL,
      "only what snapshots left for later: to the disk, digests, merging deep stacks", OPT_FLAG,
      offsetof(gc_args, settle) },
    OPT_END
};

/* Again when more came meanwhile; whoever brought it saw that we are at it. */
static int settle_client(cay_client *client, cay_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < 100 && cay_client_unsettled(client); i++)
        rc = cay_client_settle(client, NULL, err);
    return rc;
}

static int collect_garbage(void *opts, int argc, char **argv)
{
    const gc_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    size_t n = 0, caches = 0;
    char path[4096];
    cli_settling = true;
    /* Started after somebody's answer, it may find that all is gone, and must not make it anew. */
    if (a->settle && cli.home && cay__str_join(path, sizeof path, cli.home, "/store.db", NULL) &&
        access(path, F_OK) < 0)
        return CLI_OK;
    (void)argc;
    (void)argv;
    cli_waiting w = { .end = { -1, -1 } };
    if (!a->settle) /* that is nobody's, though it may have a terminal */
        waiting_begin(&w, "gc", "");
    int rc = cli_service(&client, &err);
    if (rc == 0) {
        if (a->settle)
            rc = settle_client(client, &err);
        else
            rc = cay_client_gc(client, NULL, &n, &err);
    }
    if (rc == 0 && !a->settle && !cay_client_host(client)) /* a server does this with its own */
        rc = cay_build_gc(client, NULL, &caches, &err);
    waiting_end(&w);
    if (rc < 0)
        return cli_fail(&err, CLI_FAIL);
    if (a->settle)
        return CLI_OK;
    if (cli.json)
        out_fmt("{\"removed\":%zu,\"caches\":%zu}\n", n, caches);
    else if (!cli.quiet)
        out_fmt("%zu thing%s without an owner removed\n", n, n == 1 ? "" : "s");
    if (caches && !cli.json && !cli.quiet)
        out_fmt("%zu cache%s of builds that none used for two weeks forgotten\n", caches,
                caches == 1 ? "" : "s");
    return CLI_OK;
}

const cli_verb cli_gc = {
    .name = "gc",
    .operands = "[--settle]",
    .summary = "remove what no record owns: dead directories, groups, sockets and layers of ours",
    .text = "Sandboxes and snapshots are never removed by this, stopped ones neither.",
    .opts = { { gc_defs, 0 } },
    .size = sizeof(gc_args),
    .fn = collect_garbage,
};
