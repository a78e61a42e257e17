/* SPDX-License-Identifier: Apache-2.0 */
/* test_config PROVIDER: what a run is told besides its agent: windows, limits, what capabilities
 * add to a living sandbox, who decides that it is done, and what each request cost. */
#include "box.h"
#include <base/fd.h>
#include <cay/audit_sink.h>
#include <cay/manifest.h>
#include <cay/sys/capability.h>
#include <cay/workspace.h>
#include <fcntl.h>
#include <sys/mman.h>

static void a_window_that_is_told_counts(void **state)
{
    (void)state;
    static const struct {
        uint64_t window, model, threshold;
        unsigned percent;
        const char *sent;
    } rows[] = { { 0, 0, 0, 0, "\"compact_threshold\":360000" },
                 { 0, 32768, 0, 0, "\"compact_threshold\":29491" },
                 { 10000, 32768, 0, 0, "\"compact_threshold\":9000" },
                 { 10000, 0, 0, 50, "\"compact_threshold\":5000" },
                 { 10000, 0, 77, 50, "\"compact_threshold\":77" } };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_compaction_options o = { .size = sizeof o,
                                     .window = rows[i].window,
                                     .percent = rows[i].percent,
                                     .threshold = rows[i].threshold };
        cay_capability *caps[] = { cay_cap_compaction(&o) };
        cay_agent a = {
            .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 1
        };
        play_clear(&p);
        cay_model_set_window(model, rows[i].model);
        p.say[0] = TEXT("done");
        cay_run_result_free(box_run(&a, "go", (cay_run_config){ 0 }));
        has(p.extra[0], rows[i].sent);
        cay_cap_free(caps[0]);
    }
}

/* 78: by the name of the model, whoever provides it; of an unknown one nothing is known. */
static void a_window_goes_by_the_models_name(void **state)
{
    (void)state;
    static const char *const rows[][2] = { { "openai/gpt-5.4-mini", "360000" },
                                           { "gpt-5.5", "942818" },
                                           { "gpt-5.3-codex", "360000" },
                                           { "o4-mini", "180000" },
                                           { "codex-mini-latest", "180000" },
                                           { "gpt-5-chat-latest", "115200" },
                                           { "GPT-4o", "115200" },
                                           { "llama-9", "240000" } };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        char want[80];
        cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true };
        box_tear_down(state);
        model = play_model(&p, rows[i][0]);
        p.say[0] = TEXT("done");
        cay_run_result_free(box_run(&a, "go", (cay_run_config){ 0 }));
        snprintf(want, sizeof want,
                 "{\"context_management\":[{\"type\":\"compaction\",\"compact_threshold\":%s}]}",
                 rows[i][1]);
        assert_string_equal(p.extra[0], want);
    }
}

/* Of a small window less stays than of a large one, or nothing would be gained; and what the
 * summary cost is the run's. */
static void a_small_window_is_compacted_here(void **state)
{
    (void)state;
    cay_model_free(model);
    p.functions = true;
    model = play_model(&p, "local");
    cay_model_set_window(model, 4000);
    cay_capability *caps[] = { cay_cap_shell(NULL), cay_cap_compaction(NULL) };
    cay_agent a = {
        .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 2
    };
    for (size_t i = 0; i < 4; i++)
        p.say[i] =
            (const char *[]){ CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"seq 1 1000\\\"}"),
                              CALL("c1", "exec_command", "{\\\"cmd\\\":\\\"seq 1 1000\\\"}"),
                              CALL("c2", "exec_command", "{\\\"cmd\\\":\\\"seq 1 1000\\\"}"),
                              CALL("c3", "exec_command", "{\\\"cmd\\\":\\\"seq 1 1000\\\"}") }[i];
    p.say[4] = TEXT("we counted");
    p.say[5] = TEXT("done");
    cay_run_result *r = box_run(&a, "the first words", (cay_run_config){ 0 });
    has(p.instructions[4], "condense");
    has(p.input[5], "we counted");
    assert_true(strlen(p.input[5]) < 3600 * 4);
    assert_int_equal(r->turns, 5);
    assert_int_equal(r->usage.requests, 6);
    cay_run_result_free(r);
    cay_cap_free(caps[0]);
    cay_cap_free(caps[1]);
}

