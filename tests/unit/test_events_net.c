/* SPDX-License-Identifier: Apache-2.0 */
#include <lib/client/events.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <base/base.h>
#include <base/str.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#define A "caaaaaaaaaaaaaaaaaaa"
#define B "cbbbbbbbbbbbbbbbbbbb"

static cay_client client;
static char home[] = "/tmp/cay-events-XXXXXX";
static int ep;

static void put(const char *name, const char *text)
{
    CAY_AUTOFD fd = openat(client.home_fd, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static bool readable(void)
{
    struct pollfd p = { .fd = ep, .events = POLLIN };
    return poll(&p, 1, 0) == 1;
}

static const char *next(cay__net_events *n)
{
    int lost = 0;
    cay__net_events_read(n);
    const char *line = cay__net_events_take(n, &lost);
    assert_int_equal(lost, 0);
    return line ? line : "";
}

static int up(void **s)
{
    (void)s;
    cay__str_copy(home, sizeof home, "/tmp/cay-events-XXXXXX");
    assert_non_null(mkdtemp(home));
    client.home_fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ep = epoll_create1(EPOLL_CLOEXEC);
    return 0;
}

static int down(void **s)
{
    (void)s;
    static const char *const files[] = { "net/" A ".jsonl", "net/" A ".jsonl.1", "net/" B ".jsonl",
                                         "net/past.jsonl" };
    for (size_t i = 0; i < CAY_LEN(files); i++)
        unlinkat(client.home_fd, files[i], 0);
    unlinkat(client.home_fd, "net", AT_REMOVEDIR);
    close(client.home_fd);
    close(ep);
    return rmdir(home);
}

static void what_was_there_is_history(void **s)
{
    (void)s;
    mkdirat(client.home_fd, "net", 0700);
    put("net/" A ".jsonl", "{\"old\":1}\n");
    cay__net_events *n = cay__net_events_open(&client, "", ep);
    assert_non_null(n);
    assert_false(readable());
    put("net/" A ".jsonl", "{\"new\":1}\n{\"new\":2}\n{\"ha");
    put("net/past.jsonl", "{\"not\":\"ours\"}\n");
    assert_true(readable());
    assert_string_equal(next(n), "{\"new\":1}");
    assert_true(readable()); /* one more is kept */
    assert_string_equal(next(n), "{\"new\":2}");
    assert_string_equal(next(n), "");
    assert_false(readable());
    put("net/" A ".jsonl", "lf\":3}\n");
    assert_string_equal(next(n), "{\"half\":3}");
    cay__net_events_close(n);
}

static void a_new_file_follows_the_old_ones_end(void **s)
{
    (void)s;
    cay__net_events *n = cay__net_events_open(&client, A, ep); /* egress has not run yet */
    assert_non_null(n);
    mkdirat(client.home_fd, "net", 0700);
    put("net/" A ".jsonl", "{\"n\":1}\n");
    assert_string_equal(next(n), "{\"n\":1}");
    put("net/" A ".jsonl", "{\"n\":2}\n");
    assert_int_equal(
        renameat(client.home_fd, "net/" A ".jsonl", client.home_fd, "net/" A ".jsonl.1"), 0);
    put("net/" A ".jsonl", "{\"n\":3}\n");
    put("net/" B ".jsonl", "{\"another\":1}\n");
    assert_string_equal(next(n), "{\"n\":2}");
    assert_string_equal(next(n), "{\"n\":3}");
    assert_string_equal(next(n), "");
    cay__net_events_close(n);
}

static void too_much_is_counted(void **s)
{
    (void)s;
    char big[4001];
    int lost = 0, seen = 0;
    memset(big, 'x', sizeof big - 2);
    big[sizeof big - 2] = '\n';
    big[sizeof big - 1] = 0;
    mkdirat(client.home_fd, "net", 0700);
    cay__net_events *n = cay__net_events_open(&client, "", ep);
    for (int i = 0; i < 400; i++)
        put("net/" A ".jsonl", big);
    cay__net_events_read(n);
    for (int l = 0; cay__net_events_take(n, &l); l = 0) {
        seen++;
        lost += l;
    }
    assert_int_equal(seen + lost, 400);
    assert_true(lost > 0 && seen > 200);
    cay__net_events_close(n);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, up, down)
    const struct CMUnitTest tests[] = { T(what_was_there_is_history),
                                        T(a_new_file_follows_the_old_ones_end),
                                        T(too_much_is_counted) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
