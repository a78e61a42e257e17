/* SPDX-License-Identifier: Apache-2.0 */
/* What a run tells of itself: spans of its result, below each other, through processors, to two
 * places and to people. */
#include "play.h"
#include <agent/trace.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static play p;
static cay_model *model;

static int set_up(void **state)
{
    (void)state;
    model = play_model(&p, "play");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cay_model_free(model);
    play_clear(&p);
    return 0;
}

static int tell(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg, (void)err;
    cay_span *s = cay_sandbox_span(call->run, "file_operation");
    cay_output_text(out, "whispered answer", 16);
    cay_span_end(s, NULL);
    return 0;
}

static int pass(void *arg, cay_run *run, const char *text, char **info, cay_err *err)
{
    (void)arg, (void)run, (void)text, (void)info, (void)err;
    return 0;
}

static const cay_tool secret_tool = { .size = sizeof secret_tool, .name = "secret", .call = tell };
static const cay_guard guard = { .name = "polite", .check = pass };

/* An agent that calls another, which calls a tool; then a handoff. */
static cay_run_result *play_all(cay_run_config conf)
{
    static const cay_tool *const inner_tools[] = { &secret_tool };
    cay_agent inner = { .size = sizeof inner, .name = "Inner", .tools = inner_tools, .ntools = 1 };
    cay_agent last = { .size = sizeof last, .name = "Last" };
    cay_tool *as_tool = cay_agent_as_tool(&inner, "ask_inner", "asks");
    const cay_tool *const tools[] = { as_tool };
    cay_handoff to = { .agent = &last };
    cay_agent outer = { .size = sizeof outer,
                        .name = "Outer",
                        .tools = tools,
                        .ntools = 1,
                        .handoffs = &to,
                        .nhandoffs = 1,
                        .input_guards = &guard,
                        .ninput_guards = 1 };
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    p.say[0] = CALL("c1", "ask_inner", "{\\\"input\\\":\\\"whispered question\\\"}");
    p.say[1] = CALL("c2", "secret", "{}");
    p.say[2] = TEXT("inner done");
    p.say[3] = CALL("c3", "transfer_to_last", "{}");
    p.say[4] = TEXT("done");
    conf.size = sizeof conf;
    conf.model = model;
    conf.workflow = "work";
    conf.group_id = "g";
    if (cay_agent_run(&outer, NULL, "whispered task", &conf, &r, &err) < 0)
        fail_msg("%s (%s)", err.msg, err.reason);
    cay_tool_free(as_tool);
    return r;
}

static const json_t *find(const json_t *spans, const char *type, const char *name)
{
    size_t i;
    json_t *s;
    json_array_foreach(spans, i, s) {
        const json_t *d = json_object_get(s, "span_data");
        if (!strcmp(cay__json_str(d, "type", ""), type) &&
            !strcmp(cay__json_str(d, "name", ""), name))
            return s;
    }
    fail_msg("no span %s %s", type, name);
    return NULL;
}

static void below(const json_t *spans, const char *type, const char *name, const char *up_type,
                  const char *up)
{
    const json_t *a = find(spans, type, name), *b = find(spans, up_type, up);
    assert_string_equal(cay__json_str(a, "parent_id", ""), cay__json_str(b, "id", "?"));
    assert_true(strcmp(cay__json_str(a, "ended_at", ""), cay__json_str(b, "ended_at", "")) <= 0);
    assert_true(strcmp(cay__json_str(a, "started_at", ""), cay__json_str(b, "started_at", "")) >=
                0);
}

static void a_result_has_its_trace(void **state)
{
    (void)state;
    cay_run_result *r = play_all((cay_run_config){ .trace = true });
    CAY_AUTOJSON *t = json_loads(r->trace, 0, NULL);
    const json_t *spans = json_object_get(t, "spans");
    assert_string_equal(cay__json_str(t, "trace_id", ""), r->trace_id);
    assert_string_equal(cay__json_str(t, "workflow_name", ""), "work");
    assert_string_equal(cay__json_str(t, "group_id", ""), "g");
    assert_int_equal(cay__json_int(t, "left_out", -1), 0);
    const json_t *task = find(spans, "task", "work");
    assert_null(cay__json_str(task, "parent_id", NULL));
    assert_int_equal(
        cay__json_int(json_object_get(json_object_get(task, "span_data"), "usage"), "requests", 0),
        5);
    below(spans, "guardrail", "polite", "task", "work");
    below(spans, "agent", "Outer", "task", "work");
    below(spans, "turn", "turn 1", "agent", "Inner"); /* the first that ended: the inner one's */
    below(spans, "function", "secret", "turn", "turn 1");
    below(spans, "custom", "sandbox.file_operation", "function", "secret");
    below(spans, "agent", "Inner", "function", "ask_inner");
    below(spans, "turn", "turn 3", "agent", "Last");
    below(spans, "agent", "Last", "task", "work");
    find(spans, "handoff", "Last");
    find(spans, "generation", "play");
    has(r->trace, "\"response_id\"");
    has_not(r->trace, "whispered"); /* what was said is in none */
    cay_run_result_free(r);
    play_clear(&p);
    r = play_all((cay_run_config){ .workflow = NULL });
    assert_null(r->trace);
    assert_null(r->trace_id);
    cay_run_result_free(r);
}

