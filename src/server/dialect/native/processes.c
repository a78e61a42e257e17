/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: started, listed, or run to their end in one request. */
#include "native.h"
#include <base/base.h>
#include <string.h>

CAY_DEFINE_AUTO(cay_proc, cay_proc_unref)

enum { OUTPUT_DEFAULT = 16 << 20, OUTPUT_MAX = 64 << 20 };

typedef struct spawn_body {
    cay_spawn s;
    const char *input, *input64; /* of a run alone */
    size_t input_len, max_output;
} spawn_body;

#define AT(field) offsetof(spawn_body, s.field)
static const char *const env_words[] = { "add", "only", NULL };
static const char *const stdin_words[] = { "null", "pipe", NULL };
static const char *const full_words[] = { "drop", "block", NULL };
static const char *const profile_words[] = { "default", "root", NULL };

#define COMMAND                                                                                    \
    { "argv", CAY__F_STRS, AT(argv), .min = 1, .about = "the command and its words; or shell" },   \
        { "shell", CAY__F_STR, AT(shell), .about = "one line for the sandbox's shell" },           \
        { "login", CAY__F_BOOL, AT(login), .about = "with shell: a login shell" },                 \
        { "env", CAY__F_PAIRS, AT(env) },                                                          \
        { "env_mode", CAY__F_WORD, AT(env_mode), .more = env_words,                                \
          .about = "only: nothing of the sandbox's" },                                             \
        { "cwd", CAY__F_PATH, AT(cwd) }, { "user", CAY__F_STR, AT(user), .about = "name or uid" }, \
        { "profile", CAY__F_CHOICE, AT(profile), .more = profile_words },                          \
        { "tty", CAY__F_BOOL, AT(tty) }, { "cols", CAY__F_U16, AT(cols) },                         \
        { "rows", CAY__F_U16, AT(rows) },                                                          \
        { "timeout_ms", CAY__F_U64, AT(timeout_ms),                                                \
          .about = "TERM to all it started, KILL one second later" },                              \
        { "tag", CAY__F_STR, AT(tag), .about = "a name to find it by" },                           \
        { "labels", CAY__F_PAIRS, AT(labels) },                                                    \
    {                                                                                              \
        "ring_bytes", CAY__F_U32, AT(ring_bytes),                                                  \
            .about = "output kept of each stream: 4096 to 16777216; 1 MiB"                         \
    }

static const cay__field spawn_fields[] = {
    COMMAND,
    { "stdin", CAY__F_WORD, AT(stdin_mode), .more = stdin_words },
    { "on_full", CAY__F_WORD, AT(on_full), .more = full_words,
      .about = "block: it waits for readers instead of dropping its oldest output" },
};
const cay__shape cay__spawn_shape =
    CAY__SHAPE("Spawn", spawn_body, spawn_fields, "a command as it is wanted");

static const cay__field run_fields[] = {
    COMMAND,
    { "input", CAY__F_STR, offsetof(spawn_body, input), .max = 8 << 20,
      .about = "its standard input" },
    { "input_base64", CAY__F_BASE64, offsetof(spawn_body, input64),
      .count = offsetof(spawn_body, input_len), .about = "the same for bytes that are no text" },
    { "max_output", CAY__F_SIZE, offsetof(spawn_body, max_output), .max = OUTPUT_MAX,
      .about = "bytes of each stream that are told; 16 MiB" },
};
static const cay__shape run_shape =
    CAY__SHAPE("Run", spawn_body, run_fields, "a command to its end");

typedef struct started {
    const char *id;
    int pid;
} started;
static const cay__field started_fields[] = { { "id", CAY__F_STR, offsetof(started, id) },
                                             { "pid", CAY__F_INT, offsetof(started, pid),
                                               .about = "as seen inside" } };
static const cay__shape started_shape = CAY__SHAPE("Started", started, started_fields, NULL);

#define EXIT(base)                                                                                 \
    { "code", CAY__F_INT, base + offsetof(cay_exit, code) },                                       \
        { "signal", CAY__F_INT, base + offsetof(cay_exit, signal) },                               \
        { "reason", CAY__F_TEXT, base + offsetof(cay_exit, reason) },                              \
        { "cpu_us", CAY__F_U64, base + offsetof(cay_exit, cpu_us) },                               \
        { "max_rss", CAY__F_U64, base + offsetof(cay_exit, max_rss) },                             \
        { "lost_stdout", CAY__F_U64, base + offsetof(cay_exit, lost_out) },                        \
    {                                                                                              \
        "lost_stderr", CAY__F_U64, base + offsetof(cay_exit, lost_err)                             \
    }
