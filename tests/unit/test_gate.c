/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <pthread.h>
#include <server/http/limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <cmocka.h>

static cay__gate *gate(unsigned rate, unsigned burst)
{
    static const char *const hosts[] = { "cay.example.org", NULL }, *const origins[] = {
        "https://console.example.net", NULL
    };
    return cay__gate_new(&(cay__gate_conf){
        .domain = "boxes.test", .hosts = hosts, .origins = origins, .rate = rate, .burst = burst });
}

static void hosts_of_others_are_refused(void **s)
{
    (void)s;
    cay__gate *g = gate(0, 0);
    cay_err err = CAY_ERR_INIT;
    static const char *const good[] = { "",
                                        "localhost",
                                        "localhost:8090",
                                        "LOCALHOST",
                                        "8080-cabc.localhost:8090",
                                        "127.0.0.1",
                                        "127.0.0.1:80",
                                        "[::1]:8090",
                                        "192.168.1.5:8090",
                                        "boxes.test",
                                        "3000-cabc.boxes.test",
                                        "cay.example.org",
                                        "CAY.example.org:443" };
    static const char *const bad[] = { "evil.test",
                                       "localhost.evil.test",
                                       "evillocalhost",
                                       "notboxes.test",
                                       "a.cay.example.org",
                                       "127.0.0.1.evil.test",
                                       "[::1",
                                       "[::1]x",
                                       "[evil]",
                                       ":80",
                                       "localhost:",
                                       "localhost:80:80",
                                       "localhost:999999",
                                       "local host",
                                       "localhost/",
                                       "localhost@evil.test",
                                       "127.0.0.1:80a" };
    for (size_t i = 0; i < CAY_LEN(good); i++)
        if (cay__gate_host(g, good[i], &err) != 0)
            fail_msg("%s refused", good[i]);
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        if (cay__gate_host(g, bad[i], &err) != CAY_EPERM)
            fail_msg("%s taken", bad[i]);
        assert_string_equal(err.reason, "host_not_allowed");
    }
    cay__gate_free(g);
}

static void pages_of_others_are_refused(void **s)
{
    (void)s;
    cay__gate *g = gate(0, 0);
    cay_err err = CAY_ERR_INIT;
    static const char *const good[][2] = {
        { "localhost:8090", NULL },
        { "localhost:8090", "http://localhost:8090" },
        { "cay.example.org", "https://cay.example.org" },
        { "localhost:8090", "https://console.example.net" },
    };
    static const char *const bad[][2] = {
        { "localhost:8090", "null" },
        { "localhost:8090", "" },
        { "localhost:8090", "http://localhost:8091" },
        { "localhost:8090", "http://evil.test" },
        { "localhost:8090", "file://localhost:8090" },
        { "localhost:8090", "http://8080-cabc.localhost:8090" }, /* a preview is another origin */
        { "evil.test", "http://evil.test" },
        { "", "http://" },
    };
    for (size_t i = 0; i < CAY_LEN(good); i++)
        assert_int_equal(cay__gate_origin(g, good[i][0], good[i][1], &err), 0);
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        if (cay__gate_origin(g, bad[i][0], bad[i][1], &err) != CAY_EPERM)
            fail_msg("%s taken", bad[i][1]);
        assert_string_equal(err.reason, "origin_not_allowed");
    }
    cay__gate_free(g);
}

