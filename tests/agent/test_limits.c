/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_limits PROVIDER: allow-lists of agents, held by the kernel and by the file calls (S-70).
 */
#include "box.h"
#include <sys/syscall.h>

static char *seen; /* the report that the run told */

static int on_event(void *arg, const cay_run_event *ev)
{
    (void)arg;
    if (ev->kind == CAY_RUN_NOTE && !strcmp(ev->name, "enforced")) {
        free(seen);
        seen = cay__strdup(ev->json);
    }
    return 0;
}

static int tear_down(void **state)
{
    free(CAY_STEAL(seen));
    return box_tear_down(state);
}

static void skip_without_landlock(void)
{
    if (strcmp(provider, "native") || syscall(444 /* landlock_create_ruleset */, NULL, 0, 1) < 3) {
        print_message("skipped: needs a native sandbox and Landlock ABI 3\n");
        skip();
    }
}

typedef int cap_fn(const cay_list_options *o, cay_capability **out, cay_err *err);

static void play_with(cap_fn *one, const char *const *a, cap_fn *two, const char *const *b,
                      size_t turns)
{
    cay_capability *caps[4] = { cay_cap_filesystem(NULL), cay_cap_shell(NULL), NULL, NULL };
    size_t n = 3;
    cay_list_options lo = { .size = sizeof lo, .list = a }, lp = { .size = sizeof lp, .list = b };
    assert_int_equal(one(&lo, &caps[2], NULL), 0);
    if (two)
        assert_int_equal(two(&lp, &caps[n++], NULL), 0);
    cay_agent ag = {
        .size = sizeof ag, .name = "Held", .sandbox = true, .capabilities = caps, .ncapabilities = n
    };
    p.say[turns] = TEXT("done");
    cay_run_result_free(box_run(&ag, "go", (cay_run_config){ .on_event = on_event }));
    for (size_t i = 0; i < n; i++)
        cay_cap_free(caps[i]);
}

#define SH(id, cmd) CALL(id, "exec_command", "{\\\"cmd\\\":\\\"" cmd "\\\",\\\"login\\\":false}")

static void writes_stay_where_they_may(void **state)
{
    static const char *const paths[] = { "out", NULL };
    (void)state;
    skip_without_landlock();
    assert_int_equal(cay_file_mkdir(sb, NULL, "out", 0755, true, NULL), 0);
    p.say[0] = SH("c0", "echo yes > out/a && cat out/a && echo quiet > /dev/null");
    p.say[1] = SH("c1", "echo no > other");
    p.say[2] = SH("c2", "ln -s /workspace out/l; echo no > out/l/other; python3 -c "
                        "'open(\\\\\\\"/tmp/x\\\\\\\", \\\\\\\"w\\\\\\\")'");
    p.say[3] = CUSTOM("c3", "apply_patch",
                      "*** Begin Patch\\n*** Add File: other\\n+no\\n*** End Patch\\n");
    p.say[4] = CUSTOM("c4", "apply_patch",
                      "*** Begin Patch\\n*** Add File: out/b\\n+yes\\n*** End Patch\\n");
    p.say[5] = CUSTOM("c5", "apply_patch",
                      "*** Begin Patch\\n*** Add File: out/l/other\\n+no\\n*** End Patch\\n");
    play_with(cay_cap_write, paths, NULL, NULL, 6);
    box_told_has(1, "yes\n");
    box_told_has(1, "code 0");
    box_told_has(2, "ermission denied");
    box_told_has(3, "ermission denied");
    box_told_has(4, "may not be written");
    box_told_has(5, "Created out/b");
    box_told_has(6, "may not be written");
    bool yes = true;
    assert_int_equal(cay_file_exists(sb, NULL, "other", &yes, NULL), 0);
    assert_false(yes);
    has(seen, "\"capability\":\"write\"");
    has(seen, "\"commands\":\"kernel\"");
    has(seen, "cannot_stop");
}

