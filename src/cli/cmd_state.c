/* SPDX-License-Identifier: Apache-2.0 */
/* cay state, cay resume: leave a sandbox in one program and come back to it in another. */
#include "sandbox_options.h"
#include "main.h"
#include "out.h"
#include "progress.h"
#include <base/base.h>
#include <cay/state.h>

enum { MANIFEST_MAX = 64 << 20 };

typedef struct state_args {
    bool snapshot, js;
} state_args;

static const opt_def state_defs[] = {
    OPT_FLAG("--snapshot", "save the workspace first, so that the state outlives the sandbox",
             state_args, snapshot),
    OPT_FLAG("--js", "in the form of the Agents SDK for JavaScript, for its E2B client", state_args,
             js),
    OPT_END
};

static int save_state(cli_call *c, cay_err *err)
{
    const state_args *a = c->opts;
    CAY_AUTOFREE char *json = NULL;
    cay_save_state spec = { .size = sizeof spec, .snapshot = a->snapshot, .js = a->js };
    CAY_TRY(cay_sandbox_save_state(c->sb, NULL, &spec, &json, err));
    out_fmt("%s\n", json);
    return CLI_OK;
}

const cli_verb cli_state = {
    "state",
    "[OPTIONS] ID",
    "print what is needed to come back to a sandbox, as JSON",
    .text = "It holds no secret, no path of the host and no other right; what was left out is "
            "named, and given again to\n"
            "`cay resume --state`. Variables of --env are in it as they are.",
    .examples = "  cay state --snapshot c7f > session.json\n"
                "  cay resume --state session.json",
    CLI_OPTS(state_defs, state_args),
    .min = 1,
    .needs = CLI_SANDBOX,
    .fn = save_state,
};

typedef struct resume_args {
    const char *state, *manifest;
    box_opts box;
} resume_args;

#define MOST_BYTES (1ull << 60)
static const opt_def resume_defs[] = {
    OPT_STR("--state FILE", "come back to the sandbox of this state; - is standard input",
            resume_args, state),
    OPT_STR("--manifest FILE", "with --state: the manifest, for what the state leaves out",
            resume_args, manifest),
    OPT_LIST("--mount DIR[:TARGET][:ro|:rw]", "with --state: a host directory again", resume_args,
             box.mounts),
    OPT_LIST("--volume NAME:TARGET[:ro]", "with --state: a volume again", resume_args, box.volumes),
    OPT_STR("--root DIR", "with --state: the root filesystem directory again", resume_args,
            box.root),
    OPT_STR("-u, --user USER", "with --state: who runs commands inside; needed again for root",
            resume_args, box.user),
    OPT_LIST("-e, --env KEY=VALUE",
             "an ephemeral variable of a stopped one; with --state: one that it leaves out",
             resume_args, box.env),
    OPT_LIST("--env-file FILE", "the same from lines of KEY=VALUE", resume_args, box.env_files),
    OPT_LIST("--net off|all|RULE[,RULE…]", "with --state: what it may reach, again", resume_args,
             box.net),
    OPT_LIST("--secret NAME=SOURCE@DESTINATION", "with --state: a secret again; needs --net",
             resume_args, box.secrets),
    OPT_STR("--isolation LEVEL",
            "with --state: least wall accepted; never less than the state says", resume_args,
            box.isolation),
    OPT_SIZE("-m, --memory SIZE",
             "with --state: allow a limit beyond the default; so do the next ones", resume_args,
             box.limits.memory, 1u << 20, MOST_BYTES),
    OPT_SIZE("--swap SIZE", "most swap", resume_args, box.limits.swap, 0, MOST_BYTES),
    OPT_CPUS("--cpus N", "CPU time", resume_args, box.limits.cpu_milli),
    OPT_NUM("--pids N", "most processes and threads", resume_args, box.limits.pids, 1,
            CAY_UNLIMITED),
    OPT_SIZE("--disk SIZE", "most disk for its own files", resume_args, box.limits.disk, 1u << 20,
             MOST_BYTES),
    OPT_NUM("--inodes N", "most files of its own", resume_args, box.limits.inodes, 16,
            CAY_UNLIMITED),
    OPT_NUM("--nofile N", "open files per process", resume_args, box.limits.nofile, 16, 1u << 20),
    OPT_END
};

/* A whole file, or standard input; the caller frees. */
static int read_file(const char *option, const char *path, size_t most, char **out, size_t *len,
                     cay_err *err)
{
    bool in = !strcmp(path, "-");
    int fd = 0;
    if (!in)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return cay_fail_sys(err, "%s %s", option, path);
    CAY_AUTOBUF b = CAY__BUF(most + 1);
    char chunk[65536];
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) > 0 && !b.full)
        cay__buf_add(&b, chunk, (size_t)n);
    int rc = 0;
    if (n < 0)
        rc = cay_fail_sys(err, "%s %s", option, path);
    if (!in)
        close(fd);
    if (rc == 0 && (b.full || b.len > most))
        rc = cay_fail(err, CAY_ETOOBIG, "%s %s is larger than %zu bytes", option, path, most);
    if (rc < 0)
        return rc;
    cay__buf_add(&b, "", 1);
    *len = b.len - 1;
    *out = cay__alloc(b.len);
    memcpy(*out, b.data, b.len);
    return 0;
}