/* what capabilities bring, and
 * how their tools are */

static char *entry;
static int add_entry(void *self, const char *manifest, char **instead, cay_err *err)
{
    CAY_AUTOJSON *m = json_loads(manifest ? manifest : "{}", 0, NULL);
    (void)self, (void)err;
    json_t *entries = json_object_get(m, "entries");
    if (!entries) {
        entries = json_object();
        json_object_set_new(m, "entries", entries);
    }
    if (json_object_get(entries, "brought.txt"))
        return 0;
    json_object_set_new(entries, "brought.txt", json_loads(entry, 0, NULL));
    *instead = json_dumps(m, 0);
    return 0;
}

static int bound(void *self, const cay_scope_info *scope, void **out, cay_err *err)
{
    (void)scope, (void)err;
    *out = self;
    return 0;
}

/* Into one that was given to the run, once, by the rules of a living one. */
static void entries_of_capabilities_enter_a_living_sandbox(void **state)
{
    (void)state;
    static const cay_capability_ops ops = {
        .size = sizeof ops, .name = "brings", .start = bound, .manifest = add_entry
    };
    cay_capability *caps[] = { cay_capability_new(&ops, NULL), cay_cap_shell(NULL) };
    cay_agent a = {
        .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 2
    };
    cay_err err = CAY_ERR_INIT;
    cay_run_result *r = NULL;
    entry = (char *)"{\"type\":\"local_dir\",\"src\":\"/etc\"}"; /* nobody has granted it: refused
                                                                    before the model is asked */
    cay_run_config conf = { .size = sizeof conf, .model = model, .service = client, .sandbox = sb };
    assert_true(cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0);
    assert_int_equal(p.at, 0);
    entry = (char *)"{\"type\":\"file\",\"content\":\"by a capability\"}";
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"cat brought.txt; rm brought.txt\\\"}");
    p.say[1] = TEXT("done");
    cay_run_result_free(box_run(&a, "go", (cay_run_config){ 0 }));
    box_told_has(1, "by a capability");
    has(p.instructions[0], "brought.txt");
    play_clear(&p);
    p.say[0] = CALL("c0", "exec_command",
                    "{\\\"cmd\\\":\\\"ls\\\"}"); /* an unchanged manifest is no work */
    p.say[1] = TEXT("done");
    cay_run_result_free(box_run(&a, "go", (cay_run_config){ 0 }));
    CAY_AUTOFREE char *told = box_told(1);
    has_not(told, "brought.txt");
    cay_cap_free(caps[0]);
    cay_cap_free(caps[1]);
}

static int rename_it(void *arg, cay_tool *t, cay_err *err)
{
    if (!strcmp(t->name, "write_stdin"))
        return arg ? cay_fail(err, CAY_EINVAL, "no typing here") : 0;
    t->name = "sh";
    t->description = "A shell.";
    t->approval = true;
    t->needs_approval = NULL;
    return 0;
}

static void tools_of_capabilities_are_configured(void **state)
{
    (void)state;
    cay_capability *caps[] = { cay_cap_shell(NULL) };
    cay_agent a = {
        .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 1
    };
    cay_cap_configure(caps[0], rename_it, NULL);
    p.say[0] = CALL("c0", "sh", "{\\\"cmd\\\":\\\"true\\\"}");
    cay_run_result *r = box_run(&a, "go", (cay_run_config){ 0 });
    has(p.tools[0], "\"name\":\"sh\",\"description\":\"A shell.\"");
    has_not(p.tools[0], "\"name\":\"exec_command\"");
    assert_int_equal(r->ninterruptions, 1);
    assert_string_equal(r->interruptions[0].tool, "sh");
    cay_run_result_free(r);
    cay_cap_configure(caps[0], rename_it, &a);
    cay_err err = CAY_ERR_INIT;
    cay_run_config conf = { .size = sizeof conf, .model = model, .sandbox = sb };
    assert_int_equal(cay_agent_run(&a, NULL, "go", &conf, &r, &err), CAY_EINVAL);
    has(err.msg, "no typing here");
    cay_cap_free(caps[0]);
}

