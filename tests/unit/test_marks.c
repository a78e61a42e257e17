/* SPDX-License-Identifier: Apache-2.0 */
/* When the bytes of a stream came, in a table of fixed size. */
#include <base/base.h>
#include <base/fd.h>
#include <base/marks.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static cay__marks m;

static int empty_marks(void **s)
{
    (void)s;
    memset(&m, 0, sizeof m);
    return 0;
}

/* One mark after the other, each ten bytes and ten milliseconds after the last, until it is full.
 */
static void fill_marks(void)
{
    for (uint64_t i = 0; i < CAY__MARKS; i++)
        cay__marks_add(&m, 0, i * 10, i * CAY__MARKS_APART_MS);
    assert_int_equal(m.n, CAY__MARKS);
}

static void without_marks_no_time_is_known(void **s)
{
    (void)s;
    uint64_t until = 0;
    assert_int_equal(cay__marks_find(&m, 0, &until), 0);
    assert_true(until == UINT64_MAX);
    assert_int_equal(cay__marks_find(&m, UINT64_MAX, &until), 0);
}

static void bytes_have_the_time_of_the_mark_before_them(void **s)
{
    (void)s;
    uint64_t until;
    cay__marks_add(&m, 0, 5, 0);
    cay__marks_add(&m, 0, 20, 100);
    cay__marks_add(&m, 0, 30, 250);
    static const struct {
        uint64_t at, until;
        uint32_t ms;
    } rows[] = {
        { 0, 5, 0 }, /* before the first mark: not known */
        { 4, 5, 0 },
        { 5, 20, 1 }, /* 0 ms, and one */
        { 19, 20, 1 },
        { 20, 30, 101 },
        { 29, 30, 101 },
        { 30, UINT64_MAX, 251 },
        { UINT64_MAX, UINT64_MAX, 251 },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        assert_int_equal(cay__marks_find(&m, rows[i].at, &until), rows[i].ms);
        assert_true(until == rows[i].until);
    }
}

static void bytes_that_come_close_together_share_a_mark(void **s)
{
    (void)s;
    uint64_t until;
    cay__marks_add(&m, 0, 0, 1000);
    cay__marks_add(&m, 0, 10, 1000);
    cay__marks_add(&m, 0, 20, 1000 + CAY__MARKS_APART_MS - 1);
    assert_int_equal(m.n, 1);
    cay__marks_add(&m, 0, 30, 1000 + CAY__MARKS_APART_MS);
    assert_int_equal(m.n, 2);
    assert_int_equal(cay__marks_find(&m, 29, &until), 1001);
    assert_int_equal(until, 30);
    assert_int_equal(cay__marks_find(&m, 30, &until), 1001 + CAY__MARKS_APART_MS);
}

static void a_full_table_drops_the_marks_of_bytes_that_are_gone(void **s)
{
    (void)s;
    uint64_t until;
    fill_marks();
    cay__marks_add(&m, 1005, 10000, 100000); /* byte 1005 is in the middle of a mark */
    assert_int_equal(m.coarse, 0);
    assert_int_equal(m.v[0].at, 1000);
    assert_int_equal(m.n, CAY__MARKS - 100 + 1);
    assert_int_equal(cay__marks_find(&m, 1005, &until), 100 * CAY__MARKS_APART_MS + 1);
    assert_int_equal(cay__marks_find(&m, 999, &until), 0);
    assert_int_equal(cay__marks_find(&m, 10000, &until), 100001);
}

static void a_full_table_keeps_the_mark_of_the_oldest_byte(void **s)
{
    (void)s;
    fill_marks();
    cay__marks_add(&m, 1000, 10000, 100000); /* the first byte of a mark */
    assert_int_equal(m.v[0].at, 1000);
}

static void a_full_table_of_bytes_that_are_kept_grows_coarser(void **s)
{
    (void)s;
    uint64_t until;
    fill_marks();
    uint64_t later = (CAY__MARKS - 1) * CAY__MARKS_APART_MS;
    cay__marks_add(&m, 0, 10000, later + CAY__MARKS_APART_MS);
    assert_int_equal(m.coarse, 1);
    assert_int_equal(m.n, CAY__MARKS / 2 + 1);
    assert_int_equal(m.v[0].at, 0); /* the first byte keeps its time */
    assert_int_equal(cay__marks_find(&m, 10, &until), 1);
    assert_int_equal(cay__marks_find(&m, 20, &until), 2 * CAY__MARKS_APART_MS + 1);
    later += CAY__MARKS_APART_MS;
    cay__marks_add(&m, 0, 10010, later + 2 * CAY__MARKS_APART_MS - 1);
    assert_int_equal(m.n, CAY__MARKS / 2 + 1); /* too close by now */
    cay__marks_add(&m, 0, 10010, later + 2 * CAY__MARKS_APART_MS);
    assert_int_equal(m.n, CAY__MARKS / 2 + 2);
}

static void all_bytes_gone_leaves_the_last_two_marks(void **s)
{
    (void)s;
    uint64_t until;
    fill_marks();
    cay__marks_add(&m, UINT64_MAX, 10000, 100000);
    assert_int_equal(m.coarse, 0);
    assert_int_equal(m.n, 3);
    assert_int_equal(cay__marks_find(&m, 10000, &until), 100001);
}

