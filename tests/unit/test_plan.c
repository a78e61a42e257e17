/* SPDX-License-Identifier: Apache-2.0 */
/* Who works on what at once, what is left out of a local directory, and what names a layer. */
#include <base/base.h>
#include <fcntl.h>
#include <proto/claim.h>
#include <lib/manifest/plan.h>
#include <base/sha256.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void case_14_no_more_entries_than_allowed(void **s)
{
    (void)s;
    const uint32_t of[] = { 1, 2, 3, 4, 5, 6 };
    cay__claim c;
    cay__share a, b, x;
    cay__claim_open(&c, of, CAY_LEN(of), 2, 0);
    assert_true(cay__claim_take(&c, &a));
    assert_true(cay__claim_take(&c, &b));
    assert_int_equal(a.at, 0);
    assert_int_equal(b.at, 1);
    assert_int_equal(c.active, 2); /* a third taker would wait now */
    cay__claim_done(&c, &a, false);
    for (size_t i = 2; i < CAY_LEN(of); i++) { /* in the order of the manifest */
        assert_true(cay__claim_take(&c, &x));
        assert_int_equal(x.at, i);
        assert_int_equal(c.active, 2);
        cay__claim_done(&c, &x, false);
    }
    cay__claim_done(&c, &b, false);
    assert_false(cay__claim_take(&c, &x));
    cay__claim_close(&c);
}

static void files_of_one_directory_are_bounded(void **s)
{
    (void)s;
    uint32_t of[64] = { 0 };
    cay__claim c;
    cay__share a, b, x;
    of[63] = 1;
    cay__claim_open(&c, of, CAY_LEN(of), 0, 2);
    assert_true(cay__claim_take(&c, &a));
    assert_true(cay__claim_take(&c, &b));
    assert_int_equal(c.active, 1);
    assert_true(cay__claim_take(&c, &x)); /* the directory has its two; the next entry may begin */
    assert_int_equal(x.at, 63);
    cay__claim_done(&c, &x, false);
    cay__claim_done(&c, &a, true);
    assert_false(cay__claim_take(&c, &x)); /* the first failure ends it */
    cay__claim_done(&c, &b, false);
    cay__claim_close(&c);
}

typedef struct crew {
    cay__claim claim;
    _Atomic unsigned now, most, done;
} crew;

static void *work(void *arg)
{
    crew *w = arg;
    cay__share s;
    while (cay__claim_take(&w->claim, &s)) {
        unsigned now = ++w->now;
        for (unsigned seen = w->most;
             now > seen &&
             !__atomic_compare_exchange_n((unsigned *)&w->most, &seen, now, false, 5, 5);)
            ;
        w->done += (unsigned)(s.end - s.at);
        sched_yield();
        w->now--;
        cay__claim_done(&w->claim, &s, false);
    }
    return NULL;
}

static void threads_share_all_of_it_within_the_bound(void **s)
{
    (void)s;
    enum { N = 3000, THREADS = 6 };
    uint32_t *of = cay__alloc(N * sizeof *of);
    crew w = { .now = 0 };
    pthread_t id[THREADS];
    for (uint32_t i = 0; i < N; i++)
        of[i] = i;
    cay__claim_open(&w.claim, of, N, 3, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&id[i], NULL, work, &w), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    assert_int_equal(w.done, N);
    assert_true(w.most <= 3);
    cay__claim_close(&w.claim);
    free(of);
}

static void patterns_as_git_has_them(void **s)
{
    (void)s;
    static const struct {
        const char *patterns, *path;
        bool dir, out;
    } rows[] = {
        { "*.o", "a.o", false, true },
        { "*.o", "x/y/a.o", false, true },
        { "*.o", "a.os", false, false },
        { "*", ".git", true, true },
        { "/a", "a", false, true },
        { "/a", "x/a", false, false },
        { "x/a", "x/a", false, true },
        { "x/a", "y/x/a", false, false },
        { "build/", "build", true, true },
        { "build/", "build", false, false },
        { "build/", "x/build", true, true },
        { "**/a", "x/y/a", false, true },
        { "**/a", "a", false, true },
        { "x/**/a", "x/y/z/a", false, true },
        { "x/**/a", "x/a", false, true },
        { "x/**", "x/y/z", false, true },
        { "x/**", "x", true, false },
        { "*.o\n!keep.o", "keep.o", false, false },
        { "!keep.o\n*.o", "keep.o", false, true },
        { "a?c", "abc", false, true },
        { "a?c", "a/c", false, false },
        { "[a-c]x", "bx", false, true },
        { "[!a-c]x", "bx", false, false },
        { "# no\n\na", "a", false, true },
        { "\\#a", "#a", false, true },
        { "a*b*c", "axxbyyc", false, true },
        { "a*b*c", "axxbyy", false, false },
        { "*a*a*a*a*a*b",
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false,
          false },
        { "x/*", "x/y/z", false, false },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay__ignore ig = { 0 };
        assert_true(cay__ignore_text(&ig, rows[i].patterns, strlen(rows[i].patterns)));
        if (cay__ignored(&ig, rows[i].path, rows[i].dir) != rows[i].out)
            fail_msg("%s against %s", rows[i].patterns, rows[i].path);
        cay__ignore_clear(&ig);
    }
}

