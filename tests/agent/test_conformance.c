/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_conformance PEER: cases of the runner that want a provider which fails, many processes, or
 * somebody who collects traces. Numbers are those of the conformance cases.
 */
#include "play.h"
#include "../support/support.h"
#include <agent/capability/commands.h>
#include <agent/run.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>

static play p;
static cay_model *model;
static cay_client *client, *faulty_svc;
static char *home, *faulty_home, *peer_home;
static const char *peer;
static int peer_stop = -1, port;
static pid_t peer_pid;

/* a provider that fails when
 * told to */

static bool no_sessions, no_end;

static int spawn_faulty(void *box, const cay_call *call, const cay_spawn *spec, void **proc,
                        cay_err *err)
{
    cay_spawn own = *spec;
    for (const cay_pair *l = spec->labels; no_sessions && l && l->key; l++)
        if (!strcmp(l->key, "cay.session"))
            return cay_fail_why(err, CAY_EBUSY, "transport", "the line is down");
    const char *echo[] = { "echo",
                           spec->argv && spec->argv[0] && spec->argv[1] ? spec->argv[2] : "",
                           NULL };
    if (spec->argv && !strcmp(spec->argv[0], "sh"))
        own.argv = echo;
    return cay__memory.spawn(box, call, &own, proc, err);
}

static int destroy_faulty(void *box, const cay_call *call, cay_err *err)
{
    return no_end ? cay_fail_why(err, CAY_EUPSTREAM, "transport", "it does not go")
                  : cay__memory.destroy(box, call, err);
}

static int endpoints_faulty(void *box, const cay_call *call,
                            int (*fn)(const cay_endpoint *e, void *arg), void *arg, cay_err *err);
static cay_provider_ops faulty;
static const cay_provider_ops *const providers[] = { &faulty, NULL };

static bool has_port(void *arg)
{
    char path[300], text[16] = "";
    (void)arg;
    snprintf(path, sizeof path, "%s/port", peer_home);
    if (cay__fd_read_file(AT_FDCWD, path, text, sizeof text) > 0)
        port = atoi(text);
    return port > 0;
}

static int start_peer(void)
{
    int pipe_fd[2];
    peer_home = support_home();
    char *argv[] = { (char *)peer, peer_home, NULL };
    posix_spawn_file_actions_t fa;
    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, pipe_fd[0], 0);
    assert_int_equal(posix_spawn(&peer_pid, peer, &fa, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&fa);
    close(pipe_fd[0]);
    peer_stop = pipe_fd[1];
    return support_until(has_port, NULL, 20000) ? 0 : -1;
}

static int open_all(void **state)
{
    cay_err err = CAY_ERR_INIT;
    (void)state;
    home = support_home();
    faulty_home = support_home();
    faulty = cay__memory;
    faulty.name = "faulty";
    faulty.spawn = spawn_faulty;
    faulty.destroy = destroy_faulty;
    faulty.endpoints = endpoints_faulty;
    cay_open o = {
        .size = sizeof o, .home = home, .provider = "local", .libexec = support_libexec()
    };
    cay_open f = { .size = sizeof f,
                   .home = faulty_home,
                   .provider = "faulty",
                   .libexec = support_libexec(),
                   .extra = providers };
    if (cay_client_open(&o, &client, &err) < 0 || cay_client_open(&f, &faulty_svc, &err) < 0)
        fail_msg("%s", err.msg);
    return start_peer();
}

static int close_all(void **state)
{
    (void)state;
    close(peer_stop);
    waitpid(peer_pid, NULL, 0);
    cay_client_close(client);
    cay_client_close(faulty_svc);
    support_home_remove(home);
    support_home_remove(faulty_home);
    support_home_remove(peer_home);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    no_sessions = no_end = false;
    model = play_model(&p, "gpt-5.5");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cay_model_free(model);
    play_clear(&p);
    return 0;
}

static cay_run_result *run_on(cay_client *on, cay_agent *a, cay_run_config conf)
{
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    conf.size = sizeof conf;
    conf.model = model;
    conf.service = on;
    conf.max_turns = 40;
    if (cay_agent_run(a, NULL, "go", &conf, &r, &err) < 0)
        fail_msg("%s (%s)", err.msg, err.reason);
    return r;
}
#define RUN(on, a, ...) run_on(on, a, (cay_run_config){ __VA_ARGS__ })
#define EXEC(id, args)  CALL(id, "exec_command", args)

static size_t times(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *s = text; s && (s = strstr(s, part)); s += strlen(part))
        n++;
    return n;
}

static const json_t *data_of(const json_t *span)
{
    return json_object_get(json_object_get(span, "span_data"), "data");
}

/* The nth of that name. */
static const json_t *span_of(const json_t *trace, const char *name, size_t nth)
{
    size_t i;
    json_t *s;
    json_array_foreach(json_object_get(trace, "spans"), i, s)
        if (!strcmp(cay__json_str(json_object_get(s, "span_data"), "name", ""), name) && !nth--)
            return s;
    fail_msg("there is no span %s", name);
    return NULL;
}

static const char *span_name(const json_t *trace, const char *id)
{
    size_t i;
    json_t *s;
    json_array_foreach(json_object_get(trace, "spans"), i, s)
        if (!strcmp(cay__json_str(s, "id", ""), id))
            return cay__json_str(json_object_get(s, "span_data"), "name", "");
    return "";
}

