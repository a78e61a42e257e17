/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: how they are started, fed, signalled, timed and ended. */
#include "suite.h"
#include <poll.h>
#include <sys/eventfd.h>

#define ARGV(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void argv_runs_and_exit_codes_are_exact(void **state)
{
    (void)state;
    ERR;
    cay_result r = { .size = sizeof r };
    cay_spawn s = { .size = sizeof s, .argv = ARGV("echo", "one", "two words") };
    OK(cay_sandbox_run(S.sb, NULL, &s, NULL, 0, 0, &r, E));
    assert_string_equal(r.out, "one two words\n");
    assert_string_equal(r.errout, "");
    assert_int_equal(r.exit.code, 0);
    assert_string_equal(r.exit.reason, "exit");
    assert_false(r.truncated);
    cay_result_clear(&r);
    s.argv = ARGV("false");
    OK(cay_sandbox_run(S.sb, NULL, &s, NULL, 0, 0, &r, E));
    assert_int_equal(r.exit.code, 1);
    cay_result_clear(&r);
}

static void shell_codes_0_to_255_and_signals(void **state)
{
    (void)state;
    NEED_SHELL();
    const int codes[] = { 0, 1, 2, 42, 126, 127, 254, 255 };
    for (size_t i = 0; i < CAY_LEN(codes); i++) {
        char line[32];
        snprintf(line, sizeof line, "exit %d", codes[i]);
        cay_result r = sh(S.sb, line);
        assert_int_equal(r.exit.code, codes[i]);
        assert_int_equal(r.exit.signal, 0);
        cay_result_clear(&r);
    }
    cay_result r = sh(S.sb, "kill -SEGV $$");
    assert_int_equal(r.exit.code, 128 + SIGSEGV);
    assert_int_equal(r.exit.signal, SIGSEGV);
    assert_string_equal(r.exit.reason, "signal");
    cay_result_clear(&r);
}

static void unknown_commands_and_directories_are_named(void **state)
{
    (void)state;
    ERR;
    cay_proc *p = NULL;
    cay_spawn s = { .size = sizeof s, .argv = ARGV("no-such-command-here") };
    assert_int_equal(cay_sandbox_spawn(S.sb, NULL, &s, &p, E), CAY_ENOENT);
    assert_non_null(strstr(e_.msg, "no-such-command-here"));
    NEED_SHELL();
    s = (cay_spawn){ .size = sizeof s, .argv = ARGV("true"), .cwd = "/no/such/directory" };
    assert_int_equal(cay_sandbox_spawn(S.sb, NULL, &s, &p, E), CAY_ENOENT);
    assert_non_null(strstr(e_.msg, "/no/such/directory"));
    OK(cay_file_put(S.sb, NULL, "not-executable", "x", 1, NULL, E));
    s = (cay_spawn){ .size = sizeof s, .argv = ARGV("./not-executable") };
    assert_int_equal(cay_sandbox_spawn(S.sb, NULL, &s, &p, E), CAY_EPERM);
}

static void bad_requests_are_refused_by_field(void **state)
{
    (void)state;
    static const cay_pair bad_env[] = { { "A=B", "x" }, { NULL, NULL } },
                          no_value[] = { { "A", NULL }, { NULL, NULL } };
    const cay_spawn bad[] = {
        { .size = sizeof bad[0] },
        { .size = sizeof bad[0], .argv = ARGV("true"), .shell = "true" },
        { .size = sizeof bad[0], .argv = ARGV("") },
        { .size = sizeof bad[0], .argv = ARGV("true"), .login = true },
        { .size = sizeof bad[0], .argv = ARGV("true"), .env = bad_env },
        { .size = sizeof bad[0], .argv = ARGV("true"), .env = no_value },
        { .size = sizeof bad[0], .argv = ARGV("true"), .cwd = "" },
        { .size = sizeof bad[0], .argv = ARGV("true"), .tag = "1234" },
        { .size = sizeof bad[0], .argv = ARGV("true"), .tag = "a\nb" },
        { .size = sizeof bad[0], .argv = ARGV("true"), .user = "a:b" },
        { .size = sizeof bad[0], .argv = ARGV("true"), .profile = "god" },
        { .size = sizeof bad[0], .argv = ARGV("true"), .ring_bytes = 5 },
        { .size = sizeof bad[0], .argv = ARGV("true"), .ring_bytes = (16 << 20) + 1 },
        { .size = 0, .argv = ARGV("true") },
    };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay_err e = CAY_ERR_INIT;
        cay_proc *p = NULL;
        int rc = cay_sandbox_spawn(S.sb, NULL, &bad[i], &p, &e);
        if (rc != CAY_EINVAL)
            print_error("case %zu: %d %s\n", i, rc, e.msg);
        assert_int_equal(rc, CAY_EINVAL);
        assert_true(e.msg[0] && e.reason[0]);
        assert_null(p);
    }
}

