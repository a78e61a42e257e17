/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sandboxed PROVIDER: agents in real sandboxes. Numbers are those of the conformance cases.
 */
#include "play.h"
#include "../support/support.h"
#include <agent/capability/output.h>
#include <agent/capability/commands.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

static play p;
static cay_model *model;
static cay_client *client;
static cay_sandbox *sb; /* one for the tests that may share it */
static const char *provider;
static char *home;

static int open_all(void **state)
{
    cay_err err = CAY_ERR_INIT;
    (void)state;
    home = support_home();
    cay_open o = {
        .size = sizeof o, .home = home, .provider = provider, .libexec = support_libexec()
    };
    cay_create c = { .size = sizeof c };
    if (cay_client_open(&o, &client, &err) < 0 ||
        cay_client_create(client, NULL, &c, &sb, &err) < 0)
        fail_msg("%s", err.msg);
    return 0;
}

static int count(const cay_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

static int boxes(void)
{
    int n = 0;
    assert_int_equal(cay_client_list(client, NULL, NULL, count, &n, NULL), 0);
    return n;
}

static int close_all(void **state)
{
    (void)state;
    int rc = cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
    rc |= boxes();
    cay_client_close(client);
    support_home_remove(home);
    return rc;
}

static int set_up(void **state)
{
    (void)state;
    model = play_model(&p, "gpt-5.4-mini");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cay_model_free(model);
    play_clear(&p);
    return 0;
}

static cay_run_result *run_conf(cay_agent *a, const char *input, cay_run_config conf)
{
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    conf.size = sizeof conf;
    conf.model = model;
    conf.service = client;
    if (!conf.max_turns)
        conf.max_turns = 60;
    if (cay_agent_run(a, NULL, input, &conf, &r, &err) < 0)
        fail_msg("%s (%s)", err.msg, err.reason);
    return r;
}

/* The default agent, in the shared sandbox. */
static void play_in(size_t turns)
{
    cay_agent a = { .size = sizeof a, .name = "Coder", .sandbox = true };
    p.say[turns] = TEXT("done");
    cay_run_result_free(run_conf(&a, "go", (cay_run_config){ .sandbox = sb }));
    assert_int_equal(p.at, turns + 1);
}

/* The output of the last call that the model was told of in that turn, with its escapes taken away.
 */
static char *told(size_t turn)
{
    CAY_AUTOJSON *items = json_loads(p.input[turn], 0, NULL);
    const json_t *out =
        json_object_get(json_array_get(items, json_array_size(items) - 1), "output");
    return json_is_string(out) ? cay__strdup(json_string_value(out))
                               : json_dumps(out, JSON_ENCODE_ANY);
}

static void told_has(size_t turn, const char *part)
{
    CAY_AUTOFREE char *t = told(turn);
    has(t, part);
}

static void told_not(size_t turn, const char *part)
{
    CAY_AUTOFREE char *t = told(turn);
    has_not(t, part);
}

static void file_is(const char *path, const char *want)
{
    char *data = NULL;
    size_t n = 0;
    cay_err err = CAY_ERR_INIT;
    int rc = cay_file_get(sb, NULL, path, 1 << 20, &data, &n, &err);
    if (!want) {
        assert_int_equal(rc, CAY_ENOENT);
        return;
    }
    if (rc < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(data, want);
    free(data);
}

static void put(const char *path, const void *data, size_t n)
{
    cay_err err = CAY_ERR_INIT;
    cay_write w = { .size = sizeof w, .parents = true };
    if (cay_file_put(sb, NULL, path, data, n, &w, &err) < 0)
        fail_msg("%s: %s", path, err.msg);
}

static int session_of(size_t turn)
{
    CAY_AUTOFREE char *t = told(turn);
    const char *at = strstr(t, "session ID ");
    assert_non_null(at);
    int id = atoi(at + 11);
    assert_true(id >= 1000 && id <= 99999);
    return id;
}

/* 74, 78 */
static void the_default_set_is_there(void **state)
{
    (void)state;
    play_in(0);
    static const char *const names[] = { "exec_command", "write_stdin", "view_image",
                                         "apply_patch" };
    for (size_t i = 0; i < CAY_LEN(names); i++)
        has(p.tools[0], names[i]);
    has(p.tools[0], "\"type\":\"custom\",\"name\":\"apply_patch\"");
    assert_string_equal(
        p.extra[0],
        "{\"context_management\":[{\"type\":\"compaction\",\"compact_threshold\":360000}]}");
    has(p.instructions[0], "# Base instructions");
    has(p.instructions[0], "# Sandbox capabilities");
    has(p.instructions[0], "# Filesystem");
    has_not(p.instructions[0], "# Agent instructions");
}

static void commands_tell_output_and_code(void **state)
{
    (void)state;
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"echo out; echo err >&2; exit 3\\\"}");
    p.say[1] = CALL("c1", "exec_command", "{\\\"cmd\\\":\\\"printf 'a\\\\\\\\377b'\\\"}");
    p.say[2] = CALL("c2", "exec_command", "{\\\"cmd\\\":\\\"pwd\\\",\\\"workdir\\\":\\\"sub\\\"}");
    p.say[3] =
        CALL("c3", "exec_command", "{\\\"cmd\\\":\\\"true\\\",\\\"workdir\\\":\\\"nosuch\\\"}");
    put("sub/x", "", 0);
    play_in(4);
    told_has(1, "Chunk ID: ");
    told_has(1, "Wall time: ");
    told_has(1, "Process exited with code 3\nOutput:\n");
    told_has(1, "out\n");
    told_has(1, "err\n");
    told_has(2, "a\xef\xbf\xbd"
                "b");
    told_has(3, "/sub\n");
    told_has(4, "Process exited with code 1");
    told_has(4, "nosuch");
}

/* 61 */
static void shells_are_chosen(void **state)
{
    (void)state;
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"echo $0\\\",\\\"login\\\":false}");
    p.say[1] = CALL("c1", "exec_command",
                    "{\\\"cmd\\\":\\\"shopt -q login_shell && echo login "
                    "$0\\\",\\\"shell\\\":\\\"/bin/bash\\\"}");
    p.say[2] = CALL("c2", "exec_command",
                    "{\\\"cmd\\\":\\\"shopt -q login_shell || echo "
                    "plain\\\",\\\"shell\\\":\\\"/bin/bash\\\",\\\"login\\\":false}");
    p.say[3] =
        CALL("c3", "exec_command", "{\\\"cmd\\\":\\\"true\\\",\\\"shell\\\":\\\"/bin/nosuch\\\"}");
    play_in(4);
    told_has(1, "\nsh\n");
    told_has(2, "login /bin/bash");
    told_has(3, "plain");
    told_has(4, "Process exited with code 1");
}

/* One write_stdin, in a run of its own: which finds the command by its label. */
static void write_to(int id, const char *chars)
{
    char say[300];
    snprintf(
        say, sizeof say,
        "[{\"type\":\"function_call\",\"call_id\":\"w\",\"name\":\"write_stdin\",\"arguments\":"
        "\"{\\\"session_id\\\":%d,\\\"chars\\\":\\\"%s\\\",\\\"yield_time_ms\\\":30000}\"}]",
        id, chars);
    play_clear(&p);
    p.say[0] = say;
    play_in(1);
}

static double wall_time(size_t turn)
{
    CAY_AUTOFREE char *t = told(turn);
    return atof(strstr(t, "Wall time: ") + 11);
}