/* 58 */
static void the_one_that_ended_makes_room(void **state)
{
    (void)state;
    cay_sandbox *sb = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_create c = { .size = sizeof c };
    assert_int_equal(cay_client_create(client, NULL, &c, &sb, &err), 0);
    cay__cmds *t = cay__alloc(sizeof *t);
    t->sb = sb;
    pthread_mutex_init(&t->lock, NULL);
    int ids[CAY__SESSIONS_MAX + 1];
    for (size_t i = 0; i <= CAY__SESSIONS_MAX; i++) {
        const char *argv[] = { "sleep", i == 5 ? "0" : "1000", NULL };
        cay_spawn spec = { .size = sizeof spec, .argv = argv };
        cay__cmd *s = NULL;
        if (i ==
            CAY__SESSIONS_MAX) { /* all places are taken; the sixth has ended, and nobody looked */
            cay__cmd *sixth = NULL;
            for (size_t k = 0; k < CAY__SESSIONS_MAX; k++)
                sixth = t->v[k].id == ids[5] ? &t->v[k] : sixth;
            struct pollfd ended = { .fd = cay_proc_exit_fd(sixth->p, &err), .events = POLLIN };
            assert_int_equal(poll(&ended, 1, 20000), 1);
        }
        if (cay__cmd_start(t, NULL, &spec, &s, &err) < 0)
            fail_msg("%zu: %s", i, err.msg);
        ids[i] = s->id;
        s->busy = false;
        cay__printed warned = CAY__PRINTED;
        CAY_AUTOBUF text = CAY__BUF(4096);
        cay__cmds_warn(t, &warned);
        cay__printed_text(&warned, &text);
        if (i + 1 < 60)
            assert_int_equal(text.len, 0);
        else
            has(text.data, i + 1 == 60 ? "(60 commands are open" : "commands are open");
        cay__buf_clear(&warned.b);
    }
    size_t there = 0;
    for (size_t i = 0; i < CAY__SESSIONS_MAX; i++)
        for (size_t k = 0; k <= CAY__SESSIONS_MAX; k++)
            if (t->v[i].id == ids[k]) {
                assert_int_not_equal(k, 5);
                there++;
            }
    assert_int_equal(there, CAY__SESSIONS_MAX);
    cay__cmds_drop(t);
    pthread_mutex_destroy(&t->lock);
    free(t);
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
}

/* 62 */
static void without_a_session_a_command_runs_once(void **state)
{
    (void)state;
    cay_capability *caps[] = { cay_cap_shell(NULL) };
    cay_agent a = {
        .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 1
    };
    no_sessions = true;
    p.say[0] = EXEC("c1", "{\\\"cmd\\\":\\\"hello\\\",\\\"login\\\":false}");
    p.say[1] = EXEC("c2", "{\\\"cmd\\\":\\\"hello\\\",\\\"login\\\":false,\\\"tty\\\":true}");
    p.say[2] = TEXT("done");
    cay_run_result_free(RUN(faulty_svc, &a));
    has(p.input[1], "Process exited with code 0");
    has(p.input[1], "no session could be opened: the line is down");
    has(p.input[1], "hello");
    const char *second = strstr(p.input[2], "\"c2\"");
    has(second, "the line is down");
    has(second, "code 1");
    has_not(second, "it ran once");
    cay_cap_free(caps[0]);
}

static bool gone(void *arg)
{
    return kill(*(pid_t *)arg, 0) < 0 && errno == ESRCH;
}

/* 63 */
static void what_it_started_ends_with_it(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true };
    p.say[0] = EXEC("c1", "{\\\"cmd\\\":\\\"echo $$ > one; exec sleep "
                          "1000\\\",\\\"tty\\\":true,\\\"yield_time_ms\\\":250}");
    p.say[1] = EXEC("c2", "{\\\"cmd\\\":\\\"trap '' TERM HUP; echo $$ > two; sleep 1000; sleep "
                          "1000\\\",\\\"yield_time_ms\\\":250}");
    p.say[2] = EXEC("c3", "{\\\"cmd\\\":\\\"until [ -s one ] && [ -s two ]; do sleep 0.02; done; "
                          "echo pids $(cat one two)\\\",\\\"yield_time_ms\\\":20000}");
    p.say[3] = TEXT("done");
    cay_run_result_free(RUN(client, &a));
    const char *said = strstr(p.input[3], "000apids ");
    pid_t pids[2] = { 0, 0 };
    if (!said)
        fail_msg("%s", p.input[3]);
    assert_int_equal(sscanf(said + 9, "%d %d", &pids[0], &pids[1]), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(pids[i] > 1);
        assert_true(support_until(gone, &pids[i], 20000));
    }
}

static void commands_run_beside_each_other(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true };
    /* Each waits for the other's file: one after another they would never end. */
#define MEET(mine, other)                                                                          \
    "{\\\"cmd\\\":\\\"touch " mine "; while [ ! -e " other                                         \
    " ]; do sleep 0.02; done; echo met " other "\\\",\\\"yield_time_ms\\\":20000}"
    p.say[0] = "[" CALL_ITEM("c1", "exec_command", MEET("one", "two")) "," CALL_ITEM(
        "c2", "exec_command", MEET("two", "one")) "]";
    p.say[1] = TEXT("done");
    cay_run_result *r = RUN(client, &a, .beside = 2, .trace = true);
    has(p.input[1], "met two");
    has(strstr(p.input[1], "met two"), "met one"); /* told in the order of the calls */
    CAY_AUTOJSON *t = json_loads(r->trace, 0, NULL);
    for (size_t i = 0; i < 2; i++) { /* each below its own call, and what it does in the sandbox
                                        below that, whatever the thread */
        const json_t *exec = span_of(t, "sandbox.exec", i);
        assert_string_equal(span_name(t, cay__json_str(exec, "parent_id", "")), "exec_command");
        assert_string_equal(
            span_name(t, cay__json_str(span_of(t, "process.wait", i), "parent_id", "")),
            "sandbox.exec");
    }
    assert_string_not_equal(cay__json_str(span_of(t, "sandbox.exec", 0), "parent_id", ""),
                            cay__json_str(span_of(t, "sandbox.exec", 1), "parent_id", ""));
    cay_run_result_free(r);
}

static char notes[512];
static const cay_agent *seen_agent;
static int agents_seen;
static int on_event(void *arg, const cay_run_event *ev)
{
    (void)arg;
    if (ev->kind == CAY_RUN_NOTE)
        snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s %s;", ev->name, ev->json);
    if (ev->kind == CAY_RUN_ITEM) {
        assert_ptr_equal(ev->agent, seen_agent);
        agents_seen++;
    }
    return 0;
}

