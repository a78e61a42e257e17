/* SPDX-License-Identifier: Apache-2.0 */
/* cay template build, log, builds, prune: templates made by the steps of a file. */
#include "show.h"
#include "main.h"
#include "show.h"
#include <base/base.h>
#include <cay/build.h>
#include <cay/policy.h>
#include <cay/template.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

typedef struct build_args {
    opt_list names, args, net, secrets;
    const char *file, *target;
    uint64_t timeout_ms, step_ms, memory, disk, cpu_milli;
    bool no_cache, keep_failed, hidden, no_pull;
} build_args;

static const opt_def build_defs[] = {
    OPT_LIST("-t, --tag NAME[:TAG]",
             "name of the template; may be given again (default: what the file says)", build_args,
             names),
    OPT_STR("-f, --file FILE", "in the directory (default: template.json, else Dockerfile)",
            build_args, file),
    OPT_LIST("--build-arg NAME=VALUE", "for an ARG of the file; may be given again", build_args,
             args),
    OPT_LIST("--secret id=ID[,src=FILE|,env=NAME]", "for RUN --mount=type=secret", build_args,
             secrets),
    OPT_STR("--target STAGE", "build up to this stage", build_args, target),
    OPT_LIST("--net off|all|RULE[,RULE…]",
             "what steps may reach (default: what the file says, else debian,pypi,npm)", build_args,
             net),
    OPT_FLAG("--no-cache", "do every step anew", build_args, no_cache),
    OPT_FLAG("--no-pull", "what FROM names has to be here (default: it is pulled when it is not)",
             build_args, no_pull),
    OPT_FLAG("--keep-failed", "keep the sandbox in which a step failed, and tell its id",
             build_args, keep_failed),
    OPT_MS("--timeout TIME", "most for all of it", build_args, timeout_ms, 1),
    OPT_MS("--step-timeout TIME", "most for one RUN (default 1h)", build_args, step_ms, 1),
    OPT_SIZE("-m, --memory SIZE", "most memory of a step", build_args, memory, 1u << 20,
             1ull << 50),
    OPT_SIZE("--disk SIZE", "most that a step may write", build_args, disk, 1u << 20, 1ull << 50),
    OPT_CPUS("--cpus N", "CPUs of a step", build_args, cpu_milli, 1, 1000000),
    OPT_END
};

static int cancel_fd = -1; /* written by the first interrupt: nothing half-made stays */

static void on_signal(int sig)
{
    eventfd_write(cancel_fd, 1);
}

static void on_event(void *arg, const cay_build_event *e)
{
    if (cli.json)
        build_show_json(e);
    else if (!cli.quiet)
        build_show_event(arg, e);
}

/* What came out of it, and how it is used. */
static void print_built(cay_client *client, const cay_built *b, int64_t ms)
{
    cay_template *t = NULL;
    if (cay_template_find(client, NULL, NULL, b->template_, &t, NULL) < 0)
        return;
    const char *name = CAY_OR(t->names[0], t->id);
    out_text span = build_took(ms);
    if (!b->steps)
        out_note("cay: %s is made, in %s", name, span.s);
    else if (b->steps == b->cached)
        out_note("cay: %s is up to date: all %u steps cached, %s", name, b->steps, span.s);
    else
        out_note(t->bytes ? "cay: built %s in %s: %u steps, %u cached, %s"
                          : "cay: built %s in %s: %u steps, %u cached",
                 name, span.s, b->steps, b->cached, out_size(t->bytes).s);
    out_note("cay: use it: cay run --template %s%s", name,
             t->names[0] ? "" : "   (a name is given by -t)");
    cay_template_free(t);
}

static int split_args(const opt_list *in, cay_pair *out, char **texts, cay_err *err)
{
    for (size_t i = 0; i < in->n; i++) {
        char *eq;
        texts[i] = cay__strdup(in->v[i]);
        if (!(eq = strchr(texts[i], '=')))
            return cay_fail(err, CAY_EINVAL, "--build-arg %s: it is NAME=VALUE", in->v[i]);
        *eq = 0;
        out[i] = (cay_pair){ texts[i], eq + 1 };
    }
    return 0;
}

