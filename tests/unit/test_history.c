/* SPDX-License-Identifier: Apache-2.0 */
#include <base/fd.h>
#include <cay/error.h>
#include <fcntl.h>
#include <server/history.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/stat.h>

static char home[] = "/tmp/cay-history-XXXXXX";
static int dir = -1;
#define DAY  ((int64_t)CAY__HISTORY_STEP_MS * CAY__HISTORY_MOMENTS)
#define THEN (DAY * 20000) /* a moment at the beginning of the ring */

typedef struct seen {
    size_t n;
    cay__moment m[CAY__HISTORY_POINTS + 1];
    double cpu[CAY__HISTORY_POINTS + 1];
    cay__pace last;
} seen;

static void see(const cay__moment *m, const cay__pace *pace, void *arg)
{
    seen *s = arg;
    assert_true(s->n < CAY__HISTORY_POINTS);
    s->m[s->n] = *m;
    s->cpu[s->n++] = pace->cpu;
    s->last = *pace;
}

static void put(const char *id, int64_t ms, uint64_t cpu_us)
{
    assert_int_equal(
        cay__history_put(dir, id, &(cay__moment){ ms, cpu_us, 7, 9, cpu_us / 100, cpu_us / 50 }),
        0);
}

static seen *read_all(const char *id, int64_t from, int64_t to)
{
    static seen s;
    s.n = 0;
    size_t n = cay__history_read(dir, id, from, to, see, &s);
    assert_int_equal(n, s.n);
    return &s;
}

static void what_is_put_is_read_in_its_order(void **state)
{
    (void)state;
    assert_int_equal(read_all("none", 0, INT64_MAX)->n, 0);
    put("a", THEN + 5000, 3000000);
    put("a", THEN, 1000000);
    put("a", THEN + 10000, 3000000);
    seen *s = read_all("a", 0, INT64_MAX);
    assert_int_equal(s->n, 3);
    assert_int_equal(s->m[0].ms, THEN);
    assert_true(s->cpu[0] == 0);                       /* nothing is before it */
    assert_true(s->cpu[1] > 39.9 && s->cpu[1] < 40.1); /* 2 s of CPU in 5 s */
    assert_true(s->cpu[2] == 0);
    assert_int_equal(s->m[2].memory, 7);
    assert_int_equal(s->m[2].disk, 9);
    s = read_all("a", 0, THEN + 5000);
    assert_true(s->last.net_rx > 3999 && s->last.net_rx < 4001); /* 20 kB in 5 s */
    assert_true(s->last.net_tx > 7999 && s->last.net_tx < 8001);
}

static void a_range_has_its_ends_and_knows_what_was_before(void **state)
{
    (void)state;
    seen *s = read_all("a", THEN + 5000, THEN + 9999);
    assert_int_equal(s->n, 1);
    assert_true(s->cpu[0] > 39.9); /* of the moment before the range */
    assert_int_equal(read_all("a", THEN + 10001, INT64_MAX)->n, 0);
    assert_int_equal(read_all("a", 0, THEN - 1)->n, 0);
}

static void a_pause_and_a_new_start_are_no_use_of_cpu(void **state)
{
    (void)state;
    put("b", THEN, 5000000);
    put("b", THEN + 3600000, 9000000); /* an hour later */
    put("b", THEN + 3605000, 100);     /* begun anew */
    seen *s = read_all("b", 0, INT64_MAX);
    assert_int_equal(s->n, 3);
    assert_true(s->cpu[1] == 0 && s->cpu[2] == 0);
}

static void a_day_is_kept_and_long_times_are_told_evenly(void **state)
{
    (void)state;
    for (int64_t i = 0; i < CAY__HISTORY_MOMENTS + 100; i++)
        put("c", THEN + i * CAY__HISTORY_STEP_MS, (uint64_t)i * 500000); /* a tenth of a CPU */
    seen *s = read_all("c", 0, INT64_MAX);
    assert_in_range(s->n, CAY__HISTORY_POINTS / 2, CAY__HISTORY_POINTS);
    assert_int_equal(s->m[s->n - 1].ms,
                     THEN + (CAY__HISTORY_MOMENTS + 99) * (int64_t)CAY__HISTORY_STEP_MS);
    assert_true(s->m[0].ms >=
                THEN + 100 * (int64_t)CAY__HISTORY_STEP_MS); /* the first hundred are gone */
    for (size_t i = 1; i < s->n; i++) {
        assert_int_equal(s->m[i].ms - s->m[i - 1].ms, s->m[1].ms - s->m[0].ms);
        assert_true(s->cpu[i] > 9.9 && s->cpu[i] < 10.1);
    }
    s = read_all("c", THEN + DAY, THEN + DAY + 60000);
    assert_int_equal(s->n, 13);
    struct stat st;
    assert_int_equal(fstatat(dir, "use.c", &st, 0), 0);
    assert_int_equal(st.st_size, CAY__HISTORY_MOMENTS * sizeof(cay__moment));
}

static void a_file_that_is_damaged_tells_nothing_false(void **state)
{
    (void)state;
    char junk[5000];
    memset(junk, 0x5a, sizeof junk);
    CAY_AUTOFD fd = openat(dir, "use.d", O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, junk, sizeof junk), sizeof junk);
    assert_int_equal(read_all("d", 0, INT64_MAX)->n, 0);
    assert_int_equal(symlinkat("use.c", dir, "use.e"), 0);
    assert_int_equal(read_all("e", 0, INT64_MAX)->n, 0);
    assert_int_equal(cay__history_put(dir, "e", &(cay__moment){ .ms = 1 }), -1);
}

static bool only_c(const char *id, void *arg)
{
    (void)arg;
    return !strcmp(id, "c");
}

static void those_of_sandboxes_that_are_gone_go(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(mkdirat(dir, "other", 0700), 0);
    CAY_AUTOFD former =
        openat(dir, "figures.c", O_WRONLY | O_CREAT, 0600); /* of a version that kept less */
    for (int twice = 0; twice < 2; twice++) {
        put("f", THEN, 1);
        cay__history_sweep(dir, only_c, NULL);
        assert_int_equal(fstatat(dir, "use.f", &st, 0), -1);
        assert_int_equal(fstatat(dir, "figures.c", &st, 0), -1);
    }
    assert_int_equal(fstatat(dir, "use.c", &st, 0), 0);
    assert_int_equal(fstatat(dir, "other", &st, 0), 0);
    cay__history_drop(dir, "c");
    assert_int_equal(fstatat(dir, "use.c", &st, 0), -1);
    assert_int_equal(unlinkat(dir, "other", AT_REMOVEDIR), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_read_in_its_order),
        cmocka_unit_test(a_range_has_its_ends_and_knows_what_was_before),
        cmocka_unit_test(a_pause_and_a_new_start_are_no_use_of_cpu),
        cmocka_unit_test(a_day_is_kept_and_long_times_are_told_evenly),
        cmocka_unit_test(a_file_that_is_damaged_tells_nothing_false),
        cmocka_unit_test(those_of_sandboxes_that_are_gone_go),
    };
    if (!mkdtemp(home))
        return 1;
    dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = dir < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(home);
    return rc;
}
