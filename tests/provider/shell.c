/* SPDX-License-Identifier: Apache-2.0 */
/* A shell that stays: state between commands, framing, time-outs, several users, its end. */
#include "suite.h"
#include <cay/shell.h>
#include <pthread.h>
#include <sys/eventfd.h>

static cay_shell *sh_open(const char *name)
{
    ERR;
    cay_shell *sh = NULL;
    cay_shell_spec spec = { .size = sizeof spec, .name = name };
    OK(cay_shell_open(S.sb, NULL, &spec, &sh, E));
    return sh;
}

static cay_result sh_do(cay_shell *sh, const char *line, uint64_t timeout_ms)
{
    ERR;
    cay_result r = { .size = sizeof r };
    cay_shell_cmd c = { .size = sizeof c, .line = line, .timeout_ms = timeout_ms };
    OK(cay_shell_run(sh, NULL, &c, &r, E));
    return r;
}

static void does(cay_shell *sh, const char *line, int code, const char *out, const char *errout)
{
    cay_result r = sh_do(sh, line, 0);
    if (strcmp(r.out, out) || (errout && strcmp(r.errout, errout)) || r.exit.code != code ||
        strcmp(r.exit.reason, "exit"))
        fail_msg("%s: code %d, reason %s, out \"%s\", err \"%s\"", line, r.exit.code, r.exit.reason,
                 r.out, r.errout);
    cay_result_clear(&r);
}

static void sh_close(cay_shell *sh)
{
    ERR;
    OK(cay_shell_end(sh, NULL, E));
    cay_shell_unref(sh);
}

static void state_lasts_from_one_command_to_the_next(void **state)
{
    (void)state;
    NEED_SHELL();
    cay_shell *sh = sh_open("lasts");
    does(sh, "mkdir -p one/two; cd one/two; X=5; export Y='a b'; f() { echo \"f $1\"; }", 0, "",
         "");
    does(sh, "echo $X; sh -c 'echo $Y'; f 3; basename \"$PWD\"", 0, "5\na b\nf 3\ntwo\n", "");
    does(sh, "false", 1, "", "");
    does(sh, "echo $?", 0, "1\n", "");
    does(sh, "", 0, "", "");
    does(sh, "exec 9>lock; echo x >&9; umask 077", 0, "", "");
    does(sh, "umask", 0, "0077\n", "");
    sh_close(sh);
}

static void streams_are_apart_and_exact(void **state)
{
    (void)state;
    NEED_SHELL();
    cay_shell *sh = sh_open("exact");
    does(sh, "echo out; echo err >&2; printf 'no newline'; printf e >&2", 0, "out\nno newline",
         "err\ne");
    does(sh, "printf '\\036cay>nonsense 0 b\\036 \\036\\036cay<'", 0,
         "\036cay>nonsense 0 b\036 \036\036cay<", "");
    does(sh, "cat <<E\na\n'b\n\"c\nE\necho \\\\ \\`", 0, "a\n'b\n\"c\n\\ `\n", "");
    does(sh, "cat; read x; echo got:$x", 0, "got:\n",
         ""); /* nothing to read, and nothing of ours */
    does(sh, "for i in 1 2 3; do\n  echo $i\ndone\n# a comment at the end", 0, "1\n2\n3\n", "");
    does(sh, "exit_code() { return 42; }; exit_code", 42, "", "");
    does(sh, "return 7; echo never", 7, "", "");
    does(sh, "kill -9 $(sh -c 'echo $$; exec sleep 0') 2>/dev/null; (exit 255)", 255, "", "");
    sh_close(sh);
}

