/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines and cancel descriptors of calls, and the operations that are reported for them. */
#include <base/base.h>
#include <base/call.h>
#include <base/fd.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/time.h>
#include <cmocka.h>

typedef struct pipe_ends {
    int in, out;
} pipe_ends;

static pipe_ends make_pipe(void)
{
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    return (pipe_ends){ .in = p[0], .out = p[1] };
}

static void close_pipe(pipe_ends *p)
{
    cay__close_fd(&p->in);
    cay__close_fd(&p->out);
}
#define AUTOPIPE __attribute__((cleanup(close_pipe))) pipe_ends

static void no_call_has_no_bounds(void **s)
{
    (void)s;
    const cay_call zero = { .size = sizeof zero };
    assert_int_equal(cay__call_left(NULL), -1);
    assert_int_equal(cay__call_left(&zero), -1);
    assert_int_equal(cay__call_cancel(NULL), -1);
    assert_int_equal(cay__call_cancel(&zero), -1); /* 0 means none, not standard input */
    assert_int_equal(cay__call_check(NULL, "it", NULL), 0);
    assert_int_equal(cay__call_check(&zero, "it", NULL), 0);
    assert_null(cay__call_user(NULL));
}

static void time_left_is_bounded_at_both_ends(void **s)
{
    (void)s;
    cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() + 60000 };
    assert_in_range(cay__call_left(&c), 1, 60000);
    c.deadline_ms = cay__now_ms() - 1;
    assert_int_equal(cay__call_left(&c), 0);
    c.deadline_ms = 1;
    assert_int_equal(cay__call_left(&c), 0);
    c.deadline_ms = INT64_MAX;
    assert_int_equal(cay__call_left(&c), INT_MAX);
    c.deadline_ms = -5; /* no deadline */
    assert_int_equal(cay__call_left(&c), -1);
}

static void a_passed_deadline_is_a_timeout_that_may_be_repeated(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    const cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() - 1 };
    assert_int_equal(cay__call_check(&c, "list /data", &err), CAY_ETIMEOUT);
    assert_int_equal(err.code, CAY_ETIMEOUT);
    assert_int_equal(err.retry, CAY_RETRY_YES);
    assert_string_equal(err.reason, "deadline");
    assert_string_equal(err.msg, "list /data: the deadline of the call passed");
    assert_int_equal(cay__call_check(&c, "it", NULL), CAY_ETIMEOUT);
}

static void a_readable_cancel_descriptor_cancels(void **s)
{
    (void)s;
    AUTOPIPE p = make_pipe();
    cay_err err = CAY_ERR_INIT;
    const cay_call c = { .size = sizeof c, .cancel_fd = p.in };
    assert_int_equal(cay__call_check(&c, "it", &err), 0);
    assert_int_equal(err.code, 0);
    assert_int_equal(write(p.out, "x", 1), 1);
    assert_int_equal(cay__call_check(&c, "it", &err), CAY_ECANCELED);
    assert_string_equal(err.reason, "canceled");
    assert_string_equal(err.msg, "it: canceled");
    /* It stays canceled: nobody reads the byte. */
    assert_int_equal(cay__call_check(&c, "it", NULL), CAY_ECANCELED);
}

static void a_caller_that_goes_away_cancels(void **s)
{
    (void)s;
    AUTOPIPE p = make_pipe();
    const cay_call c = { .size = sizeof c, .cancel_fd = p.in };
    cay__close_fd(&p.out);
    assert_int_equal(cay__call_check(&c, "it", NULL), CAY_ECANCELED);
    AUTOPIPE q = make_pipe();
    assert_int_equal(cay__call_wait(&c, q.in, POLLIN, "it", NULL), CAY_ECANCELED);
}

static void a_cancel_counts_before_a_deadline(void **s)
{
    (void)s;
    AUTOPIPE p = make_pipe();
    assert_int_equal(write(p.out, "x", 1), 1);
    const cay_call c = { .size = sizeof c, .cancel_fd = p.in, .deadline_ms = 1 };
    assert_int_equal(cay__call_check(&c, "it", NULL), CAY_ECANCELED);
    AUTOPIPE q = make_pipe();
    assert_int_equal(cay__call_wait(&c, q.in, POLLIN, "it", NULL), CAY_ECANCELED);
}