static bool there;
static bool is_there(void *self)
{
    (void)self;
    return there;
}

static int beep(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg, (void)call, (void)err;
    cay_output_text(out, "beep", 4);
    return 0;
}

static int horn_tools(void *self, const cay_tool *const **out, size_t *n, cay_err *err)
{
    static const cay_tool horn = { .size = sizeof horn, .name = "beep", .call = beep };
    static const cay_tool *const list[] = { &horn };
    (void)self, (void)err;
    *out = list;
    *n = 1;
    return 0;
}

static int horn_sampling(void *self, char **extra, cay_err *err)
{
    (void)self, (void)err;
    *extra = cay__strdup("{\"horn\":1}");
    return 0;
}

static int horn_history(void *self, const char *items, char **instead, cay_err *err)
{
    (void)self, (void)items, (void)err;
    assert_true(there);
    *instead = NULL;
    return 0;
}

/* One of your own, with a name, what it is for, and whether it is available in this run. */
static void a_capability_says_whether_it_is_available(void **state)
{
    (void)state;
    static const cay_capability_ops ops = { .size = sizeof ops,
                                            .name = "horn",
                                            .description = "Make yourself heard.",
                                            .start = bound,
                                            .check = is_there,
                                            .tools = horn_tools,
                                            .sampling = horn_sampling,
                                            .history = horn_history };
    cay_capability *caps[] = { cay_capability_new(&ops, NULL) };
    cay_agent a = {
        .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 1
    };
    for (int i = 0; i < 2; i++) {
        there = i;
        play_clear(&p);
        p.say[0] = CALL("c0", "beep", "{}");
        p.say[1] = TEXT("done");
        cay_run_result_free(box_run(&a, "go", (cay_run_config){ 0 }));
        if (there) {
            has(p.tools[0], "beep");
            has(p.instructions[0], "## horn\nMake yourself heard.");
            has(p.extra[0], "\"horn\":1");
            box_told_has(1, "beep");
        } else {
            has_not(p.tools[0], "beep");
            has_not(p.instructions[0], "horn");
            assert_null(p.extra[0]);
            box_told_has(
                1,
                "The tool \"beep\" cannot be used: capability horn is not available in this run.");
        }
    }
    cay_cap_free(caps[0]);
}

/* Whom the manifest does not name is made with the sandbox, and everything is done as that user:
 * commands, patches, and what the manifest put there. */
static void an_agent_works_as_its_user(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .sandbox = true,
                    .run_as = "dev",
                    .manifest =
                        "{\"entries\":{\"given.txt\":{\"type\":\"file\",\"content\":\"x\"}}}" };
    cay_run_config conf = { .size = sizeof conf, .model = model, .service = client };
    cay_err err = CAY_ERR_INIT;
    cay_run_result *r = NULL;
    p.say[0] =
        CUSTOM("c0", "apply_patch", "*** Begin Patch\\n*** Add File: a/b.txt\\n+x\\n*** End Patch");
    p.say[1] = CALL("c1", "exec_command",
                    "{\\\"cmd\\\":\\\"whoami; stat -c %U a/b.txt; echo y >> given.txt && stat -c "
                    "%U given.txt\\\"}");
    p.say[2] = TEXT("done");
    if (cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0)
        fail_msg("%s", err.msg);
    box_told_has(1, "Created a/b.txt");
    box_told_has(2, "dev\ndev\ndev\n");
    cay_run_result_free(r);
}

/* A user whom the sandbox does not have, or a directory that the user cannot enter, is told before
 * the model is asked; the sandbox stays as it was. */