static const cay__field exit_fields[] = { EXIT(0) };
const cay__shape cay__exit_shape = CAY__SHAPE("Exit", cay_exit, exit_fields, "how it ended");
static const cay__field result_fields[] = {
    EXIT(offsetof(cay_result, exit)),
    { "stdout", CAY__F_BYTES, offsetof(cay_result, out), .count = offsetof(cay_result, out_len) },
    { "stderr", CAY__F_BYTES, offsetof(cay_result, errout),
      .count = offsetof(cay_result, errout_len) },
    { "truncated", CAY__F_BOOL, offsetof(cay_result, truncated),
      .about = "more came than max_output" },
};
const cay__shape cay__result_shape =
    CAY__SHAPE("Result", cay_result, result_fields, "how it ended, and what it printed");

static void put_proc_state(cay__buf *b, const void *v)
{
    static const struct {
        char state;
        const char *word;
    } words[] = { { 'R', "running" }, { 'S', "sleeping" }, { 'D', "waiting" }, { 'T', "stopped" },
                  { 't', "stopped" }, { 'Z', "zombie" },   { 'X', "ended" } };
    const char *word = "other";
    for (size_t i = 0; i < CAY_LEN(words); i++)
        if (words[i].state == *(const char *)v)
            word = words[i].word;
    cay__buf_json(b, word, strlen(word));
}

typedef struct told {
    cay_proc_info i;
    const cay_exit *exit; /* of one that ended */
} told;

#define INFO(field) offsetof(told, i.field)
static const cay__field proc_fields[] = {
    { "id", CAY__F_STR, INFO(id), .about = "empty when it was not started through the API" },
    { "tag", CAY__F_STR, INFO(tag) },
    { "pid", CAY__F_INT, INFO(pid) },
    { "ppid", CAY__F_INT, INFO(ppid) },
    { "user", CAY__F_STR, INFO(user) },
    { "state", CAY__F_CALC, INFO(state), .put = put_proc_state,
      .more = "{\"enum\":[\"running\",\"sleeping\",\"waiting\",\"stopped\",\"zombie\",\"ended\","
              "\"other\"]}" },
    { "tty", CAY__F_BOOL, INFO(tty) },
    { "cpu_us", CAY__F_U64, INFO(cpu_us) },
    { "rss", CAY__F_U64, INFO(rss) },
    { "started_ms", CAY__F_I64, INFO(started_ms) },
    { "ended_ms", CAY__F_I64, INFO(ended_ms), CAY__F_MAYBE },
    { "command", CAY__F_STR, INFO(command) },
    { "labels", CAY__F_PAIRS, INFO(labels) },
    { "exit", CAY__F_POINT, offsetof(told, exit), .more = &cay__exit_shape },
};
static const cay__shape proc_shape =
    CAY__SHAPE("Process", told, proc_fields, "one process; it has `exit` once it ended");

static told describe_process(const cay_proc_info *i)
{
    return (told){ .i = *i, .exit = i->state == 'X' ? &i->exit : NULL };
}

static bool wants_events(const cay__req *r)
{
    const char *a = cay__head_field(&r->head, "accept");
    return a && strstr(a, "text/event-stream");
}

static int start_process(cay__req *r, spawn_body *b, cay_sandbox *sb, cay_err *err)
{
    CAY_AUTOPTR(cay_proc) p = NULL;
    bool stream = wants_events(r);
    CAY_TRY(cay_sandbox_spawn(sb, &r->call, &b->s, &p, err));
    if (stream)
        return cay__native_stream(r, CAY_STEAL(p), (const uint64_t[2]){ 0, 0 }, true, err);
    started s = { cay_proc_id(p), cay_proc_pid(p) };
    return cay__reply_shape(r, 201, &started_shape, &s);
}

const cay__doc cay__doc_process_start = { "startProcess", "processes", "start a command",
                                          .body = &cay__spawn_shape,
                                          .answers = { { 200, .type = "text/event-stream" },
                                                       { 201, &started_shape },
                                                       { 400 },
                                                       { 404 },
                                                       { 409 } } };
int cay__on_process_start(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    spawn_body b = { .s = { .size = sizeof b.s } };
    CAY_TRY(cay__native_use(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &cay__spawn_shape, &b, err));
    return start_process(r, &b, sb, err);
}