static void a_wait_ends_when_the_descriptor_is_ready(void **s)
{
    (void)s;
    AUTOPIPE p = make_pipe();
    const cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() + 60000 };
    assert_int_equal(cay__call_wait(&c, p.out, POLLOUT, "it", NULL), 0);
    assert_int_equal(write(p.out, "x", 1), 1);
    assert_int_equal(cay__call_wait(&c, p.in, POLLIN, "it", NULL), 0);
    assert_int_equal(cay__call_wait(NULL, p.in, POLLIN, "it", NULL), 0);
}

static void a_ready_descriptor_counts_before_a_passed_deadline(void **s)
{
    (void)s;
    AUTOPIPE p = make_pipe();
    assert_int_equal(write(p.out, "x", 1), 1);
    const cay_call c = { .size = sizeof c, .deadline_ms = 1 };
    assert_int_equal(cay__call_wait(&c, p.in, POLLIN, "it", NULL), 0);
}

static void a_cancel_counts_before_a_ready_descriptor(void **s)
{
    (void)s;
    AUTOPIPE p = make_pipe();
    AUTOPIPE q = make_pipe();
    assert_int_equal(write(p.out, "x", 1), 1);
    assert_int_equal(write(q.out, "x", 1), 1);
    const cay_call c = { .size = sizeof c, .cancel_fd = q.in };
    assert_int_equal(cay__call_wait(&c, p.in, POLLIN, "it", NULL), CAY_ECANCELED);
}

static void a_hangup_ends_a_wait_for_input(void **s)
{
    (void)s;
    AUTOPIPE p = make_pipe();
    cay__close_fd(&p.out);
    assert_int_equal(cay__call_wait(NULL, p.in, POLLIN, "it", NULL), 0);
    AUTOPIPE q = make_pipe();
    cay__close_fd(&q.in);
    assert_int_equal(cay__call_wait(NULL, q.out, POLLOUT, "it", NULL), 0);
}

static void a_wait_lasts_until_its_deadline_and_no_longer(void **s)
{
    (void)s;
    AUTOPIPE p = make_pipe();
    cay_err err = CAY_ERR_INIT;
    int64_t began = cay__now_ms();
    const cay_call c = { .size = sizeof c, .deadline_ms = began + 60 };
    assert_int_equal(cay__call_wait(&c, p.in, POLLIN, "read", &err), CAY_ETIMEOUT);
    assert_true(cay__now_ms() >= c.deadline_ms);
    assert_true(cay__now_ms() < began + 10000);
    assert_string_equal(err.reason, "deadline");
    /* A descriptor of -1 is only time. */
    const cay_call d = { .size = sizeof d, .deadline_ms = cay__now_ms() + 5 };
    assert_int_equal(cay__call_wait(&d, -1, POLLIN, "pause", NULL), CAY_ETIMEOUT);
}

static void *write_later(void *arg)
{
    const int *fd = arg;
    poll(NULL, 0, 20); /* most likely the other thread waits by now; if not, nothing is lost */
    if (write(*fd, "x", 1) != 1)
        abort();
    return NULL;
}

static void a_cancel_from_another_thread_ends_a_wait(void **s)
{
    (void)s;
    AUTOPIPE p = make_pipe();
    AUTOPIPE q = make_pipe();
    pthread_t th;
    const cay_call c = { .size = sizeof c,
                         .cancel_fd = q.in,
                         .deadline_ms = cay__now_ms() + 60000 };
    assert_int_equal(pthread_create(&th, NULL, write_later, &q.out), 0);
    assert_int_equal(cay__call_wait(&c, p.in, POLLIN, "it", NULL), CAY_ECANCELED);
    pthread_join(th, NULL);
    assert_true(cay__call_left(&c) > 0);
}

static volatile sig_atomic_t alarms;
static void count_alarm(int sig)
{
    (void)sig;
    alarms++;
}