static void a_user_that_is_none_is_told_first(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true, .run_as = "ghost" };
    cay_run_config conf = { .size = sizeof conf, .model = model, .service = client, .sandbox = sb };
    const cay_call root = { .size = sizeof root, .user = "root" };
    cay_err err = CAY_ERR_INIT;
    cay_run_result *r = NULL;
    assert_int_equal(cay_agent_run(&a, NULL, "go", &conf, &r, &err), CAY_ENOENT);
    assert_string_equal(err.reason, "user_unknown");
    has(err.msg, "agent A is to work as user ghost (run_as), whom its sandbox does not have");
    if (cay_file_mkdir(sb, &root, "/workspace/shut", 0700, false, &err) < 0)
        fail_msg("%s", err.msg);
    a.run_as = "user";
    conf.cwd = "shut";
    assert_int_equal(cay_agent_run(&a, NULL, "go", &conf, &r, &err), CAY_EPERM);
    has(err.msg, "cwd of the run");
    conf.cwd = "nosuch";
    assert_int_equal(cay_agent_run(&a, NULL, "go", &conf, &r, &err), CAY_ENOENT);
    assert_int_equal(p.at, 0);
    a.run_as = "root";
    conf.cwd = "shut";
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"whoami; pwd\\\"}");
    p.say[1] = TEXT("done");
    if (cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0)
        fail_msg("%s", err.msg);
    box_told_has(1, "root\n/workspace/shut\n");
    cay_run_result_free(r);
}

/* The sandbox of the run, for commands and files. */
static int run_command(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    cay_sandbox *box = cay_run_sandbox(call->run);
    cay_result r = { .size = sizeof r };
    CAY_AUTOFREE char *data = NULL;
    size_t n = 0;
    (void)arg;
    if (!box)
        return cay_fail(err, CAY_ESTATE, "no sandbox here");
    cay_spawn s = { .size = sizeof s, .shell = "echo by a tool | tee made.txt" };
    CAY_TRY(cay_sandbox_run(box, cay_run_call(call->run), &s, NULL, 0, 0, &r, err));
    cay_result_clear(&r);
    CAY_TRY(cay_file_get(box, cay_run_call(call->run), "made.txt", 100, &data, &n, err));
    cay_output_text(out, data, n);
    return 0;
}

static void a_tool_reaches_the_sandbox_of_its_run(void **state)
{
    (void)state;
    static const cay_tool t = { .size = sizeof t, .name = "run_command", .call = run_command };
    static const cay_tool *const tools[] = { &t };
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true, .tools = tools, .ntools = 1 },
              b = { .size = sizeof b, .name = "B", .tools = tools, .ntools = 1 };
    p.say[0] = CALL("c0", "run_command", "{}");
    p.say[1] = TEXT("done");
    cay_run_result_free(box_run(&a, "go", (cay_run_config){ 0 }));
    box_told_has(1, "by a tool");
    play_clear(&p);
    p.say[0] =
        CALL("c0", "run_command", "{}"); /* an agent without a sandbox, though the run has one */
    p.say[1] = TEXT("done");
    cay_run_result_free(box_run(&b, "go", (cay_run_config){ 0 }));
    box_told_has(1, "no sandbox here");
}

static int turn_text(cay_run *run, const cay_agent *agent, char **text, cay_err *err)
{
    const size_t turn = p.at;
    assert_ptr_equal(cay_run_agent(run), agent);
    if (turn == 2)
        return cay_fail_why(err, CAY_EPERM, "no_base", "nothing to begin with");
    if (turn == 0)
        *text = cay__strdup("Made for the first turn.");
    return 0;
}

/* 10.6: the base is a text, a function of the turn, or ours; an agent of an older program has no
 * such function. */
static void base_instructions_are_made_for_each_turn(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .sandbox = true,
                    .instructions = "Be kind.",
                    .base_instructions = "Written down.",
                    .base_instruct = turn_text };
    cay_err err = CAY_ERR_INIT;
    cay_run_result *r = NULL;
    cay_run_config conf = { .size = sizeof conf, .model = model, .sandbox = sb };
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"true\\\"}");
    p.say[1] = TEXT("done");
    cay_run_result_free(box_run(&a, "go", (cay_run_config){ 0 }));
    has(p.instructions[0],
        "# Base instructions\n\nMade for the first turn.\n\n# Agent instructions\n\nBe kind.");
    has_not(p.instructions[0], "Written down.");
    has(p.instructions[1], "# Base instructions\n\nWritten down.\n\n# Agent"); /* it gave none */
    assert_int_equal(cay_agent_run(&a, NULL, "go", &conf, &r, &err), CAY_EPERM);
    assert_string_equal(err.reason, "no_base");
    assert_int_equal(p.at, 2); /* nobody was asked */
    a.size = offsetof(cay_agent, base_instruct);
    p.say[2] = TEXT("done");
    cay_run_result_free(box_run(&a, "go", (cay_run_config){ 0 }));
    has(p.instructions[2], "Written down.");
}

