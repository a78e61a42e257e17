/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/holder/input.c: clients write to a command that reads slowly, or no longer. */
#include "support/keeper.h"
#include <daemon/holder/input.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <cmocka.h>

enum { PIPE = 4096, MORE = 3 * PIPE };

static cay__loop loop;
static holder_input in;
static int reader, one[2], other[2];
static char bytes[MORE];

static int set_up(void **s)
{
    (void)s;
    int p[2];
    signal(SIGPIPE, SIG_IGN);
    assert_true(cay__loop_open(&loop));
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(fcntl(p[1], F_SETPIPE_SZ, PIPE), PIPE);
    reader = p[0];
    cay__input_open(&in, &loop, p[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, one), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, other), 0);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)('a' + i % 23);
    return 0;
}

static int tear_down(void **s)
{
    (void)s;
    cay__input_close(&in);
    cay__close_fd(&reader);
    for (int i = 0; i < 2; i++) {
        close(one[i]);
        close(other[i]);
    }
    close(loop.ep);
    return 0;
}

/* The reason of the answer that is there: "" is OK; NULL: none is. */
static const char *answer_of(const int pair[2])
{
    static struct {
        cay_msg head;
        cay_m_error error;
    } m;
    if (recv(pair[1], &m, sizeof m, MSG_DONTWAIT) < 0)
        return NULL;
    if (m.head.type == CAY_MSG_OK)
        return "";
    assert_int_equal(m.head.type, CAY_MSG_ERROR);
    return m.error.reason;
}

/* Reads n bytes, which are those of `bytes` from `at` on, and lets what waits follow. */
static void read_bytes(size_t at, size_t n)
{
    char got[PIPE];
    while (n) {
        ssize_t k = read(reader, got, CAY_MIN(n, sizeof got));
        assert_true(k > 0);
        for (ssize_t i = 0; i < k; i++)
            assert_int_equal(got[i], 'a' + (at + (size_t)i) % 23);
        at += (size_t)k;
        n -= (size_t)k;
        cay__loop_step(&loop, 0);
    }
}

static void a_write_is_answered_when_all_of_it_is_taken(void **s)
{
    (void)s;
    cay__input_write(&in, one[0], bytes, 10);
    assert_string_equal(answer_of(one), "");
    assert_null(in.writes);
    cay__input_write(&in, one[0], bytes, MORE);
    assert_null(answer_of(one));
    read_bytes(0, 10);
    read_bytes(0, PIPE);
    assert_null(answer_of(one));
    read_bytes(PIPE, MORE - PIPE);
    assert_string_equal(answer_of(one), "");
}

static void writes_wait_in_order(void **s)
{
    (void)s;
    cay__input_write(&in, one[0], bytes, MORE - 5);
    cay__input_write(&in, other[0], bytes + MORE - 5, 5);
    assert_null(answer_of(one));
    assert_null(answer_of(other));
    read_bytes(0, MORE);
    assert_string_equal(answer_of(one), "");
    assert_string_equal(answer_of(other), "");
}

static void a_write_that_waits_is_answered_when_stdin_is_closed(void **s)
{
    (void)s;
    cay__input_write(&in, one[0], bytes, MORE);
    cay__input_end(&in, false);
    assert_string_equal(answer_of(one), "stdin_closed");
    cay__input_write(&in, other[0], bytes, 1);
    assert_string_equal(answer_of(other), "stdin_closed");
}

static void a_write_that_waits_is_answered_when_nobody_reads_any_more(void **s)
{
    (void)s;
    cay__input_write(&in, one[0], bytes, MORE);
    cay__close_fd(&reader);
    cay__loop_step(&loop, 0);
    assert_string_equal(answer_of(one), "stdin_closed");
    assert_int_equal(in.w.fd, -1);
}

static void writes_of_a_client_that_left_are_dropped(void **s)
{
    (void)s;
    cay__input_write(&in, one[0], bytes, MORE);
    cay__input_write(&in, other[0], bytes + PIPE, PIPE);
    cay__input_forget(&in, one[0]);
    read_bytes(0, PIPE); /* the pipe had them */
    read_bytes(PIPE, PIPE);
    assert_null(answer_of(one));
    assert_string_equal(answer_of(other), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_write_is_answered_when_all_of_it_is_taken, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(writes_wait_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_write_that_waits_is_answered_when_stdin_is_closed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_write_that_waits_is_answered_when_nobody_reads_any_more,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(writes_of_a_client_that_left_are_dropped, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
