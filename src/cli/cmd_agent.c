/* SPDX-License-Identifier: Apache-2.0 */
/* cay agent: one task for an agent in a sandbox. */
#include "agent.h"
#include "sandbox_options.h"
#include "main.h"
#include <base/base.h>
#include <cay/agent.h>
#include <cay/sys/capability.h>
#include <cay/trace.h>
#include <signal.h>

enum { TEXT_MOST = 64 << 20, TURNS = 100, OUTPUT_TOKENS = 16000, WAITS = 3 };

typedef struct agent_args {
    box_opts box;
    agent_model model;
    const char *instructions, *approve, *state, *resume, *sandbox, *cwd, *trace, *session, *skills,
        *memory, *tools, *otlp, *sandbox_state;
    opt_list mcp, hosted;
    agent_audit audit;
    uint64_t max_turns;
    bool keep, no_stream, ptc, browser, trace_content;
} agent_args;

static const opt_def defs[] = {
    OPT_STR("--instructions FILE", "what the agent is told besides its task", agent_args,
            instructions),
    OPT_STR(
        "--approve auto|ask|never",
        "commands and patches: run them (default), ask first (default of --resume), or refuse them",
        agent_args, approve),
    OPT_NUM("--max-turns N", "most times the model is asked (default 100)", agent_args, max_turns,
            1, 100000),
    OPT_STR("--state FILE", "where a run that waits for approval is saved", agent_args, state),
    OPT_STR("--resume FILE", "go on with a run that was saved", agent_args, resume),
    OPT_STR("--session FILE[:NAME]", "remember the conversation there, and go on with it",
            agent_args, session),
    OPT_STR("--skills DIR", "directories with a SKILL.md that it may load", agent_args, skills),
    OPT_STR("--tools all|NAME,…",
            "file_read … process_list too, all or some (cay tools lists them)", agent_args, tools),
    OPT_FLAG("--ptc", "let it write Python that calls its tools", agent_args, ptc),
    OPT_LIST("--mcp COMMAND|URL|FILE",
             "tools of an MCP server: a command in a sandbox of its own, or an address; or of "
             "those that "
             "a mcp.json lists",
             agent_args, mcp),
    OPT_LIST("--hosted TOOL",
             "a tool that the endpoint runs: web_search, code_interpreter, image_generation, "
             "file_search:STORE, mcp:LABEL=URL, or JSON",
             agent_args, hosted),
    OPT_FLAG("--browser", "give it a browser: a headless Chromium in the sandbox", agent_args,
             browser),
    OPT_LIST("--audit FILE|URL|workspace:",
             "append what it was let do there, a JSON object a line, or POST it; workspace: is a "
             "file in "
             "the sandbox. May be given again",
             agent_args, audit.to),
    OPT_LIST(
        "--audit-spool FILE",
        "where events wait that the server of --audit did not take; one for each server, in their "
        "order, or none",
        agent_args, audit.spool),
    OPT_LIST("--audit-key SOURCE",
             "where the key of that server is: env:NAME, file:PATH or none; one for each, in their "
             "order "
             "(default env:CAY_AUDIT_KEY for a single one)",
             agent_args, audit.key),
    OPT_FLAG("--audit-detail", "with commands and paths, which may hold what the model was told",
             agent_args, audit.detail),
    OPT_FLAG("--audit-output", "with what tools answered: what commands printed, what files hold",
             agent_args, audit.output),
    OPT_STR("--memory DIR|URL",
            "learn from run to run: what was learnt is kept there, in files or as one archive at "
            "https:// or s3://BUCKET/KEY",
            agent_args, memory),
    OPT_STR("--sandbox ID", "work in this sandbox, and leave it there", agent_args, sandbox),
    OPT_STR("--cwd DIR", "begin in this directory below the workspace", agent_args, cwd),
    OPT_FLAG("--keep", "keep the sandbox afterwards, and tell its id", agent_args, keep),
    OPT_STR(
        "--sandbox-state FILE",
        "come back to the sandbox that it tells of, if there is such a file; saved there again at "
        "the end",
        agent_args, sandbox_state),
    OPT_STR("--trace FILE",
            "append spans of the run there, for `cay trace`; - shows them on standard error",
            agent_args, trace),
    OPT_STR("--otlp URL",
            "send spans to this OpenTelemetry collector (OTLP/HTTP JSON), for example "
            "http://127.0.0.1:4318/v1/traces",
            agent_args, otlp),
    OPT_FLAG("--trace-content",
             "spans tell what was said: input and output of the model and of tools", agent_args,
             trace_content),
    OPT_FLAG("--no-stream", "ask for whole answers instead of pieces", agent_args, no_stream),
    OPT_END
};