static void a_user_that_is_not_there_is_refused(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    cay_proc *p = NULL;
    cay_spawn s = { .size = sizeof s, .argv = ARGV("true"), .user = "no-such-user" };
    assert_true(cay_sandbox_spawn(S.sb, NULL, &s, &p, E) < 0);
    assert_true(e_.msg[0]);
}

static void environment_is_from_empty_plus_what_is_asked(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    cay_result r = { .size = sizeof r };
    setenv("CAY_TEST_LEAK", "leaked", 1);
    cay_pair own[] = { { "COLOR", "blue" }, { "LINES2", "a\nb" }, { NULL, NULL } };
    cay_create c = { .size = sizeof c, .process.env = own };
    cay_sandbox *sb = box_new(&c);
    sh_is(sb, "printf %s \"$COLOR|$LINES2|$CAY_TEST_LEAK|${PATH:+path}|${HOME:+home}\"",
          "blue|a\nb||path|home");
    cay_pair more[] = { { "COLOR", "red" }, { "X", "1" }, { NULL, NULL } };
    cay_spawn s = { .size = sizeof s,
                    .shell = "printf %s \"$COLOR|$X|${HOME:+home}\"",
                    .env = more };
    OK(cay_sandbox_run(sb, NULL, &s, NULL, 0, 0, &r, E));
    assert_string_equal(r.out, "red|1|home");
    cay_result_clear(&r);
    s = (cay_spawn){
        .size = sizeof s, .argv = ARGV("/usr/bin/env"), .env = more, .env_mode = CAY_ENV_ONLY
    };
    OK(cay_sandbox_run(sb, NULL, &s, NULL, 0, 0, &r, E));
    assert_string_equal(r.out, "COLOR=red\nX=1\n");
    cay_result_clear(&r);
    box_end(sb);
}

static void working_directory_is_workspace_or_as_asked(void **state)
{
    (void)state;
    NEED_SHELL();
    NEED(mkdir);
    ERR;
    cay_result r = sh(S.sb, "basename \"$PWD\"");
    assert_string_equal(r.out, "workspace\n");
    cay_result_clear(&r);
    OK(cay_file_mkdir(S.sb, NULL, "deep/er", 0, true, E));
    const char *const dirs[] = { "deep/er", "/workspace/deep/er" };
    for (size_t i = 0; i < CAY_LEN(dirs); i++) {
        cay_spawn s = { .size = sizeof s, .shell = "pwd | grep -o 'deep/er$'", .cwd = dirs[i] };
        OK(cay_sandbox_run(S.sb, NULL, &s, NULL, 0, 0, &r, E));
        assert_string_equal(r.out, "deep/er\n");
        cay_result_clear(&r);
    }
    cay_spawn s = { .size = sizeof s,
                    .shell = "test \"$PWD\" = \"$HOME\" && echo home",
                    .cwd = "~" };
    OK(cay_sandbox_run(S.sb, NULL, &s, NULL, 0, 0, &r, E));
    assert_string_equal(r.out, "home\n");
    cay_result_clear(&r);
}