/* 94 */
static void a_cleanup_that_fails_changes_no_result(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true };
    p.say[0] = TEXT("done");
    notes[0] = 0;
    no_end = true;
    seen_agent = &a;
    cay_run_result *r = RUN(faulty_svc, &a, .on_event = on_event);
    no_end = false;
    assert_string_equal(r->output, "done");
    assert_null(r->sandbox);
    assert_null(r->state);
    has(notes, "cleanup \"");
    has(notes, "it does not go");
    cay_run_result_free(r);
}

static void same_agent(void *arg, cay_run *run)
{
    assert_ptr_equal(cay_run_agent(run), arg);
    agents_seen++;
}
static void same_agent_tool(void *arg, cay_run *run, const cay_tool_call *c)
{
    (void)c;
    same_agent(arg, run);
}
static void same_agent_answer(void *arg, cay_run *run, const char *s)
{
    (void)s;
    same_agent(arg, run);
}
static int same_agent_guard(void *arg, cay_run *run, const char *text, char **info, cay_err *err)
{
    (void)text;
    (void)info;
    (void)err;
    same_agent(arg, run);
    return 0;
}

/* 96 */
static void everybody_sees_the_callers_agent(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true };
    const cay_hooks hooks = { .arg = &a,
                              .agent_start = same_agent,
                              .agent_end = same_agent_answer,
                              .tool_start = same_agent_tool };
    const cay_guard guard = { .name = "g", .check = same_agent_guard, .arg = &a };
    a.hooks = &hooks;
    a.output_guards = a.input_guards = &guard;
    a.noutput_guards = a.ninput_guards = 1;
    p.say[0] = EXEC("c1", "{\\\"cmd\\\":\\\"true\\\"}");
    p.say[1] = TEXT("done");
    agents_seen = 0;
    seen_agent = &a;
    cay_run_result_free(RUN(client, &a, .on_event = on_event));
    assert_int_equal(agents_seen, 3 /* hooks */ + 2 /* guards */ + 3 /* call, output, message */);
}

#define EXTRACT(slug, summary, raw)                                                                \
    TEXT("{\\\"rollout_slug\\\":\\\"" slug "\\\",\\\"rollout_summary\\\":\\\"" summary             \
         "\\\",\\\"raw_memory\\\":\\\"" raw "\\\"}")
#define CONSOLIDATE                                                                                \
    CUSTOM("m1", "apply_patch",                                                                    \
           "*** Begin Patch\\n*** Add File: memories/memory_summary.md\\n+likes tabs\\n*** End "   \
           "Patch")

/* A run that learns, and one that knows; in sandboxes of their own. */
static void learn_and_know(cay_memory_options o)
{
    cay_err err = CAY_ERR_INIT;
    cay_capability *caps[3] = { NULL, cay_cap_shell(NULL), cay_cap_filesystem(NULL) };
    o.size = sizeof o;
    o.read = o.generate = true;
    if (cay_cap_memory(&o, &caps[0], &err) < 0)
        fail_msg("%s", err.msg);
    cay_agent a = {
        .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 3
    };
    play_clear(&p);
    p.say[0] = TEXT("first");
    p.say[1] = EXTRACT("tabs", "They like tabs.", "Use tabs.");
    p.say[2] = CONSOLIDATE;
    p.say[3] = TEXT("consolidated");
    p.say[4] = TEXT("second");
    p.say[5] = EXTRACT("", "", "");
    cay_run_result *r = RUN(client, &a);
    assert_int_equal(r->usage.requests, 1); /* its own, not what memories took */
    assert_int_equal(cay_memory_usage(caps[0]).requests, 3);
    cay_run_result_free(r);
    cay_run_result_free(RUN(client, &a));
    assert_int_equal(p.at, 6);
    has(p.instructions[4], "likes tabs");
    for (size_t i = 0; i < 3; i++)
        cay_cap_free(caps[i]);
}

/* Files in a list: what a caller might do. */
typedef struct kept {
    json_t *files;
    int closed;
} kept;

static int kept_list(void *self, int (*fn)(const char *name, void *arg), void *arg, cay_err *err)
{
    const char *name;
    json_t *v;
    (void)err;
    CAY_TRY(fn("memories/../../escape", arg)); /* not taken */
    CAY_TRY(fn("elsewhere/x", arg));
    json_object_foreach(((kept *)self)->files, name, v) {
        CAY_TRY(fn(name, arg));
    }
    return 0;
}

static int kept_get(void *self, const char *name, char **data, size_t *len, cay_err *err)
{
    const char *text = cay__json_str(((kept *)self)->files, name, NULL);
    if (!text)
        return cay_fail(err, CAY_ENOENT, "asked for %s", name);
    *data = cay__strdup(text);
    *len = strlen(text);
    return 0;
}

static int kept_put(void *self, const char *name, const void *data, size_t len, cay_err *err)
{
    (void)err;
    assert_int_equal(json_object_set_new(((kept *)self)->files, name, json_stringn(data, len)), 0);
    return 0;
}

static void kept_close(void *self)
{
    ((kept *)self)->closed++;
}