static int print_resumed(cay_sandbox *sb, cay_resumed how)
{
    if (cli.json) {
        out_object(true, "id:%s, how:%s", cay_sandbox_id(sb), cay_resumed_name(how));
    } else {
        static const char *const tell[] = { [CAY_RESUMED_ALIVE] = "it was alive",
                                            [CAY_RESUMED_KEPT] = "started on its files",
                                            [CAY_RESUMED_RESTORED] = "taken back to its snapshot",
                                            [CAY_RESUMED_REBUILT] =
                                                "made again from its snapshot" };
        out_note("cay: %s: %s", cay_sandbox_id(sb), tell[how]);
        if (!cli.quiet)
            out_fmt("%s\n", cay_sandbox_id(sb));
    }
    return CLI_OK;
}

static int from_state(const resume_args *a, box_spec *with, cay_err *err)
{
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    CAY_AUTOFREE char *text = NULL, *manifest = NULL, *base = NULL;
    cay_client *client;
    cay_resumed how;
    size_t len = 0, n = 0;
    CAY_TRY(read_file("--state", a->state, CAY_STATE_BYTES, &text, &len, err));
    if (a->manifest)
        CAY_TRY(read_file("--manifest", a->manifest, MANIFEST_MAX, &manifest, &n, err));
    if (a->manifest && strcmp(a->manifest, "-") != 0 && (base = realpath(a->manifest, NULL)))
        *strrchr(base, '/') = 0;
    with->create.manifest.text = manifest;
    with->create.manifest.trusted = true;
    if (base && *base)
        with->create.manifest.base = base;
    else if (manifest)
        with->create.manifest.base = "/";
    cay_resume_state r = { .size = sizeof r, .state = text, .len = len, .with = &with->create };
    cli_waiting w;
    waiting_begin(&w, "resume", a->state);
    int rc = cli_client(&client, err);
    if (rc == 0)
        rc = cay_client_resume_state(client, NULL, &r, &sb, &how, err);
    waiting_end(&w);
    CAY_TRY(rc);
    return print_resumed(sb, how);
}

static int by_id(const cay_pair *env, int argc, char **argv)
{
    int code = CLI_OK;
    CAY_EACH_OF(it, argv, argc) {
        cay_err err = CAY_ERR_INIT;
        CAY_AUTOPTR(cay_sandbox) sb = NULL;
        CAY_AUTOFREE char *missing = NULL;
        if (cli_boxes->find(*it, &sb, &err) < 0 ||
            cay_sandbox_restart(sb, NULL, env, &missing, &err) < 0)
            code = cli_fail(&err, CLI_FAIL);
        else
            out_done("id", cay_sandbox_id(sb));
        if (missing)
            out_note("cay: nobody kept what is ephemeral, and it is not set now: %s; `cay resume "
                     "-e NAME=VALUE %s` gives it to a stopped one",
                     missing, *it);
    }
    return code;
}

static int resume_sandbox(cli_call *c, cay_err *err)
{
    const resume_args *a = c->opts;
    static const resume_args none;
    box_spec with;
    resume_args rest;
    memcpy(&rest, a, sizeof rest); /* with its padding, which the parser cleared */
    memset(&rest.box.env, 0, sizeof rest.box.env);
    memset(&rest.box.env_files, 0, sizeof rest.box.env_files);
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): padding is 0 in both */
    bool plain = !a->state && c->argc && !memcmp(&rest, &none, sizeof none);
    if (a->state && c->argc)
        return cli_misuse(c, "--state names the sandbox; give no ID beside it");
    if (c->argc && !plain)
        return cli_misuse(c, "these options, all but --env, go with --state FILE");
    if (!a->state && !plain)
        return cli_misuse(c, "give an ID, or --state FILE");
    int code;
    if (box_spec_make(&a->box, &with, err) < 0)
        code = cli_usage(c->verb, err);
    else if (plain)
        code = by_id(with.create.process.env, c->argc, c->argv);
    else
        code = from_state(a, &with, err);
    box_spec_clear(&with);
    return code;
}

const cli_verb cli_resume = {
    "resume",
    "[-e KEY=VALUE] ID…|--state FILE [OPTIONS]",
    "let paused sandboxes go on, start stopped ones again, or come back by a state",
    .text = "With --state: a sandbox that lives is found as it is; one that is stopped is started, "
            "and taken back to the state's\n"
            "snapshot when its files differ; one that is gone is made again from the snapshot. A "
            "state gives no rights: what it\n"
            "left out has to be given again, and the message says what.",
    .examples = "  cay resume c7f\n"
                "  cay resume -e TOKEN=\"$TOKEN\" c7f\n"
                "  cay resume --state session.json\n"
                "  cay resume --state session.json --net pypi --mount ~/src:/workspace/src",
    CLI_OPTS(resume_defs, resume_args),
    .max = CLI_ANY,
    .fn = resume_sandbox,
};