/* id=ID,src=FILE or id=ID,env=NAME, as docker build has it; neither: the variable ID. */
static int read_secret(const char *text, cay_build_secret *out, cay_err *err)
{
    CAY_AUTOFREE char *copy = cay__strdup(text);
    const char *id = NULL, *src = NULL, *env = NULL;
    for (char *save = NULL, *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        char *eq = strchr(p, '=');
        if (eq)
            *eq = 0;
        const char **to;
        if (!eq)
            to = NULL;
        else if (!strcmp(p, "id"))
            to = &id;
        else if (!strcmp(p, "src") || !strcmp(p, "source"))
            to = &src;
        else if (!strcmp(p, "env"))
            to = &env;
        else
            to = NULL;
        if (!to && !(eq && !strcmp(p, "type")))
            return cay_fail_why(err, CAY_EINVAL, "build_secret",
                                "--secret %.40s…: it is id=ID,src=FILE or id=ID,env=NAME", p);
        if (to)
            *to = eq + 1;
    }
    if (!id || !*id)
        return cay_fail_why(err, CAY_EINVAL, "build_secret",
                            "--secret: it is id=ID,src=FILE or id=ID,env=NAME");
    char *value = cay__alloc(CLI_SECRET_MAX + 2);
    const char *var = NULL;
    if (!src)
        var = getenv(CAY_OR(env, id));
    ssize_t n = -1;
    if (src)
        n = cay__fd_read_file(AT_FDCWD, src, value, CLI_SECRET_MAX + 1);
    else if (var && strlen(var) <= CLI_SECRET_MAX)
        memcpy(value, var, (size_t)(n = (ssize_t)strlen(var)));
    int e = errno;
    *out = (cay_build_secret){ cay__strdup(id), value, n > 0 ? (size_t)n : 0 };
    if (n > CLI_SECRET_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "build_secret",
                            "--secret id=%.60s: it has more than %d bytes", id, CLI_SECRET_MAX);
    errno = e;
    if (n < 0 && src)
        return cay_fail_sys(err, "--secret id=%.60s: read %.150s", id, src);
    if (n < 0)
        return cay_fail_why(err, CAY_EINVAL, "build_secret",
                            "--secret id=%.60s: there is no variable %.60s; name a file by src=",
                            id, CAY_OR(env, id));
    return 0;
}

static void forget_secrets(cay_build_secret *s)
{
    for (; s->id; s++) {
        explicit_bzero((char *)(uintptr_t)s->value, CLI_SECRET_MAX + 2);
        free((char *)(uintptr_t)s->value);
        free((char *)(uintptr_t)s->id);
    }
}