static void memories_are_kept_where_the_caller_wants(void **state)
{
    (void)state;
    char path[300];
    snprintf(path, sizeof path, "%s/memories.db", home);
    learn_and_know((cay_memory_options){ .database = path });
    snprintf(path, sizeof path, "%s/far.json",
             home); /* one archive in a store of snapshots: a file, and a server that takes PUT and
                       GET */
    learn_and_know((cay_memory_options){ .remote = path, .service = client });
    char url[120], text[65536] = "";
    assert_true(cay__fd_read_file(AT_FDCWD, path, text, sizeof text - 1) > 0);
    has(text, "{\"version\":1,\"directories\":[\"memories\",\"sessions\"],\"files\":[{");
    has(text, "\"memories/memory_summary.md\",\"data\":\"bGlrZXMgdGFicw==\"");
    snprintf(url, sizeof url, "http://127.0.0.1:%d/kept/memories", port);
    setenv("STORE_KEY", "Bearer st-1", 1);
    learn_and_know(
        (cay_memory_options){ .remote = url, .service = client, .remote_auth = "env:STORE_KEY" });
    cay_capability *far = NULL;
    cay_memory_options alone = { .size = sizeof alone, .read = true, .remote = url };
    assert_int_equal(cay_cap_memory(&alone, &far, NULL), CAY_EINVAL); /* who would reach it? */
    snprintf(path, sizeof path, "%s/memories.db", home);
    static const cay_memory_store store = { .size = sizeof store,
                                            .list = kept_list,
                                            .get = kept_get,
                                            .put = kept_put,
                                            .close = kept_close };
    kept k = { .files = json_object() };
    learn_and_know((cay_memory_options){ .keeper = &store, .keeper_self = &k });
    assert_string_equal(cay__json_str(k.files, "memories/memory_summary.md", ""), "likes tabs");
    assert_int_equal(k.closed, 1);
    cay_memory_options both = {
        .size = sizeof both, .read = true, .keeper = &store, .keeper_self = &k, .database = path
    };
    cay_capability *c = NULL;
    assert_int_equal(cay_cap_memory(&both, &c, NULL), CAY_EINVAL);
    assert_int_equal(k.closed, 2);
    json_decref(k.files);
}

/* What others keep in the archive, and no sandbox of ours has a copy of, outlives a store that says
 * "nothing there" when a run ends. */
static void a_store_that_forgets_once_loses_no_memories(void **state)
{
    (void)state;
    static const char before[] = "{\"version\":1,\"directories\":[],\"files\":[{\"path\":\"notes/"
                                 "kept.md\",\"data\":\"b2xk\"}]}";
    char url[120];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/kept/absent-2",
             port); /* the first answer is for the run's begin */
    setenv("STORE_KEY", "Bearer st-1", 1);
    cay_transfer at = { .size = sizeof at, .url = url, .auth = "env:STORE_KEY" };
    CAY_AUTOFREE char *after = NULL;
    cay_err err = CAY_ERR_INIT;
    size_t len = 0;
    if (cay_store_put(client, NULL, &at, before, strlen(before), &err) < 0)
        fail_msg("%s", err.msg);
    learn_and_know(
        (cay_memory_options){ .remote = url, .service = client, .remote_auth = "env:STORE_KEY" });
    if (cay_store_get(client, NULL, &at, 1 << 20, &after, &len, &err) < 0)
        fail_msg("%s", err.msg);
    has(after, "{\"path\":\"notes/kept.md\",\"data\":\"b2xk\"}");
    has(after, "\"memories/memory_summary.md\",\"data\":\"bGlrZXMgdGFicw==\"");
}

/* How many are in it, and how many were at most. */
typedef struct slow {
    kept k;
    atomic_int inside, most, begun;
} slow;

static void enter(slow *s)
{
    int n = ++s->inside;
    s->begun++;
    if (n > s->most)
        s->most = n;
    usleep(2000);
}

static int slow_list(void *self, int (*fn)(const char *name, void *arg), void *arg, cay_err *err)
{
    slow *s = self;
    enter(s);
    int rc = kept_list(&s->k, fn, arg, err);
    s->inside--;
    return rc;
}

static int slow_get(void *self, const char *name, char **data, size_t *len, cay_err *err)
{
    return kept_get(&((slow *)self)->k, name, data, len, err);
}

static int slow_put(void *self, const char *name, const void *data, size_t len, cay_err *err)
{
    slow *s = self;
    enter(s);
    int rc = kept_put(&s->k, name, data, len, err);
    s->inside--;
    return rc;
}

static int slow_commit(void *self, cay_err *err)
{
    slow *s = self;
    (void)err;
    enter(s);
    usleep(20000);
    s->inside--;
    return 0;
}

/* While memories of one run are kept in the background the next one begins, and it waits for them:
 * no store is read by one and written by another. */