static void stdout_and_stderr_are_apart(void **state)
{
    (void)state;
    NEED_SHELL();
    cay_result r = sh(S.sb, "echo out; echo err >&2; echo out2");
    assert_string_equal(r.out, "out\nout2\n");
    assert_string_equal(r.errout, "err\n");
    cay_result_clear(&r);
}

static void stdin_is_fed_and_closed(void **state)
{
    (void)state;
    ERR;
    CAY_AUTOFD fd = -1;
    cay_proc *p = start(S.sb, (cay_spawn){ .argv = ARGV("cat"), .stdin_mode = CAY_STDIN_PIPE });
    OK(cay_proc_output(p, NULL, CAY_STDOUT, 0, &fd, E));
    OK(cay_proc_write(p, NULL, "hello ", 6, E));
    expect(fd, "hello ");
    OK(cay_proc_write(p, NULL, "again\n", 6, E));
    expect(fd, "again\n");
    OK(cay_proc_close_stdin(p, NULL, E));
    assert_int_equal(wait_for(p, 20000).code, 0);
    assert_int_equal(cay_proc_write(p, NULL, "x", 1, E), CAY_ESTATE);
    cay_proc_unref(p);
    p = start(S.sb, (cay_spawn){ .argv = ARGV("cat") }); /* no stdin: ends at once */
    assert_int_equal(wait_for(p, 20000).code, 0);
    cay_proc_unref(p);
}

static void run_feeds_more_than_a_pipe_holds(void **state)
{
    (void)state;
    ERR;
    size_t n = 3 << 20;
    char *big = cay__alloc(n);
    for (size_t i = 0; i < n; i++)
        big[i] = (char)(i * 31 + i / 977);
    cay_result r = { .size = sizeof r };
    cay_spawn s = { .size = sizeof s, .argv = ARGV("cat") };
    OK(cay_sandbox_run(S.sb, NULL, &s, big, n, n + 10, &r, E));
    assert_int_equal(r.out_len, n);
    assert_memory_equal(r.out, big, n);
    cay_result_clear(&r);
    OK(cay_sandbox_run(S.sb, NULL, &s, big, n, 1000, &r, E)); /* stops storing, not the command */
    assert_true(r.truncated);
    assert_int_equal(r.out_len, 1000);
    assert_int_equal(r.exit.code, 0);
    cay_result_clear(&r);
    s.argv = ARGV("true"); /* never reads */
    OK(cay_sandbox_run(S.sb, NULL, &s, big, n, 0, &r, E));
    assert_int_equal(r.exit.code, 0);
    cay_result_clear(&r);
    free(big);
}

/* Where the command's parent is a process of ours, the command may be able to stop it. */
static void time_out_ends_one_that_stopped_its_parent(void **state)
{
    (void)state;
    NEED_SHELL();
    cay_proc *p = start(
        S.sb, (cay_spawn){ .shell = "kill -STOP $PPID 2>/dev/null; sleep 100", .timeout_ms = 300 });
    cay_exit x = wait_for(p, 20000);
    assert_string_equal(x.reason, "time");
    cay_proc_unref(p);
}

static void time_out_kills_the_whole_tree(void **state)
{
    (void)state;
    NEED_SHELL();
    /* It ignores TERM, and a grandchild in a session of its own holds the pipes. */
    int64_t t = cay__now_ms();
    cay_spawn s = { .shell = marked("trap '' TERM; setsid sleep @11 & setsid sh -c 'sleep @12 & "
                                    "wait' & echo up; sleep @13"),
                    .timeout_ms = 300 };
    cay_proc *p = start(S.sb, s);
    cay_exit x = wait_for(p, 20000);
    t = cay__now_ms() - t;
    assert_string_equal(x.reason, "time");
    assert_true(t >= 300 && t < 2500);
    char *out = drain(p, CAY_STDOUT, 0, NULL);
    assert_string_equal(out, "up\n");
    free(out);
    for (int i = 0; i < 100 && (process_with(marked("@11")) || process_with(marked("@12")) ||
                                process_with(marked("@13")));
         i++)
        poll(NULL, 0, 20);
    assert_false(process_with(marked("@11")));
    assert_false(process_with(marked("@12")));
    assert_false(process_with(marked("@13")));
    cay_proc_unref(p);
}