/* 52, 53, 57 */
static void waiting_has_bounds(void **state)
{
    (void)state;
    p.say[0] = CALL("c0", "exec_command",
                    "{\\\"cmd\\\":\\\"while [ ! -e go ]; do sleep 0.05; done; echo "
                    "late\\\",\\\"yield_time_ms\\\":1}");
    p.say[1] = CALL("c1", "exec_command",
                    "{\\\"cmd\\\":\\\"echo last words\\\",\\\"yield_time_ms\\\":30000}");
    play_in(2);
    int id = session_of(1);
    assert_true(wall_time(1) >= 0.25); /* a millisecond became a quarter of a second */
    told_has(
        2, "exited with code 0\nOutput:\nlast words\n"); /* and half a minute only until it ended */
    put("go", "", 0);
    write_to(id, "");
    told_has(1, "late\n");
    told_has(1, "exited with code 0");
    write_to(id, "x"); /* it is known no longer, or known to have ended */
    told_has(1, "exited with code ");
    assert_int_equal(cay__cmd_yield(1, false),
                     250); /* what both tools go by; half a minute is not waited for here */
    assert_int_equal(cay__cmd_yield(600000, false), 30000);
    assert_int_equal(cay__cmd_yield(250, true), 5000);
    assert_int_equal(cay__cmd_yield(600000, true), 30000);
}

/* 54, 55, 56 */
static void commands_are_typed_into(void **state)
{
    (void)state;
    p.say[0] = CALL("c0", "exec_command",
                    "{\\\"cmd\\\":\\\"stty size; read x; echo "
                    "got:$x\\\",\\\"tty\\\":true,\\\"yield_time_ms\\\":1}");
    p.say[1] = CALL("c1", "exec_command",
                    "{\\\"cmd\\\":\\\"sleep 1000\\\",\\\"tty\\\":true,\\\"yield_time_ms\\\":1}");
    p.say[2] =
        CALL("c2", "exec_command", "{\\\"cmd\\\":\\\"sleep 1000\\\",\\\"yield_time_ms\\\":1}");
    p.say[3] = CALL("c3", "write_stdin", "{\\\"session_id\\\":4}");
    play_in(4);
    told_has(4, "Process exited with code 1\n");
    told_has(4, "no process has the session ID 4");
    int reads = session_of(1), sleeps = session_of(2), plain = session_of(3);
    write_to(plain, "hello");
    told_has(1, "Process exited with code 1\n");
    told_has(1, "tty");
    write_to(reads, "hello\\\\n");
    told_has(1, "24 80");
    told_has(1, "got:hello");
    write_to(sleeps, "\\\\u0003");
    told_has(1, "Process exited with code 130");
    write_to(plain, "\\\\u0003");
    told_has(1, "Process exited with code ");
    told_not(1, "session ID");
}

/* 59, 60 */
static void long_output_is_cut_to_its_budget(void **state)
{
    (void)state;
    p.say[0] = CALL("c0", "exec_command",
                    "{\\\"cmd\\\":\\\"seq 1 10000\\\",\\\"max_output_tokens\\\":50}");
    p.say[1] = CALL("c1", "exec_command",
                    "{\\\"cmd\\\":\\\"seq 1 10000\\\",\\\"max_output_tokens\\\":10}");
    p.say[2] =
        CALL("c2", "exec_command",
             "{\\\"cmd\\\":\\\"head -c 20000000 /dev/zero | tr '\\\\\\\\0' x; echo end\\\"}");
    play_in(3);
    told_has(1, "Original token count: ");
    told_has(1, "Total output lines: 10000\n\n1\n2\n");
    told_has(1, "tokens truncated…");
    told_has(1, "10000\n");
    CAY_AUTOFREE char *t = told(2);
    assert_true(strlen(strstr(t, "Output:\n") + 8) <= 40);
    has(t, "Original token count: 12224\n"); /* of 48,894 bytes */
    told_has(3, "bytes in the middle were dropped]");
    told_has(3, "xend\n");
    for (uint64_t max = 1; max < 200; max++) { /* every cut is between characters */
        cay__buf b = CAY__BUF(4096);
        uint64_t n;
        char text[3001];
        for (size_t i = 0; i < 3000; i += 3)
            memcpy(text + i, "€", 3);
        cay__truncate(text, 3000, max, &b, &n);
        assert_true(b.len <= max * 4 && n == 750);
        for (size_t i = 0, k; i < b.len; i += k)
            assert_true((k = cay__utf8_len(b.data + i, b.len - i)) > 0);
        cay__buf_clear(&b);
    }
}

/* 64, 69 */
static void patches_are_carried_out(void **state)
{
    (void)state;
    put("p/old.txt", "one\ntwo\nthree\n", 14);
    put("p/gone.txt", "x", 1);
    put("p/same.txt", "a\n", 2);
    p.say[0] = CUSTOM("c0", "apply_patch",
                      "*** Begin Patch\\n*** Add File: p/new/deep.txt\\n+hello\\n+\\n*** Update "
                      "File: p/old.txt\\n*** Move to: p/moved.txt\\n@@\\n one\\n-two\\n+2\\n"
                      "*** Delete File: p/gone.txt\\n*** Update File: p/same.txt\\n*** Move to: "
                      "p/same.txt\\n@@\\n-a\\n+b\\n*** End Patch");
    play_in(1);
    told_has(1, "Created p/new/deep.txt\nUpdated p/old.txt\nMoved p/old.txt to "
                "p/moved.txt\nDeleted p/gone.txt\nUpdated p/same.txt");
    file_is("p/new/deep.txt", "hello\n");
    file_is("p/moved.txt", "one\n2\nthree\n");
    file_is("p/old.txt", NULL);
    file_is("p/gone.txt", NULL);
    file_is("p/same.txt", "b\n");
}

/* 65, 31 */
static void patches_do_not_leave_the_workspace(void **state)
{
    (void)state;
    p.say[0] = CUSTOM("c0", "apply_patch",
                      "*** Begin Patch\\n*** Add File: e/first.txt\\n+x\\n*** Add File: "
                      "../escape.txt\\n+x\\n*** End Patch");
    p.say[1] = CALL("c1", "exec_command",
                    "{\\\"cmd\\\":\\\"mkdir -p e; ln -sfn /tmp e/out; ln -sfn e e2\\\"}");
    p.say[2] = CUSTOM("c2", "apply_patch",
                      "*** Begin Patch\\n*** Add File: e/out/x.txt\\n+x\\n*** End Patch");
    p.say[3] = CUSTOM("c3", "apply_patch",
                      "*** Begin Patch\\n*** Add File: e2/inside.txt\\n+x\\n*** End Patch");
    p.say[4] =
        CUSTOM("c4", "apply_patch",
               "*** Begin Patch\\n*** Update File: e/none.txt\\n@@\\n-a\\n+b\\n*** End Patch");
    p.say[5] = CUSTOM("c5", "apply_patch", "nonsense");
    play_in(6);
    told_has(1, "leaves the workspace");
    file_is("e/first.txt", NULL);
    told_has(3, "leaves the workspace");
    told_has(4, "Created e2/inside.txt");
    file_is("e/inside.txt", "x");
    told_has(5, "no such file");
    told_has(6, "*** Begin Patch");
}

static void patches_work_as_functions_too(void **state)
{
    (void)state;
    cay_model_free(model);
    p.functions = true;
    model = play_model(&p, "gpt-4o");
    p.say[0] = CALL(
        "c0", "apply_patch",
        "{\\\"patch\\\":\\\"*** Begin Patch\\\\n*** Add File: f.txt\\\\n+x\\\\n*** End Patch\\\"}");
    p.say[1] =
        CALL("c1", "apply_patch", "{\\\"type\\\":\\\"delete_file\\\",\\\"path\\\":\\\"f.txt\\\"}");
    play_in(2);
    has(p.tools[0], "\"type\":\"function\",\"name\":\"apply_patch\"");
    told_has(1, "Created f.txt");
    told_has(2, "Deleted f.txt");
    assert_null(p.extra[0]); /* no context_management for an endpoint that does not know it */
}

