/* SPDX-License-Identifier: Apache-2.0 */
/* test_audit PEER: what an agent did, sent to a server: one that takes it, one that does not, and
 * none. */
#include "peer.h"
#include "play.h"
#include <base/str.h>
#include <cay/audit_sink.h>

static play p;
static cay_model *model;

static int sum(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg, (void)call, (void)err;
    cay_output_text(out, "42", 2);
    return 0;
}

/* A run of four events: it starts, its tool was called, it is completed; and one that is refused.
 */
static int run(cay_audit_sink *l, cay_err *err)
{
    static const cay_tool adder = { .size = sizeof adder, .name = "add", .call = sum };
    static const cay_tool *const tools[] = { &adder };
    cay_agent a = { .size = sizeof a, .name = "A", .tools = tools, .ntools = 1 };
    cay_run_config conf = { .size = sizeof conf, .ledger = l };
    cay_run_result *r = NULL;
    play_clear(&p);
    model = conf.model = play_model(&p, "m");
    p.say[0] = "[" CALL_ITEM("c1", "add", "{}") "," CALL_ITEM("c2", "nosuch", "{}") "]";
    p.say[1] = TEXT("done");
    int rc = cay_agent_run(&a, NULL, "go", &conf, &r, err);
    cay_run_result_free(r);
    cay_model_free(model);
    return rc;
}

static cay_audit_sink *opened(const char *path, cay_audit_sink_http_spec spec, bool strict)
{
    char url[200];
    cay_audit_sink *l = NULL;
    cay_err err = CAY_ERR_INIT;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", *path == '!' ? 1 : port, path);
    spec.size = sizeof spec;
    spec.url = url;
    if (cay_audit_sink_http(&spec, strict, &l, &err) < 0)
        fail_msg("%s", err.msg);
    return l;
}

/* How many requests of a path were seen; in *order the numbers of their events. */
static int seen(const char *path, char *order, size_t cap)
{
    char file[300], mark[200];
    static char text[1 << 20];
    int n = 0;
    snprintf(file, sizeof file, "%s/seen", dir);
    snprintf(mark, sizeof mark, "{\"path\": \"/%s\"", path);
    *order = 0;
    if (cay__fd_read_file(AT_FDCWD, file, text, sizeof text) <= 0)
        return 0;
    for (const char *s = text; (s = strstr(s, mark)); s++, n++) {
        const char *seq = strstr(s, "\"seq\": ");
        snprintf(order + strlen(order), cap - strlen(order), "%d ", seq ? atoi(seq + 7) : -1);
    }
    return n;
}

static void each_event_is_posted(void **state)
{
    (void)state;
    char order[100];
    cay_err err = CAY_ERR_INIT;
    cay_audit_sink *l = opened(
        "sink/one",
        (cay_audit_sink_http_spec){ .key = "env:TEST_KEY",
                                    .headers = (const char *const[]){ "X-Team: blue", NULL } },
        true);
    assert_int_equal(run(l, &err), 0);
    assert_int_equal(cay_audit_sink_lost(l), 0);
    cay_audit_sink_free(l);
    assert_int_equal(seen("sink/one", order, sizeof order), 4);
    assert_string_equal(order, "1 2 3 4 ");
    l = opened("sink/later", (cay_audit_sink_http_spec){ .later = true }, false);
    assert_int_equal(run(l, &err), 0);
    cay_audit_sink_free(l); /* which waits for it */
    assert_int_equal(seen("sink/later", order, sizeof order), 4);
    assert_string_equal(order, "1 2 3 4 ");
    l = opened("sink/flaky", (cay_audit_sink_http_spec){ 0 },
               true); /* 503 twice: the first event takes three tries, of which there are two */
    assert_true(run(l, &err) < 0);
    assert_string_equal(err.reason, "ledger_failed");
    cay_audit_sink_free(l);
}