static void signals_neither_end_nor_prolong_a_wait(void **s)
{
    (void)s;
    AUTOPIPE p = make_pipe();
    struct sigaction sa = { .sa_handler = count_alarm }, old;
    assert_int_equal(sigaction(SIGALRM, &sa, &old), 0);
    const struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { { 0, 0 }, { 0, 0 } };
    alarms = 0;
    int64_t began = cay__now_ms();
    setitimer(ITIMER_REAL, &often, NULL);
    const cay_call c = { .size = sizeof c, .deadline_ms = began + 100 };
    int rc = cay__call_wait(&c, p.in, POLLIN, "it", NULL);
    int64_t ended = cay__now_ms();
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    assert_int_equal(rc, CAY_ETIMEOUT);
    assert_true(alarms > 1);
    assert_true(ended >= c.deadline_ms);
    assert_true(ended < began + 10000);
}

static void a_call_within_takes_the_earlier_end(void **s)
{
    (void)s;
    int64_t now = cay__now_ms();
    const cay_call late = { .size = sizeof late,
                            .deadline_ms = now + 3600000,
                            .cancel_fd = 77,
                            .actor = "a",
                            .user = "u" };
    const cay_call soon = { .size = sizeof soon, .deadline_ms = now + 10 };
    cay_call c = cay__call_within(&late, 1000);
    assert_in_range(c.deadline_ms, now + 1000, now + 60000);
    assert_int_equal(c.cancel_fd, 77);
    assert_null(cay__call_user(&c));
    const cay_call open_end = { .size = sizeof open_end, .cancel_fd = 77 };
    c = cay__call_within(&open_end, 1000);
    assert_in_range(c.deadline_ms, now + 1000, now + 60000);
    c = cay__call_within(&soon, 1000);
    assert_int_equal(c.deadline_ms, now + 10);
    c = cay__call_within(NULL, 1000);
    assert_in_range(c.deadline_ms, now + 1000, now + 60000);
    assert_int_equal(cay__call_cancel(&c), -1);
    c = cay__call_within(NULL, 0);
    assert_int_equal(cay__call_check(&c, "it", NULL), CAY_ETIMEOUT);
    /* Its size says that it ends before trace: nothing of the caller is reported for it. */
    assert_int_equal(c.size, offsetof(cay_call, trace));
}

static void a_call_of_an_older_caller_is_copied_as_far_as_it_goes(void **s)
{
    (void)s;
    cay_call given = {
        .size = offsetof(cay_call, user), .deadline_ms = 5, .actor = "a", .user = "not theirs"
    };
    cay_call c = cay__call_copy(&given);
    assert_int_equal(c.size, sizeof c);
    assert_int_equal(c.deadline_ms, 5);
    assert_string_equal(c.actor, "a");
    assert_null(c.user);
    assert_null(cay__call_user(&given));
    given.size = sizeof given;
    assert_string_equal(cay__call_copy(&given).user, "not theirs");
    assert_string_equal(cay__call_user(&given), "not theirs");
    given.size = 2 * sizeof given; /* a newer caller */
    assert_string_equal(cay__call_copy(&given).user, "not theirs");
    given.size = 0; /* its bounds hold all the same */
    c = cay__call_copy(&given);
    assert_int_equal(c.deadline_ms, 5);
    assert_null(c.actor);
    c = cay__call_copy(NULL);
    assert_int_equal(c.size, sizeof c);
    assert_int_equal(c.deadline_ms, 0);
}

typedef struct report {
    unsigned n;
    cay_op op;
    char name[32], sandbox[32], process[32];
    int exit_code, fault;
    bool exited, looked, alive;
} report;

/* Everything that an operation points to lives only now. */
static void note_report(void *arg, const cay_op *op)
{
    report *r = arg;
    r->n++;
    r->op = *op;
    snprintf(r->name, sizeof r->name, "%s", op->name);
    snprintf(r->sandbox, sizeof r->sandbox, "%s", op->sandbox);
    snprintf(r->process, sizeof r->process, "%s", op->process);
    r->exited = op->exit_code != NULL;
    r->exit_code = op->exit_code ? *op->exit_code : 0;
    r->looked = op->alive != NULL;
    r->alive = op->alive && *op->alive;
    r->fault = op->fault ? op->fault->code : 0;
}