static void errors_of_a_script_do_not_end_it(void **state)
{
    (void)state;
    NEED_SHELL();
    cay_shell *sh = sh_open("errors");
    static const char *const bad[] = { "echo 'open",
                                       "if true; then",
                                       "( (",
                                       ": ${NOPE?bad}; echo no",
                                       "no-such-command-here",
                                       "cd /no/such",
                                       "set -u; echo $NOPE",
                                       ". /no/such/file",
                                       "exec /no/such/program",
                                       "readonly R=1; R=2; echo no" };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay_result r = sh_do(sh, bad[i], 60000);
        if (!r.exit.code || strcmp(r.exit.reason, "exit") || !r.errout_len || strstr(r.out, "no\n"))
            fail_msg("%s: code %d, reason %s, out \"%s\", err \"%s\"", bad[i], r.exit.code,
                     r.exit.reason, r.out, r.errout);
        cay_result_clear(&r);
    }
    does(sh, "set +u; echo fine", 0, "fine\n", "");
    does(sh, "exec >/dev/null; echo unseen", 0, "", "");
    does(sh, "echo unseen; echo seen >&2", 0, "",
         "seen\n"); /* its own redirection lasts, our marks still come */
    sh_close(sh);
}

typedef struct streamed {
    int64_t first_ms, total;
    int stop_at;
} streamed;

static int on_output(cay_stream which, const void *data, size_t len, void *arg)
{
    streamed *s = arg;
    (void)data;
    if (which != CAY_STDOUT)
        return 0;
    if (!s->first_ms)
        s->first_ms = cay__now_ms();
    s->total += (int64_t)len;
    return s->stop_at && s->total >= s->stop_at ? 77 : 0;
}

static int64_t count_out(cay_shell *sh, const char *line)
{
    ERR;
    streamed s = { 0 };
    cay_result r = { .size = sizeof r };
    cay_shell_cmd c = { .size = sizeof c, .line = line, .output = on_output, .arg = &s };
    OK(cay_shell_run(sh, NULL, &c, &r, E));
    assert_int_equal(r.out_len, 0);
    cay_result_clear(&r);
    return s.total;
}

static void output_is_streamed_whole_and_bounded(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    cay_shell *sh = sh_open("stream");
    streamed s = { 0 };
    cay_result r = { .size = sizeof r };
    cay_shell_cmd c = {
        .size = sizeof c, .line = "echo first; sleep 1; echo last", .output = on_output, .arg = &s
    };
    int64_t t0 = cay__now_ms();
    OK(cay_shell_run(sh, NULL, &c, &r, E));
    assert_true(cay__now_ms() - s.first_ms > 500); /* not only at the end */
    assert_true(cay__now_ms() - t0 >= 1000);
    assert_int_equal(s.total, 11);
    cay_result_clear(&r);
    assert_int_equal(count_out(sh, "head -c 5000000 /dev/zero; head -c 1000 /dev/zero >&2"),
                     5000000); /* more than is kept */
    c = (cay_shell_cmd){ .size = sizeof c,
                         .line = "head -c 100000 /dev/zero | tr '\\0' x",
                         .max_output = 1000 };
    OK(cay_shell_run(sh, NULL, &c, &r, E));
    assert_true(r.truncated && r.out_len == 1000 && strlen(r.out) == 1000);
    cay_result_clear(&r);
    s = (streamed){ .stop_at = 100000 };
    c = (cay_shell_cmd){
        .size = sizeof c, .line = "cat /dev/zero", .output = on_output, .arg = &s
    };
    assert_int_equal(cay_shell_run(sh, NULL, &c, &r, E), 77); /* enough */
    does(sh, "echo still here", 0, "still here\n", NULL);
    sh_close(sh);
}

static void a_time_out_interrupts_the_command_and_not_the_shell(void **state)
{
    (void)state;
    NEED_SHELL();
    cay_shell *sh = sh_open("time");
    does(sh, "X=kept; cd /; sleep 77 & bg=$!; sleep 0.2", 0, "", "");
    static const char *const slow[] = {
        "echo begun; sleep 60; echo never",
        "while :; do sleep 0.1; done; echo never",
        "while :; do :; done",
        "f() { g; echo never; }; g() { sleep 60; }; f; echo never",
        "(trap '' INT; sleep 60 & sleep 60); echo never", /* does not obey */
        "sh -c 'trap \"\" INT; while :; do sleep 1; done'",
        "sleep 60 | cat",
    };
    for (size_t i = 0; i < CAY_LEN(slow); i++) {
        int64_t t0 = cay__now_ms();
        cay_result r = sh_do(sh, slow[i], 300);
        int64_t took = cay__now_ms() - t0;
        if (strcmp(r.exit.reason, "time") || !r.exit.code || strstr(r.out, "never") || took < 300 ||
            took > 20000)
            fail_msg("%s: %lld ms, code %d, reason %s, out \"%s\"", slow[i], (long long)took,
                     r.exit.code, r.exit.reason, r.out);
        cay_result_clear(&r);
        does(sh, "echo $X; pwd", 0, "kept\n/\n", NULL);
    }
    if (strcmp(S.ops->name, "process"))    /* there a command that does not obey takes them along */
        does(sh, "kill $bg", 0, "", NULL); /* a job of an earlier command goes on */
    sh_close(sh);
}

