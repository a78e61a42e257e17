/* SPDX-License-Identifier: Apache-2.0 */
/* test_socket PEER: the Responses API over a WebSocket, of a server that behaves and of one that
 * does not. */
#include "peer.h"
#include <base/json.h>
#include <cay/cay.h>

static cay_model *model_at(const char *scene, cay_model_open_spec s)
{
    char url[100];
    cay_model *m = NULL;
    cay_err err = CAY_ERR_INIT;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/%s/v1/", port, scene);
    s.size = sizeof s;
    s.model = "m1";
    s.api = "websocket";
    s.base_url = url;
    s.key = "env:TEST_KEY";
    if (cay_model_open(&s, &m, &err) < 0)
        fail_msg("%s", err.msg);
    return m;
}

static char deltas[4096];
static int retries;
static int on_event(const char *type, const char *data, void *arg)
{
    CAY_AUTOJSON *j = json_loads(data, 0, NULL);
    assert_non_null(j);
    if (!strcmp(type, "response.output_text.delta"))
        snprintf(deltas + strlen(deltas), sizeof deltas - strlen(deltas), "%s",
                 cay__json_str(j, "delta", ""));
    retries += !strcmp(type, "cay.retry");
    return arg ? -1 : 0;
}

#define INPUT "[{\"type\":\"message\",\"role\":\"user\",\"content\":\"hi \\u20ac\"}]"
static int ask(cay_model *m, const cay_call *call, bool stop, cay_model_reply *r, cay_err *err)
{
    cay_model_request q = { .size = sizeof q,
                            .instructions = "be kind",
                            .input = INPUT,
                            .on_event = on_event,
                            .arg = stop ? m : NULL };
    deltas[0] = 0;
    retries = 0;
    *r = (cay_model_reply){ .size = sizeof *r };
    return cay_model_ask(m, call, &q, r, err);
}