/* The lines of a record, the first of which nobody ran; freed. */
static size_t record_lines(char *text, const char *id)
{
    size_t n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), n++) {
        CAY_AUTOJSON *j = json_loads(line, 0, NULL);
        assert_string_equal(cay__json_str(j, "rollout_id", ""), id);
        assert_true(strlen(cay__json_str(j, "updated_at", "")) > 20);
        assert_int_equal(json_array_size(json_object_get(j, "input")) +
                                 json_array_size(json_object_get(j, "generated_items")) >
                             0,
                         n > 0);
        assert_int_equal(json_is_object(json_object_get(j, "terminal_metadata")), n > 0);
    }
    free(text);
    return n;
}

static char *read_record(const char *store, const char *dir, const char *id)
{
    char path[300];
    char *text = NULL;
    size_t len = 0;
    cay_err err = CAY_ERR_INIT;
    snprintf(path, sizeof path, "%s%s%s/%s.jsonl", store ? store : "", store ? "/" : "", dir, id);
    if (!store && cay_file_get(sb, NULL, path, 1 << 20, &text, &len, &err) < 0)
        fail_msg("%s", err.msg);
    if (store) {
        text = cay__alloc(1 << 20);
        if (cay__fd_read_file(AT_FDCWD, path, text, 1 << 20) <= 0)
            fail_msg("%s: not there", path);
    }
    return text;
}

/* memory.rollouts.create_rollout(): an empty record, and its id for runs that belong together,
 * before any other that they have. */