static void a_store_sees_one_run_at_a_time(void **state)
{
    (void)state;
    static const cay_memory_store store = { .size = sizeof store,
                                            .list = slow_list,
                                            .get = slow_get,
                                            .put = slow_put,
                                            .commit = slow_commit };
    slow s = { .k = { .files = json_object() } };
    play quiet = { .at = 0 };
    for (size_t i = 0; i < 20; i++)
        quiet.say[i] = EXTRACT("", "", "");
    cay_model *phases = play_model(&quiet, "phases");
    cay_memory_options o = { .size = sizeof o,
                             .generate = true,
                             .background = true,
                             .keeper = &store,
                             .keeper_self = &s,
                             .phase_one = phases,
                             .phase_two = phases };
    cay_capability *caps[2] = { NULL, cay_cap_shell(NULL) };
    cay_err err = CAY_ERR_INIT;
    if (cay_cap_memory(&o, &caps[0], &err) < 0)
        fail_msg("%s", err.msg);
    cay_agent a = {
        .size = sizeof a, .name = "Slow", .sandbox = true, .capabilities = caps, .ncapabilities = 2
    };
    for (size_t i = 0; i < 4; i++) {
        p.say[p.at] = TEXT("done");
        cay_run_result_free(RUN(client, &a));
    }
    if (cay_memory_wait(caps[0], NULL, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(s.begun >= 12); /* four beginnings, four records and four ends */
    assert_int_equal(s.most, 1);
    cay_cap_free(caps[0]);
    cay_cap_free(caps[1]);
    cay_model_free(phases);
    play_clear(&quiet);
    json_decref(s.k.files);
}

static void memories_have_a_budget(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    cay_memory_options o = { .size = sizeof o,
                             .generate = true,
                             .budget = 5 }; /* the first request takes eleven */
    cay_capability *caps[2] = { NULL, cay_cap_shell(NULL) };
    cay_sandbox *sb = NULL;
    cay_create c = { .size = sizeof c };
    unsigned made = 9;
    assert_int_equal(cay_cap_memory(&o, &caps[0], &err), 0);
    assert_int_equal(cay_client_create(client, NULL, &c, &sb, &err), 0);
    cay_agent a = {
        .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 2
    };
    p.say[0] = TEXT("first");
    p.say[1] = EXTRACT("tabs", "They like tabs.", "Use tabs.");
    cay_run_result_free(RUN(client, &a, .sandbox = sb));
    assert_int_equal(cay_memory_flush(caps[0], sb, model, NULL, &made, &err), CAY_ETOOBIG);
    assert_string_equal(err.reason, "memory_budget");
    assert_int_equal(made, 1);
    assert_int_equal(p.at, 2); /* nobody was asked to consolidate */
    cay_cap_free(caps[0]);
    cay_cap_free(caps[1]);
    cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
}

/* 11.4: agents that work in one sandbox may have a memory each. A run of both is recorded once;
 * directories that are shared by halves, or made in two ways, are refused. */
static void memories_of_one_sandbox_agree(void **state)
{
    static const struct {
        cay_memory_options one, two;
        size_t lines;
        const char *why;
    } cases[] = {
        { { .generate = true }, { .generate = true }, 1, NULL },
        { { .generate = true },
          { .generate = true, .memories_dir = "m2", .sessions_dir = "s2" },
          1,
          NULL },
        { { .generate = true }, { .generate = true, .memories_dir = "m2" }, 0, "share sessions/" },
        { { .generate = true }, { .generate = true, .max_raw = 7 }, 0, "different options" },
    };
    (void)state;
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay_memory_options o[2] = { cases[i].one, cases[i].two };
        cay_capability *caps[2] = { NULL, NULL };
        cay_err err = CAY_ERR_INIT;
        cay_create c = { .size = sizeof c };
        cay_sandbox *sb = NULL;
        cay_run_result *r = NULL;
        for (size_t k = 0; k < 2; k++) {
            o[k].size = sizeof o[k];
            assert_int_equal(cay_cap_memory(&o[k], &caps[k], &err), 0);
        }
        assert_int_equal(cay_client_create(client, NULL, &c, &sb, &err), 0);
        cay_agent second = { .size = sizeof second,
                             .name = "Second",
                             .sandbox = true,
                             .capabilities = &caps[1],
                             .ncapabilities = 1 };
        const cay_handoff to = { .agent = &second };
        cay_agent first = { .size = sizeof first,
                            .name = "First",
                            .sandbox = true,
                            .capabilities = &caps[0],
                            .ncapabilities = 1,
                            .handoffs = &to,
                            .nhandoffs = 1 };
        play_clear(&p);
        p.say[0] = CALL("c1", "transfer_to_second", "{}");
        p.say[1] = TEXT("done");
        cay_run_config conf = {
            .size = sizeof conf, .model = model, .sandbox = sb, .rollout_id = "both"
        };
        int rc = cay_agent_run(&first, NULL, "go", &conf, &r, &err);
        if (cases[i].why) {
            assert_int_equal(rc, CAY_EINVAL);
            assert_string_equal(err.reason, "memory_config_invalid");
            has(err.msg, cases[i].why);
        } else {
            CAY_AUTOFREE char *text = NULL;
            size_t len = 0;
            assert_int_equal(rc, 0);
            assert_int_equal(
                cay_file_get(sb, NULL, "sessions/both.jsonl", 1 << 20, &text, &len, &err), 0);
            assert_int_equal(times(text, "\n"), cases[i].lines);
        }
        cay_run_result_free(r);
        for (size_t k = 0; k < 2; k++)
            cay_cap_free(caps[k]);
        cay_sandbox_remove(sb, NULL, NULL);
        cay_sandbox_unref(sb);
    }
}

/* 11.1 */
static void phases_have_settings_of_their_own(void **state)
{
    const cay_model_settings one = { .size = sizeof one, .max_output_tokens = 77 },
                             two = { .size = sizeof two, .max_output_tokens = 88 };
    cay_memory_options o = { .size = sizeof o,
                             .generate = true,
                             .phase_one_settings = &one,
                             .phase_two_settings = &two,
                             .phase_two_turns = 1 };
    cay_capability *caps[2] = { NULL, cay_cap_shell(NULL) };
    cay_sandbox *sb = NULL;
    cay_create c = { .size = sizeof c };
    cay_err err = CAY_ERR_INIT;
    (void)state;
    assert_int_equal(cay_cap_memory(&o, &caps[0], &err), 0);
    assert_int_equal(cay_client_create(client, NULL, &c, &sb, &err), 0);
    cay_agent a = {
        .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 2
    };
    p.say[0] = TEXT("first");
    p.say[1] = EXTRACT("tabs", "They like tabs.", "Use tabs.");
    p.say[2] = CONSOLIDATE;
    cay_run_result_free(RUN(client, &a, .sandbox = sb));
    assert_int_equal(cay_memory_flush(caps[0], sb, model, NULL, NULL, &err),
                     CAY_ETOOBIG); /* it would have gone on */
    assert_string_equal(err.reason, "max_turns");
    assert_int_equal(p.at, 3);
    assert_int_equal(p.most[0], 0);
    assert_int_equal(p.most[1], 77);
    assert_int_equal(p.most[2], 88);
    cay_cap_free(caps[0]);
    cay_cap_free(caps[1]);
    cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
}

static char *spans;
static size_t batches;
static int keep_spans(void *self, const char *const *objects, size_t n, cay_err *err)
{
    (void)self;
    (void)err;
    batches++;
    for (size_t i = 0; i < n; i++) {
        char *more = NULL;
        assert_true(asprintf(&more, "%s%s\n", spans ? spans : "", objects[i]) > 0);
        free(spans);
        spans = more;
    }
    return 0;
}
static const cay_trace_sink keeper = { .size = sizeof keeper, .write = keep_spans };

/* 97 */
static void spans_tell_once_and_no_secrets(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true };
    p.say[0] = EXEC("c1", "{\\\"cmd\\\":\\\"echo tok; echo sk-live-1234567890; exit 3\\\"}");
    p.say[1] = "[" CALL_ITEM(
        "c2", "view_image",
        "{\\\"path\\\":\\\"none.png\\\"}") "," /* not there: a failure */
                                           "{\"type\":\"custom_tool_call\",\"call_id\":\"c3\","
                                           "\"name\":\"apply_patch\",\"input\":\"*** Begin "
                                           "Patch\\n*** Add File: new.txt\\n+x\\n*** End "
                                           "Patch\"}]"; /* nor is this, as it should be */
    p.say[2] = CALL("c4", "write_stdin", "{\\\"session_id\\\":4711}");
    p.say[3] = TEXT("done");
    cay_tracer *t = cay_tracer_new(&keeper, NULL);
    cay_run_result_free(RUN(client, &a, .tracer = t));
    cay_tracer_free(t);
    static const char *const once[] = { "sandbox.prepare_agent",   "sandbox.create_session",
                                        "sandbox.start",           "sandbox.stop",
                                        "sandbox.shutdown",        "sandbox.cleanup",
                                        "sandbox.cleanup_sessions" };
    for (size_t i = 0; i < CAY_LEN(once); i++) {
        char name[80];
        snprintf(name, sizeof name, "\"%s\"", once[i]);
        if (times(spans, name) != 1)
            fail_msg("%s: %zu times in %s", once[i], times(spans, name), spans);
    }
    has(spans, "\"process.start\""); /* what the tool did in the sandbox is below it */
    has(spans, "\"cay.sandbox\":\"c");
    has(spans, "\"name\":\"sandbox.exec\",\"data\":{\"sandbox.session.id\":\"c");
    has(spans, "\"sandbox.operation\":\"exec\",\"sandbox.backend\":\"local\",\"exit_code\":3,"
               "\"process.exit.code\":3");
    assert_int_equal(times(spans, "\"exit_code\""),
                     2); /* of the command and of waiting for it, and of nothing else */
    has(spans, "\"name\":\"sandbox.create_session\",\"data\":{\"agent_name\":\"A\",\"backend_id\":"
               "\"local\"}");
    static const char *const lives[] = { "start", "stop", "shutdown" };
    for (size_t i = 0; i < CAY_LEN(lives); i++) {
        char name[160], word[160];
        snprintf(name, sizeof name, "\"name\":\"sandbox.%s\",\"data\":{\"sandbox.session.id\":\"c",
                 lives[i]);
        snprintf(word, sizeof word,
                 "\"sandbox.operation\":\"%s\",\"sandbox.backend\":\"local\",\"agent_name\":\"A\","
                 "\"backend_id\":\"local\"}",
                 lives[i]);
        has(spans, name);
        has(spans, word);
    }
    has(spans, "\"name\":\"sandbox.running\"");
    has(spans, "\"alive\":true");
    has(spans, "\"name\":\"sandbox.view_image\"");
    has(spans, "\"name\":\"sandbox.write\"");
    const char *typed = strstr(spans, "\"name\":\"sandbox.write_stdin\"");
    has(typed, "\"session_id\":4711,");
    has(typed, "\"error_type\":\"PtySessionNotFoundError\",\"error_code\":\"pty_session_not_"
               "found\",\"error_retryable\":false");
    has_not(spans, "none.png");
    has_not(spans, "new.txt");
    has(spans, "\"name\":\"sandbox.cleanup_sessions\",\"data\":{\"session_count\":1}");
    has(spans,
        "\"name\":\"sandbox.cleanup\",\"data\":{\"agent_name\":\"A\",\"backend_id\":\"local\"}");
    has(spans, "\"error_type\":\"WorkspaceReadNotFoundError\",\"error_code\":\"workspace_read_not_"
               "found\",\"error_retryable\":false");
    has(spans, "\"file.stat\"");
    for (const char *at = spans; (at = strstr(at, "\"name\":\"file.stat\"")); at++)
        if (strncmp(strstr(at, "\"error\":"), "\"error\":null", 12))
            fail_msg("looking for what is not there is no failure: %.300s", at);
    has_not(spans, "echo tok");
    has_not(spans, "sk-live");
    has(p.input[1], "sk-live"); /* the model does get what a command printed */
    free(spans);
    spans = NULL;
    batches = 0;
    play_clear(&p);
    p.say[0] = TEXT("done");
    cay_run_result_free(RUN(client, &a));
    assert_int_equal(batches, 0);
}