/* How many requests of a scene the server has seen, and how many connections were made for them. */
static int count(const char *part)
{
    char path[300];
    static char text[1 << 20];
    int n = 0;
    snprintf(path, sizeof path, "%s/seen", dir);
    if (cay__fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    for (const char *s = text; (s = strstr(s, part)); s++)
        n++;
    return n;
}

/* One connection, several turns; whatever frames the events come in. */
static void turns_share_a_connection(void **state)
{
    (void)state;
    static const char *const scenes[] = { "hello", "ws-pieces", "ws-bytewise", "ws-pings" };
    for (size_t i = 0; i < CAY_LEN(scenes); i++) {
        cay_model *m = model_at(scenes[i], (cay_model_open_spec){ 0 });
        assert_string_equal(cay_model_kind(m)->name, "responses");
        for (int turn = 0; turn < 3; turn++) {
            cay_model_reply r;
            cay_err err = CAY_ERR_INIT;
            if (ask(m, NULL, false, &r, &err) < 0)
                fail_msg("%s: %s", scenes[i], err.msg);
            assert_non_null(strstr(r.output, "\"text\":\"hello, wörld €\""));
            assert_string_equal(deltas, "hello, wörld €");
            assert_int_equal(r.usage.total, 107);
            assert_int_equal(retries, 0);
            cay_model_reply_clear(&r);
        }
        cay_model_free(m);
    }
    assert_int_equal(count("/socket/hello"), 1);
    assert_int_equal(count("/socket/ws-pings"), 1); /* all their answers were whole */
    assert_int_equal(count("Bearer sk-test-1234567890"), 12);
}

/* A connection that the server has closed meanwhile is made again, without anybody noticing. */
static void a_connection_that_has_gone_is_made_again(void **state)
{
    (void)state;
    cay_model *m = model_at("ws-once", (cay_model_open_spec){ .retries = CAY_NO_RETRY });
    for (int turn = 0; turn < 3; turn++) {
        cay_model_reply r;
        cay_err err = CAY_ERR_INIT;
        if (ask(m, NULL, false, &r, &err) < 0)
            fail_msg("%s", err.msg);
        cay_model_reply_clear(&r);
    }
    cay_model_free(m);
    assert_int_equal(count("/ws-once/v1"), 3); /* asked once each */
}

static void what_may_pass_is_asked_again(void **state)
{
    (void)state;
    cay_model *m = model_at("busy", (cay_model_open_spec){ 0 });
    cay_model_reply r;
    cay_err err = CAY_ERR_INIT;
    if (ask(m, NULL, false, &r, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(retries, 2); /* 429, 503 */
    cay_model_reply_clear(&r);
    cay_model_free(m);
}

static void servers_that_behave_badly_are_told_of(void **state)
{
    (void)state;
    static const struct {
        const char *scene;
        int code;
        const char *reason;
    } bad[] = {
        { "auth", CAY_EAUTH, "model_http" },
        { "storm", CAY_EUPSTREAM, "model_http" },
        { "cut", CAY_EUPSTREAM, "net_cut" },
        { "failed", CAY_EUPSTREAM, "model_failed" },
        { "badevent", CAY_EUPSTREAM, "model_answer" },
        { "ws-stranger", CAY_EUPSTREAM, "net_answer" },
        { "ws-masked", CAY_EUPSTREAM, "net_answer" },
        { "ws-bits", CAY_EUPSTREAM, "net_answer" },
        { "ws-rest", CAY_EUPSTREAM, "net_answer" },
        { "ws-control", CAY_EUPSTREAM, "net_answer" },
        { "ws-huge", CAY_ETOOBIG, "answer_too_big" },
        { "ws-binary", CAY_EUPSTREAM, "model_answer" },
    };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay_model_reply r;
        cay_err err = CAY_ERR_INIT;
        cay_model *m = model_at(bad[i].scene, (cay_model_open_spec){ .retries = CAY_NO_RETRY });
        int rc = ask(m, NULL, false, &r, &err);
        if (rc != bad[i].code || strcmp(err.reason, bad[i].reason))
            fail_msg("%s: %d %s: %s", bad[i].scene, rc, err.reason, err.msg);
        assert_null(strstr(err.msg, "sk-test"));
        assert_null(strchr(err.msg, 27));
        assert_null(r.output);
        cay_model_free(m);
    }
    assert_int_equal(count("/cut/v1"), 1);
    cay_model *m = model_at(
        "cut", (cay_model_open_spec){
                   .retries = 3 }); /* once an answer has begun it is not asked for again */
    cay_model_reply r;
    assert_true(ask(m, NULL, false, &r, NULL) < 0);
    assert_int_equal(count("/cut/v1"), 2);
    cay_model_free(m);
}

static void it_is_canceled_and_bounded(void **state)
{
    (void)state;
    int p[2];
    cay_model_reply r;
    cay_err err = CAY_ERR_INIT;
    cay_model *m =
        model_at("silent", (cay_model_open_spec){ .idle_ms = 200, .retries = CAY_NO_RETRY });
    assert_int_equal(ask(m, NULL, false, &r, &err), CAY_ETIMEOUT);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(write(p[1], "x", 1), 1);
    cay_call call = { .size = sizeof call, .cancel_fd = p[0] };
    assert_int_equal(ask(m, &call, false, &r, &err), CAY_ECANCELED);
    close(p[0]);
    close(p[1]);
    cay_model_free(m);
    m = model_at("hello", (cay_model_open_spec){ 0 });
    assert_int_equal(ask(m, NULL, true, &r, &err),
                     CAY_ECANCELED); /* by who is told of the pieces */
    cay_model_free(m);
    cay_model_open_spec spec = {
        .size = sizeof spec, .model = "m", .api = "carrier-pigeon", .base_url = "http://127.0.0.1:9"
    };
    assert_int_equal(cay_model_open(&spec, &m, &err), CAY_EINVAL);
    assert_non_null(strstr(err.msg, "websocket"));
}

/* A run, its tools and what the endpoint keeps: the same as over HTTP. */
static int tell(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg, (void)call, (void)err;
    cay_output_text(out, "exited with code 3", 18);
    return 0;
}

static void a_run_over_it(void **state)
{
    (void)state;
    static const cay_tool exec = { .size = sizeof exec, .name = "exec_command", .call = tell },
                          patch = { .size = sizeof patch,
                                    .name = "apply_patch",
                                    .grammar = "",
                                    .call = tell };
    static const cay_tool *const tools[] = { &exec, &patch };
    cay_agent a = { .size = sizeof a, .name = "A", .tools = tools, .ntools = 2 };
    cay_model *m = model_at("task", (cay_model_open_spec){ 0 });
    cay_run_config conf = { .size = sizeof conf, .model = m, .trace = true };
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    if (cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(r->output, "Done: 3 exited with code 3");
    assert_int_equal(r->usage.requests, 3);
    assert_non_null(strstr(r->trace, "\"type\":\"response\",\"name\":\"m1\""));
    assert_non_null(strstr(r->trace, "\"response_id\":\"resp_task"));
    assert_null(strstr(r->trace, "\"generation\""));
    cay_run_result_free(r);
    cay_model_free(m);
    assert_int_equal(count("/socket/task"), 1);
}

int main(int argc, char **argv)
{
    peer = argc > 1 ? argv[1] : "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_share_a_connection),
        cmocka_unit_test(a_connection_that_has_gone_is_made_again),
        cmocka_unit_test(what_may_pass_is_asked_again),
        cmocka_unit_test(servers_that_behave_badly_are_told_of),
        cmocka_unit_test(it_is_canceled_and_bounded),
        cmocka_unit_test(a_run_over_it),
    };
    return cmocka_run_group_tests(tests, start_peer, stop_peer);
}