static char asked[256];
static bool ask_paths(void *arg, const char *const *paths, size_t n)
{
    (void)arg;
    for (size_t i = 0; i < n; i++)
        snprintf(asked + strlen(asked), sizeof asked - strlen(asked), "%s ", paths[i]);
    return true;
}

/* 70, 71 */
static void approval_of_patches(void **state)
{
    (void)state;
    cay_filesystem_options o = { .size = sizeof o, .needs_approval = ask_paths };
    cay_capability *caps[] = { cay_cap_filesystem(&o) };
    cay_agent a = {
        .size = sizeof a, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 1
    };
    asked[0] = 0;
    p.say[0] = CUSTOM("c0", "apply_patch", "broken");
    p.say[1] =
        CUSTOM("c1", "apply_patch", "*** Begin Patch\\n*** Add File: ../x\\n+x\\n*** End Patch");
    p.say[2] = CUSTOM("c2", "apply_patch",
                      "*** Begin Patch\\n*** Add File: a/./../g//h.txt\\n+x\\n*** End Patch");
    cay_run_result *r = run_conf(&a, "go", (cay_run_config){ .sandbox = sb });
    assert_int_equal(r->ninterruptions, 1);
    assert_string_equal(r->interruptions[0].call_id, "c2");
    assert_string_equal(asked, "g/h.txt ");
    file_is("g/h.txt", NULL);
    cay_run_result_free(r);
    cay_cap_free(caps[0]);
}

static void many_paths_ask_too(void **state)
{
    (void)state;
    cay_filesystem_options o = { .size = sizeof o, .approval = true };
    cay_capability *caps[] = { cay_cap_filesystem(&o) };
    cay_agent a = {
        .size = sizeof a, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 1
    };
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    cay__buf_str(&b, "[{\"type\":\"custom_tool_call\",\"call_id\":\"c0\",\"name\":\"apply_patch\","
                     "\"input\":\"*** Begin Patch\\n");
    for (int i = 0; i < 300; i++)
        cay__buf_fmt(&b, "*** Add File: many/%d\\n+x\\n", i);
    cay__buf_str(&b, "*** End Patch\"}]");
    p.say[0] = b.data;
    cay_run_result *r = run_conf(&a, "go", (cay_run_config){ .sandbox = sb });
    assert_int_equal(r->ninterruptions, 1);
    file_is("many/0", NULL);
    cay_run_result_free(r);
    cay_cap_free(caps[0]);
}

static cay_verdict only_commands(void *arg, const cay_tool_call *call, char **message)
{
    (void)arg;
    (void)message;
    snprintf(asked + strlen(asked), sizeof asked - strlen(asked), "%s ", call->call_id);
    return strcmp(call->tool, "exec_command") ? CAY_REJECT : CAY_APPROVE;
}

static bool every_call(void *arg, const cay_tool_call *call)
{
    (void)arg;
    (void)call;
    return true;
}

static void typing_asks_as_commands_do(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        cay_shell_options o = { .size = sizeof o,
                                .approval = kind == 0,
                                .needs_approval = kind ? every_call : NULL };
        cay_capability *caps[] = { cay_cap_shell(&o) };
        cay_agent a = { .size = sizeof a,
                        .name = "Coder",
                        .sandbox = true,
                        .capabilities = caps,
                        .ncapabilities = 1 };
        asked[0] = 0;
        play_clear(&p);
        p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"true\\\"}");
        p.say[1] = CALL("c1", "write_stdin", "{\\\"session_id\\\":1}");
        p.say[2] = CALL("c2", "write_stdin", "{\\\"session_id\\\":1,\\\"chars\\\":\\\"\\\"}");
        p.say[3] =
            CALL("c3", "write_stdin", "{\\\"session_id\\\":1,\\\"chars\\\":\\\"rm x\\\\n\\\"}");
        p.say[4] = TEXT("done");
        cay_run_result_free(
            run_conf(&a, "go", (cay_run_config){ .sandbox = sb, .approve = only_commands }));
        assert_string_equal(asked, "c0 c3 ");
        told_has(4, "not approved");
        cay_cap_free(caps[0]);
    }
}

/* 72, 73 */
static void images_are_looked_at(void **state)
{
    (void)state;
    static char big[(10 << 20) + 1] = "\x89PNG\r\n\x1a\n";
    put("i/png.txt", "\x89PNG\r\n\x1a\nrest", 12);
    put("i/text.png", "hello", 5);
    put("i/a.svg", "  <?xml version='1.0'?><SVG/>", 29);
    put("i/big.png", big, sizeof big);
    p.say[0] = CALL("c0", "view_image", "{\\\"path\\\":\\\"i/png.txt\\\"}");
    p.say[1] = CALL("c1", "view_image", "{\\\"path\\\":\\\"i/text.png\\\"}");
    p.say[2] = CALL("c2", "view_image", "{\\\"path\\\":\\\"i/a.svg\\\"}");
    p.say[3] = CALL("c3", "view_image", "{\\\"path\\\":\\\"i/big.png\\\"}");
    p.say[4] = CALL("c4", "view_image", "{\\\"path\\\":\\\"i/none.png\\\"}");
    p.say[5] = CALL("c5", "view_image", "{\\\"path\\\":\\\"../../etc/passwd\\\"}");
    play_in(6);
    told_has(1, "\"input_image\"");
    told_has(1, "data:image/png;base64,iVBORw0KGgpyZXN0");
    told_has(2, "not a supported image");
    told_has(3, "data:image/svg+xml;base64,");
    told_has(4, "larger than 10MB");
    told_has(5, "`i/none.png` was not found");
    told_has(6, "outside the workspace");
}

/* 89, 91 */
static void a_given_sandbox_stays_and_a_made_one_goes(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "Coder", .sandbox = true };
    int before = boxes();
    static const char *const lives[] = {
        CALL("c0", "exec_command",
             "{\\\"cmd\\\":\\\"setsid sleep 1000 >/dev/null 2>&1 & echo $! > pid\\\"}"),
        CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"kill $(cat pid) && echo it lived\\\"}")
    };
    for (size_t i = 0; i < CAY_LEN(lives);
         i++) { /* given: neither ended nor begun anew between the two */
        play_clear(&p);
        p.say[0] = lives[i];
        play_in(1);
    }
    told_has(1, "it lived");
    play_clear(&p);
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"echo mine > mark\\\"}");
    p.say[1] = TEXT("done");
    cay_run_result_free(run_conf(&a, "go", (cay_run_config){ .keep = false }));
    assert_int_equal(boxes(), before);
    file_is("mark", NULL);
    play_clear(&p);
    p.say[0] = TEXT("done");
    cay_run_result *r = run_conf(&a, "go", (cay_run_config){ .keep = true });
    cay_sandbox *kept = NULL;
    assert_int_equal(cay_client_find(client, NULL, r->sandbox, &kept, NULL), 0);
    assert_int_equal(cay_sandbox_remove(kept, NULL, NULL), 0);
    cay_sandbox_unref(kept);
    cay_run_result_free(r);
}

static char noted[400];
static int on_note(void *arg, const cay_run_event *ev)
{
    (void)arg;
    if (ev->kind == CAY_RUN_NOTE && !strcmp(ev->name, "cleanup"))
        snprintf(noted, sizeof noted, "%s", ev->json);
    return 0;
}

/* 89: a saved session is third. It comes back with its files, and again, also when it was removed
 * in between. */