/* Two ports that somebody can reach, here and elsewhere. */
static int endpoints_faulty(void *box, const cay_call *call,
                            int (*fn)(const cay_endpoint *e, void *arg), void *arg, cay_err *err)
{
    static const cay_endpoint list[] = {
        { .size = sizeof *list, .port = 8000, .host = "127.0.0.1", .host_port = 18000 },
        { .size = sizeof *list, .port = 9000, .host = "203.0.113.7", .host_port = 19000 },
        { .size = sizeof *list, .port = 9100, .host = "127.0.0.1" }
    };
    (void)box, (void)call, (void)err;
    for (size_t i = 0; i < CAY_LEN(list); i++)
        fn(&list[i], arg);
    return 0;
}

static int look_for_ports(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    static const uint16_t ports[] = { 8000, 9000, 9100, 1 };
    cay_sandbox *sb = cay_run_sandbox(call->run);
    cay_endpoint e = { .size = sizeof e };
    (void)arg, (void)err;
    for (size_t i = 0; i < CAY_LEN(ports); i++) {
        cay_err own = CAY_ERR_INIT;
        cay_port_endpoint(sb, cay_run_call(call->run), ports[i], &e, &own);
        if (i == 3)
            assert_string_equal(
                own.detail,
                "{\"port\":1,\"reason\":\"not_configured\",\"exposed_ports\":[8000,9000,9100]}");
    }
    cay_output_text(out, "looked", 6);
    return 0;
}

