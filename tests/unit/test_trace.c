/* SPDX-License-Identifier: Apache-2.0 */
/* Files of spans, as `cay trace` reads them. */
#include <base/base.h>
#include <base/fd.h>
#include <cli/trace.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char path[] = "/tmp/cay-trace-XXXXXX";

static void write_file(const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#define AT(s) "2026-01-31T12:00:" s "+00:00"
#define SPAN(id, trace, parent, from, to, name, error)                                             \
    "{\"object\":\"trace.span\",\"id\":\"span_" id "\",\"trace_id\":\"trace_" trace                \
    "\",\"parent_id\":" parent ",\"started_at\":\"" AT(from) "\",\"ended_at\":\"" AT(              \
        to) "\",\"span_data\":{\"type\":\"custom\",\"name\":\"" name "\"},\"error\":" error "}\n"

static void spans_stand_below_their_parents(void **state)
{
    (void)state;
    traces all = { 0 };
    trace_tree t = { 0 };
    cay_err err = CAY_ERR_INIT;
    /* As they end: children first. The second program's ids are shorter; lines that are none are
     * passed over. */
    write_file(
        "{\"object\":\"trace\",\"id\":\"trace_aa11\",\"workflow_name\":\"a run\"}\n"
        "no JSON\n{\"object\":\"trace.span\"}\n" SPAN("0123456789abcdef00000003", "aa11",
                                                      "\"span_0123456789abcdef\"", "02.000000",
                                                      "03.000000", "third", "null")
            SPAN("0123456789abcde2", "aa11", "\"span_0123456789abcdef00000001\"", "01.000000",
                 "01.500000", "second", "{\"message\":\"ENOENT x\"}")
                SPAN("0123456789abcdef00000001", "aa11", "null", "00.000000", "04.000000", "first",
                     "null") SPAN("fedcba9876543210", "bb22", "\"span_ffffffffffffffff\"",
                                  "30.250000", "31.000000", "elsewhere",
                                  "null") "{\"object\":\"trace.span\",\"id\":\"span_1");
    assert_int_equal(traces_read(path, &all, &err), 0);
    assert_int_equal(all.n, 2);
    assert_string_equal(all.v[0].name, "a run");
    assert_int_equal(all.v[0].spans, 3);
    assert_int_equal(all.v[0].failed, 1);
    assert_int_equal(all.v[0].to_us - all.v[0].from_us, 4000000);
    assert_string_equal(all.v[1].name, "elsewhere");
    assert_string_equal(traces_find(&all, NULL, &err)->id, "bb22");
    assert_string_equal(traces_find(&all, "aa", &err)->id, "aa11");
    assert_string_equal(traces_find(&all, "trace_aa11", &err)->id, "aa11");
    static const char *const none[] = { "cc", "zz", "aaz", "", "trace_" };
    for (size_t i = 0; i < CAY_LEN(none); i++) {
        assert_null(traces_find(&all, none[i], &err));
        assert_string_equal(err.reason, "trace_not_found");
    }
    assert_int_equal(trace_tree_read(path, "aa11", &t, &err), 0);
    assert_int_equal(t.n, 3);
    assert_string_equal(t.v[0].name, "first");
    assert_string_equal(t.v[1].name, "second");
    assert_string_equal(t.v[1].error, "ENOENT x");
    assert_string_equal(t.v[2].name, "third");
    assert_int_equal(t.v[2].depth, 1);
    trace_tree_free(&t);
    traces_free(&all);
}

static void a_ring_of_parents_ends(void **state)
{
    (void)state;
    traces all = { 0 };
    trace_tree t = { 0 };
    cay_err err = CAY_ERR_INIT;
    write_file(SPAN("0000000000000001", "aa", "\"span_0000000000000002\"", "00.000000", "01.000000",
                    "one", "null") SPAN("0000000000000002", "aa", "\"span_0000000000000001\"",
                                        "00.000000", "01.000000", "two", "null")
                   SPAN("0000000000000003", "aa", "\"span_0000000000000003\"", "00.000000",
                        "01.000000", "itself", "null")
                       SPAN("0000000000000004", "aa", "null", "05.000000", "01.000000",
                            "ends before it begins", "null"));
    assert_int_equal(traces_read(path, &all, &err), 0);
    assert_int_equal(trace_tree_read(path, "aa", &t, &err), 0);
    assert_int_equal(t.n, 3);
    trace_tree_free(&t);
    traces_free(&all);
}

static void what_has_none_says_so(void **state)
{
    (void)state;
    traces all = { 0 };
    cay_err err = CAY_ERR_INIT;
    write_file("{\"object\":\"trace\",\"id\":\"trace_aa11\",\"workflow_name\":\"a run\"}\n");
    assert_int_equal(traces_read(path, &all, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "trace_empty");
    traces_free(&all);
    assert_true(traces_read("/nonexistent/file", &(traces){ 0 }, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_stand_below_their_parents),
        cmocka_unit_test(a_ring_of_parents_ends),
        cmocka_unit_test(what_has_none_says_so),
    };
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return rc;
}