static void a_run_comes_back_by_a_session_state(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "Coder", .sandbox = true };
    int before = boxes();
    noted[0] = 0;
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"echo one > mark\\\"}");
    p.say[1] = TEXT("done");
    cay_run_result *r = run_conf(&a, "go", (cay_run_config){ .save = true, .on_event = on_note });
    if (!r->sandbox_state) { /* nothing that could be saved by this provider: it is left, and told
                                of */
        cay_sandbox *left = NULL;
        has(noted, "snapshot");
        assert_int_equal(cay_client_find(client, NULL, r->sandbox, &left, NULL), 0);
        assert_int_equal(cay_sandbox_remove(left, NULL, NULL), 0);
        cay_sandbox_unref(left);
        cay_run_result_free(r);
        assert_int_equal(boxes(), before);
        return;
    }
    assert_null(r->sandbox);
    assert_int_equal(boxes(), before);
    for (int i = 0; i < 2; i++) {
        play_clear(&p);
        p.say[0] = CALL("c1", "exec_command", "{\\\"cmd\\\":\\\"echo more >> mark; cat mark\\\"}");
        p.say[1] = TEXT("done");
        cay_run_result *next = run_conf(
            &a, "go", (cay_run_config){ .sandbox_state = r->sandbox_state, .trace = true });
        has(next->trace, "\"name\":\"sandbox.hydrate_workspace\",\"data\":{\"cay.operation\":"
                         "\"sandbox.restore\"");
        has(next->trace,
            "\"name\":\"sandbox.persist_workspace\",\"data\":{\"sandbox.session.id\":\"c");
        told_has(1, i ? "one\nmore\nmore" : "one\nmore");
        cay_run_result_free(r);
        r = next;
        assert_non_null(r->sandbox_state);
        assert_int_equal(boxes(), before);
    }
    /* A state that is none ends the run before a model is asked. */
    play_clear(&p);
    cay_run_config conf = { .size = sizeof conf,
                            .model = model,
                            .service = client,
                            .sandbox_state = "{\"type\":\"cay\"}" };
    cay_run_result *none = NULL;
    cay_err err = CAY_ERR_INIT;
    assert_true(cay_agent_run(&a, NULL, "go", &conf, &none, &err) < 0);
    assert_string_equal(err.reason, "state_invalid");
    assert_int_equal(p.at, 0);
    cay_run_result_free(r);
    assert_int_equal(boxes(), before);
}

/* 89: one that is given, then that of a saved run, then a saved session, then a new one. */
static void the_first_of_four_sandboxes_is_taken(void **state)
{
    (void)state;
    if (strcmp(provider, "native"))
        skip(); /* a saved session needs snapshots */
    cay_shell_options o = { .size = sizeof o, .approval = true };
    cay_capability *caps[] = { cay_cap_shell(&o) };
    cay_agent plain = { .size = sizeof plain, .name = "Coder", .sandbox = true },
              asks = { .size = sizeof asks,
                       .name = "Coder",
                       .sandbox = true,
                       .capabilities = caps,
                       .ncapabilities = 1 };
    cay_state_doc *d = NULL;
    int before = boxes();
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"echo saved > which\\\"}");
    p.say[1] = TEXT("done");
    cay_run_result *saved = run_conf(&plain, "go", (cay_run_config){ .save = true });
    put("which", "given\n", 6);
    play_clear(&p);
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"cat which || echo the run\\\"}");
    cay_run_result *r = run_conf(&asks, "go", (cay_run_config){ .keep = false });
    assert_int_equal(cay_state_open(r->state, &d, NULL), 0);
    assert_int_equal(cay_state_approve(d, "c0", true, NULL), 0);
    CAY_AUTOFREE char *run_state = cay_state_text(d);
    cay_state_close(d);
    cay_run_result_free(r);
    const struct {
        cay_run_config conf;
        const char *which;
    } rows[] = { { { .sandbox = sb, .state = run_state, .sandbox_state = saved->sandbox_state },
                   "given\n" },
                 { { .state = run_state, .sandbox_state = saved->sandbox_state }, "the run\n" },
                 { { .sandbox_state = saved->sandbox_state }, "saved\n" } };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        play_clear(&p);
        p.say[0] = rows[i].conf.state
                       ? TEXT("done")
                       : CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"cat which\\\"}");
        p.say[1] = TEXT("done");
        cay_run_result_free(run_conf(rows[i].conf.state ? &asks : &plain,
                                     rows[i].conf.state ? NULL : "go", rows[i].conf));
        told_has(rows[i].conf.state ? 0 : 1, rows[i].which);
    }
    assert_int_equal(boxes(), before);
    cay_run_result_free(saved);
    cay_cap_free(caps[0]);
}

static int trips(void *arg, cay_run *r, const char *text, char **info, cay_err *err)
{
    (void)arg;
    (void)r;
    (void)text;
    (void)info;
    (void)err;
    return 1;
}

static bool entered;
static int enters(void *self, const cay_scope_info *s, void **out, cay_err *err)
{
    (void)self, (void)s, (void)err;
    *out = NULL;
    entered = true;
    return 0;
}

/* 90, 95 */
static void a_run_that_cannot_be_makes_no_sandbox(void **state)
{
    (void)state;
    static const cay_capability_ops ops = { .size = sizeof ops, .name = "looks", .start = enters };
    cay_capability *caps[] = { cay_capability_new(&ops, NULL) };
    const cay_guard in[] = { { .name = "in", .check = trips } };
    cay_agent a = { .size = sizeof a,
                    .name = "Coder",
                    .sandbox = true,
                    .input_guards = in,
                    .ninput_guards = 1,
                    .capabilities = caps,
                    .ncapabilities = 1 };
    cay_run_config conf = { .size = sizeof conf, .model = model, .service = client };
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    int before = boxes();
    entered = false;
    assert_true(cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0);
    assert_string_equal(err.reason, "guardrail_input");
    conf.sandbox = sb; /* one that was given: nobody has entered it */
    assert_true(cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0);
    assert_string_equal(err.reason, "guardrail_input");
    assert_false(entered);
    a.ninput_guards = 0;
    conf.sandbox = NULL;
    conf.cwd = "nosuch";
    assert_true(cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0);
    has(err.msg, "cwd");
    conf.cwd = "../x";
    assert_true(cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0);
    assert_string_equal(err.reason, "sandbox_config_invalid");
    assert_int_equal(p.at, 0);
    assert_int_equal(boxes(), before);
    assert_null(a.busy_);
    cay_cap_free(caps[0]);
}

/* It runs already: this is a tool of it. */
static int run_again(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    cay_run_config conf = { .size = sizeof conf, .model = model, .service = client };
    cay_run_result *r = NULL;
    int there = boxes();
    (void)call;
    assert_int_equal(cay_agent_run(arg, NULL, "go", &conf, &r, err), CAY_EBUSY);
    cay_output_text(out, err->reason, strlen(err->reason));
    assert_int_equal(boxes(), there);
    return 0;
}

/* 92 */
static void an_agent_is_in_one_run_at_a_time(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "Coder", .sandbox = true };
    cay_tool again = { .size = sizeof again, .name = "again", .call = run_again, .arg = &a };
    const cay_tool *const tools[] = { &again };
    a.tools = tools;
    a.ntools = 1;
    for (int i = 0; i < 2; i++) { /* and when that run is over it can be in another */
        play_clear(&p);
        p.say[0] = CALL("c0", "again", "{}");
        p.say[1] = TEXT("done");
        cay_run_result_free(run_conf(&a, "go", (cay_run_config){ .sandbox = sb }));
        told_has(1, "agent_busy");
    }
}