static int build_template(const build_args *a, const char *dir, char kept[CAY_ID_LEN + 1],
                          cay_err *err)
{
    const char *names[OPT_LIST_MAX + 1] = { NULL }, *rules[OPT_LIST_MAX + 1] = { NULL };
    cay_pair args[OPT_LIST_MAX + 1] = { 0 };
    char *texts[OPT_LIST_MAX] = { NULL };
    CAY_AUTOFREE char *net = NULL;
    cay_client *client;
    cay_built built = { .size = sizeof built };
    build_show view;
    int64_t began = cay__now_ms();
    memcpy(names, a->names.v, a->names.n * sizeof *names);
    memcpy(rules, a->net.v, a->net.n * sizeof *rules);
    cay_call call = { .size = sizeof call,
                      .cancel_fd = cancel_fd,
                      .deadline_ms = a->timeout_ms ? cay__now_ms() + (int64_t)a->timeout_ms : 0 };
    cay_build spec = { .size = sizeof spec,
                       .dir = dir,
                       .file = a->file,
                       .names = a->names.n ? names : NULL,
                       .args = args,
                       .target = a->target,
                       .no_cache = a->no_cache,
                       .keep_failed = a->keep_failed,
                       .step_ms = a->step_ms,
                       .event = on_event,
                       .arg = &view,
                       .hidden = a->hidden,
                       .no_pull = a->no_pull,
                       .trusted = true,
                       .limits = {
                           .memory = a->memory, .disk = a->disk, .cpu_milli = a->cpu_milli } };
    int rc = split_args(&a->args, args, texts, err);
    if (rc == 0 && a->net.n)
        rc =
            cay_policy_text(&(cay_policy){ .size = sizeof(cay_policy), .rules = rules }, &net, err);
    spec.net = net;
    cay_build_secret secrets[OPT_LIST_MAX + 1] = { 0 };
    for (size_t i = 0; rc == 0 && i < a->secrets.n; i++)
        rc = read_secret(a->secrets.v[i], &secrets[i], err);
    spec.secrets = secrets;
    if (rc == 0)
        rc = cli_client(&client, err);
    build_show_open(&view, 2, !cli.json && !cli.quiet);
    if (rc == 0)
        rc = cay_build_run(client, &call, &spec, &built, err);
    build_show_close(&view);
    forget_secrets(secrets);
    CAY_EACH_OF(text, texts, a->args.n)
        free(*text);
    if (rc == 0 && cli.json)
        out_fmt("{\"build\":\"%s\",\"template\":\"%s\",\"steps\":%u,\"cached\":%u}\n", built.id,
                built.template_, built.steps, built.cached);
    else if (rc == 0)
        out_fmt("%s\n", built.template_);
    if (rc == 0 && !cli.json)
        print_built(client, &built, cay__now_ms() - began);
    memcpy(kept, built.sandbox, sizeof built.sandbox);
    return rc;
}

static int run_build(cli_call *c, cay_err *err)
{
    cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sigaction sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    if (cancel_fd >= 0) {
        sigaction(SIGINT, &sa, NULL);
        sigaction(SIGTERM, &sa, NULL);
    }
    char kept[CAY_ID_LEN + 1] = "";
    int rc = build_template(c->opts, c->argv[0], kept, err), code = CLI_OK;
    if (rc < 0)
        code = cli_fail(err, rc == CAY_ECANCELED ? 130 : CLI_FAIL);
    if (*kept && cli.json)
        out_fmt("{\"sandbox\":\"%s\"}\n", kept);
    else if (*kept)
        out_note("cay: the sandbox of the failed step is kept: cay shell %s", kept);
    return code;
}

const cli_verb cli_template_build = {
    "template build",
    "[OPTIONS] DIRECTORY",
    "make a template by a Dockerfile or a template file",
    .text = "Steps run in a sandbox. Each that changes files is done once: the next build takes it "
            "from the cache as long as nothing before it, its variables and the "
            "files that it copies have changed. The log goes to standard error, the template's id "
            "to standard output.",
    .examples = "  cay template build -t tools:1 .                 # Dockerfile or template.json "
                "of this directory\n"
                "  cay template build -t app --net github,pypi .   # what its steps may reach\n"
                "  cay template build --keep-failed .              # look into the sandbox of a "
                "step that failed",
    CLI_OPTS(build_defs, build_args),
    .min = 1,
    .fn = run_build,
};

typedef struct log_args {
    bool follow;
} log_args;
static const opt_def log_defs[] = {
    OPT_FLAG("-f, --follow", "wait for more until the build ends", log_args, follow), OPT_END
};

static int on_line(const cay_build_event *e, void *arg)
{
    if (cli.json)
        build_show_json(e);
    else
        build_show_event(arg, e);
    if (out_broken())
        return 1;
    return 0;
}

typedef struct found {
    char id[CAY_ID_LEN + 1];
    bool ended;
} found;

static int on_found(const cay_build_info *b, void *arg)
{
    found *f = arg;
    memcpy(f->id, b->id, strlen(b->id) + 1 <= sizeof f->id ? strlen(b->id) + 1 : 0);
    f->ended = strcmp(b->state, "waiting") && strcmp(b->state, "building");
    return 0;
}