static void a_clock_that_goes_back_begins_again(void **s)
{
    (void)s;
    uint64_t until;
    cay__marks_add(&m, 0, 0, 5000);
    cay__marks_add(&m, 0, 10, 20);
    assert_int_equal(m.n, 2);
    assert_int_equal(cay__marks_find(&m, 10, &until), 21);
}

static void a_time_too_large_for_its_field_is_the_largest(void **s)
{
    (void)s;
    uint64_t until;
    cay__marks_add(&m, 0, 0, (uint64_t)UINT32_MAX - 1);
    cay__marks_add(&m, 0, 10, (uint64_t)UINT32_MAX + 50);
    cay__marks_add(&m, 0, 20, (uint64_t)1 << 60);
    assert_int_equal(cay__marks_find(&m, 0, &until), UINT32_MAX);
    assert_int_equal(cay__marks_find(&m, 10, &until), UINT32_MAX);
    assert_int_equal(cay__marks_find(&m, 20, &until), UINT32_MAX);
}

static void times_grow_coarser_and_never_wrong(void **s)
{
    (void)s;
    uint64_t until;
    assert_int_equal(cay__marks_find(&m, 0, &until), 0);
    assert_true(until == UINT64_MAX);
    for (uint64_t i = 0; i < 100000; i++) { /* 7 bytes every 3 ms, all of them kept */
        cay__marks_add(&m, 0, i * 7, i * 3);
        assert_in_range(m.n, 1, CAY__MARKS);
    }
    for (uint64_t i = 0, before = 0; i < 100000; i += 97) {
        uint64_t ms = cay__marks_find(&m, i * 7 + 3, &until);
        assert_true(ms >= before && ms <= i * 3 + 1 && i * 3 < ms + 300000 / (CAY__MARKS / 4));
        assert_true(until > i * 7 + 3);
        before = ms;
    }
    memset(&m, 0, sizeof m);
    for (uint64_t i = 0; i < 100000; i++) /* the last thousand bytes are kept */
        cay__marks_add(&m, i > 1000 ? i - 1000 : 0, i, i * 20);
    assert_in_range(cay__marks_find(&m, 99999, &until), 99999 * 20 - (10u << m.coarse),
                    99999 * 20 + 1);
    assert_true(m.coarse <= 4 &&
                cay__marks_find(&m, 99000, &until) > 0); /* as fine as a thousand bytes allow */
}

/* Whoever holds the memory may have written anything into it. */
static void marks_that_lie_are_only_wrong(void **s)
{
    (void)s;
    static struct {
        cay__marks m;
        char after[64];
    } held;
    uint64_t until;
    for (unsigned round = 0; round < 4; round++) {
        memset(&held.m, round & 1 ? 0xff : 0x7e, sizeof held.m);
        memset(held.after, 7, sizeof held.after);
        if (round > 1)
            held.m.n = CAY__MARKS;
        for (uint64_t i = 0; i < 2000; i++) {
            cay__marks_find(&held.m, i, &until);
            assert_true(until > i);
            cay__marks_add(&held.m, i * 3, i * 5, i * 1000);
        }
        for (size_t i = 0; i < sizeof held.after; i++)
            assert_int_equal(held.after[i], 7);
    }
}

typedef struct flipped {
    cay__marks m;
    char after[64];
    int stop;
} flipped;

static void *flip_count(void *arg)
{
    flipped *h = arg;
    while (!__atomic_load_n(&h->stop, __ATOMIC_RELAXED)) {
        __atomic_store_n(&h->m.n, 3, __ATOMIC_RELAXED);
        __atomic_store_n(&h->m.n, UINT32_MAX, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* And may write it while it is read. */
static void marks_that_change_meanwhile_are_only_wrong(void **s)
{
    (void)s;
    static flipped h;
    pthread_t other;
    uint64_t until;
    assert_int_equal(pthread_create(&other, NULL, flip_count, &h), 0);
    int64_t end = cay__now_ms() + 100;
    for (uint64_t i = 0; cay__now_ms() < end; i++)
        for (int k = 0; k < 100; k++) {
            cay__marks_find(&h.m, i, &until);
            cay__marks_add(&h.m, i * 3, i * 5, i * 1000);
        }
    __atomic_store_n(&h.stop, 1, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    for (size_t i = 0; i < sizeof h.after; i++)
        assert_int_equal(h.after[i], 0);
}

#define CASE(name) cmocka_unit_test_setup(name, empty_marks)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(without_marks_no_time_is_known),
        CASE(bytes_have_the_time_of_the_mark_before_them),
        CASE(bytes_that_come_close_together_share_a_mark),
        CASE(a_full_table_drops_the_marks_of_bytes_that_are_gone),
        CASE(a_full_table_keeps_the_mark_of_the_oldest_byte),
        CASE(a_full_table_of_bytes_that_are_kept_grows_coarser),
        CASE(all_bytes_gone_leaves_the_last_two_marks),
        CASE(a_clock_that_goes_back_begins_again),
        CASE(a_time_too_large_for_its_field_is_the_largest),
        CASE(times_grow_coarser_and_never_wrong),
        CASE(marks_that_lie_are_only_wrong),
        CASE(marks_that_change_meanwhile_are_only_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