/* 95 */
static void runs_begin_in_their_own_directory(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "Coder", .sandbox = true };
    put("w1/x", "first", 5);
    put("w2/x", "second", 6);
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"cat x\\\"}");
    p.say[1] =
        CUSTOM("c1", "apply_patch", "*** Begin Patch\\n*** Add File: y\\n+new\\n*** End Patch");
    p.say[2] = TEXT("done");
    cay_run_result_free(run_conf(&a, "go", (cay_run_config){ .sandbox = sb, .cwd = "w2" }));
    told_has(1, "second");
    has(p.instructions[0], "w2");
    file_is("w2/y", "new");
    file_is("w1/y", NULL);
    play_clear(&p);
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"cat x y\\\"}");
    p.say[1] = CUSTOM("c1", "apply_patch",
                      "*** Begin Patch\\n*** Update File: y\\n@@\\n-new\\n+old\\n*** End Patch");
    p.say[2] = TEXT("done");
    cay_run_result_free(run_conf(&a, "go", (cay_run_config){ .sandbox = sb, .cwd = "w1" }));
    told_has(1, "first");
    told_has(1, "No such file");
    told_has(2, "no such file");
    file_is("w2/y", "new");
}

/* 93, and what waits for approval keeps its sandbox and processes */
static void a_run_goes_on_in_its_own_sandbox(void **state)
{
    (void)state;
    cay_shell_options o = { .size = sizeof o, .approval = true };
    cay_capability *caps[] = { cay_cap_shell(&o) };
    cay_agent a = {
        .size = sizeof a, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 1
    };
    int before = boxes();
    cay_state_doc *d = NULL;
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"echo kept > mark\\\"}");
    p.say[1] = CALL("c1", "exec_command", "{\\\"cmd\\\":\\\"cat mark\\\"}");
    p.say[2] = TEXT("done");
    cay_run_result *r = run_conf(&a, "go", (cay_run_config){ .keep = false });
    assert_int_equal(r->ninterruptions, 1);
    assert_int_equal(boxes(), before + 1);
    assert_int_equal(cay_state_open(r->state, &d, NULL), 0);
    assert_int_equal(cay_state_approve(d, "c0", true, NULL), 0);
    CAY_AUTOFREE char *st = cay_state_text(d);
    cay_state_close(d);
    cay_run_result_free(r);

    CAY_AUTOJSON *j = json_loads(st, 0, NULL); /* another's sandbox is not taken */
    json_object_set_new(
        json_object_get(json_object_get(json_object_get(j, "sandbox"), "sessions_by_agent"),
                        "Coder"),
        "sandbox", json_string(cay_sandbox_id(sb)));
    CAY_AUTOFREE char *stolen = json_dumps(j, 0);
    cay_run_config conf = {
        .size = sizeof conf, .model = model, .service = client, .state = stolen
    };
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_agent_run(&a, NULL, NULL, &conf, &r, &err), CAY_EPERM);
    assert_string_equal(err.reason, "run_state");

    r = run_conf(&a, NULL, (cay_run_config){ .state = st });
    assert_string_equal(r->output, "done");
    told_has(2, "kept\n");
    assert_int_equal(boxes(), before);
    cay_run_result_free(r);
    cay_cap_free(caps[0]);
}

/* 93 */
static void agents_of_one_name_keep_their_own_sandboxes(void **state)
{
    (void)state;
    cay_shell_options asks = { .size = sizeof asks, .approval = true };
    cay_capability *one[] = { cay_cap_shell(NULL) }, *two[] = { cay_cap_shell(&asks) };
    cay_agent a = {
        .size = sizeof a, .name = "Twin", .sandbox = true, .capabilities = one, .ncapabilities = 1
    };
    cay_agent b = {
        .size = sizeof b, .name = "Twin", .sandbox = true, .capabilities = two, .ncapabilities = 1
    };
    const cay_handoff there = { .agent = &b, .tool = "there" },
                      back = { .agent = &a, .tool = "back" };
    a.handoffs = &there;
    b.handoffs = &back;
    a.nhandoffs = b.nhandoffs = 1;
    cay_state_doc *d = NULL;
    int before = boxes();
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"echo first > who\\\"}");
    p.say[1] = CALL("c1", "there", "{}");
    p.say[2] =
        CALL("c2", "exec_command", "{\\\"cmd\\\":\\\"ls who; echo second > who\\\"}"); /* waits */
    p.say[3] = CALL("c3", "exec_command", "{\\\"cmd\\\":\\\"cat who\\\"}");
    p.say[4] = CALL("c4", "back", "{}");
    p.say[5] = CALL("c5", "exec_command", "{\\\"cmd\\\":\\\"cat who\\\"}");
    p.say[6] = TEXT("done");
    cay_run_result *r = run_conf(&a, "go", (cay_run_config){ .keep = false });
    assert_int_equal(r->ninterruptions, 1);
    assert_int_equal(boxes(), before + 2);
    assert_int_equal(cay_state_open(r->state, &d, NULL), 0);
    assert_int_equal(cay_state_approve(d, "c2", true, NULL), 0);
    CAY_AUTOFREE char *st = cay_state_text(d);
    cay_state_close(d);
    cay_run_result_free(r);
    r = run_conf(&a, NULL, (cay_run_config){ .state = st });
    assert_string_equal(r->output, "done");
    told_has(3, "No such file");
    told_has(4, "second\n");
    told_has(6, "first\n");
    assert_int_equal(boxes(), before);
    cay_run_result_free(r);
    cay_cap_free(one[0]);
    cay_cap_free(two[0]);
}

static void a_manifest_is_put_in_and_told_of(void **state)
{
    (void)state;
    if (strcmp(provider, "native"))
        skip();
    cay_agent a = { .size = sizeof a,
                    .name = "Coder",
                    .sandbox = true,
                    .instructions = "Mind the gap.",
                    .manifest =
                        "{\"entries\":{\"docs/README.md\":{\"type\":\"file\",\"content\":\"read "
                        "me\",\"description\":\"what it is about\"}}}" };
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"cat docs/README.md\\\"}");
    p.say[1] = TEXT("done");
    cay_run_result_free(run_conf(&a, "go", (cay_run_config){ .keep = false }));
    told_has(1, "read me");
    has(p.instructions[0], "README.md");
    has(p.instructions[0], "what it is about");
    has(p.instructions[0], "# Agent instructions\n\nMind the gap.");
}

/* 75 */
static int nothing(void *self, const cay_scope_info *s, void **out, cay_err *err)
{
    (void)self;
    (void)s;
    (void)err;
    *out = NULL;
    return 0;
}

static void a_capability_names_what_it_needs(void **state)
{
    (void)state;
    static const char *const needs[] = { "shell", NULL };
    static const cay_capability_ops ops = {
        .size = sizeof ops, .name = "odd", .needs = needs, .start = nothing
    };
    cay_capability *caps[] = { cay_capability_new(&ops, NULL) };
    cay_agent a = {
        .size = sizeof a, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 1
    };
    cay_run_config conf = { .size = sizeof conf, .model = model, .sandbox = sb };
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_agent_run(&a, NULL, "go", &conf, &r, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "capability_missing");
    has(err.msg, "shell");
    cay_cap_free(caps[0]);
}