static int stop_pipe[2] = { -1, -1 };
static volatile sig_atomic_t stops;

static void on_stop(int sig)
{
    int e = errno;
    if (stops++ > 0 ||
        write(stop_pipe[1], "x", 1) < 0) /* the second time: somebody wants to be gone */
        _exit(128 + sig);
    errno = e;
}

static int catch_stop(void)
{
    struct sigaction sa = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
    if (pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return 0;
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    return stop_pipe[0];
}

/* A run that was saved waits because it had to be asked for: that stays so unless told otherwise.
 */
static const char *mode_of(const agent_args *a)
{
    return CAY_OR(a->approve, a->resume ? "ask" : "auto");
}

static int read_text(const char *what, const char *path, char **out, cay_err *err)
{
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail_sys(err, "%s %s", what, path);
    if (st.st_size > TEXT_MOST)
        return cay_fail(err, CAY_ETOOBIG, "%s %s is larger than 64 MiB", what, path);
    CAY_AUTOFREE char *text = cay__alloc((size_t)TEXT_MOST + 1);
    ssize_t n = cay__fd_read_all(fd, text, TEXT_MOST);
    if (n < 0)
        return cay_fail_sys(err, "%s %s", what, path);
    if (strlen(text) != (size_t)n)
        return cay_fail(err, CAY_EINVAL, "%s %s has a NUL byte", what, path);
    *out = cay__strdup(text);
    return 0;
}

/* Whole or not at all, and for its owner only: it holds all that was said. */
static int save_state(const char *what, const char *path, const char *text, cay_err *err)
{
    char tmp[4096];
    if ((size_t)CAY_FORMAT(tmp, "%s.new", path) >= sizeof tmp)
        return cay_fail(err, CAY_ETOOBIG, "%s %.100s: too long a name", what, path);
    unlink(tmp);
    CAY_AUTOFD fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !cay__fd_write_all(fd, text, strlen(text)) || fsync(fd) < 0 ||
        rename(tmp, path) < 0) {
        int rc = cay_fail_sys(err, "%s %s", what, path);
        unlink(tmp);
        return rc;
    }
    return 0;
}

/* Whoever could write the file may have put a yes into it: only where nothing is asked does it
 * count. */
static int read_state(const agent_args *a, char **out, cay_err *err)
{
    CAY_AUTOFREE char *text = NULL;
    CAY_TRY(read_text("--resume", a->resume, &text, err));
    if (strcmp(mode_of(a), "auto"))
        *out = agent_ask_forget(text);
    else
        *out = CAY_STEAL(text);
    if (*out)
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "run_state",
                        "--resume %.200s: the state of the run cannot be used: it is no "
                        "sound JSON object",
                        a->resume);
}

static int open_session(const char *text, cay_conversation **out, cay_err *err)
{
    CAY_AUTOFREE char *path = cay__strdup(text);
    char *colon = strrchr(path, ':');
    if (colon && strchr(colon, '/'))
        colon = NULL;
    if (colon)
        *colon++ = 0;
    int rc = cay_conversation_sqlite(path, cay__text_or(colon, "default"), out, err);
    if (rc < 0)
        return cay_wrap(err, rc, "--session");
    return 0;
}

