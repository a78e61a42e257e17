/* SPDX-License-Identifier: Apache-2.0 */
/* A message to the agent, until it has answered, failed, or was interrupted. */
#include "chat.h"
#include <base/base.h>
#include <cay/sys/capability.h>
#include <signal.h>
#include <termios.h>

enum { TURNS = 100, OUTPUT_TOKENS = 16000, CAPS = 4 };

static int stop_pipe[2] = { -1, -1 };
static volatile sig_atomic_t stops, in_turn, ending, have_tty;
static struct termios cooked;
static int64_t asked_ms; /* that somebody took to answer questions of this turn */

/* Ctrl+C ends a turn or a question; a second one, before that is done, ends us. The other two end
 * the talk in good order: they interrupt the read of a line. */
static void on_signal(int sig)
{
    int e = errno;
    ending = ending || sig != SIGINT;
    if (stops++ > 0 || write(stop_pipe[1], "x", 1) < 0) {
        if (have_tty)
            tcsetattr(0, TCSADRAIN, &cooked);
        _exit(128 + sig);
    }
    errno = e;
}

int chat_stop_open(cay_err *err)
{
    static const int sigs[] = { SIGINT, SIGTERM, SIGHUP };
    CAY_TRY_SYS(pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK), err, "pipe");
    CAY_EACH(sig, sigs)
        sigaction(*sig, &(struct sigaction){ .sa_handler = on_signal }, NULL);
    return 0;
}

int chat_stop_fd(void)
{
    return stop_pipe[0];
}

bool chat_ending(void)
{
    return ending;
}

void chat_stop_forget(void)
{
    char drop[16];
    while (read(stop_pipe[0], drop, sizeof drop) > 0)
        ;
    stops = 0;
}

char *chat_question(const char *question)
{
    int64_t began = cay__now_ms();
    char *said = edit_ask(question, stop_pipe[0]);
    asked_ms += cay__now_ms() - began;
    if (!in_turn)
        chat_stop_forget();
    return said;
}

static void begin_turn(const chat *c)
{
    in_turn = 1;
    have_tty = c->tty && tcgetattr(0, &cooked) == 0;
    if (have_tty) { /* what is typed meanwhile waits, unseen, for the next prompt */
        struct termios t = cooked;
        t.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(0, TCSADRAIN, &t);
    }
}

static bool end_turn(void)
{
    bool stopped = stops > 0;
    if (have_tty)
        tcsetattr(0, TCSADRAIN, &cooked);
    in_turn = 0;
    chat_stop_forget();
    return stopped;
}

static void on_model_start(void *arg, cay_run *run, const char *instructions, const char *input)
{
    chat *c = arg;
    chat_calls_clear(c);
    chat_busy(c, "Thinking");
}

static void on_model_end(void *arg, cay_run *run, const cay_model_reply *reply)
{
    chat *c = arg;
    cay_tokens *sum[] = { &c->s.tokens, &c->turn_tokens };
    for (size_t i = 0; i < 2; i++) {
        sum[i]->requests += reply->usage.requests;
        sum[i]->input += reply->usage.input;
        sum[i]->cached += reply->usage.cached;
        sum[i]->output += reply->usage.output;
    }
}

static void on_tool_start(void *arg, cay_run *run, const cay_tool_call *call)
{
    chat_tool_start(arg, call);
}

static void on_tool_end(void *arg, cay_run *run, const cay_tool_call *call, const char *output)
{
    chat *c = arg;
    cay_err err = CAY_ERR_INIT;
    if (keep_take(&c->keep, c->turn, &err) < 0 && !c->told_keep) {
        c->told_keep = true;
        chat_text(c, OUT_WARN, "this cannot be taken back by /undo: %s", err.msg);
    }
}

typedef struct equipment {
    cay_capability *caps[CAPS];
    size_t ncaps;
    const cay_tool **tools;
    size_t ntools;
} equipment;

static int make_equipment(chat *c, equipment *q, cay_err *err)
{
    cay_shell_options shell = { .size = sizeof shell,
                                .max_output_tokens = OUTPUT_TOKENS,
                                .approval = true };
    cay_filesystem_options files = { .size = sizeof files, .approval = true };
    cay_skills_options skills = { .size = sizeof skills, .lazy = c->a->skills };
    q->caps[q->ncaps++] = cay_cap_filesystem(&files);
    q->caps[q->ncaps++] = cay_cap_shell(&shell);
    q->caps[q->ncaps++] = cay_cap_compaction(NULL);
    if (c->a->skills)
        CAY_TRY(cay_cap_skills(&skills, &q->caps[q->ncaps++], err));
    q->tools = cay__alloc((c->mcp.ntools + c->hosted.n + 1) * sizeof *q->tools);
    q->tools[q->ntools++] = memory_tool(c);
    CAY_EACH_OF(tool, c->mcp.tools, c->mcp.ntools)
        q->tools[q->ntools++] = *tool;
    CAY_EACH_OF(it, c->hosted.v, c->hosted.n)
        q->tools[q->ntools++] = it;
    return 0;
}