static char *audited;
static int keep_audit(void *self, const char *json, cay_err *err)
{
    char *more = NULL;
    (void)self, (void)err;
    assert_true(asprintf(&more, "%s%s\n", audited ? audited : "", json) > 0);
    free(audited);
    audited = more;
    return 0;
}

/* 14.1, 14.2: where a port is reached. The address of another machine is in no trace. */
static void ports_are_told(void **state)
{
    static const cay_audit_sink_ops sink = { .size = sizeof sink, .write = keep_audit };
    static const cay_tool looker = { .size = sizeof looker,
                                     .name = "look",
                                     .call = look_for_ports };
    static const cay_tool *const tools[] = { &looker };
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true, .tools = tools, .ntools = 1 };
    cay_audit_sink *l = cay_audit_sink_new(&sink, NULL, true);
    (void)state;
    p.say[0] = CALL("c1", "look", "{}");
    p.say[1] = TEXT("done");
    cay_run_result *r = RUN(faulty_svc, &a, .trace = true, .ledger = l);
    CAY_AUTOJSON *t = json_loads(r->trace, 0, NULL);
    const json_t *here = data_of(span_of(t, "sandbox.resolve_exposed_port", 0)),
                 *away = data_of(span_of(t, "sandbox.resolve_exposed_port", 1));
    assert_string_equal(cay__json_str(here, "sandbox.operation", ""), "resolve_exposed_port");
    assert_int_equal(cay__json_int(here, "server.port", 0), 18000);
    assert_string_equal(cay__json_str(here, "server.address", ""), "127.0.0.1");
    assert_int_equal(cay__json_int(away, "server.port", 0), 19000);
    assert_null(json_object_get(away, "server.address"));
    const json_t *lost = data_of(span_of(t, "sandbox.resolve_exposed_port", 2)),
                 *never = data_of(span_of(t, "sandbox.resolve_exposed_port", 3));
    assert_string_equal(cay__json_str(lost, "error_code", ""), "exposed_port_unavailable");
    assert_true(json_is_true(
        json_object_get(lost, "error_retryable"))); /* the provider may have it later */
    assert_true(json_is_false(json_object_get(never, "error_retryable")));
    assert_int_equal(cay__json_int(never, "server.port", 0), 1);
    has_not(r->trace, "203.0.113.7");
    has(audited, "\"op\":\"port.endpoint\",\"call_id\":\"c1\",\"span_id\":\"span_");
    has(audited, "\"port\":8000,\"server.port\":18000,\"server.address\":\"127.0.0.1\"");
    has(audited, "\"port\":1,\"reason\":\"exposed_port_unavailable\",\"retryable\":false");
    has_not(audited, "looked");
    cay_run_result_free(r);
    cay_audit_sink_free(l);
    free(audited);
    audited = NULL;
}

static int started;
static void count_starts(void *arg, const cay_op *op)
{
    (void)arg;
    started += !strcmp(op->name, "process.start");
}

/* A tool that calls a tool, as code does that was given them. */
static int call_another(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    CAY_AUTOJSON *answer = NULL;
    bool ran = false;
    (void)arg;
    CAY_TRY(cay__call_inside(call->run, "exec_command", "in1", "{\"cmd\":\"true\"}", &ran, &answer,
                             err));
    assert_true(ran);
    cay_output_text(out, "did", 3);
    return 0;
}

/* Calls inside calls: each operation is told once, to the innermost span, the audit, and whoever
 * the caller wanted told. */