typedef struct parts {
    box_spec box;
    cli_manifest manifest; /* what its file holds */
    char *instructions, *state, *sandbox_state;
    cay_model *model;
    cay_sandbox *sandbox;
    cay_tracer *tracer;
    cay_audit_sink *audit;
    cay_capability *memory; /* among caps */
    cay_conversation *session;
    agent_mcp mcp;
    agent_hosted hosted;
    const cay_tool **tools; /* of both */
    cay_mcp_callbacks asks; /* what its servers may ask for */
    cay_capability *caps[8];
    size_t ncaps;
} parts;

static void parts_clear(parts *p)
{
    CAY_EACH(cap, p->caps)
        cay_cap_free(*cap);
    agent_mcp_close(&p->mcp);
    agent_hosted_close(&p->hosted);
    free(p->tools);
    cay_conversation_free(p->session);
    cay_tracer_free(p->tracer);
    cay_audit_sink_free(p->audit);
    if (p->sandbox)
        cay_sandbox_unref(p->sandbox);
    cay_model_free(p->model);
    free(p->instructions);
    free(p->state);
    free(p->sandbox_state);
    cli_manifest_clear(&p->manifest);
    box_spec_clear(&p->box);
}

static int check_args(const agent_args *a, int argc, cay_err *err)
{
    const char *mode = mode_of(a);
    if (strcmp(mode, "auto") && strcmp(mode, "ask") && strcmp(mode, "never"))
        return cay_fail(err, CAY_EINVAL, "--approve \"%.40s\": want auto, ask or never", mode);
    if (a->resume && argc)
        return cay_fail(err, CAY_EINVAL,
                        "--resume goes on with a task that was given; it takes no new one");
    if (!a->resume && !argc)
        return cay_fail(err, CAY_EINVAL,
                        "what is to be done? give a task, or - to read it from standard input");
    CAY_TRY(agent_audit_check(&a->audit, err));
    uint64_t size;
    struct stat st;
    if (a->sandbox_state && (a->sandbox || a->resume))
        return cay_fail(err, CAY_EINVAL,
                        "--sandbox-state says where to work, and so does %s: give one of them",
                        a->sandbox ? "--sandbox" : "--resume");
    if (a->memory && stat(a->memory, &st) < 0 && cay__str_to_size(a->memory, &size))
        return cay_fail(
            err, CAY_EINVAL,
            "--memory %.40s: here it is a directory; -m %.40s limits the sandbox's memory",
            a->memory, a->memory);
    CAY_AUTOFD tty = -1;
    if (!strcmp(mode, "ask") && !a->state)
        tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (a->resume && !a->approve && !a->state && tty < 0)
        return cay_fail(err, CAY_EINVAL,
                        "--resume: there is no terminal to ask on; say --approve auto to let it "
                        "run what it waits for, or give --state FILE to save it again");
    if (!strcmp(mode, "ask") && !a->state && tty < 0)
        return cay_fail(err, CAY_EINVAL,
                        "--approve ask: there is no terminal to ask on; give --state FILE to save "
                        "the run until it is approved");
    return 0;
}

/* "all", or names between commas. */
static int give_tools(const char *text, bool asks, cay_capability **out, cay_err *err)
{
    enum { MOST = 64 };
    const char *names[MOST + 1] = { NULL };
    CAY_AUTOFREE char *own = cay__strdup(text);
    size_t n = 0;
    cay_tools_options o = { .size = sizeof o,
                            .max_output_tokens = OUTPUT_TOKENS,
                            .approval = asks };
    for (char *word = own; word && n < MOST;)
        names[n++] = strsep(&word, ",");
    if (strcmp(text, "all"))
        o.names = names;
    int rc = cay_cap_tools(&o, out, err);
    if (rc < 0)
        return cay_wrap(err, rc, "--tools");
    return 0;
}