const cay__doc cay__doc_pty_start = { "startTerminal", "processes",
                                      "start a command, or the login shell, on a terminal",
                                      .body = &cay__spawn_shape,
                                      .answers = { { 200, .type = "text/event-stream" },
                                                   { 201, &started_shape },
                                                   { 400 },
                                                   { 404 },
                                                   { 409 } } };
int cay__on_pty_start(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    spawn_body b = { .s = { .size = sizeof b.s } };
    CAY_TRY(cay__native_use(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &cay__spawn_shape, &b, err));
    b.s.tty = true;
    b.s.stdin_mode = CAY_STDIN_PIPE;
    if (!b.s.argv && !b.s.shell) { /* as a terminal's own program would start it */
        b.s.shell = "exec \"${SHELL:-/bin/sh}\" -l";
        b.s.login = true;
    }
    return start_process(r, &b, sb, err);
}

const cay__doc cay__doc_process_run = {
    "run", "processes", "start, feed, collect and wait in one; it dies with the connection",
    .body = &run_shape, .answers = { { 200, &cay__result_shape }, { 400 }, { 404 }, { 409 } }
};
int cay__on_process_run(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    spawn_body b = { .s = { .size = sizeof b.s } };
    cay_result res = { .size = sizeof res };
    CAY_TRY(cay__native_use(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &run_shape, &b, err));
    if (b.input && b.input64)
        return cay_fail_why(err, CAY_EINVAL, "field_invalid",
                            "input and input_base64 exclude each other");
    const char *in = CAY_OR(b.input, b.input64);
    size_t len;
    if (b.input)
        len = strlen(b.input);
    else
        len = b.input_len;
    CAY_TRY(cay_sandbox_run(sb, &r->call, &b.s, in, len, CAY_OR(b.max_output, OUTPUT_DEFAULT), &res,
                            err));
    int rc = cay__reply_shape(r, 200, &cay__result_shape, &res);
    cay_result_clear(&res);
    return rc;
}

typedef struct looker {
    cay__items list;
    bool ended;
    const char *id; /* one process: its id, or its pid when it has none */
    int pid;
    bool found;
} looker;

static int on_listed(const cay_proc_info *i, void *arg)
{
    looker *l = arg;
    told t = describe_process(i);
    if (i->state == 'X' && !l->ended)
        return 0;
    return cay__items_add(&l->list, &t);
}

static const cay__query list_query[] = {
    { "ended", "boolean", "those that ended and are kept, too" }, { NULL }
};
const cay__doc cay__doc_process_list = {
    "listProcesses", "processes", "what runs in it", .query = list_query,
    .answers = { { 200, &proc_shape, .list = true }, { 404 }, { 409 } }
};
int cay__on_process_list(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    looker l = { .ended = cay__req_flag(r, "ended") };
    CAY_TRY(cay__native_use(r, &sb, err));
    cay__items_begin(&l.list, r, &proc_shape);
    int rc = cay_sandbox_procs(sb, &r->call, on_listed, &l, err);
    if (rc < 0 && rc != CAY_ETOOBIG) {
        cay__items_drop(&l.list);
        return rc;
    }
    return cay__items_reply(&l.list, 200, err);
}

static int on_list_process(const cay_proc_info *i, void *arg)
{
    looker *l = arg;
    if (*l->id ? strcmp(i->id, l->id) : i->pid != l->pid)
        return 0;
    told t = describe_process(i);
    l->found = true;
    cay__shape_put(&l->list.b, &proc_shape, &t);
    return 1;
}

const cay__doc cay__doc_process_get = { "getProcess", "processes",
                                        "one of them, by id, pid inside or tag",
                                        .answers = { { 200, &proc_shape }, { 404 } } };
int cay__on_process_get(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_proc) p = NULL;
    cay_sandbox *sb;
    CAY_TRY(cay__native_use(r, &sb, err));
    CAY_TRY(cay__native_proc(r, &p, err));
    looker l = { .list.b = CAY__BUF(1 << 20), .id = cay_proc_id(p), .pid = cay_proc_pid(p) };
    int rc = cay_sandbox_procs(sb, &r->call, on_list_process, &l, err);
    if (rc >= 0) {
        if (l.found)
            rc = cay__reply(r, 200, "application/json", l.list.b.data, l.list.b.len);
        else
            rc = cay_fail_why(err, CAY_ENOENT, "process_not_found",
                              "process %.60s is no longer kept", r->param[1]);
    }
    cay__buf_clear(&l.list.b);
    return rc;
}