static void a_term_that_is_obeyed_needs_no_grace(void **state)
{
    (void)state;
    NEED_SHELL();
    int64_t took = 0;
    for (int i = 0; i < 3 && (!took || took >= 1800);
         i++) { /* who waits for the grace does so each time; who is only busy does not */
        int64_t t = cay__now_ms();
        cay_proc *p = start(
            S.sb,
            (cay_spawn){ .shell = "trap 'echo bye; exit 3' TERM; while :; do sleep 0.02; done",
                         .timeout_ms = 900 });
        cay_exit x = wait_for(p, 20000);
        took = cay__now_ms() - t;
        assert_string_equal(x.reason, "time");
        assert_int_equal(x.code, 3);
        char *out = drain(p, CAY_STDOUT, 0, NULL);
        assert_string_equal(out, "bye\n");
        free(out);
        cay_proc_unref(p);
    }
    assert_true(took < 1800);
}

static void a_background_child_does_not_delay_the_result(void **state)
{
    (void)state;
    NEED_SHELL();
    int64_t t = cay__now_us();
    cay_result r = sh(S.sb, "sleep 25 & echo done");
    t = cay__now_us() - t;
    assert_string_equal(r.out, "done\n");
    assert_int_equal(r.exit.code, 0);
    assert_true(t < 15000000);
    cay_result_clear(&r);
}

static void signals_reach_one_group_or_tree(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    CAY_AUTOFD fd = -1;
    cay_proc *p = start(
        S.sb,
        (cay_spawn){ .shell = "trap 'echo usr1' USR1; echo ready; while :; do sleep 0.05; done" });
    OK(cay_proc_output(p, NULL, CAY_STDOUT, 0, &fd, E));
    expect(fd, "ready");
    OK(cay_proc_signal(p, NULL, 0, CAY_SCOPE_ONE, E));
    OK(cay_proc_signal(p, NULL, SIGUSR1, CAY_SCOPE_ONE, E));
    expect(fd, "usr1");
    OK(cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_GROUP, E));
    cay_exit x = wait_for(p, 20000);
    assert_int_equal(x.signal, SIGKILL);
    assert_int_equal(x.code, 137);
    assert_int_equal(cay_proc_signal(p, NULL, SIGTERM, CAY_SCOPE_ONE, E), CAY_ENOENT);
    cay_proc_unref(p);
    p = start(S.sb, (cay_spawn){ .shell = marked("setsid sleep @14 & echo ready; wait") });
    cay__close_fd(&fd);
    OK(cay_proc_output(p, NULL, CAY_STDOUT, 0, &fd, E));
    expect(fd, "ready");
    OK(cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_TREE, E));
    wait_for(p, 20000);
    for (int i = 0; i < 100 && process_with(marked("@14")); i++)
        poll(NULL, 0, 20);
    assert_false(process_with(marked("@14")));
    cay_proc_unref(p);
}

static void below_is_all_but_the_process(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    cay_proc *p = start(
        S.sb,
        (cay_spawn){ .size = sizeof(cay_spawn),
                     .shell = "(sleep 61; sleep 61) & sh -c 'sleep 61; true'; echo rest; exit 5" });
    int fd = -1;
    poll(NULL, 0, 500);
    OK(cay_proc_output(p, NULL, CAY_STDOUT, CAY_FROM_START, &fd, E));
    OK(cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_BELOW, E));
    expect(fd, "rest");
    close(fd);
    assert_int_equal(wait_for(p, 20000).code, 5);
    cay_proc_unref(p);
}