static int fail_in_operation(const cay_call *call, cay_err *err)
{
    CAY__OP(call, "file.read", "c234", err);
    return cay_fail(err, CAY_ENOENT, "nothing there");
}

static void an_operation_is_reported_when_its_function_returns(void **s)
{
    (void)s;
    report r = { 0 };
    const cay_call c = { .size = sizeof c, .on_op = note_report, .on_op_arg = &r };
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(fail_in_operation(&c, &err), CAY_ENOENT);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.name, "file.read");
    assert_string_equal(r.sandbox, "c234");
    assert_string_equal(r.process, "");
    assert_int_equal(r.fault, CAY_ENOENT);
    assert_false(r.exited || r.looked);
    assert_true(r.op.began_ns > 0 && r.op.ended_ns >= r.op.began_ns);
    /* An error that was there before is not the fault of the next operation. */
    {
        CAY__OP(&c, "sandbox.describe", NULL, &err);
        cay__op_alive(&op_, false);
    }
    assert_int_equal(r.n, 2);
    assert_int_equal(r.fault, 0);
    assert_string_equal(r.sandbox, "");
    assert_true(r.looked && !r.alive);
}

static void an_operation_carries_what_becomes_known_later(void **s)
{
    (void)s;
    report r = { 0 };
    const cay_call c = { .size = sizeof c, .on_op = note_report, .on_op_arg = &r };
    {
        CAY__OP(&c, "process.run", "old", NULL);
        cay__op_sandbox(&op_, "cccccccccccccccccccc");
        cay__op_process(&op_, "an-id-that-is-much-longer-than-any-id");
        cay__op_exit(&op_, 0);
        op_.bytes = 7;
        op_.port = 8080;
    }
    assert_string_equal(r.sandbox, "cccccccccccccccccccc");
    assert_string_equal(r.process, "an-id-that-is-much-long");
    assert_true(r.exited);
    assert_int_equal(r.exit_code, 0);
    assert_int_equal(r.op.bytes, 7);
    assert_int_equal(r.op.port, 8080);
    assert_int_equal(r.fault, 0);
}

static void an_older_caller_gets_no_reports(void **s)
{
    (void)s;
    report r = { 0 };
    cay_call c = { .size = offsetof(cay_call, on_op_arg), .on_op = note_report, .on_op_arg = &r };
    fail_in_operation(&c, NULL);
    c = (cay_call){ .size = sizeof c };
    fail_in_operation(&c, NULL);
    fail_in_operation(NULL, NULL);
    cay_call within = cay__call_within(
        &(cay_call){ .size = sizeof c, .on_op = note_report, .on_op_arg = &r }, 1000);
    fail_in_operation(&within, NULL);
    assert_int_equal(r.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_call_has_no_bounds),
        cmocka_unit_test(time_left_is_bounded_at_both_ends),
        cmocka_unit_test(a_passed_deadline_is_a_timeout_that_may_be_repeated),
        cmocka_unit_test(a_readable_cancel_descriptor_cancels),
        cmocka_unit_test(a_caller_that_goes_away_cancels),
        cmocka_unit_test(a_cancel_counts_before_a_deadline),
        cmocka_unit_test(a_wait_ends_when_the_descriptor_is_ready),
        cmocka_unit_test(a_ready_descriptor_counts_before_a_passed_deadline),
        cmocka_unit_test(a_cancel_counts_before_a_ready_descriptor),
        cmocka_unit_test(a_hangup_ends_a_wait_for_input),
        cmocka_unit_test(a_wait_lasts_until_its_deadline_and_no_longer),
        cmocka_unit_test(a_cancel_from_another_thread_ends_a_wait),
        cmocka_unit_test(signals_neither_end_nor_prolong_a_wait),
        cmocka_unit_test(a_call_within_takes_the_earlier_end),
        cmocka_unit_test(a_call_of_an_older_caller_is_copied_as_far_as_it_goes),
        cmocka_unit_test(an_operation_is_reported_when_its_function_returns),
        cmocka_unit_test(an_operation_carries_what_becomes_known_later),
        cmocka_unit_test(an_older_caller_gets_no_reports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
