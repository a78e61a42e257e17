/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small static program: verbs that need no store, straight to the keeper. It starts in a
 * fraction of a millisecond; whatever it cannot do, it becomes the full program for.
 */
#include "sandbox_options.h"
#include "cli.h"
#include "out.h"
#include <base/base.h>
#include <base/path.h>
#include <cay/sys/direct.h>
#include <signal.h>

static const cli_verb *const verbs[] = { &cli_run,   &cli_exec, &cli_attach,
                                         &cli_shell, &cli_ps,   &cli_logs };
static char **whole_argv; /* as we were called: parsing moves words about */

static void step_aside(void)
{
    char path[4096];
    cay_err err = CAY_ERR_INIT;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL); /* blocked ones would stay so */
    if (cay__libexec_find(NULL, "cay-full", path, sizeof path, &err) == 0) {
        execv(path, whole_argv);
        cay_fail_sys(&err, "start %s", path);
    }
    _exit(cli_fail(&err, CLI_BEFORE));
}

/* A snapshot after each command is the client's work; it leaves a mark for us
 * (lib/snapshot/checkpoint.c). */
static bool wants_checkpoint(const char *id)
{
    char home[CAY__HOME_MAX], path[CAY__HOME_MAX + 64];
    return cay__home_find(cli.home, home, sizeof home, NULL) == 0 &&
           CAY_JOIN(path, home, "/checkpoint/", id) && access(path, F_OK) == 0;
}

static int find_sandbox(const char *id, cay_sandbox **out, cay_err *err)
{
    const char *provider = cli_provider();
    if (cli_host() || (provider && strcmp(provider, "native")))
        step_aside();
    int rc = cay__native_find(cli.home, id, out, err);
    /* A name, a stopped sandbox or another provider's, as all are where there is no keeper: the
     * store knows. */
    if (rc == CAY_ENOENT || rc == CAY_EGONE || rc == CAY_EISOLATION ||
        (rc == 0 && wants_checkpoint(cay_sandbox_id(*out))))
        step_aside();
    return rc;
}

static int create_sandbox(const cay_create *spec, cay_sandbox **out, cay_err *err)
{
    if (cli_host() || spec->from.snapshot || spec->from.directory ||
        (spec->from.template_ && strcmp(spec->from.template_, "host")) || spec->manifest.text ||
        spec->life.checkpoints || spec->net.nsecrets || spec->files.nvolumes ||
        (spec->options && spec->options->key) || !spec->life.ephemeral ||
        (spec->provider && strcmp(spec->provider, "native")))
        step_aside();
    int rc = cay__native_create_ephemeral(cli.home, spec, out, err);
    if (rc == CAY_EISOLATION) /* level 1 may do; the client knows */
        step_aside();
    if (rc < 0)
        return rc;
    cay_wall layers[CAY__WALLS_MAX];
    box_limits_tell(&spec->limits, layers, cay__native_walls_of(*out, layers));
    return 0;
}

/* Where one is asked for with its first command, level 1 may do as well. */
static void step_aside_for(const cay_err *err)
{
    if (err->code == CAY_EISOLATION)
        step_aside();
}

static int find_command(const cay_create *spec, const char ***out, cay_err *err)
{
    step_aside();
    return CAY_ENOTSUP;
}

static int check_name(const char *name, cay_err *err)
{
    if (name)
        step_aside();
    return 0;
}

/* The keeper ends it with our connection, off the path of whoever waits for us. */
static void discard_sandbox(cay_sandbox *sb)
{
    cay_sandbox_unref(sb);
}

static const cli_backend native_boxes = { .find = find_sandbox,
                                          .create = create_sandbox,
                                          .refused = step_aside_for,
                                          .check_name = check_name,
                                          .command = find_command,
                                          .discard = discard_sandbox };

static const cli_verb *find_verb(const char *name)
{
    for (size_t i = 0; i < CAY_LEN(verbs); i++)
        if (!strcmp(verbs[i]->name, name))
            return verbs[i];
    return NULL;
}

int main(int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    const cli_verb *v = NULL;
    const char *provider;
    int used = 0, code = 0;
    cli_begin();
    cli_boxes = &native_boxes;
    if (argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
        out_str("cay " CAY_VERSION "\n");
        return 0;
    }
    whole_argv = cay__alloc(((size_t)argc + 1) * sizeof *whole_argv);
    memcpy(whole_argv, argv, (size_t)argc * sizeof *whole_argv);
    if (cli_take_globals(argc - 1, argv + 1, &used, &err) == 0 && 1 + used < argc)
        v = find_verb(argv[1 + used]);
    if (!v)
        step_aside();
    /* Mistakes are explained by the full program, which knows every verb. */
    provider = cli_provider();
    if (cli_host() || (provider && strcmp(provider, "native")) ||
        cli_verb_run(v, argc - 2 - used, argv + 2 + used, &code, &err) < 0)
        step_aside();
    free(whole_argv);
    if (out_broken() && code == CLI_OK)
        code = 128 + SIGPIPE;
    return code;
}