static void attach_by_id_pid_and_tag(void **state)
{
    (void)state;
    ERR;
    cay_proc *q = NULL,
             *p = start(S.sb, (cay_spawn){ .argv = ARGV("sleep", "30"), .tag = "sleeper" });
    char pid[16];
    snprintf(pid, sizeof pid, "%d", cay_proc_pid(p));
    const char *const refs[] = { cay_proc_id(p), pid, "sleeper" };
    for (size_t i = 0; i < 3; i++) {
        OK(cay_sandbox_attach(S.sb, NULL, refs[i], &q, E));
        assert_string_equal(cay_proc_id(q), cay_proc_id(p));
        assert_int_equal(cay_proc_pid(q), cay_proc_pid(p));
        cay_proc_unref(q);
    }
    cay_spawn again = { .size = sizeof again, .argv = ARGV("true"), .tag = "sleeper" };
    assert_int_equal(cay_sandbox_spawn(S.sb, NULL, &again, &q, E), CAY_EEXIST);
    assert_int_equal(cay_sandbox_attach(S.sb, NULL, "nobody", &q, E), CAY_ENOENT);
    OK(cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_ONE, E));
    wait_for(p, 20000);
    OK(cay_sandbox_attach(S.sb, NULL, cay_proc_id(p), &q, E)); /* ended, but kept */
    assert_int_equal(wait_for(q, 20000).signal, SIGKILL);
    cay_proc_unref(q);
    cay_proc_unref(p);
}

typedef struct seen {
    const char *id;
    char state;
    bool other;
    int code;
} seen;

static int on_proc(const cay_proc_info *i, void *arg)
{
    seen *s = arg;
    if (strcmp(i->id, s->id) == 0) {
        s->state = i->state;
        s->code = i->exit.code;
        assert_true(i->pid > 0 && i->started_ms > 1600000000000);
        if (!strstr(i->command, marked("@15")))
            fail_msg("state %c, command \"%s\"", i->state, i->command);
        assert_string_equal(i->tag, "listed");
    } else if (!i->id[0] && strstr(i->command, marked("@16"))) {
        s->other = true;
    }
    return 0;
}

static void processes_are_listed(void **state)
{
    (void)state;
    NEED(procs);
    NEED_SHELL();
    ERR;
    cay_proc *p =
        start(S.sb, (cay_spawn){ .shell = marked(": @15; sleep @16 & wait"), .tag = "listed" });
    seen s = { .id = cay_proc_id(p) };
    for (int i = 0; i < 50 && !s.other; i++) {
        OK(cay_sandbox_procs(S.sb, NULL, on_proc, &s, E));
        poll(NULL, 0, 20);
    }
    assert_true(s.state && strchr("RSD", s.state));
    assert_true(s.other);
    OK(cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_TREE, E));
    wait_for(p, 20000);
    s.state = 0;
    OK(cay_sandbox_procs(S.sb, NULL, on_proc, &s, E));
    assert_int_equal(s.state, 'X');
    assert_int_equal(s.code, 137);
    cay_proc_unref(p);
}

static void exit_descriptor_becomes_readable(void **state)
{
    (void)state;
    ERR;
    cay_proc *p = start(S.sb, (cay_spawn){ .argv = ARGV("sleep", "0.2") });
    int fd = cay_proc_exit_fd(p, E);
    assert_true(fd >= 0);
    struct pollfd w = { .fd = fd, .events = POLLIN };
    assert_int_equal(poll(&w, 1, 50), 0);
    assert_int_equal(poll(&w, 1, 5000), 1);
    assert_int_equal(wait_for(p, 20000).code, 0);
    assert_int_equal(poll(&w, 1, 0), 1);
    cay_proc_unref(p);
}