static void a_rollout_is_created_before_its_runs(void **state)
{
    (void)state;
    cay_memory_options o = { .size = sizeof o,
                             .generate = true,
                             .sessions_dir = "kept/runs",
                             .memories_dir = "kept/memories" };
    cay_capability *caps[1] = { NULL };
    cay_err err = CAY_ERR_INIT;
    char id[32], other[32];
    assert_int_equal(cay_cap_memory(&o, &caps[0], &err), 0);
    cay_agent a = {
        .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 1
    };
    assert_int_equal(cay_memory_rollout(caps[0], NULL, NULL, id, &err),
                     CAY_EINVAL); /* neither a sandbox nor a store */
    assert_string_equal(err.reason, "memory_config_invalid");
    if (cay_memory_rollout(caps[0], sb, NULL, id, &err) < 0 ||
        cay_memory_rollout(caps[0], sb, NULL, other, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_not_equal(id, other);
    assert_int_equal(record_lines(read_record(NULL, "kept/runs", id), id), 1);
    for (size_t i = 0; i < 2; i++) {
        play_clear(&p);
        p.say[0] = TEXT("done");
        cay_run_result_free(box_run(
            &a, i ? "second" : "first",
            (cay_run_config){ .rollout_id = id, .conversation_id = "talk", .group_id = "group" }));
    }
    char *text = read_record(NULL, "kept/runs", id);
    has(text, "first");
    has(text, "second");
    assert_int_equal(record_lines(text, id), 3);
    assert_int_equal(record_lines(read_record(NULL, "kept/runs", other), other), 1);
    cay_cap_free(caps[0]);
    caps[0] = cay_cap_shell(NULL);
    assert_int_equal(cay_memory_rollout(caps[0], sb, NULL, id, &err), CAY_EINVAL); /* no memory */
    cay_cap_free(caps[0]);
}

/* Where no sandbox is yet it begins in the store, and the first run brings it along. */
static void a_rollout_begins_in_the_store(void **state)
{
    (void)state;
    char *store = support_home(), id[32];
    cay_memory_options o = { .size = sizeof o,
                             .generate = true,
                             .sessions_dir = "st/runs",
                             .memories_dir = "st/memories",
                             .store = store };
    cay_capability *caps[1] = { NULL };
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_cap_memory(&o, &caps[0], &err), 0);
    cay_agent a = {
        .size = sizeof a, .name = "A", .sandbox = true, .capabilities = caps, .ncapabilities = 1
    };
    if (cay_memory_rollout(caps[0], NULL, NULL, id, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(record_lines(read_record(store, "sessions", id), id), 1);
    p.say[0] = TEXT("done");
    p.say[1] = TEXT("{\\\"rollout_slug\\\":\\\"\\\",\\\"rollout_summary\\\":\\\"\\\",\\\"raw_"
                    "memory\\\":\\\"\\\"}");
    cay_run_result_free(box_run(&a, "first", (cay_run_config){ .rollout_id = id }));
    assert_int_equal(p.at, 2);
    has(p.input[1], "completed (1 segment,"); /* what nobody ran is no segment */
    assert_int_equal(record_lines(read_record(store, "sessions", id), id), 2);
    cay_cap_free(caps[0]);
    support_home_remove(store);
}

static int members(void)
{
    static const char ustar[8] = { 'u', 's', 't', 'a', 'r', 0, '0', '0' };
    int fd = memfd_create("tar", MFD_CLOEXEC);
    for (int i = 0; i < 3; i++) {
        char head[512] = "";
        unsigned sum = 0;
        snprintf(head, 100, "f%d", i);
        memcpy(head + 100, "0000644", 8);
        memcpy(head + 108, "0000000", 8);
        memcpy(head + 116, "0000000", 8);
        memcpy(head + 124, "00000000000", 12);
        memcpy(head + 136, "00000000000", 12);
        memset(head + 148, ' ', 8);
        head[156] = '0';
        memcpy(head + 257, ustar, 8);
        for (size_t k = 0; k < sizeof head; k++)
            sum += (unsigned char)head[k];
        snprintf(head + 148, 8, "%06o", sum);
        assert_true(cay__fd_write_all(fd, head, sizeof head));
    }
    char end[1024] = "";
    assert_true(cay__fd_write_all(fd, end, sizeof end) && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static int unpack(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    cay_extracted n = { .size = sizeof n };
    CAY_AUTOFD fd = members();
    const cay_archive_limits none = { .size = sizeof none };
    cay_extract x = { .size = sizeof x,
                      .path = "in/a.tar",
                      .fd = fd,
                      .limits = arg && strstr(call->arguments, "all") ? &none : NULL };
    int rc = cay_run_extract(call->run, &x, &n, err);
    if (rc == 0)
        cay_output_text(out, "unpacked", 8);
    return rc;
}

static void archives_keep_to_the_runs_limits(void **state)
{
    (void)state;
    cay_tool t = { .size = sizeof t,
                   .name = "unpack",
                   .call = unpack,
                   .arg = &t,
                   .parameters =
                       "{\"type\":\"object\",\"properties\":{\"what\":{\"type\":\"string\"}}}" };
    const cay_tool *const tools[] = { &t };
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true, .tools = tools, .ntools = 1 },
              b = { .size = sizeof b, .name = "B", .tools = tools, .ntools = 1 };
    const cay_archive_limits two = { .size = sizeof two, .max_members = 2 };
    p.say[0] = CALL("c0", "unpack", "{}");
    p.say[1] = CALL("c1", "unpack", "{\\\"what\\\":\\\"all\\\"}");
    p.say[2] = TEXT("done");
    cay_run_result_free(box_run(&a, "go", (cay_run_config){ .archive_limits = &two }));
    box_told_has(1, "more than 2 members");
    box_told_has(2, "unpacked");
    play_clear(&p);
    p.say[0] = CALL("c0", "unpack", "{}");
    p.say[1] = TEXT("done");
    cay_run_result_free(box_run(&b, "go", (cay_run_config){ 0 }));
    box_told_has(1, "works in no sandbox");
}

static void a_run_says_how_much_is_done_at_once(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .sandbox = true,
                    .manifest = "{\"concurrencyLimits\":{\"manifestEntries\":7},\"entries\":{\"a."
                                "txt\":{\"type\":\"file\",\"content\":\"a\"}}}" };
    cay_run_config conf = {
        .size = sizeof conf, .model = model, .service = client, .local_dir_files = 3, .keep = true
    };
    cay_err err = CAY_ERR_INIT;
    cay_run_result *r = NULL;
    cay_sandbox *made = NULL;
    CAY_AUTOFREE char *manifest = NULL;
    p.say[0] = TEXT("done");
    if (cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0 ||
        cay_client_find(client, NULL, r->sandbox, &made, &err) < 0 ||
        cay_sandbox_manifest(made, NULL, &manifest, &err) < 0)
        fail_msg("%s", err.msg);
    has(manifest, "\"concurrency_limits\"");
    has(manifest, "\"manifest_entries\":7");
    has(manifest, "\"local_dir_files\":3");
    cay_sandbox_remove(made, NULL, NULL);
    cay_sandbox_unref(made);
    cay_run_result_free(r);
}

/* who decides, and what it cost
 */

static int sum(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg, (void)call, (void)err;
    cay_output_text(out, "42", 2);
    return 0;
}
static const cay_tool adder = { .size = sizeof adder, .name = "add", .call = sum };
static const cay_tool *const adders[] = { &adder };

static int enough(cay_run *run, const cay_agent *agent, const char *results, char **output,
                  cay_err *err)
{
    (void)err;
    assert_ptr_equal(cay_run_agent(run), agent);
    has(results, "{\"tool\":\"add\",\"call_id\":\"c");
    if (strstr(results, "\"c2\""))
        *output = cay__strdup("it is 42");
    return strstr(results, "\"c3\"") ? cay_fail_why(err, CAY_EPERM, "enough", "no more") : 0;
}

static void a_function_says_that_it_is_done(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .tools = adders,
                    .ntools = 1,
                    .tool_use = CAY_TOOLS_ASK,
                    .tools_done = enough };
    p.say[0] = CALL("c1", "add", "{}");
    p.say[1] = CALL("c2", "add", "{}");
    cay_run_result *r = box_run(&a, "go", (cay_run_config){ 0 });
    assert_string_equal(r->output, "it is 42");
    assert_int_equal(r->turns, 2);
    cay_run_result_free(r);
    p.say[2] = CALL("c3", "add", "{}");
    cay_err err = CAY_ERR_INIT;
    cay_run_config conf = { .size = sizeof conf, .model = model };
    assert_int_equal(cay_agent_run(&a, NULL, "go", &conf, &r, &err), CAY_EPERM);
    assert_string_equal(err.reason, "enough");
}

static void each_request_has_its_entry(void **state)
{
    (void)state;
    static const cay_tool asking = {
        .size = sizeof asking, .name = "add", .call = sum, .approval = true
    };
    cay_agent inner = { .size = sizeof inner, .name = "Inner" };
    cay_tool *nested = cay_agent_as_tool(&inner, "helper", NULL);
    const cay_tool *const tools[] = { nested, &asking };
    cay_agent a = { .size = sizeof a, .name = "Outer", .tools = tools, .ntools = 2 };
    p.say[0] = CALL("c1", "helper", "{\\\"input\\\":\\\"help\\\"}");
    p.say[1] = TEXT("helped");
    p.say[2] = CALL("c2", "add", "{}");
    p.say[3] = TEXT("done");
    cay_run_result *r = box_run(&a, "go", (cay_run_config){ 0 });
    assert_int_equal(r->ninterruptions, 1);
    CAY_AUTOFREE char *text = cay__strdup(r->state);
    cay_run_result_free(r);
    cay_state_doc *d = NULL;
    assert_int_equal(cay_state_open(text, &d, NULL), 0);
    assert_int_equal(cay_state_approve(d, "c2", false, NULL), 0);
    CAY_AUTOFREE char *yes = cay_state_text(d);
    cay_state_close(d);
    r = box_run(&a, NULL, (cay_run_config){ .state = yes });
    CAY_AUTOJSON *all = json_loads(r->requests, 0, NULL);
    assert_int_equal(json_array_size(all), 4);
    assert_int_equal(r->usage.requests, 4);
    static const char *const who[] = { "Outer", "Inner", "Outer", "Outer" };
    for (size_t i = 0; i < 4; i++) {
        const json_t *e = json_array_get(all, i);
        assert_string_equal(cay__json_str(e, "agent", ""), who[i]);
        assert_string_equal(cay__json_str(e, "model", ""), "gpt-5.4-mini");
        assert_int_equal(cay__json_int(e, "input_tokens", 0), 10);
        assert_int_equal(cay__json_int(e, "cache_write_tokens", -1), 0);
    }
    cay_run_result_free(r);
    cay_tool_free(nested);
}

static int count(void *self, const char *json, cay_err *err)
{
    int *n = self;
    ++*n;
    return *n == 2 ? cay_fail(err, CAY_ESYS, "no room")
           : strstr(json, "\"command\"") || strstr(json, "\"shell\"")
               ? cay_fail(err, CAY_EINVAL, "details")
               : 0;
}

static int told_audit;
static int on_event(void *arg, const cay_run_event *ev)
{
    (void)arg;
    told_audit += ev->kind == CAY_RUN_NOTE && !strcmp(ev->name, "audit");
    return 0;
}

static void an_audit_goes_to_several_places(void **state)
{
    (void)state;
    int n = 0;
    static const cay_audit_sink_ops ops = { .size = sizeof ops, .write = count };
    cay_audit_sink *first = cay_audit_sink_workspace(true),
                   *second = cay_audit_sink_new(&ops, &n, false);
    cay_audit_sink_detail(first, true);
    cay_audit_sink_also(first, second); /* without details, and it may fail */
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true };
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"echo hi\\\"}");
    p.say[1] = TEXT("done");
    told_audit = 0;
    cay_run_result_free(
        box_run(&a, "go", (cay_run_config){ .ledger = first, .on_event = on_event }));
    assert_int_equal(cay_audit_sink_lost(first), 1);
    assert_int_equal(told_audit, 1);
    char path[100], part[40];
    CAY_AUTOFREE char *text = NULL;
    size_t len = 0;
    cay_err err = CAY_ERR_INIT;
    snprintf(path, sizeof path, "logs/events-%s.jsonl", cay_sandbox_id(sb));
    if (cay_file_get(sb, NULL, path, 1 << 20, &text, &len, &err) < 0)
        fail_msg("%s", err.msg);
    has(text, "\"state\":\"started\""); /* from before it had its sandbox */
    has(text, "echo hi");
    has(text, "\"state\":\"completed\"");
    for (int i = 1; i <= n; i++) {
        snprintf(part, sizeof part, "\"seq\":%d,", i);
        has(text, part);
    }
    cay_audit_sink_free(first);
}

int main(int argc, char **argv)
{
    provider = argc > 1 ? argv[1] : "local";
#define T(name) cmocka_unit_test_setup_teardown(name, box_set_up, box_tear_down)
    const struct CMUnitTest tests[] = {
        T(a_window_that_is_told_counts),
        T(a_window_goes_by_the_models_name),
        T(a_small_window_is_compacted_here),
        T(entries_of_capabilities_enter_a_living_sandbox),
        T(tools_of_capabilities_are_configured),
        T(a_capability_says_whether_it_is_available),
        T(an_agent_works_as_its_user),
        T(a_user_that_is_none_is_told_first),
        T(a_tool_reaches_the_sandbox_of_its_run),
        T(base_instructions_are_made_for_each_turn),
        T(a_rollout_is_created_before_its_runs),
        T(a_rollout_begins_in_the_store),
        T(archives_keep_to_the_runs_limits),
        T(a_run_says_how_much_is_done_at_once),
        T(a_function_says_that_it_is_done),
        T(each_request_has_its_entry),
        T(an_audit_goes_to_several_places),
    };
    return cmocka_run_group_tests(tests, box_open, box_close);
}