/* The answer is out; what comes now takes a while. */
static void on_memory_progress(void *arg, const cay_memory_progress *p)
{
    if (!cli.quiet && !cli.json && !strcmp(p->phase, "extract") && p->done == 0)
        out_note("cay: learning from this run");
}

static int add_skills_memory(const agent_args *a, parts *p, cay_err *err)
{
    cay_skills_options skills = { .size = sizeof skills, .lazy = a->skills };
    bool far = a->memory && strstr(a->memory, "://");
    cay_memory_options memory = { .size = sizeof memory,
                                  .read = true,
                                  .live_update = true,
                                  .generate = true,
                                  .store = far ? NULL : a->memory,
                                  .remote = far ? a->memory : NULL,
                                  .background = true,
                                  .progress = on_memory_progress };
    if (far)
        CAY_TRY(cli_client(&memory.service, err));
    if (a->skills)
        CAY_TRY(agent_dir("--skills", a->skills, err));
    if (a->skills)
        CAY_TRY(cay_cap_skills(&skills, &p->caps[p->ncaps++], err));
    if (a->memory) {
        CAY_TRY(cay_cap_memory(&memory, &p->caps[p->ncaps], err));
        p->memory = p->caps[p->ncaps++];
    }
    return 0;
}

static int open_tracer(const agent_args *a, cay_tracer **out, cay_err *err)
{
    cay_tracer_http_spec spec = { .size = sizeof spec, .url = a->otlp, .otlp = true };
    cay_tracer *t = NULL, *second = NULL;
    if (a->trace_content && !a->trace && !a->otlp)
        return cay_fail(err, CAY_EINVAL,
                        "--trace-content: there is no trace; give --trace FILE or --otlp URL");
    if (a->trace && !strcmp(a->trace, "-"))
        t = cay_tracer_console(2);
    else if (a->trace)
        CAY_TRY(cay_tracer_file(a->trace, &t, err));
    int rc = 0;
    if (a->otlp)
        rc = cay_tracer_http(&spec, &second, err);
    if (rc < 0) {
        cay_tracer_free(t);
        return cay_wrap(err, rc, "--otlp");
    }
    if (t && second)
        cay_tracer_also(t, second);
    *out = CAY_OR(t, second);
    return 0;
}

static int open_parts(const agent_args *a, parts *p, cay_err *err)
{
    bool asks = strcmp(mode_of(a), "auto");
    cay_model_open_spec m = { .size = sizeof m,
                              .model = a->model.name,
                              .base_url = a->model.base_url,
                              .api = a->model.api,
                              .key = a->model.key,
                              .no_stream = a->no_stream,
                              .headers = a->model.headers.v,
                              .window = a->model.window };
    cay_shell_options shell = { .size = sizeof shell,
                                .max_output_tokens = OUTPUT_TOKENS,
                                .approval = asks };
    cay_filesystem_options files = { .size = sizeof files, .approval = asks };
    CAY_TRY(agent_model_check(&a->model, err));
    CAY_TRY(agent_hosted_open(&a->hosted, &p->hosted, err));
    CAY_TRY(cay_model_open(&m, &p->model, err));
    if (a->instructions)
        CAY_TRY(read_text("--instructions", a->instructions, &p->instructions, err));
    if (a->resume)
        CAY_TRY(read_state(a, &p->state, err));
    struct stat st;
    if (a->sandbox_state && stat(a->sandbox_state, &st) == 0)
        CAY_TRY(read_text("--sandbox-state", a->sandbox_state, &p->sandbox_state, err));
    if (p->box.create.manifest.text) { /* so far the name of its file */
        CAY_TRY(cli_manifest_read(p->box.create.manifest.text, &p->manifest, err));
        cli_manifest_give(&p->manifest, &p->box.create);
    }
    CAY_TRY(agent_audit_open(&a->audit, &p->audit, err));
    CAY_TRY(open_tracer(a, &p->tracer, err));
    if (a->session)
        CAY_TRY(open_session(a->session, &p->session, err));
    if (a->sandbox)
        CAY_TRY(cli_boxes->find(a->sandbox, &p->sandbox, err));
    p->caps[p->ncaps++] = cay_cap_filesystem(&files);
    p->caps[p->ncaps++] = cay_cap_shell(&shell);
    p->caps[p->ncaps++] = cay_cap_compaction(NULL);
    cay_ptc_options ptc = { .size = sizeof ptc,
                            .max_output_tokens = OUTPUT_TOKENS,
                            .approval = asks };
    cay_browser_options surf = { .size = sizeof surf,
                                 .max_output_tokens = OUTPUT_TOKENS,
                                 .approval = asks };
    if (a->browser && (!a->tools || strcmp(a->tools, "all"))) /* all of them have it already */
        p->caps[p->ncaps++] = cay_cap_browser(&surf);
    if (a->ptc)
        CAY_TRY(cay_cap_ptc(&ptc, &p->caps[p->ncaps++], err));
    if (a->tools)
        CAY_TRY(give_tools(a->tools, asks, &p->caps[p->ncaps++], err));
    return add_skills_memory(a, p, err);
}