static void deadline_and_cancel_of_calls(void **state)
{
    (void)state;
    ERR;
    cay_exit x = { .size = sizeof x };
    cay_proc *p = start(S.sb, (cay_spawn){ .argv = ARGV("sleep", "20") });
    int64_t t = cay__now_ms();
    cay_call c = { .size = sizeof c, .deadline_ms = t + 100 };
    assert_int_equal(cay_proc_wait(p, &c, &x, E), CAY_ETIMEOUT);
    assert_true(cay__now_ms() - t >= 100 && cay__now_ms() - t < 10000);
    int ev = eventfd(1, EFD_CLOEXEC);
    c = (cay_call){ .size = sizeof c, .cancel_fd = ev };
    assert_int_equal(cay_proc_wait(p, &c, &x, E), CAY_ECANCELED);
    cay_spawn s = { .size = sizeof s, .argv = ARGV("true") };
    cay_proc *none = NULL;
    assert_int_equal(cay_sandbox_spawn(S.sb, &c, &s, &none, E), CAY_ECANCELED);
    close(ev);
    OK(cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_ONE, E));
    assert_int_equal(wait_for(p, 20000).signal, SIGKILL); /* the handle works on */
    cay_proc_unref(p);
    cay_result r = { .size = sizeof r };
    s.argv = ARGV("sleep", marked("@17"));
    c = (cay_call){ .size = sizeof c, .deadline_ms = cay__now_ms() + 150 };
    assert_int_equal(cay_sandbox_run(S.sb, &c, &s, NULL, 0, 0, &r, E), CAY_ETIMEOUT);
    for (int i = 0; i < 100 && process_with(marked("@17")); i++)
        poll(NULL, 0, 20);
    assert_false(process_with(marked("@17"))); /* nothing half-made stays */
}

static void long_arguments_go_through(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    char *arg = cay__alloc(120001);
    memset(arg, 'a', 120000);
    cay_result r = { .size = sizeof r };
    cay_spawn s = { .size = sizeof s,
                    .argv = (const char *const[]){ "printf", "%s%s", arg, arg, NULL } };
    OK(cay_sandbox_run(S.sb, NULL, &s, NULL, 0, 1 << 20, &r, E));
    assert_int_equal(r.out_len, 240000);
    cay_result_clear(&r);
    free(arg);
}

typedef struct labelled {
    const char *id;
    char state, text[128];
    int strangers; /* not ours, and with labels */
} labelled;

static int note_labels(const cay_proc_info *i, void *arg)
{
    labelled *l = arg;
    if (strcmp(i->id, l->id)) {
        l->strangers += !*i->id && i->labels->key;
        return 0;
    }
    l->state = i->state;
    l->text[0] = 0;
    for (const cay_pair *p = i->labels; p->key; p++) {
        size_t at = strlen(l->text);
        snprintf(l->text + at, sizeof l->text - at, "%s=%s;", p->key, p->value);
    }
    return 0;
}

static void labels_are_listed_with_live_and_ended(void **state)
{
    (void)state;
    NEED(procs);
    ERR;
    const cay_pair labels[] = {
        { "job", "42" }, { "empty", "" }, { "what", "a=b c\303\244" }, { NULL, NULL }
    };
    cay_proc *p = start(
        S.sb,
        (cay_spawn){ .size = sizeof(cay_spawn), .argv = ARGV("sleep", "60"), .labels = labels });
    labelled l = { .id = cay_proc_id(p) };
    OK(cay_sandbox_procs(S.sb, NULL, note_labels, &l, E));
    assert_true(l.state && l.state != 'X');
    assert_string_equal(l.text, "job=42;empty=;what=a=b c\303\244;");
    assert_int_equal(l.strangers, 0);
    OK(cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_ONE, E));
    wait_for(p, 20000);
    OK(cay_sandbox_procs(S.sb, NULL, note_labels, &l, E));
    assert_int_equal(l.state, 'X');
    assert_string_equal(l.text, "job=42;empty=;what=a=b c\303\244;");
    cay_proc_unref(p);

    p = start(S.sb, (cay_spawn){ .size = sizeof(cay_spawn), .argv = ARGV("true") });
    wait_for(p, 20000);
    l = (labelled){ .id = cay_proc_id(p), .text = "?" };
    OK(cay_sandbox_procs(S.sb, NULL, note_labels, &l, E));
    assert_string_equal(l.text, "");
    cay_proc_unref(p);
}