static void what_no_request_can_have_is_refused(void **s)
{
    (void)s;
    static const char *const names[] = { "localhost", "a.b-c.example", "127.0.0.1" },
                             *const no_names[] = { "",    "-a",  "a-",   ".a",       "a.", "a..b",
                                                   "a_b", "a/b", "a:80", "http://a", "a b" };
    static const char *const pages[] = { "https://a.example", "http://a:8090", "http://127.0.0.1:1",
                                         "http://[::1]:3000" };
    static const char *const no_pages[] = { "",           "x",
                                            "a.example",  "https://",
                                            "https://a/", "https://a.example/x",
                                            "https://a:", "https://a:8x",
                                            "ftp://a",    "https://a b",
                                            "*",          "null" };
    for (size_t i = 0; i < CAY_LEN(names); i++)
        assert_int_equal(
            cay__gate_check(&(cay__gate_conf){ .domain = names[i],
                                               .hosts = (const char *[]){ names[i], NULL } },
                            NULL),
            0);
    for (size_t i = 0; i < CAY_LEN(no_names); i++) {
        assert_int_equal(cay__gate_check(&(cay__gate_conf){ .domain = no_names[i] }, NULL),
                         CAY_EINVAL);
        assert_int_equal(
            cay__gate_check(
                &(cay__gate_conf){ .hosts = (const char *[]){ "a", no_names[i], NULL } }, NULL),
            CAY_EINVAL);
    }
    for (size_t i = 0; i < CAY_LEN(pages); i++)
        assert_int_equal(
            cay__gate_check(&(cay__gate_conf){ .origins = (const char *[]){ pages[i], NULL } },
                            NULL),
            0);
    for (size_t i = 0; i < CAY_LEN(no_pages); i++)
        assert_int_equal(
            cay__gate_check(&(cay__gate_conf){ .origins = (const char *[]){ no_pages[i], NULL } },
                            NULL),
            CAY_EINVAL);
}

static void a_burst_passes_and_then_the_rate(void **s)
{
    (void)s;
    cay__gate *g = gate(100, 10);
    cay_err err = CAY_ERR_INIT;
    int64_t now = 5000000;
    for (int i = 0; i < 10; i++)
        assert_int_equal(cay__gate_rate(g, "a", now, &err), 0);
    assert_int_equal(cay__gate_rate(g, "a", now, &err), CAY_ERATE);
    assert_string_equal(err.reason, "rate_limit");
    assert_true(err.retry_after_ms >= 10 && err.retry_after_ms <= 11);
    assert_int_equal(cay__gate_rate(g, "b", now, &err), 0); /* another's is another's */
    assert_int_equal(cay__gate_rate(g, "a", now + 5000, &err), CAY_ERATE);
    assert_int_equal(cay__gate_rate(g, "a", now + 10500, &err), 0);
    assert_int_equal(cay__gate_rate(g, "a", now + 10500, &err), CAY_ERATE);
    int passed = 0;
    for (int ms = 100; ms < 1100; ms++)
        for (int k = 0; k < 5; k++)
            passed += cay__gate_rate(g, "a", now + ms * 1000, &err) == 0;
    assert_in_range(passed, 99, 111);
    /* thousands of keys that came once do not stay */
    char key[16];
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "%08x", i);
        assert_int_equal(cay__gate_rate(g, key, now + 2000000 + i * 1000, &err), 0);
    }
    cay__gate_free(g);
}

typedef struct race {
    cay__gate *g;
    atomic_int passed;
} race;

static void *run(void *arg)
{
    race *r = arg;
    for (int i = 0; i < 5000; i++)
        if (cay__gate_rate(r->g, "a", 1000000, NULL) == 0)
            atomic_fetch_add(&r->passed, 1);
    return NULL;
}

static void threads_share_one_bucket(void **s)
{
    (void)s;
    race r = { .g = gate(0, 0) };
    pthread_t t[4];
    for (size_t i = 0; i < CAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, run, &r), 0);
    for (size_t i = 0; i < CAY_LEN(t); i++)
        pthread_join(t[i], NULL);
    assert_int_equal(atomic_load(&r.passed), 4000);
    cay__gate_free(r.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_of_others_are_refused),
        cmocka_unit_test(pages_of_others_are_refused),
        cmocka_unit_test(what_no_request_can_have_is_refused),
        cmocka_unit_test(a_burst_passes_and_then_the_rate),
        cmocka_unit_test(threads_share_one_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
