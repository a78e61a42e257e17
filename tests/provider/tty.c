/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals: size, resize, job control, exact exit. */
#include "suite.h"

static cay_proc *terminal(const char *line, int *fd)
{
    ERR;
    NEED_SHELL();
    NEED(proc_resize);
    cay_proc *p = start(
        S.sb, (cay_spawn){ .shell = line, .tty = true, .cols = 100, .rows = 40, .attach = true });
    OK(cay_proc_output(p, NULL, CAY_STDOUT, 0, fd, E));
    return p;
}

static void type(cay_proc *p, const char *text)
{
    ERR;
    OK(cay_proc_write(p, NULL, text, strlen(text), E));
}

static void a_terminal_has_its_size_and_can_be_resized(void **state)
{
    (void)state;
    ERR;
    CAY_AUTOFD fd = -1;
    cay_proc *p = terminal(
        "test -t 0 && test -t 1 && test -t 2 && echo tty; stty size; read x; stty size", &fd);
    expect(fd, "tty");
    expect(fd, "40 100");
    OK(cay_proc_resize(p, NULL, 132, 50, E));
    type(p, "\n");
    expect(fd, "50 132");
    assert_int_equal(wait_for(p, 20000).code, 0);
    assert_int_equal(cay_proc_resize(p, NULL, 0, 5, E), CAY_EINVAL);
    cay_proc_unref(p);
}

static void a_terminal_is_controlling_and_has_job_control(void **state)
{
    (void)state;
    CAY_AUTOFD fd = -1;
    cay_proc *p = terminal("exec bash --norc --noprofile --noediting -i", &fd);
    type(p, "PS1=re\"ady\"; : > /dev/tty && echo opened\"-tty\"\n");
    expect(fd, "opened-tty\r\nready");
    type(p, "cat\n");
    type(p, "marker-one\n");
    expect(fd, "marker-one\r\nmarker-one"); /* the terminal's echo, then cat's */
    type(p, "\032");                        /* Ctrl-Z */
    expect(fd, "Stopped");
    expect(fd, "ready");
    type(p, "fg\n");
    expect(fd, "cat\r\n");
    type(p, "marker-two\n");
    expect(fd, "marker-two\r\nmarker-two");
    type(p, "\003"); /* Ctrl-C */
    expect(fd,
           "ready"); /* what is typed before the prompt is back is thrown away with the signal */
    type(p, "echo still\"-here\"\n");
    expect(fd, "still-here");
    type(p, "exit 7\n");
    assert_int_equal(wait_for(p, 20000).code, 7);
    cay_proc_unref(p);
}

static void end_of_input_on_a_terminal(void **state)
{
    (void)state;
    ERR;
    CAY_AUTOFD fd = -1;
    cay_proc *p = terminal("echo go; cat; echo ended", &fd);
    expect(fd, "go");
    OK(cay_proc_close_stdin(p, NULL, E));
    expect(fd, "ended");
    assert_int_equal(wait_for(p, 20000).code, 0);
    int none = -1;
    assert_int_equal(cay_proc_output(p, NULL, CAY_STDERR, 0, &none, E), CAY_EINVAL);
    cay_proc_unref(p);
}

static void a_signal_that_ends_it_is_told(void **state)
{
    (void)state;
    ERR;
    CAY_AUTOFD fd = -1;
    cay_proc *p = terminal("echo go; sleep 60", &fd);
    expect(fd, "go");
    OK(cay_proc_signal(p, NULL, SIGHUP, CAY_SCOPE_TREE, E));
    cay_exit x = wait_for(p, 20000);
    assert_int_equal(x.code, 128 + SIGHUP);
    cay_proc_unref(p);
    p = start(S.sb, (cay_spawn){ .shell = "true" });
    assert_int_equal(cay_proc_resize(p, NULL, 80, 24, E), CAY_ETYPE);
    wait_for(p, 20000);
    cay_proc_unref(p);
}

tests suite_tty(size_t *n)
{
    static const struct CMUnitTest t[] = {
        cmocka_unit_test(a_terminal_has_its_size_and_can_be_resized),
        cmocka_unit_test(a_terminal_is_controlling_and_has_job_control),
        cmocka_unit_test(end_of_input_on_a_terminal),
        cmocka_unit_test(a_signal_that_ends_it_is_told),
    };
    *n = CAY_LEN(t);
    return t;
}