static void labels_are_bounded_and_go_beside_long_arguments(void **state)
{
    (void)state;
    NEED(procs);
    ERR;
    char value[CAY_PROC_LABELS_MAX + 1], *arg = cay__alloc(90001);
    cay_pair labels[] = { { "k", value }, { NULL, NULL } };
    cay_proc *p = NULL;
    memset(value, 'v', sizeof value);
    value[CAY_PROC_LABELS_MAX - 2] = 0;
    cay_spawn s = { .size = sizeof s, .argv = ARGV("echo", "x"), .labels = labels };
    assert_int_equal(cay_sandbox_spawn(S.sb, NULL, &s, &p, E), CAY_ETOOBIG);
    assert_string_equal(e_.reason, "labels_too_big");
    value[CAY_PROC_LABELS_MAX - 3] = 0;
    memset(arg, 'a', 90000);
    s.argv = (const char *const[]){ "echo", arg, NULL };
    p = start(S.sb, s);
    wait_for(p, 20000);
    labelled l = { .id = cay_proc_id(p) };
    OK(cay_sandbox_procs(S.sb, NULL, note_labels, &l, E));
    assert_int_equal(strncmp(l.text, "k=vvvv", 6), 0);
    cay_proc_unref(p);
    free(arg);
}

static void no_zombie_stays(void **state)
{
    (void)state;
    NEED_SHELL();
    for (int i = 0; i < 5; i++) {
        cay_result r = sh(S.sb, "(sleep 0.01 &) ; (exit 3) & true");
        cay_result_clear(&r);
    }
    /* Without walls the list is the host's, and zombies of others come and go: ours would stay. */
    sh_is(S.sb,
          "for i in $(seq 100); do"
          " n=$(ps -eo stat,comm --no-headers 2>/dev/null | grep -c '^Z.*sleep');"
          " [ \"$n\" = 0 ] && break; sleep 0.05; done; echo $n",
          "0\n");
}

tests suite_proc(size_t *n)
{
    static const struct CMUnitTest t[] = {
        cmocka_unit_test(argv_runs_and_exit_codes_are_exact),
        cmocka_unit_test(shell_codes_0_to_255_and_signals),
        cmocka_unit_test(unknown_commands_and_directories_are_named),
        cmocka_unit_test(bad_requests_are_refused_by_field),
        cmocka_unit_test(a_user_that_is_not_there_is_refused),
        cmocka_unit_test(environment_is_from_empty_plus_what_is_asked),
        cmocka_unit_test(working_directory_is_workspace_or_as_asked),
        cmocka_unit_test(stdout_and_stderr_are_apart),
        cmocka_unit_test(stdin_is_fed_and_closed),
        cmocka_unit_test(run_feeds_more_than_a_pipe_holds),
        cmocka_unit_test(time_out_kills_the_whole_tree),
        cmocka_unit_test(time_out_ends_one_that_stopped_its_parent),
        cmocka_unit_test(a_term_that_is_obeyed_needs_no_grace),
        cmocka_unit_test(a_background_child_does_not_delay_the_result),
        cmocka_unit_test(signals_reach_one_group_or_tree),
        cmocka_unit_test(below_is_all_but_the_process),
        cmocka_unit_test(attach_by_id_pid_and_tag),
        cmocka_unit_test(processes_are_listed),
        cmocka_unit_test(exit_descriptor_becomes_readable),
        cmocka_unit_test(deadline_and_cancel_of_calls),
        cmocka_unit_test(long_arguments_go_through),
        cmocka_unit_test(labels_are_listed_with_live_and_ended),
        cmocka_unit_test(labels_are_bounded_and_go_beside_long_arguments),
        cmocka_unit_test(no_zombie_stays),
    };
    *n = CAY_LEN(t);
    return t;
}