static void without_bash_sh_does_it(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    const cay_pair env[] = { { "PATH", "/nowhere" }, { NULL, NULL } };
    cay_shell *sh = NULL;
    cay_shell_spec spec = { .size = sizeof spec, .name = "plain", .env = env };
    OK(cay_shell_open(S.sb, NULL, &spec, &sh, E));
    does(sh, "PATH=/usr/bin:/bin; X=1; echo \"${BASH_VERSION-none}\"", 0, "none\n", "");
    does(sh, "echo $X; echo err >&2; sleep 0.01 & (exit 9)", 9, "1\n", "err\n");
    static const char *const bad[] = { "echo 'open", ": ${NOPE?bad}; echo no",
                                       "no-such-command-here" };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay_result r = sh_do(sh, bad[i], 60000);
        if (!r.exit.code || strcmp(r.exit.reason, "exit") || !r.errout_len)
            fail_msg("%s: code %d, reason %s, err \"%s\"", bad[i], r.exit.code, r.exit.reason,
                     r.errout);
        cay_result_clear(&r);
    }
    static const char *const slow[] = { "while :; do sleep 0.1; done; echo never",
                                        "(trap '' INT; sleep 60); echo never" };
    for (size_t i = 0; i < CAY_LEN(slow); i++) {
        cay_result r = sh_do(sh, slow[i], 300);
        if (strcmp(r.exit.reason, "time") || strstr(r.out, "never"))
            fail_msg("%s: code %d, reason %s, out \"%s\"", slow[i], r.exit.code, r.exit.reason,
                     r.out);
        cay_result_clear(&r);
        does(sh, "echo $X", 0, "1\n", NULL);
    }
    sh_close(sh);
}

static void a_call_that_is_given_up_interrupts_too(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    cay_shell *sh = sh_open("call");
    cay_result r = { .size = sizeof r };
    cay_shell_cmd c = { .size = sizeof c, .line = "sleep 60" };
    cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + 300 };
    assert_int_equal(cay_shell_run(sh, &soon, &c, &r, E), CAY_ETIMEOUT);
    CAY_AUTOFD stop = eventfd(1, EFD_CLOEXEC);
    cay_call canceled = { .size = sizeof canceled, .cancel_fd = stop };
    assert_int_equal(cay_shell_run(sh, &canceled, &c, &r, E), CAY_ECANCELED);
    does(sh, "echo on", 0, "on\n", NULL);
    sh_close(sh);
}

static void another_handle_finds_it_by_name(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    cay_shell *a = sh_open("shared"), *b = NULL;
    does(a, "X=1; cd /tmp 2>/dev/null || cd /", 0, "", "");
    cay_sandbox *again = box_again(cay_sandbox_id(S.sb));
    cay_shell_spec spec = { .size = sizeof spec, .name = "shared", .attach = true };
    OK(cay_shell_open(again, NULL, &spec, &b, E));
    does(b, "echo $X; X=2", 0, "1\n", "");
    does(a, "echo $X", 0, "2\n", "");
    assert_string_equal(cay_proc_id(cay_shell_proc(a)), cay_proc_id(cay_shell_proc(b)));
    cay_shell_unref(b);
    spec.name = "nobody";
    assert_int_equal(cay_shell_open(again, NULL, &spec, &b, E), CAY_ENOENT);
    assert_string_equal(e_.reason, "shell_not_found");
    cay_sandbox_unref(again);
    sh_close(a);
}

static void *run_many(void *arg)
{
    cay_shell *sh = arg;
    for (int i = 0; i < 5; i++)
        does(sh, "n=$((n + 1)); echo a; sleep 0.02; echo b", 0, "a\nb\n", "");
    return NULL;
}