static int report_result(const agent_args *a, agent_show *show, const cay_run_result *r)
{
    cay_err err = CAY_ERR_INIT;
    if (r->state && a->state && save_state("--state", a->state, r->state, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    if (r->sandbox_state &&
        save_state("--sandbox-state", a->sandbox_state, r->sandbox_state, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    agent_show_result(show, r, a->state);
    if (r->state && a->state)
        out_note("cay: %zu call%s wait%s for approval; `cay agent --resume %s` goes on",
                 r->ninterruptions, out_plural(r->ninterruptions, "s"),
                 r->ninterruptions == 1 ? "s" : "", a->state);
    else if (r->state)
        out_note("cay: stopped before a call that was not approved; with --state FILE the run "
                 "could go on later");
    if (a->box.on && r->sandbox)
        out_note("cay: kept %s; look by `cay diff %s`, then `cay apply %s` or `cay rm -f %s`",
                 r->sandbox, r->sandbox, r->sandbox, r->sandbox);
    else if (r->output && a->keep && r->sandbox)
        out_note("cay: kept %s; `cay rm -f %s` removes it", r->sandbox, r->sandbox);
    if (r->state)
        return WAITS;
    return CLI_OK;
}

static int run_task(const agent_args *a, const char *task, parts *p)
{
    cay_err err = CAY_ERR_INIT;
    agent_show show;
    cay_run_result *r = NULL;
    cay_agent agent = { .size = sizeof agent,
                        .name = "Agent",
                        .instructions = p->instructions,
                        .sandbox = true,
                        .capabilities = p->caps,
                        .ncapabilities = p->ncaps,
                        .settings = { .size = sizeof agent.settings,
                                      .reasoning = a->model.effort } };
    const cay_hooks hooks = { .arg = &show, .tool_start = agent_show_start };
    cay_run_config conf = { .size = sizeof conf,
                            .model = p->model,
                            .hooks = &hooks,
                            .max_turns = a->max_turns ? (unsigned)a->max_turns : TURNS,
                            .on_event = agent_show_event,
                            .event_arg = &show,
                            .approve = agent_ask,
                            .approve_arg = (void *)mode_of(a),
                            .state = p->state,
                            .sandbox_state = p->sandbox_state,
                            .save = a->sandbox_state != NULL,
                            .sandbox = p->sandbox,
                            .create = &p->box.create,
                            .keep = a->keep || a->box.on,
                            .cwd = a->cwd,
                            .tracer = p->tracer,
                            .trace_content = a->trace_content,
                            .ledger = p->audit,
                            .conversation = p->session };
    p->asks = (cay_mcp_callbacks){ .size = sizeof p->asks,
                                   .arg = (void *)mode_of(a),
                                   .model = p->model,
                                   .sample = agent_sample,
                                   .elicit = agent_elicit };
    if (cli_client(&conf.service, &err) < 0 ||
        agent_mcp_open(&a->mcp, conf.service, strcmp(mode_of(a), "auto"), &p->asks, &p->mcp, &err) <
            0)
        return cli_fail(&err, CLI_FAIL);
    p->tools = cay__alloc((p->mcp.ntools + p->hosted.n + 1) * sizeof *p->tools);
    CAY_EACH_OF(tool, p->mcp.tools, p->mcp.ntools)
        p->tools[agent.ntools++] = *tool;
    CAY_EACH_OF(it, p->hosted.v, p->hosted.n)
        p->tools[agent.ntools++] = it;
    agent.tools = p->tools;
    agent_show_begin(&show);
    if (!a->sandbox)
        box_spec_tell(&p->box);
    cay_call call = { .size = sizeof call, .cancel_fd = catch_stop() };
    int rc = cay_agent_run(&agent, &call, task, &conf, &r, &err);
    if (!a->sandbox)
        box_spec_look(&p->box);
    if (rc < 0) {
        if (p->memory) /* there is something to learn from failures, too; not once somebody pressed
                          Ctrl-C */
            cay_memory_wait(p->memory, &call, NULL);
        agent_show_end(&show);
        return cli_fail(&err, rc == CAY_ECANCELED ? 128 + SIGINT : CLI_FAIL);
    }
    int code = report_result(a, &show, r);
    agent_show_end(&show);
    cay_run_result_free(r);
    if (p->memory && cay_memory_wait(p->memory, &call, &err) < 0) /* the answer stands */
        out_note("cay: nothing was learnt: %s", err.msg);
    return code;
}

static int run_agent(cli_call *c, cay_err *err)
{
    const agent_args *a = c->opts;
    parts p = { .box = { .net = NULL } };
    CAY_AUTOFREE char *piped = NULL;
    int code;
    if (check_args(a, c->argc, err) < 0 || box_spec_make(&a->box, &p.box, err) < 0)
        code = cli_usage(c->verb, err);
    else if ((c->argc && !strcmp(c->argv[0], "-") &&
              read_text("task", "/dev/stdin", &piped, err) < 0) ||
             open_parts(a, &p, err) < 0)
        code = cli_fail(err, CLI_FAIL);
    else
        code = run_task(a, CAY_OR(piped, c->argc ? c->argv[0] : NULL), &p);
    parts_clear(&p);
    return code;
}

const cli_verb cli_agent = {
    "agent",
    "[OPTIONS] TASK",
    "give an agent one task in a sandbox",
    .text = "A model works on the task with a shell and files in a fresh sandbox, which is removed "
            "afterwards, unless it stands --on a directory. Its key stays outside. The\n"
            "answer goes to standard output, progress to standard error. The status is 0 when it "
            "answered, 1 when the run failed, 3 when it\n"
            "waits for approval.",
    .examples =
        "  cay agent --mount . 'what does this project do?'\n"
        "  cay agent --on . 'fix the failing test'              # then `cay diff` and `cay apply`\n"
        "  cay agent --model gpt-5.5 --net pypi 'write a script that plots primes, and run it' "
        "--keep\n"
        "  cay agent --api chat --base-url http://localhost:11434/v1 --model qwen3 'hello'   # "
        "Ollama\n"
        "  cay agent --approve ask --state run.json 'clean up'; cay agent --resume run.json "
        "--approve auto\n"
        "  git diff | cay agent -                               # the task from standard input\n"
        "  cay agent --model scripted:demo.json 'show me'       # replays a file, no network",
    .opts = { { agent_model_defs, offsetof(agent_args, model) },
              { defs, 0 },
              { box_opt_defs, offsetof(agent_args, box) } },
    .size = sizeof(agent_args),
    .max = 1,
    .fn = run_agent,
};