static void reads_stay_where_they_may(void **state)
{
    static const char *const paths[] = { "open", NULL };
    cay_write w = { .size = sizeof w, .parents = true };
    (void)state;
    skip_without_landlock();
    assert_int_equal(cay_file_put(sb, NULL, "open/a", "may\n", 4, &w, NULL), 0);
    assert_int_equal(cay_file_put(sb, NULL, "closed/a.png", "secret\n", 7, &w, NULL), 0);
    p.say[0] = SH("c0", "cat open/a; python3 -c 'import json; print(json.dumps(1))'");
    p.say[1] = SH("c1", "cat closed/a.png; ls closed");
    p.say[2] = CALL("c2", "view_image", "{\\\"path\\\":\\\"closed/a.png\\\"}");
    play_with(cay_cap_read, paths, NULL, NULL, 3);
    box_told_has(1, "may\n1\n");
    CAY_AUTOFREE char *t = box_told(2);
    has(t, "ermission denied");
    has_not(t, "secret");
    box_told_has(3, "may not be read");
}

static void only_these_programs_run(void **state)
{
    static const char script[] = "#!/usr/bin/env python3\nprint('hello')\n";
    cay_write w = { .size = sizeof w, .mode = 0755 };
    (void)state;
    skip_without_landlock();
    static const char *const named[] = { "cat", "./hello", NULL };
    assert_int_equal(cay_file_put(sb, NULL, "hello", script, sizeof script - 1, &w, NULL), 0);
    p.say[0] = SH("c0", "echo x | cat; ./hello");
    p.say[1] = SH("c1", "ls");
    p.say[2] = SH("c2", "cp /bin/ls mine; exec /usr/bin/id");
    play_with(cay_cap_exec, named, NULL, NULL, 3);
    box_told_has(1, "x\nhello\n");
    box_told_has(2, "ermission denied");
    box_told_has(3, "ermission denied");
    has(seen, "\"capability\":\"exec\"");
}

static cay__buf written = CAY__BUF(1 << 20);
static int fail_at;

static int keep(void *self, const char *json, cay_err *err)
{
    (void)self;
    if (fail_at && !--fail_at)
        return cay_fail(err, CAY_ENOSPACE, "the disk is full");
    cay__buf_fmt(&written, "%s\n", json);
    return 0;
}

static void what_is_done_is_written_down(void **state)
{
    static const cay_audit_sink_ops sink = { .size = sizeof sink, .write = keep };
    cay_audit_sink *audit = cay_audit_sink_new(&sink, NULL, true);
    cay_agent a = { .size = sizeof a, .name = "Seen", .sandbox = true };
    (void)state;
    p.say[0] =
        CUSTOM("c0", "apply_patch",
               "*** Begin Patch\\n*** Add File: seen.txt\\n+secret words\\n*** End Patch\\n");
    p.say[1] = SH("c1", "echo hidden; exit 7");
    p.say[2] = CALL("c2", "nosuch", "{}");
    p.say[3] = TEXT("done");
    cay_run_result_free(box_run(&a, "go", (cay_run_config){ .ledger = audit }));
    has(written.data, "\"event\":\"run\",\"state\":\"started\"");
    has(written.data,
        "\"tool\":\"apply_patch\",\"call_id\":\"c0\",\"inside\":false,\"outcome\":\"ok\"");
    has(written.data,
        "\"tool\":\"nosuch\",\"call_id\":\"c2\",\"inside\":false,\"outcome\":\"refused\"");
    has(written.data, "\"state\":\"completed\"");
    has(written.data, "\"event\":\"operation\",\"op\":\"file.write\",\"call_id\":\"c0\"");
    has(written.data, "\"bytes\":12");
    has(written.data, "\"event\":\"operation\",\"op\":\"process.start\",\"call_id\":\"c1\"");
    has(strstr(written.data, "\"op\":\"process.wait\",\"call_id\":\"c1\""), "\"exit_code\":7");
    has_not(written.data, "secret words");
    has_not(written.data, "hidden");
    has_not(written.data, "seen.txt");
    assert_int_equal(cay_audit_sink_lost(audit), 0);
    /* Commands and paths where they are wanted, and even then nothing that was written or printed.
     */
    play_clear(&p);
    p.say[0] =
        CUSTOM("c0", "apply_patch",
               "*** Begin Patch\\n*** Add File: other.txt\\n+secret words\\n*** End Patch\\n");
    p.say[1] = SH("c1", "printf 'hid''den'");
    p.say[2] = TEXT("done");
    cay_audit_sink_detail(audit, true);
    cay_run_result_free(box_run(&a, "go", (cay_run_config){ .ledger = audit }));
    has(written.data, "/workspace/other.txt");
    has(written.data, "printf 'hid''den'");
    has_not(written.data, "secret words");
    has_not(written.data, "hidden");
    has_not(written.data, "\"output\"");
    /* What tools answered, where that is wanted, and not all of it. */
    play_clear(&p);
    p.say[0] = SH("c1", "printf 'hid''den'; printf %09000d 0; echo end");
    p.say[1] = TEXT("done");
    cay_audit_sink_output(audit, true);
    cay_run_result_free(box_run(&a, "go", (cay_run_config){ .ledger = audit }));
    has(written.data, "hidden0000");
    has(written.data, "bytes more)\"");
    has_not(written.data, "0end");
    cay_audit_sink_output(audit, false);
    /* What cannot be written down is not done. */
    play_clear(&p);
    p.say[0] = SH("c0", "echo one");
    p.say[1] = TEXT("done");
    fail_at = 2;
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_run_config conf = { .size = sizeof conf, .model = model, .sandbox = sb, .ledger = audit };
    assert_true(cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0);
    assert_int_equal(p.at, 1);
    assert_int_equal(cay_audit_sink_lost(audit), 1);
    fail_at = 0;
    cay_audit_sink_free(audit);
    cay__buf_clear(&written);
}