static void equipment_clear(equipment *q)
{
    CAY_EACH_OF(cap, q->caps, q->ncaps)
        cay_cap_free(*cap);
    free(q->tools);
}

static int run_agent(chat *c, const char *input, cay_err *err)
{
    __attribute__((cleanup(equipment_clear))) equipment q = { 0 };
    CAY_AUTOFREE char *instructions = memory_text(c);
    const char *effort =
        CAY_OR(c->a->model.effort, cay__json_str(json_object_get(c->conf, "chat"), "effort", NULL));
    int64_t most;
    if (c->a->max_turns)
        most = (int64_t)c->a->max_turns;
    else
        most = cay__json_int(json_object_get(c->conf, "chat"), "max_turns", TURNS);
    cay_run_result *r = NULL;
    CAY_TRY(make_equipment(c, &q, err));
    cay_agent agent = { .size = sizeof agent,
                        .name = c->s.agent,
                        .instructions = instructions,
                        .sandbox = true,
                        .capabilities = q.caps,
                        .ncapabilities = q.ncaps,
                        .tools = q.tools,
                        .ntools = q.ntools,
                        .settings = { .size = sizeof agent.settings, .reasoning = effort } };
    cay_hooks hooks = { .arg = c,
                        .model_start = on_model_start,
                        .model_end = on_model_end,
                        .tool_start = on_tool_start,
                        .tool_end = on_tool_end };
    cay_run_config conf = { .size = sizeof conf,
                            .model = c->model,
                            .max_turns = most > 0 && most < 100000 ? (unsigned)most : TURNS,
                            .hooks = &hooks,
                            .on_event = chat_event,
                            .event_arg = c,
                            .approve = chat_ask,
                            .approve_arg = c,
                            .service = c->client,
                            .sandbox = c->sb,
                            .conversation = c->talk,
                            .workflow = "cay chat" };
    cay_call call = { .size = sizeof call, .cancel_fd = chat_stop_fd() };
    CAY_TRY(cay_agent_run(&agent, &call, input, &conf, &r, err));
    cay_run_result_free(r);
    return 0;
}

/* What it took, on a line at the end of a turn. */
static void tell_cost(chat *c, int64_t ms)
{
    const cay_tokens *t = &c->turn_tokens;
    char in[16], out[16];
    if (!c->tty || !t->requests)
        return;
    const uint64_t n[2] = { t->input, t->output };
    char *const to[2] = { in, out };
    for (size_t i = 0; i < 2; i++)
        n[i] < 10000 ? snprintf(to[i], sizeof in, "%ju", n[i])
                     : snprintf(to[i], sizeof in, "%.1fk", (double)n[i] / 1000);
    chat_quiet_lines(c);
    out_str("\n");
    chat_text(c, OUT_DIM, "%.1f s · %s tokens in, %s out", (double)ms / 1000, in, out);
}

void chat_turn(chat *c, const char *input)
{
    cay_err err = CAY_ERR_INIT, own = CAY_ERR_INIT;
    c->turn = c->s.turns + 1;
    c->nitems = 0;
    c->streamed = false;
    c->turn_tokens = (cay_tokens){ 0 };
    if (keep_thin(&c->keep, c->turn, &own) < 0)
        chat_text(c, OUT_WARN, "cay: %s", own.msg);
    begin_turn(c);
    c->apart = c->screen && c->tty;
    asked_ms = 0;
    int64_t began = cay__now_ms();
    int rc = run_agent(c, input, &err);
    chat_quiet_lines(c);
    chat_calls_clear(c);
    bool stopped = end_turn();
    if (rc < 0 && (rc == CAY_ECANCELED || stopped))
        chat_text(c, OUT_WARN, "interrupted%s",
                  c->nitems ? "; /undo takes back what was done" : "");
    else if (rc < 0)
        chat_text(c, OUT_BAD, "cay: %s", err.msg);
    tell_cost(c, cay__now_ms() - began - asked_ms);
    c->failed = c->failed || rc < 0;
    if (rc == 0 || c->nitems)
        c->s.turns = c->turn;
    c->s.used_ms = cay__clock_ms();
    if (store_put(c->db, &c->s, &own) < 0)
        chat_text(c, OUT_BAD, "cay: %s", own.msg);
}