/* A server in a sandbox of its own: it sees nothing of this side, and goes with it. */
static void an_mcp_server_has_a_sandbox(void **state)
{
    (void)state;
    if (strcmp(provider, "native"))
        skip();
    static const char server[] =
        "import json,sys,os\n"
        "for l in sys.stdin:\n"
        " m=json.loads(l)\n"
        " if 'id' not in m: continue\n"
        " r={'initialize':{'protocolVersion':'2025-06-18'},'tools/"
        "list':{'tools':[{'name':'where'}]},'tools/"
        "call':{'content':[{'type':'text','text':os.getcwd()+' "
        "'+str(os.path.exists('/home/user'))}]}}[m['method']]\n"
        " print(json.dumps({'jsonrpc':'2.0','id':m['id'],'result':r}),flush=True)\n";
    const char *const argv[] = { "python3", "-c", server, NULL };
    cay_mcp_spec s = { .size = sizeof s, .name = "where", .argv = argv, .service = client };
    cay_mcp *m = NULL;
    cay_err err = CAY_ERR_INIT;
    int before = boxes();
    if (cay_mcp_open(&s, NULL, &m, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(boxes(), before + 1);
    cay_agent a = { .size = sizeof a, .name = "A" };
    a.tools = cay_mcp_tools(m, &a.ntools);
    p.say[0] = CALL("c0", "where", "{}");
    p.say[1] = TEXT("done");
    cay_run_result_free(run_conf(&a, "go", (cay_run_config){ .keep = false }));
    told_has(1, "/workspace");
    cay_mcp_close(m);
    assert_int_equal(boxes(), before);
}

/* 76, 77 */
static void skills_are_listed_and_loaded(void **state)
{
    (void)state;
    char dir[] = "/tmp/cay-test-skills-XXXXXX", path[200];
    cay_err err = CAY_ERR_INIT;
    cay_capability *caps[2] = { NULL, NULL };
    assert_non_null(mkdtemp(dir));
    static const char *const rows[][2] = {
        { "one", "---\nname: \"plotter\"\ndescription: plots things\n---\nPlot." },
        { "two", "---\nname: same\n---\n" },
        { "three", "---\nname: same\n---\n" },
        { "four", "no front matter" }
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, rows[i][0]);
        assert_int_equal(mkdir(path, 0755), 0);
        snprintf(path, sizeof path, "%s/%s/SKILL.md", dir, rows[i][0]);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        assert_true(cay__fd_write_all(fd, rows[i][1], strlen(rows[i][1])));
        close(fd);
    }
    snprintf(path, sizeof path, "%s/linked", dir);
    assert_int_equal(symlink("one", path), 0);
    cay_skill k = { .name = "lit", .description = "a literal one", .content = "Do it." };
    cay_skills_options both = { .size = sizeof both, .lazy = dir, .skills = &k, .nskills = 1 };
    assert_int_equal(cay_cap_skills(&both, &caps[0], &err), CAY_EINVAL);
    assert_string_equal(err.reason, "skills_config_invalid");

    cay_skills_options lazy = { .size = sizeof lazy, .lazy = dir };
    assert_int_equal(cay_cap_skills(&lazy, &caps[0], &err), 0);
    cay_agent a = {
        .size = sizeof a, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 1
    };
    p.say[0] = CALL("c0", "load_skill", "{\\\"skill_name\\\":\\\"plotter\\\"}");
    p.say[1] = CALL("c1", "load_skill", "{\\\"skill_name\\\":\\\"one\\\"}");
    p.say[2] = CALL("c2", "load_skill", "{\\\"skill_name\\\":\\\"same\\\"}");
    p.say[3] = CALL("c3", "load_skill", "{\\\"skill_name\\\":\\\"linked\\\"}");
    p.say[4] = TEXT("done");
    cay_run_result_free(run_conf(&a, "go", (cay_run_config){ .sandbox = sb }));
    has(p.instructions[0], "- plotter: plots things (file: .agents/one/SKILL.md)");
    has(p.instructions[0], "- four: No description");
    has_not(p.instructions[0], "linked");
    told_has(1, "{\"status\":\"loaded\",\"skill_name\":\"plotter\",\"path\":\".agents/one\"}");
    told_has(2, "already_loaded");
    told_has(3, "ambiguous");
    told_has(4, "no skill");
    file_is(".agents/one/SKILL.md", rows[0][1]);
    a.manifest = "{\"entries\":{\".agents/x\":{\"type\":\"file\",\"content\":\"\"}}}";
    cay_run_config conf = { .size = sizeof conf, .model = model, .service = client };
    cay_run_result *r = NULL;
    assert_int_equal(cay_agent_run(&a, NULL, "go", &conf, &r, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "skills_config_invalid");
    cay_cap_free(caps[0]);

    cay_skill_file f = { "scripts/run.sh", "echo ran", 8 };
    k.files = &f;
    k.nfiles = 1;
    cay_skills_options literal = {
        .size = sizeof literal, .skills = &k, .nskills = 1, .path = "skills"
    };
    assert_int_equal(cay_cap_skills(&literal, &caps[0], &err), 0);
    caps[1] = cay_cap_shell(NULL);
    cay_agent b = {
        .size = sizeof b, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 2
    };
    play_clear(&p);
    p.say[0] = CALL("c0", "exec_command",
                    "{\\\"cmd\\\":\\\"cat skills/lit/SKILL.md; sh skills/lit/scripts/run.sh\\\"}");
    p.say[1] = TEXT("done");
    cay_run_result_free(
        run_conf(&b, "go", (cay_run_config){ .sandbox = strcmp(provider, "native") ? sb : NULL }));
    has(p.instructions[0], "- lit: a literal one (file: skills/lit/SKILL.md)");
    told_has(1, "description: a literal one");
    told_has(1, "ran");
    cay_cap_free(caps[0]);
    cay_cap_free(caps[1]);

    /* A source of a manifest, in a sandbox that was there before, twice. */
    char entry[300];
    snprintf(path, sizeof path, "%s/linked", dir);
    unlink(path);
    snprintf(entry, sizeof entry, "{\"type\":\"local_dir\",\"src\":\"%s\"}", dir);
    cay_skills_options from = { .size = sizeof from, .from = entry, .path = "brought" };
    assert_int_equal(cay_cap_skills(&from, &caps[0], &err), 0);
    cay_agent c = {
        .size = sizeof c, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 1
    };
    for (int i = 0; i < 2; i++) {
        play_clear(&p);
        p.say[0] = TEXT("done");
        cay_run_result_free(run_conf(&c, "go", (cay_run_config){ .sandbox = sb }));
        has(p.instructions[0], "- plotter: plots things (file: brought/one/SKILL.md)");
    }
    file_is("brought/one/SKILL.md", rows[0][1]);
    cay_cap_free(caps[0]);
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        snprintf(path, sizeof path, "%s/%s/SKILL.md", dir, rows[i][0]);
        unlink(path);
        snprintf(path, sizeof path, "%s/%s", dir, rows[i][0]);
        rmdir(path);
    }
    snprintf(path, sizeof path, "%s/linked", dir);
    unlink(path);
    rmdir(dir);
}

#define EXTRACT(slug, sum, raw)                                                                    \
    TEXT("{\\\"rollout_slug\\\":\\\"" slug "\\\",\\\"rollout_summary\\\":\\\"" sum                 \
         "\\\",\\\"raw_memory\\\":\\\"" raw "\\\"}")

static int lines_of(const char *path)
{
    char *data = NULL;
    size_t n = 0;
    int lines = 0;
    assert_int_equal(cay_file_get(sb, NULL, path, 1 << 20, &data, &n, NULL), 0);
    for (size_t i = 0; i < n; i++)
        lines += data[i] == '\n';
    free(data);
    return lines;
}

static void file_has(const char *path, const char *part)
{
    char *data = NULL;
    size_t n = 0;
    cay_err err = CAY_ERR_INIT;
    if (cay_file_get(sb, NULL, path, 1 << 20, &data, &n, &err) < 0)
        fail_msg("%s: %s", path, err.msg);
    has(data, part);
    free(data);
}

/* 75, 79, 80, 81, 82 */
static void runs_become_memories(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    unsigned made = 9;
    cay_memory_options none = { .size = sizeof none }, o = {
        .size = sizeof o, .read = true, .live_update = true, .generate = true, .max_raw = 2
    };
    cay_capability *caps[3] = { NULL };
    assert_int_equal(cay_cap_memory(&none, &caps[0], &err), CAY_EINVAL);
    assert_int_equal(cay_cap_memory(&o, &caps[0], &err), 0);
    caps[1] = cay_cap_shell(NULL);
    caps[2] = cay_cap_filesystem(NULL);
    cay_agent a = {
        .size = sizeof a, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 2
    };
    cay_run_config conf = { .size = sizeof conf, .model = model, .sandbox = sb };
    cay_run_result *r = NULL;
    assert_int_equal(cay_agent_run(&a, NULL, "go", &conf, &r, &err), CAY_EINVAL);
    has(err.msg, "filesystem");
    a.ncapabilities = 3;
    conf.rollout_id = "../x";
    assert_int_equal(cay_agent_run(&a, NULL, "go", &conf, &r, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "rollout_invalid");

    p.say[0] = TEXT("first");
    p.say[1] = TEXT("second");
    p.say[2] =
        EXTRACT("tabs.md", "They like tabs.", "Use tabs."); /* phase one, once for both segments */
    p.say[3] = CUSTOM("m1", "apply_patch",
                      "*** Begin Patch\\n*** Add File: memories/memory_summary.md\\n+likes "
                      "tabs\\n*** End Patch"); /* phase two */
    p.say[4] = TEXT("consolidated");
    cay_run_result_free(
        run_conf(&a, "go", (cay_run_config){ .sandbox = sb, .conversation_id = "talk-1" }));
    cay_run_result_free(
        run_conf(&a, "go on", (cay_run_config){ .sandbox = sb, .conversation_id = "talk-1" }));
    assert_int_equal(lines_of("sessions/talk-1.jsonl"), 2);
    file_has("sessions/talk-1.jsonl", "\"terminal_state\":\"completed\"");
    if (cay_memory_flush(caps[0], sb, model, NULL, &made, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(made, 1);
    assert_int_equal(p.at, 5);
    has(p.input[2], "2 segments, the last one completed");
    has(p.input[3], "Mode: INIT");
    has(p.input[3], "Added: talk-1");
    file_has("memories/raw_memories/talk-1.md", "rollout_summary_file: talk-1_tabs.md");
    file_has("memories/rollout_summaries/talk-1_tabs.md", "They like tabs.");
    file_has("memories/raw_memories.md", "Use tabs.");
    file_has("memories/phase_two_selection.json", "\"rollout_id\":\"talk-1\"");

    play_clear(&p); /* the next run is told, and teaches nothing */
    p.say[0] = TEXT("third");
    p.say[1] = EXTRACT("", "", "");
    cay_run_result_free(
        run_conf(&a, "again", (cay_run_config){ .sandbox = sb, .conversation_id = "talk-2" }));
    has(p.instructions[0], "likes tabs");
    assert_int_equal(cay_memory_flush(caps[0], sb, model, NULL, &made, &err), 0);
    assert_int_equal(made, 0);
    file_is("memories/raw_memories/talk-2.md", NULL);

    play_clear(&p); /* a part of a memory is none; two more push the oldest out */
    p.say[0] = TEXT("x");
    p.say[1] = TEXT("x");
    p.say[2] = TEXT("x");
    p.say[3] = EXTRACT("half", "", "");
    p.say[4] = EXTRACT("four", "four", "four");
    p.say[5] = EXTRACT("five", "five", "five");
    p.say[6] = TEXT("consolidated");
    cay_run_result_free(
        run_conf(&a, "a", (cay_run_config){ .sandbox = sb, .conversation_id = "talk-3" }));
    cay_run_result_free(
        run_conf(&a, "b", (cay_run_config){ .sandbox = sb, .conversation_id = "talk-4" }));
    cay_run_result_free(
        run_conf(&a, "c", (cay_run_config){ .sandbox = sb, .conversation_id = "talk-5" }));
    assert_true(cay_memory_flush(caps[0], sb, model, NULL, &made, &err) < 0);
    assert_string_equal(err.reason, "memory_invalid");
    assert_int_equal(made, 2);
    assert_int_equal(p.at, 7);
    has(p.input[6], "Mode: INCREMENTAL");
    has(p.input[6], "Added: talk-5, talk-4");
    has(p.input[6], "Removed: talk-1");
    file_is("memories/raw_memories/talk-3.md", NULL);
    for (size_t i = 0; i < 3; i++)
        cay_cap_free(caps[i]);
}

/* Who consolidates is not watched by anybody, whatever the run was allowed to. */
/* S-70: who has no shell cannot ask for one, and memories are written in their directory alone. */
static void consolidating_runs_nothing(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    unsigned made = 0;
    cay_memory_options o = { .size = sizeof o,
                             .memories_dir = "keep/notes",
                             .sessions_dir = "keep/runs",
                             .generate = true };
    cay_capability *caps[2] = { NULL, cay_cap_shell(NULL) };
    assert_int_equal(cay_cap_memory(&o, &caps[0], &err), 0);
    cay_agent a = {
        .size = sizeof a, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 2
    };
    put("keep/notes/long.md", "one\ntwo\nthree\n", 14);
    put("secret.txt", "hidden", 6);
    p.say[0] = CALL("c0", "exec_command",
                    "{\\\"cmd\\\":\\\"ln -s ../../secret.txt keep/notes/link.md\\\"}");
    p.say[1] = TEXT("first");
    p.say[2] = EXTRACT("tabs", "They like tabs.", "Use tabs.");
    p.say[3] = CALL("m0", "exec_command", "{\\\"cmd\\\":\\\"touch ran\\\"}");
    p.say[4] = CUSTOM("m1", "apply_patch",
                      "*** Begin Patch\\n*** Add File: outside.txt\\n+x\\n*** End Patch");
    p.say[5] = CUSTOM("m2", "apply_patch",
                      "*** Begin Patch\\n*** Add File: keep/notes/link.md/../../x\\n+x\\n*** "
                      "Update File: keep/notes/link.md\\n@@\\n-hidden\\n+x\\n*** End Patch");
    p.say[6] = CALL("m3", "read_file", "{\\\"path\\\":\\\"secret.txt\\\"}");
    p.say[7] = CALL("m4", "read_file", "{\\\"path\\\":\\\"keep/notes/link.md\\\"}");
    p.say[8] = CALL("m5", "list_files", "{}");
    p.say[9] = CALL("m6", "read_file",
                    "{\\\"path\\\":\\\"keep/notes/long.md\\\",\\\"first\\\":2,\\\"lines\\\":1}");
    p.say[10] =
        CUSTOM("m7", "apply_patch",
               "*** Begin Patch\\n*** Add File: keep/notes/MEMORY.md\\n+tabs\\n*** End Patch");
    p.say[11] = TEXT("consolidated");
    cay_run_result_free(
        run_conf(&a, "go", (cay_run_config){ .sandbox = sb, .conversation_id = "talk-9" }));
    if (cay_memory_flush(caps[0], sb, model, NULL, &made, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(p.at, 12);
    has_not(p.tools[3], "exec_command");
    has_not(p.tools[3], "view_image");
    told_has(4, "There is no tool named");
    file_is("ran", NULL);
    told_has(5, "leaves the workspace");
    file_is("outside.txt", NULL);
    told_has(6, "leaves the workspace");
    told_has(7, "leaves the workspace");
    told_has(8, "leaves the workspace");
    file_is("secret.txt", "hidden");
    told_has(9, "keep/notes/raw_memories.md (");
    told_has(9, "keep/notes/long.md (14 bytes)");
    told_has(10, "two\n(there is more: go on with first 3)");
    told_not(10, "one");
    file_has("keep/notes/MEMORY.md", "tabs");

    play_clear(&p); /* a link in its place leads nobody away */
    p.say[0] = CALL("c0", "exec_command",
                    "{\\\"cmd\\\":\\\"mv keep/notes keep/other; ln -s other keep/notes\\\"}");
    p.say[1] = TEXT("second");
    p.say[2] = EXTRACT("more", "more", "more");
    cay_run_result_free(
        run_conf(&a, "go", (cay_run_config){ .sandbox = sb, .conversation_id = "talk-10" }));
    assert_int_equal(cay_memory_flush(caps[0], sb, model, NULL, &made, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "memory_config_invalid");
    assert_int_equal(p.at, 3);
    cay_cap_free(caps[0]);
    cay_cap_free(caps[1]);
}

static void memories_outlive_their_sandbox(void **state)
{
    (void)state;
    char *store = support_home();
    cay_err err = CAY_ERR_INIT;
    cay_memory_options o = { .size = sizeof o, .read = true, .generate = true, .store = store };
    cay_capability *caps[3] = { NULL, cay_cap_shell(NULL), cay_cap_filesystem(NULL) };
    assert_int_equal(cay_cap_memory(&o, &caps[0], &err), 0);
    cay_agent a = {
        .size = sizeof a, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 3
    };
    p.say[0] = TEXT("first");
    p.say[1] = EXTRACT("tabs", "They like tabs.", "Use tabs.");
    p.say[2] = CUSTOM(
        "m1", "apply_patch",
        "*** Begin Patch\\n*** Add File: memories/memory_summary.md\\n+likes tabs\\n*** End Patch");
    p.say[3] = TEXT("consolidated");
    p.say[4] = TEXT("second");
    p.say[5] = EXTRACT("", "", "");
    cay_run_result_free(run_conf(&a, "go", (cay_run_config){ .keep = false }));
    assert_int_equal(p.at, 4);
    cay_run_result_free(
        run_conf(&a, "go", (cay_run_config){ .keep = false })); /* in another sandbox */
    assert_int_equal(p.at, 6);
    has(p.instructions[4], "likes tabs");
    for (size_t i = 0; i < 3; i++)
        cay_cap_free(caps[i]);
    support_home_remove(store);
}

static char phases[200];

static void note_phase(void *arg, const cay_memory_progress *q)
{
    size_t n = strlen(phases);
    assert_ptr_equal(arg, &p);
    snprintf(phases + n, sizeof phases - n, "%s %u/%u, ", q->phase, q->done, q->total);
}

static int count_box(const cay_info *i, void *arg)
{
    (void)i;
    ++*(int *)arg;
    return 0;
}

static void memories_are_made_behind_the_run(void **state)
{
    (void)state;
    char *store = support_home();
    cay_err err = CAY_ERR_INIT;
    int before = 0, after = 0;
    cay_memory_options o = { .size = sizeof o,
                             .read = true,
                             .generate = true,
                             .store = store,
                             .background = true,
                             .progress = note_phase,
                             .progress_arg = &p };
    cay_capability *caps[3] = { NULL, cay_cap_shell(NULL), cay_cap_filesystem(NULL) };
    assert_int_equal(cay_cap_memory(&o, &caps[0], &err), 0);
    cay_agent a = {
        .size = sizeof a, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 3
    };
    assert_int_equal(cay_client_list(client, NULL, NULL, count_box, &before, &err), 0);
    p.say[0] = TEXT("first");
    p.say[1] = EXTRACT("tabs", "They like tabs.", "Use tabs.");
    p.say[2] = CUSTOM(
        "m1", "apply_patch",
        "*** Begin Patch\\n*** Add File: memories/memory_summary.md\\n+likes tabs\\n*** End Patch");
    p.say[3] = TEXT("consolidated");
    p.say[4] = TEXT("second");
    p.say[5] = TEXT("no JSON at all");
    cay_run_result *r = run_conf(&a, "go", (cay_run_config){ .keep = false });
    assert_string_equal(r->output, "first");
    cay_run_result_free(r);
    assert_int_equal(cay_memory_wait(caps[0], NULL, &err), 0);
    assert_int_equal(p.at, 4);
    assert_string_equal(phases, "extract 0/1, consolidate 1/1, done 1/1, ");
    assert_int_equal(cay_client_list(client, NULL, NULL, count_box, &after, &err), 0);
    assert_int_equal(before, after); /* its sandbox went when it was done */
    /* What fails later is told by the next who waits, once. */
    cay_run_result_free(run_conf(&a, "go", (cay_run_config){ .keep = false }));
    assert_true(cay_memory_wait(caps[0], NULL, &err) < 0);
    has(p.instructions[4], "likes tabs");
    has(phases, "failed");
    assert_int_equal(cay_memory_wait(caps[0], NULL, &err), 0);
    assert_int_equal(cay_memory_wait(caps[1], NULL, &err), CAY_EINVAL);
    for (size_t i = 0; i < 3; i++)
        cay_cap_free(caps[i]);
    support_home_remove(store);
}

/* 78, and a summary of our own where the endpoint has none */
static void histories_are_cut(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "Coder", .sandbox = true };
    p.say[0] =
        "[{\"type\":\"compaction\",\"id\":\"cmp_1\",\"encrypted_content\":\"zzz\"}," CALL_ITEM(
            "c0", "exec_command", "{\\\"cmd\\\":\\\"true\\\"}") "]";
    p.say[1] = TEXT("done");
    cay_run_result_free(run_conf(&a, "the first words", (cay_run_config){ .sandbox = sb }));
    has(p.input[0], "the first words");
    has_not(p.input[1], "the first words");
    has(p.input[1], "[{\"type\":\"compaction\"");
    play_clear(&p);
    cay_model_free(model);
    p.functions = true;
    model = play_model(&p, "local");
    cay_compaction_options o = { .size = sizeof o, .threshold = 20000 };
    cay_capability *caps[] = { cay_cap_shell(NULL), cay_cap_compaction(&o) };
    cay_agent b = {
        .size = sizeof b, .name = "Coder", .sandbox = true, .capabilities = caps, .ncapabilities = 2
    };
    p.say[0] = CALL("c0", "exec_command", "{\\\"cmd\\\":\\\"seq 1 10000\\\"}");
    p.say[1] = CALL("c1", "exec_command", "{\\\"cmd\\\":\\\"seq 1 10000\\\"}");
    p.say[2] = TEXT("we counted"); /* the summary */
    p.say[3] = TEXT("done");
    cay_run_result_free(run_conf(&b, "the first words", (cay_run_config){ .sandbox = sb }));
    has(p.instructions[2], "condense");
    has(p.input[2], "the first words");
    has(p.input[3], "we counted");
    has_not(p.input[3], "the first words");
    for (size_t i = 0; i < 2; i++)
        cay_cap_free(caps[i]);
}

int main(int argc, char **argv)
{
    provider = argc > 1 ? argv[1] : "native";
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(the_default_set_is_there),
        T(commands_tell_output_and_code),
        T(shells_are_chosen),
        T(waiting_has_bounds),
        T(commands_are_typed_into),
        T(long_output_is_cut_to_its_budget),
        T(patches_are_carried_out),
        T(patches_do_not_leave_the_workspace),
        T(patches_work_as_functions_too),
        T(approval_of_patches),
        T(many_paths_ask_too),
        T(typing_asks_as_commands_do),
        T(images_are_looked_at),
        T(a_given_sandbox_stays_and_a_made_one_goes),
        T(a_run_comes_back_by_a_session_state),
        T(the_first_of_four_sandboxes_is_taken),
        T(a_run_that_cannot_be_makes_no_sandbox),
        T(an_agent_is_in_one_run_at_a_time),
        T(runs_begin_in_their_own_directory),
        T(a_run_goes_on_in_its_own_sandbox),
        T(agents_of_one_name_keep_their_own_sandboxes),
        T(a_manifest_is_put_in_and_told_of),
        T(a_capability_names_what_it_needs),
        T(an_mcp_server_has_a_sandbox),
        T(skills_are_listed_and_loaded),
        T(runs_become_memories),
        T(consolidating_runs_nothing),
        T(memories_outlive_their_sandbox),
        T(memories_are_made_behind_the_run),
        T(histories_are_cut),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
