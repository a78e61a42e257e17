/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/fd.h>
#include <base/loop.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <cmocka.h>

static cay__loop L;
static char order[64];
static size_t norder;

typedef struct thing {
    cay__watch w;
    cay__timer t;
    char name;
    struct thing *other; /* removed by this one */
    int fired;
} thing;

#define OF_TIMER(p) ((thing *)((char *)(p)-offsetof(thing, t)))

static int set_up(void **s)
{
    (void)s;
    memset(order, 0, sizeof order);
    norder = 0;
    return cay__loop_open(&L) ? 0 : -1;
}

static int tear_down(void **s)
{
    (void)s;
    close(L.ep);
    return 0;
}

static void note(thing *x)
{
    x->fired++;
    order[norder++ % (sizeof order - 1)] = x->name;
}

static void on_ready(cay__watch *w, uint32_t ev)
{
    thing *x = (thing *)w;
    assert_true(ev & EPOLLIN);
    note(x);
    if (x->other && x->other->w.fd >= 0) {
        cay__loop_del(&L, &x->other->w);
        cay__close_fd(&x->other->w.fd);
    }
}

static void on_time(cay__timer *t)
{
    thing *x = OF_TIMER(t);
    note(x);
    if (x->other)
        cay__timer_cancel(&x->other->t);
}

static thing ready(char name)
{
    return (thing){ .name = name,
                    .w = { .fd = eventfd(1, EFD_CLOEXEC), .events = EPOLLIN, .fn = on_ready } };
}

static void a_ready_descriptor_is_told_until_it_is_read(void **s)
{
    (void)s;
    thing a = ready('a');
    uint64_t v;
    assert_true(cay__loop_add(&L, &a.w));
    cay__loop_step(&L, 0);
    cay__loop_step(&L, 0);
    assert_int_equal(a.fired, 2);
    assert_int_equal(read(a.w.fd, &v, sizeof v), sizeof v);
    cay__loop_step(&L, 0);
    assert_int_equal(a.fired, 2);
    assert_int_equal(write(a.w.fd, &v, sizeof v), sizeof v);
    assert_true(cay__loop_set(&L, &a.w, 0)); /* kept, silent */
    cay__loop_step(&L, 0);
    assert_int_equal(a.fired, 2);
    assert_true(cay__loop_set(&L, &a.w, EPOLLIN));
    cay__loop_step(&L, 0);
    assert_int_equal(a.fired, 3);
    assert_false(cay__loop_add(&L, &a.w)); /* a second time is a mistake that is told */
    cay__loop_del(&L, &a.w);
    cay__loop_step(&L, 0);
    assert_int_equal(a.fired, 3);
    close(a.w.fd);
}

static void what_was_removed_is_not_told_in_the_same_round(void **s)
{
    (void)s;
    thing a = ready('a'), b = ready('b');
    a.other = &b;
    b.other = &a; /* whoever is first removes the other */
    assert_true(cay__loop_add(&L, &a.w) && cay__loop_add(&L, &b.w));
    cay__loop_step(&L, 0);
    assert_int_equal(a.fired + b.fired, 1);
    cay__loop_step(&L, 0);
    assert_int_equal(a.fired + b.fired, 2);
    assert_true(!a.fired || !b.fired);
    close(a.fired ? a.w.fd : b.w.fd);
}

static void one_may_remove_itself(void **s)
{
    (void)s;
    thing a = ready('a');
    a.other = &a;
    assert_true(cay__loop_add(&L, &a.w));
    cay__loop_step(&L, 0);
    cay__loop_step(&L, 0);
    assert_int_equal(a.fired, 1);
}

static void timers_fire_in_order_and_once(void **s)
{
    (void)s;
    thing t[] = { { .name = 'a' }, { .name = 'b' }, { .name = 'c' }, { .name = 'd' } };
    int64_t now = cay__boot_ms();
    const int64_t at[] = { now - 1, now - 3, now - 1, now + 60000 };
    for (size_t i = 0; i < CAY_LEN(t); i++) {
        t[i].t.fn = on_time;
        cay__timer_arm(&L, &t[i].t, at[i]);
    }
    cay__loop_step(&L, 0);
    assert_string_equal(order, "bac"); /* the same moment: in the order of arming */
    cay__loop_step(&L, 0);
    assert_string_equal(order, "bac");
    cay__timer_cancel(&t[3].t);
    cay__timer_cancel(&t[3].t); /* twice is harmless */
    assert_null(L.timers);
}

static void a_timer_may_cancel_one_that_is_due(void **s)
{
    (void)s;
    thing a = { .name = 'a', .t.fn = on_time }, b = { .name = 'b', .t.fn = on_time },
          c = { .name = 'c', .t.fn = on_time };
    a.other = &b;
    cay__timer_arm(&L, &a.t, 1);
    cay__timer_arm(&L, &b.t, 2);
    cay__timer_arm(&L, &c.t, 3);
    cay__loop_step(&L, 0);
    assert_string_equal(order, "ac");
}

static void arming_again_moves_it(void **s)
{
    (void)s;
    thing a = { .name = 'a', .t.fn = on_time }, b = { .name = 'b', .t.fn = on_time };
    cay__timer_arm(&L, &a.t, 1);
    cay__timer_arm(&L, &b.t, 2);
    cay__timer_arm(&L, &a.t, 3);
    cay__timer_arm(&L, &b.t, cay__boot_ms() + 60000);
    cay__loop_step(&L, 0);
    assert_string_equal(order, "a");
    cay__timer_cancel(&b.t);
}

static void a_step_waits_for_the_next_timer_and_no_longer(void **s)
{
    (void)s;
    thing a = { .name = 'a', .t.fn = on_time };
    int64_t t0 = cay__boot_ms();
    cay__timer_arm(&L, &a.t, t0 + 30);
    while (!a.fired)
        cay__loop_step(&L, -1);
    int64_t took = cay__boot_ms() - t0;
    assert_true(took >= 30 && took < 5000);
    t0 = cay__boot_ms();
    cay__loop_step(&L, 10);
    assert_true(cay__boot_ms() - t0 < 5000);
}

static void more_than_one_batch_is_served(void **s)
{
    (void)s;
    enum { N = 3 * CAY__LOOP_BATCH };
    static thing t[N];
    int fired = 0;
    for (int i = 0; i < N; i++) {
        t[i] = ready('.');
        assert_true(cay__loop_add(&L, &t[i].w));
    }
    for (int i = 0; i < 6; i++)
        cay__loop_step(&L, 0);
    for (int i = 0; i < N; i++) {
        fired += t[i].fired > 0;
        cay__loop_del(&L, &t[i].w);
        close(t[i].w.fd);
    }
    assert_int_equal(fired, N); /* epoll goes round: nobody starves */
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_ready_descriptor_is_told_until_it_is_read),
        CASE(what_was_removed_is_not_told_in_the_same_round),
        CASE(one_may_remove_itself),
        CASE(timers_fire_in_order_and_once),
        CASE(a_timer_may_cancel_one_that_is_due),
        CASE(arming_again_moves_it),
        CASE(a_step_waits_for_the_next_timer_and_no_longer),
        CASE(more_than_one_batch_is_served),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