static int show_log(cli_call *c, cay_err *err)
{
    const log_args *a = c->opts;
    found f = { 0 };
    uint64_t at = 0;
    build_show view;
    build_show_open(&view, 1, false);
    int rc = cay_build_get(c->client, NULL, c->argv[0], on_found, &f, err);
    while (rc == 0) {
        bool last =
            f.ended || !a->follow; /* asked before the log is read, so that no line is missed */
        rc = cay_build_log(c->client, f.id, &at, on_line, &view, err);
        if (last || rc)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
        rc = cay_build_get(c->client, NULL, f.id, on_found, &f, err);
    }
    CAY_TRY(rc);
    return CLI_OK;
}

const cli_verb cli_template_log = {
    "template log",
    "[OPTIONS] BUILD|NAME",
    "what a build said; of a template's name: the last build of it",
    .examples = "  cay template log tools:1\n"
                "  cay template log -f b2k…",
    CLI_OPTS(log_defs, log_args),
    .min = 1,
    .needs = CLI_CLIENT,
    .fn = show_log,
};

static int on_build(const cay_build_info *b, void *arg)
{
    out_list *r = arg;
    if (show_item(r, &cay__build_shape, b, b->id))
        return 0;
    out_style style = OUT_WARN;
    if (!strcmp(b->state, "ready"))
        style = OUT_GOOD;
    else if (!strcmp(b->state, "failed") || !strcmp(b->state, "lost"))
        style = OUT_BAD;
    out_row(&r->table, "*%s|%c%s|-%s|%u/%u|%s|~%s", b->id, style, b->state, b->names, b->step,
            b->steps, b->ended_ms ? out_age(b->ended_ms - b->started_ms).s : "-",
            out_time(b->started_ms).s);
    return 0;
}

static int list_builds(cli_call *c, cay_err *err)
{
    return cay_build_list(c->client, NULL, on_build, c->list, err);
}

const cli_verb cli_template_builds = {
    "template builds",
    "",
    "list the builds there were, the newest first",
    .examples = "  cay template builds",
    .needs = CLI_CLIENT,
    .columns = "BUILD|STATE|TEMPLATE|>STEP|>TIME|BEGUN",
    .fn = list_builds,
};

static int on_cache(const cay_build_cache *c, void *arg)
{
    out_list *r = arg;
    if (show_item(r, &cay__build_cache_shape, c, c->volume))
        return 0;
    out_row(&r->table, "*-%s|%s|%s|~%s|~-%s", c->id, c->tenant, out_size(c->bytes).s,
            out_size(c->limit).s, out_when(c->used_ms).s);
    return 0;
}

static int list_caches(cli_call *c, cay_err *err)
{
    return cay_build_caches(c->client, NULL, NULL, on_cache, c->list, err);
}

const cli_verb cli_template_caches = {
    "template caches",
    "",
    "list the caches that builds keep (RUN --mount=type=cache), with their size",
    .text =
        "`cay template prune` forgets them all, `cay gc` those that no build used for two weeks.",
    .examples = "  cay template caches",
    .needs = CLI_CLIENT,
    .columns = "CACHE|TENANT|>SIZE|>MOST|USED",
    .fn = list_caches,
};

static int prune_builds(cli_call *c, cay_err *err)
{
    size_t n = 0;
    CAY_TRY(cay_build_prune(c->client, NULL, NULL, &n, err));
    if (cli.json)
        out_fmt("{\"removed\":%zu}\n", n);
    else if (!cli.quiet)
        out_fmt("%zu\n", n);
    return CLI_OK;
}

const cli_verb cli_template_prune = {
    "template prune",
    "",
    "forget what builds keep of their steps; templates stay",
    .examples = "  cay template prune",
    .needs = CLI_CLIENT,
    .fn = prune_builds,
};