static void name_of(const char *text, const char *more, char name[CAY_ID_LEN + 1])
{
    cay_manifest *m = NULL;
    cay_err err = CAY_ERR_INIT;
    cay__plan p;
    const cay__plan_ask ask = { 0 };
    if (cay_manifest_parse(text, strlen(text), CAY_MANIFEST_TRUSTED, &m, &err) < 0 ||
        cay__plan_make(&p, m, &ask, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(cay__plan_name(&p, more, name, NULL), 0);
    cay__plan_clear(&p);
    cay_manifest_free(m);
}

/* A commit is the same everywhere, and still who may read one place may not read another's by it.
 */
static void a_fetch_is_named_by_all_that_was_asked_for(void **s)
{
    (void)s;
#define GIT(more)                                                                                  \
    "{\"entries\":{\"a\":{\"type\":\"git_repo\",\"ref\":"                                          \
    "\"0123456789012345678901234567890123456789\"," more "}}}"
#define FILE_(more)                                                                                \
    "{\"entries\":{\"a\":{\"type\":\"remote_file\",\"sha256\":\"" SUM "\"," more "}}}"
#define SUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    static const char *const rows[] = {
        GIT("\"repo\":\"a/b\""),
        GIT("\"repo\":\"a/c\""),
        GIT("\"repo\":\"a/b\",\"host\":\"example.com\""),
        GIT("\"repo\":\"a/b\",\"subpath\":\"x\""),
        GIT("\"repo\":\"a/b\",\"depth\":2"),
        GIT("\"repo\":\"a/b\",\"sparse_checkout\":[\"x\"]"),
        GIT("\"repo\":\"a/b\",\"credentials\":\"env:T\""),
        FILE_("\"url\":\"https://a.example/x\""),
        FILE_("\"url\":\"https://b.example/x\""),
        FILE_("\"url\":\"https://a.example/"
              "x\",\"headers\":{\"A\":{\"type\":\"ref\",\"source\":\"env:T\"}}"),
    };
    char names[CAY_LEN(rows)][CAY_ID_LEN + 1], again[CAY_ID_LEN + 1];
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        name_of(rows[i], "t", names[i]);
        name_of(rows[i], "t", again);
        assert_string_equal(again, names[i]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(names[i], names[k]);
    }
}

static void a_name_is_what_it_holds(void **s)
{
    (void)s;
    static const char *const same[] = {
        "{\"entries\":{\"a\":{\"type\":\"file\",\"content\":\"x\"}}}",
        "{\"version\":1,\"entries\":{\"./"
        "a\":{\"type\":\"inline_file\",\"contentBase64\":\"eA==\",\"description\":\"d\"}},"
        "\"environment\":{\"A\":\"1\"}}",
        ("{\"entries\":{\"a\":{\"type\":\"file\",\"content\":\"x\"},\"e\":{\"type\":\"file\","
         "\"content\":\"y\",\"ephemeral\":true}}}"),
    };
    static const char *const other[] = {
        "{\"entries\":{\"a\":{\"type\":\"file\",\"content\":\"y\"}}}",
        "{\"entries\":{\"b\":{\"type\":\"file\",\"content\":\"x\"}}}",
        "{\"entries\":{\"a\":{\"type\":\"file\",\"content\":\"x\",\"permissions\":\"0600\"}}}",
        "{\"root\":\"/w\",\"entries\":{\"a\":{\"type\":\"file\",\"content\":\"x\"}}}",
        "{\"users\":[\"u\"],\"entries\":{\"a\":{\"type\":\"file\",\"content\":\"x\"}}}",
    };
    char first[CAY_ID_LEN + 1], next[CAY_ID_LEN + 1];
    name_of(same[0], "t", first);
    assert_int_equal(strlen(first), CAY_ID_LEN);
    assert_int_equal(first[0], 'm');
    for (size_t i = 1; i < CAY_LEN(same); i++) {
        name_of(same[i], "t", next);
        assert_string_equal(first, next);
    }
    for (size_t i = 0; i < CAY_LEN(other); i++) {
        name_of(other[i], "t", next);
        assert_string_not_equal(first, next);
    }
    name_of(same[0], "another tenant", next);
    assert_string_not_equal(first, next);
}

static void case_15_directories_come_first(void **s)
{
    (void)s;
    const char *text =
        "{\"entries\":{\"d\":{\"type\":\"dir\",\"permissions\":\"0700\"},\"d/"
        "f\":{\"type\":\"file\",\"content\":\"\"},\"x/y\":{\"type\":\"file\",\"content\":\"\"}}}";
    cay_manifest *m = NULL;
    cay__plan p;
    const cay__plan_ask ask = { 0 };
    assert_int_equal(cay_manifest_parse(text, strlen(text), 0, &m, NULL), 0);
    assert_int_equal(cay__plan_make(&p, m, &ask, NULL, NULL), 0);
    static const char *const want[] = { "workspace", "workspace/d", "workspace/d/f", "workspace/x",
                                        "workspace/x/y" };
    assert_int_equal(p.n, CAY_LEN(want));
    for (size_t i = 0; i < p.n; i++)
        assert_string_equal(p.nodes[i].path, want[i]);
    cay__plan_clear(&p);
    cay_manifest_free(m);
}

static void hashes_are_what_they_are(void **s)
{
    (void)s;
    char hex[CAY__SHA256_HEX], *million = cay__alloc(1000001);
    memset(million, 'a', 1000000);
    cay__sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    cay__sha256_hex(million, 1000000, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    cay__sha256_hex(million, 119, hex);
    assert_string_equal(hex, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
    cay__sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    free(million);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_14_no_more_entries_than_allowed),
        cmocka_unit_test(files_of_one_directory_are_bounded),
        cmocka_unit_test(threads_share_all_of_it_within_the_bound),
        cmocka_unit_test(patterns_as_git_has_them),
        cmocka_unit_test(a_fetch_is_named_by_all_that_was_asked_for),
        cmocka_unit_test(a_name_is_what_it_holds),
        cmocka_unit_test(hashes_are_what_they_are),
        cmocka_unit_test(case_15_directories_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