static void a_missing_program_is_said(void **state)
{
    static const char *const programs[] = { "nosuchprogram", NULL };
    cay_list_options o = { .size = sizeof o, .list = programs };
    cay_capability *cap = NULL;
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    (void)state;
    assert_int_equal(cay_cap_exec(&o, &cap, NULL), 0);
    cay_agent a = {
        .size = sizeof a, .name = "Held", .sandbox = true, .capabilities = &cap, .ncapabilities = 1
    };
    cay_run_config conf = { .size = sizeof conf, .model = model, .sandbox = sb };
    assert_int_equal(cay_agent_run(&a, NULL, "go", &conf, &r, &err), CAY_ENOENT);
    has(err.msg, "nosuchprogram");
    cay_cap_free(cap);
    static const char *const bad[] = { "../x", NULL };
    o.list = bad;
    assert_int_equal(cay_cap_read(&o, &cap, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "capability_list");
}

static void who_cannot_hold_it_refuses(void **state)
{
    static const char *const paths[] = { "out", NULL };
    (void)state;
    if (!strcmp(provider, "native"))
        skip();
    p.say[0] = SH("c0", "true");
    play_with(cay_cap_write, paths, NULL, NULL, 1);
    box_told_has(1, "cannot hold a command");
    has(seen, "\"commands\":\"refused\"");
}

static void the_network_is_the_runs_while_it_lasts(void **state)
{
    static const char *const rules[] = { "example.org:443", NULL };
    CAY_AUTOFREE char *before = NULL, *after = NULL;
    (void)state;
    if (strcmp(provider, "native"))
        skip();
    assert_int_equal(cay_sandbox_get_policy(sb, NULL, &before, NULL, NULL), 0);
    p.say[0] = SH("c0", "true");
    play_with(cay_cap_network, rules, NULL, NULL, 1);
    has(p.instructions[0], "example.org");
    has(seen, "\"commands\":\"egress\"");
    assert_int_equal(cay_sandbox_get_policy(sb, NULL, &after, NULL, NULL), 0);
    assert_string_equal(before, after);
    static const char *const bad[] = { "not a rule!", NULL };
    cay_list_options o = { .size = sizeof o, .list = bad };
    cay_capability *cap = NULL;
    assert_int_equal(cay_cap_network(&o, &cap, NULL), CAY_EINVAL);
}

int main(int argc, char **argv)
{
    provider = argc > 1 ? argv[1] : "local";
#define T(name) cmocka_unit_test_setup_teardown(name, box_set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(writes_stay_where_they_may),   T(reads_stay_where_they_may),
        T(only_these_programs_run),      T(a_missing_program_is_said),
        T(who_cannot_hold_it_refuses),   T(the_network_is_the_runs_while_it_lasts),
        T(what_is_done_is_written_down),
    };
    return cmocka_run_group_tests_name("limits", tests, box_open, box_close);
}