static void what_is_not_taken_waits_in_a_spool(void **state)
{
    (void)state;
    char spool[300], order[100];
    cay_err err = CAY_ERR_INIT;
    snprintf(spool, sizeof spool, "%s/spool", dir);
    cay_audit_sink *l = opened("!", (cay_audit_sink_http_spec){ .spool = spool }, true);
    assert_int_equal(run(l, &err), 0); /* nobody there; all is kept */
    assert_int_equal(cay_audit_sink_lost(l), 0);
    cay_audit_sink_free(l);
    static char text[65536];
    assert_true(cay__fd_read_file(AT_FDCWD, spool, text, sizeof text) > 0);
    has(text, "\"seq\":4");
    l = opened("sink/after", (cay_audit_sink_http_spec){ .spool = spool }, true);
    assert_int_equal(run(l, &err), 0);
    cay_audit_sink_free(l);
    assert_int_equal(seen("sink/after", order, sizeof order), 8);
    assert_string_equal(order, "1 2 3 4 1 2 3 4 "); /* what waited first */
    assert_int_equal(access(spool, F_OK), -1);
}

/* What waits for one server is not for another, and two that cut one file would lose events. */
static void a_spool_has_one_sink(void **state)
{
    (void)state;
    char spool[300];
    cay_err err = CAY_ERR_INIT;
    cay_audit_sink *second = NULL;
    snprintf(spool, sizeof spool, "%s/one", dir);
    cay_audit_sink *first = opened("sink/a", (cay_audit_sink_http_spec){ .spool = spool }, true);
    cay_audit_sink_http_spec spec = { .size = sizeof spec,
                                      .url = "http://127.0.0.1:1/",
                                      .spool = spool };
    assert_int_equal(cay_audit_sink_http(&spec, true, &second, &err), CAY_EBUSY);
    assert_string_equal(err.reason, "ledger_spool");
    has(err.msg, spool);
    cay_audit_sink_free(first);
    if (cay_audit_sink_http(&spec, true, &second, &err) < 0)
        fail_msg("%s", err.msg);
    cay_audit_sink_free(second);
}

static void what_cannot_be_sent_is_told(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    cay_audit_sink *l = opened("sink/never", (cay_audit_sink_http_spec){ 0 }, true);
    assert_true(run(l, &err) < 0);
    assert_string_equal(err.reason, "ledger_failed");
    has(err.msg, "400");
    assert_int_equal(p.at, 0); /* nothing is done that nobody wrote down */
    cay_audit_sink_free(l);
    l = opened("sink/never", (cay_audit_sink_http_spec){ 0 }, false);
    assert_int_equal(run(l, &err), 0);
    assert_int_equal(cay_audit_sink_lost(l), 4);
    cay_audit_sink_free(l);
    static const char *const wrong[] = { "no colon", NULL };
    static const struct {
        cay_audit_sink_http_spec spec;
        bool strict;
        int code;
    } bad[] = { { { .url = NULL }, false, CAY_EINVAL },
                { { .url = "ftp://x" }, false, CAY_EINVAL },
                { { .url = "https://x.example", .later = true }, true, CAY_EINVAL },
                { { .url = "http://x.example", .key = "env:TEST_KEY" }, false, CAY_EPERM },
                { { .url = "https://x.example", .key = "env:NOT_SET_HERE" }, false, CAY_ENOENT },
                { { .url = "https://x.example", .headers = wrong }, false, CAY_EINVAL } };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay_audit_sink_http_spec s = bad[i].spec;
        s.size = sizeof s;
        assert_int_equal(cay_audit_sink_http(&s, bad[i].strict, &l, &err), bad[i].code);
    }
}

int main(int argc, char **argv)
{
    peer = argc > 1 ? argv[1] : "";
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_event_is_posted),
                                        cmocka_unit_test(what_is_not_taken_waits_in_a_spool),
                                        cmocka_unit_test(a_spool_has_one_sink),
                                        cmocka_unit_test(what_cannot_be_sent_is_told) };
    int rc = cmocka_run_group_tests(tests, start_peer, stop_peer);
    play_clear(&p);
    return rc;
}