static void what_is_done_inside_is_told_once(void **state)
{
    static const cay_audit_sink_ops sink = { .size = sizeof sink, .write = keep_audit };
    static const cay_tool calls = { .size = sizeof calls, .name = "another", .call = call_another };
    static const cay_tool *const inner_tools[] = { &calls };
    cay_agent inner = {
        .size = sizeof inner, .name = "Inner", .sandbox = true, .tools = inner_tools, .ntools = 1
    };
    cay_tool *as_tool = cay_agent_as_tool(&inner, "ask_inner", "asks");
    const cay_tool *const tools[] = { as_tool };
    cay_agent outer = { .size = sizeof outer, .name = "Outer", .tools = tools, .ntools = 1 };
    cay_audit_sink *l = cay_audit_sink_new(&sink, NULL, true);
    const cay_call call = { .size = sizeof call, .on_op = count_starts };
    cay_run_config conf = {
        .size = sizeof conf, .model = model, .service = client, .trace = true, .ledger = l
    };
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    (void)state;
    started = 0;
    p.say[0] = CALL("c1", "ask_inner", "{\\\"input\\\":\\\"go\\\"}");
    p.say[1] = CALL("c2", "another", "{}");
    p.say[2] = TEXT("inner done");
    p.say[3] = TEXT("done");
    if (cay_agent_run(&outer, &call, "go", &conf, &r, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(started, 1);
    assert_int_equal(times(r->trace, "\"name\":\"process.start\""), 1);
    assert_int_equal(times(audited, "\"op\":\"process.start\""), 1);
    has(audited, "\"op\":\"process.start\",\"call_id\":\"in1\"");
    CAY_AUTOJSON *t = json_loads(r->trace, 0, NULL);
    assert_string_equal(span_name(t, cay__json_str(span_of(t, "exec_command", 0), "parent_id", "")),
                        "another");
    cay_run_result_free(r);
    cay_tool_free(as_tool);
    cay_audit_sink_free(l);
    free(audited);
    audited = NULL;
}

/* 14.1: what memory does, by the SDK's names. */
static void memory_is_told(void **state)
{
    char store[300];
    cay_err err = CAY_ERR_INIT;
    cay_capability *caps[3] = { NULL, cay_cap_shell(NULL), cay_cap_filesystem(NULL) };
    (void)state;
    snprintf(store, sizeof store, "%s/told", home);
    cay_memory_options o = { .size = sizeof o, .read = true, .generate = true, .store = store };
    if (cay_cap_memory(&o, &caps[0], &err) < 0)
        fail_msg("%s", err.msg);
    cay_agent a = {
        .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 3
    };
    p.say[0] = TEXT("first");
    p.say[1] = EXTRACT("tabs", "They like tabs.", "Use tabs.");
    p.say[2] = CONSOLIDATE;
    p.say[3] = TEXT("consolidated");
    cay_run_result *r = RUN(client, &a, .trace = true, .rollout_id = "roll-1");
    CAY_AUTOJSON *t = json_loads(r->trace, 0, NULL);
    assert_true(
        json_is_null(json_object_get(span_of(t, "sandbox.memory.read_summary", 0),
                                     "error"))); /* there is none yet, which is no failure */
    assert_string_equal(
        cay__json_str(data_of(span_of(t, "sandbox.memory.enqueue_rollout", 0)), "rollout_id", ""),
        "roll-1");
    assert_string_equal(
        span_name(t, cay__json_str(span_of(t, "sandbox.memory.append_jsonl", 0), "parent_id", "")),
        "sandbox.memory.enqueue_rollout");
    const json_t *flush = span_of(t, "sandbox.memory.flush", 0);
    assert_int_equal(cay__json_int(data_of(flush), "rollout_count", 0), 1);
    assert_string_equal(cay__json_str(data_of(flush), "sandbox.backend", ""), "local");
    assert_string_equal(
        span_name(t, cay__json_str(span_of(t, "sandbox.memory.read_file", 0), "parent_id", "")),
        "sandbox.memory.flush");
    assert_string_equal(
        span_name(t, cay__json_str(span_of(t, "sandbox.memory.write_file", 0), "parent_id", "")),
        "sandbox.memory.flush");
    has_not(r->trace, "tabs");
    has_not(r->trace, ".md");
    cay_run_result_free(r);
    for (size_t i = 0; i < CAY_LEN(caps); i++)
        cay_cap_free(caps[i]);
}

static json_t *sent_to(const char *path)
{
    char file[300];
    CAY_AUTOFREE char *text = cay__alloc(4 << 20);
    snprintf(file, sizeof file, "%s/seen", peer_home);
    ssize_t n = cay__fd_read_file(AT_FDCWD, file, text, 4 << 20);
    json_t *last = NULL;
    for (char *line = strtok(n > 0 ? text : NULL, "\n"); line; line = strtok(NULL, "\n")) {
        CAY_AUTOJSON *j = json_loads(line, 0, NULL);
        if (strcmp(cay__json_str(j, "path", ""), path))
            continue;
        json_decref(last);
        last = json_incref(j);
    }
    return last;
}

static void traced(const char *path, bool otlp, uint64_t lost)
{
    char url[120];
    cay_tracer *t = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_agent a = { .size = sizeof a, .name = "A" };
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", port, path);
    setenv("TRACE_KEY", "tr-12345678", 1);
    cay_tracer_http_spec spec = {
        .size = sizeof spec, .url = url, .otlp = otlp, .key = "env:TRACE_KEY"
    };
    assert_int_equal(cay_tracer_http(&spec, &t, &err), 0);
    play_clear(&p);
    p.say[0] = TEXT("what was said");
    cay_run_result *r = RUN(client, &a, .tracer = t, .workflow = "w1", .group_id = "g1");
    assert_string_equal(r->output, "what was said");
    assert_int_equal(cay_tracer_lost(t), lost);
    cay_run_result_free(r);
    cay_tracer_free(t);
}

static void spans_reach_a_collector(void **state)
{
    (void)state;
    traced("/sink/v1/traces", true, 0);
    CAY_AUTOJSON *o = sent_to("/sink/v1/traces");
    const json_t *body = json_object_get(o, "body"),
                 *rs = json_array_get(json_object_get(body, "resourceSpans"), 0);
    const json_t *list =
        json_object_get(json_array_get(json_object_get(rs, "scopeSpans"), 0), "spans");
    assert_string_equal(cay__json_str(o, "auth", ""), "Bearer tr-12345678");
    assert_true(json_array_size(list) >= 2);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *s = json_array_get(list, i);
        assert_int_equal(strspn(cay__json_str(s, "traceId", ""), "0123456789abcdef"), 32);
        assert_int_equal(strspn(cay__json_str(s, "spanId", ""), "0123456789abcdef"), 16);
        assert_true(strtoll(cay__json_str(s, "endTimeUnixNano", "0"), NULL, 10) >=
                    strtoll(cay__json_str(s, "startTimeUnixNano", "1"), NULL, 10));
    }
    traced("/sink/v1/ingest", false, 0);
    CAY_AUTOJSON *n = sent_to("/sink/v1/ingest");
    const json_t *data = json_object_get(json_object_get(n, "body"), "data");
    assert_string_equal(cay__json_str(json_array_get(data, 0), "object", ""), "trace");
    assert_string_equal(cay__json_str(json_array_get(data, 0), "group_id", ""), "g1");
    assert_string_equal(cay__json_str(json_array_get(data, 1), "object", ""), "trace.span");
    CAY_AUTOFREE char *all = json_dumps(n, 0);
    has_not(all, "what was said");
    traced("/sink/flaky", false, 0); /* twice not yet */
    traced("/sink/never", false, 6); /* counted, and the run does not mind: a trace, task, agent,
                                        turn, generation and preparation */
}

int main(int argc, char **argv)
{
    peer = argc > 1 ? argv[1] : "modelpeer";
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(the_one_that_ended_makes_room),
        T(without_a_session_a_command_runs_once),
        T(what_it_started_ends_with_it),
        T(commands_run_beside_each_other),
        T(a_cleanup_that_fails_changes_no_result),
        T(everybody_sees_the_callers_agent),
        T(spans_tell_once_and_no_secrets),
        T(ports_are_told),
        T(what_is_done_inside_is_told_once),
        T(memory_is_told),
        T(memories_are_kept_where_the_caller_wants),
        T(a_store_that_forgets_once_loses_no_memories),
        T(a_store_sees_one_run_at_a_time),
        T(memories_have_a_budget),
        T(phases_have_settings_of_their_own),
        T(memories_of_one_sandbox_agree),
        T(spans_reach_a_collector),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