static void several_users_wait_for_each_other(void **state)
{
    (void)state;
    NEED_SHELL();
    cay_shell *a = sh_open("many"), *b = sh_open("many");
    pthread_t t;
    does(a, "n=0", 0, "", "");
    assert_int_equal(pthread_create(&t, NULL, run_many, b), 0);
    run_many(a);
    pthread_join(t, NULL);
    does(a, "echo $n", 0, "10\n", "");
    cay_shell_unref(b);
    sh_close(a);
}

static void its_end_is_told_and_the_name_is_free_again(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    static const char *const ends[] = { "echo bye; exit 3", "exec sh -c 'exit 3'",
                                        "set -e; (exit 3); echo never", "sleep 60 & exit 3" };
    for (size_t i = 0; i < CAY_LEN(ends); i++) {
        cay_shell *sh = sh_open("ends");
        cay_result r = sh_do(sh, ends[i], 5000);
        if (r.exit.code != 3 || strcmp(r.exit.reason, "ended"))
            fail_msg("%s: code %d, reason %s", ends[i], r.exit.code, r.exit.reason);
        cay_result_clear(&r);
        cay_shell_cmd c = { .size = sizeof c, .line = "true" };
        assert_int_equal(cay_shell_run(sh, NULL, &c, &r, E), CAY_EGONE);
        assert_string_equal(e_.reason, "shell_ended");
        cay_shell_unref(sh);
    }
    cay_shell *sh = sh_open("ends");
    does(sh, "echo new", 0, "new\n", "");
    sh_close(sh);
}

static void it_starts_as_asked_and_refuses_nonsense(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    const cay_pair env[] = { { "GIVEN", "it's" }, { NULL, NULL } };
    cay_shell *sh = NULL;
    cay_shell_spec spec = {
        .size = sizeof spec, .name = "asked", .env = env, .cwd = "as-asked", .login = true
    };
    OK(cay_file_mkdir(S.sb, NULL, "as-asked", 0755, true, E));
    OK(cay_shell_open(S.sb, NULL, &spec, &sh, E));
    does(sh, "echo $GIVEN; basename \"$PWD\"", 0, "it's\nas-asked\n", "");
    char *text = cay__alloc(CAY_SHELL_LINE_MAX + 2);
    memset(text, ' ', CAY_SHELL_LINE_MAX + 1);
    cay_result r = { .size = sizeof r };
    cay_shell_cmd c = { .size = sizeof c, .line = text };
    assert_int_equal(cay_shell_run(sh, NULL, &c, &r, E), CAY_ETOOBIG);
    text[CAY_SHELL_LINE_MAX] = 0;
    memcpy(text, "echo one #", 10);
    does(sh, text, 0, "one\n", "");
    free(text);
    sh_close(sh);
    static const char *const bad[] = {
        NULL, "", "a b", "a/b", "0123456789012345678901234567890123", "a\nb"
    };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        spec.name = bad[i];
        assert_int_equal(cay_shell_open(S.sb, NULL, &spec, &sh, E), CAY_EINVAL);
        assert_string_equal(e_.reason, "shell_name");
    }
}

tests suite_shell(size_t *n)
{
    static const struct CMUnitTest t[] = {
        cmocka_unit_test(state_lasts_from_one_command_to_the_next),
        cmocka_unit_test(streams_are_apart_and_exact),
        cmocka_unit_test(errors_of_a_script_do_not_end_it),
        cmocka_unit_test(output_is_streamed_whole_and_bounded),
        cmocka_unit_test(a_time_out_interrupts_the_command_and_not_the_shell),
        cmocka_unit_test(without_bash_sh_does_it),
        cmocka_unit_test(a_call_that_is_given_up_interrupts_too),
        cmocka_unit_test(another_handle_finds_it_by_name),
        cmocka_unit_test(several_users_wait_for_each_other),
        cmocka_unit_test(its_end_is_told_and_the_name_is_free_again),
        cmocka_unit_test(it_starts_as_asked_and_refuses_nonsense),
    };
    *n = CAY_LEN(t);
    return t;
}