static void what_was_said_is_told_when_asked_for(void **state)
{
    (void)state;
    cay_run_result *r = play_all((cay_run_config){ .trace = true, .trace_content = true });
    has(r->trace, "whispered task");
    has(r->trace, "whispered question");
    has(r->trace, "\"output\":\"whispered answer\"");
    cay_run_result_free(r);
}

typedef struct watch {
    int begun, ended, closed;
} watch;

static void on_start(void *self, const char *object)
{
    watch *w = self;
    w->begun++;
    CAY_AUTOJSON *o = json_loads(object, 0, NULL);
    assert_non_null(o);
    assert_true(!json_object_get(o, "ended_at") || json_is_null(json_object_get(o, "ended_at")));
}

static bool on_end(void *self, const char *object, char **instead)
{
    watch *w = self;
    w->ended++;
    if (strstr(object, "\"type\":\"turn\""))
        return false;
    if (strstr(object, "\"type\":\"task\""))
        *instead = cay__strdup("{\"object\":\"trace.span\",\"changed\":true}");
    return true;
}

static void on_close(void *self)
{
    ((watch *)self)->closed++;
}

typedef struct taken {
    char text[60000];
} taken;

static int take(void *self, const char *const *objects, size_t n, cay_err *err)
{
    taken *t = self;
    (void)err;
    for (size_t i = 0; i < n; i++)
        snprintf(t->text + strlen(t->text), sizeof t->text - strlen(t->text), "%s\n", objects[i]);
    return 0;
}

static void processors_look_change_and_keep_back(void **state)
{
    (void)state;
    static const cay_trace_sink sink = { .size = sizeof sink, .write = take };
    static const cay_trace_processor watcher = {
        .size = sizeof watcher, .start = on_start, .end = on_end, .close = on_close
    };
    taken *first = cay__alloc(sizeof *first), *second = cay__alloc(sizeof *second);
    watch w = { 0 };
    cay_tracer *t = cay_tracer_new(&sink, first);
    cay_tracer_process(t, &watcher, &w);
    cay_tracer_also(t, cay_tracer_new(&sink, second));
    cay_run_result *r = play_all((cay_run_config){ .tracer = t });
    assert_int_equal(w.begun, w.ended); /* the trace and every span of it */
    assert_true(w.begun > 12);
    has_not(first->text, "\"type\":\"turn\"");
    has(first->text, "\"changed\":true");
    has(second->text, "\"type\":\"turn\""); /* whose processors they are not */
    has_not(second->text, "changed");
    has(second->text, "\"object\":\"trace\"");
    assert_int_equal(cay_tracer_lost(t), 0);
    cay_run_result_free(r);
    cay_tracer_free(t);
    assert_int_equal(w.closed, 1);
    free(first);
    free(second);
}

typedef struct away {
    int calls;
    size_t objects;
    bool there;
} away;

static int take_or_not(void *self, const char *const *objects, size_t n, cay_err *err)
{
    away *a = self;
    (void)objects;
    a->calls++;
    a->objects += n;
    return a->there ? 0 : cay_fail(err, CAY_EUPSTREAM, "nobody there");
}

/* A collector that is away is asked once, and then left alone for a while: it does not hold up a
 * run with every batch. One that is there is told of a run that lasts. */
static void who_is_away_is_left_alone(void **state)
{
    static const cay_trace_sink sink = { .size = sizeof sink, .write = take_or_not };
    away a = { 0 };
    cay_tracer *t = cay_tracer_new(&sink, &a);
    (void)state;
    for (size_t i = 0; i < 1000; i++)
        cay_tracer_put(t, "{}");
    assert_int_equal(a.calls, 1);
    assert_int_equal(cay_tracer_lost(t), 256);
    a.there = true;
    cay_tracer_flush(t, NULL); /* at the end of a run it is asked all the same */
    assert_int_equal(a.calls, 2);
    assert_int_equal(a.objects, 1000);
    cay__tracer_every(t, 1);
    usleep(2000);
    cay_tracer_put(t, "{}");
    assert_int_equal(a.calls, 3);
    assert_int_equal(cay_tracer_lost(t), 256);
    cay_tracer_free(t);
}

static void people_see_a_tree(void **state)
{
    (void)state;
    char text[8192] = "";
    int fd = memfd_create("tree", MFD_CLOEXEC);
    cay_tracer *t = cay_tracer_console(fd);
    cay_run_result *r = play_all((cay_run_config){ .tracer = t });
    cay_run_result_free(r);
    assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
    has(text,
        " ms  task work  50 in, 5 out\n"); /* told when the run is over, not when the tracer is */
    has(text, " ms    agent Outer\n");
    has(text, " ms      turn turn 1");
    has(text, " ms        function ask_inner\n");
    has(text, " ms          agent Inner\n");
    assert_true(strstr(text, "agent Outer") < strstr(text, "agent Inner"));
    cay_tracer_free(t);
    close(fd);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = { T(a_result_has_its_trace),
                                        T(what_was_said_is_told_when_asked_for),
                                        T(processors_look_change_and_keep_back),
                                        T(people_see_a_tree), T(who_is_away_is_left_alone) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
